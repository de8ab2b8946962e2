//! A world of nodes that form a cluster: disks that lose power, connections that carry the real frames.

use forming::{
    FORMING_ROWS, Forming, FormingAnswer, FormingAsk, FormingSettings, FormingStep, MakerPromise,
};
use log::{ClusterId, NodeIdentity, NodeNote, NodeNumber};
use peer::{FrameDecoder, Vocabulary};
use std::collections::{BTreeMap, BTreeSet};
use stdx::MonotonicMs;
use testing::net::{Address, ConnectionNo, Death, End, Net, NetEvent, NetOptions};
use testing::{CrashOutcome, Fault, MemoryDisk, Random};

/// The time between two asks.
const INTERVAL_MS: u64 = 2_000;
/// The time that an ask may take.
const ASK_MS: u64 = 4_000;

/// Events of a run that tests want to have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    Promise,
    PromiseTaken,
    AttemptEnded,
    CrashInWrite,
    CrashInMaking,
    CrashInJoining,
    PowerLoss,
    ProcessDeath,
    WantedBack,
    LostMaker,
    Waits,
    JoinFailed,
    Made,
}

/// Work of a node that takes its time.
#[derive(Debug)]
enum Work {
    WritePromise(Option<MakerPromise>),
    Make,
    Join(ClusterId),
}

#[derive(Debug)]
enum State {
    Fresh(Box<Forming>),
    Member(ClusterId),
}

/// A node's process.
#[derive(Debug)]
struct Process {
    state: State,
    work: Vec<(u64, Work)>,
    /// Asks that are not answered, the time when the node gives each up, and the bytes still to be sent.
    asks: BTreeMap<ConnectionNo, (u64, Vec<u8>)>,
    decoders: BTreeMap<ConnectionNo, FrameDecoder>,
}

/// A node, alive or not.
#[derive(Debug)]
struct Node {
    names: BTreeSet<String>,
    disk: MemoryDisk,
    process: Option<Process>,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) now_ms: u64,
    pub(crate) net: Net,
    nodes: Vec<Node>,
    all: Vec<String>,
    /// The clusters that nodes have found themselves the first member of.
    made: Vec<ClusterId>,
    n_joined: u16,
    /// Chance that a durable write is cut off by a crash, in percent.
    pub(crate) crash_percent: usize,
    pub(crate) seen: BTreeMap<Seen, usize>,
}

impl World {
    /// A world of nodes with these lists of names; the first names of `all` are theirs.
    pub(crate) fn new(mut random: Random, all: Vec<String>, lists: Vec<BTreeSet<String>>) -> Self {
        let options = NetOptions {
            delay_ms_max: random.choose(&[5, 200, 1500]).unwrap(),
            ..NetOptions::default()
        };
        let net = Net::new(random.fork(), options);
        let node = |names| Node { names, disk: MemoryDisk::new(), process: None };
        let nodes = lists.into_iter().map(node).collect();
        let (seen, made) = (BTreeMap::new(), Vec::new());
        Self { random, now_ms: 0, net, nodes, all, made, n_joined: 1, crash_percent: 0, seen }
    }

    pub(crate) fn note(&mut self, seen: Seen) {
        *self.seen.entry(seen).or_default() += 1;
    }

    pub(crate) fn is_alive(&self, at: usize) -> bool {
        self.nodes[at].process.is_some()
    }

    /// The cluster that a node belongs to, as its process says.
    pub(crate) fn cluster_of(&self, at: usize) -> Option<ClusterId> {
        match self.nodes[at].process.as_ref()?.state {
            State::Member(cluster) => Some(cluster),
            State::Fresh(_) => None,
        }
    }

    /// Starts a node's process from what is on its disk.
    pub(crate) fn start(&mut self, at: usize) {
        if self.is_alive(at) {
            return;
        }
        let disk = self.nodes[at].disk.clone();
        let state = match NodeIdentity::read(&disk).unwrap() {
            Some(_) => {
                let begun = NodeIdentity::begin(&disk, ClusterId(0), &self.all[at]).unwrap();
                self.check(begun.cluster);
                State::Member(begun.cluster)
            }
            None => State::Fresh(Box::new(self.fresh(at, &disk))),
        };
        let (asks, decoders) = (BTreeMap::new(), BTreeMap::new());
        self.nodes[at].process = Some(Process { state, work: Vec::new(), asks, decoders });
        self.net.listen(Address(at));
    }

    fn fresh(&mut self, at: usize, disk: &MemoryDisk) -> Forming {
        let promise = NodeNote::Promise.read(disk).unwrap();
        let promise = promise.and_then(|bytes| MakerPromise::decode(&bytes).unwrap());
        let settings = FormingSettings {
            me: self.all[at].clone(),
            names: self.nodes[at].names.clone(),
            retry_interval_ms: INTERVAL_MS,
            retry_limit: None,
        };
        Forming::new(settings, promise, self.random.next(), MonotonicMs::from_raw(self.now_ms))
    }

