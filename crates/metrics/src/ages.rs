//! Ages of the oldest message of each queue. No queue notes when a message came: looks at how many have come
//! so far, one every few seconds, tell between which two looks the oldest did.

use meta::QueueId;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use stdx::Now;

/// Most looks at a queue that are remembered. Beyond that every second of the older ones is forgotten: the
/// rest is near enough for a message as old.
const LOOKS_MAX: usize = 32;

/// The looks at each queue that has messages.
#[derive(Debug, Default)]
pub struct Ages(Mutex<HashMap<QueueId, Looks>>);

/// A queue that has changed between two looks.
#[derive(Clone, Copy, Debug)]
pub struct ChangedQueue {
    /// The queue.
    pub id: QueueId,
    /// The number of messages that have come so far.
    pub n_come: u64,
    /// The number of messages that are there.
    pub n_messages: u64,
}

/// Times, in milliseconds, and messages that had come by then; the oldest message came after the first.
#[derive(Debug, Default)]
struct Looks(VecDeque<(u64, u64)>);

impl Looks {
    /// A look at a queue that has changed since the one at `before_ms`.
    fn look(&mut self, before_ms: u64, now_ms: u64, n_come: u64, n_messages: u64) {
        // The count of the last look held until `before_ms`.
        if let Some((at_ms, n_come)) = self.0.back().copied().filter(|(at, _)| *at < before_ms) {
            debug_assert!(at_ms < now_ms);
            self.0.push_back((before_ms, n_come));
        }
        let n_before = n_come.saturating_sub(n_messages);
        while self.0.get(1).is_some_and(|(_, n)| *n <= n_before) {
            self.0.pop_front();
        }
        self.0.push_back((now_ms, n_come));
        if self.0.len() > LOOKS_MAX {
            let mut at = 0;
            self.0.retain(|_| {
                at += 1;
                at == 1 || at % 2 == 0 || at > LOOKS_MAX / 2
            });
        }
    }

    fn age_ms(&self, now_ms: u64) -> u64 {
        self.0.front().map_or(0, |(at_ms, _)| now_ms.saturating_sub(*at_ms))
    }

    fn age_seconds(&self, now: Now) -> f64 {
        self.age_ms(now.monotonic_ms.get()) as f64 / 1e3
    }
}

impl Ages {
    /// Looks at queues that have changed between the last look and this one. Of a stream's messages the age
    /// says nothing: they stay.
    pub fn look(
        &self,
        changed: &[ChangedQueue],
        before_ms: u64,
        now_ms: u64,
        is_there: impl Fn(QueueId) -> bool,
    ) {
        let mut ages = stdx::lock(&self.0);
        ages.retain(|id, _| is_there(*id));
        for &ChangedQueue { id, n_come, n_messages } in changed {
            if n_messages == 0 {
                ages.remove(&id);
            } else {
                ages.entry(id).or_default().look(before_ms, now_ms, n_come, n_messages);
            }
        }
    }

    /// The age of the oldest message of each queue that had messages at the last look, seconds.
    #[must_use]
    pub fn seconds(&self, now: Now) -> HashMap<QueueId, f64> {
        let looks = stdx::lock(&self.0);
        looks.iter().map(|(id, looks)| (*id, looks.age_seconds(now))).collect()
    }

    /// The age of a queue's oldest message, if the queue had messages at the last look, seconds.
    #[must_use]
    pub fn seconds_of(&self, queue: QueueId, now: Now) -> Option<f64> {
        Some(stdx::lock(&self.0).get(&queue)?.age_seconds(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten messages a second come and as many go, and ever more stay: the age is never less than what it is,
    /// and not much more.
    #[test]
    fn the_oldest_is_as_old_as_the_looks_tell() {
        let mut looks = Looks::default();
        for second in 1..=100_000_u64 {
            let (n_come, n_gone) = (second * 10, second * 5);
            looks.look((second - 1) * 1_000, second * 1_000, n_come, n_come - n_gone);
            let came_ms = n_gone * 100;
            let age_ms = second * 1_000 - came_ms;
            let estimated_ms = looks.age_ms(second * 1_000);
            assert!(looks.0.len() <= LOOKS_MAX);
            assert!(
                second == 1 || (age_ms..=age_ms * 3 / 2 + 1_000).contains(&estimated_ms),
                "{second}: {age_ms} {estimated_ms}"
            );
        }
    }

    #[test]
    fn what_was_there_first_is_as_old_as_the_first_look_at_least() {
        let mut looks = Looks::default();
        looks.look(0, 1_000, 0, 7);
        looks.look(1_000, 6_000, 10, 10);
        assert_eq!(looks.age_ms(7_000), 6_000);
        // The seven are gone, and so are three of the ten.
        // At 16 s nothing has changed.
        looks.look(6_000, 11_000, 10, 7);
        assert_eq!(looks.age_ms(16_000), 15_000);
        looks.look(16_000, 21_000, 15, 5);
        assert_eq!(looks.age_ms(21_000), 5_000);
    }
}
