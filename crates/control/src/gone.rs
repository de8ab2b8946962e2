//! Deletions that files may still have to follow: the facts by which a start removes what an earlier life of
//! the node did not come to remove. Files that no fact names stay, whatever the definitions lack.

use chunk_log::STREAMS_DIR;
use content::QUEUES_DIR;
use imbl::OrdSet;
use message_store::{VHOSTS_DIR, bodies_dir_of};
use meta::{Command, Name, QueueId, QueueKind, Removed, SnapshotOf, State};
use segments::{Disk, list_if_there, sync_dir};
use std::collections::HashSet;
use stdx::record::{Reader, RecordError, put_str, put_u8, put_u32, put_u64};

/// The first byte of these facts in the file of definitions; a state begins with another.
const MARK: u8 = 0;

/// Deletions that a replica remembers before it looks which of them files have to follow.
const DELETIONS_MAX: usize = 1024;

/// Queues and virtual hosts that were deleted, and whose files may still be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    queues: OrdSet<QueueId>,
    vhosts: OrdSet<Name>,
}

impl Gone {
    /// Takes note of what facts have removed, or made again behind that. Quorum queues have no files of their
    /// own.
    pub fn note<'c>(&mut self, facts: impl IntoIterator<Item = &'c Command>, removed: &[Removed]) {
        for removed in removed {
            match removed {
                Removed::Queue(def) if def.durable && def.kind != QueueKind::Quorum => {
                    self.queues.insert(def.id);
                }
                Removed::Vhost(name) => {
                    self.vhosts.insert(name.clone());
                }
                Removed::Queue(_)
                | Removed::Binding { .. }
                | Removed::Exchange { .. }
                | Removed::User(_) => {}
            }
        }
        for fact in facts {
            if let Command::CreateVhost { vhost, .. } = fact {
                self.vhosts.remove(vhost);
            }
        }
    }

    /// Whether a queue was deleted.
    #[must_use]
    pub fn has_queue(&self, id: QueueId) -> bool {
        self.queues.contains(&id)
    }

    /// Virtual hosts that were deleted, and not made again.
    pub fn vhosts(&self) -> impl Iterator<Item = &Name> {
        self.vhosts.iter()
    }

    /// Deletions whose files are gone, whatever a crash leaves: nobody needs to know of them.
    pub(crate) fn without_files(&self, disk: &dyn Disk) -> segments::Result<Self> {
        let names = |dir| Ok(list_if_there(disk, dir)?.unwrap_or_default().into_iter().collect());
        let listed = [STREAMS_DIR, QUEUES_DIR].map(names).into_iter();
        let listed: Vec<HashSet<String>> = listed.collect::<segments::Result<_>>()?;
        let has_files = |id: &QueueId| listed.iter().any(|names| names.contains(&id.0.to_string()));
        let queues = self.queues.iter().filter(|id| !has_files(id)).copied().collect();
        let mut vhosts = OrdSet::new();
        for vhost in &self.vhosts {
            if list_if_there(disk, &bodies_dir_of(vhost))?.is_none() {
                vhosts.insert(vhost.clone());
            }
        }
        let gone = Self { queues, vhosts };
        if gone != Self::default() {
            for dir in [STREAMS_DIR, QUEUES_DIR, VHOSTS_DIR] {
                if list_if_there(disk, dir)?.is_some() {
                    sync_dir(disk, dir)?;
                }
            }
        }
        Ok(gone)
    }

    pub(crate) fn forget(&mut self, others: &Self) {
        for id in &others.queues {
            self.queues.remove(id);
        }
        for vhost in &others.vhosts {
            self.vhosts.remove(vhost);
        }
    }

    /// Whether they are so many that those without files are to be forgotten.
    pub(crate) fn are_many(&self) -> bool {
        self.queues.len() + self.vhosts.len() > DELETIONS_MAX
    }

    /// Adds what others have taken note of.
    pub fn add(&mut self, others: Self) {
        self.queues.extend(others.queues);
        self.vhosts.extend(others.vhosts);
    }

    /// The deletions as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// Reads the deletions that a replica has kept beside its image; none of no bytes.
    ///
    /// # Errors
    /// The bytes are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        Self::read(&mut Reader::new(bytes))
    }

    fn put(&self, out: &mut Vec<u8>) {
        let put_len = |out: &mut Vec<u8>, n: usize| {
            put_u32(out, u32::try_from(n).expect("deletions between two snapshots fit"));
        };
        put_u8(out, MARK);
        put_len(out, self.queues.len());
        self.queues.iter().for_each(|id| put_u64(out, id.0));
        put_len(out, self.vhosts.len());
        self.vhosts.iter().for_each(|vhost| put_str(out, vhost));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let mut gone = Self::default();
        if reader.rest().first() != Some(&MARK) {
            return Ok(gone);
        }
        reader.u8()?;
        for _ in 0..reader.u32()? {
            gone.queues.insert(QueueId(reader.u64()?));
        }
        for _ in 0..reader.u32()? {
            gone.vhosts.insert(Name::from(reader.str()?));
        }
        Ok(gone)
    }
}

