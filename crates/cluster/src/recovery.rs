//! The state that groups have left in the log, found again at a start: addresses and terms, no payloads.
//!
//! Entries are seen in the log's order:
//! - an entry takes the place of one of the same index, and cuts off those behind it that are of lower terms;
//! - an image drops the entries up to its index, and all of them if it came from a leader;
//! - the last vote counts, and what is behind the last end of a replica.
//!
//! The entries that are left have no gaps, else the replica is damaged: never the node.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use log::{Entry, EntryAddress, Lsn, Owner, Wal};
use stdx::record::RecordError;

use crate::effects::{Committed, Health};
use crate::entry::{EntryType, Image, LogRecord, Vote, is_of_group};
use crate::image_store::{ImageKey, ImageStore};
use crate::members::PeerId;
use crate::raft_log::{self, ImagePlace, RaftLog};

/// Groups that are found while the log is read.
#[derive(Debug, Default)]
pub struct GroupRecovery {
    groups: HashMap<Owner, Finding>,
    /// The group whose payloads are kept.
    whole: Option<Owner>,
    /// Replicas that have ended.
    gone: BTreeSet<(Owner, PeerId)>,
}

#[derive(Clone, Debug)]
struct FoundEntry {
    term: u64,
    entry_type: EntryType,
    at: EntryAddress,
    /// The payload, of a group that is kept whole.
    payload: Bytes,
}

/// The machine of a group, before the log is open: its image, and what is known to be committed behind it.
#[derive(Clone, Debug, Default)]
pub struct FoundMachine {
    /// The machine's bytes of the image.
    pub machine: Bytes,
    /// The local part of the image.
    pub local: Bytes,
    /// Commands to apply.
    pub committed: Vec<Committed>,
}

#[derive(Clone, Debug, Default)]
struct Finding {
    me: PeerId,
    /// Whether payloads are kept.
    is_whole: bool,
    /// The image; without its bytes, which are in the log or in a file, unless payloads are kept.
    image: Option<(Image, EntryAddress)>,
    vote: Option<(Vote, EntryAddress)>,
    entries: BTreeMap<u64, FoundEntry>,
    is_damaged: bool,
}

/// A replica that was found.
#[derive(Debug)]
pub struct FoundGroup {
    pub(crate) log: RaftLog,
    pub(crate) health: Health,
}

impl FoundGroup {
    /// The group.
    #[must_use]
    pub const fn owner(&self) -> Owner {
        self.log.owner
    }

    /// The index of the image that the machine begins with.
    #[must_use]
    pub const fn image_index(&self) -> u64 {
        self.log.image.index
    }

    /// Reads the image that the machine begins with; none if there is none or it cannot be read. A replica
    /// that lacks the file of its image is damaged from then on. **Blocks.**
    #[must_use]
    pub fn read_image(&mut self, wal: &Wal, images: &ImageStore) -> Option<Image> {
        let image = raft_log::read_whole_image(&self.log, wal, images);
        if image.is_none() && self.log.image.file.is_some() {
            let last = self.log.last_index();
            let empty = RaftLog::new(self.log.owner, self.log.me);
            let log = std::mem::replace(&mut self.log, empty);
            (self.log.vote, self.log.vote_at) = (log.vote, log.vote_at);
            self.health = Health::Damaged(last);
        }
        image
    }
}

impl GroupRecovery {
    /// Keeps the payloads of one group, for [`GroupRecovery::machine_of`].
    #[must_use]
    pub fn keeping(owner: Owner) -> Self {
        Self { whole: Some(owner), ..Self::default() }
    }

    /// Whether a replica of a group was found.
    #[must_use]
    pub fn has(&self, owner: Owner) -> bool {
        self.groups.contains_key(&owner)
    }

    /// The machine of the group whose payloads are kept, up to where all is committed without a word of
    /// another replica; none if the group has no image here.
    ///
    /// # Errors
    /// The group's entries in the log, or the file of its image, are damaged.
    pub fn machine_of(
        &self,
        owner: Owner,
        images: &ImageStore,
    ) -> Result<Option<FoundMachine>, RecordError> {
        let finding = self.groups.get(&owner).filter(|_| self.whole == Some(owner));
        let Some(finding) = finding else { return Ok(None) };
        let FoundGroup { log, health } = finding.clone().finish(owner);
        let Some((image, _)) = &finding.image else { return Ok(None) };
        if health != Health::Sound {
            return Err(RecordError::Invalid);
        }
        let [machine, local] = match image.file {
            Some(file) => {
                let key = raft_log::image_key(&log, image.index);
                images.read(key, file).ok_or(RecordError::Invalid)?
            }
            None => [image.machine.clone(), image.local.clone()],
        };
        let is_alone = log.members().are_only(log.me) && !log.has_changes();
        let upto = if is_alone { log.last_index() } else { log.sure_commit() };
        let known = finding.entries.iter().take_while(|(index, _)| **index <= upto);
        let commands = known.filter(|(_, it)| it.entry_type == EntryType::Commands);
        let committed = commands.map(|(&index, it)| Committed {
            index,
            term: it.term,
            commands: it.payload.clone(),
        });
        Ok(Some(FoundMachine { machine, local, committed: committed.collect() }))
    }

