//! The definitions of a node, the queues they name, and the log of both: one state machine behind one lock.
//! After each change an immutable [`View`] is published, which is all that the data plane reads.
//!
//! Never connections, sessions or events: what follows elsewhere from a change is returned as [`Effects`].

mod asking;
mod command_log;
mod difference;
mod effects;
mod following;
mod founding;
mod new_streams;
mod node_work;
mod placing;
mod planned;
mod replica;
mod replication;
mod sharding;
mod snapshot;

pub use command_log::CommandLog;
pub use effects::{Effects, LeaderEffects, NodeEffect};
pub use founding::{
    FoundReplica, FoundingError, discard_others, found_cluster, join_cluster, resume_cluster,
};
pub use node_work::{NodeWork, NodeWorkDue};
pub use planned::{HeldDefinitions, PlanError, Planned};
pub use replica::{ASK_TIMEOUT_MS, DefinitionsLinks, ReplicaParts};
pub use replication::{Asking, Replication};
pub use snapshot::{DEFINITIONS_FILE, awaits_cluster};

use crate::churn::QueueChurn;
use crate::gone::Gone;
use crate::queue_homes::QueueHomes;
use crate::slices::SLICE;
use crate::view::View;
use chunk_log::ChunkLogError;
use classic::Queue;
use content::{Services, Storage};
use effects::Before;
use exchanges::{Exchanges, NewlyDelaying};
use log::{Appended, Lsn};
use message_store::MessageStores;
use meta::{
    Command, Done, MetaError, Name, NodeLimits, Outcome, QueueDef, QueueId, QueueKind,
    QueueVersion, Removed, State,
};
use queues::QueueRef;
use remote::Homes;
use replica::Replica;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use stream::{Lack, Stream, StreamService};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Definitions, and where in the log they are.
#[derive(Debug)]
pub struct Definitions {
    /// The definitions.
    pub meta: State,
    /// The queues that they name, by id.
    pub queues: imbl::OrdMap<QueueId, QueueRef>,
    /// New streams, which join `queues` once their declarations are logged.
    new_streams: BTreeMap<QueueId, Arc<Stream>>,
    /// Streams whose files were made before the declarations that are in progress, by virtual host and name.
    premade: BTreeMap<(Name, Name), Arc<Stream>>,
    pub(crate) log: CommandLog,
    /// Deletions whose bindings are removed in slices, and that are not logged yet.
    pub(crate) n_unbinding: usize,
    /// Deletions that files may still have to follow.
    pub gone: Gone,
    /// The node's replica, if others have the definitions too.
    replica: Option<Box<Replica>>,
    /// The node's replica, as a start has found it and until it goes on.
    pub found: Option<Box<FoundReplica>>,
    /// The definitions that replicas have agreed on; none of a lone node.
    agreed: Option<Agreed>,
}

/// Definitions that replicas have agreed on.
#[derive(Clone, Copy, Debug)]
struct Agreed {
    /// Their epoch.
    epoch: u64,
}

impl Definitions {
    /// Takes definitions and queues that were recovered.
    pub const fn new(
        meta: State,
        queues: imbl::OrdMap<QueueId, QueueRef>,
        log: CommandLog,
        gone: Gone,
    ) -> Self {
        Self {
            meta,
            queues,
            new_streams: BTreeMap::new(),
            premade: BTreeMap::new(),
            log,
            n_unbinding: 0,
            gone,
            replica: None,
            found: None,
            agreed: None,
        }
    }
}

/// Commands that were carried out, with their outcomes: the requested ones, and others made for them.
pub type Made<'c> = Vec<(Cow<'c, Command>, Outcome)>;

/// A change of definitions that was made, and what is still to follow from it.
#[derive(Debug)]
pub struct Changed<'c> {
    /// The commands that were asked for, then those that shards need for them; the asker's node tells of them
    /// as events.
    pub made: Made<'c>,
    /// Queues that are gone from the definitions, and still have their messages.
    pub gone: Vec<QueueRef>,
    /// The effects on others than the definitions and their queues.
    pub effects: Effects,
    /// The change is durable when the log is so up to here.
    pub upto: Lsn,
}

/// The reason for a new view.
#[derive(Clone, Copy)]
enum Cause {
    /// A change of definitions.
    Definitions,
    /// Something that only this node does.
    Node,
}

