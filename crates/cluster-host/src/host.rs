//! The host of a node's replicas, between them and the links to the peers.

use crate::clock::HostClock;
use crate::members::FollowedMembers;
use crate::questions::{PeerQuestion, PendingReply, Questions};
use crate::ways::DefinitionsWays;
use bytes::Bytes;
use cluster::{
    GroupStep, ImageWrite, MemberStep, Members, PeerId, RaftGroup, Role, VOTERS_MAX, lag_of,
    next_member_step,
};
use control::{ASK_TIMEOUT_MS, ControlPlane, DefinitionsLinks, ReplicaParts, Replication};
use definitions::{Ask, AskAnswer, DEFINITIONS_GROUP};
use log::{NodeNumber, Owner};
use member::{GroupWork, MemberEvent, Membership, PeerConnection, PeerInput};
use meta::{ClusterNodes, Command};
use peer::{ConnectionKind, NodeMessage, PeerLink, QUESTION_BYTES_MAX};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use stdx::MonotonicMs;

/// The outcome of a tick, for the one that ticks.
#[derive(Debug, Default)]
pub struct HostTick {
    /// Whether there are members that may have to be dialled.
    pub has_new_members: bool,
    /// The change that this node has to make to the definitions, if there is one.
    pub command: Option<Command>,
    /// Whether the next tick is due after some 50 ms.
    pub is_next_soon: bool,
}

/// The host of a node's replicas.
#[derive(Debug)]
pub struct ClusterHost {
    membership: Arc<Membership>,
    control: Arc<ControlPlane>,
    ways: Arc<DefinitionsWays>,
    clock: HostClock,
    followed: Mutex<FollowedMembers>,
    questions: Arc<Questions>,
    /// Whether the group's members stay as they are.
    holds_members: AtomicBool,
}

impl ClusterHost {
    /// Creates the host of a control plane that is going to have definitions together with others. Images of
    /// the definitions that are too large for the log go to `images`, to be written by
    /// [`Replication::write_image`]. `due` is woken when a tick is due sooner than was known.
    #[must_use]
    pub fn new(
        membership: Arc<Membership>,
        control: Arc<ControlPlane>,
        clock: HostClock,
        images: Sender<ImageWrite>,
        due: Waker,
    ) -> Self {
        let ways = DefinitionsWays::new(Arc::clone(&membership), &control, clock, images, due);
        let (followed, questions) = (Mutex::default(), Arc::default());
        let holds_members = AtomicBool::new(false);
        Self { membership, control, ways, clock, followed, questions, holds_members }
    }

    /// The parts of this node's replica of the definitions.
    #[must_use]
    pub fn replica_parts(&self) -> ReplicaParts {
        let me = self.membership.me();
        let links: Arc<dyn DefinitionsLinks> = Arc::<DefinitionsWays>::clone(&self.ways);
        ReplicaParts {
            me: replica_of(me.number.0),
            boot: me.boot,
            links,
            timeout_ms: ASK_TIMEOUT_MS,
        }
    }

    /// Steps the replica for the first time: called once the control plane has it.
    pub fn begin(&self) {
        self.ways.due.wake_by_ref();
        if let Some(replication) = self.control.replication() {
            replication.durable();
            // The only member hears of nobody whose life could lead to an election.
            replication.step(GroupStep::Campaign);
        }
    }

    /// Whether a node is alive, as far as this one hears it.
    #[must_use]
    pub fn is_alive(&self, node: NodeNumber) -> bool {
        self.membership.living().has(replica_of(node.0))
    }

    /// Whether a node is a member of the definitions' group, as far as this one knows.
    #[must_use]
    pub fn has_replica(&self, node: u16) -> bool {
        let has = |group: &RaftGroup| group.members().has(replica_of(node));
        let replication = self.control.replication();
        replication.and_then(|it| it.inspect(|it| has(it.group()))).unwrap_or_default()
    }

    /// Has the group's members stay as they are, or follow the nodes of the cluster as usual.
    pub fn hold_members(&self, holds: bool) {
        self.holds_members.store(holds, Ordering::Release);
    }

