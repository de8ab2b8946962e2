//! Quorum queues with one member at run time: commands of the pure machine (`queue::machine`) are recorded in
//! the node's log and applied at once, and their effects carried out. Never whose turn it is, what a session
//! is, how definitions change, or exchanges.
//! Start reading at [`QuorumQueue`], then `queue/turn.rs`.

mod command_log;
mod inspection;
mod lazy_machine;
mod queue;
mod settings;

pub use crate::command_log::LogFigures;
pub use crate::inspection::{BODY_START_BYTES, Peeked, QuorumFigures, QuorumInspection};
pub use crate::queue::{
    Consumer, LoggedMachine, QuorumQueue, QuorumRecovery, Release, WaitingPublishers,
};