/// The control plane of a node.
#[derive(Debug)]
pub struct ControlPlane {
    parts: ControlParts,
    definitions: Mutex<Definitions>,
    /// Held while a snapshot is written, so that an older one never replaces a newer one.
    snapshotting: Mutex<()>,
    /// Held while a stream is opened without its missing data: one stream at a time.
    accepting: Mutex<()>,
    view: Mutex<Arc<View>>,
    /// The version of the newest view.
    version: AtomicU64,
    /// Told of each new view.
    published: Notify,
    /// The work that other nodes' changes leave for this one; of a lone node there is none.
    node_work: OnceLock<Arc<NodeWork>>,
    /// Queues that came and went.
    pub churn: QueueChurn,
}

/// The parts of a node that definitions take effect on, and the node's limits.
#[derive(Debug)]
pub struct ControlParts {
    /// The services of classic and quorum queues.
    pub services: Arc<Services>,
    /// The service of streams.
    pub streams: Arc<StreamService>,
    /// Exchanges that do more than route.
    pub exchanges: Arc<Exchanges>,
    /// The limits of definitions.
    pub limits: NodeLimits,
    /// The node's name, as the names of shards have it.
    pub node: String,
    /// The homes of queues.
    pub homes: QueueHomes,
    /// The version of queues for which neither arguments nor a policy name one.
    pub default_version: QueueVersion,
}

/// The other nodes, as homes of queues.
#[must_use]
pub const fn other_homes(control_plane: &ControlPlane) -> &Arc<Homes> {
    control_plane.parts.homes.others()
}

impl ControlPlane {
    /// Begins with definitions that were recovered.
    #[must_use]
    pub fn new(parts: ControlParts, definitions: Definitions) -> Self {
        let view = Arc::new(View {
            epoch: 1,
            n_local: 0,
            meta: definitions.meta.clone(),
            queues: definitions.queues.clone(),
            exchanges: parts.exchanges.now(),
        });
        Self {
            parts,
            definitions: Mutex::new(definitions),
            snapshotting: Mutex::new(()),
            accepting: Mutex::new(()),
            version: AtomicU64::new(view.version()),
            published: Notify::new(),
            view: Mutex::new(view),
            node_work: OnceLock::new(),
            churn: QueueChurn::default(),
        }
    }

    /// The service of streams.
    pub const fn streams(&self) -> &Arc<StreamService> {
        &self.parts.streams
    }

