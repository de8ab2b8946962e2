//! Queue cores: which message goes to which consumer, as pure state machines.
//! Knows positions and consumers. Never message content, sockets, files, clocks, protocols.
//! Start reading at [`Fifo`], then the module `rules`.

mod active;
mod consumers;
mod deadlines;
mod fifo;
mod key;
mod lanes;
mod limits;
mod pending;
mod positions;
mod range;
mod retry;
mod returns;
mod ruled;
pub mod rules;
mod spread;
mod turns;
mod unacked;

pub use consumers::{Checkout, Holding, Settling};
pub use fifo::{Assigned, Detached, Fifo, NotHeld};
pub use key::ConsumerKey;
pub use limits::{Limits, Overflow, Refused};
pub use pending::{Awaiting, Pending};
pub use positions::{PositionRange, PositionSet};
pub use retry::{Retry, RetryOn};
pub use returns::{Return, ReturnCounts};
pub use rules::{Arrival, Gone, Reason, Rules, Stored};
