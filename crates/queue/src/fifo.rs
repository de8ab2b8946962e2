use crate::consumers::{Checkout, ConsumerKey, Consumers, Settling};
use crate::positions::{PositionRange, PositionSet};

/// The core of a classic queue: positions in, assignments out.
///
/// Positions are given out in rising order by [`Fifo::enqueue`]. A position is *ready*, *held* by one
/// consumer, or *gone*. The ready backlog is a set of ranges, so its memory does not grow with the
/// number of messages. A message that comes back takes its old place (RabbitMQ's classic queues;
/// quorum queues differ) and is marked redelivered.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    next_position: u64,
    ready: PositionSet,
    /// Ready positions that a consumer had before.
    redelivered: PositionSet,
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
    /// Whether it is gone from the queue by this (`OnDelivery`) or held.
    pub settling: Settling,
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
    pub const fn n_ready(&self) -> u64 {
        self.ready.len()
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
        self.ready.is_empty() || self.consumers.next().is_none()
    }

    /// Whether the next message put in would be gone at once: nothing is ready before it, and every
    /// consumer in turn is one whose messages are settled by being delivered.
    #[must_use]
    pub fn passes_through(&self) -> bool {
        self.ready.is_empty() && self.consumers.next().is_some() && !self.consumers.any_settles()
    }

    /// The consumer that would get all of the next messages, each gone at once: nothing is ready
    /// before them, and it is the only one and settles nothing.
    #[must_use]
    pub fn sole_taker(&self) -> Option<ConsumerKey> {
        let is_sole = self.ready.is_empty()
            && self.consumers.n_active() == 1
            && !self.consumers.any_settles();
        if is_sole { self.consumers.next() } else { None }
    }

    /// Gives `n` messages positions and the [sole taker](Fifo::sole_taker) the messages: the same as
    /// `n` times [`Fifo::enqueue`] and [`Fifo::next_delivery`].
    pub const fn pass_on(&mut self, n: u64) {
        self.next_position += n;
    }

    /// Puts `n` messages at the tail and returns the position of the first.
    pub fn enqueue(&mut self, n: u64) -> u64 {
        let first = self.next_position;
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
        let checkout = Checkout { settling: Settling::ByConsumer, prefetch: None, priority: 0 };
        self.consumers.add(checkout, true)
    }

    /// Gives the next message to the consumer whose turn it is.
    pub fn next_delivery(&mut self) -> Option<Assigned> {
        let consumer = self.consumers.next()?;
        let (position, redelivered) = self.pop_ready()?;
        let settling = self.consumers.served(consumer, position);
        if settling == Settling::ByConsumer {
            self.n_held += 1;
        }
        Some(Assigned { consumer, position, redelivered, settling })
    }

    /// Gives the next message to `consumer` whatever its credit (`basic.get`).
    pub fn take(&mut self, consumer: ConsumerKey, settling: Settling) -> Option<Assigned> {
        let holder = self.consumers.get_mut(consumer)?;
        let position = self.ready.pop_first()?;
        let redelivered = !self.redelivered.is_empty() && self.redelivered.remove(position);
        if settling == Settling::ByConsumer {
            holder.unacked.hold(position);
            self.n_held += 1;
        }
        Some(Assigned { consumer, position, redelivered, settling })
    }

    fn pop_ready(&mut self) -> Option<(u64, bool)> {
        let position = self.ready.pop_first()?;
        let redelivered = !self.redelivered.is_empty() && self.redelivered.remove(position);
        Some((position, redelivered))
    }

    /// The consumer is done with `position`: it is gone from the queue.
    pub fn settle(&mut self, consumer: ConsumerKey, position: u64) -> Result<(), NotHeld> {
        let holder = self.consumers.get_mut(consumer).ok_or(NotHeld)?;
        if !holder.unacked.release(position) {
            return Err(NotHeld);
        }
        self.n_held -= 1;
        self.consumers.line_up(consumer);
        Ok(())
    }

    /// The consumer gives `position` back: it is ready again at its old place.
    pub fn requeue(&mut self, consumer: ConsumerKey, position: u64) -> Result<(), NotHeld> {
        self.settle(consumer, position)?;
        self.make_ready(position);
        Ok(())
    }

    fn make_ready(&mut self, position: u64) {
        self.ready.insert(position);
        self.redelivered.insert(position);
    }

    /// Everything the consumer holds is ready again at its old place; it stays attached. Returns
    /// how many.
    pub fn requeue_all(&mut self, consumer: ConsumerKey) -> u64 {
        let Some(holder) = self.consumers.get_mut(consumer) else { return 0 };
        let held: Vec<u64> = std::mem::take(&mut holder.unacked).iter().collect();
        for position in &held {
            self.make_ready(*position);
        }
        let n_requeued = held.len() as u64;
        self.n_held -= n_requeued;
        self.consumers.line_up(consumer);
        n_requeued
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
        self.consumers.remove(consumer);
        Detached { n_requeued, was_active: self.consumers.n_active() < n_active }
    }

    /// Messages the consumer holds.
    #[must_use]
    pub fn n_held_by(&self, consumer: ConsumerKey) -> usize {
        self.consumers.get(consumer).map_or(0, |holder| holder.unacked.len())
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
        for position in positions.start..positions.end {
            if self.ready.remove(position) {
                self.redelivered.remove(position);
            }
        }
    }

    /// Takes every ready message out; `gone` gets their positions. Held ones stay.
    pub fn purge(&mut self, gone: &mut Vec<PositionRange>) -> u64 {
        let n_messages = self.ready.len();
        gone.extend(self.ready.ranges());
        self.ready.clear();
        self.redelivered.clear();
        n_messages
    }

    /// The lowest position that no consumer was ever given.
    #[must_use]
    pub fn first_undelivered(&self) -> u64 {
        let fresh = |range: &PositionRange| {
            (range.start..range.end).find(|position| !self.redelivered.contains(*position))
        };
        self.ready.ranges().find_map(|range| fresh(&range)).unwrap_or(self.next_position)
    }

    /// The ready positions.
    #[must_use]
    pub const fn ready(&self) -> &PositionSet {
        &self.ready
    }

    /// Every held position with its consumer, in no particular order of consumers.
    pub fn held(&self) -> impl Iterator<Item = (ConsumerKey, u64)> + '_ {
        self.consumers
            .keys()
            .flat_map(|(key, consumer)| consumer.unacked.iter().map(move |at| (key, at)))
    }
}
