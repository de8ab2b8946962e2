//! A stream: its definition, what is being written, and who reads.

use crate::membership::Memberships;
use crate::readers::Readers;
use crate::services::{StreamDurability, StreamServices};
use crate::writer::Writer;
use chunk_log::{ChunkLog, ChunkLogError, Lack, LogOptions, LogView, Recovered, Retention};
use meta::{ConnectionId, QueueDef, QueueId, StreamSettings};
use queue_type::{
    AttachRefused, ConsumerView, DeleteConditions, Owner, QueueRefused, QueueStat, Wakes, wake_all,
};
use session::{ChunkSelection, LinkId, StreamOffset};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// A stream.
///
/// Lock order: the writer's, then `confirm::ConfirmQueue`'s or an outbox's; a consumer's cursor, then an
/// outbox's; never the writer's together with a cursor's.
#[derive(Debug)]
pub struct Stream {
    pub(crate) me: Weak<Self>,
    def: Arc<QueueDef>,
    pub(crate) services: Arc<StreamServices>,
    pub(crate) writer: Mutex<Writer>,
    /// The committed part of its log, as readers see it.
    pub view: LogView,
    pub(crate) readers: Readers,
    /// The groups of its single active consumers.
    pub memberships: Memberships,
    /// Entries that are committed since the start.
    pub(crate) n_committed: AtomicU64,
    state: StreamState,
    /// The last committed chunk of messages, as deliveries tell it; [`UNKNOWN_CHUNK`] after a start.
    pub(crate) last_chunk_id: AtomicU64,
}

/// Whether anybody can use a stream.
#[derive(Debug)]
struct StreamState {
    /// Whether the stream is deleted: nothing is taken any more. Set under the writer's lock.
    has_ended: AtomicBool,
    /// The lack of something the stream had: with one nothing is taken or given.
    closed: Option<Box<Lack>>,
}

/// The id of no chunk.
const UNKNOWN_CHUNK: u64 = u64::MAX;

impl Stream {
    /// The stream whose files are in the directory of its id, and what was found; they are made if there are
    /// none.
    ///
    /// # Errors
    /// The disk's, and what is wrong with the files.
    pub(crate) fn open(
        def: Arc<QueueDef>,
        settings: &StreamSettings,
        services: Arc<StreamServices>,
    ) -> Result<(Arc<Self>, Recovered), ChunkLogError> {
        let (mut log, recovered) =
            ChunkLog::open(&services.files, def.id.0, log_options(settings))?;
        // A process that was killed may have written what it never synced, and so never confirmed. From here
        // on readers see it, and publishers that send it again are told that it is there.
        if services.options.durability == StreamDurability::Fsync && !log.is_checkpointed() {
            log.checkpoint()?;
        }
        let view = log.view().clone();
        view.set_committed(recovered.end);
        let tracking = log.restore_tracking()?;
        let writer = Writer::new(log, tracking, settings.filter_bytes);
        Ok((assemble(def, services, view, writer, None), recovered))
    }

    /// A stream that lacks something, and is closed.
    pub(crate) fn closed(
        def: Arc<QueueDef>,
        settings: &StreamSettings,
        services: Arc<StreamServices>,
        lack: Lack,
    ) -> Arc<Self> {
        let view = LogView::closed(&services.files, def.id.0);
        let writer = Writer::closed(settings.filter_bytes);
        assemble(def, services, view, writer, Some(Box::new(lack)))
    }

    /// The missing part for which nobody can use the stream; none if the stream is whole.
    #[must_use]
    pub fn lack(&self) -> Option<&Lack> {
        self.state.closed.as_deref()
    }

    /// The first offset of the last committed chunk of messages; 0 if there is none. Looked up after a start,
    /// unless something is committed since.
    pub(crate) fn last_chunk_id(&self) -> u64 {
        let known = self.last_chunk_id.load(Ordering::Acquire);
        if known != UNKNOWN_CHUNK {
            return known;
        }
        let last = self.resolve(StreamOffset::Last, &ChunkSelection::default()).unwrap_or(0);
        self.last_chunk_id
            .compare_exchange(UNKNOWN_CHUNK, last, Ordering::AcqRel, Ordering::Acquire)
            .map_or_else(|newer| newer, |_unknown| last)
    }

