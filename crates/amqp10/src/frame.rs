//! Frames (part 2, 2.3; part 5, 5.3.1):
//!
//! ```text
//! size:u32  data offset:u8  type:u8  channel:u16  extended header  body
//! `size` counts itself; the body begins `data offset` times 4 bytes after the frame's start
//! ```

use crate::reader::ValueCursor;
use thiserror::Error;

/// The bytes of a frame's header.
pub const FRAME_HEADER_BYTES: u32 = 8;

/// The size up to which every peer takes frames, and the largest that is sent before sizes are negotiated.
pub const FRAME_BYTES_MIN_MAX: u32 = 512;

/// The smallest data offset, in units of four bytes: the header.
pub(crate) const DATA_OFFSET_MIN: u8 = 2;

/// The kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameType {
    /// A frame of the AMQP layer.
    Amqp,
    /// A frame of the SASL layer.
    Sasl,
}

impl FrameType {
    const fn code(self) -> u8 {
        match self {
            Self::Amqp => 0,
            Self::Sasl => 1,
        }
    }

    const fn layer(self) -> &'static str {
        match self {
            Self::Amqp => "amqp",
            Self::Sasl => "sasl",
        }
    }
}

/// A frame, whose body lies in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRef<'a> {
    /// The session's channel; SASL's frames have none, and any number in its place.
    pub channel: u16,
    /// A performative and its payload; empty for a frame that only shows that its sender is alive.
    pub body: &'a [u8],
}

/// A frame header that cannot be right. Where the next frame begins is not known. COMPAT: RabbitMQ's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame is smaller than its own header.
    #[error("frame size ({size} bytes) < minimum frame size (8 bytes)")]
    TooSmall {
        /// The frame's size in bytes.
        size: u32,
    },
    /// The frame is larger than the receiver takes.
    #[error("frame size ({size} bytes) > maximum frame size ({max} bytes)")]
    TooLarge {
        /// The frame's size in bytes.
        size: u32,
        /// The largest size that is taken, in bytes.
        max: u32,
    },
    /// The body is said to begin within the header.
    #[error("data offset ({0}) < minimum data offset (2)")]
    OffsetTooSmall(u8),
    /// The body is said to begin behind the frame.
    #[error("data offset ({offset} bytes) > frame size ({size} bytes)")]
    OffsetTooLarge {
        /// The place where the body is said to begin, in bytes.
        offset: u32,
        /// The frame's size in bytes.
        size: u32,
    },
    /// The frame is of another layer than the peers speak.
    #[error("unexpected frame type {found} in {} mode (expected {})", .expected.layer(), .expected.code())]
    Type {
        /// The frame's type.
        found: u8,
        /// The type that frames of the layer have.
        expected: FrameType,
    },
}

/// The frame at the front of `input` and the number of bytes it takes; `None` until all of it is there. Its
/// header is checked before the rest has arrived.
///
/// # Errors
/// A header that cannot be right.
#[inline]
pub fn decode_frame(
    input: &[u8],
    expected: FrameType,
    frame_bytes_max: u32,
) -> Result<Option<(FrameRef<'_>, usize)>, FrameError> {
    let Some(&[s0, s1, s2, s3, data_offset, found, c0, c1]) = input.first_chunk() else {
        return Ok(None);
    };
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    let offset = u32::from(data_offset) * 4;
    if size < FRAME_HEADER_BYTES {
        return Err(FrameError::TooSmall { size });
    }
    if size > frame_bytes_max {
        return Err(FrameError::TooLarge { size, max: frame_bytes_max });
    }
    if data_offset < DATA_OFFSET_MIN {
        return Err(FrameError::OffsetTooSmall(data_offset));
    }
    if offset > size {
        return Err(FrameError::OffsetTooLarge { offset, size });
    }
    if found != expected.code() {
        return Err(FrameError::Type { found, expected });
    }
    let mut cursor = ValueCursor(input);
    let Ok(frame) = cursor.bytes(size as usize) else { return Ok(None) };
    let body = frame.get(offset as usize..).unwrap_or_default();
    Ok(Some((FrameRef { channel: u16::from_be_bytes([c0, c1]), body }, frame.len())))
}

/// The size of the frame that `input` begins with, once that is there.
#[must_use]
pub fn frame_size(input: &[u8]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(*input.first_chunk()?)).ok()
}

/// Appends a frame whose body is what `body` appends.
#[inline]
pub fn put_frame(
    out: &mut Vec<u8>,
    frame_type: FrameType,
    channel: u16,
    body: impl FnOnce(&mut Vec<u8>),
) {
    let at = out.len();
    let [c0, c1] = channel.to_be_bytes();
    out.extend_from_slice(&[0, 0, 0, 0, DATA_OFFSET_MIN, frame_type.code(), c0, c1]);
    body(out);
    end_frame(out, at);
}

/// Says the size of the frame that begins at this byte, and is all there.
///
/// # Panics
/// The frame has 4 GiB or more.
#[inline]
pub fn end_frame(out: &mut [u8], at: usize) {
    let size = u32::try_from(out.len() - at).expect("a frame is far smaller than 4 GiB");
    if let Some(slot) = out.get_mut(at..at + 4) {
        slot.copy_from_slice(&size.to_be_bytes());
    }
}

/// Appends a frame without a body: it only shows that the connection is alive.
pub fn put_empty_frame(out: &mut Vec<u8>) {
    put_frame(out, FrameType::Amqp, 0, |_| {});
}
