//! A node's replica of the definitions, under their lock: the group, and the asks of its clients.

use super::node_work::OwnChange;
use cluster::{
    CacheBudget, Context, GroupRequest, ImageStore, ImageWrite, LivingNodes, OutgoingMessage,
    PeerId,
};
use definitions::{
    AnswerBody, Ask, AskAnswer, AskError, Asker, AskerEffects, Decision, DefinitionsChange,
    DefinitionsEffects, DefinitionsGroup, KnownLeader, Question, Refusal, Reply, Surroundings,
};
use log::{Lsn, Wal};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The time in which a change has an answer, as RabbitMQ's `metadata_store.khepri.default_timeout`.
pub const ASK_TIMEOUT_MS: u64 = 30_000;

/// The ways out of a replica of the definitions. All are called under the definitions' lock: they put things
/// into links and timers, and call nothing back.
pub trait DefinitionsLinks: Debug + Send + Sync {
    /// Sends a message to another replica, as soon as it may leave.
    fn send(&self, message: OutgoingMessage);
    /// Sends an ask to the node that leads.
    ///
    /// # Errors
    /// The ask is too large for any leader.
    fn ask(&self, node: u16, ask: &Ask) -> Result<(), Refusal>;
    /// Sends an answer to the node that asked.
    fn answer(&self, node: u16, answer: AskAnswer);
    /// Tells all other nodes the index that this one has applied.
    fn applied(&self, index: u64);
    /// [`Replication::durable`](super::Replication::durable) is to be called once the log is durable up to
    /// there.
    fn durable_at(&self, upto: Lsn);
    /// The group is to be stepped later: with [`GroupStep::Campaign`](cluster::GroupStep::Campaign) or
    /// [`GroupStep::Tick`](cluster::GroupStep::Tick).
    fn later(&self, request: GroupRequest);
    /// [`Replication::write_image`](super::Replication::write_image) is to be called by a thread that may
    /// wait for the disk.
    fn write_image(&self, write: ImageWrite);
    /// The node's time.
    fn now_ms(&self) -> u64;
    /// [`Replication::tick`](super::Replication::tick) is to be called soon: somebody asks, or another one
    /// leads, or the members are others.
    fn tick_soon(&self);
}

/// The parts that a node gives its replica of the definitions.
#[derive(Clone, Debug)]
pub struct ReplicaParts {
    /// The replica's number, which has the node's in it.
    pub me: PeerId,
    /// The number of the node's start.
    pub boot: u32,
    /// The ways out.
    pub links: Arc<dyn DefinitionsLinks>,
    /// Milliseconds in which a change has an answer.
    pub timeout_ms: u64,
}

/// An ask that waits for its answer.
#[derive(Debug)]
struct PendingAnswer {
    sender: oneshot::Sender<Answered>,
    /// The change, once it is applied here.
    applied: Option<OwnChange>,
}

/// The outcome of an ask.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) decision: Result<Decision, AskError>,
    /// The change, if there was one.
    pub(super) change: Option<OwnChange>,
}

/// An answer on its way to its task, which is woken when no lock is held.
pub(super) type Waking = (oneshot::Sender<Answered>, Answered);

/// A node's replica of the definitions.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) group: DefinitionsGroup,
    pub(super) parts: ReplicaParts,
    asker: Asker,
    living: LivingNodes,
    cache: Arc<CacheBudget>,
    pub(super) images: Arc<ImageStore>,
    now_ms: u64,
    pending: BTreeMap<u64, PendingAnswer>,
    told: ToldState,
    /// All that the node follows is durable here when the log is so up to there.
    pub(super) upto: Lsn,
    /// The epoch of index 0: views of the time before have lower ones.
    epoch_base: u64,
    /// The index up to which the node follows.
    followed: u64,
}

/// The state of the group that its host has been told of.
#[derive(Debug, Default)]
struct ToldState {
    /// The index that other nodes were told.
    index: u64,
    /// The index since when the group has its members.
    members_since: u64,
    leader: Option<KnownLeader>,
}

impl Replica {
    pub(super) fn new(
        group: DefinitionsGroup,
        images: ImageStore,
        parts: ReplicaParts,
        epoch_base: u64,
    ) -> Self {
        let asker = Asker::new(parts.me.node(), parts.boot);
        Self {
            group,
            parts,
            asker,
            living: LivingNodes::default(),
            cache: Arc::default(),
            images: Arc::new(images),
            now_ms: 0,
            pending: BTreeMap::new(),
            told: ToldState::default(),
            upto: Lsn(0),
            epoch_base,
            followed: 0,
        }
    }

    /// The node follows definitions up to an index that a start has found.
    pub(super) const fn follows_upto(&mut self, index: u64) {
        self.followed = index;
    }

    /// The changes that the node does not follow yet, and does from now on.
    pub(super) fn not_followed(
        &mut self,
        mut changes: Vec<DefinitionsChange>,
    ) -> Vec<DefinitionsChange> {
        changes.retain(|change| change.index > self.followed);
        self.followed = self.followed.max(self.group.index());
        changes
    }

    /// Notes in the log that what the node follows now is committed; returns where the note is.
    pub(super) fn note_applied(&mut self, wal: &Wal) -> Option<Lsn> {
        let Self { group, living, cache, images, .. } = self;
        group.note_applied(Context { wal, living, cache, images })
    }