    /// Its definition.
    #[must_use]
    pub const fn def(&self) -> &Arc<QueueDef> {
        &self.def
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> QueueId {
        self.def.id
    }

    /// Its figures.
    #[must_use]
    pub fn stat(&self) -> QueueStat {
        QueueStat {
            n_ready: self.view.next_offset().saturating_sub(self.view.first_offset()),
            n_unacked: self.readers.n_unacked(),
            n_consumers: self.readers.len() as u64,
            counts: self.readers.counts(self.view.next_offset()),
            ..QueueStat::default()
        }
    }

    /// Its consumers.
    #[must_use]
    pub fn consumers(&self) -> Vec<ConsumerView> {
        self.readers.views()
    }

    /// Adds up how many messages each channel holds.
    pub fn count_held(&self, held: &mut BTreeMap<Owner, u64>) {
        self.readers.each_held(|owner, n| *held.entry(owner).or_default() += n);
    }

    /// The refusal of a `basic.get`. COMPAT: RabbitMQ's text.
    #[must_use]
    pub fn refuse_get(&self) -> AttachRefused {
        let resource = self.def.resource();
        AttachRefused::NotImplemented(format!(
            "basic.get not supported by stream queues {resource}"
        ))
    }

    /// The refusal of a purge. COMPAT: RabbitMQ's text.
    #[must_use]
    pub fn refuse_purge(&self) -> QueueRefused {
        let resource = self.def.resource();
        QueueRefused::NotImplemented(format!(
            "queue.purge not supported by stream queues {resource}"
        ))
    }

    /// Gives back the memory of readers that read nothing. To be called about once a second.
    pub fn tick(&self) {
        self.readers.rest();
    }

    /// Allows a delete; the stream takes messages until then. COMPAT: whatever the conditions are, and no
    /// message is said to go with it.
    ///
    /// # Errors
    /// None.
    pub const fn begin_delete(&self, _conditions: DeleteConditions) -> Result<u64, QueueRefused> {
        Ok(0)
    }

    /// Removes the subscriptions and publishers of a connection without telling its client, which hears of
    /// the deletion otherwise: the links of its subscriptions; none if it has neither these nor publishers.
    #[must_use]
    pub fn leave(&self, connection: ConnectionId) -> Option<Vec<LinkId>> {
        self.readers.leave(connection)
    }

    /// Ends the stream: tells its consumers and takes nothing from now on. Its files stay:
    /// [`remove_files_after`] is next.
    ///
    /// [`remove_files_after`]: crate::remove_files_after
    pub fn delete(&self) {
        let mut wakes = Wakes::new();
        {
            let _nobody_publishes = stdx::lock(&self.writer);
            self.state.has_ended.store(true, Ordering::Release);
        }
        self.memberships.end();
        self.readers.end(&self.def.name, &mut wakes);
        wake_all(&mut wakes);
    }

    /// Whether it is deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.state.has_ended.load(Ordering::Acquire)
    }
}

fn assemble(
    def: Arc<QueueDef>,
    services: Arc<StreamServices>,
    view: LogView,
    writer: Writer,
    closed: Option<Box<Lack>>,
) -> Arc<Stream> {
    Arc::new_cyclic(|me| Stream {
        me: Weak::clone(me),
        def,
        memberships: Memberships::new(&services),
        services,
        writer: Mutex::new(writer),
        view,
        readers: Readers::default(),
        n_committed: AtomicU64::new(0),
        state: StreamState { has_ended: AtomicBool::new(false), closed },
        last_chunk_id: AtomicU64::new(UNKNOWN_CHUNK),
    })
}

/// An error with the words for clients if a stream is closed.
pub(crate) fn check_open(stream: &Stream) -> Result<(), String> {
    let Some(lack) = stream.lack() else { return Ok(()) };
    Err(format!("{} is closed: {}", stream.def.resource(), lack.what))
}

/// The form of its files, by its arguments and policies.
pub(crate) fn log_options(settings: &StreamSettings) -> LogOptions {
    let StreamSettings { max_bytes, max_age_ms, segment_bytes, initial_offset, .. } = *settings;
    LogOptions {
        segment_bytes_max: segment_bytes,
        retention: Retention { bytes_max: max_bytes, age_max_ms: max_age_ms },
        initial_offset,
        ..LogOptions::default()
    }
}
