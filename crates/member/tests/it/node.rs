//! A node: its membership, sockets, groups and clients.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use cluster::GroupStep;
use definitions::{Ask, AskAnswer, Asker, AskerEffects, Question, RequestId, Surroundings};
use log::{ClusterId, NodeIdentity, NodeNumber, Owner};
use member::{
    GroupTimers, GroupWork, MemberEvent, Membership, MembershipOptions, PeerInput, PulseHealth,
};
use meta::{Command, Name};
use peer::{ConnectionKind, LinkLimits, NodeMessage, PULSE_INTERVAL_MS, PeerAddress, SpokenRange};
use stdx::MonotonicMs;
use testing::Random;
use testing::cluster_world::{Port, Seat, SimulatedNode};
use testing::net::{ConnectionNo, NetEvent};

use crate::groups::{Groups, Plan, Work};
use crate::ledger::{DEFINITIONS, Ledger};
use crate::sockets::{Around, Sockets};

/// A node of the world.
pub(crate) struct MemberNode {
    pub(crate) membership: Membership,
    pub(crate) sockets: Sockets,
    pub(crate) groups: Groups,
    timers: GroupTimers,
    asker: Asker,
    /// Asks of clients that have no result yet.
    pub(crate) n_waiting: usize,
    /// The index of definitions that others were told last.
    told_index: u64,
    random: Random,
    round_at: MonotonicMs,
    unsynced_since: Option<MonotonicMs>,
}

/// The number of the node at a place of the world.
pub(crate) fn node_at(place: usize) -> NodeNumber {
    NodeNumber(u16::try_from(place + 1).unwrap())
}

fn options(node: NodeNumber, boot: u32) -> MembershipOptions {
    let name = format!("rabbit@{}", node.0);
    let me = NodeIdentity { cluster: ClusterId(1), epoch: 1, number: node, boot, name };
    let limits = LinkLimits { room_bytes: 256 << 10, bytes_max: 8 << 20 };
    MembershipOptions { me, levels: SpokenRange { min: 0, max: 0 }, limits }
}

fn set_member(membership: &Membership, peer: NodeNumber, place: usize, now: MonotonicMs) {
    let address = PeerAddress { host: "host".to_owned(), port: u16::try_from(place).unwrap() };
    membership.set_member((peer, 0), &format!("rabbit@{}", peer.0), address, now);
}

impl MemberNode {
    pub(crate) fn start(
        seat: &Seat<'_>,
        plan: &Plan,
        ledger: &Rc<RefCell<Ledger>>,
    ) -> Result<Self, String> {
        let node = plan.numbers[seat.node.0];
        let groups = Groups::open(node, seat.disk, plan, Rc::clone(ledger))?;
        let boot = ledger.borrow_mut().start(node);
        let (membership, now) = (Membership::new(options(node, boot)), seat.now.monotonic_ms);
        for (place, peer) in plan.numbers.iter().enumerate() {
            set_member(&membership, *peer, place, now);
        }
        let mut random = Random::new(seat.seed);
        let round_at = now.plus(random.below(50) as u64);
        Ok(Self {
            membership,
            sockets: Sockets::default(),
            groups,
            timers: GroupTimers::default(),
            asker: Asker::new(node.0, boot),
            n_waiting: 0,
            told_index: 0,
            random,
            round_at,
            unsynced_since: None,
        })
    }

    fn with_sockets<T>(
        &mut self,
        port: &mut Port<'_>,
        work: impl FnOnce(&mut Sockets, &mut Around<'_, '_>) -> T,
    ) -> T {
        let (membership, random) = (&self.membership, &mut self.random);
        work(&mut self.sockets, &mut Around { membership, random, port })
    }

    /// Another node takes the place of one that is forgotten.
    pub(crate) fn replace(&self, old: NodeNumber, new: NodeNumber, place: usize, now: MonotonicMs) {
        // The sockets end with their links.
        drop(self.membership.forget(old));
        set_member(&self.membership, new, place, now);
    }

