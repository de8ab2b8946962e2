//! The messages of a quorum queue, whoever has them, but for who.

use super::bounds::PRIORITY_MAX;
use super::command::Arrival;
use super::departing::DepartingMessages;
use super::expiry::Expiry;
use super::notes::Notes;
use super::ready::Ready;
use super::settings::Settings;
use super::sizes::Sizes;
use crate::delivery_counts::Returns;
use crate::positions::{PositionRange, PositionSet};
use crate::retry::Delayed;
use crate::{DeliveryCounts, Reason, Return};
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::UnixMs;

/// Sizes of bodies by where their messages stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Bytes of messages that are ready or wait to be tried again.
    pub ready: u64,
    /// Bytes of messages that consumers hold.
    pub held: u64,
    /// Bytes of messages that depart.
    pub departing: u64,
}

/// The messages of a quorum queue: each is ready, held, delayed until it is tried again, or departs.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    pub(super) next_position: u64,
    pub(super) ready: Ready,
    /// Held or delayed.
    pub(super) away: PositionSet,
    pub(super) expiry: Expiry,
    pub(super) sizes: Sizes,
    pub(super) counts: Returns,
    /// Notes beside messages that came back, or depart since a consumer rejected them.
    pub(super) notes: Notes,
    pub(super) delayed: Delayed,
    /// Until when each delayed message waits.
    pub(super) delayed_until: BTreeMap<u64, UnixMs>,
    pub(super) departing: DepartingMessages,
    pub(super) bytes: Bytes,
}

impl Default for Backlog {
    fn default() -> Self {
        let mut counts = Returns::default();
        counts.set_counting(true);
        Self {
            next_position: 0,
            ready: Ready::default(),
            away: PositionSet::default(),
            expiry: Expiry::default(),
            sizes: Sizes::default(),
            counts,
            notes: Notes::default(),
            delayed: Delayed::default(),
            delayed_until: BTreeMap::new(),
            departing: DepartingMessages::default(),
            bytes: Bytes::default(),
        }
    }
}

impl Backlog {
    /// Messages of the queue.
    pub(super) const fn len(&self) -> u64 {
        self.ready.len() + self.away.len() + self.departing.len()
    }

    pub(super) const fn n_held(&self) -> u64 {
        self.away.len() - self.delayed.len()
    }

    /// Messages and bytes that length limits are about.
    pub(super) const fn counted(&self, settings: &Settings) -> (u64, u64) {
        let (n, bytes) = (self.ready.len() + self.delayed.len(), self.bytes.ready);
        if settings.keeps_departing() {
            (n + self.departing.len(), bytes.saturating_add(self.bytes.departing))
        } else {
            (n, bytes)
        }
    }

    /// Puts a message in; its position.
    #[inline]
    pub(super) fn push(
        &mut self,
        arrival: &Arrival,
        now_ms: UnixMs,
        queue_ttl_ms: Option<u64>,
    ) -> u64 {
        let position = self.next_position;
        self.next_position += 1;
        self.sizes.push(position, arrival.bytes);
        self.bytes.ready = self.bytes.ready.saturating_add(arrival.bytes.into());
        self.ready.push(position, arrival.priority.min(PRIORITY_MAX));
        let ttl_ms = [arrival.ttl_ms, queue_ttl_ms].into_iter().flatten().min();
        if let Some(ttl_ms) = ttl_ms {
            self.expiry.push(position, now_ms, ttl_ms);
        }
        position
    }

