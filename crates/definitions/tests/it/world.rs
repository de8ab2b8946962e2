//! A world of nodes with one set of definitions: each has a disk that loses power and clients that ask for
//! changes, links deliver in order or break.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use cluster::{
    CacheBudget, Context, GroupRecovery, GroupRequest, GroupStep, Health, ImageStore, ImageWrite,
    LivingNodes, Members, Message, OutgoingMessage, PeerId, RaftGroup,
};
use definitions::{
    AnswerBody, Ask, AskAnswer, AskError, Asker, Decision, DefinitionsChange, DefinitionsEffects,
    DefinitionsGroup, Question, Reply, RequestId, StopReason, Surroundings,
};
use log::{ClusterId, CommitListener, Identities, Lsn, NodeId, Owner, Stepper, Wal, WalOptions};
use meta::{Command, Done, Fact, Name, QueueId, SnapshotOf, State};
use testing::{CrashOutcome, Fault, MemoryDisk, Random};

use crate::commands::{create_vhost, queue, random_command};

const OWNER: Owner = Owner(0);
/// The number of nodes.
pub(crate) const N: u16 = 3;

fn options() -> WalOptions {
    WalOptions {
        segment_bytes: 64 << 10,
        given: Identities { salt: 77, node: NodeId(1), cluster: ClusterId(1) },
        ..WalOptions::default()
    }
}

struct Forever;

impl CommitListener for Forever {
    fn durable(&self, _upto: Lsn) -> bool {
        true
    }
}

/// A thing that a link carries.
enum Parcel {
    Raft(Bytes),
    Ask(Vec<u8>),
    Answer(Vec<u8>),
    Applied(u64),
}

/// The part of a node that a crash ends.
pub(crate) struct Running {
    wal: Wal,
    stepper: Stepper,
    pub(crate) definitions: DefinitionsGroup,
    asker: Asker,
    living: LivingNodes,
    cache: Arc<CacheBudget>,
    images: ImageStore,
    held: BTreeMap<u16, VecDeque<OutgoingMessage>>,
    /// The index that others were told last.
    told_index: u64,
    wants_tick: bool,
    wants_campaign: bool,
    is_frozen: bool,
}

struct Node {
    disk: MemoryDisk,
    running: Option<Running>,
    me: PeerId,
    boot: u32,
}

/// A result that a client was given.
pub(crate) struct Told {
    request: RequestId,
    pub(crate) result: Result<Reply, AskError>,
}

pub(crate) struct World {
    pub(crate) random: Random,
    nodes: Vec<Node>,
    links: BTreeMap<(u16, u16), VecDeque<Parcel>>,
    /// Links of which an end does not know yet that they are up, or down: (knows, about).
    news: BTreeSet<(u16, u16)>,
    now_ms: u64,
    /// Changes as they were first applied, by index.
    history: BTreeMap<u64, Vec<(RequestId, Vec<Fact>)>>,
    pub(crate) told: Vec<Told>,
    /// The highest index that any client was told when an ask was made: its answer may not be older.
    floors: BTreeMap<RequestId, u64>,
    told_index: u64,
    /// Answers to nodes outside the world.
    pub(crate) answers: Vec<AskAnswer>,
    pub(crate) stopped: Vec<(u16, StopReason)>,
    pub(crate) counts: Counts,
}

