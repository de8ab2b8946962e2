use crate::AckMode;
use crate::delivery_counts::{DeliveryCounts, Return, Returns};
use crate::expiry::Deadlines;
use crate::limits::{Refused, Sizes};
use crate::positions::{PositionRange, PositionSet};
use crate::priorities::Priorities;
use crate::queue_policy::{MessageAttrs, QueuePolicy, Reason, RecoveredMessages};
use crate::retry::Delayed;

/// What a queue knows about its messages when it has rules, beyond who holds which.
#[derive(Clone, Debug)]
pub(crate) struct Ruled {
    rules: QueuePolicy,
    lanes: Priorities,
    deadlines: Deadlines,
    sizes: Sizes,
    returns: Returns,
    delayed: Delayed,
    /// The counts of the message that was settled by being delivered last.
    parted: Option<(u64, DeliveryCounts)>,
    /// Where counts have changed since they were taken, if they are to be.
    returned: Vec<u64>,
}

impl Ruled {
    pub(crate) fn new(rules: QueuePolicy) -> Self {
        Self {
            rules,
            lanes: Priorities::new(rules.priority_max),
            deadlines: Deadlines::default(),
            sizes: Sizes::default(),
            returns: Returns::default(),
            returned: Vec::new(),
            delayed: Delayed::default(),
            parted: None,
        }
    }

    pub(crate) const fn rules(&self) -> &QueuePolicy {
        &self.rules
    }

    /// Takes new rules, except for the highest priority.
    pub(crate) fn set_rules(&mut self, rules: QueuePolicy) {
        self.rules = QueuePolicy { priority_max: self.lanes.priority_max(), ..rules };
        if self.rules.limits.bytes_max.is_none() {
            self.sizes.clear();
        }
        if !self.rules.counts() {
            self.returns = Returns::default();
        }
        if !self.rules.notes_returns {
            self.returned.clear();
        }
    }

    /// The counts that have changed since this was asked last, of messages that are there.
    pub(crate) fn take_returned(&mut self) -> Vec<(u64, DeliveryCounts)> {
        if self.returned.is_empty() {
            return Vec::new();
        }
        let changed = std::mem::take(&mut self.returned);
        let counted = changed.into_iter().map(|position| (position, self.returns.of(position)));
        counted.filter(|(_, counts)| *counts != DeliveryCounts::default()).collect()
    }

    pub(crate) const fn n_ready(&self) -> u64 {
        self.lanes.n_ready()
    }

    pub(crate) const fn n_delayed(&self) -> u64 {
        self.delayed.len()
    }

    pub(crate) const fn lanes(&self) -> &Priorities {
        &self.lanes
    }

    pub(crate) const fn returns(&self) -> &Returns {
        &self.returns
    }

    pub(crate) const fn delayed(&self) -> &Delayed {
        &self.delayed
    }

    /// Puts in what a plain queue held: the lowest priority, no deadline, no size.
    pub(crate) fn adopt(&mut self, ready: &PositionSet, held: impl Iterator<Item = u64>) {
        for range in ready.ranges() {
            self.lanes.push_back(range, 0);
        }
        for position in held {
            self.lanes.add_away(position, 0);
        }
    }

    pub(crate) fn admits(&self, bytes: u64) -> Result<(), Refused> {
        let n_messages = self.n_ready() + self.n_delayed() + 1;
        self.rules.limits.admit(n_messages, self.sizes.ready_bytes().saturating_add(bytes))
    }

    pub(crate) fn put(
        &mut self,
        range: PositionRange,
        arrival: &MessageAttrs,
        now_ms: u64,
        n_held: u64,
    ) {
        self.lanes.push_back(range, arrival.priority);
        if let Some(deadline_ms) = arrival.deadline_ms {
            let n_live = self.n_ready() + self.n_delayed() + n_held;
            self.deadlines.push(range, deadline_ms, now_ms, &self.lanes, n_live);
        }
        self.note_bytes_come(arrival.bytes);
    }

    pub(crate) fn restore(&mut self, stored: &RecoveredMessages, now_ms: u64) {
        let RecoveredMessages { positions, priority, deadline_ms, bytes, returns } = *stored;
        self.put(positions, &MessageAttrs { priority, deadline_ms, bytes }, now_ms, 0);
        if returns != DeliveryCounts::default() {
            for position in positions.start..positions.end {
                self.restore_returns(position, returns);
            }
        }
    }

    pub(crate) fn restore_returns(&mut self, position: u64, counts: DeliveryCounts) {
        if self.rules.counts() {
            self.returns.restore(position, counts);
        }
    }

    #[inline(never)]
    pub(crate) fn pop_next(&mut self, settling: AckMode) -> Option<u64> {
        match settling {
            AckMode::Manual => self.lanes.send_next(),
            AckMode::Auto => {
                let position = self.lanes.pop_next()?;
                if self.rules.counts() {
                    self.parted = Some((position, self.returns.of(position)));
                    self.returns.forget(position);
                }
                Some(position)
            }
        }
    }

