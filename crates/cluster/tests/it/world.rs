//! A world of nodes with one group: each has a disk that loses power, links deliver in order or break.
//!
//! After each step: a term has one leader, a voter votes once in a term, logs that agree on an entry agree
//! below it, terms and commit indexes never fall, and what was applied once is what all apply there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use cluster::{
    CacheBudget, Change, Context, GroupEffects, GroupRecovery, GroupRequest, GroupStep, Health,
    IMAGES_DIR, Image, ImageStore, ImageWrite, ImageWritten, LivingNodes, Members, Message,
    MessageBody, OutgoingMessage, PeerId, ProposalOutcome, RaftGroup, Role, Ticket,
};
use log::{ClusterId, CommitListener, Identities, Lsn, NodeId, Owner, Stepper, Wal, WalOptions};
use testing::{CrashOutcome, Fault, MemoryDisk, Random};

mod large;

const OWNER: Owner = Owner(7);

fn options() -> WalOptions {
    WalOptions {
        segment_bytes: 2048,
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

/// The part of a node that a crash ends.
struct Running {
    wal: Wal,
    stepper: Stepper,
    group: RaftGroup,
    living: LivingNodes,
    cache: Arc<CacheBudget>,
    images: ImageStore,
    /// Images that are to be written, and those of which the group does not know yet that they are.
    writes: (VecDeque<ImageWrite>, VecDeque<ImageWritten>),
    /// Where the log has all that the group has written.
    durable_at: Lsn,
    /// The machine: numbers of the proposals that were applied, in order.
    machine: Vec<u64>,
    applied: u64,
    /// Messages by the node they are for, in order.
    held: BTreeMap<u16, VecDeque<OutgoingMessage>>,
    wants_tick: bool,
    wants_campaign: bool,
    /// Term and commit index, as they were last seen.
    seen: (u64, u64),
    /// The index of the last entry, as it was last seen.
    last: u64,
    /// Whether the node crashes once it has committed.
    ails: bool,
}

struct Node {
    disk: MemoryDisk,
    running: Option<Running>,
    me: PeerId,
    /// The highest term in a message that has left.
    told_term: u64,
}

pub(crate) struct World {
    pub(crate) random: Random,
    nodes: Vec<Node>,
    /// Links that are up, by their ends in order, with the messages both ways.
    links: BTreeMap<(u16, u16), VecDeque<Bytes>>,
    /// Links of which an end does not know yet that they are up, or down: (knows, about).
    news: BTreeSet<(u16, u16)>,
    /// Entries as they were first applied.
    log: BTreeMap<u64, (u64, Bytes)>,
    leaders: BTreeMap<u64, PeerId>,
    votes: BTreeMap<(PeerId, u64), PeerId>,
    /// Proposals that were answered as committed.
    pub(crate) acked: BTreeSet<u64>,
    next_proposal: u64,
    next_serial: u64,
    /// Whether members change often.
    has_churn: bool,
    /// Bytes of images above which they become files.
    in_log_max: usize,
    pub(crate) counts: Counts,
}

/// Counts of events, to see that they happen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Messages that were delivered, by their kind.
    pub(crate) messages: [u64; 18],
    pub(crate) elections: u64,
    pub(crate) crashes: u64,
    pub(crate) images: u64,
    /// Images that were written to files, that could not be, and that were installed from files.
    pub(crate) files: [u64; 3],
    /// Images that were installed over entries above them.
    pub(crate) cut_off: u64,
    /// Starts with an image in a file, and files that a start found besides.
    pub(crate) found: [u64; 2],
    pub(crate) changes: u64,
    pub(crate) acked: u64,
}

impl World {
    /// `n` nodes, whose replicas are all members, or the first alone.
    pub(crate) fn new(seed: u64, n: u16, alone: bool) -> Self {
        let mut world = Self {
            random: Random::new(seed),
            nodes: Vec::new(),
            links: BTreeMap::new(),
            news: BTreeSet::new(),
            log: BTreeMap::new(),
            leaders: BTreeMap::new(),
            votes: BTreeMap::new(),
            acked: BTreeSet::new(),
            next_proposal: 1,
            next_serial: 2,
            has_churn: seed.is_multiple_of(5),
            in_log_max: [48, 256, 48, 1 << 20][usize::try_from(seed % 4).unwrap()],
            counts: Counts::default(),
        };
        let peers: Vec<_> = (1..=n).map(|node| PeerId(u64::from(node) << 48 | 1)).collect();
        let voters = if alone { vec![peers[0]] } else { peers.clone() };
        for me in peers {
            let disk = MemoryDisk::new();
            let (wal, stepper) =
                Wal::open_stepped(Arc::new(disk.clone()), options(), &mut |_| Ok(())).unwrap();
            let members = Members { voters: voters.clone(), ..Members::default() };
            let is_member = voters.contains(&me);
            let group = if is_member {
                RaftGroup::create(&wal, OWNER, me, members)
            } else {
                RaftGroup::join(OWNER, me)
            };
            let applied = u64::from(is_member);
            let mut running = Running::new(wal, stepper, group, world.images_of(&disk));
            running.applied = applied;
            world.nodes.push(Node { disk, running: Some(running), me, told_term: 0 });
        }
        let ends: Vec<_> = (1..=n).flat_map(|a| (1..=n).map(move |b| (a, b))).collect();
        for (a, b) in ends.into_iter().filter(|(a, b)| a != b) {
            world.links.insert((a, b), VecDeque::new());
            world.news.insert((a, b));
        }
        for node in 1..=n {
            world.commit(node);
        }
        world
    }

    fn images_of(&self, disk: &MemoryDisk) -> ImageStore {
        let images = ImageStore::open(Arc::new(disk.clone()), self.in_log_max).unwrap();
        images.with_pieces_of(150)
    }

    fn n(&self) -> u16 {
        u16::try_from(self.nodes.len()).unwrap()
    }

    fn node(&mut self, node: u16) -> &mut Node {
        &mut self.nodes[usize::from(node) - 1]
    }

    pub(crate) fn any_node(&mut self) -> u16 {
        1 + u16::try_from(self.random.below(self.nodes.len())).unwrap()
    }

    /// Takes a random step of any kind.
    pub(crate) fn step(&mut self) {
        let node = self.any_node();
        match self.random.below(1000) {
            0..420 => (0..3).for_each(|_| self.deliver_any()),
            420..435 => self.write_image(node),
            435..450 => self.hear_of_image(node),
            450..650 => self.commit(node),
            650..780 if self.has_churn && self.random.percent(30) => self.change_members(node),
            650..780 => self.propose(),
            780..850 => self.hear_news(),
            850..857 => self.change_link(),
            857..860 => self.suspect_wrongly(),
            860..880 => self.heed(node),
            880..890 => self.ask(node, GroupStep::Campaign),
            890..905 => self.ask(node, GroupStep::Tick),
            905..920 => self.take_image(node),
            920..928 => self.reclaim(node),
            928..932 => self.sweep_and_crash(node),
            932..935 => self.strand_leader(),
            935..940 => {
                let to = self.any_node();
                let to = self.node(to).me;
                self.ask(node, GroupStep::Transfer(to));
            }
            940..960 => self.change_members(node),
            960..962 => self.crash(node),
            962..980 => self.start_any(),
            980..983 => {
                let disk = &self.node(node).disk;
                let at = disk.operations();
                let disk = disk.clone();
                let in_ops = self.random.below(12) as u64;
                disk.inject(at + in_ops, Fault::PowerLoss);
            }
            _ => self.heed(node),
        }
        self.check();
    }

    fn deliver_any(&mut self) {
        let full: Vec<_> = self
            .links
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(ends, _)| *ends)
            .collect();
        if let Some(ends) = self.random.choose(&full) {
            self.deliver(ends);
        }
    }

    fn deliver(&mut self, ends: (u16, u16)) {
        let Some(bytes) = self.links.get_mut(&ends).and_then(VecDeque::pop_front) else { return };
        let message = Message::decode(&bytes).unwrap();
        self.counts.messages[usize::from(bytes[0])] += 1;
        if self.node(ends.1).me == message.to {
            self.ask(ends.1, GroupStep::Peer(message));
        }
    }

    /// Steps a node's replica.
    fn ask(&mut self, node: u16, step: GroupStep) {
        let Some(running) = &mut self.node(node).running else { return };
        let fx = running.with(|group, cx| group.step(step, cx));
        self.handle(node, fx);
    }

    fn handle(&mut self, node: u16, fx: GroupEffects) {
        let GroupEffects {
            restored,
            committed,
            members: _,
            answers,
            messages,
            durable_at,
            write,
            requests,
        } = fx;
        let Some(running) = &mut self.nodes[usize::from(node) - 1].running else { return };
        running.writes.0.extend(write);
        running.durable_at = running.durable_at.max(durable_at.unwrap_or_default());
        if let Some(image) = restored {
            self.counts.files[2] += u64::from(image.file.is_some());
            self.counts.cut_off += u64::from(image.index < running.last);
            running.ails |= image.index < running.last;
            running.machine = image.machine.chunks(8).map(number).collect();
            running.applied = image.index;
        }
        // Alone, entries are applied before they are durable: a crash may take them back.
        let is_alone = running.group.members().all().eq([running.group.me()]);
        let mut applied = Vec::new();
        for entry in committed {
            assert!(entry.index > running.applied, "entry {} is applied again", entry.index);
            running.applied = entry.index;
            running.machine.extend(entry.commands.chunks(8).map(number));
            applied.extend((!is_alone).then_some(entry));
        }
        for message in messages {
            running.held.entry(message.message.to.node()).or_default().push_back(message);
        }
        for entry in applied {
            let here = (entry.term, entry.commands);
            let there = self.log.entry(entry.index).or_insert_with(|| here.clone());
            assert_eq!(*there, here, "entry {} is committed with two contents", entry.index);
        }
        for (Ticket(ticket), answer) in answers {
            if let ProposalOutcome::Committed(_) = answer
                && ticket != 0
            {
                self.counts.acked += 1;
                assert!(self.acked.insert(ticket), "proposal {ticket} is answered twice");
            }
        }
        self.release(node);
        for request in requests {
            self.request(node, request);
        }
    }

    fn request(&mut self, node: u16, request: GroupRequest) {
        let has_lost_power = self.node(node).disk.has_lost_power();
        let Some(running) = &mut self.node(node).running else { return };
        match request {
            GroupRequest::Image => self.take_image(node),
            GroupRequest::CampaignLater => running.wants_campaign = true,
            GroupRequest::TickLater => running.wants_tick = true,
            GroupRequest::Stopped => assert!(has_lost_power, "node {node} has stopped"),
            GroupRequest::Gone => {}
        }
    }

    /// Puts on their links what may leave.
    fn release(&mut self, node: u16) {
        let Some(running) = &mut self.nodes[usize::from(node) - 1].running else { return };
        let durable = running.wal.durable_upto();
        let mut told_term = 0;
        for (to, held) in &mut running.held {
            while let Some(OutgoingMessage { message, .. }) =
                held.pop_front_if(|it| it.after.is_none_or(|after| after <= durable))
            {
                if matches!(message.body, MessageBody::Append { .. } | MessageBody::Commit { .. }) {
                    let is_new = !self.leaders.contains_key(&message.term);
                    let leader = self.leaders.entry(message.term).or_insert(message.from);
                    assert_eq!(*leader, message.from, "two lead in term {}", message.term);
                    self.counts.elections += u64::from(is_new);
                }
                if let MessageBody::Voted { is_pre: false, is_granted: true, .. } = message.body {
                    let vote = self.votes.entry((message.from, message.term)).or_insert(message.to);
                    assert_eq!(*vote, message.to, "{:?} votes twice", message.from);
                }
                let is_pre = matches!(
                    message.body,
                    MessageBody::Vote { is_pre: true, .. }
                        | MessageBody::Voted { is_pre: true, .. }
                );
                if !is_pre {
                    told_term = told_term.max(message.term);
                }
                if let Some(queue) = self.links.get_mut(&(node, *to)) {
                    let mut bytes = Vec::new();
                    let payloads = message.encode(&mut bytes);
                    bytes.extend(payloads.iter().flatten());
                    queue.push_back(bytes.into());
                }
            }
        }
        let node = self.node(node);
        node.told_term = node.told_term.max(told_term);
    }

    /// Commits a node's log.
    fn commit(&mut self, node: u16) {
        let Some(running) = &mut self.nodes[usize::from(node) - 1].running else { return };
        running.wal.watch(Arc::new(Forever));
        running.stepper.step();
        let ails = std::mem::take(&mut running.ails) && self.random.percent(50);
        if ails || self.node(node).disk.has_lost_power() {
            return self.crash(node);
        }
        self.ask(node, GroupStep::Durable);
    }

    fn propose(&mut self) {
        let leads =
            |node: &&Node| node.running.as_ref().is_some_and(|it| it.group.role() == Role::Leader);
        let leaders: Vec<_> = self.nodes.iter().filter(leads).map(|node| node.me.node()).collect();
        let leader = self.random.choose(&leaders);
        let node = leader.unwrap_or_else(|| self.any_node());
        let proposal = self.next_proposal;
        self.next_proposal += 1;
        let commands = Bytes::copy_from_slice(&proposal.to_le_bytes());
        self.ask(node, GroupStep::Propose(Ticket(proposal), commands));
    }

    fn take_image(&mut self, node: u16) {
        let Some(running) = &mut self.node(node).running else { return };
        let machine: Vec<u8> = running.machine.iter().flat_map(|it| it.to_le_bytes()).collect();
        let index = running.group.progress().applied;
        let local = Bytes::copy_from_slice(&index.to_le_bytes());
        let fx = running.with(|group, cx| group.take_image(index, machine.into(), local, cx));
        self.counts.images += 1;
        self.handle(node, fx);
    }

    /// Empties the oldest segment of a node's log.
    fn reclaim(&mut self, node: u16) {
        let Some(running) = &mut self.node(node).running else { return };
        let stats = running.wal.stats();
        let Some(oldest) = stats.oldest.filter(|_| stats.segments > 1) else { return };
        let mut fx = GroupEffects::default();
        if running.wal.owners_in(oldest.id).contains(&OWNER) {
            // What is not durable yet is moved the next time.
            let _later = running.group.relocate(&running.wal, oldest.id, &mut fx);
        }
        self.handle(node, fx);
    }

    fn change_members(&mut self, node: u16) {
        let Some(running) = &self.node(node).running else { return };
        if running.group.role() != Role::Leader {
            return;
        }
        let members = running.group.members();
        let other = self.any_node();
        let least = if self.has_churn { 1 } else { 2 };
        let here: Vec<_> = members.all().filter(|peer| peer.node() == other).collect();
        let current = self.node(other).me;
        let change = match here.first() {
            None => Change::AddLearner(current),
            Some(peer) if members.learners.contains(peer) => {
                if *peer == current {
                    Change::Promote(*peer)
                } else {
                    Change::Remove(*peer)
                }
            }
            Some(peer) if *peer != current => Change::Remove(*peer),
            Some(peer) if members.voters.len() > least && self.random.percent(30) => {
                Change::Remove(*peer)
            }
            Some(_) => return,
        };
        self.counts.changes += 1;
        self.ask(node, GroupStep::Member(Ticket(0), change));
        self.replace_if_removed(other);
    }

    /// Makes a replica anew whose removal somebody has applied and will not forget.
    fn replace_if_removed(&mut self, node: u16) {
        let me = self.node(node).me;
        let running = self.nodes.iter().filter_map(|node| node.running.as_ref());
        let newest = running.max_by_key(|it| it.group.members().since);
        let newest = newest.filter(|it| it.durable_at <= it.wal.durable_upto());
        let members = newest.map(|it| it.group.members());
        let is_removed = members.is_some_and(|members| members.since > 1 && !members.has(me));
        let was_member =
            self.node(node).running.as_ref().is_some_and(|it| it.group.members().has(me));
        if !is_removed || !was_member {
            return;
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        let node = self.node(node);
        let Some(running) = &mut node.running else { return };
        let me = PeerId(u64::from(node.me.node()) << 48 | serial);
        std::mem::replace(&mut running.group, RaftGroup::join(OWNER, me))
            .remove(&running.wal, &running.images);
        (running.machine, running.applied, running.seen) = (Vec::new(), 0, (0, 0));
        running.held.clear();
        (node.me, node.told_term) = (me, 0);
    }

    fn change_link(&mut self) {
        let (a, b) = (self.any_node(), self.any_node());
        if a == b {
            return;
        }
        if self.links.contains_key(&(a, b)) {
            self.cut(a, b);
        } else if self.node(a).running.is_some() && self.node(b).running.is_some() {
            self.join(a, b);
        }
    }

    /// A node is suspected for a while though it is there.
    fn suspect_wrongly(&mut self) {
        let ends = (self.any_node(), self.any_node());
        if ends.0 != ends.1 {
            self.tell(ends, false);
            self.news.insert(ends);
        }
    }

    fn cut(&mut self, a: u16, b: u16) {
        for ends in [(a, b), (b, a)] {
            self.links.remove(&ends);
            self.news.insert(ends);
        }
    }

    fn join(&mut self, a: u16, b: u16) {
        for ends in [(a, b), (b, a)] {
            self.links.entry(ends).or_default();
            self.news.remove(&ends);
            self.tell(ends, true);
        }
    }

    fn hear_news(&mut self) {
        let news: Vec<_> = self.news.iter().copied().collect();
        if let Some(ends) = self.random.choose(&news) {
            self.news.remove(&ends);
            let is_up = self.links.contains_key(&ends);
            self.tell(ends, is_up);
        }
    }

    fn tell(&mut self, (node, about): (u16, u16), is_up: bool) {
        let Some(running) = &mut self.node(node).running else { return };
        running.living.set(about, is_up);
        self.ask(node, GroupStep::Alive(about, is_up));
    }

    /// Does what a replica has asked for.
    fn heed(&mut self, node: u16) {
        let Some(running) = &mut self.node(node).running else { return };
        if std::mem::take(&mut running.wants_tick) {
            self.ask(node, GroupStep::Tick);
        } else if std::mem::take(&mut running.wants_campaign) {
            self.ask(node, GroupStep::Campaign);
        }
    }

    fn start_any(&mut self) {
        let down: Vec<_> =
            self.nodes.iter().filter(|it| it.running.is_none()).map(|it| it.me.node()).collect();
        if let Some(node) = self.random.choose(&down) {
            if self.random.percent(30) {
                let at = self.random.below(12) as u64;
                let disk = &self.node(node).disk;
                disk.inject(disk.operations() + at, Fault::PowerLoss);
            }
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
        for other in 1..=self.n() {
            self.cut(node, other);
        }
        let node = self.node(node);
        node.disk = node.disk.survive(outcome);
        if let Some(running) = node.running.take() {
            // Closing would write.
            std::mem::forget(running.wal);
        }
    }

    fn start(&mut self, node: u16) {
        let mut found = GroupRecovery::default();
        let images = self.images_of(&self.nodes[usize::from(node) - 1].disk);
        let this = self.node(node);
        let disk = Arc::new(this.disk.clone());
        let opened = Wal::open_stepped(disk, options(), &mut |entry| {
            found.visit(&entry);
            Ok(())
        });
        if this.disk.has_lost_power() {
            return self.crash(node);
        }
        let (wal, stepper) = opened.unwrap();
        let mut found = found.finish(&wal, &images);
        if this.disk.has_lost_power() {
            std::mem::forget(wal);
            return self.crash(node);
        }
        let n_files = files_of(&this.disk).len() as u64;
        let (group, image) = match found.pop() {
            Some(mut found) => {
                let image = found.read_image(&wal, &images).unwrap_or_default();
                (RaftGroup::recover(&wal, found), image)
            }
            None => (RaftGroup::join(OWNER, this.me), Image::default()),
        };
        assert_eq!(group.health(), Health::Sound, "node {node}");
        assert!(group.term() >= this.told_term, "node {node} has forgotten its term");
        wal.start_freeing();
        if group.me() != this.me {
            // Its last replica was not durable; what became of the one before does not matter.
            this.me = group.me();
        }
        assert!(image.local.is_empty() || number(&image.local) == image.index, "{image:?}");
        let is_filed = u64::from(image.file.is_some());
        let mut running = Running::new(wal, stepper, group, images);
        running.applied = image.index;
        running.machine = image.machine.chunks(8).map(number).collect();
        this.running = Some(running);
        self.counts.found[0] += is_filed;
        self.counts.found[1] += n_files - is_filed;
        self.ask(node, GroupStep::Durable);
        self.commit(node);
    }

    /// Checks the invariants.
    fn check(&mut self) {
        for node in &mut self.nodes {
            let Some(running) = &mut node.running else { continue };
            let (group, progress) = (&running.group, running.group.progress());
            let now = (group.term(), progress.committed);
            assert!(now.0 >= running.seen.0, "the term of {:?} falls", node.me);
            assert!(now.1 >= running.seen.1, "the commit index of {:?} falls", node.me);
            running.seen = now;
            running.last = progress.last;
        }
        self.check_logs();
    }

    fn check_logs(&self) {
        let groups: Vec<_> = self
            .nodes
            .iter()
            .filter_map(|node| node.running.as_ref())
            .map(|it| &it.group)
            .collect();
        for (a, one) in groups.iter().enumerate() {
            for other in &groups[..a] {
                let (p, q) = (one.progress(), other.progress());
                let mut agree = false;
                for index in (p.image.max(q.image).max(1)..=p.last.min(q.last)).rev() {
                    let is_same = one.term_at(index) == other.term_at(index);
                    assert!(is_same || !agree, "logs differ at {index}, below an entry they share");
                    agree |= is_same;
                }
            }
        }
    }

    /// Mends everything, and steps until all replicas have applied the same.
    pub(crate) fn heal(&mut self) {
        for node in 1..=self.n() {
            if self.node(node).running.is_none() || self.node(node).disk.has_lost_power() {
                self.crash(node);
                self.start(node);
            }
            // Faults that were injected and did not come yet are forgotten.
            self.crash(node);
            self.start(node);
        }
        for a in 1..=self.n() {
            for b in (1..=self.n()).filter(|b| *b != a) {
                self.cut(a, b);
                self.join(a, b);
            }
        }
        let last = self.next_proposal;
        for round in 0..400 {
            self.calm_round(round);
            if self.are_equal(last) {
                self.check_files();
                return self.check_end();
            }
        }
        panic!("the group does not recover: {}", self.describe());
    }

    fn calm_round(&mut self, round: u32) {
        let ends: Vec<_> = self.links.keys().copied().collect();
        for ends in ends {
            while self.links.get(&ends).is_some_and(|queue| !queue.is_empty()) {
                self.deliver(ends);
                self.check();
            }
        }
        for node in 1..=self.n() {
            if let Some(running) = &mut self.node(node).running {
                running.ails = false;
            }
            self.commit(node);
            self.write_image(node);
            self.hear_of_image(node);
            if self.random.percent(30) {
                self.heed(node);
            }
            self.replace_if_removed(node);
        }
        if round % 8 == 3 {
            self.propose();
        }
        self.check();
    }

    fn members(&self) -> Option<Arc<Members>> {
        let running = self.nodes.iter().filter_map(|node| node.running.as_ref());
        running.map(|it| it.group.members()).max_by_key(|members| members.since)
    }

    /// Whether all members have applied the same, and a proposal from `last` on that was answered.
    fn are_equal(&self, last: u64) -> bool {
        let Some(members) = self.members() else { return false };
        let running = self.nodes.iter().filter(|node| members.has(node.me));
        let mut machines = running.filter_map(|node| node.running.as_ref()).map(|it| &it.machine);
        let Some(first) = machines.next() else { return false };
        first.iter().any(|it| *it >= last && self.acked.contains(it))
            && machines.all(|it| it == first)
    }

    fn check_end(&self) {
        let members = self.members().unwrap();
        let node = self.nodes.iter().find(|node| members.has_voter(node.me)).unwrap();
        let machine = &node.running.as_ref().unwrap().machine;
        let applied: BTreeSet<_> = machine.iter().copied().collect();
        assert_eq!(applied.len(), machine.len(), "a proposal is there twice");
        let lost: Vec<_> = self.acked.difference(&applied).collect();
        assert!(lost.is_empty(), "proposals {lost:?} were answered as committed and are not there");
    }

    fn describe(&self) -> String {
        let mut text = format!("members {:?}\n", self.members());
        for node in &self.nodes {
            let Some(running) = &node.running else { continue };
            let group = &running.group;
            text += &format!(
                "{:?} {group:?} {:?} leader {:?} machine {} held {}\n",
                node.me,
                group.progress(),
                group.leader(),
                running.machine.len(),
                running.held.values().map(VecDeque::len).sum::<usize>(),
            );
        }
        text
    }
}

impl Running {
    fn new(wal: Wal, stepper: Stepper, group: RaftGroup, images: ImageStore) -> Self {
        Self {
            wal,
            stepper,
            group,
            living: LivingNodes::default(),
            cache: Arc::default(),
            images,
            writes: <_>::default(),
            durable_at: Lsn(0),
            machine: Vec::new(),
            applied: 0,
            held: BTreeMap::new(),
            wants_tick: false,
            wants_campaign: false,
            seen: (0, 0),
            last: 0,
            ails: false,
        }
    }

    fn with<T>(&mut self, step: impl FnOnce(&mut RaftGroup, Context<'_>) -> T) -> T {
        let Self { wal, living, cache, images, .. } = self;
        step(&mut self.group, Context { wal, living, cache, images })
    }
}

/// The files of images on a disk.
fn files_of(disk: &MemoryDisk) -> Vec<String> {
    let names = disk.files().into_iter().map(|(name, _)| name);
    names.filter(|name| name.starts_with(IMAGES_DIR)).collect()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}
