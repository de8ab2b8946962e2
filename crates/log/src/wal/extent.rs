//! Which log a data directory has, and from which segment to which: told outside the log's own
//! directory, so that a start notices when segments, or all of them, are missing.
//!
//! ```text
//! file "leveret-log": three slots, at bytes 0, 512 and 1024
//!  0       4       8         12  16     24         32       40       48       56
//!  +-------+-------+---------+---+------+----------+--------+--------+--------+-----+
//!  | "LVLX"| crc32c| version | 0 | turn | identity | oldest | newest | synced | node|
//!  |       | u32   | u32     |   | u64  | u64      | u64    | u64    | u64    | u64 |
//!  +-------+-------+---------+---+------+----------+--------+--------+--------+-----+
//!  crc32c    over everything after it; integers are little-endian
//!  turn      the first two slots are written in turn: the higher one counts
//!  identity  the salt of the log's blocks
//!  oldest    this segment is there, and perhaps older ones
//!  newest    this segment is there, and perhaps newer ones; 0: perhaps there is none
//!  synced    every entry up to this one was synced
//!  node      random, given when the data directory was made, or when one of format 5 or before was first
//!            opened by a later node: 0 until then
//! ```
//! The first two slots are synced: before a segment goes, when a new one begins, and at a proper
//! close. The third is written after each sync of the log, before anybody is told of it, and never synced
//! itself: it holds after the death of the process, and after a loss of power it is one more chance.

use super::{Lsn, NodeId, SegmentId};
use segments::{
    Disk, File, FileError, Result, read_file, replace_file, seal_record, unseal_record,
};
use stdx::record::Reader;

/// The file's name, in the root of the data directory.
pub const LOG_FILE: &str = "leveret-log";

const MAGIC: [u8; 4] = *b"LVLX";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 64;
const SLOT_EVERY_BYTES: usize = 512;
/// The number of slots that are written in turn.
const N_TURNS: u64 = 2;

/// The extent of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogExtent {
    pub(super) identity: u64,
    pub(super) oldest: SegmentId,
    pub(super) newest: SegmentId,
    pub(super) synced: Lsn,
    pub(super) node: NodeId,
}

/// An extent in a slot.
#[derive(Clone, Copy, Debug)]
struct ExtentSlot {
    turn: u64,
    extent: LogExtent,
}

impl ExtentSlot {
    fn to_bytes(self) -> [u8; SLOT_BYTES] {
        let LogExtent { identity, oldest, newest, synced, node } = self.extent;
        let version = u64::from(VERSION);
        let numbers = [0, version, self.turn, identity, oldest.0, newest.0, synced.0, node.0];
        let mut bytes = [0; SLOT_BYTES];
        let (words, _) = bytes.as_chunks_mut();
        words.iter_mut().zip(numbers).for_each(|(to, number)| *to = number.to_le_bytes());
        seal_record(MAGIC, &mut bytes);
        bytes
    }

    /// The slot number `idx` of a file, if it is whole.
    fn read(file: &[u8], idx: usize) -> Result<Option<Self>> {
        let bytes = file.get(idx * SLOT_EVERY_BYTES..).and_then(|rest| rest.get(..SLOT_BYTES));
        let Some(rest) = bytes.and_then(|bytes| unseal_record(MAGIC, bytes)) else {
            return Ok(None);
        };
        let mut reader = Reader::new(rest);
        let (found, _) = (reader.u32().unwrap_or_default(), reader.u32());
        if found > VERSION {
            return Err(FileError::Newer { file: LOG_FILE.to_owned(), found, known: VERSION });
        }
        let [turn, identity, oldest, newest, synced, node] =
            [(); 6].map(|()| reader.u64().unwrap_or_default());
        let (oldest, newest) = (SegmentId(oldest), SegmentId(newest));
        let (synced, node) = (Lsn(synced), NodeId(node));
        Ok(Some(Self { turn, extent: LogExtent { identity, oldest, newest, synced, node } }))
    }
}

/// The extent that the file told at the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) extent: LogExtent,
    turn: u64,
}

impl Told {
    /// Reads the file without touching anything. `None` if there is none.
    pub(super) fn read(disk: &dyn Disk) -> Result<Option<Self>> {
        let Some(bytes) = read_file(disk, LOG_FILE)? else { return Ok(None) };
        let [first, second, unsynced] = [0, 1, 2].map(|idx| ExtentSlot::read(&bytes, idx));
        let (in_turn, unsynced) = ([first?, second?], unsynced?);
        let counts = in_turn.into_iter().flatten().max_by_key(|slot| slot.turn);
        let Some(ExtentSlot { turn, mut extent }) = counts else {
            let what = "both copies of the record are damaged";
            return Err(FileError::Corrupt { file: LOG_FILE.to_owned(), offset: 0, what });
        };
        let slots = in_turn.into_iter().chain([unsynced]).flatten();
        let same = slots.filter(|slot| slot.extent.identity == extent.identity);
        extent.synced = same.map(|slot| slot.extent.synced).max().unwrap_or(extent.synced);
        Ok(Some(Self { extent, turn }))
    }
}

