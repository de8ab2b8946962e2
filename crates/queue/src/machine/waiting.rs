//! Publishers that wait until their messages have been consumed (`x-confirm-on`).

use super::effects::{Effects, Kind};
use super::publishers::Publishers;
use super::settings::PendingLimits;
use crate::PositionRange;
use std::collections::{BTreeMap, BTreeSet};

/// A publish that is answered once its message has been consumed, or is gone.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) publisher: u64,
    pub(super) number: u64,
    /// The name and the publishing id of a named publisher.
    pub(super) named: Option<Box<(Vec<u8>, u64)>>,
    pub(super) bytes: u32,
    pub(super) came_ms: u64,
}

/// The publishes of a queue that are answered later, by position.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    by_position: BTreeMap<u64, Waiter>,
    bytes: u64,
    /// Held messages whose publishers waited for too long: nobody else is given them.
    pub(super) given_up: BTreeSet<u64>,
}

impl Waiting {
    pub(super) fn len(&self) -> u64 {
        self.by_position.len() as u64
    }

    /// Whether one more may wait.
    pub(super) fn has_room(&self, bytes: u64, limits: &PendingLimits) -> bool {
        self.len() < limits.messages_max && self.bytes.saturating_add(bytes) <= limits.bytes_max
    }

    /// Adds one; false if one waits there already.
    pub(super) fn insert(&mut self, position: u64, waiter: Waiter) -> bool {
        self.bytes += u64::from(waiter.bytes);
        self.by_position.insert(position, waiter).is_none()
    }

    /// Answers those whose messages are gone. What is refused may be put again.
    #[inline]
    pub(super) fn answer(
        &mut self,
        range: PositionRange,
        kind: Kind,
        publishers: &mut Publishers,
        effects: &mut Effects,
    ) {
        if !self.given_up.is_empty() {
            self.given_up.remove(&range.start);
        }
        while !self.by_position.is_empty()
            && let Some((&position, _)) = self.by_position.range(range.start..range.end).next()
            && let Some(waiter) = self.by_position.remove(&position)
        {
            self.bytes -= u64::from(waiter.bytes);
            effects.promise(kind, waiter.publisher, waiter.number);
            if matches!(kind, Kind::Refused) {
                publishers.refuse(&waiter);
            }
        }
    }

    /// When the oldest has waited for too long.
    pub(super) fn next_ms(&self, limits: Option<&PendingLimits>) -> Option<u64> {
        let (_, oldest) = self.by_position.first_key_value()?;
        Some(oldest.came_ms.saturating_add(limits?.timeout_ms?))
    }

    /// The position of the oldest.
    pub(super) fn first(&self) -> Option<u64> {
        self.by_position.first_key_value().map(|(position, _)| *position)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&u64, &Waiter)> {
        self.by_position.iter()
    }
}
