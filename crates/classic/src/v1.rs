//! Queues of version 1: each keeps what survives a restart in a journal and segments of its
//! own (see `queue_index`) instead of the node's log.
//!
//! ```text
//! queue, under its lock --(note)--> Journal, in memory --(noted)--> [dirty]
//!                                                                      |
//!       confirms of those that wait <-- synced <-- sync when idle, after 200 ms, or when much waits
//! ```
//! One thread does what touches files: it syncs and flushes journals, loads queues after a start (and reads
//! what others left for later), and removes what is not needed. What fails here ends the log.

mod conversion;
mod load;
mod sync;
mod worker;

pub use load::V1Loading;
pub(crate) use sync::sync_at_end;
pub use worker::ClassicV1Stepper;
pub(crate) use worker::start;
