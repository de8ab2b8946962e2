//! Brokers that share their definitions: each with a disk in memory, and links between them that deliver in
//! order, or break, by a seed.

use broker::{
    Broker, BrokerOptions, DefinitionsLinks, ReplicaParts, Replication, Steppers, awaits_cluster,
    follow_definitions, found_cluster, join_cluster, resume_cluster,
};
use cluster::{
    Change, GroupProgress, GroupRequest, GroupStep, ImageWrite, OutgoingMessage, PeerId, Role,
};
use definitions::{Ask, AskAnswer, DefinitionsGroup, Refusal};
use log::{Lsn, WalOptions};
use meta::{Command, Done, MetaError, SnapshotOf, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use stdx::Now;
use testing::{CrashOutcome, MemoryDisk, Random};

const TIMEOUT_MS: u64 = 30_000;

type Task<T> = Pin<Box<dyn Future<Output = T>>>;
pub(crate) type Answer = Result<Done, MetaError>;

/// A thing on its way to another node.
#[derive(Debug)]
enum Parcel {
    Raft(OutgoingMessage),
    Ask(Ask),
    Answer(AskAnswer),
    Applied(u64),
}

/// The wishes of a replica to its host.
#[derive(Debug, Default)]
struct Asked {
    out: VecDeque<(Option<u16>, Parcel)>,
    later: BTreeSet<bool>,
    writes: Vec<ImageWrite>,
    now_ms: u64,
}

#[derive(Debug)]
struct Links(Arc<Mutex<Asked>>);

impl Links {
    fn put(&self, to: Option<u16>, parcel: Parcel) {
        self.0.lock().unwrap().out.push_back((to, parcel));
    }
}

impl DefinitionsLinks for Links {
    fn send(&self, message: OutgoingMessage) {
        self.put(Some(message.message.to.node()), Parcel::Raft(message));
    }

    fn ask(&self, node: u16, ask: &Ask) -> Result<(), Refusal> {
        ask.encode()?;
        self.put(Some(node), Parcel::Ask(ask.clone()));
        Ok(())
    }

    fn answer(&self, node: u16, answer: AskAnswer) {
        self.put(Some(node), Parcel::Answer(answer));
    }

    fn applied(&self, index: u64) {
        self.put(None, Parcel::Applied(index));
    }

    fn durable_at(&self, _upto: Lsn) {}

    fn later(&self, request: GroupRequest) {
        self.0.lock().unwrap().later.insert(request == GroupRequest::CampaignLater);
    }

    fn write_image(&self, write: ImageWrite) {
        self.0.lock().unwrap().writes.push(write);
    }

    fn now_ms(&self) -> u64 {
        self.0.lock().unwrap().now_ms
    }

    fn tick_soon(&self) {}
}

/// The part of a node that a crash ends.
struct Running {
    broker: Arc<Broker>,
    steppers: Steppers,
    asked: Arc<Mutex<Asked>>,
    following: Task<()>,
    durable: Lsn,
}

impl Running {
    fn replication(&self) -> Replication<'_> {
        self.broker.control_plane.replication().unwrap()
    }
}

struct Node {
    no: u16,
    boot: u32,
    disk: MemoryDisk,
    running: Option<Running>,
}

/// A change that a client of a node waits for.
struct Waiting {
    node: u16,
    task: Task<Answer>,
    answer: Option<Answer>,
}

pub(crate) struct World {
    random: Random,
    nodes: Vec<Node>,
    /// Parcels on their way; a link that is cut is not there.
    links: BTreeMap<(u16, u16), VecDeque<Parcel>>,
    clients: Vec<Waiting>,
    now_ms: u64,
}

fn options() -> WalOptions {
    WalOptions { segment_bytes: 16 << 10, ..WalOptions::default() }
}

fn peer(node: u16) -> PeerId {
    PeerId(u64::from(node) << 48 | 1)
}

