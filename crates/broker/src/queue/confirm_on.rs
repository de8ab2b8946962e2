//! Publishes that are confirmed once a consumer has had them (`x-confirm-on`): who waits for which message,
//! how many may wait, and what becomes of those that nobody will consume. Where each stands is kept by
//! `queue::ConfirmWaiters`; which queues of a message have answered, by `confirm::MultiQueueConfirms`.

use super::policy::RefusedItem;
use super::state::{Incoming, Publishes, QueueState};
use super::{Queue, Wakes};
use crate::confirm::{DurabilityToken, Publisher};
use crate::rules::DeadLetter;
use meta::{ConfirmOn, ConfirmSettings, WithoutConsumer};
use queue::{Awaiting, ConfirmWaiters, ConsumerKey, PositionRange, UnackedTracking};
use session::{Confirmation, LinkId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::backlog::Lookup;

/// A publish that is to be confirmed.
#[derive(Clone, Debug)]
pub(crate) struct Confirm {
    pub(crate) publisher: Arc<Publisher>,
    /// Its number on its channel.
    pub(crate) sequence: u64,
}

/// Likewise, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct ConfirmRef<'p> {
    pub(crate) publisher: &'p Arc<Publisher>,
    pub(crate) sequence: u64,
}

impl Confirm {
    pub(crate) const fn as_ref(&self) -> ConfirmRef<'_> {
        ConfirmRef { publisher: &self.publisher, sequence: self.sequence }
    }
}

/// How a queue confirms what comes in, if not by itself.
#[derive(Clone, Copy)]
pub(crate) struct Late<'b, 'a> {
    /// Who waits for a message; none if nobody does.
    pub(crate) who: &'b dyn Fn(u32) -> Option<ConfirmRef<'a>>,
}

/// What of a queue waits for its consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingConfirms {
    /// Publishes.
    pub n: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// How long the oldest has waited, in milliseconds; none if none waits.
    pub oldest_ms: Option<u64>,
}

/// Confirms of a queue that wait for its consumers.
#[derive(Debug, Default)]
pub(super) struct ConsumerConfirms {
    settings: ConfirmSettings,
    pending: ConfirmWaiters,
    publishers: Publishers,
    /// Not yet sent: by publisher and number.
    answers: Vec<(u32, u64, Confirmation)>,
}

/// Publishers that wait, by the numbers that `ConfirmWaiters` knows them by.
#[derive(Debug, Default)]
struct Publishers {
    known: Vec<Option<Waiting>>,
    free: Vec<u32>,
    by_address: HashMap<usize, u32>,
    /// Who came last.
    last: u32,
}

#[derive(Debug)]
struct Waiting {
    publisher: Arc<Publisher>,
    n: u64,
}

fn address(publisher: &Arc<Publisher>) -> usize {
    Arc::as_ptr(publisher).addr()
}

impl Publishers {
    /// The number of a publisher that waits for one more.
    fn add(&mut self, publisher: &Arc<Publisher>) -> u32 {
        let is_it = |known: &Waiting| Arc::ptr_eq(&known.publisher, publisher);
        let is_last = self.get_mut(self.last).is_some_and(|known| is_it(known));
        if !is_last {
            self.last = self.number_of(publisher);
        }
        let number = self.last;
        if let Some(known) = self.get_mut(number) {
            known.n += 1;
        }
        number
    }

