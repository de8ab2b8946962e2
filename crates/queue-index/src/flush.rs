//! Scattering full journals to the segments their positions belong to.

use std::collections::BTreeMap;
use std::ops::Range;

use segments::File;
use stdx::lock;

use super::bits::Bits;
use super::block::{
    BlockRef, Builder, Damage, FILE_HEADER_BYTES, Operation, OperationBlock, Publication, Tag, What,
};
use super::files::{Files, read_block};
use super::state::{V1State, part_in, place_of};
use super::sync::count_files;
use super::{Promised, SEGMENT_POSITIONS, V1Queue};
use crate::Result;
use store::blob::BlobStore;

/// The outcome of a flush.
#[derive(Debug, Default)]
pub struct Flushed {
    /// Blocks of a journal that can no longer be read: what was published in them is lost.
    pub damage: Vec<Damage>,
}

/// A journal as the flush reads it.
struct FlushSource {
    number: u64,
    blocks: Vec<BlockRef>,
    handle: Option<File>,
    is_on_disk: bool,
    is_recovered: bool,
}

/// A segment at the moment the last of the journals ended.
#[derive(Default)]
struct FlushTarget {
    number: u64,
    live: Bits,
    delivered: Bits,
    /// Published in the journals that are flushed, and not in the file: a recovered journal may be
    /// there already in part.
    published_here: Bits,
    /// Where the next block goes; 0 as long as there is no file.
    end: u64,
    /// The end of the part that was there before, and durable.
    synced: u64,
    file: Option<File>,
    builder: Builder,
    blocks: Vec<BlockRef>,
}

impl V1Queue {
    /// Moves what is in the journal to the segments, removes the segments whose messages are all
    /// acknowledged, and starts another journal. Makes everything noted before durable, as
    /// [`Self::sync`] does. Does nothing if the journal is empty. A failure is for good.
    pub fn flush(&self, bodies: &BlobStore) -> Result<Flushed> {
        let _writing = lock(&self.writing);
        let mut targets = self.write_journal(bodies, V1State::start_flush)?;
        let sources = lock(&self.state).sources();
        if sources.is_empty() {
            return Ok(Flushed::default());
        }
        let mut flushed = Flushed::default();
        let done = (self.files.scatter(&sources, &mut targets, &mut flushed))
            .and_then(|()| self.files.sync_targets(&mut targets))
            .and_then(|()| self.promise_after(&targets))
            .and_then(|()| self.files.remove_flushed(&sources, &targets));
        self.files.poison(done)?;
        lock(&self.state).finish_flush(targets);
        Ok(flushed)
    }

    /// Tells which files are there at least when the flush is over.
    fn promise_after(&self, targets: &BTreeMap<u64, FlushTarget>) -> Result<()> {
        let Some((table, queue)) = &self.options.told else { return Ok(()) };
        let promised = lock(&self.state).promised_after(targets);
        table.tell_durably(*queue, promised)
    }
}

impl Files {
    fn scatter(
        &self,
        sources: &[FlushSource],
        targets: &mut BTreeMap<u64, FlushTarget>,
        flushed: &mut Flushed,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        for source in sources.iter().filter(|source| source.is_on_disk) {
            let tag = Tag::journal(source.number);
            let file = self.opened(tag, source.handle.as_ref())?;
            for block in &source.blocks {
                read_block(&file, block, &mut bytes)?;
                match OperationBlock::parse(&bytes, tag) {
                    Ok(block) => self.scatter_block(&block, source.is_recovered, targets)?,
                    Err(what) => {
                        let error = file.corrupt(block.at, what).into();
                        let (bytes, n_entries) = (block.bytes(), Some(block.n_entries));
                        flushed.damage.push(Damage { error, bytes, n_entries });
                    }
                }
            }
        }
        Ok(())
    }