impl World {
    /// Makes a cluster of `n` nodes: the first one has it to itself, the others join.
    pub(crate) fn new(seed: u64, n: u16) -> Self {
        let mut world = Self {
            random: Random::new(seed),
            nodes: Vec::new(),
            links: BTreeMap::new(),
            clients: Vec::new(),
            now_ms: 0,
        };
        (1..=n).for_each(|no| world.add(no));
        world
    }

    /// Adds a node, which gets a vote.
    pub(crate) fn add(&mut self, no: u16) {
        self.nodes.push(Node { no, boot: 0, disk: MemoryDisk::new(), running: None });
        self.start(no);
        (1..no).for_each(|other| self.mend(no, other));
        if no > 1 {
            let peer = peer(no);
            self.change_members(Change::AddLearner(peer), |members| members.has(peer));
            self.until(|world| (world.index(no) == world.index(1)).then_some(()));
            self.change_members(Change::Promote(peer), |members| members.has_voter(peer));
        }
    }

    /// How far the log of a node's replica goes.
    pub(crate) fn progress(&self, node: u16) -> GroupProgress {
        let replication = self.running(node).unwrap().replication();
        replication.inspect(|group| group.group().progress()).unwrap()
    }

    fn change_members(&mut self, change: Change, is_done: impl Fn(&cluster::Members) -> bool) {
        self.until(|world| {
            let leader = world.leader()?;
            let replication = world.running(leader)?.replication();
            let members = replication.inspect(|group| group.group().members())?;
            if is_done(&members) {
                return Some(());
            }
            replication.change_members(change);
            None
        });
    }

    pub(crate) fn broker(&self, node: u16) -> Arc<Broker> {
        Arc::clone(&self.running(node).unwrap().broker)
    }

    fn node(&mut self, node: u16) -> &mut Node {
        &mut self.nodes[usize::from(node) - 1]
    }

    fn running(&self, node: u16) -> Option<&Running> {
        self.nodes[usize::from(node) - 1].running.as_ref()
    }

    /// The node that leads, if one does.
    pub(crate) fn leader(&self) -> Option<u16> {
        let leads = |node: &&Node| {
            let running = node.running.as_ref();
            running.is_some_and(|it| {
                let role = it.replication().inspect(|group| group.group().role());
                role == Some(Role::Leader)
            })
        };
        self.nodes.iter().rev().find(leads).map(|node| node.no)
    }

    pub(crate) fn index(&self, node: u16) -> Option<u64> {
        self.running(node)?.replication().inspect(|group| group.index())
    }

    /// Starts a node: the first time as the first or a new one, later from its disk.
    pub(crate) fn start(&mut self, no: u16) {
        let node = self.node(no);
        node.boot += 1;
        let disk: Arc<dyn segments::Disk> = Arc::new(node.disk.clone());
        let (broker, steppers) =
            Broker::open_stepped(disk, options(), BrokerOptions::default()).unwrap();
        let asked: Arc<Mutex<Asked>> = Arc::default();
        let links = Arc::new(Links(Arc::clone(&asked)));
        let (me, boot, timeout_ms) = (peer(no), node.boot, TIMEOUT_MS);
        let parts = ReplicaParts { me, boot, links, timeout_ms };
        let plane = &broker.control_plane;
        match no {
            _ if awaits_cluster(plane) => resume_cluster(plane, parts).unwrap(),
            1 => found_cluster(plane, parts).unwrap(),
            _ => join_cluster(plane, parts).unwrap(),
        }
        let of_broker = Arc::clone(&broker);
        let following = Box::pin(async move { follow_definitions(&of_broker).await });
        let durable = Lsn(0);
        node.running = Some(Running { broker, steppers, asked, following, durable });
    }

    /// A node loses power, or its process is killed.
    pub(crate) fn crash(&mut self, no: u16) {
        self.cut_off(no);
        let outcome = match self.random.below(3) {
            0 => CrashOutcome::OnlySynced,
            1 => CrashOutcome::Everything,
            _ => CrashOutcome::Torn(self.random.next()),
        };
        let node = self.node(no);
        node.disk = node.disk.survive(outcome);
        // Ending it in good order would write.
        std::mem::forget(node.running.take());
        for client in self.clients.iter_mut().filter(|client| client.node == no) {
            let task: Task<Answer> = Box::pin(std::future::pending());
            std::mem::forget(std::mem::replace(&mut client.task, task));
        }
    }

