//! The state that the snapshot of definitions and the log's entries lead to.

mod contents;
mod groups;
mod presence;
mod versions;

pub(crate) use versions::Versions;

use crate::error::OpenError;
use crate::queue_dirs::QueueDirs;
use bytes::Bytes;
use classic::{ClassicService, PageScan, Queue, V1Loading};
use content::records::QueueEntry;
use content::{PAGES_DIR, Restoring, Services, Storage, left_pages_file};
use contents::{Contents, Left, Logged};
use control::log_records::definitions::DefinitionEntry;
use control::log_records::node::NodeEntry;
use control::log_records::{self, Entry};
use control::{CommandLog, DEFINITIONS_FILE, Definitions, Gone, QueueHomes};
use definitions::FoundDefinitions;
use groups::FoundGroups;
use log::{
    Lsn, Owner, RefusedEntry, SegmentCounts, SegmentId, Stamp, Tail, Wal, WalFound, WalOptions,
};
use message::Body;
use message_store::SHARED_BODY_MIN_BYTES;
use meta::{Command, QueueDef, QueueId, QueueKind, QueueVersion, State};
use queues::QueueRef;
use quorum::QuorumQueue;
use segments::{Disk, remove_if_there};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use stdx::record::Reader;
use store::Queued;
use store::blob::BlobStore;
use stream::StreamService;

/// Classic queues that are to be read once the broker runs.
#[derive(Default)]
struct ReadLater {
    /// Queues of version 1.
    v1: Vec<V1Loading>,
    pages: Vec<PageScan>,
    /// The log says durably which versions queues have when it is durable up to here.
    versions_upto: Option<Lsn>,
}

/// The state that the snapshot and the log's entries, one after the other, lead to.
#[derive(Debug)]
pub struct Replay {
    /// The definitions.
    pub meta: State,
    /// The serial number of the last command in the snapshot.
    covered: u64,
    serial: u64,
    /// Deletions that files may have to follow.
    pub gone: Gone,
    contents: Contents,
    versions: Versions,
    /// The segments of the commands that no snapshot covers.
    commands: Vec<SegmentId>,
    /// The cursors of a clean stop, unless another entry came after it.
    cursors: Option<HashMap<u64, u64>>,
    /// Milliseconds for which queues had not been used before the last clean stop, by id of queue; valid if
    /// `cursors` is there.
    unused: HashMap<u64, u64>,
    /// Bytes at the end of the log that cannot be read, and are cut off.
    pub cut_off_bytes: u64,
    groups: FoundGroups,
}

/// Data that was read and fits together. Reading has changed nothing.
#[derive(Debug)]
pub struct Found {
    /// The definitions and the contents of queues.
    pub replay: Replay,
    /// The log.
    pub log: WalFound,
}

impl Found {
    /// Reads the definitions and the log, and checks that all data that they name is there.
    ///
    /// # Errors
    /// The disk's, or data that is damaged, missing or of a newer version.
    pub fn read(disk: &Arc<dyn Disk>, options: &WalOptions) -> Result<Self, OpenError> {
        let (mut replay, snapshot) = Replay::from_snapshot(disk.as_ref())?;
        let log = WalFound::read(disk, options, &mut |entry| replay.take(entry))?;
        replay.take_definitions(disk)?;
        let restored = replay.contents.restore_machines(&replay.meta);
        restored.map_err(|(queue, error)| {
            let reason = error.to_string();
            OpenError::Machine { queue, reason }
        })?;
        presence::check(disk.as_ref(), &replay, &log, snapshot)?;
        replay.cut_off_bytes = log.tail().map_or(0, |tail| tail.bytes);
        Ok(Self { replay, log })
    }

    /// The definitions.
    pub(crate) const fn definitions(&self) -> &State {
        &self.replay.meta
    }

    /// The node that the data belongs to.
    pub const fn node(&self) -> log::NodeId {
        self.log.node
    }

    /// Warns of the unreadable end that is cut off the log.
    pub fn tell_of_tail(&self) {
        let Some(Tail { file, offset, bytes, upto, synced }) = self.log.tail() else { return };
        let known = match synced {
            Some(Lsn(synced)) => format!("all synced entries, up to {synced}, are intact"),
            None => "they may have been confirmed".to_owned(),
        };
        tracing::warn!(
            "cannot read the last {bytes} bytes of the log, from byte {offset} of {file}, after entry {}: \
             {known}",
            upto.0
        );
    }
}

