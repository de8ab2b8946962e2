//! The start: journals first, since they say what became of the messages in segments, then one
//! segment after the other.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use segments::{Disk, File, FileError, IoContext as _, list_if_there, sync_dir, sync_name};

use super::bits::Bits;
use super::block::{
    Damage, Depth, Operation, Publication, Scanned, SyncedExtent, Tag, TagKind, What,
    bytes_of_blocks, scan,
};
use super::files::{FileNumbers, Files};
use super::state::{JournalFile, PositionSegment, V1State, part_in, place_of};
use super::table::{JOURNALS_FILE, Promised};
use super::{SEGMENT_POSITIONS, V1Options, V1Queue, V1Stats};
use crate::Result;
use store::blob::BlobId;

/// The most files that are named each when one of them was cut off.
const FILES_NAMED_MAX: usize = 8;

/// A message found at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Its place in the queue.
    pub position: u64,
    /// Whether the message was delivered to a consumer before.
    pub is_delivered: bool,
    /// Length of its record without the body in the body store.
    pub record_bytes: u32,
    /// Length of its body, wherever it is.
    pub body_bytes: u32,
    /// Its body's name in the body store, if it is there: one reference.
    pub blob: Option<BlobId>,
}

/// The findings of the start.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Messages found.
    pub live: u64,
    /// The position behind the highest seen.
    pub next_position: u64,
    /// Blocks that had been durable and cannot be read: the messages in it are lost, or come again if it
    /// was about acknowledgements.
    pub damage: Vec<Damage>,
    /// Bytes that cannot be read and were written last: most likely a write that power was lost in.
    pub torn: Vec<Damage>,
}

/// The operations of journals on one segment.
#[derive(Default)]
struct FromJournals {
    published: Vec<(u32, Publication)>,
    delivered: Bits,
    acked: Bits,
}

#[derive(Default)]
struct FoundOperations {
    by_segment: BTreeMap<u64, FromJournals>,
    next_position: u64,
}

impl FoundOperations {
    fn take(&mut self, operation: Operation) {
        let Operation { position, what } = operation;
        match what {
            What::Publish(publication) => {
                let (number, relative) = place_of(position);
                let segment = self.by_segment.entry(number).or_default();
                segment.published.push((relative, publication));
                self.saw(position, 1);
            }
            What::Deliver(n) => self.take_run(position, n, |segment| &mut segment.delivered),
            What::Ack(n) => self.take_run(position, n, |segment| &mut segment.acked),
        }
    }

    fn take_run(&mut self, position: u64, n: u32, into: fn(&mut FromJournals) -> &mut Bits) {
        let run = position..position.saturating_add(u64::from(n));
        let mut number = run.start / SEGMENT_POSITIONS;
        while number * SEGMENT_POSITIONS < run.end {
            let bits = into(self.by_segment.entry(number).or_default());
            part_in(number, &run).for_each(|relative| {
                bits.add(relative);
            });
            number += 1;
        }
        self.saw(position, n);
    }

    fn saw(&mut self, position: u64, n: u32) {
        self.next_position = self.next_position.max(position.saturating_add(u64::from(n)));
    }
}

impl V1Queue {
    /// Opens the queue in `options.dir`, or begins one. Hands the messages found to `each`, lowest
    /// position first: persistent ones, since the others do not survive a restart. What is found is
    /// durable when this returns.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: V1Options,
        each: &mut dyn FnMut(Live),
    ) -> Result<(Self, Recovered)> {
        let told = options.told.as_ref().map(|(table, queue)| table.promised(*queue));
        let promised = told.flatten().unwrap_or_default();
        let (state, recovered) = recover(disk.as_ref(), &options.dir, &promised, each)?;
        if let Some((table, queue)) = &options.told {
            table.tell(*queue, state.promised())?;
        }
        let queue = Self {
            files: Files::new(disk, options.dir.clone()),
            options,
            state: Mutex::new(state),
            writing: Mutex::new(()),
            unsynced_bytes: AtomicU64::new(0),
        };
        Ok((queue, recovered))
    }
}

