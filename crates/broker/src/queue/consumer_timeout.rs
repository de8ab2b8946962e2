//! Messages that wait for their acknowledgement for too long.
//!
//! Nothing is noted when a message is given out. What each consumer holds is looked at now and then, and
//! what is held newly is gathered in a set with the time of that look: a bit or so per message. A message
//! that is still there when its set is as old as the time-out is overdue; it was given out before that by
//! an eighth of the time-out at most.

use super::Queue;
use super::state::QueueState;
use meta::ConnectionId;
use queue::{ConsumerKey, PositionSet};
use session::{ChannelId, Value};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

/// Sets of a consumer: each covers this part of the time-out.
const SETS_MAX: u64 = 8;

/// What consumers hold, by when they were first seen to.
#[derive(Debug, Default)]
pub(super) struct UnackedAges(BTreeMap<ConsumerKey, VecDeque<UnackedSince>>);

/// Messages that were first seen to be held together.
#[derive(Debug)]
struct UnackedSince {
    since_ms: u64,
    positions: PositionSet,
}

/// A channel that holds a message for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckTimeout {
    pub(crate) connection: ConnectionId,
    pub(crate) channel: ChannelId,
    pub(crate) timeout_ms: u64,
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
}

impl QueueState {
    fn overdue(&mut self, node_timeout_ms: Option<u64>, now_ms: u64) -> Vec<AckTimeout> {
        let mut overdue = Vec::new();
        let mut watched = std::mem::take(&mut self.watched);
        watched.0.retain(|consumer, _| self.fifo.n_held_by(*consumer) > 0);
        for (slot, owner) in (0..).zip(&self.owners) {
            let (Some(owner), consumer) = (owner, ConsumerKey(slot)) else { continue };
            let timeout_ms = self.timeout_ms(consumer, node_timeout_ms);
            let Some(timeout_ms) = timeout_ms.filter(|_| self.fifo.n_held_by(consumer) > 0) else {
                continue;
            };
            let sets = watched.0.entry(consumer).or_default();
            if self.look_at(consumer, sets, timeout_ms, now_ms) {
                let (connection, channel) = *owner;
                overdue.push(AckTimeout { connection, channel, timeout_ms });
            }
        }
        self.watched = watched;
        overdue
    }

    /// Whether the consumer holds something for too long.
    fn look_at(
        &self,
        consumer: ConsumerKey,
        sets: &mut VecDeque<UnackedSince>,
        timeout_ms: u64,
        now_ms: u64,
    ) -> bool {
        for seen in sets.iter_mut() {
            // One that is still held says enough.
            while seen.positions.first().is_some_and(|at| !self.fifo.holds(consumer, at)) {
                seen.positions.pop_first();
            }
        }
        sets.retain(|seen| !seen.positions.is_empty());
        if sets.front().is_some_and(|oldest| now_ms >= oldest.since_ms + timeout_ms) {
            return true;
        }
        let is_time =
            |newest: &UnackedSince| now_ms >= newest.since_ms + timeout_ms.div_ceil(SETS_MAX);
        if sets.back().is_none_or(is_time) {
            let is_new = |at: &u64| !sets.iter().any(|seen| seen.positions.contains(*at));
            let mut positions = PositionSet::new();
            for at in self.fifo.held_by(consumer).filter(is_new) {
                positions.push_back(at, 1);
            }
            if !positions.is_empty() {
                sets.push_back(UnackedSince { since_ms: now_ms, positions });
            }
        }
        false
    }

    /// The consumer's own time-out, or the queue's, or the node's.
    fn timeout_ms(&self, consumer: ConsumerKey, node_timeout_ms: Option<u64>) -> Option<u64> {
        let host = self.hosts.get(consumer.0 as usize).and_then(Option::as_ref);
        let own = host.and_then(|host| host.arguments.get(b"x-consumer-timeout"));
        let own = own.and_then(Value::as_i64).and_then(|own_ms| u64::try_from(own_ms).ok());
        let timeout_ms = own.or_else(|| self.queue_consumer_timeout_ms()).or(node_timeout_ms);
        timeout_ms.filter(|timeout_ms| *timeout_ms > 0)
    }
}

impl Queue {
    /// The channels that hold a message of this queue for too long, as of now by a clock that never
    /// goes back.
    pub(crate) fn overdue(&self, node_timeout_ms: Option<u64>, now_ms: u64) -> Vec<AckTimeout> {
        if self.counters.n_unacked.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        stdx::lock(&self.local).overdue(node_timeout_ms, now_ms)
    }
}
