//! A way out of data that a start refuses: what can be read is written anew, the rest is told.
//! Knows the log, the definitions and which files they name. Never where the originals are kept.
//!
//! The log is written as another one with the same identity: every entry that can be read and does
//! not name a file that is missing. Definitions are not logged again but written as a snapshot.

use crate::error::OpenError;
use crate::replay::{Found, ReadDefinitions, Versions, read_definitions};
use chunk_log::{STREAMS_FILE, StreamTable};
use content::records::QueueEntry;
use content::{PAGES_DIR, left_pages_file, read_left_pages, write_left_pages};
use control::log_records::definitions::DefinitionEntry;
use control::log_records::{self, Entry};
use control::{DEFINITIONS_FILE, Gone};
use log::{
    LOG_FILE, LogError, Lsn, NODE_FILE, NodeIdentity, Salvaged, Stamp, Wal, WalFound, WalOptions,
};
use meta::{Command, QueueDef, QueueId, QueueKind, QueueVersion, Removed, State};
use queue_index::{JOURNALS_FILE, JournalTable, named_bodies};
use routing::Name;
use segments::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::backlog::PageNote;
use store::blob::{BODIES_FILE, BlobStore, ToldFiles};

/// Bytes of entries that are copied between two syncs.
const SYNC_EVERY_BYTES: usize = 4 << 20;

/// A report of the faults of a data directory, and of their mending.
#[derive(Debug, Default)]
pub struct Repair {
    /// Faults that keep a node from starting; none if it starts.
    pub refusal: Option<String>,
    /// How many streams a node that starts keeps closed.
    pub closed_streams: usize,
    /// The file that is damaged or missing.
    pub damage: Vec<String>,
    /// The loss.
    pub lost: Vec<String>,
    /// Files and directories, relative to the data directory, that are to be set aside before what
    /// is written anew takes their place.
    pub set_aside: Vec<String>,
}

impl Repair {
    /// The table of journals says more than is there.
    fn set_table_aside(&mut self) {
        if !self.set_aside.iter().any(|name| name == JOURNALS_FILE) {
            self.set_aside.push(JOURNALS_FILE.to_owned());
        }
    }
}

/// Looks at a data directory; if there is something to repair and a place for it, writes the log and
/// the definitions anew into `anew`. The directory itself is not touched.
///
/// # Errors
/// The disk's, and data of a newer version.
pub fn repair(disk: &Arc<dyn Disk>, anew: Option<Arc<dyn Disk>>) -> Result<Repair, OpenError> {
    let mut repair = Repair::default();
    if let Err(error) = NodeIdentity::read(disk.as_ref()).map_err(OpenError::from) {
        if !error.is_damage() {
            return Err(error);
        }
        repair.refusal = Some(error.to_string());
        repair.damage.push(error.to_string());
        repair.lost.push("the node's identity: the next start makes another one".to_owned());
        repair.set_aside.push(NODE_FILE.to_owned());
    }
    match Found::read(disk, &WalOptions::default()) {
        Ok(found) => {
            repair_streams(disk.as_ref(), anew.as_deref(), found.definitions(), &mut repair)?;
            return Ok(repair);
        }
        Err(error) if !error.is_damage() => return Err(error),
        Err(error) => repair.refusal = Some(error.to_string()),
    }
    let mut survey = Survey::of_definitions(disk.as_ref(), &mut repair);
    let log = Salvaged::read(disk, &WalOptions::default(), &mut |entry| {
        survey.take(&entry);
        Ok(())
    })?;
    repair.damage.extend(log.damage.iter().cloned());
    survey.look_at_files(disk.as_ref(), &log, &mut repair)?;
    survey.tell_lost(&mut repair);
    survey.tell_left(disk.as_ref(), &mut repair)?;
    repair_streams(disk.as_ref(), anew.as_deref(), &survey.meta, &mut repair)?;
    if let Some(anew) = anew {
        survey.write(disk, &anew, &log)?;
    }
    let replaced = [LOG_FILE, "wal", DEFINITIONS_FILE].map(str::to_owned);
    repair.set_aside.extend(replaced);
    Ok(repair)
}

