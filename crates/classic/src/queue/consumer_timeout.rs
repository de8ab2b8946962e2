//! Messages that wait for their acknowledgement for too long.
//!
//! Nothing is noted when a message is given out. What each consumer holds is looked at every few seconds, and
//! what is held newly is gathered in a set with the time of that look: a bit or so per message. Sets that are
//! close together for their age are joined. A message that is still there when its set is as old as the
//! time-out is overdue; it was given out before that by an eighth of the time-out at most.
//!
//! Where the queue has no record of what a consumer holds (`ack-direct`), the client's outbox is asked for
//! the oldest delivery, by its number; the newest number at each look stands for the set.

use super::consumers::Consumers;
use delivery::ConsumerChannel;
use queue::{ConsumerKey, PositionSet};
use queue_type::AckTimeout;
use session::UnsettledSince;
use std::collections::{BTreeMap, VecDeque};
use stdx::MonotonicMs;

/// Parts that an age or a time-out has: joined sets cover one part of their age at most.
const PARTS: u64 = 8;
/// Milliseconds between two looks for messages held newly; a part of the time-out if that is shorter.
const APART_MS: u64 = 5_000;
/// The time-out by which sets are made where there is none. COMPAT: RabbitMQ's.
const USUAL_TIMEOUT_MS: u64 = 1_800_000;

/// Messages that consumers hold, by the time since when they are known to be held.
#[derive(Debug, Default)]
pub(super) struct UnackedAges(BTreeMap<ConsumerKey, Ages>);

/// Messages that one consumer holds, by the time since when they are known to be held.
#[derive(Debug, Default)]
struct Ages {
    recorded: VecDeque<UnackedSince>,
    /// Time of the last look for messages held newly.
    looked_ms: Option<MonotonicMs>,
    /// Delivery numbers with a time by which all deliveries up to that number were made.
    unrecorded: VecDeque<(u64, MonotonicMs)>,
}

/// Messages that were first seen to be held at about the same time.
#[derive(Debug)]
struct UnackedSince {
    /// Time before which none of the messages was held.
    from_ms: MonotonicMs,
    /// Time by which all of the messages were held.
    since_ms: MonotonicMs,
    positions: PositionSet,
}

impl UnackedAges {
    /// Forgets a message that comes back to the queue, for the same consumer may get it again before the next
    /// look.
    pub(super) fn forget(&mut self, consumer: ConsumerKey, position: u64) {
        let ages = self.0.get_mut(&consumer);
        for seen in ages.into_iter().flat_map(|ages| &mut ages.recorded) {
            seen.positions.remove(position);
        }
    }

    /// Forgets all messages that a consumer holds.
    pub(super) fn forget_all(&mut self, consumer: ConsumerKey) {
        self.0.remove(&consumer);
    }

    /// Channels that hold a message for too long as of `now_ms`.
    pub(super) fn overdue(
        &mut self,
        core: &queue::Consumers,
        consumers: &Consumers,
        timeout_ms_of: impl Fn(Option<&ConsumerChannel>) -> Option<u64>,
        now_ms: MonotonicMs,
    ) -> Vec<AckTimeout> {
        let mut overdue = Vec::new();
        let holder = |consumer| core.get(consumer).filter(|it| it.n_held() > 0);
        self.0.retain(|consumer, _| holder(*consumer).is_some());
        for (consumer, (connection, channel)) in consumers.owners() {
            let host = consumers.get(consumer);
            let Some(holder) = holder(consumer) else { continue };
            let of_consumer_ms = timeout_ms_of(host);
            let timeout_ms = of_consumer_ms.unwrap_or(USUAL_TIMEOUT_MS);
            let ages = self.0.entry(consumer).or_default();
            let host = host.filter(|_| holder.holds_unrecorded());
            let is_overdue = ages.look_at_recorded(holder, timeout_ms, now_ms)
                || host.is_some_and(|host| ages.look_at_unrecorded(host, timeout_ms, now_ms));
            if is_overdue && of_consumer_ms.is_some() {
                overdue.push(AckTimeout { connection, channel, timeout_ms });
            }
        }
        overdue
    }

    /// Time by which a consumer held a message that it holds now.
    pub(super) fn seen_ms(
        &self,
        consumer: ConsumerKey,
        position: u64,
        now_ms: MonotonicMs,
    ) -> MonotonicMs {
        let mut recorded = self.0.get(&consumer).into_iter().flat_map(|ages| &ages.recorded);
        let seen = recorded.find(|seen| seen.positions.contains(position));
        seen.map_or(now_ms, |seen| seen.since_ms)
    }

