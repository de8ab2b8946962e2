//! What a queue's lock guards: core, content and consumers, and the order things happen in.

use super::confirm_on::{ConsumerConfirms, Late};
use super::consumer_channel::ConsumerChannel;
use super::consumer_timeout::UnackedAges;
use super::deletion::{DeleteConditions, QueueRefused};
use super::durability::{Durability, KeptTogether, LoggedAt, store_body};
use super::global_prefetch::ChannelLimit;
use super::paging::Paging;
use super::policy::{PolicyState, PutIn, RefusedItem, with_counts};
use super::unfit::Next;
use super::{Queue, Settled, Wakes, position};
use crate::confirm::DurabilityToken;
use crate::log_records::{self, SegmentCounts};
use crate::message_store::BodyHome;
use log::SegmentId;
use message::MessageRef;
use meta::ConnectionId;
use queue::{
    AckMode, Assigned, Checkout, ConsumerKey, Fifo, PositionRange, PositionSet, RecoveredMessages,
    Return,
};
use session::{
    ChannelId, DELIVERY_BYTES, Delivery, Event, LinkId, Outbox, Outcome,
    PROPERTIES_BYTES_ALWAYS_TAKEN, Room, Settle, ShortString, Sink, Table,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::Queued;
use store::backlog::{Backlog, FreedPage, Lookup, PageNote, PagePool, RestoreError};
use store::blob::BlobId;

/// Messages assigned before they are handed to outboxes: bounds the scratch list.
const HAND_OVER_MESSAGES_MAX: usize = 1_024;

/// A message on its way in.
pub(crate) struct Incoming<'a> {
    pub(crate) message: MessageRef<'a>,
    /// Where its body is stored, once for all its queues.
    pub(crate) home: Option<&'a Arc<BodyHome>>,
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
    /// Whether any of them has an expiration.
    pub(crate) any_expiring: bool,
    /// They are confirmed once a consumer has had them.
    pub(crate) late: Option<Late<'b, 'a>>,
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
    /// What it shares with the other consumers of its channel.
    pub(crate) limit: Option<Arc<ChannelLimit>>,
}

/// The channel a consumer belongs to.
pub(crate) type Owner = (ConnectionId, ChannelId);

/// One assignment, waiting to be handed to its outbox.
#[derive(Clone, Copy)]
pub(super) struct Assignment {
    pub(super) assigned: Assigned,
    /// Index of the incoming message, when it was not stored.
    pub(super) incoming: Option<u32>,
}

/// The state under a queue's lock.
pub(crate) struct QueueState {
    pub(super) fifo: Fifo,
    pub(super) backlog: Backlog,
    pub(super) paging: Paging,
    pub(super) keeping: Durability,
    /// What it does by rules; none for a plain queue.
    pub(super) ruling: Option<Box<PolicyState>>,
    /// The core is to be told the sizes of messages that are given out.
    pub(super) notes_sizes: bool,
    /// Confirms that wait for consumers; none where confirms wait for nothing but disks.
    pub(super) confirming: Option<Box<ConsumerConfirms>>,
    /// Consumers that share a limit with others of their channel.
    pub(super) n_limited: usize,
    /// Consumers that are exclusive: one at most.
    pub(super) n_exclusive: usize,
    /// Indexed by consumer key.
    pub(super) hosts: Vec<Option<ConsumerChannel>>,
    /// Whose each consumer is, also those that only hold messages; indexed by consumer key.
    pub(super) owners: Vec<Option<Owner>>,
    handed: Vec<Assignment>,
    /// Logged positions that are gone and not yet noted in the log.
    settled: Vec<u64>,
    /// Log entries nobody needs any more, not yet told to the log.
    freed: SegmentCounts,
    /// Page images nobody needs once the log knows what is gone.
    freed_pages: Vec<FreedPage>,
    /// Likewise bodies.
    freed_bodies: Vec<BlobId>,
    scratch: Vec<u8>,
    pub(super) had_consumer: bool,
    pub(super) deleted: bool,
    /// What is held for long.
    pub(super) watched: UnackedAges,
}

impl std::fmt::Debug for QueueState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("fifo", &self.fifo).finish_non_exhaustive()
    }
}

