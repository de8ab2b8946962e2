//! The consumers of one channel at one stream that go together. Their unacked messages are only counted,
//! and nobody gets them instead.

use crate::consumer::Consumer;
use queue_type::AfterDetach;
use std::sync::Arc;

/// The consumers of one channel at one stream.
#[derive(Debug)]
pub struct Release {
    consumers: Vec<Arc<Consumer>>,
}

impl Release {
    /// These consumers; `None` without any.
    #[must_use]
    pub fn of(consumers: Vec<Arc<Consumer>>) -> Option<Self> {
        (!consumers.is_empty()).then_some(Self { consumers })
    }

    /// How many consumers these are.
    #[must_use]
    pub const fn n_consumers(&self) -> usize {
        self.consumers.len()
    }

    /// Detaches the last `n` of the consumers; `None` when none was left.
    pub fn retire(&mut self, n: usize) -> Option<AfterDetach> {
        let last = self.consumers.split_off(self.consumers.len().saturating_sub(n));
        last.iter().for_each(|consumer| consumer.detach());
        (!last.is_empty()).then_some(AfterDetach::Stays)
    }

    /// Counts all unacked messages as settled; the consumers stay. COMPAT: the messages do not come again.
    pub fn settle_all(self) {
        self.consumers.iter().for_each(Consumer::settle_all);
    }

    /// Detaches the consumers.
    #[must_use]
    pub fn detach(self) -> AfterDetach {
        self.consumers.iter().for_each(|consumer| consumer.detach());
        AfterDetach::Stays
    }
}
