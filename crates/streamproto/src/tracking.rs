//! Tracking records: what publishers were last confirmed and consumers stored, in trailers and in
//! chunks of their own (Osiris' "Tracking format").
//!
//! ```text
//! type:u8 length:u8 reference value:64    type 0 sequence, 1 offset, 2 timestamp in ms
//! ```
//! A snapshot has the id of the chunk in front of the value of a sequence; elsewhere it is that of
//! the chunk the record is in.

use crate::error::FieldError;
use crate::field::{Field, take};
use crate::spec::REFERENCE_BYTES_MAX;

/// The place where records stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackingForm {
    /// The trailer of a chunk, or the entry of a chunk of type
    /// [`TRACKING_DELTA`](crate::ChunkType::TRACKING_DELTA), of this id.
    Delta {
        /// The id of that chunk.
        chunk_id: u64,
    },
    /// An entry of a chunk of type [`TRACKING_SNAPSHOT`](crate::ChunkType::TRACKING_SNAPSHOT).
    Snapshot,
}

/// The value of a record, and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// The last publishing id of a publisher.
    Sequence {
        /// The chunk that the message is in.
        chunk_id: u64,
        /// The publishing id.
        publishing_id: u64,
    },
    /// The offset that a consumer stored.
    Offset(u64),
    /// A time that was stored: milliseconds since 1970.
    Timestamp(i64),
}

/// A tracking record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackingRecord<'a> {
    /// The name of the publisher or consumer, at most [`REFERENCE_BYTES_MAX`].
    pub reference: &'a [u8],
    /// The value that is tracked for it.
    pub tracked: Tracked,
}

impl<'a> TrackingRecord<'a> {
    /// Appends the record in `form`; the reference is cut at [`REFERENCE_BYTES_MAX`].
    pub fn encode(&self, form: TrackingForm, out: &mut Vec<u8>) {
        let reference = self.reference.get(..REFERENCE_BYTES_MAX).unwrap_or(self.reference);
        out.push(match self.tracked {
            Tracked::Sequence { .. } => 0,
            Tracked::Offset(_) => 1,
            Tracked::Timestamp(_) => 2,
        });
        out.push(u8::try_from(reference.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(reference);
        match self.tracked {
            Tracked::Sequence { chunk_id, publishing_id } => {
                if form == TrackingForm::Snapshot {
                    chunk_id.put(out);
                }
                publishing_id.put(out);
            }
            Tracked::Offset(offset) => offset.put(out),
            Tracked::Timestamp(timestamp_ms) => timestamp_ms.put(out),
        }
    }

    fn read(input: &mut &'a [u8], form: TrackingForm) -> Result<Self, FieldError> {
        let kind = u8::read(input)?;
        let len = u8::read(input)?;
        let reference = take(input, usize::from(len))?;
        let tracked = match kind {
            0 => {
                let chunk_id = match form {
                    TrackingForm::Delta { chunk_id } => chunk_id,
                    TrackingForm::Snapshot => u64::read(input)?,
                };
                Tracked::Sequence { chunk_id, publishing_id: u64::read(input)? }
            }
            1 => Tracked::Offset(u64::read(input)?),
            2 => Tracked::Timestamp(i64::read(input)?),
            other => return Err(FieldError::UnknownTrackingType(other)),
        };
        Ok(Self { reference, tracked })
    }
}

/// The records one after the other. Ends after the first error.
#[derive(Clone, Debug)]
pub struct TrackingRecords<'a> {
    rest: &'a [u8],
    form: TrackingForm,
}

impl<'a> TrackingRecords<'a> {
    /// The records that are all of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8], form: TrackingForm) -> Self {
        Self { rest: bytes, form }
    }
}

impl<'a> Iterator for TrackingRecords<'a> {
    type Item = Result<TrackingRecord<'a>, FieldError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = TrackingRecord::read(&mut self.rest, self.form);
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}
