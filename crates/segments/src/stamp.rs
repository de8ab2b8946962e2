//! The stamp of a file beside the log: which log that is, and how far it had come.

use std::sync::atomic::{AtomicU64, Ordering};

/// Position of an entry: 1 for the log's first entry, rising by one, also over restarts; 0 is before
/// everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// Length of a stamp in a file.
pub const STAMP_BYTES: usize = 16;

/// A stamp in a file that means nothing without the log: the log must be the same one when the file
/// is read, and reach as far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The log's identity: the salt of its blocks.
    pub identity: u64,
    /// The last entry that the log had synced when the stamp was made.
    pub synced: Lsn,
}

impl Stamp {
    /// Encodes the stamp as it stands in a file.
    #[must_use]
    pub fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        let (identity, synced) = bytes.split_at_mut(8);
        identity.copy_from_slice(&self.identity.to_le_bytes());
        synced.copy_from_slice(&self.synced.0.to_le_bytes());
        bytes
    }

    /// The stamp that `bytes` begin with.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (identity, rest) = bytes.split_first_chunk::<8>()?;
        let synced = rest.first_chunk::<8>()?;
        let synced = Lsn(u64::from_le_bytes(*synced));
        Some(Self { identity: u64::from_le_bytes(*identity), synced })
    }
}

/// Gives stamps of a log as it is now, to whoever writes files beside it.
#[derive(Debug, Default)]
pub struct Stamper {
    identity: AtomicU64,
    synced: AtomicU64,
}

impl Stamper {
    /// The log as it is now.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        let synced = Lsn(self.synced.load(Ordering::Acquire));
        Stamp { identity: self.identity.load(Ordering::Relaxed), synced }
    }

    /// Begins with a log as it was opened.
    pub fn begin(&self, stamp: Stamp) {
        self.identity.store(stamp.identity, Ordering::Relaxed);
        self.synced(stamp.synced);
    }

    /// Notes that the log is synced up to an entry.
    pub fn synced(&self, upto: Lsn) {
        let before = self.synced.swap(upto.0, Ordering::Release);
        debug_assert!(before <= upto.0, "what is synced stays synced");
    }
}
