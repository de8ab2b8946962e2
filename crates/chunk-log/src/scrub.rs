//! A look at everything: whether each chunk is whole, and each index right.

use crate::error::Result;
use crate::index::{IndexRecord, record_at};
use crate::lookup::Lookup;
use crate::scan::Scan;
use crate::segment::{FileName, SEGMENT_HEADER_BYTES};
use crate::shared::{LogEnd, LogView};

/// The most damage that is told one by one.
pub const DAMAGE_MAX: usize = 1_000;
/// So much is looked at in one step.
const STEP_BYTES: u64 = 16 << 20;

/// A place where something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, relative to the disk's root.
    pub file: String,
    /// The place in it, in bytes.
    pub at: u64,
    /// The offset of the chunk's first message, if the index tells.
    pub offset: Option<u64>,
    /// Messages in it, as far as is known.
    pub n_messages: u64,
    /// The defect.
    pub what: &'static str,
}

/// The findings of a scrub by now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Chunks that were looked at.
    pub n_chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many places are damaged ...
    pub n_damaged: u64,
    /// ... and the first of them, [`DAMAGE_MAX`] at most.
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
}

impl LogView {
    /// A scrub, from the first chunk on.
    #[must_use]
    pub fn scrub(&self) -> Scrub {
        let (view, end, segment) = (self.clone(), self.committed(), self.first_offset());
        let found = Scrubbed::default();
        Scrub { view, end, found, segment, n: 0, position: SEGMENT_HEADER_BYTES }
    }
}

impl Scrub {
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
            // Retention has removed it meanwhile.
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
        let mut scan = Scan::new(slot.file()?, slot.name(), to);
        let from = self.position;
        while self.n < index.len() && self.position - from.min(self.position) < STEP_BYTES {
            let block = index.block_as_it_is(self.n)?;
            if block.is_empty() {
                break;
            }
            for record in block {
                self.chunk(&mut scan, record)?;
            }
        }
        let is_complete = self.n >= index.len();
        if is_complete && self.position != to {
            self.damaged(slot.name(), self.position, None, "the index ends before the segment");
        }
        Ok(is_complete)
    }

    fn chunk(&mut self, scan: &mut Scan<'_>, record: Option<IndexRecord>) -> Result<()> {
        let n = self.n;
        self.n += 1;
        if record.is_none() {
            let index = FileName::Index(self.segment).path(&self.view.0.dir);
            self.damaged(&index, record_at(n), None, "a record is damaged");
        }
        let name = scan.name().to_owned();
        let offset = record.map(|record| record.first_offset);
        let at = record.map_or(self.position, |record| record.position);
        if at != self.position {
            self.damaged(&name, self.position, None, "chunks do not lie side by side");
        }
        let Some(header) = scan.header(at)? else {
            self.damaged(&name, at, offset, "no chunk begins here");
            // The next record tells where the next one begins.
            self.position = at;
            return Ok(());
        };
        if record.is_some_and(|record| record != IndexRecord::of(&header, at)) {
            self.damaged(&name, at, offset, "its header is not what the index says");
        } else if !scan.is_whole(at, &header)? {
            self.damaged(&name, at, offset, "its checksum is wrong");
        }
        self.found.n_chunks += 1;
        self.found.bytes += header.stored_bytes();
        self.position = at + header.stored_bytes();
        Ok(())
    }

    fn damaged(&mut self, file: &str, at: u64, offset: Option<u64>, what: &'static str) {
        self.found.n_damaged += 1;
        if self.found.damage.len() < DAMAGE_MAX {
            self.found.damage.push(Damage {
                file: file.to_owned(),
                at,
                offset,
                n_messages: 0,
                what,
            });
        }
    }
}
