//! Which node of which cluster a data directory belongs to, and how often it has been started.
//!
//! ```text
//! file "leveret-node": two slots, at bytes 0 and 512
//!  0       4       8         12      16      20      22  24        40     44
//!  +-------+-------+---------+-------+-------+-------+---+---------+------+--------+---------+
//!  | "LVND"| crc32c| version | epoch | boot  | number| 0 | cluster | n    | name   | zeroes  |
//!  |       | u32   | u32     | u32   | u32   | u16   |   | u128    | u32  | n bytes| to 512  |
//!  +-------+-------+---------+-------+-------+-------+---+---------+------+--------+---------+
//!  crc32c   over everything after it; integers are little-endian
//!  boot     rises with each start, which writes the slot of its number modulo 2: the higher one counts
//! ```

use crate::position::{ClusterId, NodeNumber};
use segments::{
    Disk, File, FileError, Result, read_file, replace_file, seal_record, sync_name, unseal_record,
};
use stdx::record::{Reader, RecordError, put_str, put_u16, put_u32, put_u64};

/// The file's name, in the root of the data directory.
pub const NODE_FILE: &str = "leveret-node";
/// COMPAT: the bytes that a node's name may have, as in Erlang.
const NAME_BYTES_MAX: usize = 255;

const MAGIC: [u8; 4] = *b"LVND";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 512;
/// The number of slots that are written in turn.
const N_TURNS: u32 = 2;

/// A node in one of its lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The node's cluster.
    pub cluster: ClusterId,
    /// The epoch of the cluster.
    pub epoch: u32,
    /// The node's number in the cluster.
    pub number: NodeNumber,
    /// The number of this start, from 1.
    pub boot: u32,
    /// The node's name as of this start.
    pub name: String,
}

impl NodeIdentity {
    /// Reads the identity of the last start without touching anything. `None` if there was none.
    ///
    /// # Errors
    /// The disk's, a damaged file, or one of a newer version.
    pub fn read(disk: &dyn Disk) -> Result<Option<Self>> {
        let Some(bytes) = read_file(disk, NODE_FILE)? else { return Ok(None) };
        let slots = bytes.chunks_exact(SLOT_BYTES).map(Self::from_slot);
        let slots = slots.collect::<Result<Vec<_>>>()?;
        let last = slots.into_iter().flatten().max_by_key(|it| it.boot);
        last.map(Some).ok_or_else(|| FileError::Corrupt {
            file: NODE_FILE.to_owned(),
            offset: 0,
            what: "both copies of the record are damaged",
        })
    }

    /// Begins a life of the node, durably. A new node is the first one of the cluster `cluster`, alone.
    ///
    /// # Errors
    /// Those of [`NodeIdentity::read`], or the name is too long.
    pub fn begin(disk: &dyn Disk, cluster: ClusterId, name: &str) -> Result<Self> {
        Self::check_name(name)?;
        let name = name.to_owned();
        let Some(last) = Self::read(disk)? else {
            let first = Self { cluster, epoch: 0, number: NodeNumber(1), boot: 1, name };
            return first.create(disk).map(|()| first);
        };
        if last.boot == 1 {
            // A process that was killed may have renamed the file without having synced its directory.
            sync_name(disk, NODE_FILE)?;
        }
        let file = File::open(disk, NODE_FILE)?;
        // A process that was killed may have left the slot that counts written and not synced: the
        // other one is not overwritten before it would outlive a loss of power.
        file.sync()?;
        let now = Self { boot: last.boot.saturating_add(1), name, ..last };
        file.write(u64::from(now.boot % N_TURNS) * SLOT_BYTES as u64, &now.to_slot())?;
        file.sync()?;
        Ok(now)
    }

    /// Writes the identity of a node that joins a cluster, durably, in place of any other.
    ///
    /// # Errors
    /// The disk's, or the name is too long.
    pub fn create(&self, disk: &dyn Disk) -> Result<()> {
        Self::check_name(&self.name)?;
        let slot_of =
            |turn| if self.boot % N_TURNS == turn { self.to_slot() } else { vec![0; SLOT_BYTES] };
        replace_file(disk, NODE_FILE, &(0..N_TURNS).flat_map(slot_of).collect::<Vec<_>>())
    }

    fn check_name(name: &str) -> Result<()> {
        if name.len() <= NAME_BYTES_MAX {
            return Ok(());
        }
        let source = std::io::Error::other("the node's name is longer than 255 bytes");
        Err(FileError::Io { what: "write", file: NODE_FILE.to_owned(), source })
    }

    /// Numbers above this one, up to 32 bits of them, are those that this life of the node gives out: no
    /// other node has them, nor any of the 65,535 lives before and after.
    #[must_use]
    pub const fn number_base(&self) -> u64 {
        (self.number.0 as u64) << 48 | (self.boot as u64 & 0xffff) << 32
    }

    fn to_slot(&self) -> Vec<u8> {
        let mut slot = vec![0; segments::CHECKED_AT];
        [VERSION, self.epoch, self.boot].into_iter().for_each(|it| put_u32(&mut slot, it));
        [self.number.0, 0].into_iter().for_each(|it| put_u16(&mut slot, it));
        self.cluster.halves().into_iter().for_each(|it| put_u64(&mut slot, it));
        put_str(&mut slot, &self.name);
        slot.resize(SLOT_BYTES, 0);
        seal_record(MAGIC, &mut slot);
        slot
    }

