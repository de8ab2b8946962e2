//! Sub-batches, which stream clients publish as one entry, unpacked for consumers that know only messages,
//! and packed for the load tool. Must never know sockets, files, streams, or what a message is.
//! Start reading at [`unpack`].
//!
//! | compression | as the official clients write it |
//! |---|---|
//! | gzip | members of RFC 1952 |
//! | Snappy | the framing format, not bare blocks |
//! | LZ4 | the frame format, not bare blocks |
//! | Zstandard | one frame of RFC 8878 |

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::io::{self, Read, Write as _};
use streamproto::{Compression, SubBatch};
use thiserror::Error;

/// The part of the claimed size that is allocated before anything was decompressed.
const FIRST_BYTES_MAX: u64 = 64 * 1024;

/// The largest window that encoders of Zstandard ask for below their highest levels, whatever the size of the
/// input.
const ZSTD_WINDOW_BYTES_USUAL: u64 = 8 * 1024 * 1024;

/// An error in a sub-batch that its publisher has made: its messages cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnpackError {
    /// The sub-batch has more bytes than are let pass; the number is that of its header.
    #[error("the sub-batch has {0} bytes uncompressed, more than are allowed")]
    TooLarge(u32),
    /// No compression of this number is known.
    #[error("unknown compression {0}")]
    UnknownCompression(u8),
    /// The bytes are not of the sub-batch's compression.
    #[error("the sub-batch cannot be decompressed")]
    Corrupt,
    /// The sub-batch has fewer or more bytes than its header says.
    #[error("the sub-batch does not have the {0} bytes that it says it has uncompressed")]
    Size(u32),
}

/// The messages of a sub-batch with their lengths, for [`streamproto::Entries`]: its own bytes if it is not
/// compressed, else decompressed into `out`, whose content is replaced. No more is decompressed than the
/// sub-batch says it has, and nothing if that is more than `bytes_max`.
///
/// # Errors
/// The first defect of the sub-batch.
pub fn unpack<'a>(
    sub_batch: &SubBatch<'a>,
    bytes_max: u32,
    out: &'a mut Vec<u8>,
) -> Result<&'a [u8], UnpackError> {
    let SubBatch { compression, uncompressed_bytes, bytes, .. } = *sub_batch;
    if uncompressed_bytes > bytes_max {
        return Err(UnpackError::TooLarge(uncompressed_bytes));
    }
    let n_bytes = u64::from(uncompressed_bytes);
    out.clear();
    match compression {
        Compression::NONE => {
            let is_whole = u64::try_from(bytes.len()) == Ok(n_bytes);
            return if is_whole { Ok(bytes) } else { Err(UnpackError::Size(uncompressed_bytes)) };
        }
        Compression::GZIP => read(flate2::read::MultiGzDecoder::new(bytes), n_bytes, out),
        Compression::SNAPPY => read(snap::read::FrameDecoder::new(bytes), n_bytes, out),
        Compression::LZ4 => read(lz4_flex::frame::FrameDecoder::new(bytes), n_bytes, out),
        Compression::ZSTD => unpack_zstd(bytes, n_bytes, out),
        _ => Err(UnpackError::UnknownCompression(compression.code())),
    }?;
    let is_whole = u64::try_from(out.len()) == Ok(n_bytes);
    if is_whole { Ok(out) } else { Err(UnpackError::Size(uncompressed_bytes)) }
}

fn unpack_zstd(bytes: &[u8], n_bytes: u64, out: &mut Vec<u8>) -> Result<(), UnpackError> {
    use ruzstd::decoding::StreamingDecoder;
    // The window is allocated before anything was decompressed: it is held against what may come of it.
    let window_bytes_max = n_bytes.max(ZSTD_WINDOW_BYTES_USUAL);
    let decoder = StreamingDecoder::new_with_max_window_size(bytes, window_bytes_max);
    read(decoder.map_err(|_| UnpackError::Corrupt)?, n_bytes, out)
}

