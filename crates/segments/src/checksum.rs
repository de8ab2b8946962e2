//! The checksum of everything on disk, and records that begin with a magic and the checksum of the rest.

use crc_fast::{CrcAlgorithm, checksum};

/// The bytes in front of what the checksum of a record covers: the magic and the checksum itself.
pub const CHECKED_AT: usize = 8;

/// CRC32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The algorithm is 32 bits wide; the crate returns every width in a u64.
    u32::try_from(checksum(CrcAlgorithm::Crc32Iscsi, bytes)).unwrap_or(u32::MAX)
}

/// Writes the magic and the checksum in front of a record, whose rest is in place.
pub fn seal_record(magic: [u8; 4], record: &mut [u8]) {
    assert!(record.len() >= CHECKED_AT, "a record begins with magic and checksum");
    let Some((head, rest)) = record.split_first_chunk_mut::<CHECKED_AT>() else { return };
    let ([m0, m1, m2, m3], [c0, c1, c2, c3]) = (magic, crc32c(rest).to_le_bytes());
    *head = [m0, m1, m2, m3, c0, c1, c2, c3];
}

/// The part of a record behind magic and checksum; none if they do not fit.
#[must_use]
pub fn unseal_record(magic: [u8; 4], record: &[u8]) -> Option<&[u8]> {
    let rest = record.strip_prefix(&magic)?;
    let (found, rest) = rest.split_first_chunk()?;
    (u32::from_le_bytes(*found) == crc32c(rest)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn notices_every_flipped_bit_of_a_record() {
        let mut record = *b"........ the rest";
        seal_record(*b"LVXX", &mut record);
        assert_eq!(unseal_record(*b"LVXX", &record), Some(&b" the rest"[..]));
        assert_eq!(unseal_record(*b"LVXY", &record), None);
        for bit in 0..record.len() * 8 {
            record[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unseal_record(*b"LVXX", &record), None, "bit {bit}");
            record[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
