//! The broker of one node: definitions, queues, connections, and the log they share.
//!
//! The control plane (declare, users, policies) is one state machine behind one lock; after each
//! change it publishes an immutable [`View`]. The data plane reads views only.

mod deletion;

use crate::alarms::Alarms;
use crate::confirm::{self, LogFailed};
use crate::connections::{Connection, Connections};
use crate::entries::{self, SegmentCounts};
use crate::events::{BY_ITSELF, BY_OPERATOR};
use crate::exchanges::{Exchanges, Watched};
use crate::held::Holdings;
use crate::interceptors::Interceptors;
use crate::names::NameSource;
use crate::options::{BrokerOptions, Limits};
use crate::queue::Queue;
use crate::replies::Replies;
use crate::slices::Slices;
use crate::storage::{Losses, Storage};
use log::{IoContext as _, Lsn};
use meta::{
    Command, Done, MetaError, Outcome, QueueDef, QueueId, QueueVersion, Removed, SnapshotOf, State,
};
use routing::Name;
use session::ChannelId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Poll;
use stdx::Now;
use store::blob::BlobStats;

/// The file that holds the definitions as of some moment, in the data directory.
pub const DEFINITIONS_FILE: &str = "definitions.snapshot";
/// Definition commands in the log at which a snapshot of the definitions is written.
const SNAPSHOT_EVERY_COMMANDS: u64 = 20_000;
/// Segments the log may have before survivors of the oldest are moved to its end.
const RELOCATE_FROM_SEGMENTS: u64 = 4;
/// Bytes of the log per byte that is needed at which the oldest segment is moved, however much of it
/// is needed.
const RELOCATE_ABOVE_FACTOR: u64 = 3;

/// Queues are looked at for overdue messages each second, and later by a millisecond for so many.
const OVERDUE_QUEUES_PER_MS: u64 = 20;

/// Queues whose settings a change of policies changes before it is answered; more take it in slices.
const RULES_AT_ONCE_MAX: usize = 256;

/// What sessions read: everything as of one moment.
#[derive(Debug)]
pub struct View {
    /// Rises with every change.
    pub epoch: u64,
    /// The definitions.
    pub meta: State,
    queues: imbl::OrdMap<QueueId, Arc<Queue>>,
    /// Exchanges that do more than route.
    pub(crate) exchanges: Arc<Watched>,
}

impl View {
    /// The queue of that id.
    #[must_use]
    pub fn queue_by_id(&self, id: QueueId) -> Option<Arc<Queue>> {
        self.queues.get(&id).cloned()
    }

    /// The queue of that name.
    #[must_use]
    pub fn queue(&self, vhost: &str, name: &str) -> Option<Arc<Queue>> {
        self.queue_by_id(self.meta.queue(vhost, name)?.id)
    }

    /// All queues, in no particular order.
    pub fn queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.queues.values()
    }
}

/// Why a change of definitions is not reported as done.
#[derive(Debug)]
pub(crate) enum NotChanged {
    /// The definitions refuse it: nothing has changed.
    Refused(MetaError),
    /// It will never be durable.
    LogFailed,
}

impl From<MetaError> for NotChanged {
    fn from(error: MetaError) -> Self {
        Self::Refused(error)
    }
}

impl From<LogFailed> for NotChanged {
    fn from(LogFailed: LogFailed) -> Self {
        Self::LogFailed
    }
}

/// What the control plane's lock guards.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) meta: State,
    pub(crate) queues: imbl::OrdMap<QueueId, Arc<Queue>>,
    /// Number of the last logged command.
    pub(crate) serial: u64,
    /// The last logged command is durable when the log is so up to here.
    pub(crate) logged_upto: Lsn,
    /// Where logged commands lie that no snapshot covers.
    pub(crate) logged: SegmentCounts,
    pub(crate) n_logged: u64,
    /// Deletions that go in slices, and are not logged yet.
    pub(crate) n_unbinding: usize,
}

/// A change of definitions that was made, and what is still to follow from it.
#[derive(Debug)]
struct Changed {
    outcome: Outcome,
    /// Queues that are gone.
    queues: Vec<Arc<Queue>>,
    /// Exchanges that do more than route may have changed.
    any_watched: bool,
    /// Durable when the log is so up to here.
    upto: Lsn,
}

