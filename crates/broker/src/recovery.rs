//! From files to a running broker: the definitions' snapshot, then the log on top of it.

mod content;

use crate::broker::{Broker, Control, DEFINITIONS_FILE, restored_queue};
use crate::entries::{self, Entry, SegmentCounts};
use crate::pager::{self, Pager, PagerStepper};
use crate::queue::{Queue, SHARED_BODY_MIN_BYTES};
use crate::storage::{Images, Storage, StorageOptions};
use bytes::Bytes;
use content::{Contents, Left};
use log::{Disk, LogError, Lsn, Refused, SegmentId, Wal, WalOptions};
use message::Body;
use meta::{Command, QueueId, State};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use stdx::record::Reader;
use store::StoreError;
use store::backlog::PagePool;

/// What the log told, entry by entry.
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
    #[error("cannot start the threads of the pager: {0}")]
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

impl Broker {
    /// Starts on the data in `disk`, or anew when there is none.
    ///
    /// # Errors
    /// The disk's, or data that is damaged or of a newer version.
    pub fn open(disk: Arc<dyn Disk>, options: WalOptions) -> Result<Arc<Self>, OpenError> {
        Self::open_with(disk, options, &StorageOptions::default())
    }

    /// As [`Broker::open`], with other limits.
    ///
    /// # Errors
    /// As [`Broker::open`].
    pub fn open_with(
        disk: Arc<dyn Disk>,
        mut options: WalOptions,
        storage_options: &StorageOptions,
    ) -> Result<Arc<Self>, OpenError> {
        let mut replay = Replay::from_snapshot(disk.as_ref())?;
        let pager = Pager::new(storage_options.pager);
        options.before_commit = Some(Box::new(pager.check()));
        let wal = Wal::open(Arc::clone(&disk), options, &mut |entry| replay.take(entry))?;
        let images = Images::open(&disk, storage_options)?;
        let (broker, started) = finish(replay, Parts { wal, images, pager }, disk);
        pager::start(&broker.storage).map_err(OpenError::Threads)?;
        if let Some(started) = started {
            broker.storage.wal.wait_durable(started)?;
        }
        Ok(broker)
    }

    /// As [`Broker::open_with`], with a log and a pager whose work the caller does. For simulation.
    ///
    /// # Errors
    /// As [`Broker::open`].
    pub fn open_stepped(
        disk: Arc<dyn Disk>,
        mut options: WalOptions,
        storage_options: &StorageOptions,
    ) -> Result<(Arc<Self>, log::Stepper, PagerStepper), OpenError> {
        let mut replay = Replay::from_snapshot(disk.as_ref())?;
        let pager = Pager::new(storage_options.pager);
        options.before_commit = Some(Box::new(pager.check()));
        let (wal, mut stepper) =
            Wal::open_stepped(Arc::clone(&disk), options, &mut |entry| replay.take(entry))?;
        let images = Images::open(&disk, storage_options)?;
        let (broker, started) = finish(replay, Parts { wal, images, pager }, disk);
        if let Some(started) = started {
            stepper.step();
            broker.storage.wal.wait_durable(started)?;
        }
        let pager = PagerStepper::new(&broker.storage);
        Ok((broker, stepper, pager))
    }
}

/// What a start has opened.
struct Parts {
    wal: Wal,
    images: Images,
    pager: Pager,
}

/// Puts everything in its place. Also returns what must be durable before anybody is given a
/// message: that the cursors of the last stop are no longer so.
fn finish(replay: Replay, parts: Parts, disk: Arc<dyn Disk>) -> (Arc<Broker>, Option<Lsn>) {
    let was_new = replay.serial == 0;
    let has_cursors = replay.cursors.is_some();
    let Parts { wal, images, pager } = parts;
    let (pool, held_bytes) = (PagePool::default(), AtomicU64::new(0));
    let storage = Arc::new(Storage { wal, pool, held_bytes, images, pager });
    let control = replay.into_control(&storage);
    storage.wal.start_freeing();
    storage.images.durable.start_reclaiming();
    storage.images.volatile.start_reclaiming();
    let started = has_cursors.then(|| entries::append_started(&storage.wal).upto);
    (Broker::assemble(storage, disk, control, was_new), started)
}

