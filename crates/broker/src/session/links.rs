//! The links of a client: what ties its deliveries to queues.

use super::Handled;
use super::access::Access;
use super::channels::{Channel, Channels, Tx};
use super::client::Client;
use super::publisher_links::PublisherLinks;
use super::turn::Turn;
use crate::broker::ConsumerName;
use control::slices::SLICE;
use meta::QueueId;
use queue::Return;
use queue_type::{AfterDetach, Tally};
use queues::{LinkRef, ReleaseRef};
use routing::{Binding, Destination};
use session::{ChannelId, CreditRequest, Error, Event, LinkId, MethodTag, Request, TOPIC_EXCHANGE};
use std::collections::{HashMap, HashSet};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trace::events::EventHeaders;

/// The steps of filters of messages after which other connections have their turn: a millisecond or two.
const RESUME_STEPS_MAX: usize = 200_000;

/// The bindings of a queue that are looked at: a subscription's has one.
pub(super) const SUBSCRIPTION_BINDINGS_MAX: usize = 16;

/// Messages that are settled or come back under one lock; one read has fewer that name one each.
pub(crate) const SETTLES_AT_ONCE: usize = 4096;

/// The links of all channels.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: HashMap<LinkId, Entry>,
    last: u64,
    /// Publishers, if the client attaches them as links.
    pub(super) publishers: Option<Box<PublisherLinks>>,
}

#[derive(Debug)]
struct Entry {
    link: LinkRef,
    tally: Arc<Tally>,
    /// The prefetch limit of a consumer that acknowledges; `u32::MAX` without one.
    prefetch: u32,
}

impl Links {
    pub(super) fn next_id(&mut self) -> LinkId {
        self.last += 1;
        LinkId(self.last)
    }

    pub(super) fn get(&self, id: LinkId) -> Option<&LinkRef> {
        self.links.get(&id).map(|entry| &entry.link)
    }

    /// A link, and where its channel counts what goes over it.
    pub(super) fn counted(&self, id: LinkId) -> Option<(&LinkRef, &Arc<Tally>)> {
        self.links.get(&id).map(|entry| (&entry.link, &entry.tally))
    }

    pub(super) fn get_mut(&mut self, id: LinkId) -> Option<&mut LinkRef> {
        self.links.get_mut(&id).map(|entry| &mut entry.link)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&LinkId, &LinkRef)> {
        self.links.iter().map(|(id, entry)| (id, &entry.link))
    }

    pub(super) fn insert(&mut self, id: LinkId, link: LinkRef, tally: Arc<Tally>) {
        self.links.insert(id, Entry { link, tally, prefetch: u32::MAX });
    }

    /// The lowest prefetch limit of all consumers that acknowledge; `u32::MAX` without one.
    pub(super) fn prefetch_min(&self) -> u32 {
        self.links.values().map(|entry| entry.prefetch).min().unwrap_or(u32::MAX)
    }

    /// Notes the prefetch limit of a consumer; `None` if it has none, or gets no deliveries any more.
    pub(super) fn note_prefetch(&mut self, id: LinkId, prefetch: Option<u32>) {
        if let Some(entry) = self.links.get_mut(&id).filter(|entry| !entry.link.is_no_ack()) {
            entry.prefetch = prefetch.unwrap_or(u32::MAX);
        }
    }

    /// Records which deliveries the requests from `index` on settle: they may not be carried out, if their
    /// channel or the connection ends, and the client's outbox does not know these deliveries any more.
    /// Queues that keep no record of a link's unacked messages learn of them here.
    pub(super) fn record_unheard(&self, requests: &[Request], index: usize) {
        for request in requests.get(index..).unwrap_or_default() {
            if let Request::Settle(settle) = request
                && let Some(link) = self.get(settle.link)
            {
                link.record(std::iter::once(settle.position.0));
            }
        }
    }

    /// Removes a link that has no unacked messages and gets no deliveries any more.
    pub(super) fn forget(&mut self, channels: &mut Channels, id: LinkId) {
        let Some(Entry { link, .. }) = self.links.remove(&id) else { return };
        let Some(channel) = channels.get_mut(link.channel()) else { return };
        channel.links.remove(&id);
        let gets = (link.def().id, link.is_no_ack());
        if channel.gets.get(&gets) == Some(&id) {
            channel.gets.remove(&gets);
        }
    }

