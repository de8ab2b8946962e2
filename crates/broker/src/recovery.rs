//! From files to a running broker: the definitions' snapshot, then the log on top of it.

mod content;
mod presence;

use crate::background::Poison;
use crate::broker::Broker;
use crate::classic_v1::{self, ClassicV1, ClassicV1Stepper, Reading};
use crate::clock::WallClock;
use crate::control_plane::{DEFINITIONS_FILE, Definitions};
use crate::log_records::{self, Entry, SegmentCounts};
use crate::message_store::MessageStores;
use crate::options::{BrokerOptions, StorageOptions};
use crate::pager::{self, Pager, PagerStepper};
use crate::queue::{Queue, QueueRecovery, SHARED_BODY_MIN_BYTES};
use crate::rules::{self, QueueTimers, QueueTimersStepper};
use crate::storage::{Images, Losses, PAGES_DIR, Scarcity, Storage};
use bytes::Bytes;
use content::{Contents, Left, Logged};
use log::{
    Disk, IoContext, LogError, Lsn, Refused, SegmentId, Stamp, Stamper, Tail, Wal, WalFound,
    WalOptions,
};
use message::Body;
use meta::{Command, QueueId, QueueVersion, State, Vhost};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use stdx::record::Reader;
use store::backlog::PagePool;
use store::blob::BlobStore;
use store::v1::JournalTable;
use store::{Queued, StoreError};

/// What the log told, entry by entry.
#[derive(Debug)]
struct Replay {
    meta: State,
    /// Commands up to this one are in the snapshot.
    covered: u64,
    serial: u64,
    contents: Contents,
    /// Where commands lie that no snapshot covers.
    commands: Vec<SegmentId>,
    /// The cursors of a clean stop, while nothing came after it.
    cursors: Option<HashMap<u64, u64>>,
    /// For how many milliseconds queues had not been used before the last clean stop: that one, if there are cursors.
    unused: HashMap<u64, u64>,
    /// Bytes at the end of the log that cannot be read.
    cut_off_bytes: u64,
    n_entries: u64,
}

/// Why the broker cannot start on its data.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log or a file beside it.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The files of pages.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system gives no threads.
    #[error("cannot start the threads of the storage: {0}")]
    Threads(std::io::Error),
    /// The definitions cannot be read.
    #[error("the definitions in {file} cannot be read: {reason}")]
    Definitions {
        /// The file.
        file: &'static str,
        /// Why.
        reason: String,
    },
}

impl OpenError {
    /// Whether data is damaged or missing, so that a repair may help.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Log(error) | Self::Store(StoreError::Disk(error)) => {
                !matches!(error, LogError::Io { .. } | LogError::Newer { .. })
            }
            Self::Definitions { .. } => true,
            Self::Store(_) | Self::Threads(_) => false,
        }
    }
}

impl Broker {
    /// Starts on the data in `disk`, or anew when there is none.
    ///
    /// # Errors
    /// The disk's, or data that is damaged or of a newer version.
    pub fn open(disk: Arc<dyn Disk>, options: WalOptions) -> Result<Arc<Self>, OpenError> {
        Self::open_with(disk, options, BrokerOptions::default())
    }

    /// As [`Broker::open`], with settings.
    ///
    /// # Errors
    /// As [`Broker::open`].
    pub fn open_with(
        disk: Arc<dyn Disk>,
        options: WalOptions,
        settings: BrokerOptions,
    ) -> Result<Arc<Self>, OpenError> {
        Found::read(&disk, &options)?.start(disk, options, settings)
    }

    /// As [`Broker::open_with`], with storage whose work the caller does. For simulation.
    ///
    /// # Errors
    /// As [`Broker::open`].
    pub fn open_stepped(
        disk: Arc<dyn Disk>,
        mut options: WalOptions,
        settings: BrokerOptions,
    ) -> Result<(Arc<Self>, Steppers), OpenError> {
        let Found { replay, log } = Found::read(&disk, &options)?;
        let before = parts_before_log(&disk, &settings.storage, &mut options);
        let (wal, mut log) = Wal::start_stepped(log, Arc::clone(&disk), options)?;
        let (broker, started) = finish(replay, before, wal, disk, settings)?;
        if let Some(started) = started {
            log.step();
            broker.storage.wal.wait_durable(started)?;
        }
        let pager = PagerStepper::new(&broker.storage);
        let older = ClassicV1Stepper::new(&broker.storage);
        let rules = QueueTimersStepper::new(&broker.storage);
        Ok((broker, Steppers { log, pager, older, rules }))
    }
}

