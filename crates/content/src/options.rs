//! The settings of classic queues' storage.

use meta::QueueVersion;
use stdx::Clock;

/// Options of how queues keep messages.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// Options of how backlogs are kept out of memory.
    pub pager: PagerOptions,
    /// Bodies of persistent messages from this length on are stored once for all durable queues
    /// they go to, if these are several, or one that is deep or of version 1.
    pub embed_below_bytes: usize,
    /// Operations after which the journal of a queue of version 1 is flushed to its segments:
    /// `queue_index_max_journal_entries`.
    pub journal_operations_max: u64,
    /// Length at which a file of pages takes no more; 0 for the usual one.
    pub page_file_bytes: u32,
    /// Length at which a file of bodies takes no more; 0 for the usual one.
    pub body_file_bytes: u32,
    /// The version of queues that neither their arguments nor a policy say anything about:
    /// `classic_queue.default_version`.
    pub default_version: QueueVersion,
    /// The clock of times to live, and of how long queues are unused.
    pub clock: Clock,
    /// The disk is short of space from the start: nothing is written that can wait.
    pub is_short: bool,
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self {
            pager: PagerOptions::default(),
            embed_below_bytes: 4_096,
            journal_operations_max: 32_768,
            page_file_bytes: 0,
            body_file_bytes: 0,
            default_version: QueueVersion::V2,
            clock: Clock::Ticks,
            is_short: false,
        }
    }
}

/// Limits of the memory that backlogs take.
#[derive(Clone, Copy, Debug)]
pub struct PagerOptions {
    /// Bytes of all backlogs together that are divided between the deep ones.
    pub budget_bytes: usize,
    /// Minimum allowance of a queue, in bytes of memory.
    pub allowance_bytes_min: usize,
    /// Maximum allowance of a queue, in bytes of memory.
    pub allowance_bytes_max: usize,
    /// Bytes of backlogs above their allowances from which on publishers wait.
    pub excess_bytes_max: usize,
    /// Bytes of images that may wait for a sync.
    pub unsynced_bytes_max: usize,
    /// Bytes that wait for the log's next sync, own bytes included, from which on large bodies of a deep
    /// queue are stored at once.
    pub stored_at_once_bytes_min: usize,
}

impl Default for PagerOptions {
    fn default() -> Self {
        Self {
            budget_bytes: 32 << 20,
            allowance_bytes_min: 16 << 10,
            allowance_bytes_max: 4 << 20,
            excess_bytes_max: 8 << 20,
            unsynced_bytes_max: 4 << 20,
            stored_at_once_bytes_min: 32 << 10,
        }
    }
}
