use crate::consumers::{AckMode, Checkout, Consumers, UnackedTracking};
use crate::key::ConsumerKey;
use crate::positions::{PositionRange, PositionSet};
use crate::queue_policy::MessageAttrs;
use crate::ruled::Ruled;
use std::collections::HashSet;

mod with_rules;

/// The core of a classic queue: positions in, assignments out.
///
/// Positions are given out in rising order by [`Fifo::enqueue`]. A position is *ready*, *held* by one
/// consumer, or *gone*. The ready backlog is a set of ranges, so its memory does not grow with the
/// number of messages. A message that comes back takes its old place (RabbitMQ's classic queues;
/// quorum queues differ) and is marked redelivered.
///
/// Priorities, deadlines, limits and the like are [`QueuePolicy`](crate::Rules): the module `rules` says
/// what they need from the host. A queue without them pays one comparison per message.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    next_position: u64,
    /// What is ready in a plain queue; empty in a ruled one.
    ready: PositionSet,
    /// Positions nobody holds that a consumer had before.
    redelivered: PositionSet,
    /// Everything that rules need; none in a plain queue.
    ruled: Option<Box<Ruled>>,
    consumers: Consumers,
    n_held: u64,
}

/// One message for one consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// Who gets it.
    pub consumer: ConsumerKey,
    /// What.
    pub position: u64,
    /// A consumer had it before.
    pub redelivered: bool,
    /// Whether it is gone from the queue by this (`Auto`) or held.
    pub settling: AckMode,
}

/// The consumer does not hold that position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeld;

/// What a consumer left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    /// Messages that went back to the queue.
    pub n_requeued: u64,
    /// Whether it was getting deliveries until now.
    pub was_active: bool,
}

impl Fifo {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A queue as it was before a restart: `ready` positions, of which a consumer may have seen those
    /// below `seen_below`; the next message gets `next_position`.
    #[must_use]
    pub fn recovered(ready: PositionSet, next_position: u64, seen_below: u64) -> Self {
        let mut redelivered = PositionSet::new();
        for range in ready.ranges() {
            let end = range.end.min(seen_below);
            redelivered.push_back(range.start, end.saturating_sub(range.start));
        }
        Self { next_position, ready, redelivered, ..Self::default() }
    }

    /// Messages a consumer could get now.
    #[must_use]
    pub fn n_ready(&self) -> u64 {
        self.ruled.as_ref().map_or(self.ready.len(), |ruled| ruled.n_ready())
    }

    /// Messages held by consumers.
    #[must_use]
    pub const fn n_held(&self) -> u64 {
        self.n_held
    }

    /// Consumers that get deliveries, also those without credit for the moment.
    #[must_use]
    pub const fn n_consumers(&self) -> usize {
        self.consumers.n_active()
    }

    /// The position the next message will get.
    #[must_use]
    pub const fn next_position(&self) -> u64 {
        self.next_position
    }