    /// The newest view.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&stdx::lock(&self.view))
    }

    /// The newest view's version: cheap to compare with the one a session holds.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Resolves when there is a newer view than at the time of this call.
    pub fn published(&self) -> Notified<'_> {
        self.published.notified()
    }

    /// The last change is durable when the log is so up to here.
    pub fn logged_upto(&self) -> Lsn {
        let definitions = stdx::lock(&self.definitions);
        let replica = definitions.replica.as_ref().map(|replica| replica.upto);
        replica.unwrap_or_else(|| definitions.log.upto())
    }

    /// The way of changes while replicas have to agree on the definitions; none on a lone node.
    pub fn replication(&self) -> Option<Replication<'_>> {
        Replication::of(self)
    }

    /// Makes a change, logs it and publishes the new view.
    ///
    /// # Errors
    /// The definitions refuse it, or there is no space for it; nothing has changed then.
    pub fn submit<'c>(&self, command: &'c Command) -> Result<Changed<'c>, MetaError> {
        let mut definitions = stdx::lock(&self.definitions);
        let before = Before::of(&definitions.meta, std::iter::once(command));
        let sharded = sharding::sharded(&definitions.meta, command);
        let outcome = self.apply(&mut definitions, command)?;
        let mut made = vec![(Cow::Borrowed(command), outcome)];
        let mut to_reshard = sharding::resharded(&definitions.meta, command, &sharded);
        self.reshard_some(&mut definitions, &mut to_reshard, &mut made);
        let leader = LeaderEffects { to_reshard, ..LeaderEffects::default() };
        Ok(self.complete(&mut definitions, made, before, leader))
    }

    /// Applies a command to the definitions; of what follows from it only the files of a new stream are made,
    /// so that it is refused without them.
    fn apply(
        &self,
        definitions: &mut Definitions,
        command: &Command,
    ) -> Result<Outcome, MetaError> {
        stdx::walk::step("apply");
        if definitions.found.is_some() {
            return Err(MetaError::TimedOut("the definitions' group has not begun".to_owned()));
        }
        let command = self.parts.limits.types.complete(&definitions.meta, command);
        let (command, premade) = new_streams::take_premade(definitions, command);
        let command = &*command;
        definitions.meta.check_room(&self.parts.limits, command)?;
        self.check_space(&definitions.meta, command)?;
        make_way(&self.storage().bodies, command)?;
        let declare =
            if let Command::DeclareQueue(declare) = command { Some(declare) } else { None };
        let before = declare.map(|_| definitions.meta.clone());
        let outcome = definitions.meta.apply(self.storage().time.ticked(), command)?;
        if let (Done::QueueCreated(def), Some(before)) = (&outcome.done, before)
            && def.kind == QueueKind::Stream
            && self.parts.homes.is_here(&definitions.meta, def)
        {
            let settings = meta::stream_settings(&definitions.meta, def);
            let has_files = declare.is_some_and(|declare| declare.id.is_some());
            let made = match premade {
                Some(stream) => {
                    stream.set_settings(&settings, self.view().epoch);
                    Ok(stream)
                }
                None if has_files => self.parts.streams.open(def, &settings),
                None => self.parts.streams.make(def, &settings),
            };
            match made {
                Ok(stream) => _ = definitions.new_streams.insert(def.id, stream),
                Err(error) => {
                    definitions.meta = before;
                    let (object, reason) = (def.resource().to_string(), error.to_string());
                    return Err(MetaError::NoFiles { object, reason });
                }
            }
        }
        Ok(outcome)
    }

    /// Logs what was applied to the definitions, has everything follow, and publishes the new view.
    fn complete<'c>(
        &self,
        definitions: &mut Definitions,
        made: Made<'c>,
        before: Before,
        leader: LeaderEffects,
    ) -> Changed<'c> {
        let appended = self.log(definitions, &made);
        let mut effects = Effects { leader, ..Effects::default() };
        let changes = made.iter().map(|(_, outcome)| outcome.change());
        let delaying = &mut effects.leader.delaying;
        let gone = self.follow(definitions, changes.clone(), appended, delaying);
        changes.for_each(|change| effects::of_change(before, definitions, change, &mut effects));
        // Queues that are gone again already.
        let unused = std::mem::take(&mut definitions.new_streams);
        unused.values().for_each(|stream| self.parts.streams.unmake(stream));
        Changed { made, gone, effects, upto: definitions.log.upto() }
    }

    /// Makes several changes, which a crash undoes together. Refuses the first that is refused; those before
    /// it are made.
    pub fn submit_first(&self, commands: &[Command]) -> Result<Effects, MetaError> {
        let mut definitions = stdx::lock(&self.definitions);
        let (mut to_log, mut effects) = (Vec::new(), Effects::default());
        effects.leader.delaying.push(NewlyDelaying::Any);
        let result = commands.iter().try_for_each(|command| {
            make_way(&self.storage().bodies, command)?;
            let outcome = definitions.meta.apply(self.storage().time.ticked(), command)?;
            effects::of_change(Before::default(), &definitions, outcome.change(), &mut effects);
            to_log.push(outcome);
            Ok(())
        });
        let commands = to_log.iter().flat_map(Outcome::durable);
        definitions.log.append(&self.storage().wal, commands, |_| ());
        self.parts.exchanges.review(&definitions.meta);
        self.publish(&definitions, Cause::Definitions);
        result.map(|()| effects)
    }

    /// Refuses a command that would make definitions longer while only the reserve of disk space is left.
    /// Objects that exist may be declared again.
    fn check_space(&self, meta: &State, command: &Command) -> Result<(), MetaError> {
        if !self.storage().is_reserve_used() || !command.adds() {
            return Ok(());
        }
        // The command is tried on a copy, which costs next to nothing.
        let outcome = meta.clone().apply(self.storage().time.ticked(), command)?;
        if outcome.durable().next().is_none() { Ok(()) } else { Err(MetaError::NoSpace) }
    }

    /// Logs changes as one unit, with the versions of new queues.
    fn log(&self, definitions: &mut Definitions, made: &Made<'_>) -> Option<Appended> {
        let meta = &definitions.meta;
        let new = made.iter().filter_map(|(_, outcome)| {
            let Done::QueueCreated(def) = &outcome.done else { return None };
            Some((def.id, self.parts.new_version(meta, def)))
        });
        let commands = made.iter().flat_map(|(_, outcome)| outcome.durable());
        definitions.log.append(&self.storage().wal, commands, |batch| {
            for (id, version) in new.filter(|(_, version)| *version == QueueVersion::V1) {
                content::records::put_version(batch, id.0, version);
            }
        })
    }

    fn publish(&self, definitions: &Definitions, cause: Cause) {
        stdx::walk::step("view");
        let mut view = stdx::lock(&self.view);
        let (epoch, n_local) = match cause {
            Cause::Definitions => {
                (definitions.agreed.map_or(view.epoch + 1, |agreed| agreed.epoch), view.n_local)
            }
            Cause::Node => (view.epoch, view.n_local + 1),
        };
        let (meta, queues) = (definitions.meta.clone(), definitions.queues.clone());
        let exchanges = self.parts.exchanges.now();
        *view = Arc::new(View { epoch, n_local, meta, queues, exchanges });
        self.version.store(view.version(), Ordering::Release);
        self.published.notify_waiters();
    }

    /// Removes a slice of the bindings of what a command is about to delete; none if they are few. The first
    /// slice begins the [`Unbinding`].
    pub fn unbind_slice<'p>(
        &'p self,
        command: &Command,
        unbinding: &mut Option<Unbinding<'p>>,
    ) -> Vec<Removed> {
        let mut definitions = stdx::lock(&self.definitions);
        if definitions.replica.is_some() {
            // Definitions that replicas agree on are changed by facts alone.
            return Vec::new();
        }
        let removed = definitions.meta.unbind_some(command, SLICE);
        if !removed.is_empty() {
            unbinding.get_or_insert_with(|| {
                definitions.n_unbinding += 1;
                Unbinding(self)
            });
            self.publish(&definitions, Cause::Node);
        }
        removed
    }

    /// Queues whose version is not the one they should have.
    pub fn queues_to_convert(&self) -> Vec<Arc<Queue>> {
        let view = self.view();
        let is_wrong = |queue: &&Arc<Queue>| {
            let wanted = || view.meta.wanted_version(queue.def(), self.parts.default_version);
            queue.def().durable && queue.files_version.get() != wanted()
        };
        view.classic_queues().filter(is_wrong).cloned().collect()
    }

    /// The version a queue should have.
    pub fn wanted_version(&self, def: &QueueDef) -> QueueVersion {
        self.view().meta.wanted_version(def, self.parts.default_version)
    }

    fn storage(&self) -> &Storage {
        &self.parts.services.storage
    }
}

