use crate::consumers::{AckMode, Consumers};
use crate::delivery_counts::{DeliveryCounts, Return};
use crate::failed_deliveries::FailedDeliveries;
use crate::policy_state::PolicyState;
use crate::positions::{PositionRange, PositionSet};
use crate::queue_policy::{Gone, MessageAttrs, QueuePolicy, Reason, RecoveredMessages};
use stdx::UnixMs;

/// The messages of a queue that nobody holds: ready in their order, or waiting to be tried again.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    next_position: u64,
    /// Ready messages of a plain queue; empty in a queue with a policy.
    ready: PositionSet,
    /// Positions nobody holds that a consumer had before.
    redelivered: PositionSet,
    /// Deliveries that failed, of messages that are here or held.
    pub(crate) failed: FailedDeliveries,
    /// State that a policy needs; none in a plain queue.
    policy: Option<Box<PolicyState>>,
}

impl Messages {
    /// Number of messages that a consumer could get now.
    #[inline]
    pub fn n_ready(&self) -> u64 {
        self.policy.as_ref().map_or(self.ready.len(), |policy| policy.priorities().n_ready())
    }

    /// The position the next message will get.
    pub const fn next_position(&self) -> u64 {
        self.next_position
    }

    /// The position of the message that is given out next.
    #[must_use]
    pub fn head(&self) -> Option<u64> {
        self.policy.as_ref().map_or_else(|| self.ready.first(), |policy| policy.priorities().head())
    }