    /// Holds that there is one cluster.
    fn check(&mut self, cluster: ClusterId) {
        if !self.made.contains(&cluster) {
            self.made.push(cluster);
        }
        assert!(self.made.len() < 2, "two clusters: {:?}", self.made);
    }

    /// Ends a node's process; its disk keeps what it would.
    pub(crate) fn kill(&mut self, at: usize, outcome: CrashOutcome) {
        if self.nodes[at].process.take().is_some() {
            self.note(match outcome {
                CrashOutcome::Everything => Seen::ProcessDeath,
                CrashOutcome::OnlySynced | CrashOutcome::Torn(_) => Seen::PowerLoss,
            });
            let death = self.random.choose(&[Death::Process, Death::Machine]).unwrap();
            self.net.kill(self.now_ms, Address(at), death);
            self.nodes[at].disk = self.nodes[at].disk.survive(outcome);
        }
    }

    pub(crate) fn outcome(&mut self) -> CrashOutcome {
        let seed = self.random.next();
        let all = [CrashOutcome::Everything, CrashOutcome::OnlySynced, CrashOutcome::Torn(seed)];
        self.random.choose(&all).unwrap()
    }

    /// The time of the next event.
    fn next_ms(&self) -> Option<u64> {
        let processes = self.nodes.iter().filter_map(|node| node.process.as_ref());
        let own = processes.flat_map(|process| {
            let due = match &process.state {
                State::Fresh(forming) => Some(forming.due().get()),
                State::Member(_) => None,
            };
            process.work.iter().map(|(due_ms, _)| *due_ms).chain(due)
        });
        own.chain(self.net.next_ms()).min()
    }

    /// Lets all happen that is due by a time.
    pub(crate) fn run_to(&mut self, end_ms: u64) {
        while let Some(next_ms) = self.next_ms().filter(|next_ms| *next_ms <= end_ms) {
            self.now_ms = self.now_ms.max(next_ms);
            while let Some((end, event)) = self.net.next(self.now_ms) {
                self.take(end, event);
            }
            for at in 0..self.nodes.len() {
                self.give_up_asks(at);
                self.work(at);
                self.step(at, |forming, now, steps| {
                    if forming.due() <= now {
                        forming.tick(now, steps);
                    }
                });
            }
        }
        self.now_ms = self.now_ms.max(end_ms);
    }