/// A deletion whose bindings are removed in slices. No snapshot of definitions is written until the deletion
/// is logged, refused or given up.
#[derive(Debug)]
pub struct Unbinding<'p>(&'p ControlPlane);

impl Drop for Unbinding<'_> {
    fn drop(&mut self) {
        stdx::lock(&self.0.definitions).n_unbinding -= 1;
    }
}

/// An id that no other durable queue has or will have, for a queue whose files are there before it is.
pub fn take_queue_id(plane: &ControlPlane) -> QueueId {
    meta::take_queue_id(&mut stdx::lock(&plane.definitions).meta)
}

/// Opens a stream without the data that it lacks; returns what it lacks, or `None` if it lacks nothing.
///
/// # Errors
/// The disk's. It waits for the disk.
pub fn accept_stream_loss(
    plane: &ControlPlane,
    stream: &Arc<Stream>,
) -> Result<Option<Lack>, ChunkLogError> {
    let _one_at_a_time = stdx::lock(&plane.accepting);
    let id = stream.id();
    let (view, Some(lack)) = (plane.view(), stream.lack()) else { return Ok(None) };
    let is_same = |queue: Option<&QueueRef>| {
        queue.and_then(QueueRef::as_stream).is_some_and(|now| Arc::ptr_eq(now, stream))
    };
    if !is_same(view.queues.get(&id)) {
        return Ok(None);
    }
    let settings = meta::stream_settings(&view.meta, stream.def());
    let opened = plane.parts.streams.open_without(stream.def(), &settings)?;
    if let Some(lack) = opened.lack() {
        return Err(ChunkLogError::Lost(lack.clone()));
    }
    let mut definitions = stdx::lock(&plane.definitions);
    if !is_same(definitions.queues.get(&id)) {
        return Ok(None);
    }
    let settings = meta::stream_settings(&definitions.meta, stream.def());
    opened.set_settings(&settings, plane.view().epoch);
    definitions.queues.insert(id, opened.into());
    plane.publish(&definitions, Cause::Node);
    Ok(Some(lack.clone()))
}

/// Makes way for a new virtual host, where files of an unknown one of its name are left: durably, before the
/// log has the command.
fn make_way(bodies: &MessageStores, command: &Command) -> Result<(), MetaError> {
    let Command::CreateVhost { vhost, .. } = command else { return Ok(()) };
    bodies.set_leftover_aside(vhost).map_err(|error| {
        let (object, reason) = (format!("vhost '{vhost}'"), error.to_string());
        MetaError::NoFiles { object, reason }
    })
}