    /// Ready positions by priority, of those priorities that have any, rising.
    pub fn ready_by_priority(&self) -> impl Iterator<Item = (u8, &PositionSet)> + '_ {
        let plain = (!self.ready.is_empty()).then_some((0, &self.ready));
        let policy = self.policy.iter().flat_map(|policy| policy.priorities().ready());
        plain.into_iter().chain(policy)
    }

    /// The ready positions, by rising priority.
    pub fn ready(&self) -> impl Iterator<Item = PositionRange> + '_ {
        self.ready_by_priority().flat_map(|(_, set)| set.ranges())
    }

    /// The lowest position that no consumer was ever given.
    #[must_use]
    pub fn first_undelivered(&self) -> u64 {
        let fresh = |range: &PositionRange| {
            (range.start..range.end).find(|position| !self.redelivered.contains(*position))
        };
        let first_of = |set: &PositionSet| set.ranges().find_map(|range| fresh(&range));
        let firsts = self.ready_by_priority().filter_map(|(_, set)| first_of(set));
        firsts.min().unwrap_or(self.next_position)
    }

    /// State of the queue's policy, or of messages that expire; none in a plain queue.
    pub fn policy(&self) -> Option<&PolicyState> {
        self.policy.as_deref()
    }

    /// State of the queue's policy, to be changed.
    pub fn policy_mut(&mut self) -> Option<&mut PolicyState> {
        self.policy.as_deref_mut()
    }

    /// Takes a new policy. The highest priority stays as it is once there is one.
    pub(crate) fn set_policy(&mut self, policy: QueuePolicy, consumers: &Consumers) {
        match &mut self.policy {
            None if policy.is_plain() => {}
            None => self.begin_policy(policy, consumers),
            Some(state) => state.set(policy),
        }
    }

    #[cold]
    fn begin_policy(&mut self, policy: QueuePolicy, consumers: &Consumers) {
        let mut state = Box::new(PolicyState::new(policy));
        state.adopt(&self.ready, consumers.held().map(|(_, position)| position));
        self.ready.clear();
        self.policy = Some(state);
    }

    /// Puts `n` messages at the tail of a plain queue, or gives positions to messages that go through.
    #[inline]
    pub(crate) fn push(&mut self, n: u64) -> u64 {
        debug_assert!(self.policy.is_none(), "a queue with a policy is told more");
        let first = self.pass(n);
        self.ready.push_back(first, n);
        first
    }

    /// Gives `n` messages positions that are gone at once; returns the first.
    #[inline]
    pub(crate) const fn pass(&mut self, n: u64) -> u64 {
        let first = self.next_position;
        self.next_position += n;
        first
    }

    /// Puts messages in that a policy or a deadline applies to.
    #[inline(never)]
    pub(crate) fn put(
        &mut self,
        n: u64,
        arrival: &MessageAttrs,
        now_ms: UnixMs,
        consumers: &Consumers,
    ) -> u64 {
        let is_moot = |policy: &PolicyState| consumers.n_held() == 0 && policy.is_moot();
        if arrival.deadline_ms.is_none() && self.policy().is_none_or(is_moot) {
            self.policy = None;
            return self.push(n);
        }
        let start = self.pass(n);
        let range = PositionRange { start, end: start + n };
        if let Some(policy) = self.policy_for(consumers) {
            policy.put(range, arrival, now_ms, consumers.n_held());
        }
        start
    }

    #[inline(always)]
    fn policy_for(&mut self, consumers: &Consumers) -> Option<&mut PolicyState> {
        if self.policy.is_none() {
            self.begin_policy(QueuePolicy::default(), consumers);
        }
        self.policy.as_deref_mut()
    }

    /// Takes out the next message, to be settled as `settling` says; returns whether a consumer had it
    /// before.
    #[inline(always)]
    pub(crate) fn pop(&mut self, settling: impl FnOnce() -> AckMode) -> Option<(u64, bool)> {
        let position = match &mut self.policy {
            None => self.ready.pop_first()?,
            Some(policy) => policy.pop_next(settling())?,
        };
        debug_assert!(position < self.next_position, "a ready message was put in");
        let redelivered = !self.redelivered.is_empty() && self.redelivered.remove(position);
        Some((position, redelivered))
    }

    /// Forgets a message that was held and is gone.
    #[inline]
    pub(crate) fn forget(&mut self, position: u64) {
        if let Some(policy) = &mut self.policy {
            policy.forget(position);
        }
        self.failed.forget(position);
    }

    /// Takes back a message that was held: it is ready at its old place, or waits, or is gone.
    pub(crate) fn come_back(
        &mut self,
        position: u64,
        how: Return,
        now_ms: UnixMs,
        gone: &mut Vec<Gone>,
    ) {
        assert!(position < self.next_position, "what comes back was given a position");
        let reason = match &mut self.policy {
            None => {
                let was_held = self.ready.insert(position);
                assert!(was_held, "a message is held or ready");
                None
            }
            Some(policy) => policy.come_back(position, how, now_ms),
        };
        match reason {
            Some(reason) => {
                self.failed.forget(position);
                gone.push(Gone { positions: PositionRange::one(position), reason });
            }
            None => {
                self.redelivered.insert(position);
                if how == Return::Failed {
                    self.failed.add(position);
                }
            }
        }
    }

    /// Takes out one message above the limit: the oldest of the lowest priority.
    pub fn drop_over_limit(&mut self) -> Option<Gone> {
        // COMPAT: RabbitMQ's priority queues drop the oldest of the highest priority.
        let position = self.policy.as_mut()?.pop_over_limit()?;
        if !self.redelivered.is_empty() {
            self.redelivered.remove(position);
        }
        self.failed.forget(position);
        Some(Gone { positions: PositionRange::one(position), reason: Reason::MaxLen })
    }

    /// Takes out ready messages whose time is over, wherever they stand, and not many more than `limit`;
    /// `gone` gets them. Held messages go when they come back.
    pub fn expire(&mut self, now_ms: UnixMs, limit: u64, gone: &mut Vec<Gone>) {
        let Some(policy) = &mut self.policy else { return };
        let mut taken = Vec::new();
        policy.expire(now_ms, limit, &mut taken);
        self.forget_redelivered(&taken);
        let reason = Reason::Expired;
        gone.extend(taken.into_iter().map(|positions| Gone { positions, reason }));
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
        self.failed.forget_ranges(taken);
    }

    /// Takes the ready messages among `positions` out, for nobody is to be given them; returns how many. Held
    /// messages stay.
    pub fn discard(&mut self, positions: PositionRange) -> u64 {
        let mut taken = Vec::new();
        match &mut self.policy {
            None => {
                self.ready.take_range(positions, &mut taken);
            }
            Some(policy) => policy.take_ready(positions, &mut taken),
        }
        self.forget_redelivered(&taken);
        taken.iter().map(|range| range.len()).sum()
    }

    /// Takes every message out that nobody holds; `gone` gets their positions.
    pub fn purge(&mut self, gone: &mut Vec<PositionRange>) -> u64 {
        let before = gone.len();
        gone.extend(self.ready.ranges());
        self.ready.clear();
        if let Some(policy) = &mut self.policy {
            policy.purge(gone);
        }
        self.redelivered.clear();
        self.failed.forget_ranges(gone.get(before..).unwrap_or_default());
        gone.iter().skip(before).map(|range| range.len()).sum()
    }

    /// Restores messages as they were before a restart; above those restored before.
    pub(crate) fn restore(
        &mut self,
        stored: &RecoveredMessages,
        now_ms: UnixMs,
        consumers: &Consumers,
    ) {
        let RecoveredMessages { positions: range, priority, deadline_ms, bytes, returns } = *stored;
        assert!(self.next_position <= range.start, "messages are put back in rising order");
        self.next_position = range.end;
        if self.policy.is_none() && deadline_ms.is_none() {
            self.ready.push_back(range.start, range.len());
            return;
        }
        let Some(policy) = self.policy_for(consumers) else { return };
        policy.put(range, &MessageAttrs { priority, deadline_ms, bytes }, now_ms, 0);
        if returns != DeliveryCounts::default() {
            for position in range.start..range.end {
                policy.returns_mut().restore(position, returns);
            }
        }
    }

    /// Ends the restoring. A consumer may have seen messages below `seen_below`, and those in `seen`; the
    /// next message gets `next_position`.
    pub fn restored(&mut self, next_position: u64, seen_below: u64, seen: &PositionSet) {
        assert!(self.next_position <= next_position, "positions are given out once");
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
        self.failed = FailedDeliveries::ones(&self.redelivered);
    }

    /// Positions nobody holds that a consumer had before.
    pub(crate) const fn redelivered(&self) -> &PositionSet {
        &self.redelivered
    }
}