    /// Whether nobody could be given a message now, so that calling
    /// [`Fifo::next_delivery`] is in vain.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.n_ready() == 0 || self.consumers.next().is_none()
    }

    /// Whether the next message put in would be given to a consumer at once.
    #[must_use]
    pub fn takes_at_once(&self) -> bool {
        self.n_ready() == 0 && self.consumers.next().is_some()
    }

    /// Whether the next message put in would be gone at once: nothing is ready before it, and every
    /// consumer in turn is one whose messages are settled by being delivered.
    #[must_use]
    pub fn passes_through(&self) -> bool {
        self.n_ready() == 0 && self.consumers.next().is_some() && !self.consumers.any_holds()
    }

    /// The consumer that would get all of the next messages, each gone at once: nothing is ready
    /// before them, and it is the only one and settles nothing.
    #[must_use]
    pub fn sole_taker(&self) -> Option<ConsumerKey> {
        let is_sole =
            self.n_ready() == 0 && self.consumers.n_active() == 1 && !self.consumers.any_holds();
        if is_sole { self.consumers.next() } else { None }
    }

    /// Gives `n` messages positions and the [sole taker](Fifo::sole_taker) the messages: the same as
    /// `n` times [`Fifo::enqueue`] and [`Fifo::next_delivery`].
    pub const fn pass_on(&mut self, n: u64) {
        self.next_position += n;
    }

    /// Puts `n` messages at the tail and returns the position of the first. They have the lowest
    /// priority, no deadline, and no size.
    pub fn enqueue(&mut self, n: u64) -> u64 {
        let first = self.next_position;
        if self.ruled.is_some() {
            self.put_ruled(n, &MessageAttrs::default(), 0);
            return first;
        }
        self.next_position += n;
        self.ready.push_back(first, n);
        first
    }

    /// Adds a consumer that is given messages as long as it has credit.
    pub fn attach(&mut self, checkout: Checkout) -> ConsumerKey {
        self.consumers.add(checkout, false)
    }

    /// Adds one that only gets what it [takes](Fifo::take).
    pub fn attach_passive(&mut self) -> ConsumerKey {
        let checkout = Checkout { settling: AckMode::Manual, prefetch: None, priority: 0 };
        self.consumers.add(checkout, true)
    }

    /// Whose turn it is: who gets the next delivery if anything is ready.
    #[must_use]
    pub fn next_taker(&self) -> Option<ConsumerKey> {
        self.consumers.next()
    }

    /// Gives the next message to the consumer whose turn it is.
    pub fn next_delivery(&mut self) -> Option<Assigned> {
        let consumer = self.consumers.next()?;
        let position = match &mut self.ruled {
            None => self.ready.pop_first()?,
            Some(ruled) => ruled.pop_next(self.consumers.settling_of(consumer))?,
        };
        let redelivered = !self.redelivered.is_empty() && self.redelivered.remove(position);
        let settling = self.consumers.served(consumer, position);
        if settling == AckMode::Manual {
            self.n_held += 1;
        }
        Some(Assigned { consumer, position, redelivered, settling })
    }

    /// Gives the next message to `consumer` whatever its credit (`basic.get`).
    pub fn take(&mut self, consumer: ConsumerKey, settling: AckMode) -> Option<Assigned> {
        let settling = self.consumers.settling(settling);
        let holder = self.consumers.get_mut(consumer)?;
        let position = match &mut self.ruled {
            None => self.ready.pop_first()?,
            Some(ruled) => ruled.pop_next(settling)?,
        };
        let redelivered = !self.redelivered.is_empty() && self.redelivered.remove(position);
        if settling == AckMode::Manual {
            holder.unacked.hold(position);
            self.n_held += 1;
        }
        Some(Assigned { consumer, position, redelivered, settling })
    }

    /// The consumer is done with `position`: it is gone from the queue.
    #[inline]
    pub fn settle(&mut self, consumer: ConsumerKey, position: u64) -> Result<(), NotHeld> {
        let holder = self.consumers.get_mut(consumer).ok_or(NotHeld)?;
        if !holder.unacked.release(position) {
            holder.n_unrecorded = holder.n_unrecorded.checked_sub(1).ok_or(NotHeld)?;
        }
        self.n_held -= 1;
        self.consumers.line_up(consumer);
        if let Some(ruled) = &mut self.ruled {
            ruled.forget(position);
        }
        Ok(())
    }

    /// What of the messages that consumers are given from now on the queue keeps.
    pub fn set_holding(&mut self, holding: UnackedTracking) {
        self.consumers.set_holding(holding);
    }

    /// Whether the consumer holds messages without a record of which they are.
    #[must_use]
    pub fn holds_unrecorded(&self, consumer: ConsumerKey) -> bool {
        self.consumers.get(consumer).is_some_and(|holder| holder.n_unrecorded > 0)
    }

    /// Says which messages they are that a consumer holds without a record: as far as there are such,
    /// they are recorded from now on. Those that are recorded already are passed over.
    #[cold]
    pub fn record(&mut self, consumer: ConsumerKey, positions: impl IntoIterator<Item = u64>) {
        let Some(holder) = self.consumers.get_mut(consumer) else { return };
        for position in positions {
            if holder.n_unrecorded > 0 && !holder.unacked.holds(position) {
                holder.n_unrecorded -= 1;
                holder.unacked.hold(position);
            }
        }
    }

    fn let_go(&mut self, consumer: ConsumerKey, position: u64) -> Result<(), NotHeld> {
        let holder = self.consumers.get_mut(consumer).ok_or(NotHeld)?;
        if !holder.unacked.release(position) {
            return Err(NotHeld);
        }
        self.n_held -= 1;
        self.consumers.line_up(consumer);
        Ok(())
    }

    /// The consumer gives `position` back: it is ready again at its old place. For a ruled queue
    /// there is [`Fifo::give_back`].
    pub fn requeue(&mut self, consumer: ConsumerKey, position: u64) -> Result<(), NotHeld> {
        self.let_go(consumer, position)?;
        self.make_ready(position);
        Ok(())
    }

    /// Messages come back one after the other, and are to be given out as if they had come back together:
    /// nobody gets a delivery until [`Fifo::end_return`] is called as often.
    pub const fn begin_return(&mut self) {
        self.consumers.begin_return();
    }

    /// They are back.
    pub const fn end_return(&mut self) {
        self.consumers.end_return();
    }

    fn make_ready(&mut self, position: u64) {
        match &mut self.ruled {
            None => {
                self.ready.insert(position);
            }
            Some(ruled) => ruled.make_ready(position),
        }
        self.redelivered.insert(position);
    }

    /// Everything the consumer holds is ready again at its old place; it stays attached. Returns
    /// how many. For a ruled queue there is [`Fifo::give_back_all`].
    pub fn requeue_all(&mut self, consumer: ConsumerKey) -> u64 {
        let held = self.let_go_all(consumer, &HashSet::new());
        for position in &held {
            self.make_ready(*position);
        }
        held.len() as u64
    }

    /// Takes from the consumer what it holds, but for `kept`.
    fn let_go_all(&mut self, consumer: ConsumerKey, kept: &HashSet<u64>) -> Vec<u64> {
        let Some(holder) = self.consumers.get_mut(consumer) else { return Vec::new() };
        let all = std::mem::take(&mut holder.unacked);
        let (stays, held): (Vec<u64>, Vec<u64>) = all.iter().partition(|at| kept.contains(at));
        stays.into_iter().for_each(|position| holder.unacked.hold(position));
        self.n_held -= held.len() as u64;
        self.consumers.line_up(consumer);
        held
    }

    /// Ends the consumer's deliveries. What it holds stays held until it is settled or the consumer
    /// is [detached](Fifo::detach).
    pub fn cancel(&mut self, consumer: ConsumerKey) {
        self.consumers.make_passive(consumer);
    }

    /// Takes the consumer away and gives back what it holds.
    pub fn detach(&mut self, consumer: ConsumerKey) -> Detached {
        let n_active = self.consumers.n_active();
        let n_requeued = self.requeue_all(consumer);
        let gone = self.consumers.remove(consumer);
        self.n_held -= gone.map_or(0, |gone| gone.n_unrecorded as u64);
        Detached { n_requeued, was_active: self.consumers.n_active() < n_active }
    }

    /// Messages the consumer holds.
    #[must_use]
    pub fn n_held_by(&self, consumer: ConsumerKey) -> usize {
        self.consumers.get(consumer).map_or(0, |holder| holder.n_held())
    }

    /// What a consumer holds, lowest position first.
    pub fn held_by(&self, consumer: ConsumerKey) -> impl Iterator<Item = u64> + '_ {
        self.consumers.get(consumer).into_iter().flat_map(|holder| holder.unacked.iter())
    }

    /// Whether a consumer holds the message at `position`.
    #[must_use]
    pub fn holds(&self, consumer: ConsumerKey, position: u64) -> bool {
        self.consumers.get(consumer).is_some_and(|holder| holder.unacked.holds(position))
    }

    /// Whether the consumer was added and not detached since.
    #[must_use]
    pub fn knows(&self, consumer: ConsumerKey) -> bool {
        self.consumers.get(consumer).is_some()
    }

    /// Changes how many unsettled deliveries the consumer may have; those it has stay.
    pub fn set_prefetch(&mut self, consumer: ConsumerKey, prefetch: Option<u32>) {
        self.consumers.set_prefetch(consumer, prefetch);
    }

    /// Gives the consumer nothing until it is resumed: its connection is full.
    pub fn pause(&mut self, consumer: ConsumerKey) {
        self.consumers.pause(consumer);
    }

    /// Undoes [`Fifo::pause`].
    pub fn resume(&mut self, consumer: ConsumerKey) {
        self.consumers.resume(consumer);
    }

    /// Takes the ready ones among `positions` out: their messages are lost. Held ones stay.
    pub fn discard(&mut self, positions: PositionRange) {
        self.take_ready(positions, &mut Vec::new());
    }

    /// Takes every message out that nobody holds; `gone` gets their positions. Held ones stay.
    pub fn purge(&mut self, gone: &mut Vec<PositionRange>) -> u64 {
        let before = gone.len();
        gone.extend(self.ready.ranges());
        self.ready.clear();
        if let Some(ruled) = &mut self.ruled {
            ruled.purge(gone);
        }
        self.redelivered.clear();
        gone.iter().skip(before).map(|range| range.len()).sum()
    }

    /// The lowest position that no consumer was ever given.
    #[must_use]
    pub fn first_undelivered(&self) -> u64 {
        let fresh = |range: &PositionRange| {
            (range.start..range.end).find(|position| !self.redelivered.contains(*position))
        };
        let first_of = |set: &PositionSet| set.ranges().find_map(|range| fresh(&range));
        let lanes = self.ruled.iter().flat_map(|ruled| ruled.lanes().ready());
        let firsts = lanes.filter_map(|(_, set)| first_of(set)).chain(first_of(&self.ready));
        firsts.min().unwrap_or(self.next_position)
    }

    /// The position of the message that is given out next.
    #[must_use]
    pub fn head(&self) -> Option<u64> {
        self.ruled.as_ref().map_or_else(|| self.ready.first(), |ruled| ruled.lanes().head())
    }

    /// The ready positions, by rising priority.
    pub fn ready(&self) -> impl Iterator<Item = PositionRange> + '_ {
        let lanes = self.ruled.iter().flat_map(|ruled| ruled.lanes().ready());
        self.ready.ranges().chain(lanes.flat_map(|(_, set)| set.ranges()))
    }

    /// Every held position with its consumer, in no particular order of consumers.
    pub fn held(&self) -> impl Iterator<Item = (ConsumerKey, u64)> + '_ {
        self.consumers
            .keys()
            .flat_map(|(key, consumer)| consumer.unacked.iter().map(move |at| (key, at)))
    }
}
