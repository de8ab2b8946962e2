//! Publishers that wait until their messages have been consumed (`x-confirm-on`).

use super::effects::{Effects, Kind};
use super::settings::PendingLimits;
use crate::PositionRange;
use std::collections::BTreeMap;

/// A publish that is answered once its message has been consumed, or is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) publisher: u64,
    pub(super) number: u64,
    pub(super) bytes: u32,
}

/// The publishes of a queue that are answered later, by position.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    by_position: BTreeMap<u64, Waiter>,
    bytes: u64,
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

    /// Answers those whose messages are gone.
    #[inline]
    pub(super) fn answer(&mut self, range: PositionRange, kind: Kind, effects: &mut Effects) {
        if self.by_position.is_empty() {
            return;
        }
        while let Some((&position, &waiter)) = self.by_position.range(range.start..range.end).next()
        {
            self.by_position.remove(&position);
            self.bytes -= u64::from(waiter.bytes);
            effects.promise(kind, waiter.publisher, waiter.number);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&u64, &Waiter)> {
        self.by_position.iter()
    }
}
