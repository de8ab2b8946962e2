use crate::AckMode;
use crate::delivery_counts::{DeliveryCounts, Return, Returns};
use crate::expiry::Deadlines;
use crate::limits::ReadyBytes;
use crate::positions::{PositionRange, PositionSet};
use crate::priorities::Priorities;
use crate::queue_policy::{MessageAttrs, QueuePolicy, Reason};
use crate::retry::Delayed;
use stdx::UnixMs;

/// The state of a queue's policy: priorities, deadlines, sizes, counts and waits of its messages, whoever
/// holds them.
#[derive(Clone, Debug)]
pub struct PolicyState {
    policy: QueuePolicy,
    priorities: Priorities,
    deadlines: Deadlines,
    ready_bytes: ReadyBytes,
    returns: Returns,
    delayed: Delayed,
}

impl PolicyState {
    pub(crate) fn new(policy: QueuePolicy) -> Self {
        let mut state = Self {
            policy,
            priorities: Priorities::new(policy.priority_max),
            deadlines: Deadlines::default(),
            ready_bytes: ReadyBytes::default(),
            returns: Returns::default(),
            delayed: Delayed::default(),
        };
        state.set(policy);
        state
    }

    /// Takes a new policy, except for the highest priority.
    pub(crate) fn set(&mut self, policy: QueuePolicy) {
        self.policy = QueuePolicy { priority_max: self.priorities.priority_max(), ..policy };
        self.ready_bytes.set_counting(policy.limits.bytes_max.is_some());
        self.returns.set_counting(policy.counts());
        self.returns.set_noting(policy.notes_returns);
    }

    /// Whether a queue without a policy needs this state no more.
    pub(crate) fn is_moot(&self) -> bool {
        self.policy.is_plain() && self.priorities.n_ready() == 0 && self.delayed.is_empty()
    }

    pub(crate) const fn priorities(&self) -> &Priorities {
        &self.priorities
    }

    /// Messages that wait to be tried again.
    pub const fn delayed(&self) -> &Delayed {
        &self.delayed
    }

    /// Counts of how often messages came back.
    pub const fn returns(&self) -> &Returns {
        &self.returns
    }

    /// Counts of how often messages came back, to be changed and asked for changes.
    pub const fn returns_mut(&mut self) -> &mut Returns {
        &mut self.returns
    }

    /// Sizes of the ready messages, where there is a limit on bytes.
    pub const fn ready_bytes(&self) -> &ReadyBytes {
        &self.ready_bytes
    }

    /// Sizes of the ready messages, to be changed.
    pub const fn ready_bytes_mut(&mut self) -> &mut ReadyBytes {
        &mut self.ready_bytes
    }

