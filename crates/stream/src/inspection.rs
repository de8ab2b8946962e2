//! A stream as operators see and steer it. Never how it is written or read.

use crate::listed::{PublisherView, SubscriptionView};
use crate::services::StreamDurability;
use crate::stream::Stream;
use chunk_log::{ChunkLogError, ReadCounts, Scrub};
use queue_type::{Wakes, wake_all};

/// A stream as operators see and steer it.
#[derive(Clone, Copy, Debug)]
pub struct Inspection<'s>(&'s Stream);

/// Figures of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFigures {
    /// The epoch of what is written now.
    pub epoch: u64,
    /// The offset of the first message; -1, like the others, while there is none.
    pub first_offset: i64,
    /// The offset of the last message that is written.
    pub written_offset: i64,
    /// The offset of the last message that is committed.
    pub committed_offset: i64,
    /// Consumers and subscriptions.
    pub n_readers: usize,
    /// Segments.
    pub n_segments: usize,
    /// Costs of its readers since the start.
    pub read: ReadCounts,
}

/// Something that is tracked by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackedValue {
    /// The last message of a publisher.
    Sequence {
        /// The chunk it is in.
        chunk_id: u64,
        /// Its publishing id.
        publishing_id: u64,
    },
    /// An offset that a consumer has stored.
    Offset(u64),
    /// A time that a consumer has stored, in milliseconds since 1970.
    TimestampMs(i64),
}

impl<'s> Inspection<'s> {
    /// The inspection of a stream.
    #[must_use]
    pub const fn of(stream: &'s Stream) -> Self {
        Self(stream)
    }

    /// Begins another epoch, and tells clients of the stream protocol that the stream is gone, so that they
    /// look for it again. COMPAT: consumers and publishers of AMQP 0-9-1 notice nothing.
    pub fn restart(&self) {
        let mut wakes = Wakes::new();
        stdx::lock(&self.0.writer).begin_epoch();
        self.0.readers.send_away(&self.0.def().name, &mut wakes);
        wake_all(&mut wakes);
    }

    /// Its publishers, by connection and number.
    #[must_use]
    pub fn publishers(&self) -> Vec<PublisherView> {
        self.0.readers.publishers()
    }

    /// Its subscriptions.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<SubscriptionView> {
        self.0.readers.subscriptions()
    }

    /// Its figures.
    #[must_use]
    pub fn figures(&self) -> StreamFigures {
        let view = &self.0.view;
        let (first, next) = (view.first_offset(), view.next_offset());
        StreamFigures {
            epoch: stdx::lock(&self.0.writer).epoch(),
            first_offset: if next == 0 { -1 } else { first.cast_signed() },
            written_offset: last(view.written().next_offset),
            committed_offset: last(next),
            n_readers: self.0.readers.len(),
            n_segments: view.n_segments(),
            read: view.read_counts(),
        }
    }

    /// The id of the first chunk, of messages or not; -1 while no message is committed.
    #[must_use]
    pub fn first_chunk_id(&self) -> i64 {
        let view = &self.0.view;
        if view.next_offset() == 0 { -1 } else { view.first_offset().cast_signed() }
    }

    /// The id of the last committed chunk; -1 without any. Looked up on the disk once after a start.
    #[must_use]
    pub fn committed_chunk_id(&self) -> i64 {
        if self.0.view.next_offset() == 0 { -1 } else { self.0.last_chunk_id().cast_signed() }
    }

    /// Has a consumer of that name begin with offset 0 the next time; false if it has stored none.
    #[must_use]
    pub fn reset_offset(&self, reference: &[u8]) -> bool {
        let tracked = self.0.tracked();
        let is_stored = tracked.stored_offset(reference).is_some();
        if is_stored {
            let mut wakes = Wakes::new();
            tracked.store_offset(reference, 0, &mut wakes);
            wake_all(&mut wakes);
        }
        is_stored
    }

    /// Bytes of its segments.
    ///
    /// # Errors
    /// The disk's.
    pub fn stored_bytes(&self) -> Result<u64, ChunkLogError> {
        self.0.view.stored_bytes()
    }

    /// The event that its publishes are confirmed upon.
    #[must_use]
    pub fn durability(&self) -> StreamDurability {
        self.0.services.options.durability
    }

    /// Everything that is tracked, offsets first, each by name.
    #[must_use]
    pub fn tracked(&self) -> Vec<(Box<[u8]>, TrackedValue)> {
        let tracking = stdx::lock(&self.0.writer).tracking.clone();
        let offsets = tracking.offsets().map(|(name, it)| (name.into(), TrackedValue::Offset(it)));
        let times =
            tracking.timestamps().map(|(name, it)| (name.into(), TrackedValue::TimestampMs(it)));
        let sequences = tracking.sequences().map(|(name, it)| {
            let (chunk_id, publishing_id) = (it.chunk_id, it.publishing_id);
            (name.into(), TrackedValue::Sequence { chunk_id, publishing_id })
        });
        offsets.chain(times).chain(sequences).collect()
    }

    /// A scrub of everything that is committed, in steps that read from the disk.
    #[must_use]
    pub fn scrub(&self) -> Scrub {
        self.0.view.scrub()
    }
}

/// The offset before the next one.
const fn last(next_offset: u64) -> i64 {
    next_offset.cast_signed().saturating_sub(1)
}