impl Replay {
    /// Whether there are no definitions: the data directory was empty.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.serial == 0 && !self.groups.has_definitions()
    }

    /// Whether the definitions are those of a group, which gives ids alone.
    #[must_use]
    pub const fn is_of_cluster(&self) -> bool {
        self.groups.has_definitions()
    }

    /// Whether the last entry of the log is that of a clean stop, whose cursors the next entry makes void.
    #[must_use]
    pub const fn has_cursors(&self) -> bool {
        self.cursors.is_some()
    }

    /// The version that the files of a queue have.
    #[must_use]
    pub fn version_of(&self, queue: QueueId) -> QueueVersion {
        self.versions.of(queue)
    }

    /// Reads the snapshot of definitions; also returns its stamp, `None` without a snapshot.
    fn from_snapshot(disk: &dyn Disk) -> Result<(Self, Option<Option<Stamp>>), OpenError> {
        let snapshot = segments::read_stamped(disk, DEFINITIONS_FILE)?;
        let stamp = snapshot.as_ref().map(|(stamp, _)| *stamp);
        let ReadDefinitions { meta, serial: covered, gone, v1_queues } = match snapshot {
            None => ReadDefinitions::default(),
            Some((_, bytes)) => read_definitions(&bytes)
                .map_err(|reason| OpenError::Definitions { file: DEFINITIONS_FILE, reason })?,
        };
        let mut versions = Versions::default();
        v1_queues.iter().for_each(|id| versions.take_of_definitions(*id, QueueVersion::V1));
        let replay = Self {
            versions,
            meta,
            covered,
            serial: covered,
            gone,
            contents: Contents::default(),
            commands: Vec::new(),
            cursors: None,
            unused: HashMap::new(),
            cut_off_bytes: 0,
            groups: FoundGroups::default(),
        };
        Ok((replay, stamp))
    }

    fn take(&mut self, entry: log::Entry<'_>) -> Result<(), RefusedEntry> {
        self.cursors = None;
        if self.groups.found.visit(&entry) {
            return Ok(());
        }
        let parsed =
            log_records::parse(&entry).map_err(|error| RefusedEntry(error.to_string().into()))?;
        match parsed {
            Entry::Queue(queue, QueueEntry::Version { version }) => {
                self.versions.take(queue, version, entry.at.segment);
            }
            Entry::Queue(queue, about) => self.contents.take(entry.at.segment, queue, about),
            Entry::Definition(DefinitionEntry { serial, command }) => {
                self.take_command(entry.at.segment, serial, command)?;
            }
            Entry::Node(NodeEntry::Started) => self.unused.clear(),
            Entry::Node(NodeEntry::Unused { queues }) => self.unused = queues.iter().collect(),
            Entry::Node(NodeEntry::Stopped { cursors }) => {
                self.cursors = Some(cursors.iter().collect());
            }
        }
        Ok(())
    }

    /// Replaces a lone node's definitions by those of the group that the log has, if it has one.
    fn take_definitions(&mut self, disk: &Arc<dyn Disk>) -> Result<(), OpenError> {
        if let Some(FoundDefinitions { definitions, changes, .. }) = self.groups.read(disk)? {
            self.meta = definitions;
            let local = self.groups.deletions()?;
            self.gone.add(local);
            for change in &changes {
                let facts = change.facts.iter().map(|fact| &fact.command);
                self.gone.note(facts, &change.removed);
            }
            // The definitions of the group replace those that commands led to.
            self.commands.clear();
        }
        Ok(())
    }

    fn take_command(
        &mut self,
        segment: SegmentId,
        serial: u64,
        command: &[u8],
    ) -> Result<(), RefusedEntry> {
        if serial <= self.covered {
            return Ok(());
        }
        if serial != self.serial + 1 {
            let before = self.serial;
            let reason = format!(
                "definition change {serial} follows change {before}: {DEFINITIONS_FILE} is missing, or \
                 older than the log"
            );
            return Err(RefusedEntry(reason.into()));
        }
        if let Some((queue, version)) = meta::legacy_queue_version(command) {
            self.versions.take_of_definitions(queue, version);
        } else {
            let command =
                Command::decode(command).map_err(|error| RefusedEntry(error.to_string().into()))?;
            let removed = self.meta.replay(&command);
            let removed = removed.map_err(|error| RefusedEntry(error.to_string().into()))?;
            self.gone.note([&command], &removed);
        }
        self.commands.push(segment);
        self.serial = serial;
        Ok(())
    }

    /// Makes the definitions and their queues. Also returns up to where the log must be durable before
    /// definitions are written anew: these will no longer say which version the files of queues have.
    ///
    /// # Errors
    /// A stream's files cannot be read.
    pub fn into_definitions(
        mut self,
        classic: &ClassicService,
        streams: &StreamService,
        dirs: &QueueDirs,
        homes: QueueHomes,
    ) -> Result<(Definitions, Option<Lsn>), OpenError> {
        let storage = classic.storage();
        let mut queues = imbl::OrdMap::new();
        let meta = self.meta.clone();
        let mut later = ReadLater::default();
        for def in meta.queues().iter() {
            if let Some(remote) = homes.remote(&meta, def) {
                queues.insert(def.id, remote.into());
                continue;
            }
            let queue = match def.kind {
                QueueKind::Classic => {
                    let version = self.versions.of(def.id);
                    let services = Arc::clone(&classic.services);
                    let settings = meta.queue_settings(def);
                    let queue = Queue::new(Arc::clone(def), settings, services, version);
                    self.restore_classic(&queue, version, storage, &mut later);
                    QueueRef::from(queue)
                }
                QueueKind::Quorum => self.restore_quorum(def, &meta, &classic.services).into(),
                QueueKind::Stream => {
                    let settings = meta::stream_settings(&meta, def);
                    streams.open(def, &settings)?.into()
                }
            };
            queues.insert(def.id, queue);
        }
        let ReadLater { v1, pages, versions_upto } = later;
        self.keep_left_pages(dirs, &classic.services)?;
        classic.load_all(v1, pages, self.unwanted_journals(dirs));
        let log = CommandLog::recovered(self.serial, &self.commands, &storage.wal);
        let mut definitions = Definitions::new(self.meta, queues, log, self.gone);
        definitions.found = self.groups.recover(&storage.wal).map(Box::new);
        Ok((definitions, versions_upto))
    }

    /// Queues whose journals are to go: they were deleted, or have another version.
    fn unwanted_journals(&self, dirs: &QueueDirs) -> Vec<u64> {
        let is_unwanted = |id: &u64| match self.meta.queue_by_id(QueueId(*id)) {
            Some(_) => self.versions.of(QueueId(*id)) != QueueVersion::V1,
            None => self.gone.has_queue(QueueId(*id)),
        };
        dirs.journals.iter().copied().filter(is_unwanted).collect()
    }

    /// Keeps page images of queues that no definitions name, and drops what is noted of deleted ones.
    fn keep_left_pages(&self, dirs: &QueueDirs, services: &Services) -> Result<(), OpenError> {
        let storage = &services.storage;
        for id in &dirs.journals {
            if self.gone.has_queue(QueueId(*id)) {
                remove_if_there(storage.disk(), &left_pages_file(*id))?;
                continue;
            }
            let notes = content::read_left_pages(storage.disk(), *id)?;
            for note in &notes {
                storage.images.durable.retain(note.blob, 1);
            }
            if notes.iter().any(|note| note.has_bodies) {
                tracing::warn!(
                    "space of message bodies is not given back while queues/{id} is there, whose messages name \
                     some"
                );
                // In which virtual host is not known: nothing can be counted.
                services.keep_bodies();
            }
        }
        Ok(())
    }

    /// Fills a classic queue, or leaves that for later.
    fn restore_classic(
        &mut self,
        queue: &Arc<Queue>,
        version: QueueVersion,
        storage: &Storage,
        later: &mut ReadLater,
    ) {
        self.restore_last_use(queue);
        match version {
            QueueVersion::V1 => {
                // The log's messages are left from a conversion that did not come to its end.
                self.contents.drain(queue.id().0, |_| ());
                later.v1.push(V1Loading::new(Arc::clone(queue), self.cursor_of(queue.id())));
            }
            QueueVersion::V2 => later.pages.extend(self.restore(queue, storage)),
        }
        let upto = self.restore_version(queue, &storage.wal);
        later.versions_upto = upto.max(later.versions_upto);
    }

    /// Has the log keep its entry about the version of a queue's files; or appends one if only definitions
    /// had it.
    fn restore_version(&self, queue: &Queue, wal: &Wal) -> Option<Lsn> {
        let id = queue.id();
        if let Some(segment) = self.versions.segment_of(id) {
            wal.retain(segment, Owner(id.0), 1);
            queue.files_version.note_logged(segment);
            return None;
        }
        (self.versions.of(id) == QueueVersion::V1)
            .then(|| queue.files_version.log(wal, QueueVersion::V1))
    }

    /// The first position that was never delivered, if the node had stopped cleanly.
    fn cursor_of(&self, QueueId(id): QueueId) -> Option<u64> {
        self.cursors.as_ref().and_then(|cursors| cursors.get(&id).copied())
    }

    /// Restores for how long a queue had not been used before a clean stop; after a crash that time begins
    /// anew.
    fn restore_last_use(&self, queue: &Queue) {
        if self.cursors.is_some()
            && let Some(unused_ms) = self.unused.get(&queue.id().0)
        {
            queue.restoring().unused_before(*unused_ms);
        }
    }

    /// Fills a quorum queue.
    fn restore_quorum(
        &mut self,
        def: &Arc<QueueDef>,
        meta: &State,
        services: &Arc<Services>,
    ) -> Arc<QuorumQueue> {
        let (machine, cursor) = (self.contents.take_machine(def.id.0), self.cursor_of(def.id));
        let (settings, storage) = (meta.queue_settings(def), &services.storage);
        let (def, services) = (Arc::clone(def), Arc::clone(services));
        let queue = QuorumQueue::recovered(Arc::clone(&def), &settings, services, machine, cursor);
        let mut restoring = queue.restoring();
        let mut retained = SegmentCounts::default();
        self.fill(def.id.0, &mut restoring, storage, &mut retained);
        retained.retain(&storage.wal, Owner(def.id.0));
        restoring.end();
        queue
    }

    /// Fills a queue with its messages and pages; returns one past the highest position that was ever seen.
    fn fill(
        &mut self,
        id: u64,
        restoring: &mut impl Restoring,
        storage: &Storage,
        retained: &mut SegmentCounts,
    ) -> u64 {
        let mut unrestored = BTreeMap::<&str, u64>::new();
        let mut imageless = BTreeMap::<u32, u64>::new();
        let next = self.contents.drain(id, |left| match left {
            Left::Message { segment, logged } => {
                if let Err(reason) = restore_message(restoring, &logged, segment) {
                    *unrestored.entry(reason).or_default() += 1;
                    storage.count_lost(1);
                } else {
                    retained.add(segment);
                }
            }
            Left::Page { segment, note } => {
                if !restoring.page(&note, segment) {
                    *imageless.entry(note.blob.file).or_default() += u64::from(note.n_live);
                }
                retained.add(segment);
            }
        });
        for (reason, n) in unrestored {
            tracing::error!(queue = id, "{n} messages are lost: {reason}");
        }
        for (file, n) in imageless {
            let file = BlobStore::name_of(PAGES_DIR, file);
            tracing::error!(queue = id, "pages of {n} messages are missing from {file}");
        }
        next
    }

    /// Fills a classic queue; returns the pages that are to be read later for that.
    fn restore(&mut self, queue: &Queue, storage: &Storage) -> Option<PageScan> {
        let QueueId(id) = queue.id();
        let mut retained = SegmentCounts::default();
        let mut restoring = queue.restoring();
        if self.contents.any_page(id, |note| restoring.must_read(note)) {
            restoring.read_later();
        }
        let returns = self.contents.take_returns(id);
        let next = self.fill(id, &mut restoring, storage, &mut retained);
        retained.add_all(restoring.returns(returns));
        retained.retain(&storage.wal, Owner(id));
        // Without the note of a clean stop anything may have been delivered.
        let cursor = self.cursor_of(queue.id());
        let (next_position, seen_below) = (next.max(cursor.unwrap_or(0)), cursor.unwrap_or(next));
        restoring.end(next_position, seen_below)
    }
}

