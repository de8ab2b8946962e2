//! Offset specifications (clause "Subscribe").

use crate::error::FieldError;
use crate::field::Field;

/// The place in a stream to begin at.
///
/// ```text
/// type:u16   0 none, 1 first, 2 last, 3 next, 4 offset, 5 timestamp
/// value      offset: u64, timestamp: i64, the others have none
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetSpec {
    /// Nowhere in particular. Clients answer a `ConsumerUpdate` with it; it means nothing elsewhere.
    #[default]
    None,
    /// The first message there is.
    First,
    /// The first message of the last chunk.
    Last,
    /// The next message that is published.
    Next,
    /// The message of this offset.
    Offset(u64),
    /// The first chunk that is not older: milliseconds since 1970.
    Timestamp(i64),
}

/// The offset at the end of a client's answer to a `ConsumerUpdate`, and nothing behind it matters.
/// COMPAT: RabbitMQ ignores it, and its Python client writes an offset whatever the type.
/// Test: `an_answer_to_a_consumer_update_may_go_on`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinalOffset(pub OffsetSpec);

impl<'a> Field<'a> for FinalOffset {
    const BYTES_MIN: usize = OffsetSpec::BYTES_MIN;

    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
        let offset = OffsetSpec::read(input)?;
        *input = &[];
        Ok(Self(offset))
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
}

impl<'a> Field<'a> for OffsetSpec {
    const BYTES_MIN: usize = 2;

    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
        match u16::read(input)? {
            0 => Ok(Self::None),
            1 => Ok(Self::First),
            2 => Ok(Self::Last),
            3 => Ok(Self::Next),
            4 => u64::read(input).map(Self::Offset),
            5 => i64::read(input).map(Self::Timestamp),
            other => Err(FieldError::UnknownOffsetType(other)),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Self::None => 0_u16.put(out),
            Self::First => 1_u16.put(out),
            Self::Last => 2_u16.put(out),
            Self::Next => 3_u16.put(out),
            Self::Offset(offset) => {
                4_u16.put(out);
                offset.put(out);
            }
            Self::Timestamp(timestamp_ms) => {
                5_u16.put(out);
                timestamp_ms.put(out);
            }
        }
    }
}