/// Looks at streams. Nothing of them is written anew: the next start goes on without what is missing, which
/// the table of streams tells it to accept.
fn repair_streams(
    disk: &dyn Disk,
    anew: Option<&dyn Disk>,
    meta: &State,
    repair: &mut Repair,
) -> Result<(), OpenError> {
    let mut accepted = Vec::new();
    let notes = StreamTable::read(disk)?;
    for def in meta.queues().iter().filter(|def| def.kind == QueueKind::Stream) {
        if let Some(lack) = chunk_log::find_unaccepted(disk, def.id.0, notes.as_ref())? {
            repair.damage.push(format!("{}: {}", named(def), lack.what));
            repair.lost.push(format!("{}: up to {} messages", named(def), lack.n_messages));
            accepted.push(def.id.0);
        }
    }
    if accepted.is_empty() {
        return Ok(());
    }
    repair.closed_streams = accepted.len();
    repair.set_aside.push(STREAMS_FILE.to_owned());
    if let Some(anew) = anew {
        StreamTable::write_accepted(anew, notes.unwrap_or_default(), &accepted)?;
    }
    Ok(())
}

/// A queue's messages in a file of blobs.
type InFiles = BTreeMap<(u64, u32), u64>;
/// The notes of a queue's page images, by their first positions.
type PageNotes = BTreeMap<u64, PageNote>;

/// The content as the definitions and the log tell it.
#[derive(Default)]
struct Survey {
    meta: State,
    gone: Gone,
    versions: Versions,
    /// The last definition change, and the last one that the snapshot has.
    serial: u64,
    covered: u64,
    /// Changes that are missing, or cannot be made without those.
    n_changes_lost: u64,
    /// The stamp of the log that the definitions were written beside.
    stamp: Option<Stamp>,
    gaps: Gaps,
    /// By queue, unless its deletion is logged.
    in_pages: BTreeMap<u64, PageNotes>,
    in_bodies: InFiles,
    files: BlobFiles,
    /// Which log what is written anew belongs to, and what it must reach.
    begun: Stamp,
}

/// Files of blobs: of pages, and of bodies by virtual host.
#[derive(Default)]
struct BlobFiles {
    pages: BTreeSet<u32>,
    bodies: BTreeMap<Name, BTreeSet<u32>>,
}

/// Where entries are missing behind others, and what of queues is.
#[derive(Default)]
struct Gaps {
    last: Lsn,
    n: u64,
    n_missing: u64,
    /// By queue, the position behind its last message, and the gap that the message was in front of.
    next: BTreeMap<u64, (u64, u64)>,
    /// By queue: positions that were given in a gap.
    positions: BTreeMap<u64, u64>,
}

impl Gaps {
    fn take(&mut self, lsn: Lsn) {
        let n_missing = lsn.0.saturating_sub(self.last.0 + 1);
        if self.last.0 > 0 && n_missing > 0 {
            self.n += 1;
            self.n_missing += n_missing;
        }
        self.last = lsn;
    }

    fn take_position(&mut self, queue: u64, position: u64) {
        let (next, gap) = self.next.get(&queue).copied().unwrap_or_default();
        if gap < self.n && position > next {
            *self.positions.entry(queue).or_default() += position - next;
        }
        self.next.insert(queue, (next.max(position + 1), self.n));
    }

    /// Messages that may be lost, by queue. Each is an entry; what a queue had before the log begins is not
    /// lost here.
    fn lost(&self) -> BTreeMap<u64, u64> {
        self.positions.iter().map(|(queue, n)| (*queue, *n.min(&self.n_missing))).collect()
    }
}

impl Survey {
    fn of_definitions(disk: &dyn Disk, repair: &mut Repair) -> Self {
        let mut survey = Self::default();
        let mut take = |stamp: Option<Stamp>, bytes: &[u8]| {
            let read = read_definitions(bytes);
            read.map(|ReadDefinitions { meta, serial, gone, v1_queues }| {
                (survey.meta, survey.serial, survey.covered) = (meta, serial, serial);
                survey.gone = gone;
                for queue in v1_queues {
                    survey.versions.take_of_definitions(queue, QueueVersion::V1);
                }
                survey.stamp = stamp;
            })
        };
        let whole = match segments::read_stamped(disk, DEFINITIONS_FILE) {
            Ok(None) => return survey,
            Ok(Some((stamp, bytes))) => take(stamp, &bytes),
            Err(error) => Err(error.to_string()),
        };
        let Err(reason) = whole else { return survey };
        repair.damage.push(reason);
        let readable = segments::salvage_snapshot(disk, DEFINITIONS_FILE);
        repair.lost.push(match readable.into_iter().any(|bytes| take(None, &bytes).is_ok()) {
            true => {
                "perhaps a part of the definitions, which can be read all the same: compare them \
                     (`leveret ctl export_definitions`) before clients use the node"
                    .to_owned()
            }
            false => {
                "the definitions but for those the log still has, and the messages of all other \
                      queues"
                    .to_owned()
            }
        });
        survey
    }