    /// The identity in a slot, if the slot is whole.
    fn from_slot(slot: &[u8]) -> Result<Option<Self>> {
        let Some(mut reader) = unseal_record(MAGIC, slot).map(Reader::new) else {
            return Ok(None);
        };
        let found = reader.u32().unwrap_or_default();
        if found > VERSION {
            return Err(FileError::Newer { file: NODE_FILE.to_owned(), found, known: VERSION });
        }
        Ok(Self::parse(&mut reader).ok())
    }

    fn parse(reader: &mut Reader<'_>) -> std::result::Result<Self, RecordError> {
        let (epoch, boot) = (reader.u32()?, reader.u32()?);
        let [number, _] = [reader.u16()?, reader.u16()?];
        let cluster = ClusterId::of_halves([reader.u64()?, reader.u64()?]);
        let name = reader.str()?.to_owned();
        Ok(Self { cluster, epoch, number: NodeNumber(number), boot, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::{CrashOutcome, Fault, MemoryDisk};

    const NAME: &str = "rabbit@box";

    fn begin(disk: &MemoryDisk) -> Result<NodeIdentity> {
        NodeIdentity::begin(disk, ClusterId(7 << 64 | 9), NAME)
    }

    #[test]
    fn boots_rise_and_the_rest_stays() {
        let disk = MemoryDisk::new();
        assert!(NodeIdentity::read(&disk).unwrap().is_none());
        let first = begin(&disk).unwrap();
        assert_eq!((first.boot, first.number, first.epoch), (1, NodeNumber(1), 0));
        for boot in 2..7 {
            let next = NodeIdentity::begin(&disk, ClusterId(1), "rabbit@other").unwrap();
            let name = "rabbit@other".to_owned();
            assert_eq!(next, NodeIdentity { boot, name, ..first.clone() });
            assert_eq!(NodeIdentity::read(&disk).unwrap(), Some(next));
        }
        assert!(NodeIdentity::begin(&disk, ClusterId(1), &"x".repeat(256)).is_err());
    }

    #[test]
    fn numbers_of_two_lives_differ() {
        let disk = MemoryDisk::new();
        let [first, second] = [(); 2].map(|()| begin(&disk).unwrap().number_base());
        assert_eq!([first, second], [1 << 48 | 1 << 32, 1 << 48 | 2 << 32]);
    }

    /// Each start is cut off at each of its operations; a boot whose start came to its end is never given
    /// again, whatever a loss of power leaves.
    #[test]
    fn a_boot_is_given_once_whatever_a_crash_leaves() {
        for seed in 0..200 {
            let (mut disk, mut last) = (MemoryDisk::new(), 0);
            for start in 0..8 {
                disk.inject((seed + start) % 9, Fault::PowerLoss);
                if let Ok(begun) = begin(&disk) {
                    assert!(begun.boot > last, "seed {seed}");
                    last = begun.boot;
                }
                disk = disk.survive(CrashOutcome::Torn(seed + start));
            }
            assert!(begin(&disk).unwrap().boot > last, "seed {seed}");
        }
    }

    #[test]
    fn a_killed_start_does_not_cost_the_other_copy() {
        for seed in 0..100 {
            let disk = MemoryDisk::new();
            (0..3).for_each(|_| drop(begin(&disk).unwrap()));
            // Killed between write and sync: the process that comes next reads what was written.
            let killed = NodeIdentity { boot: 4, ..NodeIdentity::read(&disk).unwrap().unwrap() };
            File::open(&disk, NODE_FILE).unwrap().write(0, &killed.to_slot()).unwrap();
            let disk = disk.survive(CrashOutcome::Everything);
            disk.inject(4, Fault::PowerLoss);
            drop(begin(&disk));
            let left = NodeIdentity::read(&disk.survive(CrashOutcome::Torn(seed)));
            assert!(left.unwrap().unwrap().boot >= 3, "seed {seed}");
        }
    }

    /// The first start is killed at each of its operations, and power is lost after the second one: who has
    /// been the first node of a cluster stays so.
    #[test]
    fn a_cluster_that_a_start_has_found_is_never_another_one() {
        for operation in 0..8 {
            let disk = MemoryDisk::new();
            disk.inject(operation, Fault::PowerLoss);
            drop(begin(&disk));
            let disk = disk.survive(CrashOutcome::Everything);
            let second = NodeIdentity::begin(&disk, ClusterId(8), NAME).unwrap();
            let disk = disk.survive(CrashOutcome::OnlySynced);
            let third = NodeIdentity::begin(&disk, ClusterId(9), NAME).unwrap();
            assert_eq!(third.cluster, second.cluster, "operation {operation}");
        }
    }

    #[test]
    fn one_damaged_copy_leaves_the_other_and_two_are_noticed() {
        let disk = MemoryDisk::new();
        (0..2).for_each(|_| drop(begin(&disk).unwrap()));
        for at in 0..SLOT_BYTES {
            assert!(disk.flip_bit(NODE_FILE, at, 5));
            assert_eq!(NodeIdentity::read(&disk).unwrap().unwrap().boot, 1, "byte {at}");
            assert!(disk.flip_bit(NODE_FILE, SLOT_BYTES + at, 5));
            let error = NodeIdentity::read(&disk).unwrap_err().to_string();
            assert!(error.contains("leveret-node is corrupt"), "byte {at}: {error}");
            assert!(
                disk.flip_bit(NODE_FILE, at, 5) && disk.flip_bit(NODE_FILE, SLOT_BYTES + at, 5)
            );
        }
    }
}