/// The content of the file of definitions.
///
/// ```text
/// serial u64 of the last change, deletions with files if there are any, a state (see crate `meta`)
/// deletions = 0 u8, n u32, (queue u64) * n, n u32, (virtual host as text) * n
/// ```
#[must_use]
pub fn encode_definitions(serial: u64, gone: &Gone, state: &State) -> Vec<u8> {
    let mut bytes = serial.to_le_bytes().to_vec();
    if *gone != Gone::default() {
        gone.put(&mut bytes);
    }
    state.snapshot(SnapshotOf::Durable, &mut bytes);
    bytes
}

/// Reads what is in front of the state in the file of definitions.
///
/// # Errors
/// The file is damaged.
pub fn read_before_state(reader: &mut Reader<'_>) -> Result<(u64, Gone), RecordError> {
    Ok((reader.u64()?, Gone::read(reader)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::QueueDef;
    use std::sync::Arc;
    use testing::MemoryDisk;

    fn gone(queues: &[u64], vhosts: &[&str]) -> Gone {
        let queues = queues.iter().copied().map(QueueId).collect();
        Gone { queues, vhosts: vhosts.iter().copied().map(Name::from).collect() }
    }

    #[test]
    fn deletions_read_back_and_cost_nothing_without() {
        for gone in [gone(&[], &[]), gone(&[3, 9], &[]), gone(&[], &["a", "b"]), gone(&[1], &["/"])]
        {
            let bytes = encode_definitions(7, &gone, &State::new());
            let mut reader = Reader::new(&bytes);
            assert_eq!(read_before_state(&mut reader), Ok((7, gone.clone())));
            assert!(State::restore(reader.rest()).is_ok());
            let mut state = Vec::new();
            State::new().snapshot(SnapshotOf::Durable, &mut state);
            assert_eq!(bytes.len() == 8 + state.len(), gone == Gone::default());
        }
    }

    #[test]
    fn only_queues_with_files_of_their_own_are_noted() {
        let mut noted = Gone::default();
        for (kind, id) in QueueKind::ALL.into_iter().zip((1..).map(QueueId)) {
            let [vhost, name] = ["/", "q"].map(Name::from);
            let (auto_delete, exclusive_owner, arguments) = (false, None, Default::default());
            let def = QueueDef {
                id,
                vhost,
                name,
                kind,
                durable: true,
                auto_delete,
                exclusive_owner,
                arguments,
                home: meta::QueueHome::default(),
            };
            noted.note([&Command::DeleteQueueById { id }], &[Removed::Queue(Arc::new(def))]);
        }
        assert_eq!(noted, gone(&[1, 3], &[]));
    }

    #[test]
    fn deletions_are_known_as_long_as_there_are_files() {
        let disk = MemoryDisk::new();
        for dir in ["streams/3", "queues/4", &bodies_dir_of("kept")] {
            disk.create_dir(dir).unwrap();
        }
        let all = gone(&[3, 4, 5], &["kept", "left"]);
        let without = all.without_files(&disk).unwrap();
        assert_eq!(without, gone(&[5], &["left"]));
        let mut left = all;
        left.forget(&without);
        assert_eq!(left, gone(&[3, 4], &["kept"]));
    }
}