impl Replay {
    fn from_snapshot(disk: &dyn Disk) -> Result<Self, OpenError> {
        let (meta, covered) = match log::read_snapshot(disk, DEFINITIONS_FILE)? {
            None => (State::default(), 0),
            Some(bytes) => read_definitions(&bytes)
                .map_err(|reason| OpenError::Definitions { file: DEFINITIONS_FILE, reason })?,
        };
        Ok(Self {
            meta,
            covered,
            serial: covered,
            contents: Contents::default(),
            commands: Vec::new(),
            cursors: None,
            n_entries: 0,
        })
    }

    fn take(&mut self, entry: log::Entry<'_>) -> Result<(), Refused> {
        self.cursors = None;
        self.n_entries += 1;
        let parsed = entries::parse(entry.kind, entry.payload)
            .map_err(|error| Refused(error.to_string().into()))?;
        match parsed {
            Entry::Message { queue, position, record } => {
                self.contents.message(entry.segment, queue, position, record);
            }
            Entry::Settled { queue, positions } => self.contents.settled(queue, positions.iter()),
            Entry::Purged { queue, ranges } => self.contents.ranges_gone(queue, ranges.iter()),
            Entry::Paged { queue, note } => self.contents.paged(entry.segment, queue, note),
            Entry::Meta { serial, command } => self.take_command(entry.segment, serial, command)?,
            Entry::Started => {}
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
        let command =
            Command::decode(command).map_err(|error| Refused(error.to_string().into()))?;
        self.meta.replay(&command).map_err(|error| Refused(error.to_string().into()))?;
        self.commands.push(segment);
        self.serial = serial;
        Ok(())
    }

    fn into_control(mut self, storage: &Arc<Storage>) -> Control {
        let mut queues = imbl::HashMap::new();
        let mut retained = SegmentCounts::default();
        let meta = self.meta.clone();
        for def in meta.queues() {
            let queue = restored_queue(def, storage);
            self.restore(&queue, &mut retained);
            queues.insert(def.id, queue);
        }
        let mut logged = SegmentCounts::default();
        for segment in &self.commands {
            logged.add(*segment);
            retained.add(*segment);
        }
        retained.retain(&storage.wal);
        Control {
            meta: self.meta,
            queues,
            serial: self.serial,
            logged_upto: Lsn(0),
            logged,
            n_logged: self.commands.len() as u64,
        }
    }

    fn restore(&mut self, queue: &Queue, retained: &mut SegmentCounts) {
        let QueueId(id) = queue.id();
        let mut restoring = queue.restoring();
        let images = &queue.storage().images.durable;
        let next = self.contents.drain(id, |left| {
            let (position, segment, record) = match left {
                Left::Message { position, segment, record } => (position, segment, record),
                Left::Page { segment, note } => {
                    if restoring.page(&note, segment).is_err() || !images.retain(note.blob, 1) {
                        tracing::error!(
                            queue = id,
                            "a page in the log is not in its file: {note:?}"
                        );
                    }
                    retained.add(segment);
                    return;
                }
            };
            let Ok(mut message) = message::parse_record(record, None) else {
                tracing::error!(queue = id, position, "a message in the log cannot be read");
                return;
            };
            let shared;
            if message.body.len() >= SHARED_BODY_MIN_BYTES {
                shared = Bytes::copy_from_slice(message.body.bytes());
                message.body = Body::Shared(&shared);
            }
            retained.add(segment);
            restoring.message(position, &message, segment);
        });
        // Without the note of a clean stop anything may have been delivered.
        let cursor = self.cursors.as_ref().and_then(|cursors| cursors.get(&id).copied());
        restoring.end(next.max(cursor.unwrap_or(0)), cursor.unwrap_or(next));
    }
}

fn read_definitions(bytes: &[u8]) -> Result<(State, u64), String> {
    let mut reader = Reader::new(bytes);
    let serial = reader.u64().map_err(|error| error.to_string())?;
    let meta = State::restore(reader.rest()).map_err(|error| error.to_string())?;
    Ok((meta, serial))
}
