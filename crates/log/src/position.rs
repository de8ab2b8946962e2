//! Places in the log.

/// Position of an entry. The first entry of a log is 1, the next 2, and so on, also over restarts;
/// 0 is "before everything".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// A segment of the log; newer ones have greater numbers, which are never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);
