//! A consumer as its session holds it: everything it says to its queue.

use super::QuorumQueue;
use super::modify::modify;
use super::turn::Turn;
use queue::machine::{Answer, Command, Outcome};
use queue::{CreditMode, LinkCredit, Return};
use queue_type::{AfterDetach, AttachRefused, Count, Got, Settled, Taker, Wakes};
use session::{ChannelId, ConsumerCredit, CreditRequest, MessageChanges, Settle};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use store::backlog::Lookup;

/// A consumer, or the taker of `basic.get`s of one channel, at its queue.
#[derive(Debug)]
pub struct Consumer {
    /// Queue of the consumer.
    pub queue: Arc<QuorumQueue>,
    /// The number that the machine knows the consumer by.
    pub(crate) id: u64,
    /// Channel of the consumer.
    pub channel: ChannelId,
    /// Whether a delivery to this consumer settles the message.
    pub is_no_ack: bool,
    is_active: Arc<AtomicBool>,
}

impl Consumer {
    pub(crate) const fn new(
        queue: Arc<QuorumQueue>,
        id: u64,
        channel: ChannelId,
        is_no_ack: bool,
        is_active: Arc<AtomicBool>,
    ) -> Self {
        Self { queue, id, channel, is_no_ack, is_active }
    }

    /// Whether it is given deliveries: not cancelled, by whomever, and no taker of `basic.get`s.
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Gives the next message to an outbox, if there is one and it is in memory.
    ///
    /// # Errors
    /// The queue is being deleted, or has a single active consumer.
    pub fn get(&self, taker: Taker<'_>) -> Result<Got, AttachRefused> {
        self.queue.with(|turn| turn.get(self, taker))
    }

    /// Resolves when the first ready message is in memory, or there is none.
    pub async fn next_in_memory(&self) {
        poll_fn(|context| {
            self.queue.with(|turn| {
                let next = turn.state.machine.facts().ready().next();
                let is_cold = |next| matches!(turn.state.content.backlog.get(next), Lookup::Cold);
                if turn.state.is_deleted || !next.is_some_and(is_cold) {
                    return Poll::Ready(());
                }
                turn.state.paging.wait(context.waker());
                Poll::Pending
            })
        })
        .await;
    }

    /// Works off what it says about messages it was given. Unknown ones are passed over.
    pub fn settle(&self, settles: &[Settle], wakes: &mut Wakes) -> Settled {
        self.queue.with_wakes(wakes, |turn| {
            for run in settles.chunk_by(|a, b| a.outcome == b.outcome) {
                let Some(Settle { outcome, .. }) = run.first() else { continue };
                let outcome = outcome_of(*outcome);
                if outcome == Outcome::Accepted {
                    self.queue.counters.tally.add(Count::Acked, run.len() as u64);
                }
                turn.settle(self.id, outcome, run.iter().map(|settle| settle.position.0));
            }
        });
        Settled::All
    }

    /// Settles messages with one outcome, and changes them. Unknown ones are passed over.
    pub fn modify(&self, settles: &[Settle], changes: &MessageChanges, wakes: &mut Wakes) {
        let Some(Settle { outcome, .. }) = settles.first() else { return };
        self.queue.with_wakes(wakes, |turn| {
            modify(turn, self.id, outcome_of(*outcome), settles, changes);
        });
    }

    /// Ends its deliveries; what it holds stays held. `told` runs under the lock, after the last delivery.
    pub fn cancel(&self, told: impl FnOnce()) -> AfterDetach {
        self.queue.with(|turn| {
            turn.stop_feeding(std::iter::once(self.id));
            told();
        });
        AfterDetach::Stays
    }

    /// Takes it away for good if it gets nothing any more and holds nothing; true when it did.
    #[must_use]
    pub fn detach_idle(&self) -> bool {
        self.queue.with(|turn| turn.detach_idle(self.id))
    }

    /// Changes its prefetch limit.
    pub fn set_prefetch(&self, prefetch: Option<u32>) {
        let prefetch = prefetch.unwrap_or(0);
        self.queue.with(|turn| {
            let feed = turn.state.members.feed_mut(self.id);
            if let Some(feed) =
                feed.filter(|it| it.channel.checkout.credit_mode != CreditMode::Link)
            {
                let limit = Some(prefetch).filter(|it| *it > 0);
                feed.channel.checkout.credit_mode = CreditMode::of_prefetch(limit);
                turn.apply(&Command::Prefetch { consumer: self.id, prefetch });
            }
        });
    }

    /// Takes its link credit as its client sees it. The client is told what is left, if it wishes, behind
    /// what this gives to the consumer.
    pub fn flow(&self, request: &CreditRequest) {
        let CreditRequest { delivery_count, credit, drain, echo, .. } = *request;
        self.queue.with(|turn| {
            if turn.state.members.feed_mut(self.id).is_none() {
                return;
            }
            let seen = LinkCredit { delivery_count, credit };
            let counted = turn.state.machine.facts().link(self.id).map(|it| it.credit);
            turn.apply(&Command::Flow { consumer: self.id, seen, drain });
            let Some(Answer::Flowed { credit, n_ready, .. }) = turn.take_answer() else { return };
            let n_beyond = counted.map_or(0, |counted| counted.n_beyond(seen));
            take_back(turn, self.id, n_beyond as usize);
            turn.hand_over();
            let is_active = turn.state.machine.facts().link(self.id).and_then(|it| it.is_active);
            let Some(feed) = turn.state.members.feed_mut(self.id) else { return };
            let pending = feed.credit.take();
            let is_active = is_active.and_then(|is_active| feed.channel.note_active(is_active));
            if drain || echo || is_active.is_some() || pending.is_some() {
                let LinkCredit { delivery_count, credit } = credit;
                let available = u32::try_from(n_ready).unwrap_or(u32::MAX);
                let is_active = is_active.or_else(|| pending.and_then(|it| it.is_active));
                feed.credit =
                    Some(ConsumerCredit { delivery_count, credit, available, drain, is_active });
                turn.feed(self.id);
            }
        });
    }

    /// Resumes deliveries after the consumer's connection has room again.
    pub fn resume(&self) {
        self.queue.with(|turn| {
            if let Some(feed) = turn.state.members.feed_mut(self.id) {
                feed.channel.room.reopen();
                turn.feed(self.id);
            }
        });
    }
}

/// Takes back the last messages that wait for a consumer: its client allows so many fewer deliveries now.
/// Those that an untold drain has waited for stay: their credit is used up.
fn take_back(turn: &mut Turn<'_>, consumer: u64, n_beyond: usize) {
    let Some(feed) = turn.state.members.feed_mut(consumer) else { return };
    if n_beyond == 0 || feed.credit.is_some_and(|told| told.drain) {
        return;
    }
    let n_stay = feed.waiting.len().saturating_sub(n_beyond);
    let unsent: Vec<u64> = feed.waiting.drain(n_stay..).map(|it| it.number).collect();
    turn.settle(consumer, Outcome::Unsent, unsent.into_iter());
}

/// The machine's word for an outcome. COMPAT: what is given back by `basic.nack` was not tried.
const fn outcome_of(outcome: session::Outcome) -> Outcome {
    match outcome {
        session::Outcome::Accepted => Outcome::Accepted,
        session::Outcome::Rejected => Outcome::Rejected(Return::Failed),
        session::Outcome::Modified => Outcome::Returned(Return::Failed),
        session::Outcome::Released => Outcome::Returned(Return::Released),
    }
}