/// The broker of one node.
#[derive(Debug)]
pub struct Broker {
    pub(crate) storage: Arc<Storage>,
    options: BrokerOptions,
    pub(crate) control: Mutex<Control>,
    /// One snapshot at a time, and never an older over a newer one.
    snapshotting: Mutex<()>,
    view: Mutex<Arc<View>>,
    pub(crate) exchanges: Exchanges,
    pub(crate) save_seen_at_ms: AtomicU64,
    epoch: AtomicU64,
    /// The node's connections.
    pub connections: Connections,
    /// The node's resource alarms.
    pub alarms: Alarms,
    pub(crate) holdings: Holdings,
    pub(crate) replies: Replies,
    pub(crate) names: NameSource,
    was_new: bool,
    overdue_at_ms: AtomicU64,
    /// Where events are told, if they are.
    pub(crate) event_vhost: OnceLock<Name>,
}

impl Broker {
    pub(crate) fn assemble(
        storage: Arc<Storage>,
        control: Control,
        options: BrokerOptions,
        was_new: bool,
    ) -> Arc<Self> {
        let exchanges = Exchanges::of(&control.meta);
        if let Err(error) = exchanges.restore_seen(storage.disk.as_ref()) {
            tracing::error!("messages that exchanges have seen before are not known: {error}");
        }
        let view = Arc::new(View {
            epoch: 1,
            meta: control.meta.clone(),
            queues: control.queues.clone(),
            exchanges: exchanges.now(),
        });
        let broker = Arc::new(Self {
            storage,
            options,
            control: Mutex::new(control),
            snapshotting: Mutex::new(()),
            view: Mutex::new(view),
            exchanges,
            save_seen_at_ms: AtomicU64::new(0),
            epoch: AtomicU64::new(1),
            connections: Connections::default(),
            alarms: Alarms::default(),
            holdings: Holdings::default(),
            replies: Replies::default(),
            names: NameSource::default(),
            was_new,
            overdue_at_ms: AtomicU64::new(0),
            event_vhost: OnceLock::new(),
        });
        let weak = Arc::downgrade(&broker);
        broker.storage.older.belong_to(Weak::clone(&weak));
        broker.storage.rules.belong_to(Weak::clone(&weak));
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
    fn furnish(&self, vhost: &Name) {
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
        Arc::clone(&stdx::lock(&self.view))
    }

    /// The newest view's number: cheap to compare with the one a session holds.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The time of the last tick.
    #[must_use]
    pub fn now(&self) -> Now {
        self.storage.time.ticked()
    }

    /// Bytes of messages that queues hold in memory.
    #[must_use]
    pub fn message_bytes(&self) -> u64 {
        self.storage.pager.held_bytes.load(Ordering::Relaxed)
    }

    /// How long the oldest publish of a channel has waited for consumers, in milliseconds; none if none
    /// waits. Takes time: it is looked for among what waits.
    #[must_use]
    pub fn oldest_unconfirmed_ms(
        &self,
        connection: &Connection,
        channel: ChannelId,
    ) -> Option<u64> {
        let publisher = connection.confirms.get()?.publisher(channel)?;
        let view = self.view();
        let waited_for =
            |queue: &&Arc<Queue>| queue.counters.n_pending_confirms.load(Ordering::Relaxed) > 0;
        let queues = view.queues().filter(waited_for);
        let oldest_ms = queues.filter_map(|queue| queue.pending_since_ms(&publisher)).min()?;
        Some(self.storage.time.unix_ms().saturating_sub(oldest_ms))
    }

    /// The log's figures.
    #[must_use]
    pub fn log_stats(&self) -> log::WalStats {
        self.storage.wal.stats()
    }

    /// Figures of the files of pages: those that survive a restart, and those that do not.
    #[must_use]
    pub fn page_stats(&self) -> (BlobStats, BlobStats) {
        let images = &self.storage.images;
        (images.durable.stats(), images.volatile.stats())
    }

    /// Figures of the files of bodies, by virtual host.
    #[must_use]
    pub fn body_stats(&self) -> Vec<(Name, BlobStats)> {
        let stores = self.storage.bodies.all().into_iter();
        stores.map(|(vhost, store)| (vhost, store.stats())).collect()
    }

    /// What could not be read since the start.
    #[must_use]
    pub fn losses(&self) -> Losses {
        *stdx::lock(&self.storage.losses)
    }

    /// Changes definitions, and returns when the change is durable as far as it has to be. Never
    /// returns when the log has failed meanwhile: the node is on its way down.
    ///
    /// # Errors
    /// The definitions refuse it; nothing has changed then.
    pub async fn administer(&self, command: Command) -> Result<Done, MetaError> {
        match self.change_durably(&command, BY_OPERATOR).await {
            Ok(done) => Ok(done),
            Err(NotChanged::Refused(error)) => Err(error),
            Err(NotChanged::LogFailed) => std::future::pending().await,
        }
    }

    /// Makes the first definitions of a new data directory: all of them or, after a crash, none.
    ///
    /// # Errors
    /// One of the commands is refused; those before it are in effect then.
    pub async fn administer_first(&self, commands: &[Command]) -> Result<(), MetaError> {
        let upto = {
            let mut control = stdx::lock(&self.control);
            let mut to_log = Vec::new();
            let mut result = Ok(());
            for command in commands {
                match control.meta.apply(self.now(), command) {
                    Ok(outcome) => to_log.extend(outcome.log),
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                }
            }
            self.log_commands(&mut control, &to_log);
            self.exchanges.review(&control.meta);
            self.publish_view(&control, &Done::Changed);
            result?;
            drop(control);
            self.keep_delayed_queues();
            for command in commands {
                if let Command::CreateVhost { vhost, .. } = command {
                    self.furnish(vhost);
                }
            }
            stdx::lock(&self.control).logged_upto
        };
        if confirm::durable(&self.storage.wal, upto).await.is_err() {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    /// As [`Broker::administer`], for those who must go on when the log has failed; `by` is the user
    /// that events name.
    pub(crate) async fn change_durably(
        &self,
        command: &Command,
        by: &str,
    ) -> Result<Done, NotChanged> {
        let mut slices = Slices::default();
        let is_unbinding = self.unbind_in_slices(command, by, &mut slices).await;
        let changed = self.change_definitions(command);
        if is_unbinding {
            stdx::lock(&self.control).n_unbinding -= 1;
        }
        let mut changed = changed?;
        for queue in std::mem::take(&mut changed.queues) {
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
        let mut changed = self.change_definitions(command)?;
        for queue in std::mem::take(&mut changed.queues) {
            queue.delete();
        }
        Ok(self.after_change(changed, command, BY_ITSELF))
    }

    fn change_definitions(&self, command: &Command) -> Result<Changed, MetaError> {
        let mut control = stdx::lock(&self.control);
        control.meta.check_room(&self.limits().definitions, command)?;
        self.check_space(&control, command)?;
        let before = any_version_policy(&control.meta, command);
        let mut outcome = control.meta.apply(self.now(), command)?;
        self.choose_version(&mut control, &mut outcome);
        self.log_commands(&mut control, &outcome.log);
        let queues = self.follow(&mut control, &outcome);
        let any_watched = self.exchanges.follow(&control.meta, command, &outcome);
        self.publish_view(&control, &outcome.done);
        let upto = control.logged_upto;
        let concerned = rules_concerned(&control, command);
        let is_review_due = before || any_version_policy(&control.meta, command);
        drop(control);
        if is_review_due {
            self.storage.older.review();
        }
        self.apply_rules(concerned);
        Ok(Changed { outcome, queues, any_watched, upto })
    }

    /// What follows from a change; `by` is the user that events name.
    fn after_change(&self, changed: Changed, command: &Command, by: &str) -> (Done, Lsn) {
        let Changed { outcome, any_watched, upto, .. } = changed;
        self.close_connections_of(&outcome.removed);
        self.tell_of_change(command, &outcome, by);
        if any_watched {
            self.keep_delayed_queues();
        }
        if let (Command::Bind(spec), Done::Changed) = (command, &outcome.done) {
            self.give_history(spec);
        }
        if let Command::CreateVhost { vhost, .. } = command {
            self.furnish(vhost);
            return (outcome.done, stdx::lock(&self.control).logged_upto);
        }
        (outcome.done, upto)
    }

    /// Has queues take what changed policies ask for: at once, or, if they are many, in slices while
    /// everything goes on.
    fn apply_rules(&self, queues: Vec<Arc<Queue>>) {
        if queues.len() <= RULES_AT_ONCE_MAX {
            queues.iter().for_each(|queue| self.review_rules(queue));
        } else {
            self.storage.rules.review(queues.into_iter());
        }
    }

    /// Has a queue take what it is asked to be now.
    pub(crate) fn review_rules(&self, queue: &Queue) {
        let view = self.view();
        queue.set_settings(&view.meta.queue_settings(queue.def()), view.epoch);
    }

    /// Says in the same breath which form a new queue's messages have.
    fn choose_version(&self, control: &mut Control, outcome: &mut Outcome) {
        let Done::QueueCreated(def) = &outcome.done else { return };
        let version = control.meta.wanted_version(def, self.options.storage.default_version);
        let command = Command::SetQueueVersion { id: def.id, version };
        if let Ok(chosen) = control.meta.apply(self.now(), &command) {
            outcome.log.extend(chosen.log);
        }
    }

    /// The form a queue's messages have, and the one they should have.
    pub(crate) fn versions_of(&self, def: &QueueDef) -> (QueueVersion, QueueVersion) {
        let meta = &self.view().meta;
        (meta.queue_version(def.id), meta.wanted_version(def, self.options.storage.default_version))
    }

    /// Queues whose messages should have another form than they have.
    pub(crate) fn queues_to_convert(&self) -> Vec<Arc<Queue>> {
        let view = self.view();
        let is_wrong = |queue: &&Arc<Queue>| {
            let def = queue.def();
            let wanted = || view.meta.wanted_version(def, self.options.storage.default_version);
            def.durable && view.meta.queue_version(def.id) != wanted()
        };
        view.queues().filter(is_wrong).cloned().collect()
    }

    /// The other form of these queues counts from now on: one log entry each.
    pub(crate) fn change_forms<'q>(
        &self,
        changes: impl Iterator<Item = (&'q Arc<Queue>, QueueVersion)>,
    ) {
        let mut control = stdx::lock(&self.control);
        for (queue, version) in changes {
            queue.change_form(version, || {
                let command = Command::SetQueueVersion { id: queue.id(), version };
                let outcome = control.meta.apply(self.now(), &command).ok()?;
                self.log_commands(&mut control, &outcome.log);
                (!outcome.log.is_empty()).then_some(control.logged_upto)
            });
        }
        self.publish_view(&control, &Done::Changed);
    }

    /// Logs what a change consists of, as one unit.
    fn log_commands(&self, control: &mut Control, commands: &[Command]) {
        if commands.is_empty() {
            return;
        }
        let encode = |command: &Command| {
            let mut bytes = Vec::new();
            command.encode(&mut bytes);
            bytes
        };
        let encoded: Vec<Vec<u8>> = commands.iter().map(encode).collect();
        let appended = entries::append_meta(&self.storage.wal, control.serial + 1, &encoded);
        for _ in &encoded {
            control.logged.add(appended.segment);
        }
        control.serial += encoded.len() as u64;
        control.n_logged += encoded.len() as u64;
        control.logged_upto = appended.upto;
    }

    /// Makes the queues at run time follow the definitions. Returns those that went.
    fn follow(&self, control: &mut Control, outcome: &Outcome) -> Vec<Arc<Queue>> {
        if let Done::QueueCreated(def) = &outcome.done {
            let (def, storage) = (Arc::clone(def), Arc::clone(&self.storage));
            let settings = control.meta.queue_settings(&def);
            let queue = match control.meta.queue_version(def.id) {
                QueueVersion::V1 => {
                    let queue = Queue::new_older(def, settings, storage);
                    self.storage.older.begin(Arc::clone(&queue));
                    queue
                }
                QueueVersion::V2 => Queue::new(def, settings, storage),
            };
            control.queues.insert(queue.id(), queue);
        }
        let removed_queue = |removed: &Removed| match removed {
            Removed::Queue(def) => Some(def.id),
            Removed::Binding { .. }
            | Removed::Exchange { .. }
            | Removed::Vhost(_)
            | Removed::User(_) => None,
        };
        let ids = outcome.removed.iter().filter_map(removed_queue);
        ids.filter_map(|id| control.queues.remove(&id)).collect()
    }

    fn publish_view(&self, control: &Control, done: &Done) {
        if matches!(done, Done::Nothing | Done::QueueExists(_) | Done::ExchangeExists(_)) {
            return;
        }
        let mut view = stdx::lock(&self.view);
        let epoch = view.epoch + 1;
        let (meta, queues) = (control.meta.clone(), control.queues.clone());
        *view = Arc::new(View { epoch, meta, queues, exchanges: self.exchanges.now() });
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Connections of users and virtual hosts that are gone are closed (semantics 119).
    fn close_connections_of(&self, removed: &[Removed]) {
        for removed in removed {
            match removed {
                Removed::Vhost(vhost) => {
                    self.storage.rules.tracing().stop(vhost, None);
                    let reason = format!("vhost '{vhost}' is deleted");
                    self.kick_where(&reason, |identity| identity.vhost == vhost.as_str());
                }
                Removed::User(user) => {
                    let reason = format!("user '{user}' is deleted");
                    self.kick_where(&reason, |identity| identity.user == user.as_str());
                }
                Removed::Binding { .. } | Removed::Queue(_) | Removed::Exchange { .. } => {}
            }
        }
    }

    fn kick_where(&self, reason: &str, which: impl Fn(&crate::Identity) -> bool) {
        for connection in self.connections.list() {
            if which(&connection.identity) {
                connection.kick(reason);
            }
        }
    }

    /// Resolves when the log and journals take more, and backlogs are not far over what they may
    /// have in memory.
    pub(crate) async fn has_room(&self) {
        let when = |has_room| if has_room { Poll::Ready(()) } else { Poll::Pending };
        let Storage { wal, pager, older, rules, .. } = &*self.storage;
        std::future::poll_fn(|context| when(wal.on_room(context.waker()))).await;
        std::future::poll_fn(|context| when(pager.on_room(context.waker()))).await;
        std::future::poll_fn(|context| when(older.on_room(context.waker()))).await;
        std::future::poll_fn(|context| when(rules.on_room(context.waker()))).await;
    }

    /// To be called about once a second: takes note of the time and keeps the log short.
    pub fn tick(&self, now: Now) {
        self.storage.time.tick(now);
        self.storage.rules.look_at_time();
        self.keep_log_short();
        self.keep_memory_small();
        self.save_seen(now.monotonic_ms);
        self.look_for_overdue(now.monotonic_ms);
    }

    /// Has channels closed that hold messages for too long, and connections that hold too many.
    fn look_for_overdue(&self, now_ms: u64) {
        if now_ms < self.overdue_at_ms.load(Ordering::Relaxed) {
            return;
        }
        self.holdings.note_unacked(self.unacked_by_connection(), &self.connections);
        let (view, node_timeout_ms) = (self.view(), self.limits().consumer_timeout_ms);
        for overdue in view.queues().flat_map(|queue| queue.overdue(node_timeout_ms, now_ms)) {
            if let Some(connection) = self.connections.get(overdue.connection) {
                connection.note_overdue(overdue.channel, overdue.timeout_ms);
            }
        }
        let pause_ms = view.queues.len() as u64 / OVERDUE_QUEUES_PER_MS;
        self.overdue_at_ms.store(now_ms + pause_ms, Ordering::Relaxed);
    }

    /// Has queues page that take more than they may since others have grown, and files reclaimed.
    fn keep_memory_small(&self) {
        let pager = &self.storage.pager;
        if pager.has_excess() {
            for queue in self.view().queues() {
                queue.look_at_pages();
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
        let is_snapshot_due = {
            let control = stdx::lock(&self.control);
            let holds_commands = |oldest: log::SegmentState| control.logged.has(oldest.id);
            control.n_logged >= SNAPSHOT_EVERY_COMMANDS || oldest.is_some_and(holds_commands)
        };
        if is_snapshot_due && let Err(error) = self.snapshot_definitions() {
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
        let view = self.view();
        let mut durable: Vec<_> = view.queues().filter(|queue| queue.def().durable).collect();
        durable.sort_unstable_by_key(|queue| queue.id());
        for queue in durable {
            queue.relocate(oldest.id);
        }
    }

    /// Writes the definitions as of now; the commands that led to them are no longer needed.
    ///
    /// # Errors
    /// The disk's.
    pub fn snapshot_definitions(&self) -> Result<(), log::LogError> {
        let _one_at_a_time = stdx::lock(&self.snapshotting);
        let (state, serial, mut covered, n_covered) = {
            let mut control = stdx::lock(&self.control);
            if control.n_unbinding > 0 {
                // Half of a deletion: the log knows what was before, and soon what is after it.
                return Ok(());
            }
            let n_covered = std::mem::take(&mut control.n_logged);
            let covered = std::mem::take(&mut control.logged);
            (control.meta.clone(), control.serial, covered, n_covered)
        };
        let mut bytes = serial.to_le_bytes().to_vec();
        state.snapshot(SnapshotOf::Durable, &mut bytes);
        let (disk, stamp) = (self.storage.disk.as_ref(), self.storage.wal.stamp());
        let written = if self.storage.may_move(bytes.len() as u64) {
            log::write_stamped(disk, DEFINITIONS_FILE, stamp, &bytes)
        } else {
            Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
                .context("write", DEFINITIONS_FILE)
        };
        if written.is_ok() {
            covered.release(&self.storage.wal);
        } else {
            // They are still needed; the next snapshot may cover them.
            let mut control = stdx::lock(&self.control);
            control.n_logged += n_covered;
            control.logged.add_all(covered);
        }
        written
    }

    /// Ends the node's life in good order: what was confirmed is durable, and the next start knows
    /// which messages nobody has seen. Connections are closed before.
    ///
    /// # Errors
    /// The disk's, also those of the time before.
    pub fn stop(&self) -> Result<(), log::LogError> {
        // The log has them too.
        if !self.storage.is_short() {
            self.snapshot_definitions()?;
        }
        let view = self.view();
        let known = view.queues().filter(|queue| queue.def().durable && !queue.is_loading());
        let cursors: Vec<_> = known.map(|one| (one.id().0, one.first_undelivered())).collect();
        let durable = view.queues().filter(|queue| queue.def().durable);
        let unused = durable.filter_map(|one| Some((one.id().0, one.unused_for_ms()?)));
        let unused: Vec<_> = unused.collect();
        self.storage.pager.end();
        self.storage.older.end();
        self.storage.rules.end();
        for journal in view.queues().filter_map(|queue| queue.journal()) {
            self.storage.older.sync_at_end(&self.storage, &journal)?;
        }
        self.storage.journals.sync()?;
        entries::append_stopped(&self.storage.wal, &cursors, &unused);
        self.storage.wal.close()?;
        self.exchanges.save_seen_at_end(self.storage.disk.as_ref())
    }
}

impl Drop for Broker {
    /// Queues that wait for their turn keep the storage they wait in, and who waits for a journal
    /// keeps that.
    fn drop(&mut self) {
        self.storage.pager.end();
        self.storage.older.end();
        self.storage.rules.end();
        self.view().queues().filter_map(|queue| queue.journal()).for_each(|journal| journal.fail());
    }
}

/// Whether a command is about the policies of a virtual host that say which form queues have.
fn any_version_policy(meta: &State, command: &Command) -> bool {
    let (Command::SetPolicy { vhost, .. } | Command::ClearPolicy { vhost, .. }) = command else {
        return false;
    };
    meta.vhost(vhost).is_some_and(meta::Vhost::any_version_policy)
}

/// The queues that a command about policies may ask to be different.
fn rules_concerned(control: &Control, command: &Command) -> Vec<Arc<Queue>> {
    let (Command::SetPolicy { vhost, .. } | Command::ClearPolicy { vhost, .. }) = command else {
        return Vec::new();
    };
    let queues = control.meta.vhost(vhost).into_iter().flat_map(meta::Vhost::queues);
    queues.filter_map(|def| control.queues.get(&def.id).cloned()).collect()
}
