//! Definitions that replicas agree on: what comes from other nodes, and how this node follows what is
//! committed. All of it happens under the definitions' lock; waiting tasks are woken after it.

use super::difference::Difference;
use super::effects::{self, Before, Effects};
use super::node_work::{NodeWork, OwnChange};
use super::replica::{Answered, Replica, Waking};
use super::{Agreed, Cause, ControlPlane, Definitions, make_way, placing};
use bytes::Bytes;
use cluster::{Change, GroupRequest, GroupStep, ImageWrite, Ticket};
use definitions::{
    Ask, AskAnswer, AskError, DefinitionsChange, DefinitionsEffects, DefinitionsGroup, KnownLeader,
};
use log::{CommitListener, Lsn, SegmentId, Wal};
use meta::{ChangeFacts, Command, Fact, FactClass, QueueDeclare, QueueHome, Removed, State};
use queues::QueueRef;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The ticket of changes of members, which no ask has.
const MEMBERS_TICKET: Ticket = Ticket(0);

/// The control plane of a node whose definitions are those of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Replication<'p> {
    pub(super) plane: &'p ControlPlane,
    pub(super) work: &'p Arc<NodeWork>,
}

/// Changes of definitions that this node asks their leader for.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'p>(pub(super) Replication<'p>);

impl<'p> Replication<'p> {
    /// The replication of a control plane, if it has one.
    pub(super) fn of(plane: &'p ControlPlane) -> Option<Self> {
        Some(Self { plane, work: plane.node_work.get()? })
    }

    /// Steps the replica: with a message of another one, or as it has asked for.
    pub fn step(self, step: GroupStep) {
        self.run(|replica, wal| replica.step(wal, |group, cx| group.step(step, cx)));
    }

    /// A node is alive again, or suspected to be dead.
    pub fn alive(self, node: u16, is_alive: bool) {
        self.run(|replica, wal| {
            replica.set_alive(node, is_alive);
            replica.step(wal, |group, cx| group.step(GroupStep::Alive(node, is_alive), cx))
        });
    }

    /// The home of a queue that this node's clients declare.
    pub(super) fn home_of(self, meta: &State, declare: &QueueDeclare) -> QueueHome {
        let is_balanced = self.plane.parts.limits.types.is_balanced;
        placing::home_of(meta, declare, self.work.home, is_balanced, |node| {
            let definitions = stdx::lock(&self.plane.definitions);
            definitions.replica.as_ref().is_some_and(|replica| replica.is_alive(node.0))
        })
    }

    /// The connection to a node was made, or made again.
    pub fn link_made(self, node: u16) {
        self.run(|replica, _| {
            replica.link_made(node);
            DefinitionsEffects::default()
        });
    }

    /// The log is durable up to where the replica waits for it.
    pub fn durable(self) {
        self.step(GroupStep::Durable);
    }

    /// Writes an image, and goes on with it. **Blocks.**
    pub fn write_image(self, write: ImageWrite) {
        let wal = &self.plane.storage().wal;
        let definitions = stdx::lock(&self.plane.definitions);
        let images = definitions.replica.as_ref().map(|replica| Arc::clone(&replica.images));
        drop(definitions);
        let Some(images) = images else { return };
        let written = write.write(&images, wal);
        if let Err(error) = &written.outcome {
            tracing::error!("cannot write an image of the definitions: {error}");
        }
        self.run(|replica, wal| replica.step(wal, |group, cx| group.image_written(written, cx)));
    }

    /// The last entry of the log that is durable.
    pub fn durable_upto(self) -> Lsn {
        self.plane.storage().wal.durable_upto()
    }

    /// Has a listener hear how far the log is durable.
    pub fn watch_log(self, listener: Arc<dyn CommitListener>) {
        self.plane.storage().wal.watch(listener);
    }

    /// Adds a replica to the group, gives it a vote, or removes it.
    pub fn change_members(self, change: Change) {
        self.step(GroupStep::Member(MEMBERS_TICKET, change));
    }

    /// Asks the replica something.
    pub fn inspect<T>(self, ask: impl FnOnce(&DefinitionsGroup) -> T) -> Option<T> {
        let definitions = stdx::lock(&self.plane.definitions);
        definitions.replica.as_ref().map(|replica| ask(&replica.group))
    }

    /// Moves what the replica needs of the log's oldest segment to the log's end.
    pub fn relocate(self, segment: SegmentId) {
        self.run(|replica, wal| replica.step(wal, |group, cx| group.relocate(segment, cx)));
    }

    /// Looks at the time: asks are sent again, or end without an answer. Returns whether any are left, for
    /// which this is to be called several times a second.
    pub fn tick(self) -> bool {
        self.run(|_, _| DefinitionsEffects::default());
        let definitions = stdx::lock(&self.plane.definitions);
        definitions.replica.as_ref().is_some_and(|it| it.is_asking())
    }

