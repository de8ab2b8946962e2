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

/// A cluster, by a random number that its first node has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterId(pub u128);

impl ClusterId {
    /// The cluster of the number with these halves, the lower one first.
    #[must_use]
    pub const fn of_halves([low, high]: [u64; 2]) -> Self {
        Self((high as u128) << 64 | low as u128)
    }

    /// The halves of the number as they are written, the lower one first.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "each half is what fits")]
    pub const fn halves(self) -> [u64; 2] {
        [self.0 as u64, (self.0 >> 64) as u64]
    }
}

/// The number of a node in its cluster, never given to another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeNumber(pub u16);

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