impl QueueState {
    pub(super) fn new(keeping: Durability) -> Self {
        Self {
            fifo: Fifo::new(),
            backlog: Backlog::new(),
            paging: Paging::default(),
            keeping,
            ruling: None,
            notes_sizes: false,
            confirming: None,
            n_limited: 0,
            n_exclusive: 0,
            hosts: Vec::new(),
            owners: Vec::new(),
            handed: Vec::new(),
            settled: Vec::new(),
            freed: SegmentCounts::default(),
            freed_pages: Vec::new(),
            freed_bodies: Vec::new(),
            scratch: Vec::new(),
            had_consumer: false,
            deleted: false,
            watched: UnackedAges::default(),
        }
    }

    pub(super) const fn is_deleted(&self) -> bool {
        self.deleted
    }

    pub(super) const fn mark_deleted(&mut self) {
        self.deleted = true;
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

    /// Puts messages in; those it does not take are `refused`.
    pub(super) fn publish(
        &mut self,
        queue: &Queue,
        batch: &Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        debug_assert!(!queue.is_loading(), "publishers wait for a queue that is being read");
        if let Some(late) = batch.late {
            self.publish_late(queue, batch, late, refused, wakes);
            return DurabilityToken::default();
        }
        if self.deleted {
            return DurabilityToken::default();
        }
        self.publish_here(queue, batch, refused, wakes)
    }

    /// Puts messages in, whatever their confirms wait for.
    #[inline]
    pub(super) fn publish_here(
        &mut self,
        queue: &Queue,
        batch: &Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        if batch.any_expiring || self.ruling.is_some() {
            return self.publish_by_rules(queue, batch, refused, wakes);
        }
        self.publish_together(queue, batch, &PutIn::PLAINLY, wakes)
    }

    /// Puts messages in: the persistent ones are kept first, all together; then each goes to a
    /// waiting consumer or into the pages.
    pub(super) fn publish_together(
        &mut self,
        queue: &Queue,
        batch: &Publishes<'_, '_>,
        put_in: &PutIn<'_>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        if let Some(late) = batch.late {
            self.await_consumers(queue, batch, late);
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
            let at = self.place(put_in, &incoming.message);
            if let Some(late) = self.put_in(queue, (*item, at), &incoming, kept, wakes) {
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
        let taker = if self.n_limited > 0 { None } else { self.fifo.sole_taker() };
        let Some(consumer) = taker else { return 0 };
        let Some(host) = host_mut(&mut self.hosts, consumer) else { return 0 };
        let link = host.link;
        let first = self.fifo.next_position();
        let (mut n_passed, mut room) = (0, Room::Full);
        let waker = host.outbox.batch(&mut |sink: &mut dyn Sink| {
            for (item, at) in batch.items.iter().zip(first..) {
                let incoming = (batch.resolve)(*item);
                let message = &incoming.message;
                if message.properties.len() > PROPERTIES_BYTES_ALWAYS_TAKEN {
                    // Whether it can be sent at all is found out on the longer way.
                    break;
                }
                let delivery = Delivery {
                    position: position(at),
                    redelivered: false,
                    message,
                    settled_by_write: false,
                };
                room = sink.deliver(link, delivery);
                n_passed += 1;
                if room == Room::Full {
                    break;
                }
            }
        });
        wakes.extend(waker);
        if n_passed == 0 {
            return 0;
        }
        if queue.storage.rules.tracing().is_any() {
            for item in batch.items.iter().take(n_passed) {
                self.trace(queue, consumer, false, &(batch.resolve)(*item).message);
            }
        }
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
            stored_bytes = logged.map(|incoming| store_body(&incoming)).sum();
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

    /// Puts one message where it has its place, and gives it to a consumer when one waits for it.
    /// Returns how it is kept if that had to be done now.
    fn put_in(
        &mut self,
        queue: &Queue,
        (item, at): (u32, u64),
        incoming: &Incoming<'_>,
        kept: Option<LoggedAt>,
        wakes: &mut Wakes,
    ) -> Option<KeptTogether> {
        let message = &incoming.message;
        let next = match () {
            () if self.fifo.is_waiting() => None,
            () if self.fifo.head() == Some(at) => Some(message.properties.len()),
            () => self.head_properties_bytes(),
        };
        let given = next.and_then(|n_bytes| self.next_delivery(queue, n_bytes, wakes));
        let direct =
            given.is_some_and(|given| given.position == at && given.settling == AckMode::Auto);
        let mut late = None;
        if direct {
            self.note_gone(at, kept);
        } else {
            late = if kept.is_none() { self.keep_late(queue, at, incoming) } else { None };
            let kept = kept.or_else(|| late.map(|late| late.kept));
            let segment = kept.and_then(|kept| kept.segment);
            match incoming.home {
                Some(home) => self.push_shared(queue, (at, segment), message, home),
                None => self.backlog.push(&queue.storage.pool, at, message, segment, None),
            }
        }
        if let Some(assigned) = given {
            let incoming = direct.then_some(item);
            if self.notes_sizes {
                self.note_sent(&assigned, direct.then(|| message.body.len()));
            }
            self.charge(assigned, message.size_bytes());
            self.handed.push(Assignment { assigned, incoming });
        }
        late
    }

    /// Takes what the message needs from what the consumer's outbox is believed to hold.
    fn charge(&mut self, assigned: Assigned, size_bytes: usize) {
        let Some(host) = host_mut(&mut self.hosts, assigned.consumer) else { return };
        let n_bytes = (size_bytes + DELIVERY_BYTES) as u64;
        host.room_bytes = host.room_bytes.saturating_sub_unsigned(n_bytes);
        if host.room_bytes <= 0 && !host.held_back {
            host.held_back = true;
            self.fifo.pause(assigned.consumer);
        }
    }

    /// Gives ready messages to consumers until there are no more, or nobody can take one.
    pub(super) fn dispatch(&mut self, queue: &Queue, wakes: &mut Wakes) {
        loop {
            while self.handed.len() < HAND_OVER_MESSAGES_MAX && !self.fifo.is_waiting() {
                let Some(next) = self.size_of_next() else { break };
                let properties_bytes = next.properties_bytes;
                let Some(assigned) = self.next_delivery(queue, properties_bytes, wakes) else {
                    break;
                };
                if self.notes_sizes {
                    self.note_sent(&assigned, None);
                }
                self.charge(assigned, next.size_bytes);
                self.handed.push(Assignment { assigned, incoming: None });
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
    pub(super) fn size_of_next(&mut self) -> Option<Next> {
        loop {
            let first = self.fifo.head()?;
            match self.backlog.get(first) {
                Lookup::Here(message) => return Some(Next::of(&message)),
                Lookup::Cold => return None,
                Lookup::Gone => {
                    self.fifo.discard(PositionRange::one(first));
                    self.not_consumed(PositionRange::one(first));
                }
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
        if queue.storage.rules.tracing().is_any() {
            self.trace_handed(queue, &handed, resolve);
        }
        self.count_deliveries(queue, &handed);
        let held = |one: &&Assignment| one.assigned.settling == AckMode::Manual;
        let held = handed.iter().filter(held).map(|one| one.assigned.position);
        self.keeping.note_delivered(held);
        for one in &handed {
            if one.assigned.settling == AckMode::Auto && one.incoming.is_none() {
                self.release(&queue.storage.pool, one.assigned.position);
            }
        }
        handed.clear();
        self.handed = handed;
    }

    fn hand_to_one<'a>(
        &mut self,
        run: &[Assignment],
        resolve: Option<&dyn Fn(u32) -> Incoming<'a>>,
        wakes: &mut Wakes,
    ) {
        let Some(consumer) = run.first().map(|one| one.assigned.consumer) else { return };
        let counts_returns = self.counts_returns();
        let (backlog, fifo) = (&self.backlog, &self.fifo);
        let Some(host) = host_mut(&mut self.hosts, consumer) else { return };
        let link = host.link;
        let settles_nothing = host.checkout.settling == AckMode::Auto;
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
                    settled_by_write: settles_nothing && one.assigned.settling == AckMode::Manual,
                };
                if counts_returns
                    && let Some(counted) =
                        with_counts(message, fifo.return_counts(one.assigned.position))
                {
                    let message = &MessageRef { properties: &counted, ..*message };
                    room = sink.deliver(link, Delivery { message, ..delivery });
                    continue;
                }
                room = sink.deliver(link, delivery);
            }
        });
        wakes.extend(waker);
        self.note_room(consumer, room);
    }

    /// Tells the firehose of what was handed over.
    #[cold]
    fn trace_handed<'a>(
        &self,
        queue: &Queue,
        handed: &[Assignment],
        resolve: Option<&dyn Fn(u32) -> Incoming<'a>>,
    ) {
        for Assignment { assigned, incoming } in handed {
            let Assigned { consumer, position, redelivered, .. } = *assigned;
            match (incoming, resolve) {
                (Some(item), Some(resolve)) => {
                    self.trace(queue, consumer, redelivered, &resolve(*item).message);
                }
                (_, _) => {
                    if let Lookup::Here(message) = self.backlog.get(position) {
                        self.trace(queue, consumer, redelivered, &message);
                    }
                }
            }
        }
    }

    #[cold]
    pub(super) fn trace(
        &self,
        queue: &Queue,
        consumer: ConsumerKey,
        redelivered: bool,
        message: &MessageRef<'_>,
    ) {
        let owner = self.owners.get(consumer.0 as usize).copied().flatten();
        if let Some(owner) = owner {
            queue.storage.rules.trace_delivery(&queue.def, owner, redelivered, message);
        }
    }

    /// What a consumer's outbox said last.
    fn note_room(&mut self, consumer: ConsumerKey, room: Room) {
        let Some(host) = host_mut(&mut self.hosts, consumer) else { return };
        match room {
            Room::Bytes(bytes) => {
                host.set_room(bytes);
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

    pub(super) fn count_deliveries(&self, queue: &Queue, handed: &[Assignment]) {
        let counters = &queue.counters;
        let n_again = handed.iter().filter(|one| one.assigned.redelivered).count();
        counters.n_delivered.fetch_add(handed.len() as u64, Ordering::Relaxed);
        if n_again > 0 {
            counters.n_redelivered.fetch_add(n_again as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn resume(&mut self, consumer: ConsumerKey, wakes: &mut Wakes) {
        if let Some(host) = host_mut(&mut self.hosts, consumer) {
            let mut room_bytes = 0;
            wakes.extend(host.outbox.batch(&mut |sink| room_bytes = sink.room_bytes()));
            host.set_room(room_bytes);
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
    ) -> Settled {
        let mut settled = Settled::All;
        let mut n_acked = 0;
        let (mut gone, mut any_back) = (Vec::new(), false);
        for settle in settles {
            let at = settle.position.0;
            match settle.outcome {
                Outcome::Accepted => {
                    if self.fifo.settle(consumer, at).is_ok() {
                        n_acked += 1;
                        self.release(&queue.storage.pool, at);
                        self.consumed(at);
                    }
                }
                _ if self.is_unrecorded(consumer, at) => settled = Settled::NotByThisMode,
                Outcome::Rejected => {
                    if let Ok(rejected) = self.fifo.reject(consumer, at) {
                        n_acked += 1;
                        gone.push(rejected);
                    }
                }
                // Unknown positions were taken from the consumer meanwhile: nothing to give back.
                Outcome::Requeued | Outcome::Returned => {
                    let now_ms = self.returned_ms(queue);
                    let how = match settle.outcome {
                        Outcome::Requeued => Return::Failed,
                        Outcome::Accepted | Outcome::Rejected | Outcome::Returned => {
                            Return::Released
                        }
                    };
                    self.watched.forget(consumer, at);
                    let back = self.fifo.give_back(consumer, at, how, now_ms, &mut gone);
                    any_back |= back.is_ok();
                }
            }
        }
        queue.counters.n_acked.fetch_add(n_acked, Ordering::Relaxed);
        if any_back || !gone.is_empty() {
            self.after_return(queue, &gone);
        }
        self.dispatch(queue, wakes);
        settled
    }

    /// Whether the consumer holds the message without a record of it. It has one from now on: its
    /// client names it no more.
    fn is_unrecorded(&mut self, consumer: ConsumerKey, at: u64) -> bool {
        let is = self.fifo.holds_unrecorded(consumer) && !self.fifo.holds(consumer, at);
        if is {
            self.fifo.record(consumer, [at]);
        }
        is
    }

    /// Forgets a stored message.
    pub(super) fn release(&mut self, pool: &PagePool, at: u64) {
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

    fn note_gone(&mut self, at: u64, kept: Option<LoggedAt>) {
        let Some(kept) = kept else { return };
        self.settled.push(at);
        if let Some(segment) = kept.segment {
            self.freed.add(segment);
        }
    }

    /// Tells the log or the journal what is gone. Nobody waits for this to be durable: a crash in between makes
    /// the messages come back, marked redelivered.
    pub(super) fn note_in_log(&mut self, queue: &Queue) {
        if !self.settled.is_empty() {
            let Self { settled, scratch, keeping, .. } = self;
            if keeping.is_logged {
                log_records::append_settled(queue.wal(), queue.id().0, settled, scratch);
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

    pub(super) fn purge(&mut self, queue: &Queue) -> u64 {
        let mut gone = Vec::new();
        let n_messages = self.fifo.purge(&mut gone);
        self.drop_ranges(queue, &gone);
        n_messages
    }

    /// Forgets messages that are gone together.
    pub(super) fn drop_ranges(&mut self, queue: &Queue, gone: &[PositionRange]) {
        gone.iter().for_each(|range| self.not_consumed(*range));
        let ranges = gone.iter().map(|range| range.start..range.end);
        let dropped = self.backlog.purge(&queue.storage.pool, ranges);
        if dropped.any_logged {
            log_records::append_purged(queue.wal(), queue.id().0, gone);
        }
        if let Some(journal) = &self.keeping.journal {
            gone.iter().for_each(|range| journal.ack_range(range.start..range.end));
        }
        self.let_go(queue, dropped);
    }

    /// The definition's removal is in the log already (or is of no durable queue): only the places
    /// in the log are given back.
    pub(super) fn delete(&mut self, queue: &Queue, wakes: &mut Wakes) -> u64 {
        self.deleted = true;
        let n_ready = self.fifo.n_ready();
        self.owners.clear();
        for host in self.hosts.drain(..).flatten() {
            wakes.extend(host.outbox.batch(&mut |sink: &mut dyn Sink| {
                sink.event(Event::ConsumerCancelled {
                    channel: host.channel,
                    link: host.link,
                    consumer_tag: &host.consumer_tag,
                });
            }));
        }
        self.not_consumed(PositionRange { start: 0, end: u64::MAX });
        let dropped = self.backlog.clear(&queue.storage.pool);
        self.let_go(queue, dropped);
        self.drop_journal(queue, wakes);
        self.fifo = Fifo::new();
        self.end_rules(queue);
        n_ready
    }

    pub(super) fn restore_page(
        &mut self,
        note: &PageNote,
        segment: SegmentId,
    ) -> Result<(), RestoreError> {
        self.backlog.restore_page(note, segment)?;
        Ok(())
    }

    /// Tells the core of a message of an earlier life.
    pub(super) fn restore_in_core(&mut self, queue: &Queue, queued: &Queued<'_>) {
        let stored = self.stored_of(queued);
        self.fifo.restore(&stored, restored_ms(queue, &stored));
    }

    /// Puts the messages of a page back of which nothing needs to be known.
    pub(super) fn restore_unread(&mut self, note: &PageNote) {
        for range in &note.live {
            let positions = PositionRange { start: range.start, end: range.end };
            self.fifo
                .restore(&RecoveredMessages { positions, ..RecoveredMessages::NOTHING_KNOWN }, 0);
        }
    }

    pub(super) fn restored(&mut self, next_position: u64, seen_below: u64) {
        self.fifo.restored(next_position, seen_below, &PositionSet::new());
    }

    pub(super) fn first_undelivered(&self) -> u64 {
        let seen = self.fifo.seen();
        match seen.last().filter(|_| self.needs_content()) {
            // With priorities messages were delivered above others that were not.
            Some(last) => last + 1,
            None => self.fifo.first_undelivered(),
        }
    }

    pub(super) fn trim(&mut self, pool: &PagePool) {
        self.backlog.trim(pool);
    }
}

/// The time a message comes back after a start, where that matters.
pub(super) fn restored_ms(queue: &Queue, stored: &RecoveredMessages) -> u64 {
    stored.deadline_ms.map_or(0, |_| queue.storage.time.unix_ms())
}

pub(super) fn host_mut(
    hosts: &mut [Option<ConsumerChannel>],
    consumer: ConsumerKey,
) -> Option<&mut ConsumerChannel> {
    hosts.get_mut(consumer.0 as usize)?.as_mut()
}
