//! Figures and lists of a quorum queue.

use super::backlog::Bytes;
use super::command::Attach;
use super::effects::Departing;
use super::holders::{Holder, Reach};
use super::{Machine, Settings};
use crate::{DeliveryCounts, LinkCredit, PositionRange, Standings};
use std::ops::{Range, RangeInclusive};
use stdx::UnixMs;

/// Figures and lists of a quorum queue, as of now.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a>(pub(super) &'a Machine);

/// Figures of a consumer, or of a holder of messages that is no consumer (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerFacts {
    /// Terms of the consumer.
    pub terms: Attach,
    /// Whether the holder is no consumer: it is cancelled, or has only taken messages.
    pub is_cancelled: bool,
    /// Whether the consumer is given messages as far as its prefetch goes, or is the single active one.
    pub is_active: bool,
    /// Messages that it holds.
    pub n_held: usize,
}

/// A publish that waits until its message has been consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingPublish {
    /// Time of the publish.
    pub came_ms: UnixMs,
    /// Its publisher; none if that is gone, and known by its name alone.
    pub publisher: Option<u64>,
    /// Its number among those of the publisher.
    pub number: u64,
}

/// A consumer's link (AMQP 1.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFacts {
    /// The link's credit.
    pub credit: LinkCredit,
    /// Whether the consumer is the single active one; `None` if the queue has none.
    pub is_active: Option<bool>,
}

impl<'a> Facts<'a> {
    pub(super) const fn of(machine: &'a Machine) -> Self {
        Self(machine)
    }

