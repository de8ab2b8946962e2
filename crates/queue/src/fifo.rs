use crate::consumers::{AckMode, Consumer, Consumers};
use crate::delivery_counts::Return;
use crate::key::ConsumerKey;
use crate::messages::Messages;
use crate::positions::{PositionRange, PositionSet};
use crate::queue_policy::{Gone, MessageAttrs, QueuePolicy, Reason, RecoveredMessages};
use crate::round::Round;
use std::collections::HashSet;
use stdx::{MonotonicMs, UnixMs};

/// The core of a classic queue: positions in, assignments out.
///
/// Positions are given out in rising order by [`Fifo::enqueue`]. A position is *ready*, *held* by one
/// consumer, or *gone*. The ready backlog is a set of ranges, so its memory does not grow with the
/// number of messages. A message that comes back takes its old place (RabbitMQ's classic queues;
/// quorum queues differ) and is marked redelivered.
///
/// Two parts: the [`Messages`] that nobody holds, and the [`Consumers`] with what each holds; whatever
/// concerns one of them alone is asked of it. Priorities, deadlines, limits and the like are a
/// [`QueuePolicy`]: the module `queue_policy` says what they need from the host. A queue without one pays
/// one comparison per message.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    messages: Messages,
    consumers: Consumers,
}

/// A message assigned to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The consumer that gets the message.
    pub consumer: ConsumerKey,
    /// Position of the message.
    pub position: u64,
    /// Whether a consumer had the message before.
    pub redelivered: bool,
    /// Whether the message is gone from the queue by the delivery (`Auto`) or held.
    pub settling: AckMode,
}

/// A consumer that gets all of the next messages, as many as it has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoleTaker {
    /// The consumer.
    pub consumer: ConsumerKey,
    /// Number of messages that the consumer has room for.
    pub n_room: u64,
}

/// The error that a consumer does not hold a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeld;

/// The outcome of a consumer's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    /// Messages that went back to the queue.
    pub n_requeued: u64,
    /// Whether the consumer was getting deliveries until now.
    pub was_active: bool,
}

impl Fifo {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty queue with a policy.
    #[must_use]
    pub fn with_policy(policy: QueuePolicy) -> Self {
        let mut fifo = Self::new();
        fifo.set_policy(policy);
        fifo
    }

    /// Takes a new policy. The highest priority stays as it is once there is one.
    pub fn set_policy(&mut self, policy: QueuePolicy) {
        self.messages.set_policy(policy, &self.consumers);
    }

    /// The messages that nobody holds.
    #[inline]
    pub const fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The messages that nobody holds, to be changed.
    #[inline]
    pub const fn messages_mut(&mut self) -> &mut Messages {
        &mut self.messages
    }

    /// The consumers and the messages each holds.
    #[inline]
    pub const fn consumers(&self) -> &Consumers {
        &self.consumers
    }

    /// The consumers and the messages each holds, to be changed.
    #[inline]
    pub const fn consumers_mut(&mut self) -> &mut Consumers {
        &mut self.consumers
    }

    /// Whether nobody could be given a message now, so that calling
    /// [`Fifo::next_delivery`] is in vain.
    pub fn is_waiting(&self) -> bool {
        self.messages.n_ready() == 0 || self.consumers.next().is_none()
    }

    /// Whether the next message put in would be given to a consumer at once.
    #[must_use]
    pub fn takes_at_once(&self) -> bool {
        self.messages.n_ready() == 0 && self.consumers.next().is_some()
    }

    /// Whether the next message put in would be gone at once: nothing is ready before it, and every
    /// consumer in turn is one whose messages are settled by being delivered.
    #[must_use]
    pub fn passes_through(&self) -> bool {
        self.takes_at_once() && !self.consumers.any_holds()
    }

    /// The consumer that would get the next messages, each gone at once: no message is ready before them, and
    /// this consumer is the only one and settles nothing.
    #[must_use]
    pub fn sole_taker(&self) -> Option<SoleTaker> {
        if self.messages.n_ready() == 0 { sole_taker(&self.consumers) } else { None }
    }

    /// Gives `n` messages positions and the [sole taker](Fifo::sole_taker) the messages, at most as many as
    /// it has room for, as `n` times [`Fifo::enqueue`] and [`Fifo::next_delivery`] would.
    pub fn pass_on(&mut self, taker: &SoleTaker, n: u64) {
        debug_assert!(n <= taker.n_room, "the taker has room");
        self.messages.pass(n);
        self.consumers.change(taker.consumer).note_passed_on(n);
    }

    /// Puts `n` messages at the tail and returns the position of the first. They have the lowest
    /// priority, no deadline, and no size.
    pub fn enqueue(&mut self, n: u64) -> u64 {
        if self.messages.policy().is_some() {
            return self.messages.put(
                n,
                &MessageAttrs::default(),
                UnixMs::default(),
                &self.consumers,
            );
        }
        self.messages.push(n)
    }

    /// Puts a message at the tail and returns its position.
    pub fn put(&mut self, arrival: &MessageAttrs, now_ms: UnixMs) -> u64 {
        if self.messages.policy().is_none() && arrival.deadline_ms.is_none() {
            return self.messages.push(1);
        }
        self.messages.put(1, arrival, now_ms, &self.consumers)
    }

    /// The round that is due before messages are given out one to each; none if consumers are few.
    #[must_use]
    pub fn round(&self, now_ms: MonotonicMs) -> Option<Round> {
        Round::due(self.consumers.n_active(), self.messages.n_ready(), now_ms)
    }