    /// Asks a node a question, unless the node is not heard, or has too many of them.
    #[must_use]
    pub fn ask(&self, node: NodeNumber, question: Bytes) -> Option<PendingReply> {
        let is_connected = self.work_link(node)?.connection().is_some();
        let is_heard = is_connected && self.is_alive(node);
        if !is_heard || question.len() + size_of::<u64>() > QUESTION_BYTES_MAX as usize {
            return None;
        }
        let reply = self.questions.open(node)?;
        self.ways.tell(node.0, &NodeMessage::Question(reply.request(), question));
        Some(reply)
    }

    /// Sends a node the next part of the reply to its question.
    pub fn reply(&self, question: &PeerQuestion, part: Bytes, is_last: bool) {
        let reply = NodeMessage::Reply { request: question.request, is_last, part };
        self.ways.tell(question.from.0, &reply);
    }

    /// Waits until the link to a node has room for a part of a reply.
    pub fn poll_room(&self, node: NodeNumber, cx: &Context<'_>) -> Poll<()> {
        self.work_link(node).map_or(Poll::Ready(()), |link| link.poll_room(cx))
    }

    fn work_link(&self, node: NodeNumber) -> Option<Arc<PeerLink>> {
        self.membership.link(node, ConnectionKind::Work)
    }

    /// Takes what one read of a connection has brought, and leaves `inputs` empty; returns the questions
    /// that the node has asked.
    #[must_use]
    pub fn receive(
        &self,
        connection: PeerConnection,
        inputs: &mut Vec<PeerInput>,
    ) -> Vec<PeerQuestion> {
        let mut asked = Vec::new();
        let Some(replication) = self.control.replication() else {
            inputs.clear();
            return asked;
        };
        let from = connection.node;
        for input in inputs.drain(..) {
            match input {
                PeerInput::Group(DEFINITIONS_GROUP, message) => {
                    replication.step(GroupStep::Peer(message));
                }
                PeerInput::Group(Owner(group), _) => {
                    tracing::debug!("node {} sends to group {group}", connection.node.0);
                }
                PeerInput::Node(NodeMessage::Question(request, body)) => {
                    asked.push(PeerQuestion { from, request, body });
                }
                PeerInput::Node(NodeMessage::Reply { request, is_last, part }) => {
                    self.questions.take(from, request, &part, is_last);
                }
                PeerInput::Node(message) => take(replication, from, message),
                PeerInput::Session(..) => {}
            }
        }
        asked
    }

    /// Takes events of peers, in order.
    pub fn events(&self, events: &[MemberEvent]) {
        let Some(replication) = self.control.replication() else { return };
        for event in events {
            self.tell(event);
            match *event {
                MemberEvent::Alive { node, .. } => replication.alive(node.0, true),
                MemberEvent::Suspected { node, .. } | MemberEvent::Forgotten(node) => {
                    self.questions.end_those_to(node);
                    replication.alive(node.0, false);
                }
                MemberEvent::LinkMade(node, ConnectionKind::Raft) => {
                    replication.step(GroupStep::Alive(node.0, true));
                }
                MemberEvent::LinkMade(node, ConnectionKind::Work) => replication.link_made(node.0),
                MemberEvent::LinkMade(..)
                | MemberEvent::Stuck(_)
                | MemberEvent::ClockSkew { .. } => {}
            }
        }
        self.ways.due.wake_by_ref();
    }

    /// The time at which work of groups is due.
    #[must_use]
    pub fn due(&self) -> MonotonicMs {
        self.ways.timers.due()
    }

    /// Does what is due: work of groups, asks without answers, new members.
    pub fn tick(&self) -> HostTick {
        let Some(replication) = self.control.replication() else { return HostTick::default() };
        let now = (self.clock.now)().monotonic_ms;
        while let Some((_, work)) = self.ways.timers.next(now) {
            match work {
                GroupWork::Image => {}
                GroupWork::Tick => replication.step(GroupStep::Tick),
                GroupWork::Campaign => replication.step(GroupStep::Campaign),
            }
        }
        let is_asking = replication.tick();
        let view = self.control.view();
        let mut followed = stdx::lock(&self.followed);
        let has_new_members =
            followed.follow(view.meta.nodes(), &self.membership, |no| self.has_replica(no), now);
        let has_others = followed.has_others(view.meta.nodes());
        drop(followed);
        let is_changing = self.step_members(replication, view.meta.nodes());
        let me = self.membership.me();
        let known = view.meta.nodes().get(me.number.0);
        let is_new = known.is_some_and(|known| known.boot < me.boot);
        let command = is_new.then_some(Command::NodeBooted { no: me.number.0, boot: me.boot });
        let is_next_soon = is_asking || has_others || is_changing || is_new;
        HostTick { has_new_members, command, is_next_soon }
    }