    fn number_of(&mut self, publisher: &Arc<Publisher>) -> u32 {
        let Self { known, free, by_address, .. } = self;
        *by_address.entry(address(publisher)).or_insert_with(|| {
            let waiting = Some(Waiting { publisher: Arc::clone(publisher), n: 0 });
            let number = free.pop().unwrap_or_else(|| {
                known.push(None);
                u32::try_from(known.len() - 1).expect("fewer than 2^32 publishers")
            });
            if let Some(place) = known.get_mut(number as usize) {
                *place = waiting;
            }
            number
        })
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Waiting> {
        self.known.get_mut(number as usize)?.as_mut()
    }

    /// The publisher, which waits for `n` less.
    fn less(&mut self, number: u32, n: u64) -> Option<Arc<Publisher>> {
        let known = self.get_mut(number)?;
        known.n -= n;
        let publisher = Arc::clone(&known.publisher);
        if known.n == 0 {
            self.by_address.remove(&address(&publisher));
            self.free.push(number);
            if let Some(place) = self.known.get_mut(number as usize) {
                *place = None;
            }
        }
        Some(publisher)
    }
}

impl ConsumerConfirms {
    fn wait(&mut self, at: u64, confirm: ConfirmRef<'_>, bytes: usize, now_ms: u64) {
        let awaiting = Awaiting {
            publisher: self.publishers.add(confirm.publisher),
            sequence: confirm.sequence,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        self.pending.wait(at, awaiting, now_ms);
    }

    #[inline]
    fn answer(&mut self, at: u64, answer: Confirmation) {
        if let Some(Awaiting { publisher, sequence, .. }) = self.pending.take(at) {
            self.answers.push((publisher, sequence, answer));
        }
    }

    /// Whether so many more may wait.
    fn has_room(&self, n: u64, bytes: u64) -> bool {
        self.pending.len() + n <= self.settings.max_pending
            && self.pending.bytes() + bytes <= self.settings.max_pending_bytes
    }

    fn send(&mut self, wakes: &mut Wakes) {
        if !self.answers.is_sorted_by_key(|(publisher, sequence, _)| (*publisher, *sequence)) {
            self.answers.sort_unstable_by_key(|(publisher, sequence, _)| (*publisher, *sequence));
        }
        for of_publisher in self.answers.chunk_by(|a, b| a.0 == b.0) {
            let Some((number, ..)) = of_publisher.first() else { continue };
            let publisher = self.publishers.less(*number, of_publisher.len() as u64);
            let runs = of_publisher.chunk_by(|a, b| a.1 + 1 == b.1 && a.2 == b.2);
            let runs = runs.filter_map(|run| {
                let ((_, first, answer), (_, last, _)) = (run.first()?, run.last()?);
                Some((*first, *last, *answer))
            });
            wakes.extend(publisher.and_then(|publisher| publisher.answer(runs)));
        }
        self.answers.clear();
    }
}

impl QueueState {
    /// Takes how the queue is to confirm from now on.
    pub(super) fn set_confirming(&mut self, queue: &Queue, settings: ConfirmSettings) {
        if settings.on.is_late() {
            self.confirming.get_or_insert_default().settings = settings;
        } else if let Some(confirming) = &mut self.confirming {
            confirming.settings = settings;
        }
        self.choose_holding();
        queue.note_confirm_on(settings.on);
    }

    fn choose_holding(&mut self) {
        self.fifo.set_holding(match self.confirming.as_deref() {
            None => UnackedTracking::Settled,
            Some(confirming) if confirming.settings.on == ConfirmOn::AckDirect => {
                UnackedTracking::Unrecorded
            }
            Some(_) => UnackedTracking::All,
        });
    }

    /// As [`QueueState::publish`], for a queue whose publishes are confirmed once they are consumed: small
    /// messages are not kept for a restart, and what may not wait is refused.
    #[inline(never)]
    pub(super) fn publish_late(
        &mut self,
        queue: &Queue,
        batch: &Publishes<'_, '_>,
        late: Late<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) {
        if self.deleted {
            refuse(batch.items, late, refused);
            return;
        }
        if self.confirming.is_none() {
            self.confirming = Some(Box::default());
            self.choose_holding();
        }
        let is_small = |incoming: &Incoming<'_>| {
            let message = &incoming.message;
            !queue.storage.bodies.is_stored(message.body.len() + message.properties.len())
        };
        let resolve = |item| {
            let mut incoming = (batch.resolve)(item);
            if incoming.message.persistent && is_small(&incoming) {
                incoming.message.persistent = false;
                incoming.home = None;
            }
            incoming
        };
        let (mut any_large, mut bytes) = (false, 0);
        for item in batch.items {
            let incoming = (batch.resolve)(*item);
            any_large |= batch.any_logged && !is_small(&incoming);
            bytes += incoming.message.body.len() as u64;
        }
        let items = self.with_room(batch, bytes, late, refused);
        let items = items.as_deref().unwrap_or(batch.items);
        let batch = Publishes {
            items,
            resolve: &resolve,
            any_logged: any_large,
            any_stored: batch.any_stored && any_large,
            ..*batch
        };
        // What is kept all the same need not be durable: a consumer's word counts.
        let DurabilityToken { .. } = self.publish_here(queue, &batch, refused, wakes);
    }