    /// Whether nobody else has the definitions.
    pub(super) fn is_alone(&self) -> bool {
        self.group.group().members().are_only(self.parts.me)
    }

    /// The epoch of the definitions as they are.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch_base + self.group.index().max(self.followed)
    }

    /// The index of a view's definitions.
    const fn index_of(&self, epoch: u64) -> u64 {
        epoch.saturating_sub(self.epoch_base)
    }

    pub(super) fn step(
        &mut self,
        wal: &Wal,
        step: impl FnOnce(&mut DefinitionsGroup, Context<'_>) -> DefinitionsEffects,
    ) -> DefinitionsEffects {
        let Self { group, living, cache, images, .. } = self;
        step(group, Context { wal, living, cache, images })
    }

    /// Whether a node is alive, as far as this one was told.
    pub(super) fn is_alive(&self, node: u16) -> bool {
        self.living.nodes().any(|it| it == node)
    }

    pub(super) fn set_alive(&mut self, node: u16, is_alive: bool) {
        self.living.set(node, is_alive);
    }

    /// Whether somebody waits for an answer.
    pub(super) fn is_asking(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes note of the time; it never goes back.
    pub(super) fn look_at_clock(&mut self) {
        self.now_ms = self.now_ms.max(self.parts.links.now_ms());
    }

    pub(super) fn link_made(&mut self, node: u16) {
        self.asker.link_made(node);
        self.parts.links.applied(self.told.index);
    }

    pub(super) fn receive(&mut self, answer: AskAnswer) {
        self.asker.receive(answer, self.now_ms);
    }

    /// The leader, if another one is known than before.
    pub(super) fn new_leader(&mut self) -> Option<KnownLeader> {
        let leader = self.group.leader()?;
        (self.told.leader.replace(leader) != Some(leader)).then_some(leader)
    }

    /// Another node has applied entries up to an index.
    pub(super) fn applied(&mut self, node: u16, index: u64) {
        self.asker.applied(node, index);
    }

    /// Takes an ask of a client; `epoch` is that of the view that it was planned on, if it fits no other.
    pub(super) fn ask(
        &mut self,
        commands: Vec<meta::Command>,
        epoch: Option<u64>,
    ) -> Result<oneshot::Receiver<Answered>, AskError> {
        let (basis, user) = (epoch.map(|epoch| self.index_of(epoch)), meta::Name::from(""));
        let deadline_ms = self.now_ms + self.parts.timeout_ms;
        let n = self.asker.ask(Question { commands, basis, user }, deadline_ms)?;
        if self.pending.is_empty() {
            self.parts.links.tick_soon();
        }
        let (sender, receiver) = oneshot::channel();
        self.pending.insert(n, PendingAnswer { sender, applied: None });
        Ok(receiver)
    }

    /// Whether a change was asked for here and its asker still waits.
    pub(super) fn is_awaited(&self, change: &DefinitionsChange) -> bool {
        let (of, me) = (change.request, &self.parts);
        (of.node, of.boot) == (me.me.node(), me.boot) && self.pending.contains_key(&of.n)
    }

    /// Keeps a change that was asked for here until its answer comes.
    pub(super) fn keep(&mut self, n: u64, change: OwnChange) {
        if let Some(pending) = self.pending.get_mut(&n) {
            pending.applied = Some(change);
        }
    }

    /// Tells the index that is applied here; returns what the asker has to do then, with asks for this node.
    pub(super) fn poll(&mut self, waking: &mut Vec<Waking>) -> Vec<Ask> {
        let (index, me) = (self.group.index(), self.parts.me.node());
        if index != self.told.index {
            self.told.index = index;
            self.parts.links.applied(index);
        }
        self.asker.applied(me, index);
        let members = self.group.group().members();
        let (leader, living) = (self.group.leader(), &self.living);
        if std::mem::replace(&mut self.told.members_since, members.since) != members.since {
            self.parts.links.tick_soon();
        }
        let around = Surroundings { now_ms: self.now_ms, leader, members: &members, living };
        let AskerEffects { asks, results } = self.asker.poll(around);
        waking.extend(results.into_iter().filter_map(|(n, result)| self.end(n, result)));
        let (here, there): (Vec<_>, Vec<_>) = asks.into_iter().partition(|(node, _)| *node == me);
        for (node, ask) in there {
            if let Err(refusal) = self.parts.links.ask(node, &ask) {
                let (request, attempt) = (ask.request, ask.attempt);
                let body = AnswerBody::Decided { index, decision: Decision::Refused(refusal) };
                self.asker.receive(AskAnswer { request, attempt, body }, self.now_ms);
            }
        }
        here.into_iter().map(|(_, ask)| ask).collect()
    }

    fn end(&mut self, n: u64, result: Result<Reply, AskError>) -> Option<Waking> {
        let PendingAnswer { sender, applied: change } = self.pending.remove(&n)?;
        let decision = match result {
            Ok(reply) => Ok(reply.decision),
            // The answer was lost, the change was not.
            Err(_) if change.is_some() => Ok(Decision::WasDone),
            Err(error) => Err(error),
        };
        Some((sender, Answered { decision, change }))
    }
}
