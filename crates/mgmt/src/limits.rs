//! The limits beyond which alarms make publishers wait. An operator can change them while the node runs.

use broker::Broker;
use segments::FileTraffic;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limit in bytes, or as a share of the machine's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// A number of bytes.
    Bytes(u64),
    /// A share of the memory the node may use.
    OfMemory(f64),
}

impl Default for Threshold {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

impl Threshold {
    /// The threshold in bytes, on a machine with so much memory.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a limit need not be exact to the byte, and a share is not negative"
    )]
    pub fn bytes(self, memory_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::OfMemory(share) => (memory_bytes as f64 * share) as u64,
        }
    }
}

/// The file descriptors of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDescriptors {
    /// File descriptors in use, if the system tells.
    pub total_used: Option<usize>,
    /// The limit of file descriptors.
    pub total_limit: u64,
    /// Whether connections are refused for want of them.
    pub is_alarm_on: bool,
}

/// The monitor of memory, disk and file descriptors.
pub trait Resources: std::fmt::Debug + Send + Sync {
    /// The limits in force.
    fn limits(&self) -> &ResourceLimits;

    /// Looks at memory, disk and descriptors now, and sets or clears the alarms.
    fn look(&self, broker: &Broker);

    /// The file descriptors by now.
    fn descriptors(&self) -> FileDescriptors;

    /// Bytes that files of the data directory were read and written with since the start, by kind.
    fn traffic(&self) -> Vec<FileTraffic>;
}

/// The limits in force. What is configured counts again after the next start, as with RabbitMQ.
#[derive(Debug)]
pub struct ResourceLimits {
    /// The memory that shares are shares of, bytes.
    memory_bytes: u64,
    memory_high_bytes: AtomicU64,
    disk_free_bytes: AtomicU64,
}

impl ResourceLimits {
    /// Publishers wait above so much used memory, and below so much free disk.
    #[must_use]
    pub fn new(memory_bytes: u64, memory_high: Threshold, disk_free: Threshold) -> Self {
        Self {
            memory_bytes,
            memory_high_bytes: AtomicU64::new(memory_high.bytes(memory_bytes)),
            disk_free_bytes: AtomicU64::new(disk_free.bytes(memory_bytes)),
        }
    }

    /// Publishers wait above this much used memory.
    #[must_use]
    pub fn memory_high_bytes(&self) -> u64 {
        self.memory_high_bytes.load(Ordering::Relaxed)
    }

    /// Publishers wait below this much free disk.
    #[must_use]
    pub fn disk_free_bytes(&self) -> u64 {
        self.disk_free_bytes.load(Ordering::Relaxed)
    }

    /// Sets the used memory above which publishers wait.
    pub fn set_memory_high(&self, threshold: Threshold) {
        self.set(&self.memory_high_bytes, threshold, "memory above");
    }

    /// Sets the free disk space below which publishers wait.
    pub fn set_disk_free(&self, threshold: Threshold) {
        self.set(&self.disk_free_bytes, threshold, "free disk below");
    }

    fn set(&self, limit: &AtomicU64, threshold: Threshold, what: &str) {
        let bytes = threshold.bytes(self.memory_bytes);
        limit.store(bytes, Ordering::Relaxed);
        tracing::info!("management: publishers are blocked with {what} {bytes} bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_bytes_or_shares_of_memory() {
        let limits = ResourceLimits::new(1000, Threshold::OfMemory(0.5), Threshold::Bytes(7));
        assert_eq!((limits.memory_high_bytes(), limits.disk_free_bytes()), (500, 7));
        limits.set_memory_high(Threshold::Bytes(3));
        limits.set_disk_free(Threshold::OfMemory(1.5));
        assert_eq!((limits.memory_high_bytes(), limits.disk_free_bytes()), (3, 1500));
    }
}
