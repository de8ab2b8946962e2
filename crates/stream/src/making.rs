//! The chunks that are being made of what is published while others are written. Knows entries and filter
//! values; never files, publishers or who waits.

use chunk_log::{BloomFilter, Tracking, seal_chunk};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use streamproto::field::Field;
use streamproto::spec::CHUNK_ENTRIES_MAX;
use streamproto::tracking::{Tracked, TrackingForm, TrackingRecord};
use streamproto::{Chunk, ChunkHeader, ChunkType, Entry};

/// A chunk is closed once its entries take so many bytes.
const CHUNK_DATA_BYTES: usize = 1024 * 1024;
/// Memory that is kept for the next chunk.
const KEPT_BYTES: usize = 16 * 1024;

/// Finished chunks, one after the other as they are stored.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    pub(crate) bytes: Vec<u8>,
    pub(crate) headers: Vec<ChunkHeader>,
}

impl Chunks {
    /// Appends a chunk; tracking takes note of what it says. Returns the offset behind it.
    fn push(&mut self, parts: &Parts<'_>, tracking: &mut Tracking) -> u64 {
        let Parts { header, filter, data, trailer } = *parts;
        let chunk = Chunk::new(header, filter, data, trailer).expect("the parts are limited");
        let at = self.bytes.len();
        chunk.encode(&mut self.bytes);
        seal_chunk(self.bytes.get_mut(at..).unwrap_or_default());
        self.headers.push(chunk.header);
        tracking.apply(&chunk).expect("it was just made");
        chunk.header.next_offset()
    }

    /// Bytes of messages.
    pub(crate) fn data_bytes(&self) -> u64 {
        let of_messages = self.headers.iter().filter(|it| it.chunk_type == ChunkType::USER);
        of_messages.map(|header| u64::from(header.data_bytes)).sum()
    }

    /// The last chunk of messages.
    pub(crate) fn last_chunk_id(&self) -> Option<u64> {
        let mut from_the_end = self.headers.iter().rev();
        from_the_end.find(|it| it.chunk_type == ChunkType::USER).map(|header| header.chunk_id)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.headers.clear();
        self.headers.shrink_to(KEPT_BYTES / size_of::<ChunkHeader>());
    }
}

/// The parts of a chunk.
struct Parts<'c> {
    header: ChunkHeader,
    filter: &'c [u8],
    data: &'c [u8],
    trailer: &'c [u8],
}

/// A chunk without its place in the stream.
#[derive(Debug, Default)]
struct Unplaced {
    data: Vec<u8>,
    n_entries: u16,
    n_records: u32,
    /// None while no message has a filter value.
    filter: Option<BloomFilter>,
    /// Whether some message has no filter value.
    any_unfiltered: bool,
    /// The highest publishing id of each named publisher that has something in the chunk.
    sequences: Vec<(Arc<[u8]>, u64)>,
}

/// The place of a publisher among those of the chunk that is being made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PublisherPlace {
    chunk: u64,
    index: usize,
}

/// Chunks that are being made.
#[derive(Debug, Default)]
pub(crate) struct Making {
    closed: VecDeque<Unplaced>,
    open: Unplaced,
    /// Chunks closed so far: the open chunk has the next number, from 1.
    n_closed: u64,
    /// Stored offsets of consumers, to be written.
    offsets: BTreeMap<Arc<[u8]>, u64>,
    added_bytes: u64,
    /// The size of a filter in bytes.
    filter_bytes: u8,
    /// Written chunks, of which the memory is used again.
    spare: Chunks,
}