    /// Steps a group, and works off what comes of it.
    pub(crate) fn step_group(&mut self, owner: Owner, step: GroupStep, now: MonotonicMs) {
        let work = self.groups.step(owner, step, &self.membership.living());
        self.work_off(owner, work, now);
    }

    pub(crate) fn take_image(&mut self, owner: Owner, now: MonotonicMs) {
        let work = self.groups.take_image(owner, &self.membership.living());
        self.work_off(owner, work, now);
    }

    fn work_off(&mut self, owner: Owner, work: Work, now: MonotonicMs) {
        for message in work.messages {
            drop(self.membership.send(owner, message));
        }
        for request in work.requests {
            self.timers.request(owner, request, now, self.random.next());
        }
        for answer in work.answers {
            let to = NodeNumber(answer.request.node);
            if to == self.groups.node {
                self.asker.receive(answer, now.get());
            } else {
                let (n, bytes) = (answer.request.n, answer.encode());
                self.send(to, &NodeMessage::Answer(n, bytes.into()));
            }
        }
        if owner == DEFINITIONS {
            self.tell_index();
            self.poll_asker(now);
        }
    }

    fn send(&self, to: NodeNumber, message: &NodeMessage) {
        drop(self.membership.send_node(to, message));
    }

    /// Tells the others up to where the definitions are applied here.
    fn tell_index(&mut self) {
        let index = self.groups.definitions.index();
        if index == self.told_index {
            return;
        }
        self.told_index = index;
        self.asker.applied(self.groups.node.0, index);
        for peer in self.groups.definitions.group().members().all() {
            self.send(NodeNumber(peer.node()), &NodeMessage::Question(index, Bytes::new()));
        }
    }

    /// Takes a client's change of definitions.
    pub(crate) fn client_asks(
        &mut self,
        commands: Vec<Command>,
        wait_ms: u64,
        now: MonotonicMs,
    ) -> RequestId {
        let question = Question { commands, basis: None, user: Name::from("guest") };
        let n = self.asker.ask(question, now.plus(wait_ms).get()).unwrap();
        self.n_waiting += 1;
        let request = RequestId { node: self.groups.node.0, boot: self.membership.me().boot, n };
        self.groups.ledger.borrow_mut().asked(request);
        self.poll_asker(now);
        request
    }

    fn poll_asker(&mut self, now: MonotonicMs) -> bool {
        let (leader, living) = (self.groups.definitions.leader(), self.membership.living());
        let members = self.groups.definitions.group().members();
        let around = Surroundings { now_ms: now.get(), leader, members: &members, living: &living };
        let AskerEffects { asks, results } = self.asker.poll(around);
        let has_worked = !asks.is_empty() || !results.is_empty();
        for (n, result) in results {
            let (node, boot) = (self.groups.node.0, self.membership.me().boot);
            self.n_waiting -= 1;
            self.groups.ledger.borrow_mut().tell_client(RequestId { node, boot, n }, result);
        }
        for (to, ask) in asks {
            if to == self.groups.node.0 {
                let work = self.groups.ask(&ask, &living);
                self.work_off(DEFINITIONS, work, now);
            } else {
                let (n, bytes) = (ask.request.n, ask.encode().unwrap());
                self.send(NodeNumber(to), &NodeMessage::Ask(n, bytes.into()));
            }
        }
        has_worked
    }

    fn take(&mut self, input: PeerInput, from: NodeNumber, now: MonotonicMs) {
        match input {
            PeerInput::Group(owner, message) => {
                self.groups.ledger.borrow_mut().heard(owner, &message);
                self.step_group(owner, GroupStep::Peer(message), now);
            }
            PeerInput::Node(NodeMessage::Ask(_, bytes)) => {
                let ask = Ask::decode(&bytes).unwrap();
                let work = self.groups.ask(&ask, &self.membership.living());
                self.work_off(DEFINITIONS, work, now);
            }
            PeerInput::Node(NodeMessage::Answer(_, bytes)) => {
                let answer = AskAnswer::decode(&bytes).unwrap();
                self.asker.receive(answer, now.get());
                self.poll_asker(now);
            }
            PeerInput::Node(NodeMessage::Question(index, _)) => {
                self.asker.applied(from.0, index);
                self.poll_asker(now);
            }
            input @ (PeerInput::Node(_) | PeerInput::Session(..)) => {
                panic!("nobody sends {input:?}")
            }
        }
    }

