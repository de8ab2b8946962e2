//! The broker of one node: definitions, queues, connections, and the log they share.

mod changes;
mod events;
mod exchanges;
mod upkeep;

pub(crate) use changes::ChangeError;
pub use changes::Changes;
pub(crate) use events::EventHeaders;
pub use events::Events;

use crate::alarms::Alarms;
use crate::connections::Connections;
use crate::control_plane::{ControlPlane, Definitions, View};
use crate::direct_reply_to::Replies;
use crate::exchanges::Exchanges;
use crate::held::Holdings;
use crate::interceptors::Interceptors;
use crate::log_records;
use crate::names::NameSource;
use crate::options::{BrokerOptions, Limits};
use crate::timers::QueueTimers;
use classic::Storage;
use meta::{Command, Done, MetaError};
use routing::Name;
use std::sync::{Arc, OnceLock};
use stdx::Now;

/// The broker of one node.
#[derive(Debug)]
pub struct Broker {
    pub(crate) storage: Arc<Storage>,
    pub(crate) timers: Arc<QueueTimers>,
    options: BrokerOptions,
    pub(crate) control_plane: Arc<ControlPlane>,
    pub(crate) exchanges: Arc<Exchanges>,
    /// The node's connections.
    pub connections: Connections,
    /// The node's resource alarms.
    pub alarms: Alarms,
    pub(crate) holdings: Holdings,
    pub(crate) replies: Replies,
    pub(crate) names: NameSource,
    was_new: bool,
    /// Where events are told, if they are.
    pub(crate) event_vhost: OnceLock<Name>,
}

impl Broker {
    pub(crate) fn assemble(
        (storage, timers): (Arc<Storage>, Arc<QueueTimers>),
        definitions: Definitions,
        options: BrokerOptions,
        was_new: bool,
    ) -> Arc<Self> {
        let exchanges = Arc::new(Exchanges::of(&definitions.meta));
        if let Err(error) = exchanges.restore_seen(storage.disk.as_ref()) {
            tracing::error!("messages that exchanges have seen before are not known: {error}");
        }
        let control_plane =
            ControlPlane::new(Arc::clone(&storage), Arc::clone(&exchanges), definitions, &options);
        let broker = Arc::new(Self {
            storage,
            timers,
            options,
            control_plane: Arc::new(control_plane),
            exchanges,
            connections: Connections::default(),
            alarms: Alarms::default(),
            holdings: Holdings::default(),
            replies: Replies::default(),
            names: NameSource::default(),
            was_new,
            event_vhost: OnceLock::new(),
        });
        let weak = Arc::downgrade(&broker);
        let control_plane = Arc::downgrade(&broker.control_plane);
        broker.storage.v1.belong_to(control_plane);
        broker.storage.pager.after_sync(move || {
            if let Some(broker) = weak.upgrade() {
                upkeep::keep_log_short(&broker.control_plane, &broker.storage);
            }
        });
        broker.changes().keep_delayed_queues();
        broker
    }

    /// Whether the data directory was empty: the caller creates the default virtual host and user.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.was_new
    }

    pub(crate) const fn interceptors(&self) -> Interceptors {
        self.options.interceptors
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.options.limits
    }

    /// Changes of definitions.
    #[must_use]
    pub const fn changes(&self) -> Changes<'_> {
        Changes(self)
    }

    /// Everything as of now.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.control_plane.view()
    }

    /// The newest view's number: cheap to compare with the one a session holds.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.control_plane.epoch()
    }

    /// The time of the last tick.
    #[must_use]
    pub fn now(&self) -> Now {
        self.storage.time.ticked()
    }

    /// Says whether the space that was kept back is in use: then definitions are no longer added to. The
    /// disk alarm is set by who says so.
    pub fn note_reserve(&self, is_used: bool) {
        self.storage.note_reserve(is_used);
    }

    /// Changes definitions, and returns when the change is durable as far as it has to be. Never
    /// returns when the log has failed meanwhile: the node is on its way down.
    ///
    /// # Errors
    /// The definitions refuse it; nothing has changed then.
    pub async fn apply_definition(&self, command: Command) -> Result<Done, MetaError> {
        match self.changes().apply_durably(&command, changes::BY_OPERATOR).await {
            Ok(done) => Ok(done),
            Err(ChangeError::Refused(error)) => Err(error),
            Err(ChangeError::LogFailed) => std::future::pending().await,
        }
    }

    /// To be called about once a second: takes note of the time and keeps the log short.
    pub fn tick(&self, now: Now) {
        self.storage.time.tick(now);
        self.timers.look_again();
        upkeep::keep_log_short(&self.control_plane, &self.storage);
        upkeep::keep_memory_small(&self.view(), &self.storage);
        let Storage { disk, wal, .. } = &*self.storage;
        self.exchanges.save_seen_at_times(disk.as_ref(), wal, now.monotonic_ms);
        upkeep::look_for_overdue(self, now.monotonic_ms);
    }

    /// Writes the definitions as of now; the commands that led to them are no longer needed.
    ///
    /// # Errors
    /// The disk's.
    pub fn snapshot_definitions(&self) -> Result<(), log::LogError> {
        self.control_plane.write_snapshot()
    }

    /// Ends the node's life in good order: what was confirmed is durable, and the next start knows
    /// which messages nobody has seen. Connections are closed before.
    ///
    /// # Errors
    /// The disk's, also those of the time before.
    pub fn stop(&self) -> Result<(), log::LogError> {
        // The log has them too.
        if !self.storage.is_short() {
            self.control_plane.write_snapshot()?;
        }
        let view = self.view();
        let durable = view.classic_queues().filter(|queue| queue.def().durable);
        let notes: Vec<_> = durable.map(|one| (one.id().0, one.upkeep().stop_note())).collect();
        let cursors = notes.iter().filter_map(|(id, note)| Some((*id, note.first_undelivered?)));
        let unused = notes.iter().filter_map(|(id, note)| Some((*id, note.unused_ms?)));
        let (cursors, unused): (Vec<_>, Vec<_>) = (cursors.collect(), unused.collect());
        self.storage.pager.end();
        self.storage.v1.end();
        self.timers.stop();
        for journal in view.classic_queues().filter_map(|queue| queue.upkeep().journal()) {
            self.storage.v1.sync_at_end(&self.storage, &journal)?;
        }
        self.storage.journals.sync()?;
        log_records::node::append_stopped(&self.storage.wal, &cursors, &unused);
        self.storage.wal.close()?;
        self.exchanges.save_seen_at_end(self.storage.disk.as_ref())
    }
}

impl Drop for Broker {
    /// Queues that wait for their turn keep the storage they wait in, and who waits for a journal
    /// keeps that.
    fn drop(&mut self) {
        self.storage.pager.end();
        self.storage.v1.end();
        self.timers.stop();
        self.view()
            .classic_queues()
            .filter_map(|queue| queue.upkeep().journal())
            .for_each(|journal| journal.fail());
    }
}