/// Appends messages with their lengths to `out` as a sub-batch of this compression holds them; as they are
/// if the compression is unknown.
///
/// # Errors
/// The compression's; as a rule, none.
pub fn pack(compression: Compression, messages: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    match compression {
        Compression::GZIP => {
            let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
            encoder.write_all(messages)?;
            encoder.finish()?;
        }
        Compression::SNAPPY => snap::write::FrameEncoder::new(out).write_all(messages)?,
        Compression::LZ4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(out);
            encoder.write_all(messages)?;
            encoder.finish()?;
        }
        Compression::ZSTD => {
            use ruzstd::encoding::{CompressionLevel, compress};
            compress(messages, out, CompressionLevel::Fastest);
        }
        _ => out.extend_from_slice(messages),
    }
    Ok(())
}

/// Reads up to one byte more than there should be.
fn read(decoder: impl Read, n_bytes: u64, out: &mut Vec<u8>) -> Result<(), UnpackError> {
    out.reserve(usize::try_from(n_bytes.min(FIRST_BYTES_MAX)).unwrap_or_default());
    let read = decoder.take(n_bytes + 1).read_to_end(out);
    read.map(|_| ()).map_err(|_| UnpackError::Corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MESSAGES: &[u8] = b"\0\0\0\x05hello\0\0\0\x05world";

    const ALL: [Compression; 5] = [
        Compression::NONE,
        Compression::GZIP,
        Compression::SNAPPY,
        Compression::LZ4,
        Compression::ZSTD,
    ];

    fn packed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        pack(compression, bytes, &mut out).unwrap();
        out
    }

    fn sub_batch(compression: Compression, bytes: &[u8], uncompressed: usize) -> SubBatch<'_> {
        let uncompressed_bytes = u32::try_from(uncompressed).unwrap();
        SubBatch { compression, n_records: 2, uncompressed_bytes, bytes }
    }

    #[test]
    fn every_compression_is_unpacked() {
        let large: Vec<u8> = (0..300_000_u32).flat_map(|n| n.to_be_bytes()).collect();
        let mut out = b"of the sub-batch before".to_vec();
        for compression in ALL {
            for messages in [MESSAGES, &large] {
                let bytes = packed(compression, messages);
                let batch = sub_batch(compression, &bytes, messages.len());
                assert!(unpack(&batch, u32::MAX, &mut out) == Ok(messages), "{compression:?}");
            }
        }
    }

    /// Bytes as written by the command-line tools of the compressions, whose formats the clients use.
    #[test]
    fn what_other_implementations_have_written_is_unpacked() {
        let written = [
            (Compression::GZIP, &b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x63\x60\x60\x60\xcd\x48\xcd\xc9\xc9\x67\x00\x32\xca\xf3\x8b\x72\x52\x00\xf2\x84\x26\x03\x12\x00\x00\x00"[..]),
            (Compression::LZ4, b"\x04\x22\x4d\x18\x64\x40\xa7\x12\x00\x00\x80\x00\x00\x00\x05\x68\x65\x6c\x6c\x6f\x00\x00\x00\x05\x77\x6f\x72\x6c\x64\x00\x00\x00\x00\xc8\xc4\x0e\x5a"),
            (Compression::LZ4, b"\x04\x22\x4d\x18\x6c\x40\x12\x00\x00\x00\x00\x00\x00\x00\x1b\x12\x00\x00\x80\x00\x00\x00\x05\x68\x65\x6c\x6c\x6f\x00\x00\x00\x05\x77\x6f\x72\x6c\x64\x00\x00\x00\x00\xc8\xc4\x0e\x5a"),
            (Compression::ZSTD, b"\x28\xb5\x2f\xfd\x24\x12\x91\x00\x00\x00\x00\x00\x05\x68\x65\x6c\x6c\x6f\x00\x00\x00\x05\x77\x6f\x72\x6c\x64\x65\x16\x2b\x8f"),
            (Compression::ZSTD, b"\x28\xb5\x2f\xfd\x04\x58\x91\x00\x00\x00\x00\x00\x05\x68\x65\x6c\x6c\x6f\x00\x00\x00\x05\x77\x6f\x72\x6c\x64\x65\x16\x2b\x8f"),
        ];
        let mut out = Vec::new();
        for (compression, bytes) in written {
            let batch = sub_batch(compression, bytes, MESSAGES.len());
            assert_eq!(unpack(&batch, 100, &mut out), Ok(MESSAGES), "{compression:?}");
        }
    }

    #[test]
    fn an_uncompressed_one_is_not_copied_and_has_its_size() {
        let mut out = Vec::new();
        let batch = sub_batch(Compression::NONE, MESSAGES, MESSAGES.len());
        let messages = unpack(&batch, 100, &mut out).unwrap();
        assert!(std::ptr::eq(messages, MESSAGES));
        let batch = sub_batch(Compression::NONE, MESSAGES, 5);
        assert_eq!(unpack(&batch, 100, &mut out), Err(UnpackError::Size(5)));
    }

    #[test]
    fn a_sub_batch_has_the_size_that_it_says_and_no_more_than_allowed() {
        let mut out = Vec::new();
        for compression in ALL {
            let bytes = packed(compression, MESSAGES);
            for wrong in [MESSAGES.len() - 1, MESSAGES.len() + 1] {
                let error = UnpackError::Size(u32::try_from(wrong).unwrap());
                let batch = sub_batch(compression, &bytes, wrong);
                assert_eq!(unpack(&batch, 100, &mut out), Err(error), "{compression:?}");
            }
            let batch = sub_batch(compression, &bytes, 101);
            assert_eq!(unpack(&batch, 100, &mut out), Err(UnpackError::TooLarge(101)));
        }
        let unknown = (0..=u8::MAX).map(|first| [first | 0x80, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0]);
        for entry in unknown {
            let mut entries = streamproto::Entries::new(&entry, 1, 0);
            let Some(Ok((_, streamproto::Entry::SubBatch(batch)))) = entries.next() else {
                panic!("an entry")
            };
            let error = unpack(&batch, 100, &mut out).unwrap_err();
            let code = batch.compression.code();
            let is_unknown = error == UnpackError::UnknownCompression(code);
            assert_eq!(is_unknown, !batch.compression.is_known());
        }
    }

    /// A bomb of 32 MiB is given up once it has more than it says, and takes no more memory than that.
    #[test]
    fn a_bomb_is_given_up() {
        let zeros = vec![0; 32 * 1024 * 1024];
        for compression in [Compression::GZIP, Compression::SNAPPY, Compression::LZ4] {
            let bytes = packed(compression, &zeros);
            let batch = sub_batch(compression, &bytes, 1024);
            let mut out = Vec::new();
            assert_eq!(unpack(&batch, 100_000, &mut out), Err(UnpackError::Size(1024)));
            assert!(out.capacity() < 100_000, "{compression:?}: {}", out.capacity());
        }
        // Blocks of 128 KiB, 256 of them, that are one byte again and again.
        let mut bytes = b"\x28\xb5\x2f\xfd\x00\x58".to_vec();
        bytes.extend((0..256).flat_map(|_| [0x02, 0x00, 0x10, 0x00]));
        let mut out = Vec::new();
        let batch = sub_batch(Compression::ZSTD, &bytes, 1024);
        assert_eq!(unpack(&batch, 100_000, &mut out), Err(UnpackError::Size(1024)));
        assert!(out.capacity() < 100_000);
        // A window of two terabytes.
        let batch = sub_batch(Compression::ZSTD, b"\x28\xb5\x2f\xfd\x00\xf8\x01\x00\x00", 1024);
        assert_eq!(unpack(&batch, 100_000, &mut out), Err(UnpackError::Corrupt));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn damaged_ones_are_refused_or_understood(
            compression in proptest::sample::select(&ALL[..]),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let messages = MESSAGES.repeat(50);
            let mut bytes = packed(compression, &messages);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(2 * bytes.len()));
            let mut out = Vec::new();
            let batch = sub_batch(compression, &bytes, messages.len());
            if let Ok(unpacked) = unpack(&batch, u32::MAX, &mut out) {
                prop_assert_eq!(unpacked.len(), messages.len());
            }
        }
    }
}