impl Making {
    /// No chunks, with filters of so many bytes.
    pub(crate) fn new(filter_bytes: u8) -> Self {
        Self { filter_bytes, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.open.n_entries == 0 && self.offsets.is_empty()
    }

    /// Bytes of entries that were added since this was asked before.
    pub(crate) const fn take_added_bytes(&mut self) -> u64 {
        std::mem::replace(&mut self.added_bytes, 0)
    }

    /// Adds an entry of so many messages as it came.
    #[inline]
    pub(crate) fn add(&mut self, entry: &[u8], n_records: u32, filter_value: Option<&[u8]>) {
        self.make_room();
        self.open.data.extend_from_slice(entry);
        self.added_bytes += entry.len() as u64;
        self.count(n_records, filter_value);
    }

    /// Adds a message that `encode` appends.
    #[inline]
    pub(crate) fn add_message(
        &mut self,
        filter_value: Option<&[u8]>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        self.make_room();
        let data = &mut self.open.data;
        let at = data.len();
        data.extend_from_slice(&[0; 4]);
        encode(data);
        self.added_bytes += (data.len() - at) as u64;
        let len = u32::try_from(data.len() - at - 4).expect("a message is limited");
        if let Some(length) = data.get_mut(at..at + 4) {
            length.copy_from_slice(&len.to_be_bytes());
        }
        self.count(1, filter_value);
    }

    /// Notes the last publishing id of the publisher whose entry was just added.
    pub(crate) fn note_sequence(
        &mut self,
        place: &mut PublisherPlace,
        reference: &Arc<[u8]>,
        publishing_id: u64,
    ) {
        let chunk = self.n_closed + 1;
        let sequences = &mut self.open.sequences;
        if place.chunk == chunk
            && let Some((_, last)) = sequences.get_mut(place.index)
        {
            *last = publishing_id;
            return;
        }
        *place = PublisherPlace { chunk, index: sequences.len() };
        sequences.push((Arc::clone(reference), publishing_id));
    }

    /// Notes the offset that a consumer has stored.
    pub(crate) fn note_offset(&mut self, reference: Arc<[u8]>, offset: u64) {
        self.offsets.insert(reference, offset);
    }

    #[inline]
    fn make_room(&mut self) {
        let open = &self.open;
        if open.data.len() >= CHUNK_DATA_BYTES || usize::from(open.n_entries) == CHUNK_ENTRIES_MAX {
            self.close();
        }
    }

    fn close(&mut self) {
        self.closed.push_back(std::mem::take(&mut self.open));
        self.n_closed += 1;
    }

    #[inline]
    fn count(&mut self, n_records: u32, filter_value: Option<&[u8]>) {
        let open = &mut self.open;
        open.n_entries += 1;
        open.n_records += n_records;
        match filter_value {
            None => open.any_unfiltered = true,
            Some(value) => {
                let filter_bytes = usize::from(self.filter_bytes);
                let filter = open.filter.get_or_insert_with(|| BloomFilter::new(filter_bytes));
                filter.insert(Some(value));
            }
        }
    }

    /// The offset that is to be written for a consumer of that name.
    pub(crate) fn offset(&self, reference: &[u8]) -> Option<u64> {
        self.offsets.get(reference).copied()
    }

    /// Takes everything as chunks, behind a snapshot of what is tracked if there is to be one.
    pub(crate) fn place(
        &mut self,
        header: ChunkHeader,
        snapshot: Option<&[u8]>,
        tracking: &mut Tracking,
    ) -> Chunks {
        if self.open.n_entries > 0 {
            self.close();
        }
        let mut place = Placing { header, tracking, chunks: std::mem::take(&mut self.spare) };
        if let Some(records) = snapshot {
            place.tracking_chunk(ChunkType::TRACKING_SNAPSHOT, records);
        }
        while let Some(chunk) = self.closed.pop_front() {
            let offsets = std::mem::take(&mut self.offsets);
            let data = place.user_chunk(chunk, &offsets);
            if self.open.data.capacity() == 0 {
                self.open.data = data;
            }
        }
        if !self.offsets.is_empty() {
            let offsets = std::mem::take(&mut self.offsets);
            let records = place.records(offset_records(&offsets));
            place.tracking_chunk(ChunkType::TRACKING_DELTA, &records);
        }
        place.chunks
    }

    /// Takes written chunks back: their memory is used again.
    pub(crate) fn give_spare(&mut self, mut chunks: Chunks) {
        chunks.clear();
        self.spare = chunks;
    }
}

/// Chunks on their way to their places.
struct Placing<'p> {
    /// The header of the next chunk: its offset, epoch and time.
    header: ChunkHeader,
    tracking: &'p mut Tracking,
    chunks: Chunks,
}

impl Placing<'_> {
    /// Returns the empty buffer of its entries.
    fn user_chunk(&mut self, chunk: Unplaced, offsets: &BTreeMap<Arc<[u8]>, u64>) -> Vec<u8> {
        let Unplaced { mut data, n_entries, n_records, mut filter, any_unfiltered, sequences } =
            chunk;
        let chunk_id = self.header.chunk_id;
        let sequences = sequences.iter().map(|(reference, publishing_id)| {
            let tracked = Tracked::Sequence { chunk_id, publishing_id: *publishing_id };
            TrackingRecord { reference, tracked }
        });
        let trailer = self.records(sequences.chain(offset_records(offsets)));
        if let Some(filter) = filter.as_mut().filter(|_| any_unfiltered) {
            filter.insert(None);
        }
        let header =
            ChunkHeader { chunk_type: ChunkType::USER, n_entries, n_records, ..self.header };
        let filter = filter.as_ref().map(BloomFilter::bytes).unwrap_or_default();
        self.push(&Parts { header, filter, data: &data, trailer: &trailer });
        data.clear();
        data.shrink_to(KEPT_BYTES);
        data
    }

    /// A chunk of tracking records alone.
    fn tracking_chunk(&mut self, chunk_type: ChunkType, records: &[u8]) {
        let mut data = Vec::new();
        Entry::Message(records).put(&mut data);
        let header = ChunkHeader { chunk_type, n_entries: 1, n_records: 1, ..self.header };
        self.push(&Parts { header, filter: &[], data: &data, trailer: &[] });
    }

    fn push(&mut self, parts: &Parts<'_>) {
        self.header.chunk_id = self.chunks.push(parts, self.tracking);
    }

    fn records<'r>(&self, records: impl Iterator<Item = TrackingRecord<'r>>) -> Vec<u8> {
        let form = TrackingForm::Delta { chunk_id: self.header.chunk_id };
        let mut bytes = Vec::new();
        records.for_each(|record| record.encode(form, &mut bytes));
        bytes
    }
}

/// The records of offsets by consumers' names.
fn offset_records(offsets: &BTreeMap<Arc<[u8]>, u64>) -> impl Iterator<Item = TrackingRecord<'_>> {
    offsets
        .iter()
        .map(|(reference, offset)| TrackingRecord { reference, tracked: Tracked::Offset(*offset) })
}