    /// Starts a node again, and connects it with those that run.
    pub(crate) fn restart(&mut self, no: u16) {
        self.start(no);
        self.mend_all(no);
    }

    /// Takes a number of steps.
    pub(crate) fn steps(&mut self, n: usize) {
        (0..n).for_each(|_| self.step());
    }

    pub(crate) fn any_node(&mut self) -> u16 {
        let nodes: Vec<u16> = (1..=self.n()).collect();
        self.random.choose(&nodes).unwrap()
    }

    /// Some number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }

    /// Connects two nodes.
    pub(crate) fn mend(&mut self, a: u16, b: u16) {
        for (from, to) in [(a, b), (b, a)] {
            self.links.entry((from, to)).or_default();
            let Some(running) = self.running(from) else { continue };
            running.replication().alive(to, true);
            running.replication().link_made(to);
        }
    }

    /// Cuts the connection of two nodes, which both notice.
    pub(crate) fn cut(&mut self, a: u16, b: u16) {
        for (from, to) in [(a, b), (b, a)] {
            self.links.remove(&(from, to));
            if let Some(running) = self.running(from) {
                running.replication().alive(to, false);
            }
        }
    }

    /// Cuts a node off from all others.
    pub(crate) fn cut_off(&mut self, node: u16) {
        (1..=self.n()).filter(|other| *other != node).for_each(|other| self.cut(node, other));
    }

    /// Connects a node with all others that run.
    pub(crate) fn mend_all(&mut self, node: u16) {
        for other in (1..=self.n()).filter(|other| *other != node) {
            if self.running(other).is_some() {
                self.mend(node, other);
            }
        }
    }

    fn n(&self) -> u16 {
        u16::try_from(self.nodes.len()).unwrap()
    }

    /// A client of a node asks for a change; returns its number.
    pub(crate) fn ask(&mut self, node: u16, command: Command) -> usize {
        let broker = self.broker(node);
        let task = Box::pin(async move { broker.apply_definition(command).await });
        self.clients.push(Waiting { node, task, answer: None });
        self.clients.len() - 1
    }

    /// Asks for a change and steps until it is answered.
    pub(crate) fn apply(&mut self, node: u16, command: Command) -> Answer {
        let client = self.ask(node, command);
        self.answer(client)
    }

    /// Steps until a client has its answer.
    pub(crate) fn answer(&mut self, client: usize) -> Answer {
        self.until(|world| world.clients[client].answer.clone())
    }

    /// The answer that a client has now.
    pub(crate) fn answer_now(&self, client: usize) -> Option<Answer> {
        self.clients[client].answer.clone()
    }

    pub(crate) fn is_running(&self, node: u16) -> bool {
        self.running(node).is_some()
    }

    /// Steps until something is there.
    pub(crate) fn until<T>(&mut self, mut there: impl FnMut(&mut Self) -> Option<T>) -> T {
        for _ in 0..20_000 {
            if let Some(it) = there(self) {
                return it;
            }
            self.step();
        }
        panic!("it does not come: {}", self.describe());
    }

    /// Steps until all nodes that run have the same definitions, and returns these.
    pub(crate) fn settle(&mut self) -> Vec<u8> {
        self.until(|world| {
            let running = world.nodes.iter().filter_map(|node| node.running.as_ref());
            let states = running.map(|it| everything(&it.broker.view().meta));
            let states: BTreeSet<_> = states.collect();
            (states.len() == 1).then(|| states.into_iter().next()).flatten()
        })
    }