/// Puts a message back into its queue, with a reference to its body if the body is stored apart.
fn restore_message(
    restoring: &mut impl Restoring,
    logged: &Logged<'_>,
    segment: SegmentId,
) -> Result<(), &'static str> {
    let Logged { position, record, is_reference } = *logged;
    let unreadable = "the log's entry cannot be read";
    let shared;
    let (message, stored) = if is_reference {
        let (message, stored) =
            content::records::parse_reference(record).map_err(|_| unreadable)?;
        if !restoring.retain_body(stored.blob) {
            return Err("its body is not in the body store");
        }
        (message, Some(stored))
    } else {
        let mut message = message::parse_record(record, None).map_err(|_| unreadable)?;
        if message.body.len() >= SHARED_BODY_MIN_BYTES {
            shared = Bytes::copy_from_slice(message.body.bytes());
            message.body = Body::Shared(&shared);
        }
        (message, None)
    };
    restoring.message(&Queued { position, message, stored, is_delivered: false }, segment);
    Ok(())
}

/// Definitions as a snapshot has them.
#[derive(Default)]
pub(crate) struct ReadDefinitions {
    pub(crate) meta: State,
    /// The serial number of their last change.
    pub(crate) serial: u64,
    /// The deletions that files may have to follow.
    pub(crate) gone: Gone,
    /// The queues that they give version 1.
    pub(crate) v1_queues: Vec<QueueId>,
}

/// Reads the definitions of a snapshot.
pub(crate) fn read_definitions(bytes: &[u8]) -> Result<ReadDefinitions, String> {
    let mut reader = Reader::new(bytes);
    let before = control::read_before_state(&mut reader);
    let (serial, gone) = before.map_err(|error| error.to_string())?;
    let meta = State::restore(reader.rest()).map_err(|error| error.to_string())?;
    let v1_queues = meta::legacy_v1_queues(reader.rest()).map_err(|error| error.to_string())?;
    Ok(ReadDefinitions { meta, serial, gone, v1_queues })
}
