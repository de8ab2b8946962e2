//! Places in the log.

/// The one an entry is about, by a number of the caller's: the log only keeps owners apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u64);

/// A node, by a random number that was given to it when its data directory was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The place of an entry in the segment files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryAddress {
    /// The segment.
    pub segment: SegmentId,
    /// Where in its file the entry's header begins.
    pub offset: u32,
    /// Length of the entry with its header.
    pub bytes: u32,
}

/// A segment of the log; newer ones have greater numbers, which are never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);