    /// Takes the next message out, to be held.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u64, DeliveryCounts)> {
        let (position, came_back) = self.ready.pop()?;
        debug_assert!(position < self.next_position, "a ready message was put in");
        let size = self.sizes.get(position).into();
        self.bytes.ready = self.bytes.ready.saturating_sub(size);
        self.bytes.held = self.bytes.held.saturating_add(size);
        self.away.insert(position);
        let counts = if came_back { self.counts.of(position) } else { DeliveryCounts::default() };
        Some((position, counts))
    }

    /// Takes a ready message out that is too many.
    pub(super) fn drop_next(&mut self) -> Option<u64> {
        // COMPAT: RabbitMQ drops what would be delivered next, whatever its priority.
        let (position, _) = self.ready.pop()?;
        self.left_ready(PositionRange::one(position));
        Some(position)
    }

    fn left_ready(&mut self, range: PositionRange) {
        self.bytes.ready = self.bytes.ready.saturating_sub(self.sizes.sum(range));
    }

    /// A held message is not held any more.
    #[inline]
    pub(super) fn let_go(&mut self, position: u64) -> bool {
        let was_away = self.away.remove(position);
        debug_assert!(was_away, "a message that is let go of was held");
        let size = self.sizes.get(position).into();
        self.bytes.held = self.bytes.held.saturating_sub(size);
        self.expiry.forget(position)
    }

    /// A held message comes back: it is ready, or waits, or is gone for the reason returned.
    pub(super) fn come_back(
        &mut self,
        position: u64,
        how: Return,
        now_ms: UnixMs,
        settings: &Settings,
    ) -> Option<Reason> {
        let is_overdue = self.let_go(position);
        let n_failed = self.counts.note(position, how).n_failed;
        if settings.delivery_limit.is_some_and(|limit| n_failed > limit) {
            return Some(Reason::DeliveryLimit);
        }
        if is_overdue {
            return Some(Reason::Expired);
        }
        self.bytes.ready = self.bytes.ready.saturating_add(self.sizes.get(position).into());
        match settings.retry.and_then(|retry| retry.ready_at_ms(how, n_failed, now_ms)) {
            Some(at_ms) if at_ms > now_ms => self.delay(position, at_ms),
            Some(_) | None => self.ready.come_back(position),
        }
        None
    }

    /// A held message that was not sent is the next one again, or gone for the reason returned.
    pub(super) fn put_back(&mut self, position: u64) -> Option<Reason> {
        if self.let_go(position) {
            return Some(Reason::Expired);
        }
        self.bytes.ready = self.bytes.ready.saturating_add(self.sizes.get(position).into());
        self.ready.come_back_first(position);
        None
    }

    fn delay(&mut self, position: u64, until_ms: UnixMs) {
        let was_here = self.away.insert(position);
        assert!(was_here, "a message that is to wait is nowhere else");
        self.delayed.push(position, until_ms);
        self.delayed_until.insert(position, until_ms);
    }

    /// Makes a message ready that has waited to be tried again; false if none has.
    pub(super) fn wake(&mut self, now_ms: UnixMs) -> bool {
        let Some(position) = self.delayed.pop_due(now_ms) else { return false };
        let until_ms = self.delayed_until.remove(&position);
        assert!(until_ms.is_some_and(|it| it <= now_ms), "a message is woken when it is due");
        self.away.remove(position);
        self.ready.come_back(position);
        true
    }

    /// Has those of some messages that wait to be tried again wait until then, or makes them ready.
    pub(super) fn reschedule(&mut self, positions: Range<u64>, until_ms: UnixMs, now_ms: UnixMs) {
        if positions.is_empty() {
            return;
        }
        let waiting = self.delayed_until.range(positions).map(|(at, until_ms)| (*at, *until_ms));
        for (position, before_ms) in waiting.collect::<Vec<_>>() {
            self.delayed.remove(position, before_ms);
            self.delayed_until.remove(&position);
            self.away.remove(position);
            match until_ms > now_ms {
                true => self.delay(position, until_ms),
                false => self.ready.come_back(position),
            }
        }
    }

    /// Takes out messages that are due and nobody holds, at most `n_max`; `taken` gets them in the order of
    /// their positions. False if nothing is due.
    pub(super) fn expire(
        &mut self,
        now_ms: UnixMs,
        n_max: u64,
        taken: &mut Vec<PositionRange>,
    ) -> bool {
        let Some(due) = self.expiry.pop_due(now_ms, n_max) else { return false };
        self.ready.take_range(due, taken);
        let away = self.away.ranges_from(due.start).take_while(|range| range.start < due.end);
        let away: Vec<u64> = away.flat_map(|range| range.start..range.end.min(due.end)).collect();
        for position in away {
            match self.delayed_until.remove(&position) {
                Some(until_ms) => {
                    self.delayed.remove(position, until_ms);
                    self.away.remove(position);
                    taken.push(PositionRange::one(position));
                }
                None => {
                    self.expiry.overdue.insert(position);
                }
            }
        }
        taken.iter().for_each(|range| self.left_ready(*range));
        taken.sort_unstable_by_key(|range| range.start);
        true
    }

    /// Takes a message out, if nobody holds it.
    pub(super) fn take(&mut self, position: u64) -> bool {
        if let Some(until_ms) = self.delayed_until.remove(&position) {
            self.delayed.remove(position, until_ms);
            self.away.remove(position);
        } else if self.away.contains(position) {
            return false;
        } else {
            self.ready.take_range(PositionRange::one(position), &mut Vec::new());
        }
        self.left_ready(PositionRange::one(position));
        true
    }

    /// Takes out the ready messages among those at `positions`; `taken` gets them, rising.
    pub(super) fn take_ready(&mut self, positions: PositionRange, taken: &mut Vec<PositionRange>) {
        let end = positions.end.min(self.next_position);
        let (positions, mut ready) = (PositionRange { end, ..positions }, Vec::new());
        if !positions.is_empty() {
            self.ready.take_range(positions, &mut ready);
        }
        ready.sort_unstable_by_key(|range| range.start);
        ready.iter().for_each(|range| self.left_ready(*range));
        self.forget_ranges(&ready);
        taken.append(&mut ready);
    }

    /// Messages that nobody has any more are gone.
    pub(super) fn forget(&mut self, range: PositionRange) {
        self.forget_ranges(&[range]);
    }

    #[inline]
    fn forget_ranges(&mut self, ranges: &[PositionRange]) {
        self.counts.forget_ranges(ranges);
        if !self.notes.is_empty() {
            ranges.iter().for_each(|range| self.notes.forget(*range));
        }
    }

    /// Messages that nobody has any more depart; the number of the first.
    pub(super) fn depart(&mut self, range: PositionRange, reason: Reason) -> u64 {
        self.bytes.departing = self.bytes.departing.saturating_add(self.sizes.sum(range));
        self.departing.push(range, reason)
    }

    /// Takes messages out that depart, with numbers of `start..end`, and forgets them; of those that are
    /// there, the first run.
    pub(super) fn take_departing(&mut self, start: u64, end: u64) -> Option<PositionRange> {
        let range = self.departing.take_first(start, end)?;
        self.bytes.departing = self.bytes.departing.saturating_sub(self.sizes.sum(range));
        self.forget(range);
        Some(range)
    }

    /// Takes out everything that nobody holds; `taken` gets it.
    pub(super) fn purge(&mut self, taken: &mut Vec<PositionRange>) {
        self.ready.clear(taken);
        let mut delayed = Vec::new();
        self.delayed.clear(&mut delayed);
        self.delayed_until.clear();
        for position in delayed.iter().flat_map(|range| range.start..range.end) {
            self.away.remove(position);
        }
        taken.append(&mut delayed);
        taken.extend(self.departing.clear());
        self.forget_ranges(taken);
        (self.bytes.ready, self.bytes.departing) = (0, 0);
    }

    /// The positions of all messages, rising; the ranges do not touch.
    pub(super) fn live(&self) -> Vec<PositionRange> {
        let departing = self.departing.iter().map(|run| run.positions);
        let mut live: Vec<_> =
            self.ready.ranges().chain(self.away.ranges()).chain(departing).collect();
        live.sort_unstable_by_key(|range| range.start);
        live.dedup_by(|next, last| {
            let touches = last.end == next.start;
            last.end = if touches { next.end } else { last.end };
            touches
        });
        live
    }

    /// Adds up the sizes of all messages.
    pub(super) fn measure(&mut self) {
        let sum = |ranges: &mut dyn Iterator<Item = PositionRange>| {
            ranges.fold(0_u64, |sum, range| sum.saturating_add(self.sizes.sum(range)))
        };
        let delayed = sum(&mut self.delayed.iter().map(|(_, range)| range));
        self.bytes = Bytes {
            ready: sum(&mut self.ready.ranges()).saturating_add(delayed),
            held: sum(&mut self.away.ranges()).saturating_sub(delayed),
            departing: sum(&mut self.departing.iter().map(|run| run.positions)),
        };
    }

    /// Gives back memory kept for messages that are gone, if it is much.
    pub(super) fn sweep(&mut self) {
        let n_live = self.len();
        if self.sizes.wants_sweep(n_live) || self.expiry.wants_sweep(n_live) {
            let live = self.live();
            self.sizes.sweep(&live);
            self.expiry.sweep(&live);
        }
    }
}