fn recover(
    disk: &dyn Disk,
    dir: &str,
    promised: &Promised,
    each: &mut dyn FnMut(Live),
) -> Result<(V1State, Recovered)> {
    let numbers = FileNumbers::of_dir(disk, dir)?;
    if numbers.is_some() {
        // A killed process may have created or removed without having come to this. A directory
        // that is made now becomes durable with its first file.
        sync_dir(disk, dir)?;
        sync_name(disk, dir)?;
    } else {
        disk.create_dir(dir).context("create", dir)?;
    }
    let dir = Dir { disk, name: dir, numbers: numbers.unwrap_or_default() };
    let mut recovered = Recovered::default();
    let mut found = FoundOperations::default();
    let extents = dir.extents(promised, &mut recovered)?;
    let older = dir.read_journals(extents.journals, &mut found, &mut recovered)?;
    let mut state = V1State {
        segments: BTreeMap::new(),
        journal: JournalFile::new(dir.numbers.journals.last().map_or(1, |number| number + 1)),
        older,
        next_position: 0,
        last_note: 0,
        synced_note: 0,
        names_bodies: false,
        generation: 0,
        counted: V1Stats::default(),
    };
    for number in dir.numbers.segments.iter().copied() {
        // Segments before this one that only journals know of.
        let later = found.by_segment.split_off(&number);
        for (number, from) in std::mem::replace(&mut found.by_segment, later) {
            state.take_segment(number, PositionSegment::default(), from, each);
        }
        let mut from = found.by_segment.remove(&number).unwrap_or_default();
        let mut scanned =
            dir.read_segment(number, extents.segments, &mut from, &mut found.next_position)?;
        // Blocks cut off of a segment come again from the journal they were flushed from, if that is left.
        scanned.take_damage(extents.segments, &mut recovered.damage, &mut recovered.torn);
        let segment = PositionSegment {
            blocks: scanned.blocks,
            end: scanned.end,
            ..PositionSegment::default()
        };
        state.take_segment(number, segment, from, each);
    }
    for (number, from) in found.by_segment {
        state.take_segment(number, PositionSegment::default(), from, each);
    }
    state.next_position = found.next_position;
    recovered.next_position = found.next_position;
    recovered.live = state.segments.values().map(|segment| u64::from(segment.n_live)).sum();
    Ok((state, recovered))
}

/// How much of a queue's files was durable.
#[derive(Clone, Copy, Debug)]
struct Extents {
    journals: SyncedExtent,
    segments: SyncedExtent,
}

/// A queue's directory with its files.
struct Dir<'d> {
    disk: &'d dyn Disk,
    name: &'d str,
    numbers: FileNumbers,
}

/// The bytes of a file's blocks.
struct FileBytes {
    name: String,
    bytes: u64,
}

impl Dir<'_> {
    fn open(&self, tag: Tag) -> Result<File> {
        tag.open(self.disk, self.name)
    }

    /// Holds the lengths of the files against what is promised. What is short of that was cut off.
    fn extents(&self, promised: &Promised, recovered: &mut Recovered) -> Result<Extents> {
        let Promised { journal_bytes, segment_bytes, .. } = *promised;
        let journals = self.measure(TagKind::Journal, journal_bytes, recovered)?;
        let of_segments = self.measure(TagKind::Segment, segment_bytes, recovered)?;
        // A flush that came to its end has synced the segments before the journal went.
        let is_flushed = self.numbers.journals.is_empty();
        let segments = if is_flushed { SyncedExtent::Whole } else { of_segments };
        Ok(Extents { journals, segments })
    }

    /// Holds the lengths of files of a kind against the bytes of their blocks that were synced. Without more
    /// than those, all that is there was durable.
    fn measure(
        &self,
        kind: TagKind,
        synced: u64,
        recovered: &mut Recovered,
    ) -> Result<SyncedExtent> {
        if synced == 0 {
            return Ok(SyncedExtent::AsItSays);
        }
        let mut files = Vec::new();
        for tag in self.numbers.tags().filter(|tag| tag.kind == kind) {
            let bytes = bytes_of_blocks(self.open(tag)?.size()?);
            files.push(FileBytes { name: tag.path(self.name), bytes });
        }
        let found: u64 = files.iter().map(|file| file.bytes).sum();
        if found < synced {
            recovered.damage.push(self.cut_off(kind, synced, &files));
        }
        Ok(if found > synced { SyncedExtent::AsItSays } else { SyncedExtent::Whole })
    }

    /// The damage of files of a kind that have fewer bytes than were synced.
    fn cut_off(&self, kind: TagKind, synced: u64, files: &[FileBytes]) -> Damage {
        let found: u64 = files.iter().map(|file| file.bytes).sum();
        let file = match files {
            [only] => format!("the end of {}", only.name),
            _ => format!("the end of {}", kind.any_in(self.name)),
        };
        let mut what =
            format!("{JOURNALS_FILE} lists {synced} synced bytes of blocks, {found} are left");
        if (2..=FILES_NAMED_MAX).contains(&files.len()) {
            let named = |FileBytes { name, bytes }: &FileBytes| format!("{bytes} in {name}");
            let named: Vec<String> = files.iter().map(named).collect();
            what.push_str(&format!(" ({})", named.join(", ")));
        }
        let error = FileError::Missing { file, what }.into();
        Damage { error, bytes: synced - found, n_entries: None }
    }

    /// Reads journals; their ends may be torn.
    fn read_journals(
        &self,
        extent: SyncedExtent,
        found: &mut FoundOperations,
        recovered: &mut Recovered,
    ) -> Result<Vec<JournalFile>> {
        let mut journals = Vec::new();
        for number in &self.numbers.journals {
            let tag = Tag::journal(*number);
            let file = self.open(tag)?;
            let mut journal = JournalFile::new(*number);
            let mut scanned = scan(&file, tag, Depth::Data, &mut |operation| {
                let Operation { position, what } = operation;
                let n = match what {
                    What::Publish(_) => 1,
                    What::Deliver(n) | What::Ack(n) => n,
                };
                let last = position.saturating_add(u64::from(n.max(1) - 1));
                let segments = position / SEGMENT_POSITIONS..=last / SEGMENT_POSITIONS;
                journal.touched.extend(segments);
                journal.n_operations += u64::from(n);
                found.take(operation);
            })?;
            file.sync()?;
            // Unreadable bytes may never have been durable: the journal counts as synced up to them.
            journal.synced_end = scanned.readable_end();
            scanned.take_damage(extent, &mut recovered.damage, &mut recovered.torn);
            journal.blocks = scanned.blocks;
            journal.end = scanned.end;
            journal.is_on_disk = true;
            journal.is_name_durable = true;
            journal.is_recovered = true;
            journals.push(journal);
        }
        Ok(journals)
    }

    /// Reads a segment; what journals publish again counts instead of what is in it. An interrupted flush
    /// leaves its journal, and maybe a torn end, which is cut off, and one that is not synced.
    fn read_segment(
        &self,
        number: u64,
        extent: SyncedExtent,
        from: &mut FromJournals,
        next_position: &mut u64,
    ) -> Result<Scanned> {
        let tag = Tag::segment(number);
        let file = self.open(tag)?;
        let mut here =
            FoundOperations { next_position: *next_position, ..FoundOperations::default() };
        let mut scanned = scan(&file, tag, Depth::Tables, &mut |operation| here.take(operation))?;
        if extent == SyncedExtent::AsItSays {
            file.sync()?;
            scanned.cut_torn_end();
        }
        *next_position = here.next_position;
        // Its tag says that no other segment's operations are in it.
        let mut here = here.by_segment.remove(&number).unwrap_or_default();
        here.published.append(&mut from.published);
        here.delivered.add_all(&from.delivered);
        here.acked.add_all(&from.acked);
        *from = here;
        Ok(scanned)
    }
}

