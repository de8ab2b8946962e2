//! The links of a client: what ties its deliveries to queues.

use super::Handled;
use super::access::Access;
use super::channels::{Channel, Channels, Link, Tx};
use super::client::Client;
use super::turn::Turn;
use crate::broker::EventHeaders;
use crate::slices::SLICE;
use classic::{AfterDetach, Queue, Returning};
use queue::{ConsumerKey, Return};
use session::{ChannelId, Error, Event, LinkId, MethodTag, Request, ShortString};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Messages that are settled or come back under one lock; one read has fewer that name one each.
pub(super) const SETTLES_AT_ONCE: usize = 4096;

/// The links of all channels.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: HashMap<LinkId, Link>,
    last: u64,
}

impl Links {
    pub(super) fn next_id(&mut self) -> LinkId {
        self.last += 1;
        LinkId(self.last)
    }

    pub(super) fn get(&self, id: LinkId) -> Option<&Link> {
        self.links.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&LinkId, &Link)> {
        self.links.iter()
    }

    pub(super) fn insert(&mut self, id: LinkId, link: Link) {
        self.links.insert(id, link);
    }

    /// Requests after this one may not be heard, if its channel or the connection ends, and is
    /// unknown to the client's outbox all the same: queues that keep no record of what a consumer holds
    /// now have one of what it is settled there.
    pub(super) fn record_unheard(&self, requests: &[Request], index: usize) {
        for request in requests.get(index..).unwrap_or_default() {
            if let Request::Settle(settle) = request
                && let Some(link) = self.get(settle.link)
            {
                link.queue.record(link.consumer, std::iter::once(settle.position.0));
            }
        }
    }

    /// Nothing is held on a link any more, and nothing will be.
    pub(super) fn forget(&mut self, channels: &mut Channels, id: LinkId) {
        let Some(link) = self.links.remove(&id) else { return };
        let Some(channel) = channels.get_mut(link.channel) else { return };
        channel.links.remove(&id);
        let gets = (link.queue.id(), link.no_ack);
        if channel.gets.get(&gets) == Some(&id) {
            channel.gets.remove(&gets);
        }
    }

    /// Deliveries on these links may go on: the client has read.
    pub(super) fn resume(&self, client: &Client, links: &[LinkId]) {
        for id in links {
            match self.links.get(id) {
                Some(link) => link.queue.resume(link.consumer),
                None => {
                    let connection = client.access.connection().id;
                    client.access.broker().replies.resume(connection, *id);
                }
            }
        }
    }

    /// COMPAT: `global` limits each consumer, as RabbitMQ 4.3 has it, but those that are there
    /// already too: Celery raises its limit in this way while tasks wait for their time.
    pub(super) fn set_prefetch_of_consumers(&self, channels: &Channels, channel: ChannelId) {
        let prefetch = channels.prefetch(channel);
        let links = channels.get(channel).into_iter().flat_map(|open| &open.links);
        for link in links.filter_map(|id| self.links.get(id)).filter(|link| link.active) {
            link.queue.set_prefetch(link.consumer, prefetch);
        }
    }

    /// Everything unsettled on the channel goes back to its queues, but for what its transaction
    /// has settled already. COMPAT: the answer goes ahead of what comes again.
    pub(super) async fn recover(
        &mut self,
        client: &mut Client,
        channel: ChannelId,
        origin: MethodTag,
    ) -> Result<Handled, Error> {
        let mut queues: BTreeMap<_, (Arc<Queue>, Vec<_>)> = BTreeMap::new();
        let answered = client.turn.answer(Event::Done { channel, origin })?;
        let Some(open) = client.channels.get(channel) else { return Ok(answered) };
        let mut settled = open.tx.as_deref().map(Tx::settled_by_link).unwrap_or_default();
        for id in &open.links {
            let settled = settled.remove(id).unwrap_or_default();
            // What nobody acknowledges is on its way.
            if let Some(link) = self.links.get(id).filter(|link| !link.no_ack) {
                let of_queue = queues.entry(link.queue.id());
                let (_, consumers) =
                    of_queue.or_insert_with(|| (Arc::clone(&link.queue), Vec::new()));
                consumers.push((link.consumer, settled));
            }
        }
        for (queue, consumers) in queues.values() {
            let _returning =
                give_back_many(&mut client.turn, queue, consumers, Return::Released).await;
            queue.requeue_all(consumers);
        }
        self.make_room_after_recovery(&client.channels, channel);
        client.turn.tell(|sink| sink.released(channel));
        Ok(answered)
    }

