//! What a queue's lock guards: core, content and consumers, and the order things happen in.

use super::older::{Keeping, Kept, KeptTogether, store_body};
use super::paging::Paging;
use super::{AfterDetach, AttachRefused, ConsumerView, Get, Got, Queue, Wakes, position};
use crate::admin::{DeleteConditions, QueueRefused};
use crate::bodies::BodyHome;
use crate::confirm::Awaited;
use crate::entries::{self, SegmentCounts};
use log::SegmentId;
use message::MessageRef;
use meta::{ConnectionId, QueueDef};
use queue::{Assigned, Checkout, ConsumerKey, Fifo, PositionRange, PositionSet, Settling};
use session::{
    ChannelId, Delivery, Event, LinkId, Outbox, Outcome, Room, Settle, ShortString, Sink, Table,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::Queued;
use store::backlog::{Backlog, FreedPage, Lookup, PageNote, PagePool, RestoreError};
use store::blob::BlobId;

/// Messages assigned before they are handed to outboxes: bounds the scratch list.
const HAND_OVER_MESSAGES_MAX: usize = 1_024;
/// What a consumer's outbox is believed to take before it has said so itself.
const FIRST_ROOM_BYTES: i64 = 256 * 1024;

/// A message on its way in.
pub(crate) struct Incoming<'a> {
    pub(crate) message: MessageRef<'a>,
    /// Where its body is stored, once, if it is logged.
    pub(crate) home: Option<&'a BodyHome>,
    /// Somebody waits for it to be durable.
    pub(crate) confirm: bool,
}

/// Messages on their way in: what one socket read holds for one queue.
#[derive(Clone, Copy)]
pub(crate) struct Publishes<'b, 'a> {
    /// Names of the messages, in order; never none.
    pub(crate) items: &'b [u32],
    /// The message of a name.
    pub(crate) resolve: &'b dyn Fn(u32) -> Incoming<'a>,
    /// Whether any of them is persistent.
    pub(crate) any_logged: bool,
    /// Whether any of them has a home for its body.
    pub(crate) any_stored: bool,
}

/// A consumer on its way in.
pub(crate) struct Attach<'a> {
    pub(crate) checkout: Checkout,
    pub(crate) connection: ConnectionId,
    pub(crate) channel: ChannelId,
    pub(crate) link: LinkId,
    pub(crate) outbox: &'a Arc<dyn Outbox>,
    pub(crate) consumer_tag: &'a ShortString,
    pub(crate) exclusive: bool,
    pub(crate) arguments: Table,
    /// Whether the client waits for an answer.
    pub(crate) answer: bool,
}

/// The channel a consumer belongs to.
pub(crate) type Owner = (ConnectionId, ChannelId);

/// A consumer's place outside the core.
struct Host {
    connection: ConnectionId,
    channel: ChannelId,
    link: LinkId,
    outbox: Arc<dyn Outbox>,
    consumer_tag: ShortString,
    checkout: Checkout,
    exclusive: bool,
    arguments: Table,
    /// What its outbox takes, as of its last word.
    room_bytes: i64,
    /// Paused by us because `room_bytes` ran out; its outbox was not asked yet.
    held_back: bool,
}

/// One assignment, waiting to be handed to its outbox.
#[derive(Clone, Copy)]
struct Handed {
    assigned: Assigned,
    /// Index of the incoming message, when it was not stored.
    incoming: Option<u32>,
}

/// The state under a queue's lock.
pub(crate) struct Local {
    pub(super) fifo: Fifo,
    pub(super) backlog: Backlog,
    pub(super) paging: Paging,
    pub(super) keeping: Keeping,
    /// Indexed by consumer key.
    hosts: Vec<Option<Host>>,
    /// Whose each consumer is, also those that only hold messages; indexed by consumer key.
    owners: Vec<Option<Owner>>,
    handed: Vec<Handed>,
    /// Logged positions that are gone and not yet noted in the log.
    settled: Vec<u64>,
    /// Log entries nobody needs any more, not yet told to the log.
    freed: SegmentCounts,
    /// Page images nobody needs once the log knows what is gone.
    freed_pages: Vec<FreedPage>,
    /// Likewise bodies.
    freed_bodies: Vec<BlobId>,
    scratch: Vec<u8>,
    restoring: PositionSet,
    had_consumer: bool,
    deleted: bool,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("fifo", &self.fifo).finish_non_exhaustive()
    }
}