/// The first ready messages that follow one another, of a plain queue none of whose ready messages a consumer
/// had before.
#[inline]
pub(crate) fn first_run(messages: &Messages) -> Option<PositionRange> {
    let is_fresh = messages.policy.is_none() && messages.redelivered.is_empty();
    if is_fresh { messages.ready.ranges().next() } else { None }
}

/// Takes the first `n` ready messages of a plain queue out.
pub(crate) fn drop_first(messages: &mut Messages, n: u64) {
    for _ in 0..n {
        messages.ready.pop_first();
    }
}

/// Forgets the failed deliveries of a message that is gone by its delivery, as all are that were assigned so.
pub(crate) fn forget_delivered(messages: &mut Messages, position: u64) {
    messages.failed.forget(position);
    if let Some(policy) = &mut messages.policy {
        policy.returns_mut().forget_parted();
    }
}

/// Deliveries of a message that failed: as many as the queue's policy counts, if it does.
#[cold]
#[must_use]
pub fn n_failed(messages: &Messages, position: u64) -> u32 {
    let counting = messages.policy().map(PolicyState::returns).filter(|it| it.is_counting());
    counting.map_or_else(|| messages.failed.of(position), |it| it.of(position).n_failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_leaves_no_count_of_failed_deliveries() {
        let failing = || {
            let mut messages = Messages::default();
            messages.push(2);
            let (held, _) = messages.pop(|| AckMode::Manual).unwrap();
            messages.come_back(held, Return::Failed, UnixMs::from_raw(0), &mut Vec::new());
            messages
        };
        let mut messages = failing();
        assert_eq!(n_failed(&messages, 0), 1);
        messages.forget(0);
        assert!(messages.failed.is_empty());
        let mut messages = failing();
        messages.purge(&mut Vec::new());
        assert!(messages.failed.is_empty());
        let mut messages = failing();
        messages.discard(PositionRange { start: 0, end: 1 });
        assert!(messages.failed.is_empty());
        // A consumer may have failed with what it had seen before a restart.
        let mut messages = failing();
        messages.restored(2, 2, &PositionSet::new());
        assert_eq!([0, 1].map(|position| n_failed(&messages, position)), [1, 1]);
    }
}
