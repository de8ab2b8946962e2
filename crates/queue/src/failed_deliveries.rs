//! Failed deliveries of a queue's messages, as AMQP 1.0 tells them. Knows no policy, which may count its own.

use crate::delivery_counts::Tally;
use crate::positions::{PositionRange, PositionSet};

/// The number of failed deliveries of each message that is in a queue or held. It takes no memory where none
/// failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedDeliveries(Option<Box<Tally>>);

impl FailedDeliveries {
    /// A failed delivery of each of these messages.
    pub(crate) fn ones(positions: &PositionSet) -> Self {
        Self((!positions.is_empty()).then(|| Box::new(Tally::ones(positions))))
    }

    pub(crate) fn of(&self, position: u64) -> u32 {
        self.0.as_ref().map_or(0, |tally| tally.get(position))
    }

    /// Counts another one.
    pub(crate) fn add(&mut self, position: u64) {
        self.0.get_or_insert_default().increment(position);
    }

    /// Forgets a message that is gone.
    #[inline]
    pub(crate) fn forget(&mut self, position: u64) {
        if let Some(tally) = &mut self.0 {
            tally.forget(position);
            self.0.take_if(|tally| tally.is_empty());
        }
    }

    /// Forgets messages that are gone.
    pub(crate) fn forget_ranges(&mut self, gone: &[PositionRange]) {
        if let Some(tally) = &mut self.0 {
            let mut scratch = Vec::new();
            gone.iter().for_each(|range| tally.forget_range(*range, &mut scratch));
            self.0.take_if(|tally| tally.is_empty());
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}
