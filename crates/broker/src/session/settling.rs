//! Settlements of a client: gathered from a read, and told to their queues together.

use super::client::Client;
use super::links::{Links, SETTLES_AT_ONCE};
use super::turn::Turn;
use queue_type::{Count, Settled};
use queues::{LinkRef, QueueRef, ReturningRef};
use session::{
    ChannelId, Error, Event, LinkEvent, LinkId, Modification, Outcome, Position, Settle,
};

/// Messages that are settled with changes under one lock.
const MODIFIES_AT_ONCE: usize = 64;
/// Work of settling a message with changes, at most, in that of settling one without.
const WORK_PER_MODIFY: usize = 64;

/// Settlements that were not told to their queues yet.
#[derive(Debug, Default)]
pub(super) struct Settling {
    settles: Vec<Settle>,
    /// A channel that gave back what its queue's mode does not take back.
    refused: Option<(ChannelId, Error)>,
}

impl Settling {
    #[inline]
    pub(super) fn add(&mut self, settle: Settle) {
        self.settles.push(settle);
    }

    /// Adds all of these, and empties the list.
    pub(super) fn append(&mut self, settles: &mut Vec<Settle>) {
        self.settles.append(settles);
    }

    /// A channel that is to be closed since it gave back what it may not.
    pub(super) fn take_refused(&mut self) -> Option<(ChannelId, Error)> {
        self.refused.take()
    }

    /// Tells the queues; of very many settlements others have their turn in between.
    pub(super) async fn flush(&mut self, client: &mut Client, links: &mut Links) {
        if self.settles.len() > SETTLES_AT_ONCE {
            Box::pin(self.flush_many(client, links)).await;
        } else {
            self.flush_few(client, links);
        }
    }

    /// Tells the queues.
    pub(super) fn flush_few(&mut self, client: &mut Client, links: &mut Links) {
        if self.settles.is_empty() {
            return;
        }
        let mut settles = self.take_settles();
        for run in settles.chunk_by(|a, b| a.link == b.link) {
            links.make_room(&client.channels, run);
            trace_settles(client, links, run);
            self.settle_part(&mut client.turn, links, run);
            after_settling(client, links, run);
        }
        settles.clear();
        self.settles = settles;
    }

    /// As [`Settling::flush_few`]; others have their turn in between.
    pub(super) async fn flush_many(&mut self, client: &mut Client, links: &mut Links) {
        let settles = self.take_settles();
        for run in settles.chunk_by(|a, b| a.link == b.link) {
            links.make_room(&client.channels, run);
            trace_settles(client, links, run);
            for alike in run.chunk_by(|a, b| goes_back(a) == goes_back(b)) {
                let _returning = begin_return(links, alike);
                for part in alike.chunks(SETTLES_AT_ONCE) {
                    self.settle_part(&mut client.turn, links, part);
                    client.turn.did(part.len()).await;
                }
            }
            after_settling(client, links, run);
        }
    }

    /// Settles with changes, which only quorum queues keep.
    pub(super) async fn modify(
        &mut self,
        client: &mut Client,
        links: &mut Links,
        modification: &Modification,
    ) {
        let Modification { link, positions, outcome, changes } = modification;
        let Some(channel) = links.get(*link).map(LinkRef::channel) else { return };
        let settled = |position: &Position| Settle {
            channel,
            link: *link,
            position: *position,
            outcome: *outcome,
        };
        for part in positions.chunks(MODIFIES_AT_ONCE) {
            let part: Vec<Settle> = part.iter().map(settled).collect();
            links.make_room(&client.channels, &part);
            trace_settles(client, links, &part);
            if let Some(link) = links.get(*link) {
                let settled = link.modify(&part, changes, client.turn.wakes());
                self.note(&client.turn, settled, link, &part);
            }
            client.turn.did(part.len() * WORK_PER_MODIFY).await;
            after_settling(client, links, &part);
        }
    }

    fn note(&mut self, turn: &Turn, settled: Settled, link: &LinkRef, part: &[Settle]) {
        let channel = link.channel();
        match settled {
            Settled::All => {}
            Settled::NotByThisMode => {
                let what = "basic.reject and basic.nack";
                self.refused = Some((channel, not_by_this_mode(what, &link.queue())));
            }
            Settled::NotOnThisLink => {
                let error = not_on_this_link(&link.queue());
                let link = part.first().map_or(LinkId(0), |settle| settle.link);
                let refused = LinkEvent::OutcomeRefused { channel, link, error };
                turn.tell(|sink| sink.event(Event::Link(refused.clone())));
            }
        }
    }

    /// Settlements, by link.
    fn take_settles(&mut self) -> Vec<Settle> {
        let mut settles = std::mem::take(&mut self.settles);
        let first = settles.first().map(|settle| settle.link);
        if settles.iter().any(|settle| Some(settle.link) != first) {
            // Unlike a stable sort this one needs no memory; to a queue the order makes no difference.
            settles.sort_unstable_by_key(|settle| (settle.link, settle.position));
        }
        settles
    }

    /// Settles on one link, under one lock.
    fn settle_part(&mut self, turn: &mut Turn, links: &Links, part: &[Settle]) {
        stdx::walk::step("settle");
        let link = part.first().and_then(|settle| links.counted(settle.link));
        let Some((link, tally)) = link else { return };
        if !link.is_no_ack() {
            let n = part.iter().filter(|settle| settle.outcome == Outcome::Accepted).count();
            tally.add(Count::Acked, n as u64);
        }
        let settled = link.settle(part, turn.wakes());
        self.note(turn, settled, link, part);
    }
}

/// Makes spans of settlements on one link, where there are spans.
fn trace_settles(client: &Client, links: &Links, run: &[Settle]) {
    let tracing = &client.access.broker.timers.tracing;
    if tracing.is_any()
        && let Some(spans) = tracing.spans()
        && let Some(link) = run.first().and_then(|settle| links.get(settle.link))
    {
        spans.settled(client.access.connection.id, link.queue().def(), run);
    }
}

/// Messages that go back in several parts go together: nobody is to be given what stands behind them.
fn begin_return(links: &Links, alike: &[Settle]) -> Option<ReturningRef> {
    let first = alike.first().filter(|it| goes_back(it) && alike.len() > SETTLES_AT_ONCE)?;
    Some(links.get(first.link)?.begin_return())
}

fn after_settling(client: &mut Client, links: &mut Links, run: &[Settle]) {
    let Some(id) = run.first().map(|settle| settle.link) else { return };
    let Some(link) = links.get(id) else { return };
    if !link.is_active() && link.detach_idle() {
        links.forget(&mut client.channels, id);
    }
}

/// Whether a message goes back to its queue.
const fn goes_back(settle: &Settle) -> bool {
    matches!(settle.outcome, Outcome::Modified | Outcome::Released)
}

/// A link's consumer does not accept what its queue has no record of.
pub(super) fn not_on_this_link(queue: &QueueRef) -> Error {
    not_by_this_mode("outcomes other than accepted", queue)
}

/// A consumer rejected what its queue has no record of.
fn not_by_this_mode(what: &str, queue: &QueueRef) -> Error {
    let text = format!(
        "{what} are not implemented for {}: it confirms on {} (x-confirm-on)",
        queue.def().resource(),
        queue.confirm_on().as_str()
    );
    Error::new(session::ErrorKind::NotImplementedByMode, text)
}