/// Data that was read and fits together. Nothing was touched for that.
#[derive(Debug)]
pub struct Found {
    replay: Replay,
    log: WalFound,
}

impl Found {
    /// Reads the definitions and the log, and looks whether everything is there that they name.
    ///
    /// # Errors
    /// The disk's, or data that is damaged, missing or of a newer version.
    pub fn read(disk: &Arc<dyn Disk>, options: &WalOptions) -> Result<Self, OpenError> {
        let (mut replay, snapshot) = Replay::from_snapshot(disk.as_ref())?;
        let log = WalFound::read(disk, options, &mut |entry| replay.take(entry))?;
        presence::check(disk.as_ref(), &replay, &log, snapshot)?;
        replay.cut_off_bytes = log.tail().map_or(0, |tail| tail.bytes);
        Ok(Self { replay, log })
    }

    /// Says what is cut off the log as never finished.
    fn tell_of_tail(&self) {
        let Some(Tail { file, offset, bytes, upto, synced }) = self.log.tail() else { return };
        let known = match synced {
            Some(Lsn(synced)) => format!(
                "everything that is known to have been synced is there, up to entry {synced}"
            ),
            None => "whether it was ever confirmed is not known".to_owned(),
        };
        tracing::warn!(
            "{bytes} bytes at the end of the log cannot be read, from byte {offset} of {file} on, behind entry {}: \
             {known}",
            upto.0
        );
    }

    /// Starts on what was read.
    ///
    /// # Errors
    /// The disk's.
    pub fn start(
        self,
        disk: Arc<dyn Disk>,
        mut options: WalOptions,
        settings: BrokerOptions,
    ) -> Result<Arc<Broker>, OpenError> {
        self.tell_of_tail();
        let before = parts_before_log(&disk, &settings.storage, &mut options);
        let wal = Wal::start(self.log, Arc::clone(&disk), options)?;
        let (broker, started) = finish(self.replay, before, wal, disk, settings)?;
        pager::start(&broker.storage).map_err(OpenError::Threads)?;
        classic_v1::start(&broker.storage).map_err(OpenError::Threads)?;
        rules::start(&broker.storage).map_err(OpenError::Threads)?;
        if let Some(started) = started {
            broker.storage.wal.wait_durable(started)?;
        }
        Ok(broker)
    }
}

/// The work that threads do otherwise.
#[derive(Debug)]
pub struct Steppers {
    /// Commits.
    pub log: log::Stepper,
    /// Backlogs that leave memory and come back.
    pub pager: PagerStepper,
    /// Queues in the older form.
    pub older: ClassicV1Stepper,
    /// What comes with time, and dead letters.
    pub rules: QueueTimersStepper,
}

/// What the log needs to know before it is opened.
struct BeforeLog {
    stamper: Arc<Stamper>,
    pager: Pager,
    bodies: Arc<MessageStores>,
    older: ClassicV1,
    rules: QueueTimers,
}

/// Before each commit bodies are made durable; and the log ends when something it relies on has
/// failed.
fn parts_before_log(
    disk: &Arc<dyn Disk>,
    options: &StorageOptions,
    of_log: &mut WalOptions,
) -> BeforeLog {
    let (pager, older) = (Pager::new(options.pager), ClassicV1::new());
    let rules = QueueTimers::default();
    let (embed_below, file_bytes) = (options.embed_below_bytes, options.body_file_bytes);
    let stamper = Arc::clone(&of_log.stamper);
    let bodies =
        MessageStores::new(Arc::clone(disk), embed_below, file_bytes, Arc::clone(&stamper));
    let bodies = Arc::new(bodies);
    let failures = [pager.failure(), older.failure(), rules.failure()];
    let synced = Arc::clone(&bodies);
    of_log.before_commit = Some(Box::new(move || {
        failures.iter().try_for_each(Poison::check)?;
        synced.sync()
    }));
    BeforeLog { stamper, pager, bodies, older, rules }
}

