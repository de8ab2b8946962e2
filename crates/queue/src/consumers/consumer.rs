//! A consumer of a queue: its credit, and the messages it holds.

use super::{AckMode, Checkout, UnackedTracking};
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
    No,
    Recorded,
    Counted,
}

impl Held {
    const fn by(settling: AckMode, tracking: UnackedTracking) -> Self {
        match (settling, tracking) {
            (AckMode::Auto, UnackedTracking::Settled) => Self::No,
            (AckMode::Manual, UnackedTracking::Unrecorded) => Self::Counted,
            (_, _) => Self::Recorded,
        }
    }
}

/// A consumer: its credit, and the messages it holds.
#[derive(Clone, Debug)]
pub struct Consumer {
    settling: AckMode,
    priority: i64,
    /// Messages the consumer may hold at a time.
    credit: u32,
    unacked: Unacked<u64>,
    /// Whether messages are held when they are given to the consumer.
    by_giving: Held,
    /// Messages the consumer holds without a record of which they are, beside `unacked`.
    n_unrecorded: usize,
    role: Role,
    /// Whether the consumer stands in line for its turn.
    in_line: bool,
    /// The last turn of the consumer in a round.
    turn: Turn,
}

impl Consumer {
    pub(super) fn new(checkout: Checkout, role: Role, tracking: UnackedTracking) -> Self {
        Self {
            settling: checkout.settling,
            priority: checkout.priority,
            credit: checkout.credit(),
            unacked: Unacked::default(),
            by_giving: Held::by(checkout.settling, tracking),
            n_unrecorded: 0,
            role,
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
        if self.by_giving == Held::No { AckMode::Auto } else { AckMode::Manual }
    }

    /// Settlement that the consumer asked for.
    pub(super) const fn wished(&self) -> AckMode {
        self.settling
    }

    #[inline(always)]
    pub(super) fn give(&mut self, position: u64) -> AckMode {
        debug_assert!(self.in_line && self.wants_more(), "it has credit");
        match self.by_giving {
            Held::Recorded => self.unacked.hold(position),
            Held::No => return AckMode::Auto,
            Held::Counted => self.n_unrecorded += 1,
        }
        AckMode::Manual
    }

    pub(super) fn goes_on(&mut self, round: &Round) -> bool {
        if self.by_giving == Held::No {
            self.turn.forget_shown();
        }
        let n_held = self.n_held() as u64;
        let n_room = u64::from(self.credit).saturating_sub(n_held);
        self.turn.goes_on(n_held, n_room, round)
    }

    pub(super) fn hold(&mut self, position: u64) {
        self.unacked.hold(position);
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
        self.by_giving = Held::by(self.settling, tracking);
    }

    pub(super) const fn set_credit(&mut self, credit: u32) {
        self.credit = credit;
    }

    pub(super) const fn role(&self) -> Role {
        self.role
    }

    pub(super) const fn set_role(&mut self, role: Role) {
        self.role = role;
    }

    #[inline]
    fn wants_more(&self) -> bool {
        self.role == Role::Active && self.n_held() < self.credit as usize
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
