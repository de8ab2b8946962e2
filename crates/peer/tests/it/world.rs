//! Nodes, a network and a clock that are simulated: all of the crate but the bytes of frames.

use crate::handshakes;
use log::NodeNumber;
use peer::{
    ConnectionKind, ConnectionNumber, HandshakeError, HandshakeRole, Liveness, LivenessEvent,
    PULSE_INTERVAL_MS, PeerAddress, PeerAdmitted, PeerCookie, PeerDial, PeerEstablished,
    PeerHandshake, PeerHello, PeerSet, Pulse,
};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{MonotonicMs, Now};

const STEP_MS: u64 = 10;
const LATENCY_MS: u64 = 1;

/// A node; its number is its place and one.
pub(crate) struct SimNode {
    pub(crate) set: PeerSet,
    pub(crate) liveness: Liveness,
    pub(crate) boot: u32,
    pub(crate) is_up: bool,
    pub(crate) is_frozen: bool,
    pub(crate) unsynced_age_ms: u32,
    pub(crate) clock_ahead_ms: u64,
}

/// A connection; the first end is the dialler's.
#[derive(Clone)]
pub(crate) struct SimConnection {
    ends: [usize; 2],
    pub(crate) kind: ConnectionKind,
    numbers: [ConnectionNumber; 2],
    is_open: [bool; 2],
    sent: [u64; 2],
    got: [u64; 2],
    pub(crate) is_stuck: bool,
}

#[derive(Clone)]
enum Happening {
    Pulse { to: usize, from: usize, pulse: Pulse },
    Closed { connection: usize, end: usize },
    Connect { from: usize, dial: PeerDial },
    DialFailed { from: usize, dial: PeerDial },
}

pub(crate) struct World {
    pub(crate) now_ms: u64,
    pub(crate) nodes: Vec<SimNode>,
    pub(crate) connections: Vec<SimConnection>,
    /// Directions in which nothing comes through.
    pub(crate) cuts: BTreeSet<(usize, usize)>,
    pub(crate) events: Vec<(u64, usize, LivenessEvent)>,
    /// Connections of this kind that are made are stuck.
    pub(crate) sticky: Option<ConnectionKind>,
    happenings: BTreeMap<(u64, u64), Happening>,
    seed: u64,
}

fn number(node: usize) -> NodeNumber {
    NodeNumber(u16::try_from(node + 1).expect("few nodes"))
}

fn hello(node: usize, boot: u32, kind: ConnectionKind, nonce: u64) -> PeerHello {
    PeerHello { kind, ..handshakes::hello(number(node).0, boot, u128::from(nonce)) }
}

impl World {
    pub(crate) fn new(n_nodes: usize, seed: u64) -> Self {
        let mut world = Self {
            now_ms: 1_000,
            nodes: Vec::new(),
            connections: Vec::new(),
            cuts: BTreeSet::new(),
            events: Vec::new(),
            sticky: None,
            happenings: BTreeMap::new(),
            seed,
        };
        world.nodes = (0..n_nodes).map(|node| world.start(node, n_nodes, 1)).collect();
        world
    }

    fn start(&self, node: usize, n_nodes: usize, boot: u32) -> SimNode {
        let now = MonotonicMs::from_raw(self.now_ms);
        let mut set = PeerSet::new(hello(node, boot, ConnectionKind::Pulse, 0).identity);
        let mut liveness = Liveness::new(boot);
        for peer in (0..n_nodes).filter(|peer| *peer != node) {
            let port = number(peer).0;
            let address = PeerAddress { host: "host".to_owned(), port };
            set.set_member((number(peer), 0), &format!("rabbit@{port}"), address, now);
            liveness.add(number(peer), now);
        }
        let (is_up, is_frozen, unsynced_age_ms, clock_ahead_ms) = (true, false, 0, 0);
        SimNode { set, liveness, boot, is_up, is_frozen, unsynced_age_ms, clock_ahead_ms }
    }