/// Counts of events, to see that they happen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) done: u64,
    pub(crate) unchanged: u64,
    pub(crate) was_done: u64,
    pub(crate) refused: u64,
    pub(crate) moved: u64,
    pub(crate) no_leader: u64,
    pub(crate) timed_out: u64,
    pub(crate) crashes: u64,
    pub(crate) images: u64,
    pub(crate) files: u64,
    pub(crate) restored: u64,
    pub(crate) declined: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(seed, N, &[])
    }

    /// A world whose first nodes vote, others being no members, and whose last node has had an image.
    pub(crate) fn with(seed: u64, n_voters: u16, last_image: &[u8]) -> Self {
        let voters: Vec<_> = (1..=n_voters).map(peer).collect();
        let mut world = Self {
            random: Random::new(seed),
            nodes: Vec::new(),
            links: BTreeMap::new(),
            news: BTreeSet::new(),
            now_ms: 0,
            history: BTreeMap::new(),
            told: Vec::new(),
            floors: BTreeMap::new(),
            told_index: 0,
            answers: Vec::new(),
            stopped: Vec::new(),
            counts: Counts::default(),
        };
        for me in (1..=N).map(peer) {
            let disk = MemoryDisk::new();
            let (wal, stepper) =
                Wal::open_stepped(Arc::new(disk.clone()), options(), &mut |_| Ok(())).unwrap();
            let members = Members { voters: voters.clone(), ..Members::default() };
            let group = if voters.contains(&me) {
                RaftGroup::create(&wal, OWNER, me, members)
            } else {
                RaftGroup::join(OWNER, me)
            };
            let image = if me.node() == N { last_image } else { &[] };
            let definitions = DefinitionsGroup::new(group, image).unwrap();
            let asker = Asker::new(me.node(), 1);
            let running = Running::new((wal, stepper), definitions, asker, images_of(&disk));
            world.nodes.push(Node { disk, running: Some(running), me, boot: 1 });
        }
        for (a, b) in ends() {
            world.links.insert((a, b), VecDeque::new());
            world.news.insert((a, b));
        }
        for node in 1..=N {
            world.commit(node);
        }
        world.client_asks(1, vec![create_vhost("/")], None);
        world
    }

    pub(crate) fn running(&mut self, node: u16) -> Option<&mut Running> {
        self.nodes[usize::from(node) - 1].running.as_mut()
    }

    fn any_node(&mut self) -> u16 {
        1 + u16::try_from(self.random.below(usize::from(N))).unwrap()
    }

    fn is_frozen(&mut self, node: u16) -> bool {
        self.running(node).is_some_and(|it| it.is_frozen)
    }

    /// Takes a random step; without faults, none of them harms.
    pub(crate) fn step(&mut self, has_faults: bool) {
        let node = self.any_node();
        self.now_ms += self.random.below(20) as u64;
        match self.random.below(if has_faults { 1000 } else { 900 }) {
            0..450 => (0..3).for_each(|_| self.deliver_any()),
            450..600 if !self.is_frozen(node) => self.commit(node),
            600..760 if !self.is_frozen(node) => self.random_ask(node),
            760..800 => self.hear_news(),
            800..840 if !self.is_frozen(node) => self.heed(node),
            840..880 if !self.is_frozen(node) => self.poll(node),
            880..890 if !self.is_frozen(node) => self.take_image(node),
            900..920 => self.change_link(),
            920..925 => self.suspect_wrongly(),
            925..940 => self.freeze(node),
            940..943 => self.crash(node),
            943..970 => self.start_any(),
            970..974 => {
                let in_ops = self.random.below(12) as u64;
                let disk = &self.nodes[usize::from(node) - 1].disk;
                disk.inject(disk.operations() + in_ops, Fault::PowerLoss);
            }
            974..980 if !self.is_frozen(node) => {
                let to = self.any_node();
                let to = self.nodes[usize::from(to) - 1].me;
                self.group(node, GroupStep::Transfer(to));
            }
            _ => {}
        }
    }

    fn random_ask(&mut self, node: u16) {
        let Some(running) = self.running(node) else { return };
        let index = running.definitions.index();
        let n = if self.random.percent(25) { 2 + self.random.below(3) } else { 1 };
        let commands = (0..n).map(|_| random_command(&mut self.random)).collect();
        let basis = self.random.percent(15).then_some(index);
        self.client_asks(node, commands, basis);
    }

    pub(crate) fn client_asks(&mut self, node: u16, commands: Vec<Command>, basis: Option<u64>) {
        let deadline_ms = self.now_ms + 500 + self.random.below(10_000) as u64;
        let (boot, floor) = (self.nodes[usize::from(node) - 1].boot, self.told_index);
        let Some(running) = self.running(node) else { return };
        let question = Question { commands, basis, user: Name::from("guest") };
        let n = running.asker.ask(question, deadline_ms).unwrap();
        self.floors.insert(RequestId { node, boot, n }, floor);
        self.poll(node);
    }

    fn poll(&mut self, node: u16) {
        let (now_ms, boot) = (self.now_ms, self.nodes[usize::from(node) - 1].boot);
        let Some(running) = self.running(node) else { return };
        let leader = running.definitions.leader();
        let members = running.definitions.group().members();
        let around = Surroundings { now_ms, leader, members: &members, living: &running.living };
        let fx = running.asker.poll(around);
        for (n, result) in fx.results {
            self.tell_client(RequestId { node, boot, n }, result);
        }
        for (to, ask) in fx.asks {
            if to == node {
                self.ask(node, &ask);
            } else {
                self.send(node, to, Parcel::Ask(ask.encode().unwrap()));
            }
        }
    }

    fn tell_client(&mut self, request: RequestId, result: Result<Reply, AskError>) {
        let counts = &mut self.counts;
        let counter = match &result {
            Ok(reply) => match &reply.decision {
                Decision::Done(done) if !done.iter().any(Done::is_change) => &mut counts.unchanged,
                Decision::Done(_) => &mut counts.done,
                Decision::WasDone => &mut counts.was_done,
                Decision::Refused(definitions::Refusal::Moved) => &mut counts.moved,
                Decision::Refused(_) => &mut counts.refused,
            },
            Err(AskError::NoLeader) => &mut counts.no_leader,
            Err(_) => &mut counts.timed_out,
        };
        *counter += 1;
        if let Ok(Reply { index, .. }) = result {
            let floor = self.floors[&request];
            assert!(
                index >= floor,
                "{request:?} is told of {index}, others were of {floor} before"
            );
            self.told_index = self.told_index.max(index);
        }
        self.told.push(Told { request, result });
    }

    fn send(&mut self, from: u16, to: u16, parcel: Parcel) {
        if let Some(link) = self.links.get_mut(&(from, to)) {
            link.push_back(parcel);
        }
    }

    fn deliver_any(&mut self) {
        let full: Vec<_> =
            self.links.iter().filter(|(_, link)| !link.is_empty()).map(|(it, _)| *it).collect();
        if let Some(ends) = self.random.choose(&full)
            && !self.is_frozen(ends.1)
        {
            self.deliver(ends);
        }
    }

    fn deliver(&mut self, (from, to): (u16, u16)) {
        let Some(parcel) = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return;
        };
        let now_ms = self.now_ms;
        let Some(running) = self.running(to) else { return };
        match parcel {
            Parcel::Raft(bytes) => {
                return self.group(to, GroupStep::Peer(Message::decode(&bytes).unwrap()));
            }
            Parcel::Ask(bytes) => return self.ask(to, &Ask::decode(&bytes).unwrap()),
            Parcel::Answer(bytes) => {
                running.asker.receive(AskAnswer::decode(&bytes).unwrap(), now_ms);
            }
            Parcel::Applied(index) => running.asker.applied(from, index),
        }
        self.poll(to);
    }

    pub(crate) fn ask(&mut self, node: u16, ask: &Ask) {
        let Some(running) = self.running(node) else { return };
        let fx = running.with(|it, cx| it.ask(ask, cx));
        self.handle(node, fx);
    }

    pub(crate) fn group(&mut self, node: u16, step: GroupStep) {
        let Some(running) = self.running(node) else { return };
        let fx = running.with(|it, cx| it.step(step, cx));
        self.handle(node, fx);
    }

    fn take_image(&mut self, node: u16) {
        self.counts.images += 1;
        let Some(running) = self.running(node) else { return };
        let fx = running.with(|it, cx| it.take_image(Bytes::new(), cx));
        self.handle(node, fx);
    }

    fn handle(&mut self, node: u16, fx: DefinitionsEffects) {
        let DefinitionsEffects { is_restored, changes, answers, stopped, group } = fx;
        self.stopped.extend(stopped.map(|reason| (node, reason)));
        self.counts.restored += u64::from(is_restored);
        self.note(changes);
        let now_ms = self.now_ms;
        for answer in answers {
            let to = answer.request.node;
            self.counts.declined += u64::from(answer.body == AnswerBody::Declined);
            if to > N {
                self.answers.push(answer);
            } else if to == node {
                self.running(node).unwrap().asker.receive(answer, now_ms);
            } else {
                self.send(node, to, Parcel::Answer(answer.encode()));
            }
        }
        let running = self.running(node).unwrap();
        for message in group.messages {
            running.held.entry(message.message.to.node()).or_default().push_back(message);
        }
        self.release(node);
        self.tell_index(node);
        for request in group.requests {
            self.request(node, request);
        }
        if let Some(write) = group.write {
            self.write_image(node, write);
        }
        self.poll(node);
    }

    fn write_image(&mut self, node: u16, write: ImageWrite) {
        let running = self.running(node).unwrap();
        let written = write.write(&running.images, &running.wal);
        let is_done = written.outcome.is_ok();
        let fx = running.with(|it, cx| it.image_written(written, cx));
        self.counts.files += u64::from(is_done);
        self.handle(node, fx);
    }

    /// Compares changes with those that others have applied.
    fn note(&mut self, changes: Vec<DefinitionsChange>) {
        let mut by_index: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for DefinitionsChange { index, request, facts, .. } in changes {
            by_index.entry(index).or_default().push((request, facts));
        }
        for (index, here) in by_index {
            let there = self.history.entry(index).or_insert_with(|| here.clone());
            assert_eq!(*there, here, "entry {index} differs");
        }
    }

    fn tell_index(&mut self, node: u16) {
        let running = self.running(node).unwrap();
        let index = running.definitions.index();
        if index == running.told_index {
            return;
        }
        running.told_index = index;
        running.asker.applied(node, index);
        for other in (1..=N).filter(|other| *other != node) {
            self.send(node, other, Parcel::Applied(index));
        }
    }

    fn request(&mut self, node: u16, request: GroupRequest) {
        let may_stop = self.nodes[usize::from(node) - 1].disk.has_lost_power()
            || self.stopped.iter().any(|(stopped, _)| *stopped == node);
        let Some(running) = self.running(node) else { return };
        match request {
            GroupRequest::Image => self.take_image(node),
            GroupRequest::CampaignLater => running.wants_campaign = true,
            GroupRequest::TickLater => running.wants_tick = true,
            GroupRequest::Stopped => assert!(may_stop, "node {node} has stopped"),
            GroupRequest::Gone => {}
        }
    }

    /// Puts on their links what may leave.
    fn release(&mut self, node: u16) {
        let running = self.nodes[usize::from(node) - 1].running.as_mut().unwrap();
        let durable = running.wal.durable_upto();
        for (to, held) in &mut running.held {
            while let Some(OutgoingMessage { message, .. }) =
                held.pop_front_if(|it| it.after.is_none_or(|after| after <= durable))
            {
                if let Some(link) = self.links.get_mut(&(node, *to)) {
                    let mut bytes = Vec::new();
                    let payloads = message.encode(&mut bytes);
                    bytes.extend(payloads.iter().flatten());
                    link.push_back(Parcel::Raft(bytes.into()));
                }
            }
        }
    }

    pub(crate) fn commit(&mut self, node: u16) {
        let Some(running) = self.running(node) else { return };
        running.wal.watch(Arc::new(Forever));
        running.stepper.step();
        if self.nodes[usize::from(node) - 1].disk.has_lost_power() {
            return self.crash(node);
        }
        self.group(node, GroupStep::Durable);
    }

    fn freeze(&mut self, node: u16) {
        let is_frozen = self.random.percent(40);
        if let Some(running) = self.running(node) {
            running.is_frozen = is_frozen;
        }
    }

    fn change_link(&mut self) {
        let (a, b) = (self.any_node(), self.any_node());
        if a == b || self.is_frozen(a) || self.is_frozen(b) {
            return;
        }
        if self.links.contains_key(&(a, b)) {
            self.cut(a, b);
        } else if self.running(a).is_some() && self.running(b).is_some() {
            self.join(a, b);
        }
    }

    /// A node is suspected for a while though it is there.
    fn suspect_wrongly(&mut self) {
        let ends = (self.any_node(), self.any_node());
        if ends.0 != ends.1 && !self.is_frozen(ends.0) {
            self.tell(ends, false);
            self.news.insert(ends);
        }
    }

    pub(crate) fn cut(&mut self, a: u16, b: u16) {
        for ends in [(a, b), (b, a)] {
            self.links.remove(&ends);
            self.news.insert(ends);
        }
    }

    pub(crate) fn join(&mut self, a: u16, b: u16) {
        for ends in [(a, b), (b, a)] {
            self.links.entry(ends).or_default();
            self.news.remove(&ends);
            self.tell(ends, true);
            if let Some(running) = self.running(ends.0) {
                running.asker.link_made(ends.1);
                let index = running.definitions.index();
                self.send(ends.0, ends.1, Parcel::Applied(index));
                self.poll(ends.0);
            }
        }
    }

    fn hear_news(&mut self) {
        let news: Vec<_> = self.news.iter().copied().collect();
        if let Some(ends) = self.random.choose(&news)
            && !self.is_frozen(ends.0)
        {
            self.news.remove(&ends);
            let is_up = self.links.contains_key(&ends);
            self.tell(ends, is_up);
        }
    }

    pub(crate) fn tell(&mut self, (node, about): (u16, u16), is_up: bool) {
        let Some(running) = self.running(node) else { return };
        running.living.set(about, is_up);
        self.group(node, GroupStep::Alive(about, is_up));
    }

    fn heed(&mut self, node: u16) {
        let Some(running) = self.running(node) else { return };
        if std::mem::take(&mut running.wants_tick) {
            self.group(node, GroupStep::Tick);
        } else if std::mem::take(&mut running.wants_campaign) {
            self.group(node, GroupStep::Campaign);
        }
    }

    fn start_any(&mut self) {
        let down: Vec<_> =
            self.nodes.iter().filter(|it| it.running.is_none()).map(|it| it.me.node()).collect();
        if let Some(node) = self.random.choose(&down) {
            self.start(node);
        }
    }

    fn crash(&mut self, node: u16) {
        let outcome = match self.random.below(3) {
            0 => CrashOutcome::OnlySynced,
            1 => CrashOutcome::Everything,
            _ => CrashOutcome::Torn(self.random.next()),
        };
        self.counts.crashes += 1;
        for other in (1..=N).filter(|other| *other != node) {
            self.cut(node, other);
        }
        let node = &mut self.nodes[usize::from(node) - 1];
        node.disk = node.disk.survive(outcome);
        if let Some(running) = node.running.take() {
            // Closing would write.
            std::mem::forget(running.wal);
        }
    }

    fn start(&mut self, node: u16) {
        let mut found = GroupRecovery::default();
        let this = &mut self.nodes[usize::from(node) - 1];
        let opened = Wal::open_stepped(Arc::new(this.disk.clone()), options(), &mut |entry| {
            found.visit(&entry);
            Ok(())
        });
        if this.disk.has_lost_power() {
            return self.crash(node);
        }
        this.boot += 1;
        let asker = Asker::new(node, this.boot);
        let (wal, stepper) = opened.unwrap();
        let images = images_of(&this.disk);
        let found = found.finish(&wal, &images).pop();
        let (group, image) = match found {
            Some(mut found) => {
                let image = found.read_image(&wal, &images).unwrap().machine;
                (RaftGroup::recover(&wal, found), image)
            }
            None => {
                // The node crashed before its first entry was durable.
                let voters = (1..=N).map(peer).collect();
                let members = Members { voters, ..Members::default() };
                (RaftGroup::create(&wal, OWNER, this.me, members), Bytes::new())
            }
        };
        assert_eq!(group.health(), Health::Sound, "node {node}");
        wal.start_freeing();
        let definitions = DefinitionsGroup::new(group, &image).unwrap();
        this.running = Some(Running::new((wal, stepper), definitions, asker, images));
        self.tell_index(node);
        self.group(node, GroupStep::Durable);
        self.commit(node);
    }

    /// Mends everything, and steps until all nodes have the same definitions and no client waits.
    pub(crate) fn heal(&mut self) {
        for node in 1..=N {
            // Faults that were injected and did not come yet are forgotten.
            self.crash(node);
            self.start(node);
            assert!(self.running(node).is_some(), "node {node} starts");
        }
        for (a, b) in ends().filter(|(a, b)| a < b) {
            self.cut(a, b);
            self.join(a, b);
        }
        let n_told = self.told.len();
        for node in 1..=N {
            self.client_asks(node, vec![Command::DeclareQueue(queue("last"))], None);
        }
        for _ in 0..1000 {
            self.calm_round();
            if self.told.len() >= n_told + usize::from(N) && self.are_equal() {
                let last: Vec<_> = self.told[n_told..].iter().map(|it| &it.result).collect();
                assert!(last.iter().all(|it| it.is_ok()), "{last:?}");
                return self.check_end();
            }
        }
        panic!("definitions do not recover: {}", self.describe());
    }

    /// Makes node 1 lead, and lets its client have the answer to the first ask.
    pub(crate) fn begin(&mut self) {
        while !self.news.is_empty() {
            self.hear_news();
        }
        self.group(1, GroupStep::Campaign);
        self.calm_until_told(1);
        assert_eq!(self.running(1).unwrap().definitions.leader().unwrap().node, 1);
    }

    /// Goes on without faults until so many results were given to clients.
    pub(crate) fn calm_until_told(&mut self, n: usize) {
        for _ in 0..2000 {
            if self.told.len() >= n {
                return;
            }
            self.calm_round();
        }
        panic!("not answered: {}", self.describe());
    }

    pub(crate) fn calm_round(&mut self) {
        self.now_ms += 5;
        for ends in self.links.keys().copied().collect::<Vec<_>>() {
            while self.links.get(&ends).is_some_and(|link| !link.is_empty()) {
                self.deliver(ends);
            }
        }
        for node in 1..=N {
            self.commit(node);
            self.poll(node);
            if self.random.percent(30) {
                self.heed(node);
            }
        }
    }

    /// The index and the bytes of a node's definitions.
    pub(crate) fn definitions_of(&self, node: u16) -> (u64, Vec<u8>) {
        let node = &self.nodes[usize::from(node) - 1];
        let definitions = &node.running.as_ref().unwrap().definitions;
        (definitions.index(), everything(definitions.definitions()))
    }

    fn are_equal(&self) -> bool {
        (2..=N).all(|node| self.definitions_of(node) == self.definitions_of(1))
    }

    pub(crate) fn check_end(&self) {
        assert_eq!(self.stopped, []);
        let mut replayed = State::new();
        let (mut done, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for (request, facts) in self.history.values().flatten() {
            assert!(done.insert(*request), "{request:?} is done twice");
            for Fact { command, .. } in facts {
                replayed.replay(command).unwrap();
                if let Command::DeclareQueue(declare) = command {
                    assert!(ids.insert(declare.id.unwrap()), "{declare:?} is made twice");
                }
            }
        }
        let (_, here) = self.definitions_of(1);
        assert_eq!(everything(&replayed), here, "the definitions are what their changes made");
        for Told { request, result } in &self.told {
            let is_done = done.contains(request);
            match result {
                Ok(Reply { decision, .. }) => check_told(decision, is_done, &ids, *request),
                Err(AskError::NoLeader | AskError::Full) => {
                    assert!(!is_done, "{request:?} is done without a leader");
                }
                Err(AskError::TimedOut) => {}
            }
        }
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            let Some(running) = &node.running else { continue };
            let (group, asker) = (running.definitions.group(), &running.asker);
            let progress = group.progress();
            text += &format!("{group:?} {progress:?} leader {:?} {asker:?}\n", group.leader());
        }
        text
    }
}

