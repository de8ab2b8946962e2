//! What a queue with rules does; `rules.rs` says when a host calls which.

use super::{Detached, Fifo, NotHeld};
use crate::Assigned;
use crate::delivery_counts::{DeliveryCounts, Return};
use crate::key::ConsumerKey;
use crate::limits::Refused;
use crate::positions::{PositionRange, PositionSet};
use crate::queue_policy::{Gone, MessageAttrs, QueuePolicy, Reason, RecoveredMessages};
use crate::ruled::Ruled;
use std::collections::HashSet;

impl Fifo {
    /// An empty queue with `rules`.
    #[must_use]
    pub fn with_rules(rules: QueuePolicy) -> Self {
        let mut fifo = Self::new();
        fifo.set_rules(rules);
        fifo
    }

    /// Takes new rules. The highest priority stays as it is once there is one.
    pub fn set_rules(&mut self, rules: QueuePolicy) {
        match &mut self.ruled {
            None if rules.is_plain() => {}
            None => self.begin_rules(rules),
            Some(ruled) => ruled.set_rules(rules),
        }
    }

    /// From now on only one consumer at a time gets deliveries. The queue has none yet.
    pub fn make_single_active(&mut self) {
        self.consumers.make_single_active();
    }

    #[cold]
    fn begin_rules(&mut self, rules: QueuePolicy) {
        let mut ruled = Box::new(Ruled::new(rules));
        ruled.adopt(&self.ready, self.held().map(|(_, position)| position));
        self.ready.clear();
        self.ruled = Some(ruled);
    }

    fn ruled_mut(&mut self) -> Option<&mut Ruled> {
        if self.ruled.is_none() {
            self.begin_rules(QueuePolicy::default());
        }
        self.ruled.as_deref_mut()
    }

    /// Whether it has rules, or messages that expire.
    #[must_use]
    pub const fn is_ruled(&self) -> bool {
        self.ruled.is_some()
    }

    /// Whether the queue takes a message of that size now.
    pub fn admits(&self, bytes: u64) -> Result<(), Refused> {
        self.ruled.as_ref().map_or(Ok(()), |ruled| ruled.admits(bytes))
    }

    /// Puts a message at the tail and returns its position.
    pub fn put(&mut self, arrival: &MessageAttrs, now_ms: u64) -> u64 {
        let at = self.next_position;
        if self.ruled.is_none() && arrival.deadline_ms.is_none() {
            return self.enqueue(1);
        }
        self.put_ruled(1, arrival, now_ms);
        at
    }

    #[inline(never)]
    pub(super) fn put_ruled(&mut self, n: u64, arrival: &MessageAttrs, now_ms: u64) {
        if arrival.deadline_ms.is_none() && self.is_plain_again() {
            self.ruled = None;
            self.enqueue(n);
            return;
        }
        let range = PositionRange { start: self.next_position, end: self.next_position + n };
        self.next_position = range.end;
        let n_held = self.n_held;
        if let Some(ruled) = self.ruled_mut() {
            ruled.put(range, arrival, now_ms, n_held);
        }
    }

    /// Whether nothing is left of what made a queue without rules a ruled one.
    fn is_plain_again(&self) -> bool {
        let is_empty = |ruled: &Ruled| ruled.n_ready() == 0 && ruled.n_delayed() == 0;
        self.n_held == 0
            && self.ruled.as_ref().is_some_and(|it| it.rules().is_plain() && is_empty(it))
    }

    /// Tells the size of a ready message that was just assigned.
    pub fn note_sent(&mut self, assigned: &Assigned, bytes: u64) {
        if let Some(ruled) = &mut self.ruled {
            ruled.note_sent(assigned.position, assigned.settling, bytes);
        }
    }

    /// Tells the sizes of ready messages that are gone otherwise.
    pub fn note_bytes_gone(&mut self, bytes: u64) {
        if let Some(ruled) = &mut self.ruled {
            ruled.note_bytes_gone(bytes);
        }
    }

    /// Tells the sizes of all ready messages, when a limit on bytes is new.
    pub fn set_ready_bytes(&mut self, bytes: u64) {
        if let Some(ruled) = &mut self.ruled {
            ruled.set_ready_bytes(bytes);
        }
    }

    /// Tells the size of a message that is held or waits, when a limit on bytes is new.
    pub fn note_held(&mut self, position: u64, bytes: u64) {
        if let Some(ruled) = &mut self.ruled {
            ruled.note_held(position, bytes);
        }
    }