    /// Refuses what may not wait. Returns the others if there are such.
    fn with_room(
        &self,
        batch: &Publishes<'_, '_>,
        bytes: u64,
        late: Late<'_, '_>,
        refused: &mut Vec<RefusedItem>,
    ) -> Option<Vec<u32>> {
        let confirming = self.confirming.as_deref()?;
        let without_consumer = confirming.settings.without_consumer == WithoutConsumer::Nack
            && self.fifo.n_consumers() == 0;
        let size = |item: &u32| (batch.resolve)(*item).message.body.len() as u64;
        if !without_consumer && confirming.has_room(batch.items.len() as u64, bytes) {
            return None;
        }
        let (mut n, mut bytes) = (0, 0);
        let mut admitted = Vec::with_capacity(batch.items.len());
        for item in batch.items {
            if (late.who)(*item).is_some() {
                let size = size(item);
                if without_consumer || !confirming.has_room(n + 1, bytes + size) {
                    refused.push(RefusedItem { item: *item, dead_letter_to: None });
                    continue;
                }
                n += 1;
                bytes += size;
            }
            admitted.push(*item);
        }
        Some(admitted)
    }

    /// The publishers of messages that are about to be put in wait for their consumers.
    pub(super) fn await_consumers(
        &mut self,
        queue: &Queue,
        batch: &Publishes<'_, '_>,
        late: Late<'_, '_>,
    ) {
        let first = self.fifo.next_position();
        let Some(confirming) = &mut self.confirming else { return };
        let now_ms = queue.storage.time.unix_ms();
        for (item, at) in batch.items.iter().zip(first..) {
            if let Some(confirm) = (late.who)(*item) {
                let bytes = (batch.resolve)(*item).message.body.len();
                confirming.wait(at, confirm, bytes, now_ms);
            }
        }
    }

    /// A consumer has had the message.
    #[inline]
    pub(super) fn consumed(&mut self, at: u64) {
        if let Some(confirming) = &mut self.confirming {
            confirming.answer(at, Confirmation::Ack);
        }
    }

    /// No consumer will have these messages.
    #[inline]
    pub(super) fn not_consumed(&mut self, positions: PositionRange) {
        if let Some(confirming) = &mut self.confirming {
            let ConsumerConfirms { pending, answers, .. } = &mut **confirming;
            pending.take_range(positions, |Awaiting { publisher, sequence, .. }| {
                answers.push((publisher, sequence, Confirmation::Nack));
            });
        }
    }

    /// Who waits for a message that goes elsewhere: it is answered there.
    pub(super) fn take_confirm(&mut self, at: u64) -> Option<Confirm> {
        let confirming = self.confirming.as_deref_mut()?;
        let Awaiting { publisher, sequence, .. } = confirming.pending.take(at)?;
        let publisher = confirming.publishers.less(publisher, 1)?;
        Some(Confirm { publisher, sequence })
    }

    /// The message did not go elsewhere after all.
    pub(super) fn put_confirm_back(&mut self, queue: &Queue, at: u64, confirm: &Confirm) {
        let bytes = match self.backlog.get(at) {
            Lookup::Here(message) => message.body.len(),
            Lookup::Cold | Lookup::Gone => 0,
        };
        let confirming = self.confirming.get_or_insert_default();
        confirming.wait(at, confirm.as_ref(), bytes, queue.storage.time.unix_ms());
    }

    /// Tells publishers what became of their messages, after every operation.
    #[inline]
    pub(super) fn send_answers(&mut self, queue: &Queue, wakes: &mut Wakes) {
        if self.confirming.is_some() {
            self.send_late_answers(queue, wakes);
        }
    }

    #[inline(never)]
    fn send_late_answers(&mut self, queue: &Queue, wakes: &mut Wakes) {
        let Some(confirming) = &mut self.confirming else { return };
        if !confirming.answers.is_empty() {
            confirming.send(wakes);
        }
        let n_pending = confirming.pending.len();
        queue.counters.n_pending_confirms.store(n_pending, Ordering::Relaxed);
        if n_pending == 0 && !confirming.settings.on.is_late() {
            self.confirming = None;
            self.choose_holding();
        }
    }

