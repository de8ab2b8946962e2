//! The broker of one node: definitions, queues, connections, and the log they share.

mod changes;
mod emptying;
mod events;
mod firehose;
mod kept_messages;
mod log_exchange;
mod names;
mod submission;
mod upkeep;

pub(crate) use changes::BY_OPERATOR;
pub(crate) use changes::ChangeError;
pub use changes::{Changes, follow_definitions};
pub use emptying::HalfEmptied;
pub(crate) use events::ConsumerName;
pub use events::Events;
pub(crate) use firehose::notice_of;
pub use firehose::{Firehose, Tap};
pub use log_exchange::LogLine;
use names::NameSource;
pub(crate) use submission::at_once;

use crate::alarms::{Alarm, Alarms};
use crate::connections::Connections;
use crate::direct_reply_to::Replies;
use crate::held::Holdings;
use crate::options::{BrokerOptions, Interceptors, Limits};
use crate::timers::QueueTimers;
use classic::{ClassicService, Queue, WorkerHost};
use content::{Journal, PagerHost};
use control::log_records;
use control::{ControlParts, ControlPlane, Definitions, View};
use exchanges::Exchanges;
use log::NodeIdentity;
use meta::{Command, Done, MetaError, QueueDef, QueueId, QueueVersion};
use recovery::QueueDirs;
use std::sync::Arc;
use stdx::Now;
use stream::StreamService;
use trace::events::EventLog;
use undo::Undo;

/// How the broker was started.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) options: BrokerOptions,
    pub(crate) was_new: bool,
    pub(crate) identity: NodeIdentity,
    /// Directories of queues; once the broker runs, those that nothing is known of.
    pub(crate) dirs: QueueDirs,
}

/// The broker of one node.
#[derive(Debug)]
pub struct Broker {
    pub(crate) classic: ClassicService,
    pub(crate) timers: Arc<QueueTimers>,
    pub(crate) start: Start,
    /// The definitions, and what follows from them here.
    pub control_plane: Arc<ControlPlane>,
    pub(crate) exchanges: Arc<Exchanges>,
    /// The node's connections.
    pub connections: Connections,
    /// The node's resource alarms.
    pub alarms: Alarms,
    pub(crate) holdings: Holdings,
    pub(crate) replies: Replies,
    pub(crate) undo: Arc<Undo>,
    pub(crate) names: NameSource,
    event_log: EventLog,
}

impl Broker {
    pub(crate) fn assemble(
        classic: ClassicService,
        streams: Arc<StreamService>,
        timers: Arc<QueueTimers>,
        mut definitions: Definitions,
        mut start: Start,
    ) -> Arc<Self> {
        let options = &start.options;
        let exchanges = Arc::new(Exchanges::of(&definitions.meta));
        if let Err(error) = exchanges.restore_seen(classic.storage().disk()) {
            tracing::error!("deduplication state of exchanges is lost: {error}");
        }
        let is_there = |id| definitions.meta.queues().get(QueueId(id)).is_some();
        let services = Arc::clone(&classic.services);
        let undo = Undo::open(services, Arc::clone(&streams), options.undo, is_there);
        let kept = undo.kept_streams();
        let is_known = |id| is_there(id) || kept.contains(&id);
        let is_deleted = |id| definitions.gone.has_queue(QueueId(id));
        let dirs = &mut start.dirs;
        // No new queue gets the id of one that there are files of, or that was given files.
        let last_id = dirs.last_id(QueueId(undo.last_moved_to()));
        streams.remove_deleted(&mut dirs.streams, is_known, is_deleted);
        dirs.journals.retain(|id| !is_known(*id) && !is_deleted(*id));
        if definitions.found.is_none() {
            meta::pass_queue_ids(&mut definitions.meta, last_id);
        }
        let parts = ControlParts {
            services: Arc::clone(&classic.services),
            streams,
            exchanges: Arc::clone(&exchanges),
            limits: options.limits.definitions,
            node: options.limits.node.clone(),
            homes: options.homes.clone().seen_by(start.identity.number),
            default_version: options.storage.default_version,
        };
        let control_plane = ControlPlane::new(parts, definitions);
        let connections = Connections::numbered_from(start.identity.number_base());
        let broker = Arc::new(Self {
            classic,
            timers,
            start,
            control_plane: Arc::new(control_plane),
            exchanges,
            connections,
            alarms: Alarms::default(),
            holdings: Holdings::default(),
            replies: Replies::default(),
            undo: Arc::new(undo),
            names: NameSource::default(),
            event_log: EventLog::default(),
        });
        for dir in broker.figures().leftovers() {
            tracing::warn!(
                "{dir} belongs to nothing that is defined, and no deletion is logged: it is kept"
            );
        }
        if !control::awaits_cluster(&broker.control_plane) {
            let _is_made = at_once(broker.changes().complete());
        }
        broker
    }