    /// Ready messages that expire: when, and their positions, the next one first.
    pub fn by_deadline(&self) -> impl Iterator<Item = (UnixMs, u64)> + '_ {
        self.deadlines.in_order().filter(|(_, position)| self.priorities.is_ready(*position))
    }

    /// Takes over the messages of a queue without a policy: of the lowest priority, with no deadline and no
    /// size.
    pub(crate) fn adopt(&mut self, ready: &PositionSet, held: impl Iterator<Item = u64>) {
        for range in ready.ranges() {
            self.priorities.push_back(range, 0);
        }
        for position in held {
            self.priorities.add_away(position, 0);
        }
    }

    pub(crate) fn put(
        &mut self,
        range: PositionRange,
        arrival: &MessageAttrs,
        now_ms: UnixMs,
        n_held: u64,
    ) {
        self.priorities.push_back(range, arrival.priority);
        if let Some(deadline_ms) = arrival.deadline_ms {
            let n_live = self.priorities.n_ready() + self.delayed.len() + n_held;
            self.deadlines.push(range, deadline_ms, now_ms, &self.priorities, n_live);
        }
        self.ready_bytes.came(arrival.bytes);
    }

    #[inline(never)]
    pub(crate) fn pop_next(&mut self, settling: AckMode) -> Option<u64> {
        match settling {
            AckMode::Manual => self.priorities.send_next(),
            AckMode::Auto => {
                let position = self.priorities.pop_next()?;
                self.returns.part_with(position);
                Some(position)
            }
        }
    }

    /// Tells the size of a ready message that was just assigned.
    pub fn note_sent(&mut self, position: u64, settling: AckMode, bytes: u64) {
        self.ready_bytes.left(bytes);
        if settling == AckMode::Manual {
            self.note_held(position, bytes);
        }
    }

    /// Tells the size of a message that is held or waits, when a limit on bytes is new.
    pub fn note_held(&mut self, position: u64, bytes: u64) {
        if self.priorities.is_away(position) {
            self.ready_bytes.note_away(position, bytes);
        }
    }

    /// A message that was away is gone.
    pub(crate) fn forget(&mut self, position: u64) {
        self.priorities.forget_away(position);
        self.deadlines.forget(position);
        self.ready_bytes.forget(position);
        self.returns.forget(position);
    }

    /// A message comes back: it is ready, or waits, or is gone for the reason returned.
    pub(crate) fn come_back(
        &mut self,
        position: u64,
        how: Return,
        now_ms: UnixMs,
    ) -> Option<Reason> {
        let DeliveryCounts { n_failed, .. } = self.returns.note(position, how);
        if self.policy.delivery_limit.is_some_and(|limit| n_failed > limit) {
            self.forget(position);
            return Some(Reason::DeliveryLimit);
        }
        self.returns.note_changed(position);
        let retry = self.policy.retry;
        match retry.and_then(|retry| retry.ready_at_ms(how, n_failed, now_ms)) {
            Some(ready_at_ms) if ready_at_ms > now_ms => self.delayed.push(position, ready_at_ms),
            Some(_) | None => self.make_ready(position),
        }
        None
    }

    fn make_ready(&mut self, position: u64) {
        if self.priorities.come_back(position) {
            self.deadlines.come_back(position);
            self.ready_bytes.come_back(position);
        }
    }

    /// Whether messages are too many.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        let n_messages = self.priorities.n_ready() + self.delayed.len();
        self.policy.limits.drops(n_messages, self.ready_bytes.get())
    }

    /// Takes out a message that is too many.
    pub(crate) fn pop_over_limit(&mut self) -> Option<u64> {
        if !self.is_over_limit() {
            return None;
        }
        let position = self.priorities.pop_least()?;
        self.returns.forget(position);
        Some(position)
    }

    /// Time when [`PolicyState::wake`] or [`Messages::expire`](crate::Messages::expire) may have something to
    /// do; 0 for at once.
    #[must_use]
    pub fn next_deadline(&self) -> Option<UnixMs> {
        [self.deadlines.next_ms(), self.delayed.next_ms()].into_iter().flatten().min()
    }

    /// Makes messages ready that have waited to be tried again, unless the host has `given_up` on them:
    /// these are gone, and returned.
    pub fn wake(&mut self, now_ms: UnixMs, given_up: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut gone = Vec::new();
        while let Some(position) = self.delayed.pop_due(now_ms) {
            if given_up(position) {
                self.forget(position);
                gone.push(position);
            } else {
                self.make_ready(position);
            }
        }
        gone
    }

    pub(crate) fn expire(&mut self, now_ms: UnixMs, limit: u64, taken: &mut Vec<PositionRange>) {
        let before = taken.len();
        self.deadlines.expire(now_ms, limit, &mut self.priorities, taken);
        self.returns.forget_ranges(taken.get(before..).unwrap_or_default());
    }

    pub(crate) fn take_ready(&mut self, range: PositionRange, taken: &mut Vec<PositionRange>) {
        let before = taken.len();
        self.priorities.take_ready(range, taken);
        self.returns.forget_ranges(taken.get(before..).unwrap_or_default());
    }

    /// Takes everything out that nobody holds.
    pub(crate) fn purge(&mut self, taken: &mut Vec<PositionRange>) {
        let before = taken.len();
        self.priorities.clear_ready(taken);
        self.returns.forget_ranges(taken.get(before..).unwrap_or_default());
        let mut delayed = Vec::new();
        self.delayed.clear(&mut delayed);
        for position in delayed.iter().flat_map(|range| range.start..range.end) {
            self.forget(position);
        }
        taken.extend(delayed);
        self.ready_bytes.set(0);
    }
}
