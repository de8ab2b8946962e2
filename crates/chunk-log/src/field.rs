//! Integers in files, and sizes in memory.

/// The big-endian integer at `at`; 0 if the bytes end before.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    array_at(bytes, at).map_or(0, u32::from_be_bytes)
}

/// The big-endian 64-bit integer at `at`; 0 if the bytes end before.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    array_at(bytes, at).map_or(0, u64::from_be_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// A number of bytes as a size in memory: this program runs on 64 bits, and what it holds is limited.
pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
