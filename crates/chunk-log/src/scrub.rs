//! A look at everything: whether each chunk is whole, and each index right.

use segments::File;

use crate::damage::Damage;
use crate::error::Result;
use crate::index::{IndexRecord, record_at};
use crate::lookup::Lookup;
use crate::scan::Scan;
use crate::segment::{FileName, SEGMENT_HEADER_BYTES};
use crate::shared::{LogEnd, LogView};

/// The most damaged places that a scrub reports one by one.
pub const DAMAGE_MAX: usize = 1_000;
/// Bytes that one step of a scrub reads.
pub const SCRUB_STEP_BYTES: u64 = 16 << 20;
/// Places at which a step's bytes are looked for in memory: bytes found there stay.
const COLD_PROBES: u64 = 16;

const _: () = assert!(SCRUB_STEP_BYTES.is_multiple_of(COLD_PROBES));

/// The findings of a scrub by now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Chunks that were looked at.
    pub n_chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many places are damaged.
    pub n_damaged: u64,
    /// The first damaged places, [`DAMAGE_MAX`] at most.
    pub damage: Vec<Damage>,
}

/// A scrub of what is committed when it begins, in steps of 16 MiB, so that whoever does it can wait in
/// between.
#[derive(Debug)]
pub struct Scrub {
    view: LogView,
    end: LogEnd,
    found: Scrubbed,
    /// The next chunk: segment, number in it, position.
    segment: u64,
    n: u64,
    position: u64,
    /// Whether the position of the next chunk is not known: the one before has no header.
    is_lost: bool,
}

/// Messages that are damaged: the offset of the first, if it is known, and how many.
#[derive(Clone, Copy)]
struct ChunkMessages {
    offset: Option<u64>,
    n: u64,
}

impl ChunkMessages {
    const NONE: Self = Self { offset: None, n: 0 };
}

impl LogView {
    /// A scrub, from the first chunk on.
    #[must_use]
    pub fn scrub(&self) -> Scrub {
        let (view, end, segment) = (self.clone(), self.committed(), self.first_offset());
        let found = Scrubbed::default();
        Scrub { view, end, found, segment, n: 0, position: SEGMENT_HEADER_BYTES, is_lost: false }
    }
}

impl Scrub {
    /// The findings since the last call.
    pub fn take_damage(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.found.damage)
    }

    /// The findings by now.
    pub const fn found(&self) -> &Scrubbed {
        &self.found
    }

    /// Looks at the next chunks; false at the end.
    ///
    /// # Errors
    /// The disk's.
    pub fn step(&mut self) -> Result<bool> {
        let is_complete = match self.look() {
            // Retention has removed the segment meanwhile.
            Err(error) if error.is_not_found() => true,
            looked => looked?,
        };
        if !is_complete {
            return Ok(true);
        }
        let next = self.view.0.state().after(self.segment);
        let Some(next) = next.filter(|next| *next <= self.end.segment) else { return Ok(false) };
        (self.segment, self.n, self.position) = (next, 0, SEGMENT_HEADER_BYTES);
        Ok(true)
    }

    /// Looks at chunks of the segment; true at its end.
    fn look(&mut self) -> Result<bool> {
        let view = self.view.clone();
        let lookup = Lookup::new(&view, self.end);
        let Some(slot) = view.0.chunks(self.segment) else { return Ok(true) };
        let is_last = self.end.segment == self.segment;
        let to =
            if is_last { self.end.position } else { view.0.sealed_bytes(self.segment, &slot)? };
        let index = lookup.index(self.segment)?;
        let file = slot.file()?;
        let from = self.position;
        let is_cold = !is_last && is_cold(&file, from);
        let mut scan = Scan::new(file.clone(), to);
        while self.n < index.len() && self.position - from.min(self.position) < SCRUB_STEP_BYTES {
            let block = index.block_as_it_is(self.n)?;
            if block.is_empty() {
                break;
            }
            let behind = match index.block_as_it_is(self.n + block.len() as u64)?.first() {
                Some(next) => next.map(|next| next.first_offset),
                None => Some(self.behind_segment()),
            };
            let nexts = block.iter().skip(1).map(|it| it.map(|it| it.first_offset)).chain([behind]);
            for (record, next) in block.iter().zip(nexts.collect::<Vec<_>>()) {
                self.chunk(&mut scan, *record, next)?;
            }
        }
        if is_cold {
            file.handle().forget(from, self.position.saturating_sub(from));
        }
        let is_complete = self.n >= index.len();
        if is_complete && self.position != to && !self.is_lost {
            let what = "the index ends before the segment";
            self.damaged(slot.name(), self.position, ChunkMessages::NONE, what);
        }
        Ok(is_complete)
    }

    /// The offset behind the segment.
    fn behind_segment(&self) -> u64 {
        let next = self.view.0.state().after(self.segment);
        next.filter(|next| *next <= self.end.segment).unwrap_or(self.end.next_offset)
    }

    /// Looks at the chunk of a record; the next one begins with the offset `next`, if that is known.
    fn chunk(
        &mut self,
        scan: &mut Scan,
        record: Option<IndexRecord>,
        next: Option<u64>,
    ) -> Result<()> {
        let n = self.n;
        self.n += 1;
        if record.is_none() {
            let index = FileName::Index(self.segment).path(&self.view.0.dir);
            self.damaged(&index, record_at(n), ChunkMessages::NONE, "an index record is damaged");
        }
        let name = scan.file().name().to_owned();
        let offset = record.map(|record| record.first_offset);
        let n_messages = offset.zip(next).map_or(1, |(offset, next)| next.saturating_sub(offset));
        let of_chunk = ChunkMessages { offset, n: n_messages };
        let at = record.map_or(self.position, |record| record.position);
        if at != self.position && !self.is_lost {
            self.damaged(&name, self.position, ChunkMessages::NONE, "a gap between chunks");
        }
        self.is_lost = false;
        let Some(header) = scan.header(at)? else {
            self.damaged(&name, at, of_chunk, "no chunk begins here");
            // The next record tells where the next one begins.
            (self.position, self.is_lost) = (at, true);
            return Ok(());
        };
        if record.is_some_and(|record| record != IndexRecord::of(&header, at)) {
            self.damaged(&name, at, of_chunk, "the chunk's header differs from the index");
        } else if !scan.is_whole(at, &header)? {
            self.damaged(&name, at, of_chunk, "the chunk's checksum does not match");
        }
        self.found.n_chunks += 1;
        self.found.bytes += header.stored_bytes();
        self.position = at + header.stored_bytes();
        Ok(())
    }

    fn damaged(&mut self, file: &str, at: u64, messages: ChunkMessages, what: &'static str) {
        let ChunkMessages { offset, n: n_messages } = messages;
        self.found.n_damaged += 1;
        if self.found.damage.len() < DAMAGE_MAX {
            self.found.damage.push(Damage { file: file.to_owned(), at, offset, n_messages, what });
        }
    }
}

/// Whether something of the next step is not in memory, as a few looks tell.
fn is_cold(file: &File, from: u64) -> bool {
    let mut places = (0..COLD_PROBES).map(|n| from + n * (SCRUB_STEP_BYTES / COLD_PROBES));
    let would_wait = |at| {
        let read = file.handle().read_at_no_wait(at, &mut [0]);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    places.any(would_wait)
}
