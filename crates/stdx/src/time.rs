/// The time a command is applied at. Pure code never reads a clock: it is handed this value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Milliseconds since an arbitrary start; never goes back. For time-outs and rates.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970-01-01T00:00:00Z; may jump. For timestamps that people or peers see.
    pub unix_ms: u64,
}

impl Now {
    /// A point `ms` milliseconds later on both scales.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self {
            monotonic_ms: self.monotonic_ms.saturating_add(ms),
            unix_ms: self.unix_ms.saturating_add(ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plus_moves_both_scales() {
        let start = Now { monotonic_ms: 5, unix_ms: 1_000 };
        assert_eq!(start.plus_ms(10), Now { monotonic_ms: 15, unix_ms: 1_010 });
    }
}
