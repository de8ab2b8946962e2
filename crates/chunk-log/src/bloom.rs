//! Bloom filters of filter values: one for each chunk that has messages with such values, in front of
//! its data.
//!
//! ```text
//! bit 0     the chunk has messages without a filter value
//! others    two for each filter value: 1 + high * (bits - 1) / 2^32, 1 + low * (bits - 1) / 2^32
//! ```
//! Bit 0 is the highest of the first byte. `high` and `low` are the halves of the value's hash: its length
//! times P, then for each 8 bytes (little-endian, the last filled up with zeros) h = rotate left(h ^
//! word, 29) times P; then the finish of splitmix64. P is 0x9e3779b97f4a7c15. The bits are known to
//! brokers alone, and must stay what they are while there are streams that have them.

use streamproto::spec::{FILTER_BYTES_MAX, FILTER_BYTES_MIN};

const P: u64 = 0x9e37_79b9_7f4a_7c15;
/// The bit of messages without a filter value.
const UNFILTERED_BIT: u64 = 0;

/// The filter of a chunk that is being made.
#[derive(Clone, Debug)]
pub struct BloomFilter {
    bits: Vec<u8>,
    has_values: bool,
}

impl BloomFilter {
    /// An empty filter of so many bytes, 16 to 255: another number is taken for the nearest of these.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.clamp(FILTER_BYTES_MIN, FILTER_BYTES_MAX);
        Self { bits: vec![0; bytes], has_values: false }
    }

    /// Adds a message with its filter value; an empty one is none.
    pub fn insert(&mut self, value: Option<&[u8]>) {
        match value {
            None | Some([]) => set(&mut self.bits, UNFILTERED_BIT),
            Some(value) => {
                self.has_values = true;
                for bit in places(hash(value), self.bits.len()) {
                    set(&mut self.bits, bit);
                }
            }
        }
    }

    /// The bytes for the chunk: none if no message has a filter value.
    pub fn bytes(&self) -> &[u8] {
        if self.has_values { &self.bits } else { &[] }
    }

    /// Empties it for the next chunk.
    pub fn clear(&mut self) {
        self.bits.fill(0);
        self.has_values = false;
    }
}

/// The wish of a consumer: messages with one of its filter values.
#[derive(Clone, Debug)]
pub struct FilterMatcher {
    hashes: Box<[u64]>,
    matches_unfiltered: bool,
}

impl FilterMatcher {
    /// Wants these values (an empty one: messages without a value).
    pub fn new<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Self {
        let mut matches_unfiltered = false;
        let mut hashes = Vec::new();
        for value in values {
            match value {
                [] => matches_unfiltered = true,
                value => hashes.push(hash(value)),
            }
        }
        Self { hashes: hashes.into(), matches_unfiltered }
    }

    /// Wants messages without a filter value as well.
    #[must_use]
    pub const fn with_unfiltered(mut self) -> Self {
        self.matches_unfiltered = true;
        self
    }

    /// Whether a chunk with this filter may have what is wanted. One without a filter has no message with a
    /// filter value.
    #[must_use]
    pub fn matches(&self, filter: &[u8]) -> bool {
        if filter.is_empty() {
            return self.matches_unfiltered;
        }
        let is_in = |hash: &u64| places(*hash, filter.len()).iter().all(|bit| has(filter, *bit));
        (self.matches_unfiltered && has(filter, UNFILTERED_BIT)) || self.hashes.iter().any(is_in)
    }
}

fn hash(value: &[u8]) -> u64 {
    let mut hash = (value.len() as u64).wrapping_mul(P);
    for part in value.chunks(8) {
        let mut word = [0; 8];
        word.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
        hash = (hash ^ u64::from_le_bytes(word)).rotate_left(29).wrapping_mul(P);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The bits of a hash in a filter of so many bytes.
fn places(hash: u64, filter_bytes: usize) -> [u64; 2] {
    let n = (filter_bytes as u64 * 8).saturating_sub(1);
    [hash >> 32, hash & 0xffff_ffff].map(|half| 1 + ((half * n) >> 32))
}

fn set(bits: &mut [u8], bit: u64) {
    if let Some(byte) = bits.get_mut(crate::field::size(bit / 8)) {
        *byte |= 0x80 >> (bit % 8);
    }
}

fn has(bits: &[u8], bit: u64) -> bool {
    bits.get(crate::field::size(bit / 8)).is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::Random;

    #[test]
    fn what_was_put_in_is_found_whatever_the_size() {
        let mut random = Random::new(5);
        for bytes in [1, 16, 17, 100, 255, 300] {
            let mut filter = BloomFilter::new(bytes);
            let values: Vec<Vec<u8>> = (1..20).map(|n| random.bytes(n)).collect();
            values.iter().for_each(|value| filter.insert(Some(value)));
            for value in &values {
                assert!(FilterMatcher::new([value.as_slice()]).matches(filter.bytes()));
            }
            assert!(!FilterMatcher::new([[].as_slice()]).matches(filter.bytes()));
        }
    }

    #[test]
    fn few_other_values_are_found() {
        let mut random = Random::new(6);
        let mut filter = BloomFilter::new(16);
        (0..3).for_each(|_| filter.insert(Some(&random.bytes(8))));
        let n = 10_000;
        let wrong = (0..n)
            .filter(|_| FilterMatcher::new([random.bytes(8).as_slice()]).matches(filter.bytes()));
        let wrong = wrong.count();
        // Six bits of 127: 0.22 %.
        assert!(wrong < n / 200, "{wrong} of {n}");
    }

    #[test]
    fn messages_without_a_value_are_wanted_or_not() {
        let mut filter = BloomFilter::new(16);
        filter.insert(None);
        assert_eq!(filter.bytes(), b"", "no message has a value");
        let wanted = FilterMatcher::new([b"a".as_slice()]);
        assert!(!wanted.matches(filter.bytes()));
        assert!(wanted.clone().with_unfiltered().matches(filter.bytes()));
        filter.insert(Some(b"b"));
        assert!(!wanted.matches(filter.bytes()));
        assert!(wanted.clone().with_unfiltered().matches(filter.bytes()));
        filter.clear();
        filter.insert(Some(b"b"));
        assert!(!wanted.with_unfiltered().matches(filter.bytes()));
    }

    /// On disk there are filters that were made by this hash.
    #[test]
    fn the_hash_stays_what_it_is() {
        let mut filter = BloomFilter::new(16);
        filter.insert(Some(b"apples"));
        filter.insert(Some(b"a filter value that is longer than a word"));
        let set: Vec<u64> = (0..128).filter(|bit| has(filter.bytes(), *bit)).collect();
        assert_eq!(set, [6, 23, 101, 113]);
    }
}