    /// Messages that consumers of one connection hold without a record of which are recorded now:
    /// they are to be given back, or the outbox will not be at hand any more.
    pub(super) fn record_held(&mut self, consumers: impl IntoIterator<Item = ConsumerKey>) {
        let host = |consumer: ConsumerKey| self.hosts.get(consumer.0 as usize)?.as_ref();
        let unrecorded = consumers.into_iter().filter(|one| self.fifo.holds_unrecorded(*one));
        let mut unrecorded: Vec<(LinkId, ConsumerKey)> =
            unrecorded.filter_map(|consumer| Some((host(consumer)?.link, consumer))).collect();
        let Some(first) = unrecorded.first().and_then(|(_, consumer)| host(*consumer)) else {
            return;
        };
        unrecorded.sort_unstable();
        let links: Vec<LinkId> = unrecorded.iter().map(|(link, _)| *link).collect();
        for (link, position) in first.outbox.unsettled(&links) {
            let known = unrecorded.binary_search_by_key(&link, |(link, _)| *link).ok();
            if let Some((_, consumer)) = known.and_then(|index| unrecorded.get(index)) {
                self.fifo.record(*consumer, [position.0]);
            }
        }
    }
}

/// Refuses what somebody waits for.
fn refuse(items: &[u32], late: Late<'_, '_>, refused: &mut Vec<RefusedItem>) {
    let awaited = items.iter().filter(|item| (late.who)(**item).is_some());
    refused.extend(awaited.map(|item| RefusedItem { item: *item, dead_letter_to: None }));
}

impl Queue {
    /// What its publishes are confirmed upon.
    #[must_use]
    pub fn confirm_on(&self) -> ConfirmOn {
        match self.confirm_on.load(Ordering::Relaxed) {
            1 => ConfirmOn::Ack,
            2 => ConfirmOn::AckDirect,
            _ => ConfirmOn::Enqueue,
        }
    }

    fn note_confirm_on(&self, on: ConfirmOn) {
        let shown = match on {
            ConfirmOn::Enqueue => 0,
            ConfirmOn::Ack => 1,
            ConfirmOn::AckDirect => 2,
        };
        self.confirm_on.store(shown, Ordering::Relaxed);
    }

    /// Publishes that wait for its consumers.
    #[must_use]
    pub fn pending_confirms(&self) -> PendingConfirms {
        let now_ms = self.storage.time.unix_ms();
        let local = stdx::lock(&self.local);
        local.confirming.as_deref().map_or_else(PendingConfirms::default, |confirming| {
            let pending = &confirming.pending;
            PendingConfirms {
                n: pending.len(),
                bytes: pending.bytes(),
                oldest_ms: pending.oldest_ms().map(|came_ms| now_ms.saturating_sub(came_ms)),
            }
        })
    }

    /// When the first publish of this publisher came that waits for consumers.
    pub(crate) fn pending_since_ms(&self, publisher: &Arc<Publisher>) -> Option<u64> {
        let local = stdx::lock(&self.local);
        let confirming = local.confirming.as_deref()?;
        let number = *confirming.publishers.by_address.get(&address(publisher))?;
        let mut pending = confirming.pending.iter();
        let (first, _) = pending.find(|(_, awaiting)| awaiting.publisher == number)?;
        Some(confirming.pending.came_ms(first))
    }

    /// Messages that a consumer holds without a record of which: of those that its client has
    /// settled, and a transaction not yet.
    pub(crate) fn record(&self, consumer: ConsumerKey, positions: impl Iterator<Item = u64>) {
        stdx::lock(&self.local).fifo.record(consumer, positions);
    }

    /// These letters were not sent, and are where they were; the `n` positions before them are on their way.
    pub(crate) fn keep_letters(&self, unsent: &[DeadLetter], n: u64) {
        self.with(|local, _| {
            for DeadLetter { position, confirm, .. } in unsent {
                if let Some(confirm) = confirm {
                    local.put_confirm_back(self, *position, confirm);
                }
            }
            local.set_sending(n);
            if local.is_deleted() {
                local.not_consumed(PositionRange { start: 0, end: u64::MAX });
            }
        });
    }
}
