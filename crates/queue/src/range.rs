/// Positions `start..end` of one queue, end excluded; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionRange {
    /// First position.
    pub start: u64,
    /// Position after the last.
    pub end: u64,
}

impl PositionRange {
    /// The empty range before position 0.
    pub(crate) const NONE: Self = Self { start: 0, end: 0 };

    /// The range of one position.
    #[must_use]
    pub const fn one(position: u64) -> Self {
        Self { start: position, end: position + 1 }
    }

    /// Number of positions in the range.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether the range has no positions; never true for a range in a set.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    pub(crate) const fn contains(self, position: u64) -> bool {
        self.start <= position && position < self.end
    }
}