    /// Has a fresh node do something, and does what comes of it.
    fn step<T>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Forming, MonotonicMs, &mut Vec<FormingStep>) -> T,
    ) -> Option<T> {
        let now = MonotonicMs::from_raw(self.now_ms);
        let State::Fresh(forming) = &mut self.nodes[at].process.as_mut()?.state else {
            return None;
        };
        let mut steps = Vec::new();
        let result = act(forming, now, &mut steps);
        steps.into_iter().for_each(|step| self.carry_out(at, step));
        Some(result)
    }

    fn carry_out(&mut self, at: usize, step: FormingStep) {
        let work = match step {
            FormingStep::Ask { to, ask } => return self.ask(at, &to, ask),
            FormingStep::WritePromise(promise) => Work::WritePromise(promise),
            FormingStep::Make => Work::Make,
            FormingStep::Join { cluster, .. } => Work::Join(cluster),
            FormingStep::Report(wait) => {
                assert!(wait.to_string().starts_with("waiting for"));
                if wait.lost_maker.is_some() {
                    self.note(Seen::LostMaker);
                }
                return self.note(Seen::Waits);
            }
            FormingStep::GiveUp(_) => panic!("there is no limit"),
        };
        let span_ms = self.random.choose(&[0, 0, 1, 20, 800]).unwrap();
        let due_ms = self.now_ms + span_ms;
        let process = self.nodes[at].process.as_mut().unwrap();
        process.work.push((due_ms, work));
    }

    fn ask(&mut self, at: usize, to: &str, ask: FormingAsk) {
        if ask.wants_back {
            self.note(Seen::WantedBack);
        }
        let to = self.all.iter().position(|name| name == to).unwrap();
        let connection = self.net.dial(self.now_ms, Address(at), Address(to));
        let process = self.nodes[at].process.as_mut().unwrap();
        let mut bytes = Vec::new();
        ask.encode(&mut bytes);
        process.asks.insert(connection, (self.now_ms + ASK_MS, bytes));
    }

    fn take(&mut self, end: End, event: NetEvent) {
        let (at, connection) = (end.node.0, end.connection);
        let Some(process) = self.nodes[at].process.as_mut() else { return };
        match event {
            NetEvent::Accepted { .. } => {}
            NetEvent::Connected => {
                let (_, bytes) = process.asks.get_mut(&connection).unwrap();
                self.net.write(self.now_ms, end, &std::mem::take(bytes));
            }
            NetEvent::Bytes(bytes) => self.read(end, &bytes),
            NetEvent::Closed | NetEvent::Lost => {
                process.asks.remove(&connection);
                process.decoders.remove(&connection);
            }
        }
    }

    fn read(&mut self, end: End, bytes: &[u8]) {
        let at = end.node.0;
        let process = self.nodes[at].process.as_mut().unwrap();
        let new = || FrameDecoder::new(Vocabulary::new(1, &[FORMING_ROWS]));
        let decoder = process.decoders.entry(end.connection).or_insert_with(new);
        let mut input = bytes;
        let Some(frame) = decoder.next(&mut input).unwrap() else { return };
        if let Some(ask) = FormingAsk::decode(frame.kind, &frame.body).unwrap() {
            let answer = match process.state {
                State::Member(cluster) => {
                    FormingAnswer::Member { name: self.all[at].clone(), cluster }
                }
                State::Fresh(_) => {
                    self.step(at, |forming, now, steps| forming.asked(ask, now, steps)).unwrap()
                }
            };
            let mut out = Vec::new();
            answer.encode(&mut out);
            // A node that has died of what it was asked answers nothing.
            if self.is_alive(at) {
                self.net.write(self.now_ms, end, &out);
            }
        } else if let Some(answer) = FormingAnswer::decode(frame.kind, &frame.body).unwrap() {
            process.asks.remove(&end.connection);
            self.net.close(self.now_ms, end);
            self.step(at, |forming, now, steps| forming.answered(answer, now, steps));
        }
    }

    fn give_up_asks(&mut self, at: usize) {
        let (now_ms, node) = (self.now_ms, Address(at));
        let Some(process) = self.nodes[at].process.as_mut() else { return };
        process.asks.retain(|connection, (end_ms, _)| {
            if *end_ms <= now_ms {
                self.net.close(now_ms, End { node, connection: *connection });
            }
            *end_ms > now_ms
        });
    }

    /// Does the work of a node that is due.
    fn work(&mut self, at: usize) {
        loop {
            let Some(process) = self.nodes[at].process.as_mut() else { return };
            let due = process.work.iter().position(|(due_ms, _)| *due_ms <= self.now_ms);
            let Some((_, work)) = due.map(|place| process.work.remove(place)) else { return };
            match work {
                Work::WritePromise(promise) => self.write_promise(at, promise),
                Work::Make => {
                    let cluster = ClusterId(u128::from(self.random.next()));
                    let name = self.all[at].clone();
                    let boot =
                        NodeIdentity { cluster, epoch: 0, number: NodeNumber(1), boot: 1, name };
                    self.become_member(at, &boot, Seen::CrashInMaking);
                }
                Work::Join(cluster) => self.join(at, cluster),
            }
        }
    }

    fn write_promise(&mut self, at: usize, promise: Option<MakerPromise>) {
        let disk = self.disk_at_risk(at);
        let before = NodeNote::Promise.read(&disk).ok().flatten();
        let before = before.and_then(|bytes| MakerPromise::decode(&bytes).unwrap());
        if NodeNote::Promise.write(&disk, &MakerPromise::encode(promise.as_ref())).is_err() {
            return self.crash(at, Seen::CrashInWrite);
        }
        self.note(match before {
            Some(before) if before.maker == self.all[at] => Seen::AttemptEnded,
            Some(_) => Seen::PromiseTaken,
            None => Seen::Promise,
        });
        self.step(at, Forming::promise_durable);
    }

    fn become_member(&mut self, at: usize, identity: &NodeIdentity, crash: Seen) {
        let disk = self.disk_at_risk(at);
        if identity.create(&disk).is_err() {
            return self.crash(at, crash);
        }
        self.check(identity.cluster);
        self.note(Seen::Made);
        self.nodes[at].process.as_mut().unwrap().state = State::Member(identity.cluster);
    }

    fn join(&mut self, at: usize, cluster: ClusterId) {
        if self.random.percent(30) {
            self.note(Seen::JoinFailed);
            self.step(at, |forming, now, _| forming.resume(now));
            return;
        }
        self.n_joined += 1;
        let (number, name) = (NodeNumber(self.n_joined), self.all[at].clone());
        let identity = NodeIdentity { cluster, epoch: 0, number, boot: 1, name };
        self.become_member(at, &identity, Seen::CrashInJoining);
    }

    /// A node's disk, which may lose power in the write that comes.
    fn disk_at_risk(&mut self, at: usize) -> MemoryDisk {
        let disk = self.nodes[at].disk.clone();
        if self.random.percent(self.crash_percent) {
            let operation = disk.operations() + self.random.below(8) as u64;
            disk.inject(operation, Fault::PowerLoss);
        }
        disk
    }

    fn crash(&mut self, at: usize, seen: Seen) {
        self.note(seen);
        let outcome = self.outcome();
        self.kill(at, outcome);
    }
}