impl Local {
    pub(super) fn new(keeping: Keeping) -> Self {
        Self {
            fifo: Fifo::new(),
            backlog: Backlog::new(),
            paging: Paging::default(),
            keeping,
            hosts: Vec::new(),
            owners: Vec::new(),
            handed: Vec::new(),
            settled: Vec::new(),
            freed: SegmentCounts::default(),
            freed_pages: Vec::new(),
            freed_bodies: Vec::new(),
            scratch: Vec::new(),
            restoring: PositionSet::new(),
            had_consumer: false,
            deleted: false,
        }
    }

    pub(super) const fn is_deleted(&self) -> bool {
        self.deleted
    }

    pub(super) fn give_up(&mut self, conditions: DeleteConditions) -> Result<u64, QueueRefused> {
        if conditions.if_unused && self.fifo.n_consumers() > 0 {
            return Err(QueueRefused::InUse);
        }
        if conditions.if_empty && self.fifo.n_ready() > 0 {
            return Err(QueueRefused::NotEmpty);
        }
        self.deleted = true;
        Ok(self.fifo.n_ready())
    }

    /// Puts messages in: the persistent ones are kept first, all together; then each goes to a
    /// waiting consumer or into the pages.
    pub(super) fn publish(
        &mut self,
        queue: &Queue,
        batch: &Publishes<'_, '_>,
        wakes: &mut Wakes,
    ) -> Awaited {
        debug_assert!(!queue.is_loading(), "publishers wait for a queue that is being read");
        if self.deleted {
            return Awaited::default();
        }
        let together = self.keep_incoming(queue, batch);
        let (mut upto, mut note) = match together {
            Some(KeptTogether { upto, note, .. }) => (upto, note),
            None => (None, None),
        };
        let n_passed = if together.is_none() { self.pass_on(queue, batch, wakes) } else { 0 };
        let Publishes { items, resolve, .. } = *batch;
        for item in items.get(n_passed..).unwrap_or_default() {
            let incoming = resolve(*item);
            let kept = together.filter(|together| together.takes(&incoming));
            let kept = kept.map(|together| together.kept);
            if let Some(late) = self.put_in(queue, *item, &incoming, kept) {
                (upto, note) = (upto.max(late.upto), note.max(late.note));
            }
            if self.handed.len() >= HAND_OVER_MESSAGES_MAX {
                self.hand_over(queue, Some(resolve), wakes);
            }
        }
        self.hand_over(queue, Some(resolve), wakes);
        self.dispatch(queue, wakes);
        self.keeping.awaited(upto, note)
    }

    /// Hands messages to a consumer that is the only one and settles nothing, straight from where
    /// they lie, until its outbox is full. Returns how many: for those that is all there is to do.
    fn pass_on(&mut self, queue: &Queue, batch: &Publishes<'_, '_>, wakes: &mut Wakes) -> usize {
        let Some(consumer) = self.fifo.sole_taker() else { return 0 };
        let Some(host) = host_mut(&mut self.hosts, consumer) else { return 0 };
        let link = host.link;
        let first = self.fifo.next_position();
        let (mut n_passed, mut room) = (0, Room::Bytes(0));
        let waker = host.outbox.batch(&mut |sink: &mut dyn Sink| {
            for (item, at) in batch.items.iter().zip(first..) {
                let incoming = (batch.resolve)(*item);
                let message = &incoming.message;
                let delivery = Delivery { position: position(at), redelivered: false, message };
                room = sink.deliver(link, delivery);
                n_passed += 1;
                if room == Room::Full {
                    break;
                }
            }
        });
        wakes.extend(waker);
        self.fifo.pass_on(n_passed as u64);
        self.note_room(consumer, room);
        queue.counters.n_delivered.fetch_add(n_passed as u64, Ordering::Relaxed);
        n_passed
    }