    /// Takes an ask that another node has sent.
    pub fn take_ask(self, ask: &Ask) {
        self.run(|replica, wal| replica.step(wal, |group, cx| group.ask(ask, cx)));
    }

    /// Takes an answer that another node has sent.
    pub fn take_answer(self, answer: AskAnswer) {
        self.run(|replica, _| {
            replica.receive(answer);
            DefinitionsEffects::default()
        });
    }

    /// Another node has applied all up to an index.
    pub fn applied(self, node: u16, index: u64) {
        self.run(|replica, _| {
            replica.applied(node, index);
            DefinitionsEffects::default()
        });
    }

    /// The work that other nodes' changes leave for this one's connections and queues.
    pub const fn node_work(self) -> &'p Arc<NodeWork> {
        self.work
    }

    /// The changes that this node asks for.
    pub const fn asking(self) -> Asking<'p> {
        Asking(self)
    }

    /// Asks the leader for changes, all or none of them.
    pub(super) fn begin_ask(
        self,
        commands: Vec<Command>,
        epoch: Option<u64>,
    ) -> Result<oneshot::Receiver<Answered>, AskError> {
        let mut receiver = Err(AskError::NoLeader);
        self.run(|replica, _| {
            receiver = replica.ask(commands, epoch);
            DefinitionsEffects::default()
        });
        receiver
    }

    /// Enters the replica, and works off what comes of it.
    fn run(self, enter: impl FnOnce(&mut Replica, &Wal) -> DefinitionsEffects) {
        let mut definitions = stdx::lock(&self.plane.definitions);
        let Some(mut replica) = definitions.replica.take() else { return };
        let wal = &self.plane.storage().wal;
        replica.look_at_clock();
        let fx = enter(&mut replica, wal);
        self.absorb(&mut definitions, &mut replica, fx);
        let mut waking = Vec::new();
        loop {
            let asks = replica.poll(&mut waking);
            if asks.is_empty() {
                break;
            }
            for ask in asks {
                let fx = replica.step(wal, |group, cx| group.ask(&ask, cx));
                self.absorb(&mut definitions, &mut replica, fx);
            }
        }
        if let Some(leader) = replica.new_leader() {
            tell_leader(&definitions.meta, leader);
            replica.parts.links.tick_soon();
        }
        definitions.replica = Some(replica);
        drop(definitions);
        waking.into_iter().for_each(wake);
    }

    /// Works off the outcome of a step.
    fn absorb(self, definitions: &mut Definitions, replica: &mut Replica, fx: DefinitionsEffects) {
        let DefinitionsEffects { is_restored, changes, answers, stopped, group } = fx;
        if let Some(reason) = stopped {
            tracing::error!("the definitions are not followed any more: {reason}");
        }
        if let Some(upto) = group.durable_at.filter(|_| is_restored || replica.is_alone()) {
            // Of other replicas, what is applied is durable.
            replica.upto = replica.upto.max(upto);
        }
        if is_restored || !changes.is_empty() {
            self.follow(definitions, replica, is_restored, changes);
        }
        let links = Arc::clone(&replica.parts.links);
        for answer in answers {
            if answer.request.node == replica.parts.me.node() {
                replica.receive(answer);
            } else {
                links.answer(answer.request.node, answer);
            }
        }
        group.messages.into_iter().for_each(|message| links.send(message));
        if let Some(upto) = group.durable_at {
            links.durable_at(upto);
        }
        if let Some(write) = group.write {
            links.write_image(write);
        }
        for request in group.requests {
            match request {
                GroupRequest::Image => self.take_image(definitions, replica),
                GroupRequest::CampaignLater | GroupRequest::TickLater => links.later(request),
                GroupRequest::Stopped | GroupRequest::Gone => {
                    tracing::warn!("this node's replica of the definitions ends: {request:?}");
                }
            }
        }
    }

    /// Writes an image of the definitions, in place of the entries that led to them.
    fn take_image(self, definitions: &mut Definitions, replica: &mut Replica) {
        let wal = &self.plane.storage().wal;
        let local = Bytes::from(definitions.gone.encode());
        let fx = replica.step(wal, |group, cx| group.take_image(local, cx));
        self.absorb(definitions, replica, fx);
    }

    /// Has the node follow changes that are committed, or definitions that have replaced its own.
    fn follow(
        self,
        definitions: &mut Definitions,
        replica: &mut Replica,
        is_restored: bool,
        changes: Vec<DefinitionsChange>,
    ) {
        // A start has followed some of them before it had the group.
        let changes = replica.not_followed(changes);
        if changes.is_empty() && !is_restored {
            return;
        }
        let mut upto = replica.upto;
        if changes.iter().any(is_for_starts) {
            let noted = replica.note_applied(&self.plane.storage().wal);
            // Files go once a start knows that their queues have gone, the note of joining once it knows the
            // nodes.
            let has_gone = |change: &DefinitionsChange| change.removed.iter().any(has_files);
            let waits = changes.iter().any(|change| has_gone(change) || is_of_nodes(change));
            upto = upto.max(noted.filter(|_| waits).unwrap_or_default());
        }
        let now = replica.group.definitions().clone();
        let old = std::mem::replace(&mut definitions.meta, now);
        definitions.agreed = Some(Agreed { epoch: replica.epoch() });
        let difference = is_restored.then(|| Difference::between(&old, &definitions.meta));
        let followed: Vec<ChangeFacts<'_>> = match &difference {
            Some(difference) => vec![difference.change()],
            None => changes.iter().map(facts_of).collect(),
        };
        let commands = || followed.iter().flat_map(|change| change.commands());
        for command in commands() {
            if let Err(error) = make_way(&self.plane.storage().bodies, command) {
                tracing::error!("{error}");
            }
        }
        let before = Before::of(&old, commands());
        if is_restored {
            self.plane.parts.exchanges.review(&definitions.meta);
        }
        let mut delaying = Vec::new();
        let gone = self.plane.follow(definitions, followed.iter().copied(), None, &mut delaying);
        if followed.iter().all(|change| change.facts.is_empty()) {
            // Definitions of other kinds than queues are not among the facts of a difference.
            self.plane.publish(definitions, Cause::Definitions);
        }
        let mut left = Followed { gone, effects: Effects::default(), upto };
        left.effects.leader.delaying = delaying;
        if let Some(difference) = &difference {
            effects::of_change(before, definitions, difference.change(), &mut left.effects);
            effects::of_all(definitions, &mut left.effects);
        }
        for change in changes {
            let mut effects = Effects::default();
            if !is_restored {
                effects::of_change(before, definitions, facts_of(&change), &mut effects);
            }
            if replica.is_awaited(&change) {
                let own = left.take(change, effects, self.work);
                replica.keep(own.0, own.1);
            } else {
                left.effects.node.append(&mut effects.node);
            }
        }
        self.work.add(left.gone, left.effects.node, left.upto);
    }
}