    /// Gives the next message to the consumer whose turn it is.
    pub fn next_delivery(&mut self) -> Option<Assigned> {
        let Self { messages, consumers } = self;
        let consumer = consumers.next()?;
        let wished = || consumers.get(consumer).map_or(AckMode::Auto, Consumer::settling);
        let (position, redelivered) = messages.pop(wished)?;
        let settling = consumers.served(consumer, position);
        Some(Assigned { consumer, position, redelivered, settling })
    }

    /// Gives the next message of a round: the consumer keeps its turn until it has had its part, or has no
    /// more credit.
    pub fn next_of_round(&mut self, round: &Round) -> Option<Assigned> {
        let Self { messages, consumers } = self;
        let consumer = consumers.next()?;
        let wished = || consumers.get(consumer).map_or(AckMode::Auto, Consumer::settling);
        let (position, redelivered) = messages.pop(wished)?;
        let settling = consumers.served_in_turn(consumer, position, round);
        Some(Assigned { consumer, position, redelivered, settling })
    }

    /// Gives the next message to `consumer` whatever its credit (`basic.get`).
    pub fn take(&mut self, consumer: ConsumerKey, settling: AckMode) -> Option<Assigned> {
        let Self { messages, consumers } = self;
        let settling = consumers.settling(settling);
        consumers.get(consumer)?;
        let (position, redelivered) = messages.pop(|| settling)?;
        if settling == AckMode::Manual {
            consumers.hold(consumer, position);
        }
        Some(Assigned { consumer, position, redelivered, settling })
    }

    /// Settles `position`, which the consumer is done with: the message is gone from the queue.
    #[inline]
    pub fn settle(&mut self, consumer: ConsumerKey, position: u64) -> Result<(), NotHeld> {
        self.consumers.release(consumer, |holder| holder.settle(position)).ok_or(NotHeld)?;
        self.messages.forget(position);
        Ok(())
    }

    /// Rejects `position` for the consumer: the message is gone from the queue.
    pub fn reject(&mut self, consumer: ConsumerKey, position: u64) -> Result<Gone, NotHeld> {
        self.settle(consumer, position)?;
        Ok(Gone { positions: PositionRange::one(position), reason: Reason::Rejected })
    }

    /// Requeues `position` for the consumer. The message is ready again at its old place, or waits until it
    /// is, or is gone: then `gone` gets it.
    pub fn give_back(
        &mut self,
        consumer: ConsumerKey,
        position: u64,
        how: Return,
        now_ms: UnixMs,
        gone: &mut Vec<Gone>,
    ) -> Result<(), NotHeld> {
        self.consumers.release(consumer, |holder| holder.let_go(position)).ok_or(NotHeld)?;
        self.messages.come_back(position, how, now_ms, gone);
        Ok(())
    }

    /// Requeues everything the consumer holds but for `kept`, as [`Fifo::give_back`] does; the consumer stays
    /// attached. Returns how many messages that were.
    pub fn give_back_all(
        &mut self,
        consumer: ConsumerKey,
        kept: &HashSet<u64>,
        how: Return,
        now_ms: UnixMs,
        gone: &mut Vec<Gone>,
    ) -> u64 {
        let mut held = Vec::new();
        let n_held = self.consumers.release(consumer, |holder| {
            held = holder.let_go_all(kept);
            Some(held.len() as u64)
        });
        for position in held {
            self.messages.come_back(position, how, now_ms, gone);
        }
        n_held.unwrap_or(0)
    }

    /// Detaches the consumer and requeues the messages it holds, as [`Fifo::give_back_all`] does.
    pub fn detach(
        &mut self,
        consumer: ConsumerKey,
        how: Return,
        now_ms: UnixMs,
        gone: &mut Vec<Gone>,
    ) -> Detached {
        let n_active = self.consumers.n_active();
        let n_requeued = self.give_back_all(consumer, &HashSet::new(), how, now_ms, gone);
        self.consumers.remove(consumer);
        Detached { n_requeued, was_active: self.consumers.n_active() < n_active }
    }

    /// Restores messages as they were before a restart; above those restored before.
    pub fn restore(&mut self, stored: &RecoveredMessages, now_ms: UnixMs) {
        self.messages.restore(stored, now_ms, &self.consumers);
    }

    /// Positions that are not gone and that a consumer had, has or may have.
    #[must_use]
    pub fn seen(&self) -> PositionSet {
        let mut seen = self.messages.redelivered().clone();
        for (_, position) in self.consumers.held() {
            seen.insert(position);
        }
        seen
    }
}

/// The only consumer, if it settles nothing.
fn sole_taker(consumers: &Consumers) -> Option<SoleTaker> {
    if consumers.n_active() != 1 || consumers.any_holds() {
        return None;
    }
    let consumer = consumers.next()?;
    Some(SoleTaker { consumer, n_room: consumers.get(consumer)?.n_room() })
}

/// The consumer that would get the first ready messages, each gone at once, and those messages: it is the
/// only one, and no consumer had them before. None in a queue with a policy.
#[must_use]
pub fn ready_run(fifo: &Fifo) -> Option<(SoleTaker, PositionRange)> {
    let run = crate::messages::first_run(&fifo.messages)?;
    Some((sole_taker(&fifo.consumers)?, run))
}

/// Gives the taker the first `n` messages of a [`ready_run`], at most as many as it has room for, as `n`
/// times [`Fifo::next_delivery`] would.
pub fn pass_ready(fifo: &mut Fifo, taker: &SoleTaker, n: u64) {
    debug_assert!(n <= taker.n_room, "the taker has room");
    crate::messages::drop_first(&mut fifo.messages, n);
    fifo.consumers.change(taker.consumer).note_passed_on(n);
}

/// Forgets the failed deliveries of a message that is gone by its delivery. All that were assigned before
/// have been delivered.
pub fn forget_failed(fifo: &mut Fifo, position: u64) {
    crate::messages::forget_delivered(&mut fifo.messages, position);
}