    /// Resumes deliveries on these links, since the client has read. False if filters have had enough steps:
    /// the rest of the links are noted again in the outbox.
    pub(super) fn resume(&self, client: &Client, links: &[LinkId]) -> bool {
        let (mut n_steps, mut left) = (0, links.iter());
        while n_steps < RESUME_STEPS_MAX
            && let Some(id) = left.next()
        {
            match self.get(*id) {
                Some(link) => n_steps += link.resume(),
                None => {
                    let token = client.reply_token(*id);
                    token.into_iter().for_each(|it| client.access.broker.replies.resume(it));
                }
            }
        }
        client.turn.tell(|sink| left.clone().for_each(|id| sink.readable(*id)));
        n_steps < RESUME_STEPS_MAX
    }

    /// COMPAT: `global` limits each consumer, as in RabbitMQ 4.3, and also those that exist already: Celery
    /// raises its limit in this way while tasks wait for their time.
    pub(super) fn set_prefetch_of_consumers(&mut self, channels: &Channels, channel: ChannelId) {
        let prefetch = channels.prefetch(channel);
        for id in channels.get(channel).into_iter().flat_map(|open| &open.links) {
            if let Some(link) = self.get(*id).filter(|link| link.is_active()) {
                link.set_prefetch(prefetch);
                self.note_prefetch(*id, prefetch);
            }
        }
    }

    /// Requeues the unacked messages of a channel, except those that its transaction has settled already.
    /// COMPAT: the answer goes ahead of the redeliveries.
    pub(super) async fn recover(
        &mut self,
        client: &mut Client,
        channel: ChannelId,
        origin: MethodTag,
    ) -> Result<Handled, Error> {
        let answered = client.turn.answer(Event::Done { channel, origin })?;
        let Some(open) = client.channels.get(channel) else { return Ok(answered) };
        let mut settled = open.tx.as_deref().map(Tx::settled_by_link).unwrap_or_default();
        // Deliveries without acknowledgement are on their way and do not come back.
        let links = open.links.iter().filter_map(|id| Some((*id, self.get(*id)?)));
        let mut links: Vec<_> = links.filter(|(_, link)| !link.is_no_ack()).collect();
        links.sort_by_key(|(_, link)| link.def().id);
        for of_queue in links.chunk_by(|(_, a), (_, b)| a.is_at_queue_of(b)) {
            let consumers =
                of_queue.iter().map(|(id, link)| (*link, settled.remove(id).unwrap_or_default()));
            if let Some(mut release) = ReleaseRef::of(consumers) {
                give_back_many(&mut client.turn, &mut release, Return::Released).await;
                release.requeue_all();
            }
        }
        self.make_room_after_recovery(&client.channels, channel);
        client.turn.tell(|sink| sink.released(channel));
        Ok(answered)
    }

    /// Releases the links of a closed channel: its consumers go, its unacked messages return to their queues.
    pub(super) async fn release(&mut self, client: &mut Client, id: ChannelId, closed: &Channel) {
        end_publishers(self, client, .., id).await;
        for (consumer_tag, link) in &closed.consumers {
            if let Some(link) = self.get(*link) {
                let consumer = ConsumerName { queue: &link.def().name, tag: consumer_tag };
                tell_consumer(&client.access, "consumer.deleted", id, consumer, |it| it);
            }
        }
        client.access.broker.events().channel("channel.closed", &client.access.connection, id);
        for (id, settled) in closed.tx.as_deref().map(Tx::settled_by_link).unwrap_or_default() {
            if let Some(link) = self.get(id) {
                link.record(settled.into_iter());
            }
        }
        let ids = closed.links.iter();
        let links = ids.filter_map(|id| Some(self.links.remove(id)?.link)).collect();
        let unused = detach_all(&mut client.turn, links, Return::Failed).await;
        client.access.broker.changes().drop_queues(&unused).await;
    }
}

/// Says how many publishers are attached as links.
pub(super) fn tell_publishers(publishers: &PublisherLinks, client: &Client) {
    let n = u32::try_from(publishers.attached.len()).unwrap_or(u32::MAX);
    client.access.connection.n_publisher_links.store(n, Ordering::Relaxed);
}

/// Ends publishers of a channel, and what was made for them.
pub(super) async fn end_publishers(
    links: &mut Links,
    client: &mut Client,
    ids: impl RangeBounds<LinkId>,
    channel: ChannelId,
) {
    let Some(publishers) = &mut links.publishers else { return };
    let ended = publishers.attached.extract_if(ids, |_, it| it.channel == channel);
    let made: Vec<QueueId> = ended.filter_map(|(_, publisher)| publisher.made).collect();
    tell_publishers(publishers, client);
    for made in made {
        end_made(links, client, made).await;
    }
}