/// The effects of several changes.
struct Followed {
    gone: Vec<QueueRef>,
    effects: Effects,
    upto: Lsn,
}

impl Followed {
    /// Takes out what one of them has led to.
    fn take(
        &mut self,
        change: DefinitionsChange,
        mut effects: Effects,
        work: &Arc<NodeWork>,
    ) -> (u64, OwnChange) {
        let DefinitionsChange { request, facts, removed, .. } = change;
        let is_its = |queue: &mut QueueRef| {
            let id = queue.id();
            removed.iter().any(|it| matches!(it, Removed::Queue(def) if def.id == id))
        };
        let gone = self.gone.extract_if(.., is_its).collect();
        effects.leader.delaying.append(&mut self.effects.leader.delaying);
        let (upto, work) = (self.upto, Arc::clone(work));
        (request.n, OwnChange { facts, removed, gone, effects, upto, work })
    }
}

/// Whether a start must find a change without a word of other nodes: by it come or go queues with content,
/// which the start finds too, or nodes, whose word the start takes.
fn is_for_starts(change: &DefinitionsChange) -> bool {
    let is_new = |fact: &Fact| {
        fact.class == FactClass::Durable && matches!(fact.command, Command::DeclareQueue(_))
    };
    change.facts.iter().any(is_new) || change.removed.iter().any(has_files) || is_of_nodes(change)
}

/// Whether a change is one of the cluster's nodes.
fn is_of_nodes(change: &DefinitionsChange) -> bool {
    let is_of_node = |fact: &Fact| {
        matches!(
            fact.command,
            Command::NodeJoined { .. } | Command::NodeBooted { .. } | Command::NodeForgotten { .. }
        )
    };
    change.facts.iter().any(is_of_node)
}

/// Whether there may be files of something that was removed.
fn has_files(removed: &Removed) -> bool {
    match removed {
        Removed::Queue(def) => def.durable,
        Removed::Vhost(_) => true,
        Removed::Binding { .. } | Removed::Exchange { .. } | Removed::User(_) => false,
    }
}

/// Tells operators who leads.
fn tell_leader(meta: &State, KnownLeader { node, term }: KnownLeader) {
    if let Some(known) = meta.nodes().get(node) {
        tracing::info!("{} leads the definitions in term {term}", known.name);
    }
}

fn facts_of(change: &DefinitionsChange) -> ChangeFacts<'_> {
    ChangeFacts { facts: &change.facts, removed: &change.removed }
}

/// Gives a waiting task its answer. If the task is gone, the node's work is done without it.
fn wake((sender, answered): Waking) {
    drop(sender.send(answered));
}
