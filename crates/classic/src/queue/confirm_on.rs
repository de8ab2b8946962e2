//! Publishes that are confirmed once a consumer has had them (`x-confirm-on`): their publishers, how many may
//! wait, and the end of those that nobody will consume. The state of each is kept by `queue::ConfirmWaiters`;
//! the queues of a message that have answered, by `confirm::MultiQueueConfirms`.

use super::Queue;
use super::inspection::Inspection;
use confirm::Publisher;
use delivery::Answers;
use message::Refusal;
use message_store::MessageStores;
use meta::{ConfirmOn, ConfirmSettings, WithoutConsumer};
use queue::{ConfirmWaiters, Fifo, PositionRange, UnackedTracking};
use queue_type::{
    Confirm, ConfirmRef, Incoming, PendingConfirms, Publishes, RefusedItem, TakenConfirm, Wakes,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stdx::MonotonicMs;
use store::backlog::Lookup;

/// Publishes that are refused in one go because they have waited for too long.
const OVERDUE_AT_A_TIME: usize = 4_096;

/// Confirms of a queue that wait for its consumers.
#[derive(Debug, Default)]
struct ConsumerConfirms {
    settings: ConfirmSettings,
    pending: ConfirmWaiters,
    answers: Answers,
}

impl ConsumerConfirms {
    fn wait(&mut self, at: u64, confirm: ConfirmRef<'_>, bytes: usize, now_ms: MonotonicMs) {
        self.pending.wait(at, self.answers.awaiting(confirm, bytes), now_ms);
    }

    fn next_overdue_ms(&self) -> Option<MonotonicMs> {
        self.pending.next_overdue_ms(self.settings.timeout_ms?)
    }

    /// Whether so many more may wait.
    fn has_room(&self, n: u64, bytes: u64) -> bool {
        self.pending.len() + n <= self.settings.max_pending
            && self.pending.bytes() + bytes <= self.settings.max_pending_bytes
    }
}

/// The confirms of a queue that wait for its consumers; none where confirms wait for nothing but disks.
#[derive(Debug, Default)]
pub(super) struct Confirms(Option<Box<ConsumerConfirms>>);

impl Confirms {
    /// Confirms are as `settings` say from now on.
    pub(super) fn set(&mut self, fifo: &mut Fifo, settings: ConfirmSettings) {
        if settings.on.waits_for_consumers() {
            self.0.get_or_insert_default().settings = settings;
        } else if let Some(confirming) = &mut self.0 {
            confirming.settings = settings;
        }
        fifo.consumers_mut().set_tracking(self.tracking());
    }

    /// Some wait for consumers from now on, whatever the settings say.
    pub(super) fn begin(&mut self, fifo: &mut Fifo) {
        if self.0.is_none() {
            self.0.get_or_insert_default();
            fifo.consumers_mut().set_tracking(self.tracking());
        }
    }

    /// Whether consumers may give nothing back (`ack-direct`).
    pub(super) fn take_nothing_back(&self) -> bool {
        self.tracking() == UnackedTracking::Unrecorded
    }

    /// The tracking of unacked messages that confirms need from the core.
    fn tracking(&self) -> UnackedTracking {
        match self.0.as_deref() {
            None => UnackedTracking::Settled,
            Some(confirming) if confirming.settings.on == ConfirmOn::AckDirect => {
                UnackedTracking::Unrecorded
            }
            Some(_) => UnackedTracking::All,
        }
    }

    /// Refuses what may not wait. Returns the places of the others if there are such.
    pub(super) fn with_room(
        &self,
        has_consumers: bool,
        messages: &[Incoming<'_>],
        bytes: u64,
        refused: &mut Vec<RefusedItem>,
    ) -> Option<Vec<u32>> {
        let confirming = self.0.as_deref()?;
        let needs_consumer = confirming.settings.without_consumer == WithoutConsumer::Nack;
        let without_consumer = needs_consumer && !has_consumers;
        let why = if without_consumer { Refusal::NoConsumer } else { Refusal::MaxPending };
        if !without_consumer && confirming.has_room(messages.len() as u64, bytes) {
            return None;
        }
        let (mut n, mut bytes) = (0, 0);
        let mut admitted = Vec::with_capacity(messages.len());
        for (item, incoming) in (0..).zip(messages) {
            if incoming.confirm.is_some() {
                let size = incoming.message.body.len() as u64;
                if without_consumer || !confirming.has_room(n + 1, bytes + size) {
                    refused.push(RefusedItem { item, why, dead_letter_to: None });
                    continue;
                }
                n += 1;
                bytes += size;
            }
            admitted.push(item);
        }
        Some(admitted)
    }

    /// The publishers of messages that are put in from position `first` on wait for their consumers.
    pub(super) fn wait_for(&mut self, messages: &[Incoming<'_>], first: u64, now_ms: MonotonicMs) {
        let Some(confirming) = &mut self.0 else { return };
        for (incoming, at) in messages.iter().zip(first..) {
            if let Some(confirm) = incoming.confirm {
                confirming.wait(at, confirm, incoming.message.body.len(), now_ms);
            }
        }
    }

    /// A consumer has had the message.
    #[inline]
    pub(super) fn consumed(&mut self, at: u64) {
        if let Some(ConsumerConfirms { pending, answers, .. }) = self.0.as_deref_mut()
            && let Some(awaiting) = pending.take(at)
        {
            answers.accept(awaiting);
        }
    }

    /// No consumer will have these messages.
    #[inline]
    pub(super) fn not_consumed(&mut self, positions: PositionRange, why: Refusal) {
        if let Some(ConsumerConfirms { pending, answers, .. }) = self.0.as_deref_mut() {
            pending.take_range(positions, |awaiting| answers.refuse(awaiting, why));
        }
    }

    /// No consumer will have any message.
    pub(super) fn refuse_all(&mut self, why: Refusal) {
        self.not_consumed(PositionRange { start: 0, end: u64::MAX }, why);
    }

    /// Time when publishes will have waited for too long; none if none waits, or all may wait for ever.
    #[inline]
    pub(super) fn next_overdue_ms(&self) -> Option<MonotonicMs> {
        self.0.as_deref().and_then(ConsumerConfirms::next_overdue_ms)
    }

    /// Refuses publishes that have waited for too long as of `now_ms`, a limited number at a time. Returns
    /// the positions of their messages, and the sizes of their bodies.
    pub(super) fn refuse_overdue(&mut self, now_ms: MonotonicMs) -> Vec<(u64, u64)> {
        let mut refused = Vec::new();
        let Some(confirming) = self.0.as_deref_mut() else { return refused };
        let ConsumerConfirms { settings, pending, answers, .. } = confirming;
        let Some(timeout_ms) = settings.timeout_ms else { return refused };
        pending.take_overdue(now_ms, timeout_ms, OVERDUE_AT_A_TIME, |at, awaiting| {
            answers.refuse(awaiting, Refusal::Timeout);
            refused.push((at, u64::from(awaiting.bytes)));
        });
        refused
    }

    /// Gives up a message whose publisher was refused: it stays while a consumer has it, or is yet to get it.
    pub(super) fn give_up(&mut self, at: u64) {
        if let Some(confirming) = &mut self.0 {
            confirming.pending.give_up(at);
        }
    }

    /// Whether nobody is to be given the message again: its publisher was refused.
    #[inline]
    pub(super) fn is_given_up(&self, at: u64) -> bool {
        self.0.as_deref().is_some_and(|confirming| confirming.pending.is_given_up(at))
    }

    /// Whether any message was given up.
    pub(super) fn has_given_up(&self) -> bool {
        self.0.as_deref().is_some_and(|confirming| confirming.pending.has_given_up())
    }

    /// Takes the confirm of a message that goes elsewhere: the publisher is answered there.
    pub(super) fn take(&mut self, at: u64) -> Option<Confirm> {
        let confirming = self.0.as_deref_mut()?;
        let awaiting = confirming.pending.take(at)?;
        confirming.answers.hand_on(awaiting)
    }

    /// Puts back the confirm of a message that did not go elsewhere after all.
    pub(super) fn put_back(
        &mut self,
        at: u64,
        confirm: &Confirm,
        bytes: usize,
        now_ms: MonotonicMs,
    ) {
        self.0.get_or_insert_default().wait(at, confirm.as_ref(), bytes, now_ms);
    }

    /// Tells publishers what became of their messages, after every operation.
    #[inline]
    pub(super) fn settle(&mut self, queue: &Queue, fifo: &mut Fifo, wakes: &mut Wakes) {
        if self.0.is_some() {
            self.send(queue, fifo, wakes);
        }
    }

    #[inline(never)]
    fn send(&mut self, queue: &Queue, fifo: &mut Fifo, wakes: &mut Wakes) {
        let Some(confirming) = self.0.as_deref_mut() else { return };
        confirming.answers.send(queue.def.name.as_str(), wakes);
        let n_pending = confirming.pending.len();
        queue.counters.n_pending_confirms.store(n_pending, Ordering::Relaxed);
        let is_done = n_pending == 0 && !confirming.pending.has_given_up();
        if is_done && !confirming.settings.on.waits_for_consumers() {
            self.0 = None;
            fifo.consumers_mut().set_tracking(self.tracking());
        }
    }

    fn pending(&self, now_ms: MonotonicMs) -> PendingConfirms {
        let Some(ConsumerConfirms { pending, .. }) = self.0.as_deref() else {
            return PendingConfirms::default();
        };
        PendingConfirms {
            n: pending.len(),
            bytes: pending.bytes(),
            oldest_ms: pending.oldest_ms().map(|came_ms| now_ms.since(came_ms)),
        }
    }

    fn since_ms(&self, publisher: &Arc<Publisher>) -> Option<MonotonicMs> {
        let confirming = self.0.as_deref()?;
        let first = confirming.answers.first_of(publisher, &confirming.pending)?;
        Some(confirming.pending.came_ms(first))
    }
}

impl Queue {
    /// The event upon which the queue's publishes are confirmed.
    #[must_use]
    pub fn confirm_on(&self) -> ConfirmOn {
        self.counters.confirm_on()
    }
}

impl Inspection<'_> {
    /// Takes the confirms of messages that go elsewhere, by their positions: publishers are answered there,
    /// unless the confirms are [put back](Self::put_back_confirms).
    #[must_use]
    pub fn take_confirms(self, positions: &[u64]) -> Vec<TakenConfirm> {
        self.0.with(|state, _| {
            let waiting =
                |at: &u64| Some(TakenConfirm { position: *at, confirm: state.confirms.take(*at)? });
            positions.iter().filter_map(waiting).collect()
        })
    }

    /// Puts back confirms of messages that did not go elsewhere after all, by their positions. The publish of
    /// a message that has left meanwhile is refused: the message may be gone or not.
    pub fn put_back_confirms(self, confirms: &[TakenConfirm]) {
        self.0.with(|state, _| {
            let now_ms = self.0.time().monotonic_ms();
            for TakenConfirm { position: at, confirm } in confirms {
                let (bytes, is_gone) = match state.content.backlog.get(*at) {
                    Lookup::Here(message) => (message.body.len(), state.deleted),
                    Lookup::Cold => (0, state.deleted),
                    Lookup::Gone => (0, true),
                };
                state.confirms.put_back(*at, confirm, bytes, now_ms);
                if is_gone {
                    let why = if state.deleted { Refusal::Deleted } else { Refusal::Unavailable };
                    state.confirms.not_consumed(PositionRange::one(*at), why);
                }
            }
        });
    }

    /// Publishes that wait for the queue's consumers.
    #[must_use]
    pub fn pending_confirms(self) -> PendingConfirms {
        stdx::lock(&self.0.state).confirms.pending(self.0.time().monotonic_ms())
    }

    /// Time when the publisher's first publish came that waits for consumers.
    #[must_use]
    pub fn pending_since_ms(self, publisher: &Arc<Publisher>) -> Option<MonotonicMs> {
        stdx::lock(&self.0.state).confirms.since_ms(publisher)
    }
}

/// Makes small messages transient: a consumer's word counts, not a disk's. Returns the bytes of all
/// bodies.
pub(super) fn keep_only_large(publishes: &mut Publishes<'_, '_>, bodies: &MessageStores) -> u64 {
    let (mut any_large, mut bytes) = (false, 0);
    for Incoming { message, home, .. } in &mut *publishes.messages {
        let is_large = bodies.is_stored(message.body.len() + message.properties.len());
        any_large |= is_large;
        if message.persistent && !is_large {
            message.persistent = false;
            *home = None;
        }
        bytes += message.body.len() as u64;
    }
    publishes.any.logged &= any_large;
    publishes.any.stored &= any_large;
    bytes
}