    /// Whether the data directory was empty: the caller creates the default virtual host and user.
    pub const fn is_new(&self) -> bool {
        self.start.was_new
    }

    pub(crate) const fn interceptors(&self) -> Interceptors {
        self.start.options.interceptors
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.start.options.limits
    }

    /// Changes of definitions.
    pub const fn changes(&self) -> Changes<'_> {
        Changes(self)
    }

    /// Everything as of now.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.control_plane.view()
    }

    /// The newest view's version: cheap to compare with the one a session holds.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.control_plane.version()
    }

    /// The time of the last tick.
    #[must_use]
    pub fn now(&self) -> Now {
        self.classic.storage().time.ticked()
    }

    /// Says whether the space that was kept back is in use: then definitions are no longer added to. The
    /// disk alarm is set by who says so.
    pub fn note_reserve(&self, is_used: bool) {
        self.classic.storage().note_reserve(is_used);
    }

    /// Changes definitions, and returns when the change is durable as far as it has to be. Never
    /// returns when the log has failed meanwhile: the node is on its way down.
    ///
    /// # Errors
    /// The definitions refuse it; nothing has changed then.
    pub async fn apply_definition(&self, command: Command) -> Result<Done, MetaError> {
        match self.changes().apply_durably(&command, BY_OPERATOR).await {
            Ok(done) => Ok(done),
            Err(ChangeError::Refused(error)) => Err(error),
            Err(ChangeError::LogFailed) => std::future::pending().await,
        }
    }

    /// To be called about once a second: takes note of the time and keeps the log short.
    pub fn tick(&self, now: Now) {
        self.classic.storage().time.tick(now);
        let is_disk_short = self.alarms.is_on(Alarm::Disk);
        let view = self.view();
        self.control_plane.streams().tick(now, is_disk_short, || view.streams());
        self.timers.look_again();
        let storage = self.classic.storage();
        storage.tell_losses(false);
        upkeep::keep_log_short(&self.control_plane, storage);
        upkeep::keep_memory_small(&self.view(), &self.classic);
        self.exchanges.save_seen_at_times(storage.disk(), &storage.wal, now.monotonic_ms);
        self.undo.expire(now.unix_ms);
        upkeep::look_for_overdue(self, now.monotonic_ms);
        upkeep::look_for_silent_consumers(self, now.monotonic_ms);
    }

    /// Writes the definitions as of now; the commands that led to them are no longer needed.
    ///
    /// # Errors
    /// The disk's.
    pub fn snapshot_definitions(&self) -> segments::Result<()> {
        self.control_plane.write_snapshot()
    }

    /// Ends the node's life in good order: what was confirmed is durable, and the next start knows
    /// which messages nobody has seen. Connections are closed before.
    ///
    /// # Errors
    /// The disk's, also those of the time before.
    pub fn stop(&self) -> Result<(), log::LogError> {
        // The log has them too.
        if !self.classic.storage().is_short() {
            self.control_plane.write_snapshot()?;
        }
        let view = self.view();
        let durable = view.classic_queues().filter(|queue| queue.def().durable);
        let of_classic = durable.map(|one| (one.id().0, one.upkeep().stop_note()));
        let of_quorum = view.quorum_queues().map(|one| (one.def().id.0, one.stop_note()));
        let notes: Vec<_> = of_classic.chain(of_quorum).collect();
        let cursors = notes.iter().filter_map(|(id, note)| Some((*id, note.first_undelivered?)));
        let unused = notes.iter().filter_map(|(id, note)| Some((*id, note.unused_ms?)));
        self.timers.stop();
        self.control_plane.streams().close(view.streams())?;
        self.classic.close(view.classic_queues())?;
        self.classic.storage().tell_losses(true);
        log_records::node::append_stopped(&self.classic.storage().wal, cursors, unused);
        self.classic.storage().wal.close()?;
        Ok(self.exchanges.save_seen_at_end(self.classic.storage().disk())?)
    }
}

impl WorkerHost for Broker {
    fn queues_to_convert(&self) -> Vec<Arc<Queue>> {
        self.control_plane.queues_to_convert()
    }

    fn wanted_version(&self, def: &QueueDef) -> QueueVersion {
        self.control_plane.wanted_version(def)
    }
}

impl PagerHost for Broker {
    fn journals(&self) -> Vec<Arc<Journal>> {
        let is_v1 = |queue: &&Arc<Queue>| {
            let stat = queue.stat();
            stat.version == QueueVersion::V1 || stat.conversion.is_some()
        };
        let queues_of_v1 = self.view();
        let queues_of_v1 = queues_of_v1.classic_queues().filter(is_v1);
        queues_of_v1.filter_map(|queue| queue.upkeep().journal()).collect()
    }

    fn pages_synced(&self) {
        upkeep::keep_log_short(&self.control_plane, self.classic.storage());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.timers.stop();
        self.classic.abort(self.view().classic_queues());
    }
}
