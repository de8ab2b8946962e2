//! Queue cores: which message goes to which consumer, as pure state machines.
//! Knows positions and consumers. Never message content, sockets, files, clocks, protocols.
//! Start reading at [`Fifo`].

mod consumers;
mod fifo;
mod positions;
mod spread;
mod unacked;

pub use consumers::{Checkout, ConsumerKey, Settling};
pub use fifo::{Assigned, Detached, Fifo, NotHeld};
pub use positions::{PositionRange, PositionSet};
