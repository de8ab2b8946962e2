//! Notes of a node beside its identity: small files that are replaced as a whole, before the node is a member
//! of a cluster and while it joins or leaves one. The crate `forming` says what is in them.

use segments::{
    Disk, IoContext as _, Result, read_snapshot, remove_if_there, sync_dir, sync_name,
    write_snapshot,
};

/// A note, in the root of the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeNote {
    /// The node that this one lets make the cluster.
    Promise,
    /// The node's progress in joining or leaving a cluster.
    Joining,
}

impl NodeNote {
    /// The file's name.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Promise => "leveret-promise",
            Self::Joining => "leveret-joining",
        }
    }

    /// Reads the note. What is returned stays: a loss of power brings no older one back.
    ///
    /// # Errors
    /// The disk's, or a damaged file.
    pub fn read(self, disk: &dyn Disk) -> Result<Option<Vec<u8>>> {
        read_snapshot(disk, self.file())
    }

    /// Replaces the note, durably.
    ///
    /// # Errors
    /// The disk's; then the old note or the new one is there.
    pub fn write(self, disk: &dyn Disk, bytes: &[u8]) -> Result<()> {
        write_snapshot(disk, self.file(), bytes)
    }

    /// Removes the note, durably.
    ///
    /// # Errors
    /// The disk's; then the note may be there.
    pub fn remove(self, disk: &dyn Disk) -> Result<()> {
        if remove_if_there(disk, self.file())? { sync_name(disk, self.file()) } else { Ok(()) }
    }
}

/// Removes these files and directories, with all that is in them, from the root of a data directory, durably.
/// Names that are not there are passed over: after a crash the same call goes on.
///
/// # Errors
/// The disk's.
pub fn wipe_data(disk: &dyn Disk, names: &[&str]) -> Result<()> {
    names.iter().try_for_each(|name| remove_tree(disk, name))?;
    sync_dir(disk, "")
}

fn remove_tree(disk: &dyn Disk, path: &str) -> Result<()> {
    let Ok(names) = disk.list(path) else {
        return remove_if_there(disk, path).map(|_| ());
    };
    names.iter().try_for_each(|name| remove_tree(disk, &format!("{path}/{name}")))?;
    sync_dir(disk, path)?;
    disk.remove_dir(path).context("remove", path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::{CrashOutcome, Fault, MemoryDisk};

    /// Notes are written and the machine loses power or the process dies at each operation: what was read
    /// once, or was written to the end, is never followed by something older.
    #[test]
    fn notes_never_go_back_whatever_a_crash_leaves() {
        for seed in 0..400 {
            let (mut disk, mut last) = (MemoryDisk::new(), 0);
            for start in 0..12 {
                let found = NodeNote::Promise.read(&disk).unwrap();
                let found = found.map_or(0, |bytes| bytes[0]);
                assert!(found >= last, "seed {seed}: {found} after {last}");
                last = found;
                disk.inject(disk.operations() + (seed + start) % 8, Fault::PowerLoss);
                if NodeNote::Promise.write(&disk, &[found + 1]).is_ok() {
                    last = found + 1;
                }
                let outcomes = [
                    CrashOutcome::Everything,
                    CrashOutcome::OnlySynced,
                    CrashOutcome::Torn(seed + start),
                ];
                let which = usize::try_from(seed / 3 + start).unwrap() % outcomes.len();
                disk = disk.survive(outcomes[which]);
            }
        }
    }

    #[test]
    fn wiped_data_is_gone_for_good_and_the_rest_stays() {
        let write = |disk: &MemoryDisk, name| write_snapshot(disk, name, b"x").unwrap();
        for operation in 0..12 {
            let disk = MemoryDisk::new();
            disk.create_dir("wal").unwrap();
            disk.create_dir("wal/old").unwrap();
            ["wal/1", "wal/old/2", "leveret-node", "mine"]
                .iter()
                .for_each(|name| write(&disk, name));
            disk.inject(disk.operations() + operation, Fault::PowerLoss);
            let wipe = |disk: &MemoryDisk| wipe_data(disk, &["wal", "leveret-node", "absent"]);
            let is_done = wipe(&disk).is_ok();
            let disk = disk.survive(CrashOutcome::OnlySynced);
            if !is_done {
                wipe(&disk).unwrap();
            }
            let disk = disk.survive(CrashOutcome::OnlySynced);
            assert_eq!(disk.list("").unwrap(), ["mine"], "operation {operation}");
        }
    }

    #[test]
    fn removed_notes_stay_removed() {
        let disk = MemoryDisk::new();
        NodeNote::Joining.remove(&disk).unwrap();
        NodeNote::Joining.write(&disk, b"wipes").unwrap();
        NodeNote::Joining.remove(&disk).unwrap();
        let disk = disk.survive(CrashOutcome::OnlySynced);
        assert_eq!(NodeNote::Joining.read(&disk).unwrap(), None);
    }
}
