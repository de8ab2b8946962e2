//! Counts of queues that came and went.

use meta::QueueKind;
use queue_type::Counts;
use queues::{Diagnosis, QueueRef};
use quorum::LogFigures;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Queues that came and went since the node started.
#[derive(Debug, Default)]
pub struct QueueChurn {
    /// Queues that were created.
    pub n_created: AtomicU64,
    /// Queues that were deleted.
    pub n_deleted: AtomicU64,
    /// Declarations by clients, also of queues that existed.
    pub n_declared: AtomicU64,
    /// Counts of what went through queues that are gone, by virtual host and type.
    pub ended: Mutex<BTreeMap<(String, QueueKind), Counts>>,
    /// Entries in the log of quorum queues that are gone.
    pub ended_entries: Mutex<LogFigures>,
}

impl QueueChurn {
    /// Notes that a client has declared a queue.
    pub fn note_declared(&self) {
        self.n_declared.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_ended(&self, gone: &[QueueRef]) {
        self.n_deleted.fetch_add(gone.len() as u64, Ordering::Relaxed);
        let mut ended = stdx::lock(&self.ended);
        for queue in gone {
            let key = (queue.def().vhost.to_string(), queue.def().kind);
            ended.entry(key).or_default().add(&queue.local_stat().counts);
            stdx::lock(&self.ended_entries).add(&Diagnosis(queue).log_figures());
        }
    }
}