/// Puts everything in its place. Also returns what must be durable before anybody is given a
/// message: that the cursors of the last stop are no longer so.
fn finish(
    replay: Replay,
    before: BeforeLog,
    wal: Wal,
    disk: Arc<dyn Disk>,
    settings: BrokerOptions,
) -> Result<(Arc<Broker>, Option<Lsn>), OpenError> {
    let options = &settings.storage;
    let was_new = replay.serial == 0;
    let has_cursors = replay.cursors.is_some();
    let BeforeLog { stamper, pager, bodies, older, rules } = before;
    // A process that was killed may have renamed the definitions without having come to this.
    disk.sync_dir("").context("sync the directory of", DEFINITIONS_FILE)?;
    let images = Images::open(&disk, options, &stamper)?;
    let is_older = |id| replay.meta.queue_version(QueueId(id)) == QueueVersion::V1;
    let journals = Arc::new(JournalTable::open(Arc::clone(&disk), is_older)?);
    bodies.open_all(replay.meta.vhosts().map(Vhost::name))?;
    let storage = Arc::new(Storage {
        disk,
        wal,
        journals,
        pool: PagePool::default(),
        losses: Mutex::new(Losses { cut_off_bytes: replay.cut_off_bytes, ..Losses::default() }),
        images,
        bodies,
        pager,
        older,
        time: WallClock::new(options.clock),
        rules,
        scarcity: Scarcity::new(options.is_short),
    });
    storage.wal.set_thrifty(options.is_short);
    let definitions = replay.into_definitions(&storage);
    storage.wal.start_freeing();
    storage.images.durable.start_reclaiming();
    storage.images.volatile.start_reclaiming();
    let started = has_cursors.then(|| log_records::append_started(&storage.wal).upto);
    Ok((Broker::assemble(storage, definitions, settings, was_new), started))
}

impl Replay {
    /// Also says whether there is a snapshot, and with which stamp.
    fn from_snapshot(disk: &dyn Disk) -> Result<(Self, Option<Option<Stamp>>), OpenError> {
        let snapshot = log::read_stamped(disk, DEFINITIONS_FILE)?;
        let stamp = snapshot.as_ref().map(|(stamp, _)| *stamp);
        let (meta, covered) = match snapshot {
            None => (State::default(), 0),
            Some((_, bytes)) => read_definitions(&bytes)
                .map_err(|reason| OpenError::Definitions { file: DEFINITIONS_FILE, reason })?,
        };
        let replay = Self {
            meta,
            covered,
            serial: covered,
            contents: Contents::default(),
            commands: Vec::new(),
            cursors: None,
            unused: HashMap::new(),
            cut_off_bytes: 0,
            n_entries: 0,
        };
        Ok((replay, stamp))
    }

    fn take(&mut self, entry: log::Entry<'_>) -> Result<(), Refused> {
        self.cursors = None;
        self.n_entries += 1;
        let parsed = log_records::parse(entry.kind, entry.payload)
            .map_err(|error| Refused(error.to_string().into()))?;
        match parsed {
            Entry::Message { queue, position, record } => {
                let logged = Logged { position, record, is_reference: false };
                self.contents.message(entry.segment, queue, &logged);
            }
            Entry::Reference { queue, position, reference } => {
                let logged = Logged { position, record: reference, is_reference: true };
                self.contents.message(entry.segment, queue, &logged);
            }
            Entry::Settled { queue, positions } => self.contents.settled(queue, positions.iter()),
            Entry::Purged { queue, ranges } => self.contents.ranges_gone(queue, ranges.iter()),
            Entry::Paged { queue, note } => self.contents.paged(entry.segment, queue, note),
            Entry::Returned { queue, anew, counts } => {
                self.contents.returned(entry.segment, queue, anew, counts.iter());
            }
            Entry::Meta { serial, command } => self.take_command(entry.segment, serial, command)?,
            Entry::Started => self.unused.clear(),
            Entry::Unused { queues } => self.unused = queues.iter().collect(),
            Entry::Stopped { cursors } => self.cursors = Some(cursors.iter().collect()),
        }
        Ok(())
    }

    fn take_command(
        &mut self,
        segment: SegmentId,
        serial: u64,
        command: &[u8],
    ) -> Result<(), Refused> {
        if serial <= self.covered {
            return Ok(());
        }
        if serial != self.serial + 1 {
            let before = self.serial;
            let reason = format!(
                "definition change {serial} follows change {before}: {DEFINITIONS_FILE} is missing, or \
                 older than the log"
            );
            return Err(Refused(reason.into()));
        }
        let command =
            Command::decode(command).map_err(|error| Refused(error.to_string().into()))?;
        self.meta.replay(&command).map_err(|error| Refused(error.to_string().into()))?;
        self.commands.push(segment);
        self.serial = serial;
        Ok(())
    }