    fn take(&mut self, entry: &log::Entry<'_>) {
        self.gaps.take(entry.lsn);
        match log_records::parse(entry) {
            Ok(Entry::Queue(queue, QueueEntry::Version { version })) => {
                self.versions.take(queue, version, entry.at.segment);
            }
            Ok(Entry::Queue(queue, about)) => self.take_of_queue(queue, about),
            Ok(Entry::Definition(DefinitionEntry { serial, command })) if serial > self.covered => {
                self.n_changes_lost += serial.saturating_sub(self.serial + 1);
                self.serial = self.serial.max(serial);
                if let Some((queue, version)) = meta::legacy_queue_version(command) {
                    self.versions.take_of_definitions(queue, version);
                    return;
                }
                let made = Command::decode(command).ok().and_then(|one| {
                    let removed = self.meta.replay(&one).ok()?;
                    self.gone.note([&one], &removed);
                    for removed in removed {
                        if let Removed::Queue(def) = removed {
                            self.in_pages.remove(&def.id.0);
                        }
                    }
                    Some(())
                });
                self.n_changes_lost += u64::from(made.is_none());
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn take_of_queue(&mut self, queue: u64, entry: QueueEntry<'_>) {
        match entry {
            QueueEntry::Message { position, .. } => self.gaps.take_position(queue, position),
            QueueEntry::Reference { position, reference } => {
                self.gaps.take_position(queue, position);
                if let Ok((_, stored)) = content::records::parse_reference(reference) {
                    *self.in_bodies.entry((queue, stored.blob.file)).or_default() += 1;
                }
            }
            QueueEntry::Paged { note } => {
                self.in_pages.entry(queue).or_default().insert(note.first, note);
            }
            QueueEntry::Settled { .. }
            | QueueEntry::Purged { .. }
            | QueueEntry::Returned { .. }
            | QueueEntry::Commands { .. }
            | QueueEntry::Machine { .. }
            | QueueEntry::Version { .. } => {}
        }
    }

    fn queue(&self, id: u64) -> Option<&Arc<QueueDef>> {
        self.meta.queue_by_id(QueueId(id))
    }

    /// Which of the files are there and belong to this log.
    fn look_at_files(
        &mut self,
        disk: &dyn Disk,
        log: &Salvaged,
        repair: &mut Repair,
    ) -> Result<(), OpenError> {
        let mut dirs = vec![(None, PAGES_DIR.to_owned())];
        let vhosts = self.meta.vhosts().map(|vhost| &vhost.name);
        dirs.extend(vhosts.map(|name| (Some(name.clone()), message_store::bodies_dir_of(name))));
        let mut found = Vec::new();
        for (vhost, dir) in dirs {
            for (number, stamp) in store::blob::stamps(disk, &dir)? {
                found.push((vhost.clone(), number, BlobStore::name_of(&dir, number), stamp));
            }
        }
        let said = found.iter().filter_map(|(.., stamp)| *stamp).chain(self.stamp);
        let identity = log.identity.or_else(|| said.clone().map(|stamp| stamp.identity).next());
        let identity = identity.unwrap_or_else(|| WalOptions::default().given.salt);
        let own = said.filter(|stamp| stamp.identity == identity);
        let synced = own.map(|stamp| stamp.synced).max().unwrap_or_default().max(log.synced);
        self.begun = Stamp { identity, synced };
        for (vhost, number, name, stamp) in found {
            if stamp.is_some_and(|stamp| stamp.identity != identity) {
                repair.damage.push(format!("{name} belongs to another log"));
                repair.set_aside.push(name);
            } else if let Some(vhost) = vhost {
                self.files.bodies.entry(vhost).or_default().insert(number);
            } else {
                self.files.pages.insert(number);
            }
        }
        self.look_at_told(&ToldFiles::read(disk)?, repair);
        self.look_at_journals(disk, repair)
    }

    /// Files of bodies that only pages name: the start after the repair counts what is lost by each.
    fn look_at_told(&self, told: &ToldFiles, repair: &mut Repair) {
        for vhost in self.meta.vhosts().map(|vhost| &vhost.name) {
            let dir = message_store::bodies_dir_of(vhost);
            let there = self.files.bodies.get(vhost);
            let is_gone = |number: &u32| !there.is_some_and(|there| there.contains(number));
            for number in told.of(&dir).filter(is_gone) {
                let name = BlobStore::name_of(&dir, number);
                repair.damage.push(format!("{name} is missing: {BODIES_FILE} lists the file"));
                repair.lost.push(format!("messages in vhost '{vhost}' whose bodies are in {name}"));
                if !repair.set_aside.iter().any(|name| name == BODIES_FILE) {
                    repair.set_aside.push(BODIES_FILE.to_owned());
                }
            }
        }
    }

    /// A queue with files of version 1 that neither the log nor the definitions can say anything of any more
    /// has that version.
    fn look_at_journals(&mut self, disk: &dyn Disk, repair: &mut Repair) -> Result<(), OpenError> {
        for (queue, promised) in JournalTable::read(disk)? {
            let Some(def) = self.queue(queue).cloned() else { continue };
            if !self.versions.knows(queue) && !self.has_logged(queue) {
                self.versions.take_of_definitions(def.id, QueueVersion::V1);
            }
            if self.versions.of(def.id) != QueueVersion::V1 {
                continue;
            }
            let dir = content::journals_dir_of(queue);
            if let Err(error) = promised.check(disk, &dir) {
                repair.damage.push(error.to_string());
                repair.lost.push(format!("{}: what its missing files had", named(&def)));
                repair.set_table_aside();
            }
            if promised.names_bodies {
                self.look_at_bodies(&def, named_bodies(disk, &dir)?, repair);
            }
        }
        Ok(())
    }

    /// Notes in which files messages of a queue of version 1 have their bodies. Those whose file is missing
    /// are passed over by the next start, which is told nothing of them.
    fn look_at_bodies(&mut self, def: &QueueDef, files: BTreeMap<u32, u64>, repair: &mut Repair) {
        for (file, n) in files {
            if !self.has_body(def.id.0, file) {
                repair.set_table_aside();
            }
            *self.in_bodies.entry((def.id.0, file)).or_default() += n;
        }
    }

    /// Whether the log has messages of the queue.
    fn has_logged(&self, queue: u64) -> bool {
        self.gaps.next.contains_key(&queue) || self.in_pages.contains_key(&queue)
    }

    /// Says in the log which queues have version 1 where only definitions or files did.
    fn log_versions(&self, wal: &Wal) {
        for def in self.meta.queues().iter() {
            let is_said = self.versions.segment_of(def.id).is_some();
            if self.versions.of(def.id) == QueueVersion::V1 && !is_said {
                content::records::append_version(wal, def.id.0, QueueVersion::V1);
            }
        }
    }

    /// Whether a page is there, and with the bodies it names something of what the virtual host had.
    fn has_page(&self, queue: u64, note: &PageNote) -> bool {
        let has_bodies = |def: &Arc<QueueDef>| self.files.bodies.contains_key(&def.vhost);
        self.files.pages.contains(&note.blob.file)
            && (!note.has_bodies || self.queue(queue).is_none_or(has_bodies))
    }

    /// The page images that are there of queues that no definitions name, and whose deletion is not logged;
    /// without queues of which an earlier repair has noted them.
    fn left_pages(&self, disk: &dyn Disk) -> Result<BTreeMap<u64, Vec<&PageNote>>, OpenError> {
        let mut left = BTreeMap::new();
        for (queue, notes) in &self.in_pages {
            let is_known = self.queue(*queue).is_some() || self.gone.has_queue(QueueId(*queue));
            let there = notes.values().filter(|note| self.has_page(*queue, note));
            let there: Vec<_> = there.collect();
            if !is_known && !there.is_empty() && read_left_pages(disk, *queue)?.is_empty() {
                left.insert(*queue, there);
            }
        }
        Ok(left)
    }

    fn has_body(&self, queue: u64, file: u32) -> bool {
        let def = self.queue(queue);
        def.is_none_or(|def| {
            self.files.bodies.get(&def.vhost).is_some_and(|files| files.contains(&file))
        })
    }

    fn tell_lost(&self, repair: &mut Repair) {
        let mut by_queue = self.gaps.lost();
        for (queue, notes) in &self.in_pages {
            let lacking = notes.values().filter(|note| !self.has_page(*queue, note));
            let n = lacking.map(n_messages).sum::<u64>();
            if n > 0 {
                *by_queue.entry(*queue).or_default() += n;
            }
        }
        for ((queue, file), n) in &self.in_bodies {
            if !self.has_body(*queue, *file) {
                *by_queue.entry(*queue).or_default() += n;
            }
        }
        for (queue, n) in by_queue {
            if let Some(def) = self.queue(queue) {
                repair.lost.push(format!("{}: up to {n} messages", named(def)));
            }
        }
        if self.n_changes_lost > 0 {
            let n = self.n_changes_lost;
            repair
                .lost
                .push(format!("{n} changes of definitions that are missing or need missing ones"));
        }
        if !repair.damage.is_empty() {
            let words =
                "messages in what cannot be read; messages that were acknowledged there come again";
            repair.lost.push(words.to_owned());
        }
    }

    /// Tells of page images that nobody has and that are kept.
    fn tell_left(&self, disk: &dyn Disk, repair: &mut Repair) -> Result<(), OpenError> {
        for (queue, notes) in self.left_pages(disk)? {
            let n = notes.into_iter().map(n_messages).sum::<u64>();
            let dir = content::journals_dir_of(queue);
            repair.lost.push(format!(
                "the queue of {n} messages, which stay in {PAGES_DIR}/ as long as {dir} is there"
            ));
            repair.set_aside.push(left_pages_file(queue));
        }
        Ok(())
    }

    /// Writes everything that can be read.
    fn write(
        &self,
        disk: &Arc<dyn Disk>,
        anew: &Arc<dyn Disk>,
        log: &Salvaged,
    ) -> Result<(), OpenError> {
        let begun = self.begun;
        let options = WalOptions::default();
        let found = WalFound::anew(begun, log.newest, log.node.unwrap_or(options.given.node));
        let (wal, mut stepper) =
            Wal::start_stepped(found, Arc::clone(anew), WalOptions::default())?;
        Salvaged::read(disk, &WalOptions::default(), &mut |entry| {
            if let Ok((owner, payload)) = log_records::owned(&entry)
                && self.is_kept(&entry)
            {
                wal.append(|batch| batch.entry(owner, entry.kind, &[payload]));
                if wal.unsynced_bytes() > SYNC_EVERY_BYTES {
                    stepper.step();
                }
            }
            Ok(())
        })?;
        self.log_versions(&wal);
        while stepper.step() {}
        wal.close()?;
        while stepper.step() {}
        if let Some(reason) = wal.poisoned() {
            return Err(LogError::Poisoned { reason: reason.to_owned() }.into());
        }
        for (queue, notes) in self.left_pages(disk.as_ref())? {
            write_left_pages(anew.as_ref(), queue, begun, notes.into_iter())?;
        }
        let bytes = control::encode_definitions(self.serial, &self.gone, &self.meta);
        Ok(segments::write_stamped(anew.as_ref(), DEFINITIONS_FILE, begun, &bytes)?)
    }

    fn is_kept(&self, entry: &log::Entry<'_>) -> bool {
        match log_records::parse(entry) {
            Ok(Entry::Queue(queue, QueueEntry::Paged { note })) => self.has_page(queue, &note),
            Ok(Entry::Queue(queue, QueueEntry::Reference { reference, .. })) => {
                let parsed = content::records::parse_reference(reference);
                parsed.is_ok_and(|(_, stored)| self.has_body(queue, stored.blob.file))
            }
            Ok(Entry::Definition(_) | Entry::Node(_)) | Err(_) => false,
            Ok(Entry::Queue(..)) => true,
        }
    }
}

fn n_messages(note: &PageNote) -> u64 {
    note.live.iter().map(|range| range.end - range.start).sum()
}

fn named(def: &QueueDef) -> String {
    format!("queue '{}' in vhost '{}'", def.name, def.vhost)
}