    pub(crate) fn note_sent(&mut self, position: u64, settling: AckMode, bytes: u64) {
        self.note_bytes_gone(bytes);
        if settling == AckMode::Manual {
            self.note_held(position, bytes);
        }
    }

    const fn note_bytes_come(&mut self, bytes: u64) {
        if self.rules.limits.bytes_max.is_some() {
            self.sizes.came(bytes);
        }
    }

    pub(crate) const fn note_bytes_gone(&mut self, bytes: u64) {
        self.sizes.left(bytes);
    }

    pub(crate) const fn set_ready_bytes(&mut self, bytes: u64) {
        self.sizes.set_ready_bytes(bytes);
    }

    pub(crate) fn note_held(&mut self, position: u64, bytes: u64) {
        if self.rules.limits.bytes_max.is_some() && self.lanes.is_away(position) {
            self.sizes.note_away(position, bytes);
        }
    }

    pub(crate) const fn ready_bytes(&self) -> u64 {
        self.sizes.ready_bytes()
    }

    /// A message that was away is gone.
    pub(crate) fn forget(&mut self, position: u64) {
        self.lanes.forget_away(position);
        self.deadlines.forget(position);
        self.sizes.forget(position);
        if self.rules.counts() {
            self.returns.forget(position);
        }
    }

    /// A message comes back: it is ready, or waits, or is gone for the reason returned.
    pub(crate) fn come_back(&mut self, position: u64, how: Return, now_ms: u64) -> Option<Reason> {
        let counts = if self.rules.counts() {
            self.returns.note(position, how)
        } else {
            DeliveryCounts::default()
        };
        if self.rules.delivery_limit.is_some_and(|limit| counts.n_failed > limit) {
            self.forget(position);
            return Some(Reason::DeliveryLimit);
        }
        if self.rules.notes_returns {
            self.returned.push(position);
        }
        let retry = self.rules.retry;
        match retry.and_then(|retry| retry.ready_at_ms(how, counts.n_failed, now_ms)) {
            Some(ready_at_ms) if ready_at_ms > now_ms => self.delayed.push(position, ready_at_ms),
            Some(_) | None => self.make_ready(position),
        }
        None
    }

    pub(crate) fn make_ready(&mut self, position: u64) {
        if self.lanes.come_back(position) {
            self.deadlines.come_back(position);
            self.sizes.come_back(position);
        }
    }

    pub(crate) fn return_counts(&self, position: u64) -> DeliveryCounts {
        match self.parted {
            Some((parted, counts)) if parted == position => counts,
            Some(_) | None => self.returns.of(position),
        }
    }

    /// Takes out a message that is too many.
    pub(crate) fn pop_over_limit(&mut self) -> Option<u64> {
        let n_messages = self.n_ready() + self.n_delayed();
        if !self.rules.limits.drops(n_messages, self.sizes.ready_bytes()) {
            return None;
        }
        let position = self.lanes.pop_least()?;
        self.returns.forget(position);
        Some(position)
    }

    pub(crate) fn next_ms(&self) -> Option<u64> {
        [self.deadlines.next_ms(), self.delayed.next_ms()].into_iter().flatten().min()
    }

    /// Makes a message ready that has waited long enough.
    pub(crate) fn wake_one(&mut self, now_ms: u64) -> bool {
        let Some(position) = self.delayed.pop_due(now_ms) else { return false };
        self.make_ready(position);
        true
    }

    pub(crate) fn expire(&mut self, now_ms: u64, limit: u64, taken: &mut Vec<PositionRange>) {
        let before = taken.len();
        self.deadlines.expire(now_ms, limit, &mut self.lanes, taken);
        self.forget_returns(taken.get(before..).unwrap_or_default());
    }

    pub(crate) fn by_deadline(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.deadlines.in_order().filter(|(_, position)| self.lanes.is_ready(*position))
    }

    pub(crate) fn take_ready(&mut self, range: PositionRange, taken: &mut Vec<PositionRange>) {
        let before = taken.len();
        self.lanes.take_ready(range, taken);
        self.forget_returns(taken.get(before..).unwrap_or_default());
    }

    fn forget_returns(&mut self, ranges: &[PositionRange]) {
        for range in ranges.iter().filter(|_| self.rules.counts()) {
            self.returns.forget_range(*range);
        }
    }

    /// Takes everything out that nobody holds.
    pub(crate) fn purge(&mut self, taken: &mut Vec<PositionRange>) {
        let before = taken.len();
        self.lanes.clear_ready(taken);
        self.forget_returns(taken.get(before..).unwrap_or_default());
        let mut delayed = Vec::new();
        self.delayed.clear(&mut delayed);
        for position in delayed.iter().flat_map(|range| range.start..range.end) {
            self.forget(position);
        }
        taken.extend(delayed);
        self.sizes.set_ready_bytes(0);
    }
}