/// The file while the log is open.
#[derive(Debug)]
pub(super) struct ExtentFile {
    file: File,
    turn: u64,
    extent: LogExtent,
}

impl ExtentFile {
    /// Opens the file with what was told at the start, or makes one that promises no segment. From now on the
    /// file says which node this is.
    pub(super) fn open(
        disk: &dyn Disk,
        told: Option<Told>,
        identity: u64,
        node: NodeId,
    ) -> Result<Self> {
        let told = match told {
            Some(told) => told,
            None => {
                let extent = LogExtent { identity, node, ..LogExtent::default() };
                let mut bytes = vec![0; 3 * SLOT_EVERY_BYTES];
                let slot = ExtentSlot { turn: 0, extent }.to_bytes();
                bytes.iter_mut().zip(slot).for_each(|(to, from)| *to = from);
                replace_file(disk, LOG_FILE, &bytes)?;
                Told { extent, turn: 0 }
            }
        };
        let file = File::open(disk, LOG_FILE)?;
        // A process that was killed may have left the slot that counts written and not synced: the
        // other one is not overwritten before it would outlive a loss of power.
        file.sync()?;
        Ok(Self { file, turn: told.turn, extent: LogExtent { node, ..told.extent } })
    }

    pub(super) const fn extent(&self) -> LogExtent {
        self.extent
    }

    /// Changes what is told, durably.
    pub(super) fn tell(&mut self, extent: LogExtent) -> Result<()> {
        assert!(extent.oldest <= extent.newest, "segments rise");
        self.extent = extent;
        self.turn += 1;
        self.put(self.turn % N_TURNS)?;
        self.file.sync()
    }

    /// Tells how far the log is synced, without a sync; a failure to tell harms nobody.
    pub(super) fn tell_synced(&mut self, synced: Lsn) {
        self.extent.synced = synced;
        drop(self.put(N_TURNS));
    }

    fn put(&self, idx: u64) -> Result<()> {
        let slot = ExtentSlot { turn: self.turn, extent: self.extent };
        self.file.write(idx * SLOT_EVERY_BYTES as u64, &slot.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::{CrashOutcome, MemoryDisk};

    fn extent(n: u64) -> LogExtent {
        let (oldest, newest, synced) = (SegmentId(n), SegmentId(n + 1), Lsn(10 * n));
        LogExtent { identity: 7, oldest, newest, synced, node: NodeId(99) }
    }

    fn told(disk: &MemoryDisk) -> LogExtent {
        Told::read(disk).unwrap().unwrap().extent
    }

    #[test]
    fn the_last_of_what_was_told_counts() {
        let disk = MemoryDisk::new();
        assert!(Told::read(&disk).unwrap().is_none());
        let mut file = ExtentFile::open(&disk, None, 7, NodeId(99)).unwrap();
        assert_eq!(
            told(&disk),
            LogExtent { identity: 7, node: NodeId(99), ..LogExtent::default() }
        );
        for n in 1..5 {
            file.tell(extent(n)).unwrap();
            assert_eq!(told(&disk), extent(n));
        }
        file.tell_synced(Lsn(49));
        assert_eq!(told(&disk).synced, Lsn(49));
        let mut file = ExtentFile::open(&disk, Told::read(&disk).unwrap(), 0, NodeId(99)).unwrap();
        file.tell(extent(5)).unwrap();
        assert_eq!(told(&disk), extent(5));
    }

    #[test]
    fn what_a_killed_process_left_unsynced_is_synced_before_the_other_copy_is_written() {
        let disk = MemoryDisk::new();
        let mut file = ExtentFile::open(&disk, None, 7, NodeId(99)).unwrap();
        (1..3).for_each(|n| file.tell(extent(n)).unwrap());
        (file.turn, file.extent) = (3, extent(3));
        file.put(1).unwrap();
        for seed in 0..50 {
            let killed = disk.survive(CrashOutcome::Everything);
            let mut file =
                ExtentFile::open(&killed, Told::read(&killed).unwrap(), 7, NodeId(99)).unwrap();
            (file.turn, file.extent) = (4, extent(4));
            file.put(0).unwrap();
            let left = told(&killed.survive(CrashOutcome::Torn(seed)));
            assert!(left == extent(3) || left == extent(4), "seed {seed}: {left:?}");
        }
    }

    #[test]
    fn one_damaged_copy_leaves_the_other_and_two_are_noticed() {
        let disk = MemoryDisk::new();
        let mut file = ExtentFile::open(&disk, None, 7, NodeId(99)).unwrap();
        (1..3).for_each(|n| file.tell(extent(n)).unwrap());
        for at in 0..SLOT_BYTES {
            assert!(disk.flip_bit(LOG_FILE, at, 5));
            let left = told(&disk);
            assert!(left == extent(1), "byte {at}: {left:?}");
            assert!(disk.flip_bit(LOG_FILE, SLOT_EVERY_BYTES + at, 5));
            let error = Told::read(&disk).unwrap_err().to_string();
            assert!(error.contains("leveret-log is corrupt"), "byte {at}: {error}");
            assert!(
                disk.flip_bit(LOG_FILE, at, 5) && disk.flip_bit(LOG_FILE, SLOT_EVERY_BYTES + at, 5)
            );
        }
    }
}