    /// Kills a node's process; the system resets its connections.
    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node].is_up = false;
        for connection in 0..self.connections.len() {
            if let Some(end) = self.connections[connection].ends.iter().position(|it| *it == node) {
                self.close(connection, end);
            }
        }
    }

    pub(crate) fn restart(&mut self, node: usize) {
        let boot = self.nodes[node].boot + 1;
        self.nodes[node] = self.start(node, self.nodes.len(), boot);
    }

    /// Cuts the directions between all nodes off, or joins them again.
    pub(crate) fn set_cut_off(&mut self, is_cut: bool) {
        let n = self.nodes.len();
        let all = (0..n).flat_map(|from| (0..n).map(move |to| (from, to)));
        self.cuts = if is_cut { all.collect() } else { BTreeSet::new() };
    }

    /// Resets all connections, of which both ends hear.
    pub(crate) fn reset_all(&mut self) {
        for connection in 0..self.connections.len() {
            for end in 0..2 {
                self.at(0, Happening::Closed { connection, end });
            }
        }
    }

    pub(crate) fn run(&mut self, span_ms: u64) {
        for _ in 0..span_ms / STEP_MS {
            self.step();
        }
    }

    /// Whether each node that runs takes each other for alive, and is connected in each way.
    pub(crate) fn is_whole(&self) -> bool {
        let n = self.nodes.len();
        let pairs = (0..n).flat_map(|one| (0..n).map(move |other| (one, other)));
        pairs.filter(|(one, other)| one != other).all(|(one, other)| {
            let is_connected = |kind: ConnectionKind| {
                let of = |it: &&SimConnection| it.kind == kind && it.is_open == [true; 2];
                let open = self.connections.iter().filter(of);
                open.filter(|it| it.ends.contains(&one) && it.ends.contains(&other)).count() == 1
            };
            let is_alive = self.nodes[one].liveness.is_alive(number(other));
            is_alive && ConnectionKind::HELD.into_iter().all(is_connected)
        })
    }

    /// Events since a time that `wanted` selects.
    pub(crate) fn since(
        &self,
        since_ms: u64,
        wanted: impl Fn(&LivenessEvent) -> bool,
    ) -> Vec<(u64, usize, LivenessEvent)> {
        let events = self.events.iter().filter(|(at, _, event)| *at > since_ms && wanted(event));
        events.map(|(at, node, event)| (at - since_ms, *node, *event)).collect()
    }

    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        self.seed >> 33
    }

    fn at(&mut self, delay_ms: u64, happening: Happening) {
        let order = self.random() << 20 | self.happenings.len() as u64;
        self.happenings.insert((self.now_ms + delay_ms, order), happening);
    }

    fn step(&mut self) {
        self.now_ms += STEP_MS;
        let later = self.happenings.split_off(&(self.now_ms + 1, 0));
        for happening in std::mem::replace(&mut self.happenings, later).into_values() {
            self.happen(happening);
        }
        self.carry();
        for node in 0..self.nodes.len() {
            if self.nodes[node].is_up && !self.nodes[node].is_frozen {
                self.work(node);
            }
        }
    }

    fn is_cut(&self, ends: [usize; 2]) -> bool {
        self.cuts.contains(&(ends[0], ends[1])) || self.cuts.contains(&(ends[1], ends[0]))
    }

    /// Sends some bytes over each connection.
    fn carry(&mut self) {
        for it in &mut self.connections {
            for (from, to) in [(0, 1), (1, 0)] {
                let [sender, receiver] = [it.ends[from], it.ends[to]];
                if it.is_open[from] && !self.nodes[sender].is_frozen {
                    it.sent[from] += 100;
                }
                let comes = !it.is_stuck && !self.cuts.contains(&(sender, receiver));
                if comes && it.is_open[to] && !self.nodes[receiver].is_frozen {
                    it.got[to] = it.sent[from];
                }
            }
        }
    }

    fn end_of(&self, node: usize, peer: usize, kind: ConnectionKind) -> Option<(usize, usize)> {
        self.connections.iter().enumerate().rev().find_map(|(connection, it)| {
            let end = it.ends.iter().position(|end| *end == node)?;
            let is_it = it.kind == kind && it.ends[1 - end] == peer && it.is_open[end];
            is_it.then_some((connection, end))
        })
    }

    /// A node's own work: ticks, pulses, dials.
    fn work(&mut self, node: usize) {
        let now = MonotonicMs::from_raw(self.now_ms);
        let peers: Vec<usize> = (0..self.nodes.len()).filter(|peer| *peer != node).collect();
        let is_round = (self.now_ms + 30 * node as u64).is_multiple_of(PULSE_INTERVAL_MS);
        if is_round || self.nodes[node].liveness.due() <= now {
            for peer in &peers {
                for kind in [ConnectionKind::Raft, ConnectionKind::Work] {
                    if let Some((connection, end)) = self.end_of(node, *peer, kind) {
                        let sent = self.connections[connection].sent[end];
                        self.nodes[node].liveness.sent(number(*peer), kind, sent);
                    }
                }
            }
            let mut events = Vec::new();
            self.nodes[node].liveness.tick(now, &mut events);
            self.carry_out(node, &events);
        }
        if is_round {
            let sequence = self.nodes[node].liveness.begin_round(now);
            peers.iter().for_each(|peer| self.send_pulse(node, *peer, sequence));
        }
        let mut dials = Vec::new();
        self.nodes[node].set.dials(now, &mut dials);
        for dial in dials {
            let peer = usize::from(dial.address.port) - 1;
            let is_lost = self.is_cut([node, peer]);
            let delay_ms = if is_lost { dial.deadline.since(now) } else { 6 * LATENCY_MS };
            let failed = Happening::DialFailed { from: node, dial: dial.clone() };
            self.at(
                delay_ms,
                if is_lost { failed } else { Happening::Connect { from: node, dial } },
            );
        }
    }

    fn send_pulse(&mut self, node: usize, peer: usize, sequence: u64) {
        if self.end_of(node, peer, ConnectionKind::Pulse).is_none() {
            return;
        }
        let kinds = [ConnectionKind::Raft, ConnectionKind::Work];
        let received = kinds.map(|kind| {
            self.end_of(node, peer, kind).map_or(0, |(it, end)| self.connections[it].got[end])
        });
        let from = &self.nodes[node];
        let pulse = Pulse {
            boot: from.boot,
            sequence,
            heard: from.liveness.newest(number(peer)).map_or(0, |newest| newest.sequence),
            received,
            unsynced_age_ms: from.unsynced_age_ms,
            clock: Now::at_ms(self.now_ms + from.clock_ahead_ms).unix_ms,
            ..Pulse::default()
        };
        if !self.cuts.contains(&(node, peer)) {
            let delay_ms = LATENCY_MS + self.random() % 20;
            self.at(delay_ms, Happening::Pulse { to: peer, from: node, pulse });
        }
    }

    fn carry_out(&mut self, node: usize, events: &[LivenessEvent]) {
        for event in events {
            self.events.push((self.now_ms, node, *event));
            if let LivenessEvent::Remake { node: peer, kind } = event
                && let Some((connection, end)) = self.end_of(node, usize::from(peer.0) - 1, *kind)
            {
                self.close(connection, end);
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        let now = Now::at_ms(self.now_ms);
        match happening {
            Happening::Pulse { to, .. } if self.nodes[to].is_frozen => self.at(STEP_MS, happening),
            Happening::Pulse { to, from, pulse } => {
                let mut events = Vec::new();
                if self.nodes[to].is_up && self.end_of(to, from, ConnectionKind::Pulse).is_some() {
                    self.nodes[to].liveness.hear(number(from), &pulse, now, &mut events);
                }
                self.carry_out(to, &events);
            }
            Happening::Closed { connection, end } => {
                let node = self.connections[connection].ends[end];
                if self.nodes[node].is_frozen {
                    self.at(STEP_MS, happening);
                } else {
                    self.close(connection, end);
                }
            }
            Happening::Connect { from, dial } => self.connect(from, dial),
            Happening::DialFailed { from, dial } => {
                let random = self.random();
                self.nodes[from].set.dial_failed(&dial, None, now.monotonic_ms, random);
            }
        }
    }

    /// Closes one end, of which the other one hears.
    fn close(&mut self, connection: usize, end: usize) {
        let random = self.random();
        let it = &mut self.connections[connection];
        if !std::mem::replace(&mut it.is_open[end], false) {
            return;
        }
        let [node, peer] = [it.ends[end], it.ends[1 - end]];
        let (kind, number_here) = (it.kind, it.numbers[end]);
        let now = MonotonicMs::from_raw(self.now_ms);
        let at = &mut self.nodes[node];
        if at.set.closed(number(peer), (kind, number_here), now, random) {
            at.liveness.disconnected(number(peer), kind, now);
        }
        if !self.cuts.contains(&(node, peer)) {
            self.at(LATENCY_MS, Happening::Closed { connection, end: 1 - end });
        }
    }

    fn connect(&mut self, from: usize, dial: PeerDial) {
        let now = MonotonicMs::from_raw(self.now_ms);
        let to = usize::from(dial.address.port) - 1;
        let failed = Happening::DialFailed { from, dial: dial.clone() };
        if !self.nodes[from].is_up || self.nodes[from].is_frozen {
            return;
        }
        if self.is_cut([from, to]) || self.nodes[to].is_frozen {
            return self.at(dial.deadline.since(now), failed);
        }
        let Some([here, there]) =
            self.handshake([from, to], &dial).filter(|_| self.nodes[to].is_up)
        else {
            return self.at(0, failed);
        };
        let ends = [from, to];
        let admitted = [self.admit(from, &here), self.admit(to, &there)];
        let [Some(here), Some(there)] = admitted else { panic!("judged before") };
        let numbers = [here, there];
        self.connections.push(SimConnection {
            ends,
            kind: dial.kind,
            numbers,
            is_open: [true; 2],
            sent: [0; 2],
            got: [0; 2],
            is_stuck: self.sticky == Some(dial.kind),
        });
    }

    /// Both ends' outcome of a handshake, none if it failed.
    fn handshake(&mut self, ends: [usize; 2], dial: &PeerDial) -> Option<[PeerEstablished; 2]> {
        let now = MonotonicMs::from_raw(self.now_ms);
        let roles = [HandshakeRole::Dialler, HandshakeRole::Acceptor];
        let mut sides = [0, 1].map(|end| {
            let (node, nonce) = (ends[end], self.random());
            let hello = hello(node, self.nodes[node].boot, dial.kind, nonce);
            let cookie = PeerCookie::new(b"cookie").expect("a cookie");
            PeerHandshake::new(roles[end], hello, cookie, now)
        });
        let mut outcomes = [None, None];
        let mut bytes = sides[0].opening();
        for leg in 0..4 {
            let end = 1 - leg % 2;
            let dialled = (end == 0).then_some(dial.node);
            let set = &self.nodes[ends[end]].set;
            let (mut input, mut out) = (bytes.as_slice(), Vec::new());
            let outcome =
                sides[end].receive(&mut input, |hello| set.judge(hello, dialled), &mut out);
            match outcome {
                Ok(established) => outcomes[end] = established,
                Err(HandshakeError::Refused(_)) => return None,
                Err(error) => panic!("{error}"),
            }
            bytes = out;
        }
        let [Some(here), Some(there)] = outcomes else { panic!("four messages are a handshake") };
        Some([here, there])
    }

    fn admit(&mut self, node: usize, established: &PeerEstablished) -> Option<ConnectionNumber> {
        let now = MonotonicMs::from_raw(self.now_ms);
        let (peer, kind) = (established.peer.identity.number, established.peer.kind);
        let at = &mut self.nodes[node];
        let PeerAdmitted { number, ended } = at.set.admit(established, now).ok()?;
        for (ended, _) in &ended {
            at.liveness.disconnected(peer, *ended, now);
        }
        at.liveness.connected(peer, kind, now);
        for (_, ended) in ended {
            let of = |it: &SimConnection| it.ends.iter().position(|end| *end == node);
            let mut all = self.connections.iter().enumerate();
            let found = all.find_map(|(connection, it)| {
                let end = of(it).filter(|end| it.numbers[*end] == ended)?;
                Some((connection, end))
            });
            let (connection, end) = found.expect("a connection that was there");
            self.close(connection, end);
        }
        Some(number)
    }
}
