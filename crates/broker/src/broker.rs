//! The broker of one node: definitions, queues, connections, and the log they share.

mod deletion;
mod events;
mod exchanges;

pub(crate) use events::EventHeaders;
pub use events::Events;

use crate::alarms::Alarms;
use crate::connections::Connections;
use crate::control_plane::{Changed, ControlPlane, Definitions, Effect, View};
use crate::direct_reply_to::Replies;
use crate::exchanges::Exchanges;
use crate::held::Holdings;
use crate::interceptors::Interceptors;
use crate::log_records;
use crate::names::NameSource;
use crate::options::{BrokerOptions, Limits};
use crate::queue_ref::QueueRef;
use crate::slices::Slices;
use crate::timers::QueueTimers;
use classic::Storage;
use confirm::{self, LogFailed};
use log::{Lsn, Owner};
use meta::{Command, Done, MetaError, QueueId};
use routing::Name;
use std::sync::{Arc, OnceLock};
use stdx::Now;

/// Who has done what nobody asked for, as RabbitMQ names it ...
const BY_ITSELF: &str = "rmq-internal";
/// ... and what was asked for by the command line.
const BY_OPERATOR: &str = "rmq-cli";

/// Segments the log may have before survivors of the oldest are moved to its end.
const RELOCATE_FROM_SEGMENTS: u64 = 4;
/// Bytes of the log per byte that is needed at which the oldest segment is moved, however much of it
/// is needed.
const RELOCATE_ABOVE_FACTOR: u64 = 3;

/// Queues are looked at for overdue messages each second, and later by a millisecond for so many.
const OVERDUE_QUEUES_PER_MS: u64 = 20;

/// Queues whose settings a change of policies changes before it is answered; more take it in slices.
const RULES_AT_ONCE_MAX: usize = 256;

/// Why a change of definitions is not reported as done.
#[derive(Debug)]
pub(crate) enum ChangeError {
    /// The definitions refuse it: nothing has changed.
    Refused(MetaError),
    /// It will never be durable.
    LogFailed,
}

impl From<MetaError> for ChangeError {
    fn from(error: MetaError) -> Self {
        Self::Refused(error)
    }
}

