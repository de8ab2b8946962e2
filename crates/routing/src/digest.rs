//! Digests: bytes, and names and values of headers, as numbers. Different inputs may share a digest, so that
//! each match must be compared; equal inputs never have different digests.

use crate::comparable::Comparable;

/// An odd number with about as many ones as zeros.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The digest of a name, or of a name with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Digest(u64);

impl Digest {
    /// Computes the digest of a header's name, or of any bytes.
    #[inline]
    pub(crate) fn of_name(name: &[u8]) -> Self {
        Self(0).with_bytes(name)
    }

    /// Adds a value; values that are equal as [`Comparable`] says give the same digest.
    #[inline]
    pub(crate) fn with_value(self, value: Comparable<'_>) -> Self {
        match value {
            Comparable::Bool(b) => self.with(1).with(b.into()),
            Comparable::Integer(_) | Comparable::Float(_) => {
                // Adding makes zero of minus zero, which it equals.
                let number = value.as_number().unwrap_or(f64::NAN) + 0.0;
                self.with(2).with(number.to_bits())
            }
            Comparable::Bytes(bytes) => self.with(3).with_bytes(bytes),
            Comparable::Other => self.with(4),
        }
    }

    pub(crate) const fn of_number(number: u64) -> Self {
        Self(0).with(number)
    }

    /// The digest as a number, of which every bit depends on all that went in.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    #[inline]
    fn with_bytes(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let whole = words.iter().fold(self, |digest, word| digest.with(u64::from_le_bytes(*word)));
        let tail = rest.iter().fold(0, |tail, byte| tail << 8 | u64::from(*byte));
        whole.with(tail).with(bytes.len() as u64)
    }

    /// Mixes in a word by both halves of a product, so that each bit of the words before counts
    /// everywhere.
    #[inline]
    pub(crate) const fn with(self, word: u64) -> Self {
        let product = (self.0 ^ word).wrapping_add(FACTOR) as u128 * FACTOR as u128;
        #[expect(clippy::cast_possible_truncation, reason = "halves")]
        Self(product as u64 ^ (product >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn equal_values_share_a_digest_and_others_rarely() {
        let name = Digest::of_name(b"name");
        let equal = [Comparable::Integer(0), Comparable::Float(0.0), Comparable::Float(-0.0)];
        assert_eq!(BTreeSet::from(equal.map(|value| name.with_value(value))).len(), 1);
        let texts: Vec<String> = (0..10_000).map(|n| format!("value-{n}")).collect();
        let text = |text: &String| name.with_value(Comparable::Bytes(text.as_bytes()));
        let number = |n| Digest::of_name(b"n").with_value(Comparable::Integer(n));
        let digests: BTreeSet<_> = texts.iter().map(text).chain((0..10_000).map(number)).collect();
        assert_eq!(digests.len(), 20_000);
        let zeros = [&b""[..], b"\0", b"\0\0", b"\0\0\0\0\0\0\0\0", b"\0\0\0\0\0\0\0\0\0"];
        assert_eq!(BTreeSet::from(zeros.map(Digest::of_name)).len(), zeros.len());
    }
}