    fn scatter_block(
        &self,
        block: &OperationBlock<'_>,
        is_recovered: bool,
        targets: &mut BTreeMap<u64, FlushTarget>,
    ) -> Result<()> {
        for (Operation { position, what }, record) in block.operations() {
            match what {
                What::Publish(publication) => {
                    let (number, relative) = place_of(position);
                    let Some(target) = targets.get_mut(&number) else { continue };
                    if !is_recovered {
                        target.published_here.add(relative);
                    }
                    if target.publish(relative, &publication, record) {
                        self.write_full(target, position)?;
                    }
                }
                What::Deliver(n) | What::Ack(n) => {
                    let run = position..position.saturating_add(u64::from(n));
                    let first = run.start / SEGMENT_POSITIONS;
                    let last = run.end.saturating_sub(1) / SEGMENT_POSITIONS;
                    for (_, target) in targets.range_mut(first..=last.max(first)) {
                        target.note_run(&run, what);
                        self.write_full(target, position)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the target's block if there is no room for more in it.
    fn write_full(&self, target: &mut FlushTarget, position: u64) -> Result<()> {
        if target.builder.is_full_for(position) { self.write_block(target) } else { Ok(()) }
    }

    fn write_block(&self, target: &mut FlushTarget) -> Result<()> {
        if target.builder.is_empty() {
            return Ok(());
        }
        let tag = Tag::segment(target.number);
        let file = match &mut target.file {
            Some(file) => file,
            none => none.insert(self.open_segment(tag, &mut target.end)?),
        };
        let mut bytes = Vec::with_capacity(target.builder.bytes());
        target.blocks.push(target.builder.close(tag, target.end, target.synced, &mut bytes));
        file.write(target.end, &bytes)?;
        target.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes what was written to segments durable: segments first, then the journals that say the same,
    /// each step before the next, since an acknowledgement must not be forgotten before what it
    /// acknowledges.
    fn sync_targets(&self, targets: &mut BTreeMap<u64, FlushTarget>) -> Result<()> {
        let mut has_written = false;
        for target in targets.values_mut() {
            self.write_block(target)?;
            if let Some(file) = &target.file {
                file.sync()?;
                has_written = true;
            }
        }
        if has_written { self.sync_dir() } else { Ok(()) }
    }

    /// Removes segments without a live message, then the journals.
    fn remove_flushed(
        &self,
        sources: &[FlushSource],
        targets: &BTreeMap<u64, FlushTarget>,
    ) -> Result<()> {
        let dead = targets.values().filter(|target| target.live.is_empty() && target.end > 0);
        let mut has_removed = false;
        for target in dead {
            self.remove(Tag::segment(target.number))?;
            has_removed = true;
        }
        if has_removed {
            self.sync_dir()?;
        }
        for source in sources.iter().filter(|source| source.is_on_disk) {
            self.remove(Tag::journal(source.number))?;
        }
        self.sync_dir()
    }

    /// Opens a segment to append at `end`, or creates it.
    fn open_segment(&self, tag: Tag, end: &mut u64) -> Result<File> {
        if *end == 0 {
            *end = FILE_HEADER_BYTES;
            return self.create(tag);
        }
        let file = self.opened(tag, None)?;
        if file.size()? > *end {
            // The torn end an interrupted flush has left.
            file.cut(*end)?;
        }
        Ok(file)
    }
}

impl FlushTarget {
    /// Takes a message over if it is still live; false if it is not.
    fn publish(&mut self, relative: u32, publication: &Publication, record: &[u8]) -> bool {
        if !self.live.has(relative) {
            return false;
        }
        let is_delivered = self.delivered.has(relative);
        let position = self.number * SEGMENT_POSITIONS + u64::from(relative);
        let publication = Publication { is_delivered, ..*publication };
        self.builder.publish_record(position, &publication, record);
        true
    }

    /// Notes a run for what is, or may be, in the file.
    fn note_run(&mut self, run: &Range<u64>, what: What) {
        if self.end == 0 || self.live.is_empty() {
            return;
        }
        let is_ack = matches!(what, What::Ack(_));
        let part = part_in(self.number, run);
        let start = self.number * SEGMENT_POSITIONS;
        for relative in part {
            let is_moot = !is_ack && !self.live.has(relative);
            if is_moot || self.published_here.has(relative) {
                continue;
            }
            let position = start + u64::from(relative);
            if is_ack {
                self.builder.ack(position..position + 1);
            } else {
                self.builder.deliver(position..position + 1);
            }
        }
    }
}

impl V1State {
    /// Ends the journal, and takes down how its segments are at this moment.
    fn start_flush(&mut self) -> BTreeMap<u64, FlushTarget> {
        self.rotate();
        let numbers = self.older.iter().flat_map(|journal| &journal.touched);
        let target = |number: &u64| {
            let segment = self.segments.get(number)?;
            let target = FlushTarget {
                number: *number,
                live: segment.live(),
                delivered: segment.delivered.clone(),
                end: segment.end,
                synced: segment.end,
                ..FlushTarget::default()
            };
            Some((*number, target))
        };
        numbers.filter_map(target).collect()
    }

    fn sources(&self) -> Vec<FlushSource> {
        assert!(self.older.is_sorted_by_key(|journal| journal.number), "the oldest comes first");
        let source = |journal: &super::state::JournalFile| FlushSource {
            number: journal.number,
            blocks: journal.blocks.clone(),
            handle: journal.handle.clone(),
            is_on_disk: journal.is_on_disk,
            is_recovered: journal.is_recovered,
        };
        self.older.iter().map(source).collect()
    }

    /// The files that are there at least when a flush is over: the journal that is filled is not on disk yet.
    fn promised_after(&self, targets: &BTreeMap<u64, FlushTarget>) -> Promised {
        let others = self.segments.iter().filter(|(number, _)| !targets.contains_key(number));
        let kept = targets.values().filter(|target| !target.live.is_empty());
        let ends = others.map(|(_, segment)| segment.end).chain(kept.map(|target| target.end));
        let (segments, segment_bytes) = count_files(ends);
        let next = self.journal.number;
        let (journals, names_bodies) = (next..next, self.names_bodies);
        Promised { journals, segments, journal_bytes: 0, segment_bytes, names_bodies }
    }

    fn finish_flush(&mut self, targets: BTreeMap<u64, FlushTarget>) {
        for (number, target) in targets {
            let Some(segment) = self.segments.get_mut(&number) else { continue };
            if target.live.is_empty() {
                segment.blocks.clear();
                segment.end = 0;
            } else {
                assert!(target.end >= segment.end, "a segment grows until it is removed");
                segment.blocks.extend(target.blocks);
                segment.end = target.end;
            }
            if segment.n_live == 0 && segment.end == 0 && !self.journal.touched.contains(&number) {
                self.segments.remove(&number);
            }
        }
        self.older.clear();
        self.generation += 1;
        self.counted.flushes += 1;
    }
}
