//! A consumer of a queue: its room for deliveries, and the messages it holds.

use super::{AckMode, Checkout, UnackedTracking};
use crate::room::{DeliveryRoom, LinkCredit};
use crate::round::{Round, Turn};
use crate::unacked::Unacked;
use std::collections::HashSet;

/// The part of a consumer at its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The consumer gets deliveries.
    Active,
    /// The consumer waits until it is the single active one.
    Standby,
    /// The consumer gets no deliveries any more, or never did (`basic.get`), but may hold messages.
    Passive,
}

/// A change of the line that a consumer of some priority stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Enter(i64),
    Leave(i64),
}

/// Whether a message is held by being given to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// The delivery settles the message, and nothing limits the number of deliveries.
    No,
    /// The delivery settles the message, and takes link credit.
    Limited,
    Recorded,
    Counted,
}

impl Held {
    const fn by(settling: AckMode, room: DeliveryRoom, tracking: UnackedTracking) -> Self {
        match (settling, tracking) {
            (AckMode::Auto, UnackedTracking::Settled) if room.is_of_link() => Self::Limited,
            (AckMode::Auto, UnackedTracking::Settled) => Self::No,
            (AckMode::Manual, UnackedTracking::Unrecorded) if !room.is_of_link() => Self::Counted,
            (_, _) => Self::Recorded,
        }
    }
}

/// A consumer: its room for deliveries, and the messages it holds.
#[derive(Clone, Debug)]
pub struct Consumer {
    settling: AckMode,
    priority: i64,
    pub(super) room: DeliveryRoom,
    unacked: Unacked<u64>,
    /// Whether messages are held when they are given to the consumer.
    by_giving: Held,
    /// Messages the consumer holds without a record of which they are, beside `unacked`.
    n_unrecorded: usize,
    role: Role,
    /// Whether deliveries can be taken from the consumer: its outbox has room.
    pub(super) is_open: bool,
    /// Whether the consumer stands in line for its turn.
    in_line: bool,
    /// The last turn of the consumer in a round.
    turn: Turn,
}

impl Consumer {
    pub(super) fn new(checkout: Checkout, role: Role, tracking: UnackedTracking) -> Self {
        let room = DeliveryRoom::new(checkout.mode());
        Self {
            settling: checkout.settling,
            priority: checkout.priority,
            room,
            unacked: Unacked::default(),
            by_giving: Held::by(checkout.settling, room, tracking),
            n_unrecorded: 0,
            role,
            is_open: true,
            in_line: false,
            turn: Turn::default(),
        }
    }

    /// Number of messages the consumer holds.
    #[inline]
    pub const fn n_held(&self) -> usize {
        self.unacked.len() + self.n_unrecorded
    }

    /// Positions the consumer holds, lowest first; messages without a record are left out.
    pub fn held(&self) -> impl Iterator<Item = u64> + '_ {
        self.unacked.iter().copied()
    }

    /// Whether the consumer holds the message at `position`, with a record of it.
    #[must_use]
    pub fn holds(&self, position: u64) -> bool {
        self.unacked.holds(position)
    }

    /// Whether the consumer holds messages without a record of which they are.
    pub const fn holds_unrecorded(&self) -> bool {
        self.n_unrecorded > 0
    }

    pub(super) fn record(&mut self, positions: impl IntoIterator<Item = u64>) {
        for position in positions {
            if self.n_unrecorded > 0 && !self.unacked.holds(position) {
                self.n_unrecorded -= 1;
                self.unacked.hold(position);
            }
        }
    }

    /// Whether being given a message settles it.
    pub(crate) fn settling(&self) -> AckMode {
        match self.by_giving {
            Held::No | Held::Limited => AckMode::Auto,
            Held::Recorded | Held::Counted => AckMode::Manual,
        }
    }

    /// Settlement that the consumer asked for.
    pub(super) const fn wished(&self) -> AckMode {
        self.settling
    }

    #[inline(always)]
    pub(super) fn give(&mut self, position: u64) -> AckMode {
        debug_assert!(self.in_line && self.wants_more(), "it has credit");
        let mut settling = AckMode::Manual;
        match self.by_giving {
            Held::Recorded => self.unacked.hold(position),
            Held::No => return AckMode::Auto,
            Held::Counted => self.n_unrecorded += 1,
            Held::Limited => settling = AckMode::Auto,
        }
        self.room.take(1);
        settling
    }

    /// Whether deliveries use up nothing.
    #[inline]
    pub(super) fn is_unlimited(&self) -> bool {
        self.by_giving == Held::No
    }

    /// Number of messages that may be given to the consumer one after the other, if it settles none.
    pub(crate) fn n_room(&self) -> u64 {
        if self.is_unlimited() { u64::MAX } else { self.room.n_left() }
    }

    /// The link credit; none with a prefetch limit.
    #[must_use]
    pub fn link_credit(&self) -> Option<LinkCredit> {
        self.room.link_credit()
    }

    /// Whether the consumer would be given more messages, were there any and could they be taken from it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.role == Role::Active && self.room.any()
    }

    pub(super) fn goes_on(&mut self, round: &Round) -> bool {
        if self.settling() == AckMode::Auto {
            self.turn.forget_shown();
        }
        let (n_held, n_room) = (self.n_held() as u64, self.n_room());
        self.turn.goes_on(n_held, n_room, round)
    }

    pub(super) fn hold(&mut self, position: u64) {
        self.unacked.hold(position);
        self.room.take(1);
    }

    /// Releases `position`; of messages without a record, it may be any. Returns how many messages were
    /// released; none if the consumer does not hold this one.
    #[inline(always)]
    pub(crate) fn settle(&mut self, position: u64) -> Option<u64> {
        if !self.unacked.release(position) {
            self.n_unrecorded = self.n_unrecorded.checked_sub(1)?;
        }
        Some(1)
    }

    /// Releases `position` as [`Consumer::settle`] does, but only if it is on record.
    #[inline(always)]
    pub(crate) fn let_go(&mut self, position: u64) -> Option<u64> {
        self.unacked.release(position).then_some(1)
    }

    /// Releases all messages on record, but for `kept`.
    pub(crate) fn let_go_all(&mut self, kept: &HashSet<u64>) -> Vec<u64> {
        let all = std::mem::take(&mut self.unacked);
        let (stays, held): (Vec<u64>, Vec<u64>) = all.iter().partition(|at| kept.contains(*at));
        stays.into_iter().for_each(|position| self.unacked.hold(position));
        held
    }

    pub(super) const fn set_tracking(&mut self, tracking: UnackedTracking) {
        self.by_giving = Held::by(self.settling, self.room, tracking);
    }

    pub(super) const fn role(&self) -> Role {
        self.role
    }

    pub(super) const fn set_role(&mut self, role: Role) {
        self.role = role;
    }

    #[inline]
    fn wants_more(&self) -> bool {
        self.is_open && self.has_room()
    }

    #[inline]
    pub(super) const fn is_in_line(&self) -> bool {
        self.in_line
    }

    /// Updates whether the consumer is in line; returns the change, if any.
    #[inline]
    pub(super) fn update_line(&mut self) -> Option<Move> {
        let wants_more = self.wants_more();
        if self.in_line == wants_more {
            return None;
        }
        self.in_line = wants_more;
        Some(if wants_more { Move::Enter(self.priority) } else { Move::Leave(self.priority) })
    }

    /// Updates after a delivery whether the consumer stays in its line, and returns that.
    #[inline(always)]
    pub(super) fn stays_in_line(&mut self) -> bool {
        self.in_line = self.wants_more();
        self.in_line
    }
}