    /// Gives back what a closed channel holds: its consumers go, unsettled messages return to their
    /// queues.
    pub(super) async fn release(&mut self, client: &mut Client, id: ChannelId, closed: &Channel) {
        for (consumer_tag, link) in &closed.consumers {
            if let Some(link) = self.links.get(link) {
                let consumer = (&*link.queue, consumer_tag);
                tell_consumer(&client.access, "consumer.deleted", id, consumer, |it| it);
            }
        }
        client.access.broker().events().channel("channel.closed", client.access.connection(), id);
        for (id, settled) in closed.tx.as_deref().map(Tx::settled_by_link).unwrap_or_default() {
            if let Some(link) = self.links.get(&id) {
                link.queue.record(link.consumer, settled.into_iter());
            }
        }
        let ids = closed.links.iter();
        let mut links: Vec<Link> = ids.filter_map(|id| self.links.remove(id)).collect();
        links.sort_by_key(|link| link.queue.id());
        for of_queue in links.chunk_by(|a, b| a.queue.id() == b.queue.id()) {
            let Some(Link { queue, .. }) = of_queue.first() else { continue };
            if detach(&mut client.turn, queue, of_queue).await == AfterDetach::DeleteQueue {
                client.access.broker().drop_queue(queue).await;
            }
            client.turn.did_steps(of_queue.len()).await;
        }
    }
}

/// Takes the consumers of one channel and one queue away. What they hold comes back together; of
/// very many, those that hold nothing go before, in slices.
async fn detach(turn: &mut Turn, queue: &Arc<Queue>, links: &[Link]) -> AfterDetach {
    let mut consumers: Vec<ConsumerKey> = links.iter().map(|link| link.consumer).collect();
    let mut after = AfterDetach::Stays;
    if consumers.len() > SLICE {
        let mut holding = Vec::new();
        // The single active one is likely to be the first: it goes last, rather than pass its part
        // on among them.
        for slice in consumers.rchunks(SLICE) {
            after = after.or(queue.retire(slice, &mut holding));
            turn.did_steps(slice.len()).await;
        }
        consumers = holding;
    }
    let all: Vec<_> = consumers.iter().map(|consumer| (*consumer, HashSet::new())).collect();
    let _returning = give_back_many(turn, queue, &all, Return::Failed).await;
    after.or(queue.detach(&consumers))
}

/// Has consumers give back in slices what they hold, if it is very much, but for what is to be kept
/// of each. Nobody is given any of it until what is returned is dropped.
async fn give_back_many(
    turn: &mut Turn,
    queue: &Arc<Queue>,
    consumers: &[(ConsumerKey, HashSet<u64>)],
    how: Return,
) -> Option<Returning> {
    if queue.counters.n_unacked.load(Ordering::Relaxed) <= SETTLES_AT_ONCE as u64 {
        return None;
    }
    let returning = Returning::begin(queue);
    for part in queue.held_by(consumers).chunks(SETTLES_AT_ONCE) {
        queue.give_back(part, how);
        turn.did(part.len()).await;
    }
    Some(returning)
}

pub(super) fn tell_consumer(
    access: &Access,
    event: &str,
    channel: ChannelId,
    (queue, consumer_tag): (&Queue, &ShortString),
    more: impl FnOnce(EventHeaders) -> EventHeaders,
) {
    let (by, queue) = ((&**access.connection(), channel), &queue.def().name);
    access.broker().events().consumer(event, by, (queue, consumer_tag), more);
}
