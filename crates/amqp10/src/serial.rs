//! Numbers that wrap around (RFC 1982): ids of deliveries and transfers, counts of deliveries.

/// A number that is counted up from any start and wraps around after 2^32 - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SerialNumber(u32);

impl SerialNumber {
    /// The number with these bits.
    #[inline]
    #[must_use]
    pub const fn new(bits: u32) -> Self {
        Self(bits)
    }

    /// The number as it is on the wire.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The number `n` steps on.
    #[inline]
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// The steps from `earlier` to this number, which is taken to come after it.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether this number comes before `other`: fewer than 2^31 steps lead from here to there.
    #[inline]
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        matches!(other.since(self), 1..=0x7fff_ffff)
    }
}