    fn note(&mut self, event: &MemberEvent, now: MonotonicMs) {
        let mut ledger = self.groups.ledger.borrow_mut();
        ledger.counts.links_made += u64::from(matches!(event, MemberEvent::LinkMade(..)));
        ledger.counts.suspected += u64::from(matches!(event, MemberEvent::Suspected { .. }));
        ledger.counts.stuck += u64::from(matches!(event, MemberEvent::Stuck(_)));
        drop(ledger);
        if let Some((_, step)) = event.group_step() {
            for owner in self.groups.owners() {
                self.step_group(owner, step.clone(), now);
            }
        }
        if let MemberEvent::LinkMade(node, ConnectionKind::Work) = event {
            self.asker.link_made(node.0);
            self.send(*node, &NodeMessage::Question(self.told_index, Bytes::new()));
        }
    }

    /// Ticks, and sends pulses. False if it is not time.
    fn pulse(&mut self, port: &Port<'_>) -> bool {
        let (now, mut has_worked) = (port.now.monotonic_ms, false);
        if now >= self.round_at.min(self.membership.due()) {
            for event in self.membership.tick(now) {
                self.note(&event, now);
            }
            has_worked = true;
        }
        if now >= self.round_at {
            self.round_at = now.plus(PULSE_INTERVAL_MS);
            let since = self.unsynced_since.map_or(0, |since| now.since(since));
            let unsynced_age_ms = u32::try_from(since).unwrap();
            let health = PulseHealth { unsynced_age_ms, ..PulseHealth::default() };
            drop(self.membership.begin_round(port.now, health));
            has_worked = true;
        }
        has_worked
    }

    fn commit(&mut self, now: MonotonicMs) -> bool {
        if self.groups.is_awaited() && self.random.percent(30) {
            // The disk takes its time.
            self.unsynced_since.get_or_insert(now);
            return true;
        }
        self.unsynced_since = None;
        let Some(upto) = self.groups.commit() else { return false };
        drop(self.membership.durable(upto));
        for owner in self.groups.with_durable(upto) {
            self.step_group(owner, GroupStep::Durable, now);
        }
        true
    }

    fn work_timers(&mut self, now: MonotonicMs) -> bool {
        let Some((owner, work)) = self.timers.next(now) else { return false };
        match work {
            GroupWork::Image => self.take_image(owner, now),
            GroupWork::Tick => self.step_group(owner, GroupStep::Tick, now),
            GroupWork::Campaign => self.step_group(owner, GroupStep::Campaign, now),
        }
        true
    }
}

impl SimulatedNode for MemberNode {
    fn step(&mut self, port: &mut Port<'_>) -> bool {
        let now = port.now.monotonic_ms;
        let mut has_worked = self.pulse(port);
        has_worked |= self.work_timers(now);
        has_worked |= self.commit(now);
        has_worked |= self.poll_asker(now);
        has_worked |= self.with_sockets(port, Sockets::dial);
        has_worked | self.with_sockets(port, Sockets::write)
    }

    fn deliver(&mut self, connection: ConnectionNo, event: NetEvent, port: &mut Port<'_>) {
        let from = self.sockets.node(connection);
        let inputs = self.with_sockets(port, |it, around| it.deliver(connection, event, around));
        let from = from.or_else(|| self.sockets.node(connection));
        for input in inputs {
            self.take(input, from.unwrap_or_default(), port.now.monotonic_ms);
        }
    }

    fn has_failed(&self) -> bool {
        self.groups.is_poisoned()
    }
}