impl From<LogFailed> for ChangeError {
    fn from(LogFailed: LogFailed) -> Self {
        Self::LogFailed
    }
}

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
                broker.keep_log_short();
            }
        });
        broker.keep_delayed_queues();
        broker
    }

    /// Whether the data directory was empty: the caller creates the default virtual host and user.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.was_new
    }

    /// Gives a virtual host that was created just now what new ones get.
    fn apply_vhost_defaults(&self, vhost: &Name) {
        for command in self.options.vhost_defaults.commands(&self.view().meta, vhost) {
            if let Err(error) = self.change(&command) {
                tracing::warn!(
                    "what the virtual host '{vhost}' is to have from the start: {error}"
                );
            }
        }
    }

    pub(crate) const fn interceptors(&self) -> Interceptors {
        self.options.interceptors
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.options.limits
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
        match self.change_durably(&command, BY_OPERATOR).await {
            Ok(done) => Ok(done),
            Err(ChangeError::Refused(error)) => Err(error),
            Err(ChangeError::LogFailed) => std::future::pending().await,
        }
    }

    /// Makes the first definitions of a new data directory: all of them or, after a crash, none.
    ///
    /// # Errors
    /// One of the commands is refused; those before it are in effect then.
    pub async fn apply_first_definitions(&self, commands: &[Command]) -> Result<(), MetaError> {
        self.carry_out(self.control_plane.submit_first(commands)?);
        let upto = self.control_plane.logged_upto();
        if confirm::durable(&self.storage.wal, upto).await.is_err() {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    /// As [`Broker::apply_definition`], for those who must go on when the log has failed; `by` is the user
    /// that events name.
    pub(crate) async fn change_durably(
        &self,
        command: &Command,
        by: &str,
    ) -> Result<Done, ChangeError> {
        let mut slices = Slices::default();
        let is_unbinding = self.unbind_in_slices(command, by, &mut slices).await;
        let changed = self.control_plane.submit(command);
        if is_unbinding {
            self.control_plane.end_unbinding();
        }
        let mut changed = changed?;
        for queue in std::mem::take(&mut changed.gone) {
            queue.delete();
            slices.did(1).await;
        }
        let (done, upto) = self.after_change(changed, command, by);
        confirm::durable(&self.storage.wal, upto).await?;
        Ok(done)
    }

    /// Changes definitions and publishes the new view. Durable when the log is so up to what is
    /// returned.
    pub(crate) fn change(&self, command: &Command) -> Result<(Done, Lsn), MetaError> {
        let mut changed = self.control_plane.submit(command)?;
        for queue in std::mem::take(&mut changed.gone) {
            queue.delete();
        }
        Ok(self.after_change(changed, command, BY_ITSELF))
    }

    /// Tells of a change and carries out what follows from it; `by` is the user that events name.
    fn after_change(&self, changed: Changed, command: &Command, by: &str) -> (Done, Lsn) {
        let Changed { outcome, effects, upto, .. } = changed;
        self.events().definitions_changed(command, &outcome, by);
        let any_defaults =
            effects.iter().any(|effect| matches!(effect, Effect::ApplyVhostDefaults(_)));
        self.carry_out(effects);
        (outcome.done, if any_defaults { self.control_plane.logged_upto() } else { upto })
    }

    fn carry_out(&self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::ReviewVersions => self.storage.v1.review(),
                Effect::ReviewSettings(queues) => self.review_settings(queues),
                Effect::CloseConnectionsTo(vhost) => {
                    self.timers.tracing().stop(&vhost, None);
                    let reason = format!("vhost '{vhost}' is deleted");
                    self.connections.kick_where(&reason, |one| one.vhost == *vhost);
                }
                Effect::CloseConnectionsOf(user) => {
                    let reason = format!("user '{user}' is deleted");
                    self.connections.kick_where(&reason, |one| one.user == *user);
                }
                Effect::KeepDelayedQueues => self.keep_delayed_queues(),
                Effect::GiveHistory(spec) => self.give_history(&spec),
                Effect::ApplyVhostDefaults(vhost) => self.apply_vhost_defaults(&vhost),
            }
        }
    }

    /// Has queues take what changed policies ask for: at once, or, if they are many, in slices while
    /// everything goes on.
    fn review_settings(&self, queues: Vec<QueueRef>) {
        if queues.len() <= RULES_AT_ONCE_MAX {
            queues.iter().for_each(|queue| self.review_rules(queue));
        } else {
            self.timers.review(queues.into_iter());
        }
    }

    /// Has a queue take what it is asked to be now.
    pub(crate) fn review_rules(&self, queue: &QueueRef) {
        let view = self.view();
        queue.set_settings(&view.meta.queue_settings(queue.def()), view.epoch);
    }

    /// To be called about once a second: takes note of the time and keeps the log short.
    pub fn tick(&self, now: Now) {
        self.storage.time.tick(now);
        self.timers.look_again();
        self.keep_log_short();
        self.keep_memory_small();
        let Storage { disk, wal, .. } = &*self.storage;
        self.exchanges.save_seen_at_times(disk.as_ref(), wal, now.monotonic_ms);
        self.look_for_overdue(now.monotonic_ms);
    }

    /// Has channels closed that hold messages for too long, and connections that hold too many.
    fn look_for_overdue(&self, now_ms: u64) {
        if !self.holdings.is_look_due(now_ms) {
            return;
        }
        self.holdings.note_unacked(self.figures().unacked_by_connection(), &self.connections);
        let (view, node_timeout_ms) = (self.view(), self.limits().consumer_timeout_ms);
        for overdue in
            view.classic_queues().flat_map(|queue| queue.upkeep().overdue(node_timeout_ms, now_ms))
        {
            if let Some(connection) = self.connections.get(overdue.connection) {
                connection.note_overdue(overdue.channel, overdue.timeout_ms);
            }
        }
        let pause_ms = view.queues().count() as u64 / OVERDUE_QUEUES_PER_MS;
        self.holdings.set_next_look(now_ms + pause_ms);
    }

    /// Has queues page that take more than they may since others have grown, and files reclaimed.
    fn keep_memory_small(&self) {
        let pager = &self.storage.pager;
        if pager.has_excess() {
            for queue in self.view().classic_queues() {
                queue.upkeep().look_at_pages();
            }
        }
        let view = self.view();
        let is_there = |vhost: &str| view.meta.vhost(vhost).is_some();
        // In this order: the view holds what is appended.
        let log = self.storage.wal.stats();
        self.storage.bodies.leave(is_there, log.appended_upto, log.durable_upto);
        pager.reclaim();
    }

    /// Moves what is left in the oldest segment to the log's end when that is worth it.
    fn keep_log_short(&self) {
        let stats = self.storage.wal.stats();
        let oldest = stats.oldest.filter(|_| stats.segments > RELOCATE_FROM_SEGMENTS);
        if self.control_plane.is_snapshot_due(oldest)
            && let Err(error) = self.control_plane.write_snapshot()
        {
            tracing::error!("cannot write the definitions: {error}");
        }
        // A segment that is needed as a whole is moved only when most of what lies behind it is
        // superfluous: segments are freed oldest first.
        let is_worth_it = |oldest: &log::SegmentState| {
            oldest.live_bytes < oldest.bytes / 2
                || stats.live_bytes < stats.bytes / RELOCATE_ABOVE_FACTOR
        };
        let may_move = |oldest: &log::SegmentState| self.storage.may_move(oldest.live_bytes);
        let Some(oldest) = oldest.filter(is_worth_it).filter(may_move) else {
            return;
        };
        let (view, owners) = (self.view(), self.storage.wal.owners_in(oldest.id));
        for queue in owners.into_iter().filter_map(|Owner(id)| view.queue_by_id(QueueId(id))) {
            if let Some(queue) = queue.as_classic() {
                queue.upkeep().relocate(oldest.id);
            }
        }
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