    /// Appends the persistent ones of `items` to the log or the journal. Their positions are known
    /// beforehand: the first item gets the next position, and so on.
    fn keep_incoming(&self, queue: &Queue, batch: &Publishes<'_, '_>) -> Option<KeptTogether> {
        if !self.keeping.is_kept() || !batch.any_logged {
            return None;
        }
        let Publishes { items, resolve, .. } = *batch;
        // What nobody waits for and a consumer has at once needs no place in the log.
        let only_confirmed = self.fifo.passes_through();
        let wanted = |incoming: &Incoming<'_>| {
            incoming.message.persistent && (incoming.confirm || !only_confirmed)
        };
        if !items.iter().any(|item| wanted(&resolve(*item))) {
            return None;
        }
        let mut stored_bytes = 0;
        if batch.any_stored && self.keeping.is_logged {
            let logged = items.iter().map(|item| resolve(*item)).filter(wanted);
            stored_bytes = logged.map(|incoming| store_body(queue, &incoming)).sum();
        }
        let first = self.fifo.next_position();
        let each = |act: &mut dyn FnMut(u64, &Incoming<'_>)| {
            for (item, at) in items.iter().zip(first..) {
                let incoming = resolve(*item);
                if wanted(&incoming) {
                    act(at, &incoming);
                }
            }
        };
        Some(KeptTogether { only_confirmed, ..self.keep(queue, stored_bytes, each) })
    }

    /// Gives one message a position, and to a consumer when one waits for it. Returns how it is kept
    /// if that had to be done now.
    fn put_in(
        &mut self,
        queue: &Queue,
        item: u32,
        incoming: &Incoming<'_>,
        kept: Option<Kept>,
    ) -> Option<KeptTogether> {
        let message = &incoming.message;
        let at = self.fifo.enqueue(1);
        let is_next = || self.fifo.head() == Some(at) || self.is_head_here();
        let given =
            if self.fifo.is_waiting() || !is_next() { None } else { self.fifo.next_delivery() };
        let direct = given
            .is_some_and(|given| given.position == at && given.settling == Settling::OnDelivery);
        let mut late = None;
        if direct {
            self.note_gone(at, kept);
        } else {
            late = if kept.is_none() { self.keep_late(queue, at, incoming) } else { None };
            let kept = kept.or_else(|| late.map(|late| late.kept));
            let segment = kept.and_then(|kept| kept.segment);
            let home = incoming.home.filter(|_| segment.is_some());
            let body = home.and_then(BodyHome::retain);
            self.backlog.push(&queue.storage.pool, at, message, segment, body);
        }
        if let Some(assigned) = given {
            let incoming = direct.then_some(item);
            self.charge(assigned, message.size_bytes());
            self.handed.push(Handed { assigned, incoming });
        }
        late
    }

    /// Takes the message's size from what the consumer's outbox is believed to hold.
    fn charge(&mut self, assigned: Assigned, size_bytes: usize) {
        let Some(host) = host_mut(&mut self.hosts, assigned.consumer) else { return };
        host.room_bytes = host.room_bytes.saturating_sub_unsigned(size_bytes as u64);
        if host.room_bytes <= 0 && !host.held_back {
            host.held_back = true;
            self.fifo.pause(assigned.consumer);
        }
    }

    /// Gives ready messages to consumers until there are no more, or nobody can take one.
    pub(super) fn dispatch(&mut self, queue: &Queue, wakes: &mut Wakes) {
        loop {
            while self.handed.len() < HAND_OVER_MESSAGES_MAX && !self.fifo.is_waiting() {
                let Some(size) = self.size_of_next() else { break };
                let Some(assigned) = self.fifo.next_delivery() else { break };
                self.charge(assigned, size);
                self.handed.push(Handed { assigned, incoming: None });
            }
            if self.handed.is_empty() {
                break;
            }
            self.hand_over(queue, None, wakes);
        }
        self.note_in_log(queue);
    }

    /// The size of the first ready message; none while it is on disk only. One that was lost while
    /// a consumer held it, and came back, is forgotten.
    fn size_of_next(&mut self) -> Option<usize> {
        loop {
            let first = self.fifo.head()?;
            match self.backlog.get(first) {
                Lookup::Here(message) => return Some(message.size_bytes()),
                Lookup::Cold => return None,
                Lookup::Gone => self.fifo.discard(PositionRange { start: first, end: first + 1 }),
            }
        }
    }

    /// Hands what was assigned to the outboxes, each locked once.
    fn hand_over<'a>(
        &mut self,
        queue: &Queue,
        resolve: Option<&dyn Fn(u32) -> Incoming<'a>>,
        wakes: &mut Wakes,
    ) {
        if self.handed.is_empty() {
            return;
        }
        let mut handed = std::mem::take(&mut self.handed);
        let first = handed.first().map(|one| one.assigned.consumer);
        if handed.iter().any(|one| Some(one.assigned.consumer) != first) {
            handed.sort_unstable_by_key(|one| (one.assigned.consumer, one.assigned.position));
        }
        for run in handed.chunk_by(|a, b| a.assigned.consumer == b.assigned.consumer) {
            self.hand_to_one(run, resolve, wakes);
        }
        self.count_deliveries(queue, &handed);
        let held = |one: &&Handed| one.assigned.settling == Settling::ByConsumer;
        let held = handed.iter().filter(held).map(|one| one.assigned.position);
        self.keeping.note_delivered(held);
        for one in &handed {
            if one.assigned.settling == Settling::OnDelivery && one.incoming.is_none() {
                self.release(&queue.storage.pool, one.assigned.position);
            }
        }
        handed.clear();
        self.handed = handed;
    }

    fn hand_to_one<'a>(
        &mut self,
        run: &[Handed],
        resolve: Option<&dyn Fn(u32) -> Incoming<'a>>,
        wakes: &mut Wakes,
    ) {
        let Some(consumer) = run.first().map(|one| one.assigned.consumer) else { return };
        let backlog = &self.backlog;
        let Some(host) = host_mut(&mut self.hosts, consumer) else { return };
        let link = host.link;
        let mut room = Room::Full;
        let waker = host.outbox.batch(&mut |sink: &mut dyn Sink| {
            for one in run {
                let (incoming, stored);
                let message = match (one.incoming, resolve) {
                    (Some(item), Some(resolve)) => {
                        incoming = resolve(item);
                        &incoming.message
                    }
                    (_, _) => {
                        stored = backlog.get(one.assigned.position);
                        let Lookup::Here(message) = &stored else { continue };
                        message
                    }
                };
                let delivery = Delivery {
                    position: position(one.assigned.position),
                    redelivered: one.assigned.redelivered,
                    message,
                };
                room = sink.deliver(link, delivery);
            }
        });
        wakes.extend(waker);
        self.note_room(consumer, room);
    }

    /// What a consumer's outbox said last.
    fn note_room(&mut self, consumer: ConsumerKey, room: Room) {
        let Some(host) = host_mut(&mut self.hosts, consumer) else { return };
        match room {
            Room::Bytes(bytes) => {
                host.room_bytes = i64::try_from(bytes).unwrap_or(i64::MAX).max(1);
                if std::mem::take(&mut host.held_back) {
                    self.fifo.resume(consumer);
                }
            }
            Room::Full => {
                host.room_bytes = 0;
                host.held_back = false;
                self.fifo.pause(consumer);
            }
        }
    }

    fn count_deliveries(&self, queue: &Queue, handed: &[Handed]) {
        let counters = &queue.counters;
        let n_again = handed.iter().filter(|one| one.assigned.redelivered).count();
        counters.n_delivered.fetch_add(handed.len() as u64, Ordering::Relaxed);
        if n_again > 0 {
            counters.n_redelivered.fetch_add(n_again as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn resume(&mut self, consumer: ConsumerKey) {
        if let Some(host) = host_mut(&mut self.hosts, consumer) {
            host.room_bytes = FIRST_ROOM_BYTES;
            host.held_back = false;
            self.fifo.resume(consumer);
        }
    }

    pub(super) fn set_prefetch(&mut self, consumer: ConsumerKey, prefetch: Option<u32>) {
        self.fifo.set_prefetch(consumer, prefetch);
        if let Some(host) = host_mut(&mut self.hosts, consumer) {
            host.checkout.prefetch = prefetch;
        }
    }

    pub(super) fn settle(
        &mut self,
        queue: &Queue,
        consumer: ConsumerKey,
        settles: &[Settle],
        wakes: &mut Wakes,
    ) {
        let mut n_acked = 0;
        for settle in settles {
            let at = settle.position.0;
            match settle.outcome {
                Outcome::Accepted | Outcome::Rejected => {
                    if self.fifo.settle(consumer, at).is_ok() {
                        n_acked += 1;
                        self.release(&queue.storage.pool, at);
                    }
                }
                // Unknown positions were taken from the consumer meanwhile: nothing to give back.
                Outcome::Requeued | Outcome::Returned => {
                    let _unknown = self.fifo.requeue(consumer, at).is_err();
                }
            }
        }
        queue.counters.n_acked.fetch_add(n_acked, Ordering::Relaxed);
        self.dispatch(queue, wakes);
    }

    /// Forgets a stored message.
    fn release(&mut self, pool: &PagePool, at: u64) {
        let Some(released) = self.backlog.release(pool, at) else { return };
        if released.is_logged || self.keeping.journal.is_some() {
            self.settled.push(at);
        }
        if let Some(segment) = released.segment {
            self.freed.add(segment);
        }
        if let Some(body) = released.body {
            self.freed_bodies.push(body);
        }
        self.freed_pages.extend(released.page.map(|page| *page));
    }

    fn note_gone(&mut self, at: u64, kept: Option<Kept>) {
        let Some(kept) = kept else { return };
        self.settled.push(at);
        if let Some(segment) = kept.segment {
            self.freed.add(segment);
        }
    }

    /// Tells the log or the journal what is gone. Nobody waits for this to be durable: a crash in between makes
    /// the messages come back, marked redelivered.
    fn note_in_log(&mut self, queue: &Queue) {
        if !self.settled.is_empty() {
            let Self { settled, scratch, keeping, .. } = self;
            if keeping.is_logged {
                entries::append_settled(queue.wal(), queue.id().0, settled, scratch);
            }
            if let Some(journal) = &keeping.journal {
                journal.ack(settled.iter().copied());
            }
            settled.clear();
            self.freed.release(queue.wal());
        }
        if !self.freed_bodies.is_empty() {
            queue.bodies.release(self.freed_bodies.drain(..));
        }
        for freed in self.freed_pages.drain(..) {
            queue.storage.free_page(freed, &queue.bodies);
        }
    }

    pub(super) fn attach(
        &mut self,
        queue: &Queue,
        attach: Attach<'_>,
        wakes: &mut Wakes,
    ) -> Result<ConsumerKey, AttachRefused> {
        if self.deleted {
            return Err(AttachRefused::Gone);
        }
        let in_exclusive_use = self.hosts.iter().flatten().any(|host| host.exclusive);
        if in_exclusive_use || (attach.exclusive && self.fifo.n_consumers() > 0) {
            return Err(AttachRefused::ExclusiveUse);
        }
        let key = self.fifo.attach(attach.checkout);
        wakes.extend(attach.outbox.batch(&mut |sink: &mut dyn Sink| {
            sink.event(Event::Consuming {
                channel: attach.channel,
                link: attach.link,
                consumer_tag: attach.consumer_tag,
                no_ack: attach.checkout.settling == Settling::OnDelivery,
                answer: attach.answer,
            });
        }));
        let host = Host {
            connection: attach.connection,
            channel: attach.channel,
            link: attach.link,
            outbox: Arc::clone(attach.outbox),
            consumer_tag: attach.consumer_tag.clone(),
            checkout: attach.checkout,
            exclusive: attach.exclusive,
            arguments: attach.arguments,
            room_bytes: FIRST_ROOM_BYTES,
            held_back: false,
        };
        put_at(&mut self.owners, key, (attach.connection, attach.channel));
        put_at(&mut self.hosts, key, host);
        self.had_consumer = true;
        self.dispatch(queue, wakes);
        Ok(key)
    }

    pub(super) fn attach_passive(&mut self, owner: Owner) -> Result<ConsumerKey, AttachRefused> {
        if self.deleted {
            return Err(AttachRefused::Gone);
        }
        let key = self.fifo.attach_passive();
        put_at(&mut self.owners, key, owner);
        Ok(key)
    }

    /// Takes a consumer away if it gets nothing any more and holds nothing.
    pub(super) fn detach_idle(&mut self, consumer: ConsumerKey) -> bool {
        let is_idle = self.fifo.n_held_by(consumer) == 0;
        if is_idle {
            self.fifo.detach(consumer);
            self.forget_owner(consumer);
        }
        is_idle
    }

    fn forget_owner(&mut self, consumer: ConsumerKey) {
        if let Some(place) = self.owners.get_mut(consumer.0 as usize) {
            *place = None;
        }
    }

    /// Adds up how many messages each channel holds.
    pub(super) fn count_held(&self, held: &mut BTreeMap<Owner, u64>) {
        for (slot, owner) in self.owners.iter().enumerate() {
            let (Some(owner), Ok(slot)) = (owner, u32::try_from(slot)) else { continue };
            *held.entry(*owner).or_default() += self.fifo.n_held_by(ConsumerKey(slot)) as u64;
        }
    }

    pub(super) fn get(
        &mut self,
        queue: &Queue,
        get: &Get<'_>,
        wakes: &mut Wakes,
    ) -> Result<Got, AttachRefused> {
        if self.deleted {
            return Err(AttachRefused::Gone);
        }
        if self.size_of_next().is_none() && self.fifo.n_ready() > 0 {
            return Ok(Got::NotInMemory);
        }
        let settling = if get.no_ack { Settling::OnDelivery } else { Settling::ByConsumer };
        let Some(assigned) = self.fifo.take(get.consumer, settling) else {
            return Ok(Got::Nothing);
        };
        let n_ready = self.fifo.n_ready();
        if let Lookup::Here(message) = self.backlog.get(assigned.position) {
            let delivery = Delivery {
                position: position(assigned.position),
                redelivered: assigned.redelivered,
                message: &message,
            };
            wakes.extend(get.outbox.batch(&mut |sink: &mut dyn Sink| {
                sink.event(Event::Got {
                    channel: get.channel,
                    link: get.link,
                    delivery,
                    no_ack: get.no_ack,
                    n_ready,
                });
            }));
        }
        self.count_deliveries(queue, &[Handed { assigned, incoming: None }]);
        if settling == Settling::ByConsumer {
            self.keeping.note_delivered(std::iter::once(assigned.position));
        }
        if get.no_ack {
            self.release(&queue.storage.pool, assigned.position);
            self.note_in_log(queue);
        }
        Ok(Got::Message)
    }

    pub(super) fn cancel(&mut self, def: &QueueDef, consumer: ConsumerKey) -> AfterDetach {
        self.fifo.cancel(consumer);
        // The outbox may still hold deliveries of it; the core keeps what is unsettled.
        self.drop_host(consumer);
        self.after_detach(def)
    }

    pub(super) fn detach(&mut self, def: &QueueDef, consumer: ConsumerKey) -> AfterDetach {
        let left = self.fifo.detach(consumer);
        self.drop_host(consumer);
        self.forget_owner(consumer);
        if left.was_active { self.after_detach(def) } else { AfterDetach::Stays }
    }

    fn drop_host(&mut self, consumer: ConsumerKey) {
        if let Some(place) = self.hosts.get_mut(consumer.0 as usize) {
            *place = None;
        }
    }

    fn after_detach(&mut self, def: &QueueDef) -> AfterDetach {
        let last = self.had_consumer && self.fifo.n_consumers() == 0;
        if !(def.auto_delete && last) || self.deleted {
            return AfterDetach::Stays;
        }
        self.deleted = true;
        AfterDetach::DeleteQueue
    }

    pub(super) fn purge(&mut self, queue: &Queue) -> u64 {
        let mut gone = Vec::new();
        let n_messages = self.fifo.purge(&mut gone);
        let ranges = gone.iter().map(|range| range.start..range.end);
        let dropped = self.backlog.purge(&queue.storage.pool, ranges);
        if dropped.any_logged {
            entries::append_purged(queue.wal(), queue.id().0, &gone);
        }
        if let Some(journal) = &self.keeping.journal {
            gone.iter().for_each(|range| journal.ack_range(range.start..range.end));
        }
        self.let_go(queue, dropped);
        n_messages
    }

    /// The definition's removal is in the log already (or is of no durable queue): only the places
    /// in the log are given back.
    pub(super) fn delete(&mut self, queue: &Queue, wakes: &mut Wakes) -> u64 {
        self.deleted = true;
        let n_ready = self.fifo.n_ready();
        self.owners.clear();
        for host in self.hosts.drain(..).flatten() {
            wakes.extend(host.outbox.batch(&mut |sink: &mut dyn Sink| {
                sink.event(Event::ConsumerLost {
                    channel: host.channel,
                    consumer_tag: &host.consumer_tag,
                });
            }));
        }
        let dropped = self.backlog.clear(&queue.storage.pool);
        self.let_go(queue, dropped);
        self.drop_journal(queue, wakes);
        self.fifo = Fifo::new();
        n_ready
    }

    pub(super) fn restore(&mut self, pool: &PagePool, queued: &Queued<'_>, segment: SegmentId) {
        self.restoring.push_back(queued.position, 1);
        self.backlog.restore(pool, queued, segment);
    }

    pub(super) fn restore_page(
        &mut self,
        note: &PageNote,
        segment: SegmentId,
    ) -> Result<(), RestoreError> {
        self.backlog.restore_page(note, segment)?;
        for range in &note.live {
            self.restoring.push_back(range.start, range.end - range.start);
        }
        Ok(())
    }

    pub(super) fn restored(&mut self, next_position: u64, seen_below: u64) {
        let ready = std::mem::take(&mut self.restoring);
        self.fifo = Fifo::recovered(ready, next_position, seen_below);
    }

    pub(super) fn first_undelivered(&self) -> u64 {
        self.fifo.first_undelivered()
    }

    pub(super) fn trim(&mut self, pool: &PagePool) {
        self.backlog.trim(pool);
    }

    pub(super) fn consumers(&self) -> Vec<ConsumerView> {
        let view = |host: &Host| ConsumerView {
            connection: host.connection,
            channel: host.channel,
            consumer_tag: host.consumer_tag.clone(),
            ack_required: host.checkout.settling == Settling::ByConsumer,
            prefetch_count: host.checkout.prefetch.unwrap_or(0),
            exclusive: host.exclusive,
            arguments: host.arguments.clone(),
        };
        self.hosts.iter().flatten().map(view).collect()
    }
}

fn put_at<T>(places: &mut Vec<Option<T>>, consumer: ConsumerKey, value: T) {
    let slot = consumer.0 as usize;
    if places.len() <= slot {
        places.resize_with(slot + 1, || None);
    }
    if let Some(place) = places.get_mut(slot) {
        *place = Some(value);
    }
}

fn host_mut(hosts: &mut [Option<Host>], consumer: ConsumerKey) -> Option<&mut Host> {
    hosts.get_mut(consumer.0 as usize)?.as_mut()
}
