//! The checksum of everything on disk.

use crc_fast::{CrcAlgorithm, checksum};

/// CRC32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The algorithm is 32 bits wide; the crate returns every width in a u64.
    u32::try_from(checksum(CrcAlgorithm::Crc32Iscsi, bytes)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
