//! The lists of a turn.

use queue::machine::{Arrival, Effects, NumberRange};

/// Lists whose memory a queue in use keeps from turn to turn.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The written form of the commands of this turn.
    pub(crate) commands: Vec<u8>,
    pub(crate) effects: Effects,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) numbers: Vec<NumberRange>,
    /// Consumers with messages to be handed over.
    pub(crate) touched: Vec<u64>,
}
