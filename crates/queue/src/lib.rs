//! Queue cores: which message goes to which consumer, as pure state machines.
//! Knows positions and consumers. Never message content, sockets, files, clocks, protocols.
//! Start reading at [`Fifo`], then the module `queue_policy`; for quorum queues at the module [`machine`].

mod active;
mod confirm_waiters;
mod consumers;
mod delivery_counts;
mod expiry;
mod failed_deliveries;
mod fifo;
mod key;
mod limits;
pub mod machine;
mod messages;
mod policy_state;
mod position_bitmap;
mod positions;
mod priorities;
pub mod queue_policy;
mod range;
mod retry;
mod room;
mod round;
mod standings;
mod turns;
mod unacked;

pub use active::SingleActive;
pub use confirm_waiters::{Awaiting, ConfirmWaiters};
pub use consumers::{AckMode, Checkout, Consumer, Consumers, RoomChange, UnackedTracking};
pub use delivery_counts::{DeliveryCounts, Return, Returns};
pub use fifo::{
    Assigned, Detached, Fifo, NotHeld, SoleTaker, forget_failed, pass_ready, ready_run,
};
pub use key::ConsumerKey;
pub use limits::{Limits, ReadyBytes};
pub use machine::Machine;
pub use messages::{Messages, n_failed};
pub use policy_state::PolicyState;
pub use positions::{PositionRange, PositionSet};
pub use queue_policy::{Gone, MessageAttrs, QueuePolicy, Reason, RecoveredMessages};
pub use retry::{Delayed, Retry, RetryOn};
pub use room::{CreditMode, DeliveryRoom, LinkCredit};
pub use round::Round;
pub use standings::{Standing, Standings};
