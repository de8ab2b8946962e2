//! Frames (clause "Frame Structure").
//!
//! ```text
//! 0        4       6         8          4+size
//! +--------+-------+---------+----------+    integers are big-endian
//! |  size  |  key  | version |  fields  |    size <= frame_max: the limit does not count the size
//! |  u32   |  u16  |   u16   |          |    key: 0x8000 is added in responses
//! +--------+-------+---------+----------+
//! fields of requests begin with the correlation id:u32, those of responses with it and code:u16,
//! but for the commands that expect no answer, Tune, and the responses of Credit and Metadata
//! ```

use crate::command_id::CommandId;
use crate::error::WireError;
use crate::field::len_u32;
use crate::key::Key;
use crate::spec::{FRAME_SIZE_BYTES, UNLIMITED_FRAME_BYTES_MAX};

/// Takes the first frame from `input`: its bytes from the key on, for [`ToServer::decode`] or
/// [`ToClient::decode`], and the number of bytes it occupies, or `None` if it is not complete yet.
/// `frame_max` 0 means that no limit was negotiated.
///
/// [`ToServer::decode`]: crate::ToServer::decode
/// [`ToClient::decode`]: crate::ToClient::decode
///
/// # Errors
/// A frame that is too large, as soon as its size is there.
#[inline]
pub fn decode_frame(input: &[u8], frame_max: u32) -> Result<Option<(&[u8], usize)>, WireError> {
    let Some((&size, rest)) = input.split_first_chunk::<FRAME_SIZE_BYTES>() else {
        return Ok(None);
    };
    let size = u32::from_be_bytes(size);
    let size_max = if frame_max == 0 { UNLIMITED_FRAME_BYTES_MAX } else { frame_max };
    if size > size_max {
        return Err(WireError::FrameTooLarge { size, size_max });
    }
    let frame = usize::try_from(size).ok().and_then(|size| rest.get(..size));
    Ok(frame.map(|frame| (frame, FRAME_SIZE_BYTES + frame.len())))
}

/// Appends a frame whose fields are what `fields` appends; the size is patched in afterwards.
#[inline]
pub(crate) fn put_frame(out: &mut Vec<u8>, id: CommandId, fields: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; FRAME_SIZE_BYTES]);
    out.extend_from_slice(&id.to_bytes());
    fields(out);
    let size = len_u32(out.len() - at - FRAME_SIZE_BYTES);
    if let Some(slot) = out.get_mut(at..at + FRAME_SIZE_BYTES) {
        slot.copy_from_slice(&size.to_be_bytes());
    }
}

/// The bytes in front of a chunk of `chunk_bytes` that is delivered to `subscription_id` in
/// version 1, for writers that hand the chunk to the socket themselves.
#[must_use]
pub fn deliver_prefix(subscription_id: u8, chunk_bytes: u32) -> [u8; 9] {
    const FIELDS_BYTES: u32 = 5;
    let [s0, s1, s2, s3] = chunk_bytes.saturating_add(FIELDS_BYTES).to_be_bytes();
    let [k0, k1, v0, v1] = CommandId::request(Key::Deliver, 1).to_bytes();
    [s0, s1, s2, s3, k0, k1, v0, v1, subscription_id]
}

/// The bytes in front of a delivered chunk in version 2, which also tells the id of the last committed chunk.
#[must_use]
pub fn deliver_v2_prefix(
    subscription_id: u8,
    committed_chunk_id: u64,
    chunk_bytes: u32,
) -> [u8; 17] {
    const FIELDS_BYTES: u32 = 13;
    let [s0, s1, s2, s3] = chunk_bytes.saturating_add(FIELDS_BYTES).to_be_bytes();
    let [k0, k1, v0, v1] = CommandId::request(Key::Deliver, 2).to_bytes();
    let [c0, c1, c2, c3, c4, c5, c6, c7] = committed_chunk_id.to_be_bytes();
    [s0, s1, s2, s3, k0, k1, v0, v1, subscription_id, c0, c1, c2, c3, c4, c5, c6, c7]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_too_large_is_refused_by_its_size() {
        assert_eq!(decode_frame(b"\0\0\x20", 8192), Ok(None));
        assert_eq!(decode_frame(b"\0\0\x20\0", 8192), Ok(None));
        let error = WireError::FrameTooLarge { size: 8193, size_max: 8192 };
        assert_eq!(decode_frame(b"\0\0\x20\x01", 8192), Err(error));
        assert_eq!(decode_frame(b"\x20\0\0\0", 0), Ok(None));
        let size_max = UNLIMITED_FRAME_BYTES_MAX;
        let error = WireError::FrameTooLarge { size: size_max + 1, size_max };
        assert_eq!(decode_frame(b"\x20\0\0\x01", 0), Err(error));
        assert_eq!(decode_frame(b"\0\0\0\x02abc", 2), Ok(Some((&b"ab"[..], 6))));
    }
}