/// Deletes a queue that was made for a publisher, and the client's subscriptions to the topic that the queue
/// stands for, if it does.
async fn end_made(links: &Links, client: &mut Client, made: QueueId) {
    client.access.refresh();
    let Some(queue) = client.access.view.queue_by_id(made) else { return };
    let routes = client.access.view.meta.routes(&client.access.vhost());
    let is_of_topic = |it: &Arc<Binding>| {
        &*it.source == TOPIC_EXCHANGE && it.key[..] == *queue.def().name.as_bytes()
    };
    let mut ended = vec![made];
    for (_, link) in links.iter() {
        let destination = Destination::Queue(link.def().id);
        let bindings = routes.iter().flat_map(|it| it.bindings_to(&destination));
        if bindings.take(SUBSCRIPTION_BINDINGS_MAX).any(is_of_topic) {
            ended.push(link.def().id);
        }
    }
    client.turn.did_steps(links.links.len() * SUBSCRIPTION_BINDINGS_MAX).await;
    client.access.broker.changes().drop_queues(&ended).await;
}

/// Takes a link's credit as its client sees it.
pub(super) fn take_credit(links: &Links, client: &Client, request: &CreditRequest) {
    if let Some(link) = links.get(request.link) {
        link.flow(request);
    } else if let Some(token) = client.reply_token(request.link) {
        client.access.broker.replies.flow(token, request);
    }
}

/// Forgets a link that gets no deliveries any more, and gives back to its queue the messages it holds.
pub(super) async fn give_back_link(links: &mut Links, client: &mut Client, id: LinkId) {
    let Some(Entry { link, .. }) = links.links.remove(&id) else { return };
    if let Some(channel) = client.channels.get_mut(link.channel()) {
        channel.links.remove(&id);
    }
    let Some(release) = ReleaseRef::of(std::iter::once((&link, HashSet::new()))) else { return };
    // COMPAT: a link that ends by itself has not failed to settle what it held.
    let after = detach(&mut client.turn, release, Return::Released).await;
    if after == AfterDetach::DeleteQueue {
        client.access.broker.changes().drop_queue(link.def().id).await;
    }
}

/// Detaches links, of each queue all together. Returns the queues that are to be deleted, since their last
/// consumers have gone.
pub(crate) async fn detach_all(
    turn: &mut Turn,
    mut links: Vec<LinkRef>,
    how: Return,
) -> Vec<QueueId> {
    links.sort_by_key(|link| link.def().id);
    let mut unused = Vec::new();
    for of_queue in links.chunk_by(LinkRef::is_at_queue_of) {
        let consumers = of_queue.iter().map(|link| (link, HashSet::new()));
        let Some(release) = ReleaseRef::of(consumers) else { continue };
        if detach(turn, release, how).await == AfterDetach::DeleteQueue {
            unused.extend(of_queue.first().map(|link| link.def().id));
        }
        turn.did_steps(of_queue.len()).await;
    }
    unused
}

/// Detaches the consumers of one channel at one queue. Their unacked messages come back together; of very
/// many consumers, those without unacked messages go before, in slices.
async fn detach(turn: &mut Turn, mut release: ReleaseRef, how: Return) -> AfterDetach {
    let mut after = AfterDetach::Stays;
    if release.n_consumers() > SLICE {
        // The single active one is likely to be the first: it goes last, rather than pass its part
        // on among them.
        let mut n = SLICE;
        while let Some(of_slice) = release.retire(n) {
            after = after.or(of_slice);
            turn.did_steps(n).await;
            n = SLICE.min(release.n_consumers());
        }
    }
    give_back_many(turn, &mut release, Return::Failed).await;
    after.or(release.detach(how))
}

/// Has consumers give back in slices what they hold, if it is very much, except what each keeps. No consumer
/// gets any of it before the release has come to its end.
pub(crate) async fn give_back_many(turn: &mut Turn, release: &mut ReleaseRef, how: Return) {
    if !release.is_of_more_than(SETTLES_AT_ONCE) {
        return;
    }
    loop {
        match release.give_back(SETTLES_AT_ONCE, how) {
            0 => return,
            n => turn.did(n).await,
        }
    }
}

pub(super) fn tell_consumer(
    access: &Access,
    event: &'static str,
    channel: ChannelId,
    consumer: ConsumerName<'_>,
    more: impl FnOnce(EventHeaders) -> EventHeaders,
) {
    access.broker.events().consumer(event, &access.connection, channel, consumer, more);
}