/// Compares what a client was told with what has happened.
fn check_told(decision: &Decision, is_done: bool, ids: &BTreeSet<QueueId>, request: RequestId) {
    match decision {
        Decision::Done(done) => {
            assert_eq!(is_done, done.iter().any(Done::is_change), "{request:?} was told {done:?}");
            for done in done {
                if let Done::QueueCreated(queue) | Done::QueueExists(queue) = done {
                    assert!(ids.contains(&queue.id), "{request:?} was told {queue:?}");
                }
            }
        }
        Decision::WasDone => assert!(is_done, "{request:?} was not done"),
        Decision::Refused(refusal) => assert!(!is_done, "{request:?} was refused: {refusal}"),
    }
}

pub(crate) fn peer(node: u16) -> PeerId {
    PeerId(u64::from(node) << 48 | 1)
}

pub(crate) fn everything(state: &State) -> Vec<u8> {
    let mut out = Vec::new();
    state.snapshot(SnapshotOf::Everything, &mut out);
    out
}

fn ends() -> impl Iterator<Item = (u16, u16)> {
    (1..=N).flat_map(|a| (1..=N).map(move |b| (a, b))).filter(|(a, b)| a != b)
}

impl Running {
    fn new(
        (wal, stepper): (Wal, Stepper),
        definitions: DefinitionsGroup,
        asker: Asker,
        images: ImageStore,
    ) -> Self {
        Self {
            wal,
            stepper,
            definitions,
            asker,
            living: LivingNodes::default(),
            cache: Arc::default(),
            images,
            held: BTreeMap::new(),
            told_index: 0,
            wants_tick: false,
            wants_campaign: false,
            is_frozen: false,
        }
    }

    fn with<T>(&mut self, step: impl FnOnce(&mut DefinitionsGroup, Context<'_>) -> T) -> T {
        let Self { wal, living, cache, images, .. } = self;
        step(&mut self.definitions, Context { wal, living, cache, images })
    }
}

/// The images of a disk; most become files.
fn images_of(disk: &MemoryDisk) -> ImageStore {
    ImageStore::open(Arc::new(disk.clone()), 300).unwrap()
}