    /// Takes an entry of the log. False if it is of no group.
    pub fn visit(&mut self, entry: &Entry<'_>) -> bool {
        let Some(owner) = entry.owner.filter(|_| is_of_group(entry.kind)) else { return false };
        let finding = self.groups.entry(owner).or_default();
        finding.is_whole = self.whole == Some(owner);
        match LogRecord::decode(entry.kind, entry.payload) {
            Ok(LogRecord::Gone(me)) => {
                self.groups.remove(&owner);
                self.gone.insert((owner, me));
            }
            Ok(record) => finding.take(record, entry.at),
            Err(_) => finding.is_damaged = true,
        }
        true
    }

    /// The replicas that are there, by group. Files of images that they have replaced are removed, and those
    /// of replicas that have ended.
    #[must_use]
    pub fn finish(self, wal: &Wal, images: &ImageStore) -> Vec<FoundGroup> {
        let mut found: Vec<_> =
            self.groups.into_iter().map(|(it, group)| group.finish(it)).collect();
        found.sort_by_key(FoundGroup::owner);
        // The log syncs what was found before it starts.
        for (owner, me) in self.gone {
            images.replace(ImageKey { owner, me, index: u64::MAX }, false, Lsn(0));
        }
        for group in found.iter().filter(|group| group.log.image.index > 0) {
            raft_log::replace_files(&group.log, images, Lsn(0));
        }
        // Files that are left are removed another time.
        let _later = images.sweep(wal).is_err();
        found
    }
}

impl Finding {
    fn take(&mut self, record: LogRecord<'_>, at: EntryAddress) {
        match record {
            LogRecord::Entry { index, term, entry_type, payload } => {
                if self.image.as_ref().is_some_and(|(image, _)| index <= image.index) {
                    return;
                }
                self.entries.retain(|held, entry| *held <= index || entry.term >= term);
                let kept = if self.is_whole { payload } else { &[] };
                let payload = Bytes::copy_from_slice(kept);
                self.entries.insert(index, FoundEntry { term, entry_type, at, payload });
            }
            LogRecord::Vote(me, vote) => {
                self.me = me;
                self.vote = Some((vote, at));
            }
            LogRecord::Image(me, image) => {
                self.me = me;
                if image.is_installed {
                    self.entries.clear();
                }
                self.entries.retain(|index, _| *index > image.index);
                let bare = || Image { machine: Bytes::new(), local: Bytes::new(), ..image.clone() };
                let image = if self.is_whole { image } else { bare() };
                self.image = Some((image, at));
            }
            LogRecord::Gone(_) => {}
        }
    }

    fn finish(self, owner: Owner) -> FoundGroup {
        let mut log = RaftLog::new(owner, self.me);
        if let Some((vote, at)) = self.vote {
            (log.vote, log.vote_at) = (vote, Some(at));
        }
        let last = self.entries.last_key_value().map_or(0, |(index, _)| *index);
        let Some((image, at)) = self.image else {
            // A learner that has nothing yet, or a log without its beginning.
            let is_new = self.entries.is_empty() && !self.is_damaged;
            let health = if is_new { Health::Sound } else { Health::Damaged(last.max(1)) };
            return FoundGroup { log, health };
        };
        let first = image.index + 1;
        let indexes = self.entries.keys().copied();
        let is_whole = indexes.eq(first..first + self.entries.len() as u64);
        let mut term = image.term;
        let is_ordered = self.entries.values().all(|entry| {
            let is_next = entry.term >= term;
            term = entry.term;
            is_next
        });
        if self.is_damaged || !is_whole || !is_ordered || term > log.vote.term {
            return FoundGroup { log, health: Health::Damaged(last.max(image.index)) };
        }
        let file = image.file.map(Box::new);
        log.image = ImagePlace { index: image.index, term: image.term, at: Some(at), file };
        log.applied = image.index;
        log.begin_members(image.members);
        for (index, FoundEntry { term, entry_type, at, .. }) in self.entries {
            log.push(index, term, entry_type, at);
        }
        FoundGroup { log, health: Health::Sound }
    }
}