    /// Sizes of all ready messages, where there is a limit on bytes; else 0.
    #[must_use]
    pub fn ready_bytes(&self) -> u64 {
        self.ruled.as_ref().map_or(0, |ruled| ruled.ready_bytes())
    }

    /// Takes out one message that is too many: the oldest of the lowest priority.
    pub fn drop_over_limit(&mut self) -> Option<Gone> {
        // COMPAT: RabbitMQ's priority queues drop the oldest of the highest priority.
        let position = self.ruled.as_mut()?.pop_over_limit()?;
        if !self.redelivered.is_empty() {
            self.redelivered.remove(position);
        }
        Some(Gone { positions: PositionRange::one(position), reason: Reason::MaxLen })
    }

    /// When [`Fifo::wake`] or [`Fifo::expire`] may have something to do; 0 for at once.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.ruled.as_ref()?.next_ms()
    }

    /// Makes messages ready that have waited to be tried again. Returns how many.
    pub fn wake(&mut self, now_ms: u64) -> u64 {
        let Some(ruled) = &mut self.ruled else { return 0 };
        let mut n_woken = 0;
        while ruled.wake_one(now_ms) {
            n_woken += 1;
        }
        n_woken
    }

    /// Takes out ready messages whose time is over, wherever they stand, and not many more than
    /// `limit`; `gone` gets them. Held ones go when they come back.
    pub fn expire(&mut self, now_ms: u64, limit: u64, gone: &mut Vec<Gone>) {
        let Some(ruled) = &mut self.ruled else { return };
        let mut taken = Vec::new();
        ruled.expire(now_ms, limit, &mut taken);
        self.forget_redelivered(&taken);
        let reason = Reason::Expired;
        gone.extend(taken.into_iter().map(|positions| Gone { positions, reason }));
    }

    /// Ready messages that expire: when, and their positions, the next one first.
    pub fn by_deadline(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ruled.iter().flat_map(|ruled| ruled.by_deadline())
    }

    fn forget_redelivered(&mut self, taken: &[PositionRange]) {
        if self.redelivered.is_empty() {
            return;
        }
        let mut scratch = Vec::new();
        for range in taken {
            self.redelivered.take_range(*range, &mut scratch);
            scratch.clear();
        }
    }

    /// Takes out what is ready in `range`; `taken` gets it.
    pub(super) fn take_ready(&mut self, range: PositionRange, taken: &mut Vec<PositionRange>) {
        let before = taken.len();
        match &mut self.ruled {
            None => {
                self.ready.take_range(range, taken);
            }
            Some(ruled) => ruled.take_ready(range, taken),
        }
        self.forget_redelivered(taken.get(before..).unwrap_or_default());
    }

    /// The consumer refuses `position`: it is gone from the queue.
    pub fn reject(&mut self, consumer: ConsumerKey, position: u64) -> Result<Gone, NotHeld> {
        self.settle(consumer, position)?;
        Ok(Gone { positions: PositionRange::one(position), reason: Reason::Rejected })
    }

    /// The consumer gives `position` back. It is ready again at its old place, or waits until it is,
    /// or is gone: then `gone` gets it.
    pub fn give_back(
        &mut self,
        consumer: ConsumerKey,
        position: u64,
        how: Return,
        now_ms: u64,
        gone: &mut Vec<Gone>,
    ) -> Result<(), NotHeld> {
        self.let_go(consumer, position)?;
        self.come_back(position, how, now_ms, gone);
        Ok(())
    }

    /// As [`Fifo::give_back`], of everything the consumer holds but for `kept`; it stays attached.
    /// Returns how many messages that were.
    pub fn give_back_all(
        &mut self,
        consumer: ConsumerKey,
        kept: &HashSet<u64>,
        how: Return,
        now_ms: u64,
        gone: &mut Vec<Gone>,
    ) -> u64 {
        let held = self.let_go_all(consumer, kept);
        for position in &held {
            self.come_back(*position, how, now_ms, gone);
        }
        held.len() as u64
    }

    fn come_back(&mut self, position: u64, how: Return, now_ms: u64, gone: &mut Vec<Gone>) {
        let Some(ruled) = &mut self.ruled else {
            self.make_ready(position);
            return;
        };
        match ruled.come_back(position, how, now_ms) {
            Some(reason) => gone.push(Gone { positions: PositionRange::one(position), reason }),
            None => {
                self.redelivered.insert(position);
            }
        }
    }

    /// How often a message came back that was just assigned, is held, or waits.
    #[must_use]
    pub fn return_counts(&self, position: u64) -> DeliveryCounts {
        self.ruled.as_ref().map_or_else(DeliveryCounts::default, |it| it.return_counts(position))
    }

    /// Messages that wait to be tried again.
    #[must_use]
    pub fn n_delayed(&self) -> u64 {
        self.ruled.as_ref().map_or(0, |ruled| ruled.n_delayed())
    }

    /// Which messages wait to be tried again, and until when.
    pub fn delayed(&self) -> impl Iterator<Item = (u64, PositionRange)> + '_ {
        self.ruled.iter().flat_map(|ruled| ruled.delayed().iter())
    }

    /// Ready messages by priority, of those that have any.
    pub fn n_ready_by_priority(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        let plain = (!self.ready.is_empty()).then_some((0, self.ready.len()));
        let lanes = self.ruled.iter().flat_map(|ruled| ruled.lanes().ready());
        plain.into_iter().chain(lanes.map(|(priority, set)| (priority, set.len())))
    }

    /// The single active consumer, where only one at a time gets deliveries.
    #[must_use]
    pub fn single_active(&self) -> Option<ConsumerKey> {
        self.consumers.single()?.active()
    }

    /// Whether the consumer gets deliveries when it has credit; false while another one is the
    /// single active one.
    #[must_use]
    pub fn is_active(&self, consumer: ConsumerKey) -> bool {
        self.consumers.single().is_none_or(|single| single.active() == Some(consumer))
    }

    /// Whether [`Fifo::single_active`] has changed since this was asked last.
    pub fn take_activity_change(&mut self) -> bool {
        self.consumers.single_mut().is_some_and(|single| single.take_change())
    }

    /// Puts messages back as they were before a restart; above those put back before.
    pub fn restore(&mut self, stored: &RecoveredMessages, now_ms: u64) {
        let range = stored.positions;
        self.next_position = range.end;
        if self.ruled.is_none() && stored.deadline_ms.is_none() {
            self.ready.push_back(range.start, range.len());
        } else if let Some(ruled) = self.ruled_mut() {
            ruled.restore(stored, now_ms);
        }
    }

    /// Says that all messages are back. A consumer may have seen those below `seen_below`, and those
    /// in `seen`; the next message gets `next_position`.
    pub fn restored(&mut self, next_position: u64, seen_below: u64, seen: &PositionSet) {
        self.next_position = next_position;
        let mut ready: Vec<PositionRange> = self.ready().collect();
        ready.sort_unstable_by_key(|range| range.start);
        self.redelivered.clear();
        for range in &ready {
            let end = range.end.min(seen_below);
            self.redelivered.push_back(range.start, end.saturating_sub(range.start));
        }
        let above = seen.ranges_from(seen_below).flat_map(|range| range.start..range.end);
        let mut ready = ready.into_iter().peekable();
        for position in above {
            while ready.next_if(|range| range.end <= position).is_some() {}
            if ready.peek().is_some_and(|range| range.start <= position) {
                self.redelivered.insert(position);
            }
        }
    }

    /// Says how often a message came back before the restart.
    pub fn restore_returns(&mut self, position: u64, counts: DeliveryCounts) {
        if let Some(ruled) = &mut self.ruled {
            ruled.restore_returns(position, counts);
        }
    }

    /// Positions that are not gone and that a consumer had, has or may have.
    #[must_use]
    pub fn seen(&self) -> PositionSet {
        let mut seen = self.redelivered.clone();
        for (_, position) in self.held() {
            seen.insert(position);
        }
        seen
    }

    /// How often messages came back, of those that did.
    pub fn returned(&self) -> impl Iterator<Item = (u64, DeliveryCounts)> + '_ {
        self.ruled.iter().flat_map(|ruled| ruled.returns().iter())
    }

    /// Those of [`Fifo::returned`] that have changed since this was asked last, where
    /// [`QueuePolicy::notes_returns`](crate::Rules) asks for it.
    #[must_use = "they are not told again"]
    pub fn take_returned(&mut self) -> Vec<(u64, DeliveryCounts)> {
        self.ruled.as_mut().map(|ruled| ruled.take_returned()).unwrap_or_default()
    }

    /// [`Fifo::give_back_all`] and [`Fifo::detach`].
    pub fn detach_returning(
        &mut self,
        consumer: ConsumerKey,
        how: Return,
        now_ms: u64,
        gone: &mut Vec<Gone>,
    ) -> Detached {
        let n_requeued = self.give_back_all(consumer, &HashSet::new(), how, now_ms, gone);
        Detached { n_requeued, ..self.detach(consumer) }
    }
}