impl V1State {
    fn take_segment(
        &mut self,
        number: u64,
        mut segment: PositionSegment,
        from: FromJournals,
        each: &mut dyn FnMut(Live),
    ) {
        let FromJournals { mut published, delivered, acked } = from;
        (segment.delivered, segment.acked) = (delivered, acked);
        // Of those published twice the later one, which is behind the other.
        published.sort_by_key(|(relative, _)| *relative);
        let mut left = published.iter().peekable();
        while let Some((relative, publication)) = left.next() {
            let is_last = left.peek().is_none_or(|(next, _)| next != relative);
            if !is_last || !segment.published.add(*relative) {
                continue;
            }
            if !publication.is_persistent {
                segment.acked.add(*relative);
            }
            if publication.is_delivered {
                segment.delivered.add(*relative);
            }
            if !segment.acked.has(*relative) {
                self.names_bodies |= publication.blob.is_some();
                each(Live {
                    position: number * SEGMENT_POSITIONS + u64::from(*relative),
                    is_delivered: segment.delivered.has(*relative),
                    record_bytes: publication.record_bytes,
                    body_bytes: publication.body_bytes,
                    blob: publication.blob,
                });
            }
        }
        segment.n_live = segment.live().count();
        if segment.n_live == 0 && segment.end > 0 {
            // Its file goes with the next flush.
            self.journal.touched.insert(number);
        }
        if segment.n_live > 0 || segment.end > 0 {
            self.segments.insert(number, segment);
        }
    }
}

/// The first file of the body store that live messages of the queue in `dir`, which nobody has open, name and
/// that is not there. Most often no message names such a file, which the tables alone say.
///
/// # Errors
/// The disk's.
pub fn missing_bodies(
    disk: &dyn Disk,
    dir: &str,
    is_there: &dyn Fn(u32) -> bool,
) -> Result<Option<u32>> {
    for tag in FileNumbers::of_dir(disk, dir)?.unwrap_or_default().tags() {
        if !names_only(&tag.open(disk, dir)?, tag, is_there)? {
            return Ok(named_bodies(disk, dir)?.into_keys().find(|file| !is_there(*file)));
        }
    }
    Ok(None)
}

/// Whether a file can be read, and no message in it, live or not, names a file of the body store that is not
/// there.
fn names_only(file: &File, tag: Tag, is_there: &dyn Fn(u32) -> bool) -> Result<bool> {
    let (mut last, mut any_missing) = (None, false);
    let scanned = scan(file, tag, Depth::Tables, &mut |operation| {
        let What::Publish(Publication { blob: Some(blob), .. }) = operation.what else { return };
        if last != Some(blob.file) {
            last = Some(blob.file);
            any_missing |= !is_there(blob.file);
        }
    })?;
    Ok(!any_missing && scanned.is_whole())
}

/// How many live messages of the queue in `dir`, which nobody has open, have their bodies in each file of the
/// body store.
///
/// # Errors
/// The disk's.
pub fn named_bodies(disk: &dyn Disk, dir: &str) -> Result<BTreeMap<u32, u64>> {
    let mut by_file = BTreeMap::new();
    if list_if_there(disk, dir)?.is_some() {
        recover(disk, dir, &Promised::default(), &mut |live| {
            if let Some(blob) = live.blob {
                *by_file.entry(blob.file).or_default() += 1;
            }
        })?;
    }
    Ok(by_file)
}
