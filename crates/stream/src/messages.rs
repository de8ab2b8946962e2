//! The messages of chunks one after the other, as consumers that take messages read them: where they are in
//! a chunk, and in the sub-batch in it. Never credit, outboxes or files.

use bytes::Bytes;
use std::ops::Range;
use streamproto::{Compression, Entries, Entry, SubBatch};

/// Bytes of the length in front of a message.
const LENGTH_BYTES: usize = 4;
/// Bytes of the header in front of a sub-batch.
const SUB_BATCH_HEADER_BYTES: usize = 11;

/// Why messages of a chunk cannot be read.
#[derive(Debug)]
pub(crate) struct Damaged(pub(crate) String);

impl<E: std::error::Error> From<E> for Damaged {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Entries that are being read.
#[derive(Debug, Default)]
struct Run {
    bytes: Bytes,
    /// How many of the bytes are read.
    at: usize,
    n_left: u16,
    next_offset: u64,
}

/// The next thing in a run.
enum Next {
    /// A message: its offset, and its place in the run's bytes.
    Message(u64, Range<usize>),
    /// A sub-batch, unpacked.
    SubBatch(Run),
    End,
}

impl Run {
    #[inline]
    fn next(&mut self, unpacked_bytes_max: u32) -> Result<Next, Damaged> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let mut entries = Entries::new(rest, self.n_left, self.next_offset);
        let Some(entry) = entries.next() else { return Ok(Next::End) };
        let (offset, entry) = entry?;
        self.next_offset = entries.next_offset();
        self.n_left -= 1;
        match entry {
            Entry::Message(message) => {
                let at = self.at + LENGTH_BYTES;
                self.at = at + message.len();
                Ok(Next::Message(offset, at..self.at))
            }
            Entry::SubBatch(batch) => {
                let bytes = unpack(&batch, unpacked_bytes_max)?;
                self.at += SUB_BATCH_HEADER_BYTES + batch.bytes.len();
                let n_left = batch.n_records;
                Ok(Next::SubBatch(Self { bytes, at: 0, n_left, next_offset: offset }))
            }
        }
    }
}

fn unpack(batch: &SubBatch<'_>, bytes_max: u32) -> Result<Bytes, Damaged> {
    let mut unpacked = Vec::new();
    let bytes = sub_batch::unpack(batch, bytes_max, &mut unpacked)?;
    Ok(if batch.compression == Compression::NONE {
        Bytes::copy_from_slice(bytes)
    } else {
        unpacked.into()
    })
}

/// The messages of one chunk.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    chunk: Run,
    sub_batch: Run,
    /// The place of the message that was gone on to last, and whether that is in the sub-batch.
    message: (Range<usize>, bool),
    /// The offset of the first message to give: earlier messages are passed over.
    first_offset: u64,
    /// The largest sub-batch that is unpacked, in bytes.
    unpacked_bytes_max: u32,
}

impl Messages {
    /// No messages yet, and never those before this offset.
    pub(crate) fn from(first_offset: u64, unpacked_bytes_max: u32) -> Self {
        Self { first_offset, unpacked_bytes_max, ..Self::default() }
    }

    /// Goes on with the entries of another chunk.
    pub(crate) fn begin(&mut self, chunk_id: u64, n_entries: u16, data: Bytes) {
        self.chunk = Run { bytes: data, at: 0, n_left: n_entries, next_offset: chunk_id };
        self.sub_batch = Run::default();
    }

    /// Number of entries of the chunk that are not read.
    pub(crate) fn n_left(&self) -> u64 {
        u64::from(self.chunk.n_left) + u64::from(self.sub_batch.n_left)
    }

    /// Goes on to the next message, whose offset is returned; [`Messages::message`] is the message.
    ///
    /// # Errors
    /// The chunk is damaged, or a sub-batch cannot be unpacked.
    pub(crate) fn advance(&mut self) -> Result<Option<u64>, Damaged> {
        loop {
            let in_sub_batch = self.sub_batch.n_left > 0;
            let run = if in_sub_batch { &mut self.sub_batch } else { &mut self.chunk };
            match run.next(self.unpacked_bytes_max)? {
                Next::Message(offset, _) if offset < self.first_offset => {}
                Next::Message(offset, place) => {
                    self.message = (place, in_sub_batch);
                    return Ok(Some(offset));
                }
                Next::SubBatch(run) if !in_sub_batch => self.sub_batch = run,
                Next::SubBatch(_) => {
                    return Err(Damaged("the chunk has a sub-batch inside a sub-batch".to_owned()));
                }
                Next::End => {
                    // Its memory may be the whole read-ahead of the stream.
                    *self = Self::from(self.first_offset, self.unpacked_bytes_max);
                    return Ok(None);
                }
            }
        }
    }

    /// The message that was gone on to last.
    #[inline]
    pub(crate) fn message(&self) -> &[u8] {
        let (place, in_sub_batch) = &self.message;
        let run = if *in_sub_batch { &self.sub_batch } else { &self.chunk };
        run.bytes.get(place.clone()).unwrap_or_default()
    }
}