    /// Has the group's members follow the nodes of the cluster, if this node leads. Returns whether they do
    /// not yet.
    fn step_members(&self, replication: Replication<'_>, nodes: &ClusterNodes) -> bool {
        let living = self.membership.living();
        let next = |group: &RaftGroup| {
            let is_held = self.holds_members.load(Ordering::Acquire);
            if is_held || nodes.is_empty() || group.role() != Role::Leader {
                return (None, false);
            }
            let wanted: BTreeSet<PeerId> = nodes.iter().map(|node| replica_of(node.no)).collect();
            // A vote of a node that is not heard could cost the majority of those that are.
            let lag = |peer| lag_of(group, peer).filter(|_| living.has(peer)).unwrap_or(u64::MAX);
            let members = group.members();
            let step = next_member_step(&members, &wanted, group.me(), lag);
            (step, !are_as_wanted(&members, &wanted))
        };
        let (step, is_changing) = replication.inspect(|it| next(it.group())).unwrap_or_default();
        match step {
            Some(MemberStep::Propose(change)) => replication.change_members(change),
            Some(MemberStep::HandOver(peer)) => replication.step(GroupStep::Transfer(peer)),
            None => {}
        }
        is_changing
    }

    /// Writes the events that an operator wants to know to the log.
    fn tell(&self, event: &MemberEvent) {
        let view = self.control.view();
        let name = |node: NodeNumber| {
            let known = view.meta.nodes().get(node.0);
            known.map_or_else(|| format!("node {}", node.0), |known| known.name.to_string())
        };
        match *event {
            MemberEvent::Alive { node, boot } => {
                tracing::info!("{} is alive (start {boot})", name(node));
            }
            MemberEvent::Suspected { node, suspicion } => {
                tracing::warn!("{} is suspected to be down: {suspicion:?}", name(node));
            }
            MemberEvent::Forgotten(node) => tracing::info!("{} has left the cluster", name(node)),
            MemberEvent::Stuck(connection) => tracing::warn!(
                "the {} connection with {} stood still: it is made again",
                connection.kind.as_str(),
                name(connection.node)
            ),
            MemberEvent::ClockSkew { node, skew_ms } => {
                tracing::warn!("the clock of {} differs by {skew_ms} ms", name(node));
            }
            MemberEvent::LinkMade(..) => {}
        }
    }
}

/// Whether these are the members, and as many of them as may have votes.
fn are_as_wanted(members: &Members, wanted: &BTreeSet<PeerId>) -> bool {
    let all: BTreeSet<PeerId> = members.all().collect();
    let has_votes = members.learners.is_empty() || members.voters.len() >= VOTERS_MAX;
    all == *wanted && has_votes
}

/// The replica of the definitions that a node has in all its lives.
const fn replica_of(node: u16) -> PeerId {
    PeerId((node as u64) << 48 | 1)
}

/// Takes a message that a node has sent to this one.
fn take(replication: Replication<'_>, from: NodeNumber, message: NodeMessage) {
    match message {
        NodeMessage::Ask(_, body) => match Ask::decode(&body) {
            Ok(ask) if ask.request.node == from.0 => replication.take_ask(&ask),
            Ok(_) | Err(_) => {
                tracing::warn!("node {} asks for a change that cannot be read", from.0)
            }
        },
        NodeMessage::Answer(_, body) => match AskAnswer::decode(&body) {
            Ok(answer) => replication.take_answer(answer),
            Err(error) => tracing::warn!("an answer of node {} cannot be read: {error}", from.0),
        },
        NodeMessage::Applied(index) => replication.applied(from.0, index),
        NodeMessage::Question(..) | NodeMessage::Reply { .. } | NodeMessage::Gone(_) => {}
    }
}