    /// Takes a random step of everything that is there.
    pub(crate) fn step(&mut self) {
        self.now_ms += self.random.below(10) as u64;
        for no in 1..=self.n() {
            if self.random.percent(70) {
                self.step_node(no);
            }
        }
        let ends: Vec<_> = self.links.keys().copied().collect();
        for ends in ends {
            if self.random.percent(60) {
                self.deliver(ends);
            }
        }
        let mut context = Context::from_waker(Waker::noop());
        for client in &mut self.clients {
            let runs = self.nodes[usize::from(client.node) - 1].running.is_some();
            if client.answer.is_none()
                && runs
                && let Poll::Ready(answer) = client.task.as_mut().poll(&mut context)
            {
                client.answer = Some(answer);
            }
        }
    }

    fn step_node(&mut self, no: u16) {
        let (now_ms, campaigns) = (self.now_ms, self.random.percent(10));
        let ticks = self.random.percent(2);
        let Some(running) = &mut self.node(no).running else { return };
        running.steppers.log.step();
        let _is_done = running.steppers.streams.step();
        let durable = running.replication().durable_upto();
        let is_durable = std::mem::replace(&mut running.durable, durable) < durable;
        let replication = running.replication();
        if is_durable {
            replication.durable();
        }
        running.asked.lock().unwrap().now_ms = now_ms;
        let _is_asking = replication.tick();
        if ticks {
            running.broker.tick(Now::at_ms(now_ms));
        }
        let due = std::mem::take(&mut running.asked.lock().unwrap().writes);
        due.into_iter().for_each(|write| replication.write_image(write));
        if campaigns {
            let later = std::mem::take(&mut running.asked.lock().unwrap().later);
            for is_campaign in later {
                let step = if is_campaign { GroupStep::Campaign } else { GroupStep::Tick };
                replication.step(step);
            }
        }
        let mut context = Context::from_waker(Waker::noop());
        let _never = running.following.as_mut().poll(&mut context);
        self.send(no, durable);
    }

    /// Puts what may leave a node on its links.
    fn send(&mut self, no: u16, durable: Lsn) {
        let asked = Arc::clone(&self.running(no).unwrap().asked);
        let (mut asked, mut kept) = (asked.lock().unwrap(), VecDeque::new());
        for (to, parcel) in std::mem::take(&mut asked.out) {
            let after = if let Parcel::Raft(message) = &parcel { message.after } else { None };
            if after.is_some_and(|after| after > durable) {
                kept.push_back((to, parcel));
                continue;
            }
            match (to, parcel) {
                (Some(to), parcel) => {
                    if let Some(link) = self.links.get_mut(&(no, to)) {
                        link.push_back(parcel);
                    }
                }
                (None, Parcel::Applied(index)) => {
                    let links = self.links.iter_mut().filter(|((from, _), _)| *from == no);
                    links.for_each(|(_, link)| link.push_back(Parcel::Applied(index)));
                }
                (None, other) => panic!("{other:?} is for one node"),
            }
        }
        asked.out = kept;
    }

    fn deliver(&mut self, (from, to): (u16, u16)) {
        let parcel = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let (Some(parcel), Some(running)) = (parcel, self.running(to)) else { return };
        let replication = running.replication();
        match parcel {
            Parcel::Raft(it) => replication.step(GroupStep::Peer(it.message)),
            Parcel::Ask(ask) => replication.take_ask(&ask),
            Parcel::Answer(answer) => replication.take_answer(answer),
            Parcel::Applied(index) => replication.applied(from, index),
        }
    }

    fn describe(&self) -> String {
        let running = self.nodes.iter().filter_map(|it| it.running.as_ref());
        let describe = |group: &DefinitionsGroup| {
            let (raft, index) = (group.group(), group.index());
            format!("{raft:?} {:?} leader {:?} index {index}\n", raft.progress(), raft.leader())
        };
        let groups = running.map(|it| it.replication().inspect(describe));
        groups.flatten().collect()
    }
}

fn everything(state: &State) -> Vec<u8> {
    let mut out = Vec::new();
    state.snapshot(SnapshotOf::Everything, &mut out);
    out
}
