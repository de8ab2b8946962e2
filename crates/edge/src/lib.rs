//! The parts that the fronts of all protocols need: bytes on their way out, the memory they may take,
//! deliveries on their way to being settled, and what a front and its connection's task say to each other.
//! Knows offsets in streams and session values. Must never know a protocol, a socket or a clock.
//! Start reading at [`Step`], then [`Outgoing`].

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

mod auto_ack_in_flight;
mod closing;
mod delivery_tags;
mod outbox_budget;
mod outgoing;
mod read_pace;
pub mod sasl;
mod shared_outbox;
mod step;
mod timers;
mod write_batch;
mod write_rope;

pub use auto_ack_in_flight::Put;
pub use closing::{CloseMode, Closing};
pub use delivery_tags::{DeliveryTags, Unsettled};
pub use outbox_budget::{OUTBOX_HIGH_WATER_BYTES, OUTBOX_STUCK_BYTES, OutboxBudget};
pub use outgoing::{Outgoing, note_converted};
pub use read_pace::{ReadCounts, ReadPace};
pub use sasl::Mechanism;
pub use shared_outbox::{OutboxState, SharedOutbox, TaskOutbox};
pub use step::{AuthFailure, Login, MISSED_HEARTBEATS, Progress, Proof, Step, Tick};
pub use timers::{HeartbeatCheck, TimedOutbox, Timers};
pub use write_batch::WriteBatch;
pub use write_rope::WriteRope;
