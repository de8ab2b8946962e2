//! Classic queues at run time: consumers, rules, recovery, both versions and their conversion under traffic.
//! Never what a session is, how definitions change, or exchanges: queues ask their `QueueHost`.
//! Start reading at [`Queue`], then `queue/state.rs`, then [`ClassicService`].

mod queue;
mod service;
mod v1;

pub use crate::queue::{
    Consumer, DELAY, Delayed, DelayedMessage, FilesVersion, HeldBack, Inspection, PageScan, Queue,
    QueueRecovery, RecoveredDeliveryCounts, Release, Returning, Upkeep, WorkerHost, delay_ms_of,
};
pub use crate::service::{ClassicParts, ClassicService};
pub use crate::v1::{ClassicV1Stepper, V1Loading};
