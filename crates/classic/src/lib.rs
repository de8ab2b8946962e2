//! Classic queues at run time: consumers, messages in memory and on disk, in the log or in journals of
//! version 1, and their conversion under traffic. Never what a session is, how definitions change, or
//! exchanges: queues ask their [`QueueHost`].
//! Start reading at [`Queue`], then `queue/state.rs`, then [`ClassicService`].

mod body_refs;
mod journal;
mod look;
mod options;
mod pager;
mod queue;
mod records;
mod service;
mod storage;
mod v1;

pub use crate::journal::{Journal, QUEUES_DIR, journals_dir_of};
pub use crate::look::{Looker, See, Seen};
pub use crate::options::{PagerOptions, StorageOptions};
pub use crate::pager::PagerStepper;
pub use crate::queue::{
    AlarmTimes, Consumer, Content, ContentUpkeep, DELAY, Delayed, DelayedMessage, FilesVersion,
    Given, HeldBack, Inspection, LetterBatch, Lost, PageScan, PagedQueue, Paging, Queue,
    QueueAlarms, QueueContext, QueueCounters, QueueHost, QueueRecovery, RecoveredDeliveryCounts,
    Release, Restoring, Returning, RuledQueue, Services, StopNote, Upkeep, WorkerHost, add_counts,
    delay_ms_of,
};
pub use crate::records::{
    QueueEntry, append_machine, append_version, parse_entry, parse_reference, put_version,
};
pub use crate::service::{ClassicParts, ClassicService};
pub use crate::storage::{Losses, PAGES_DIR, SWAP_DIR, Storage};
pub use crate::v1::ClassicV1Stepper;