    /// The settings.
    pub const fn settings(self) -> &'a Settings {
        &self.0.settings
    }

    /// Whether it is [closed](super::Command::Close).
    pub const fn is_closed(self) -> bool {
        self.0.is_closed
    }

    /// The position that the next message gets.
    pub const fn next_position(self) -> u64 {
        self.0.backlog.next_position
    }

    /// Messages that a consumer could get now.
    pub const fn n_ready(self) -> u64 {
        self.0.backlog.ready.len()
    }

    /// Messages that consumers hold.
    pub const fn n_held(self) -> u64 {
        self.0.backlog.n_held()
    }

    /// Messages that wait to be tried again.
    pub const fn n_delayed(self) -> u64 {
        self.0.backlog.delayed.len()
    }

    /// Messages that depart.
    pub const fn n_departing(self) -> u64 {
        self.0.backlog.departing.len()
    }

    /// Publishers that wait until their messages have been consumed.
    #[must_use]
    pub fn n_waiting(self) -> u64 {
        self.0.waiting.len()
    }

    /// Sizes of the messages that they wait for together.
    pub const fn waiting_bytes(self) -> u64 {
        self.0.waiting.bytes()
    }

    /// The publishes that wait, the oldest first.
    pub fn waiting(self) -> impl Iterator<Item = WaitingPublish> + 'a {
        self.0.waiting.iter().map(|(_, it)| WaitingPublish {
            came_ms: it.came_ms,
            publisher: it.publisher,
            number: it.number,
        })
    }

    /// The number of the publish that waits for the message at a position.
    #[must_use]
    pub fn waiting_at(self, position: u64) -> Option<u64> {
        self.0.waiting.at(position).map(|it| it.number)
    }

    /// Sizes of bodies together.
    pub const fn bytes(self) -> Bytes {
        self.0.backlog.bytes
    }

    /// Counts of how often a message came back.
    #[must_use]
    pub fn counts(self, position: u64) -> DeliveryCounts {
        self.0.backlog.counts.of(position)
    }

    /// The ready messages in the order they would be given out in.
    pub fn ready(self) -> impl Iterator<Item = u64> + 'a {
        let fresh = self.0.backlog.ready.fresh().flat_map(|(_, ready)| ready.ranges());
        self.0.backlog.ready.returned().chain(fresh.flat_map(|range| range.start..range.end))
    }

    /// Number of ready messages that never came back, by priority, the highest first; priorities without any
    /// are left out.
    pub fn n_ready_by_priority(self) -> impl Iterator<Item = (u8, u64)> + 'a {
        self.0.backlog.ready.fresh().map(|(priority, ready)| (priority, ready.len()))
    }

    /// Until when messages wait to be tried again, the next one first, and their positions.
    pub fn delayed(self) -> impl Iterator<Item = (UnixMs, PositionRange)> + 'a {
        self.0.backlog.delayed.iter()
    }

    /// Until when they wait, from the next to the last of them.
    #[must_use]
    pub fn delayed_span_ms(self) -> Option<RangeInclusive<UnixMs>> {
        let delayed = &self.0.backlog.delayed;
        Some(delayed.next_ms()?..=delayed.last_ms()?)
    }

    /// Messages that depart, in the order they left.
    pub fn departing(self) -> impl Iterator<Item = Departing> + 'a {
        self.0.backlog.departing.iter()
    }

    /// Standings of the messages at `positions`.
    #[must_use]
    pub fn standings(self, positions: &Range<u64>) -> Standings {
        let backlog = &self.0.backlog;
        let returned = backlog.ready.returned_set();
        let ready = backlog.ready.fresh().map(|(_, ready)| ready).chain([returned]);
        let departing = backlog.departing.iter().map(|run| run.positions);
        let mut standings = Standings::begin(positions, ready, departing);
        standings.note_redelivered(positions, returned);
        let delayed = backlog.delayed_until.range(positions.clone());
        let delayed = delayed.map(|(at, due_ms)| (*due_ms, PositionRange::one(*at)));
        standings.note_delayed(positions, delayed);
        let back = [returned, &backlog.away].into_iter();
        let back = back.flat_map(|set| Standings::within(positions, set));
        let back = back.flat_map(|range| range.start..range.end);
        standings.note_counts(back.map(|at| (at, self.counts(at))));
        standings
    }

    /// The positions of all messages, rising: what else the host has of the queue may go.
    #[must_use]
    pub fn live(self) -> Vec<PositionRange> {
        self.0.backlog.live()
    }

    /// Everybody who holds messages or may get some, in the order of their ids.
    pub fn consumers(self) -> impl Iterator<Item = ConsumerFacts> + 'a {
        let consumers = &self.0.consumers;
        consumers.table.values().map(|consumer| ConsumerFacts {
            terms: consumer.terms,
            is_cancelled: consumer.is_cancelled,
            is_active: if consumers.is_single {
                consumers.active == Some(consumer.terms.consumer)
            } else {
                !consumer.is_cancelled
                    && consumer.reach == Reach::Up
                    && consumer.timed_out.is_empty()
            },
            n_held: consumer.held.len(),
        })
    }

    /// The link of a consumer; none with a prefetch limit.
    #[must_use]
    pub fn link(self, consumer: u64) -> Option<LinkFacts> {
        let consumers = &self.0.consumers;
        let is_active = consumers.is_single.then_some(consumers.active == Some(consumer));
        Some(LinkFacts { credit: consumers.table.get(&consumer)?.link_credit()?, is_active })
    }

    /// The positions of the messages that a consumer holds, with when it was given each, the oldest first.
    pub fn held_since(self, consumer: u64) -> impl Iterator<Item = (u64, UnixMs)> + 'a {
        let held = self.0.consumers.table.get(&consumer).into_iter().flat_map(|it| it.held.iter());
        held.map(|delivery| (delivery.position, delivery.at_ms))
    }

    /// The deliveries that a consumer holds: their numbers and positions, in the order it got them.
    pub fn held(self, consumer: u64) -> impl Iterator<Item = (u64, u64)> + 'a {
        let consumer = self.0.consumers.table.get(&consumer);
        let held = consumer.into_iter().flat_map(|consumer: &Holder| consumer.held.iter());
        held.map(|delivery| (delivery.number, delivery.position))
    }
}
