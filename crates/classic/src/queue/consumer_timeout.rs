//! Messages that wait for their acknowledgement for too long.
//!
//! Nothing is noted when a message is given out. What each consumer holds is looked at now and then, and
//! what is held newly is gathered in a set with the time of that look: a bit or so per message. A message
//! that is still there when its set is as old as the time-out is overdue; it was given out before that by
//! an eighth of the time-out at most.

use super::consumer_channel::ConsumerChannel;
use super::consumers::Consumers;
use super::state::QueueState;
use super::upkeep::Upkeep;
use queue::{ConsumerKey, PositionSet};
use queue_type::AckTimeout;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

/// Sets of a consumer: each covers this part of the time-out.
const SETS_MAX: u64 = 8;

/// Messages that consumers hold, by when they were first seen to.
#[derive(Debug, Default)]
pub(super) struct UnackedAges(BTreeMap<ConsumerKey, VecDeque<UnackedSince>>);

/// Messages that were first seen to be held together.
#[derive(Debug)]
struct UnackedSince {
    since_ms: u64,
    positions: PositionSet,
}

impl UnackedAges {
    /// The message comes back to the queue: it is not held any more, even if the same consumer gets it
    /// again before the next look.
    pub(super) fn forget(&mut self, consumer: ConsumerKey, position: u64) {
        for seen in self.0.get_mut(&consumer).into_iter().flatten() {
            seen.positions.remove(position);
        }
    }

    /// Likewise all that a consumer holds.
    pub(super) fn forget_all(&mut self, consumer: ConsumerKey) {
        self.0.remove(&consumer);
    }

    /// The channels that hold a message for too long as of `now_ms`.
    fn overdue(
        &mut self,
        core: &queue::Consumers,
        consumers: &Consumers,
        timeout_ms_of: impl Fn(Option<&ConsumerChannel>) -> Option<u64>,
        now_ms: u64,
    ) -> Vec<AckTimeout> {
        let mut overdue = Vec::new();
        let holder = |consumer| core.get(consumer).filter(|it| it.n_held() > 0);
        self.0.retain(|consumer, _| holder(*consumer).is_some());
        for (consumer, (connection, channel)) in consumers.owners() {
            let timeout_ms = timeout_ms_of(consumers.get(consumer));
            let (Some(timeout_ms), Some(holder)) = (timeout_ms, holder(consumer)) else { continue };
            if look_at(holder, self.0.entry(consumer).or_default(), timeout_ms, now_ms) {
                overdue.push(AckTimeout { connection, channel, timeout_ms });
            }
        }
        overdue
    }
}

/// Whether the consumer holds something for too long.
fn look_at(
    holder: &queue::Consumer,
    sets: &mut VecDeque<UnackedSince>,
    timeout_ms: u64,
    now_ms: u64,
) -> bool {
    for seen in sets.iter_mut() {
        // One that is still held says enough.
        while seen.positions.first().is_some_and(|at| !holder.holds(at)) {
            seen.positions.pop_first();
        }
    }
    sets.retain(|seen| !seen.positions.is_empty());
    if sets.front().is_some_and(|oldest| now_ms >= oldest.since_ms + timeout_ms) {
        return true;
    }
    let is_time = |newest: &UnackedSince| now_ms >= newest.since_ms + timeout_ms.div_ceil(SETS_MAX);
    if sets.back().is_none_or(is_time) {
        let is_new = |at: &u64| !sets.iter().any(|seen| seen.positions.contains(*at));
        let mut positions = PositionSet::new();
        holder.held().filter(is_new).for_each(|at| positions.push_back(at, 1));
        if !positions.is_empty() {
            sets.push_back(UnackedSince { since_ms: now_ms, positions });
        }
    }
    false
}

/// A consumer's own time-out.
fn own_timeout_ms(consumer: &ConsumerChannel) -> Option<u64> {
    let own_ms = consumer.arguments.get(b"x-consumer-timeout")?.as_i64()?;
    u64::try_from(own_ms).ok()
}

impl Upkeep<'_> {
    /// The channels that hold a message of this queue for too long, as of now by a clock that never
    /// goes back.
    #[must_use]
    pub fn overdue(self, node_timeout_ms: Option<u64>, now_ms: u64) -> Vec<AckTimeout> {
        if self.0.counters.n_unacked.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut state = stdx::lock(&self.0.state);
        let of_queue_ms = state.policy.consumer_timeout_ms();
        let QueueState { fifo, consumers, ages, .. } = &mut *state;
        // A consumer's own, or the queue's, or the node's.
        let timeout_ms_of = |consumer: Option<&ConsumerChannel>| {
            let timeout_ms = consumer.and_then(own_timeout_ms).or(of_queue_ms).or(node_timeout_ms);
            timeout_ms.filter(|timeout_ms| *timeout_ms > 0)
        };
        ages.overdue(fifo.consumers(), consumers, timeout_ms_of, now_ms)
    }
}
