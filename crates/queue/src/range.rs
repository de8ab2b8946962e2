/// Positions `start..end` of one queue, end excluded; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionRange {
    /// First position.
    pub start: u64,
    /// One past the last position.
    pub end: u64,
}

impl PositionRange {
    /// Nothing yet, before position 0.
    pub(crate) const NONE: Self = Self { start: 0, end: 0 };

    /// The range of one position.
    #[must_use]
    pub const fn one(position: u64) -> Self {
        Self { start: position, end: position + 1 }
    }

    /// How many positions it holds.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Never true for a range held in a set.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    pub(crate) const fn contains(self, position: u64) -> bool {
        self.start <= position && position < self.end
    }
}