    fn into_definitions(mut self, storage: &Arc<Storage>) -> Definitions {
        let mut queues = imbl::OrdMap::new();
        let mut retained = SegmentCounts::default();
        let meta = self.meta.clone();
        let (mut older, mut to_read) = (Vec::new(), Vec::new());
        for def in meta.queues() {
            let settings = meta.queue_settings(def);
            let queue = match meta.queue_version(def.id) {
                QueueVersion::V1 => {
                    // What the log has is left from a conversion that did not come to its end.
                    self.contents.drain(def.id.0, |_| ());
                    let queue = Queue::new_older(Arc::clone(def), settings, Arc::clone(storage));
                    self.restore_last_use(&queue);
                    older.push((Arc::clone(&queue), self.cursor_of(def.id)));
                    queue
                }
                QueueVersion::V2 => {
                    let queue = Queue::new(Arc::clone(def), settings, Arc::clone(storage));
                    self.restore_last_use(&queue);
                    to_read.extend(self.restore(&queue, &mut retained));
                    queue
                }
            };
            queues.insert(def.id, queue);
        }
        storage.older.load_all(older, to_read);
        let mut logged = SegmentCounts::default();
        for segment in &self.commands {
            logged.add(*segment);
            retained.add(*segment);
        }
        retained.retain(&storage.wal);
        Definitions {
            meta: self.meta,
            queues,
            serial: self.serial,
            logged_upto: Lsn(0),
            logged,
            n_logged: self.commands.len() as u64,
            n_unbinding: 0,
        }
    }

    /// The first position that nobody was given before a clean stop.
    fn cursor_of(&self, QueueId(id): QueueId) -> Option<u64> {
        self.cursors.as_ref().and_then(|cursors| cursors.get(&id).copied())
    }

    /// Time goes on for a queue that nobody used before a clean stop; after a crash it begins anew.
    fn restore_last_use(&self, queue: &Queue) {
        if self.cursors.is_some()
            && let Some(unused_ms) = self.unused.get(&queue.id().0)
        {
            queue.restore_last_use(*unused_ms);
        }
    }

    /// Fills a queue. What is to be read for that is left for later.
    fn restore(&mut self, queue: &Arc<Queue>, retained: &mut SegmentCounts) -> Option<Reading> {
        let QueueId(id) = queue.id();
        let mut restoring = queue.restoring();
        let reads_later = self.contents.any_page(id, |note| restoring.must_read(note));
        if reads_later {
            restoring.read_later();
        }
        let storage = queue.storage();
        let images = &storage.images.durable;
        let returns = self.contents.take_returns(id);
        let next = self.contents.drain(id, |left| match left {
            Left::Message { segment, logged } => {
                if let Err(reason) = restore_message(&mut restoring, &logged, segment) {
                    let position = logged.position;
                    tracing::error!(queue = id, position, "a message is lost: {reason}");
                    stdx::lock(&storage.losses).n_messages += 1;
                } else {
                    retained.add(segment);
                }
            }
            Left::Page { segment, note } => {
                if restoring.page(&note, segment).is_err() || !images.retain(note.blob, 1) {
                    let file = BlobStore::name_of(PAGES_DIR, note.blob.file);
                    tracing::error!(
                        queue = id,
                        "a page of {} messages is not in {file}",
                        note.n_live
                    );
                }
                retained.add(segment);
            }
        });
        retained.add_all(restoring.returns(returns));
        // Those who read them later need the images until then.
        let mut names = restoring.names();
        names.retain(|names| images.retain(names.image, 1));
        storage.pager.count_named(names);
        // Without the note of a clean stop anything may have been delivered.
        let cursor = self.cursor_of(queue.id());
        let (next_position, seen_below) = (next.max(cursor.unwrap_or(0)), cursor.unwrap_or(next));
        restoring.end(next_position, seen_below);
        reads_later.then(|| Reading::new(Arc::clone(queue), next_position, seen_below))
    }
}

/// Puts a message back in, with a reference to its body if that is stored.
fn restore_message(
    restoring: &mut QueueRecovery<'_>,
    logged: &Logged<'_>,
    segment: SegmentId,
) -> Result<(), &'static str> {
    let Logged { position, record, is_reference } = *logged;
    let unreadable = "the log's entry cannot be read";
    let shared;
    let (message, stored) = if is_reference {
        let (message, stored) = log_records::parse_reference(record).map_err(|_| unreadable)?;
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

/// Definitions and the last change they have.
pub(crate) fn read_definitions(bytes: &[u8]) -> Result<(State, u64), String> {
    let mut reader = Reader::new(bytes);
    let serial = reader.u64().map_err(|error| error.to_string())?;
    let meta = State::restore(reader.rest()).map_err(|error| error.to_string())?;
    Ok((meta, serial))
}