    /// Time since when a consumer has held its oldest message, at least; none before the first look.
    pub(super) fn since_ms(
        &self,
        consumer: ConsumerKey,
        holder: &queue::Consumer,
        host: Option<&ConsumerChannel>,
    ) -> Option<MonotonicMs> {
        let Ages { recorded, unrecorded, .. } = self.0.get(&consumer)?;
        let is_held = |seen: &&UnackedSince| {
            seen.positions.ranges().any(|it| (it.start..it.end).any(|at| holder.holds(at)))
        };
        let seen = recorded.iter().find(is_held);
        let oldest = host.and_then(|host| host.outbox.unsettled_since(host.link));
        let is_older =
            |(upto, _): &&(u64, MonotonicMs)| oldest.is_some_and(|it| it.oldest <= *upto);
        let mark = unrecorded.iter().find(is_older);
        seen.map(|seen| seen.since_ms).into_iter().chain(mark.map(|(_, at_ms)| *at_ms)).min()
    }
}

impl Ages {
    /// Whether the consumer holds something for too long.
    fn look_at_recorded(
        &mut self,
        holder: &queue::Consumer,
        timeout_ms: u64,
        now_ms: MonotonicMs,
    ) -> bool {
        let sets = &mut self.recorded;
        for seen in sets.iter_mut() {
            // The first position that is still held is enough to keep the set.
            while seen.positions.first().is_some_and(|at| !holder.holds(at)) {
                seen.positions.pop_first();
            }
        }
        sets.retain(|seen| !seen.positions.is_empty());
        if sets.front().is_some_and(|oldest| now_ms >= oldest.since_ms.plus(timeout_ms)) {
            return true;
        }
        let apart_ms = APART_MS.min(timeout_ms.div_ceil(PARTS));
        if self.looked_ms.is_none_or(|looked_ms| now_ms >= looked_ms.plus(apart_ms)) {
            join_neighbours(sets, now_ms);
            let positions = held_newly(holder, sets);
            let from_ms = self.looked_ms.replace(now_ms).unwrap_or(now_ms);
            if !positions.is_empty() {
                sets.push_back(UnackedSince { from_ms, since_ms: now_ms, positions });
            }
        }
        false
    }
    /// Whether the consumer has held a message for too long of which there is no record. The outbox is asked
    /// no more often than its answer can matter.
    fn look_at_unrecorded(
        &mut self,
        host: &ConsumerChannel,
        timeout_ms: u64,
        now_ms: MonotonicMs,
    ) -> bool {
        let marks = &mut self.unrecorded;
        let is_over = |mark: Option<&(u64, MonotonicMs)>| {
            mark.is_some_and(|(_, at)| now_ms >= at.plus(timeout_ms))
        };
        let part_ms = timeout_ms.div_ceil(PARTS);
        let is_time = marks.back().is_none_or(|(_, at_ms)| now_ms >= at_ms.plus(part_ms));
        if !is_time && !is_over(marks.front()) {
            return false;
        }
        let Some(UnsettledSince { oldest, newest }) = host.outbox.unsettled_since(host.link) else {
            marks.clear();
            return false;
        };
        while marks.pop_front_if(|(upto, _)| *upto < oldest).is_some() {}
        if is_over(marks.front()) {
            return true;
        }
        if is_time {
            marks.push_back((newest, now_ms));
        }
        false
    }
}

/// Joins sets that are close together for their age; the later time counts.
fn join_neighbours(sets: &mut VecDeque<UnackedSince>, now_ms: MonotonicMs) {
    let mut joined: VecDeque<UnackedSince> = VecDeque::with_capacity(sets.len());
    for mut newer in sets.drain(..) {
        let age_ms = now_ms.since(newer.since_ms);
        let is_close =
            |older: &mut UnackedSince| newer.since_ms.since(older.from_ms) <= age_ms / PARTS;
        if let Some(older) = joined.pop_back_if(is_close) {
            for at in older.positions.ranges().flat_map(|range| range.start..range.end) {
                newer.positions.insert(at);
            }
            newer.from_ms = older.from_ms;
        }
        joined.push_back(newer);
    }
    *sets = joined;
}

/// Messages that a consumer holds and that are in no set yet.
fn held_newly(holder: &queue::Consumer, sets: &VecDeque<UnackedSince>) -> PositionSet {
    let has =
        |seen: &UnackedSince, at| seen.positions.last() >= Some(at) && seen.positions.contains(at);
    let mut positions = PositionSet::new();
    let is_new = |at: &u64| !sets.iter().any(|seen| has(seen, *at));
    holder.held().filter(is_new).for_each(|at| positions.push_back(at, 1));
    positions
}
