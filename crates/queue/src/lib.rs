//! Queue cores: which message goes to which consumer, as pure state machines.
//! Knows positions and consumers. Never message content, sockets, files, clocks, protocols.
//! Start reading at [`Fifo`], then the module `rules`.

mod active;
mod confirm_waiters;
mod consumers;
mod delivery_counts;
mod expiry;
mod fifo;
mod key;
mod limits;
mod position_bitmap;
mod positions;
mod priorities;
pub mod queue_policy;
mod range;
mod retry;
mod ruled;
mod turns;
mod unacked;

pub use confirm_waiters::{Awaiting, ConfirmWaiters};
pub use consumers::{AckMode, Checkout, UnackedTracking};
pub use delivery_counts::{DeliveryCounts, Return};
pub use fifo::{Assigned, Detached, Fifo, NotHeld};
pub use key::ConsumerKey;
pub use limits::{Limits, Overflow, Refused};
pub use positions::{PositionRange, PositionSet};
pub use queue_policy::{Gone, MessageAttrs, QueuePolicy, Reason, RecoveredMessages};
pub use retry::{Retry, RetryOn};
