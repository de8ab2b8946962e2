//! The work of queues' rules, which no client asks for: messages whose time comes, queues that nobody uses,
//! dead letters on their way, policies that change.
//!
//! ```text
//! queue, under its lock --(alarm)--> [by time] ------> Upkeep::on_time
//!                       --(ask)----> [asked]   ------> letters copied, routed, put into their queues,
//!                                                      then noted as gone from where they were
//! ```
//! One thread and one timer for all queues. It holds one queue's lock at a time: a letter is in its
//! new queue, and in the log, before it leaves the old one, so a crash in between doubles it at worst.
//! Work that a letter sets off where it arrives has its turn with all other queues'.

mod dead_letter;
mod rescheduled;
mod sent_on;
mod transfer;
mod work;

pub use sent_on::{Departed, Departure};
pub use transfer::Fate;
pub use work::QueueTimersStepper;
pub(crate) use work::start;
