//! Tracking: what publishers sent last and consumers stored, a pure function of a stream's chunks.
//!
//! A *delta* is the trailer of a chunk, or a chunk of its own; a *snapshot* is a chunk with everything
//! that holds there. Whoever makes chunks applies them to its `Tracking` as any reader does, so that
//! what a start reads from the last snapshot on is what was there before.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use streamproto::chunk::Chunk;
use streamproto::tracking::{Tracked, TrackingForm, TrackingRecord, TrackingRecords};
use streamproto::{ChunkError, ChunkType, Entry, FieldError};

/// The most publishers in a snapshot, those that published last (RabbitMQ's).
pub const SNAPSHOT_SEQUENCES_MAX: usize = 255;
/// The most publishers, and the most references of consumers, between two snapshots. With one more, a quarter
/// goes: those that published longest ago, or stored the lowest offset or time.
pub const REFERENCES_MAX: usize = 16_384;

/// The last message of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The chunk it is in.
    pub chunk_id: u64,
    /// Its publishing id.
    pub publishing_id: u64,
}

type ByReference<T> = BTreeMap<Box<[u8]>, T>;

/// Everything that is tracked of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    sequences: ByReference<Sequence>,
    offsets: ByReference<u64>,
    timestamps: ByReference<i64>,
}

impl Tracking {
    /// The last message of the publisher with this name.
    #[must_use]
    pub fn sequence(&self, reference: &[u8]) -> Option<Sequence> {
        self.sequences.get(reference).copied()
    }

    /// The offset that was stored by this name.
    #[must_use]
    pub fn offset(&self, reference: &[u8]) -> Option<u64> {
        self.offsets.get(reference).copied()
    }

    /// The time that was stored by this name: milliseconds since 1970.
    #[must_use]
    pub fn timestamp(&self, reference: &[u8]) -> Option<i64> {
        self.timestamps.get(reference).copied()
    }

    /// All publishers, by name.
    pub fn sequences(&self) -> impl Iterator<Item = (&[u8], Sequence)> {
        self.sequences.iter().map(|(reference, sequence)| (reference.as_ref(), *sequence))
    }

    /// All stored offsets, by name.
    pub fn offsets(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.offsets.iter().map(|(reference, offset)| (reference.as_ref(), *offset))
    }

    /// All stored times, by name: milliseconds since 1970.
    pub fn timestamps(&self) -> impl Iterator<Item = (&[u8], i64)> {
        self.timestamps.iter().map(|(reference, at_ms)| (reference.as_ref(), *at_ms))
    }

    /// Whether nothing is tracked.
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty() && self.offsets.is_empty() && self.timestamps.is_empty()
    }

    /// Takes what a chunk says: nothing if it is of a type that says nothing.
    ///
    /// # Errors
    /// A record or an entry that is malformed; what came before it has been taken.
    pub fn apply(&mut self, chunk: &Chunk<'_>) -> Result<(), ChunkError> {
        let delta = TrackingForm::Delta { chunk_id: chunk.header.chunk_id };
        match chunk.header.chunk_type {
            ChunkType::TRACKING_SNAPSHOT => {
                *self = Self::default();
                self.apply_entries(chunk, TrackingForm::Snapshot)
            }
            ChunkType::TRACKING_DELTA => self.apply_entries(chunk, delta),
            ChunkType::USER => Ok(self.apply_records(chunk.trailer, delta)?),
            _ => Ok(()),
        }
    }

    /// The records of a snapshot of what holds at a place where the stream begins with this offset and time;
    /// none if nothing does. Nothing changes before a chunk with it is applied.
    #[must_use]
    pub fn snapshot(&self, first_offset: u64, first_timestamp_ms: i64) -> Option<Vec<u8>> {
        let mut sequences: Vec<_> = self.sequences.iter().collect();
        sequences.sort_by_key(|(_, sequence)| Reverse(sequence.chunk_id));
        sequences.truncate(SNAPSHOT_SEQUENCES_MAX);
        let sequences = sequences.into_iter().map(|(reference, sequence)| {
            let Sequence { chunk_id, publishing_id } = *sequence;
            (reference, Tracked::Sequence { chunk_id, publishing_id })
        });
        let offsets = self.offsets.iter().filter(|(_, offset)| **offset >= first_offset);
        let offsets = offsets.map(|(reference, offset)| (reference, Tracked::Offset(*offset)));
        let timestamps = self.timestamps.iter().filter(|(_, at_ms)| **at_ms >= first_timestamp_ms);
        let timestamps =
            timestamps.map(|(reference, at_ms)| (reference, Tracked::Timestamp(*at_ms)));
        let mut records = Vec::new();
        for (reference, tracked) in sequences.chain(offsets).chain(timestamps) {
            let record = TrackingRecord { reference, tracked };
            record.encode(TrackingForm::Snapshot, &mut records);
        }
        (!records.is_empty()).then_some(records)
    }

    fn apply_entries(&mut self, chunk: &Chunk<'_>, form: TrackingForm) -> Result<(), ChunkError> {
        for entry in chunk.entries() {
            match entry?.1 {
                Entry::Message(records) => self.apply_records(records, form)?,
                Entry::SubBatch(_) => {}
            }
        }
        Ok(())
    }

    fn apply_records(&mut self, records: &[u8], form: TrackingForm) -> Result<(), FieldError> {
        for record in TrackingRecords::new(records, form) {
            let TrackingRecord { reference, tracked } = record?;
            match tracked {
                Tracked::Sequence { chunk_id, publishing_id } => {
                    let sequence = Sequence { chunk_id, publishing_id };
                    put(&mut self.sequences, reference, sequence, |it| it.chunk_id);
                }
                Tracked::Offset(offset) => put(&mut self.offsets, reference, offset, |it| *it),
                Tracked::Timestamp(at_ms) => put(&mut self.timestamps, reference, at_ms, |it| *it),
            }
        }
        Ok(())
    }
}

/// Adds a value, and removes a quarter of all values if that is one too many.
fn put<T, R: Ord + Copy>(
    values: &mut ByReference<T>,
    reference: &[u8],
    value: T,
    rank: impl Fn(&T) -> R,
) {
    if let Some(known) = values.get_mut(reference) {
        *known = value;
        return;
    }
    values.insert(reference.into(), value);
    if values.len() > REFERENCES_MAX {
        drop_lowest(values, REFERENCES_MAX / 4, rank);
    }
}

/// Removes the `n` values of the lowest rank; of equal ones, those whose names come first.
fn drop_lowest<T, R: Ord + Copy>(values: &mut ByReference<T>, n: usize, rank: impl Fn(&T) -> R) {
    let mut ranks: Vec<R> = values.values().map(&rank).collect();
    let (lower, limit, _) = ranks.select_nth_unstable(n);
    let limit = *limit;
    let mut n_equal = n - lower.iter().filter(|lower| **lower < limit).count();
    values.retain(|_, value| match rank(value).cmp(&limit) {
        Ordering::Less => false,
        Ordering::Equal if n_equal > 0 => {
            n_equal -= 1;
            false
        }
        Ordering::Equal | Ordering::Greater => true,
    });
}
