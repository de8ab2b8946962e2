//! Replicas one by one: alone, found again, and images on their way.

use std::sync::Arc;

use bytes::Bytes;
use cluster::{
    CacheBudget, Change, Committed, Context, GroupEffects, GroupProgress, GroupRecovery,
    GroupRequest, GroupStep, Health, IMAGE_IN_LOG_BYTES_MAX, ImageStore, LivingNodes, Members,
    Message, MessageBody, PIECE_BYTES, PeerId, ProposalOutcome, RaftGroup, Role, Ticket,
};
use log::{ClusterId, Identities, NodeId, Owner, Stepper, Wal, WalOptions};
use testing::{CrashOutcome, MemoryDisk};

pub(crate) const OWNER: Owner = Owner(3);
pub(crate) const ME: PeerId = PeerId(1 << 48 | 1);
pub(crate) const OTHER: PeerId = PeerId(2 << 48 | 1);

/// A node with one replica.
pub(crate) struct Node {
    pub(crate) disk: MemoryDisk,
    pub(crate) wal: Wal,
    pub(crate) stepper: Stepper,
    pub(crate) living: LivingNodes,
    pub(crate) cache: Arc<CacheBudget>,
    pub(crate) images: ImageStore,
}

impl Node {
    pub(crate) fn new() -> Self {
        let disk = MemoryDisk::new();
        let (node, found) = Self::open(disk);
        assert!(found.finish(&node.wal, &node.images).is_empty());
        node
    }

    pub(crate) fn open(disk: MemoryDisk) -> (Self, GroupRecovery) {
        let given = Identities { salt: 7, node: NodeId(1), cluster: ClusterId(1) };
        let options = WalOptions { given, ..WalOptions::default() };
        let mut found = GroupRecovery::default();
        let (wal, stepper) = Wal::open_stepped(Arc::new(disk.clone()), options, &mut |entry| {
            assert!(found.visit(&entry));
            Ok(())
        })
        .unwrap();
        let mut living = LivingNodes::default();
        (1..4).for_each(|node| living.set(node, true));
        let images = ImageStore::open(Arc::new(disk.clone()), IMAGE_IN_LOG_BYTES_MAX).unwrap();
        (Self { disk, wal, stepper, living, cache: Arc::default(), images }, found)
    }

    /// The node after a loss of power, and its replica.
    pub(crate) fn restart(self, outcome: CrashOutcome) -> (Self, RaftGroup) {
        let disk = self.disk.survive(outcome);
        std::mem::forget(self.wal);
        let (node, found) = Self::open(disk);
        let mut found = found.finish(&node.wal, &node.images);
        let group = RaftGroup::recover(&node.wal, found.pop().unwrap());
        (node, group)
    }

    pub(crate) fn cx(&self) -> Context<'_> {
        Context { wal: &self.wal, living: &self.living, cache: &self.cache, images: &self.images }
    }

    pub(crate) fn commit(&mut self) {
        self.wal.commit_soon();
        self.stepper.step();
    }

    pub(crate) fn create(&mut self, voters: &[PeerId]) -> RaftGroup {
        let members = Members { voters: voters.to_vec(), ..Members::default() };
        let group = RaftGroup::create(&self.wal, OWNER, ME, members);
        self.commit();
        group
    }

    pub(crate) fn step(&self, group: &mut RaftGroup, step: GroupStep) -> GroupEffects {
        group.step(step, self.cx())
    }

    pub(crate) fn hear(
        &self,
        group: &mut RaftGroup,
        from: PeerId,
        term: u64,
        body: MessageBody,
    ) -> GroupEffects {
        self.step(group, GroupStep::Peer(Message { from, to: ME, term, body }))
    }
}

pub(crate) fn propose(ticket: u64, commands: &'static [u8]) -> GroupStep {
    GroupStep::Propose(Ticket(ticket), Bytes::from_static(commands))
}

pub(crate) fn bodies(fx: &GroupEffects) -> Vec<&MessageBody> {
    fx.messages.iter().map(|sent| &sent.message.body).collect()
}

#[test]
fn alone_applies_at_once_and_answers_when_durable() {
    let mut node = Node::new();
    let mut group = node.create(&[ME]);
    let fx = node.step(&mut group, propose(5, b"a"));
    let commands = Bytes::from_static(b"a");
    assert_eq!(fx.committed, [Committed { index: 2, term: 1, commands }]);
    assert_eq!((fx.answers.len(), fx.durable_at.is_some()), (0, true));
    node.commit();
    let fx = node.step(&mut group, GroupStep::Durable);
    assert_eq!(fx.answers, [(Ticket(5), ProposalOutcome::Committed(2))]);
    assert_eq!(fx.durable_at, None);
}

#[test]
fn alone_finds_its_entries_again() {
    let mut node = Node::new();
    let mut group = node.create(&[ME]);
    node.step(&mut group, propose(1, b"a"));
    group.take_image(2, Bytes::from_static(b"image of a"), Bytes::from_static(b"local"), node.cx());
    node.step(&mut group, propose(2, b"b"));
    node.commit();
    node.step(&mut group, propose(3, b"lost"));
    let (node, found) = Node::open(node.disk.survive(CrashOutcome::OnlySynced));
    let mut found = found.finish(&node.wal, &node.images).pop().unwrap();
    let image = found.read_image(&node.wal, &node.images).unwrap();
    assert_eq!(
        (found.image_index(), &*image.machine, &*image.local),
        (2, &b"image of a"[..], &b"local"[..])
    );
    let mut group = RaftGroup::recover(&node.wal, found);
    let fx = node.step(&mut group, propose(4, b"c"));
    let applied: Vec<_> = fx.committed.iter().map(|entry| &*entry.commands).collect();
    assert_eq!(applied, [b"b", b"c"]);
    assert_eq!(group.role(), Role::Leader);
}

#[test]
fn leaves_alone_with_an_image_behind_all_entries() {
    let mut node = Node::new();
    let mut group = node.create(&[ME]);
    node.step(&mut group, propose(1, b"a"));
    let fx = node.step(&mut group, GroupStep::Member(Ticket(2), Change::AddLearner(OTHER)));
    assert_eq!(fx.requests, []);
    node.commit();
    let fx = node.step(&mut group, GroupStep::Durable);
    assert_eq!(fx.requests, [GroupRequest::Image]);
    node.step(&mut group, propose(3, b"waits"));
    group.take_image(2, Bytes::from_static(b"image"), Bytes::new(), node.cx());
    assert_eq!((group.role(), group.term()), (Role::Leader, 2));
    let mut answers = Vec::new();
    for _ in 0..3 {
        node.commit();
        answers.extend(node.step(&mut group, GroupStep::Durable).answers);
    }
    let committed = |ticket, index| (Ticket(ticket), ProposalOutcome::Committed(index));
    assert_eq!(answers, [committed(2, 4), committed(3, 5)]);
    assert_eq!(group.members().learners, [OTHER]);
}

/// A follower of a leader of term 5 that offers an image of `bytes`.
pub(crate) fn offered(node: &mut Node, machine: &Bytes) -> (RaftGroup, GroupEffects) {
    let mut group = node.create(&[ME, OTHER]);
    let fx = offer(node, &mut group, machine);
    (group, fx)
}

pub(crate) fn offer(node: &Node, group: &mut RaftGroup, machine: &Bytes) -> GroupEffects {
    let members = Members { since: 9, voters: vec![OTHER], learners: vec![ME] };
    let (machine_bytes, checksum) = (machine.len() as u64, segments::crc32c(machine));
    let offer = cluster::ImageOffer { index: 9, term: 4, members, machine_bytes, checksum };
    node.hear(group, OTHER, 5, MessageBody::ImageOffer(offer))
}

pub(crate) fn give_piece(
    node: &Node,
    group: &mut RaftGroup,
    machine: &Bytes,
    offset: usize,
) -> GroupEffects {
    let bytes = machine.slice(offset..machine.len().min(offset + PIECE_BYTES));
    let body = MessageBody::ImagePiece { index: 9, offset: offset as u64, bytes };
    node.hear(group, OTHER, 5, body)
}

#[test]
fn takes_an_image_in_pieces_and_goes_on_where_it_was() {
    let mut node = Node::new();
    let machine = Bytes::from(vec![7; PIECE_BYTES * 2 + 100]);
    let (mut group, fx) = offered(&mut node, &machine);
    assert_eq!(bodies(&fx), [&MessageBody::ImageWant { index: 9, offset: 0 }]);
    let fx = give_piece(&node, &mut group, &machine, 0);
    let offset = PIECE_BYTES as u64;
    assert_eq!(bodies(&fx), [&MessageBody::ImageWant { index: 9, offset }]);
    // A piece that is not the next one changes nothing.
    assert!(bodies(&give_piece(&node, &mut group, &machine, 0)).is_empty());
    let fx = offer(&node, &mut group, &machine);
    assert_eq!(bodies(&fx), [&MessageBody::ImageWant { index: 9, offset }]);
    give_piece(&node, &mut group, &machine, PIECE_BYTES);
    let fx = give_piece(&node, &mut group, &machine, PIECE_BYTES * 2);
    assert_eq!(fx.restored.as_ref().unwrap().machine, machine);
    assert_eq!(bodies(&fx), [&MessageBody::Appended { index: 9, commit: 0 }]);
    assert!(fx.messages[0].after > Some(node.wal.durable_upto()), "the answer waits for the disk");
    node.commit();
    let (_, group) = node.restart(CrashOutcome::OnlySynced);
    assert_eq!((group.progress().image, group.term()), (9, 5));
    assert_eq!(group.members().learners, [ME]);
}

pub(crate) fn append(prev: [u64; 2], commit: u64, terms: &[u64]) -> MessageBody {
    let entry = |term: &u64| {
        let bytes = Bytes::copy_from_slice(&term.to_le_bytes());
        let payload = cluster::Payload { entry_type: cluster::EntryType::Commands, bytes };
        cluster::SentEntry { term: *term, payload }
    };
    let entries = terms.iter().map(entry).collect();
    MessageBody::Append { prev_index: prev[0], prev_term: prev[1], commit, entries }
}

#[test]
fn an_installed_image_ends_entries_above_it() {
    let mut node = Node::new();
    let mut group = node.create(&[ME, OTHER]);
    node.hear(&mut group, OTHER, 2, append([1, 1], 1, &[2; 20]));
    node.commit();
    assert_eq!(group.progress().last, 21);
    let machine = Bytes::from_static(b"m");
    offer(&node, &mut group, &machine);
    give_piece(&node, &mut group, &machine, 0);
    node.commit();
    let (_, group) = node.restart(CrashOutcome::OnlySynced);
    let wanted = GroupProgress { image: 9, applied: 9, committed: 9, last: 9 };
    assert_eq!((group.health(), group.progress()), (Health::Sound, wanted));
}

#[test]
fn a_conflict_cuts_also_after_a_restart() {
    let mut node = Node::new();
    let mut group = node.create(&[ME, OTHER]);
    node.hear(&mut group, OTHER, 2, append([1, 1], 1, &[2, 2, 2, 2]));
    let fx = node.hear(&mut group, OTHER, 3, append([2, 2], 2, &[3]));
    assert_eq!(bodies(&fx), [&MessageBody::Appended { index: 3, commit: 2 }]);
    node.commit();
    let (node, mut group) = node.restart(CrashOutcome::OnlySynced);
    let terms: Vec<_> = (1..5).map(|index| group.term_at(index)).collect();
    assert_eq!(terms, [Some(1), Some(2), Some(3), None]);
    let fx = node.hear(&mut group, OTHER, 3, MessageBody::Heartbeat { commit: 3 });
    let applied: Vec<_> =
        fx.committed.iter().map(|entry| (entry.index, entry.commands.clone())).collect();
    let commands = |term: u64| Bytes::copy_from_slice(&term.to_le_bytes());
    assert_eq!(applied, [(2, commands(2)), (3, commands(3))]);
}

#[test]
fn a_gap_damages_the_replica_until_it_has_an_image() {
    let mut node = Node::new();
    let mut group = node.create(&[ME, OTHER]);
    node.hear(&mut group, OTHER, 2, append([1, 1], 1, &[2, 2]));
    // An entry that nothing leads to.
    let head = [&[1][..], &8_u64.to_le_bytes(), &2_u64.to_le_bytes(), &[0]].concat();
    node.wal.append(|batch| batch.entry(OWNER, cluster::KIND_ENTRY, &[&head]));
    node.commit();
    let (mut node, mut group) = node.restart(CrashOutcome::OnlySynced);
    assert_eq!((group.health(), group.term()), (Health::Damaged(8), 2));
    node.step(&mut group, GroupStep::Campaign);
    assert_eq!(group.role(), Role::Follower);
    let log = cluster::LogEnd { last_index: 50, last_term: 2, commit: 0, commit_term: 0 };
    let vote = MessageBody::Vote { is_pre: false, is_transfer: false, log };
    let fx = node.hear(&mut group, OTHER, 3, vote);
    assert!(bodies(&fx).is_empty(), "a damaged replica does not vote");
    let machine = Bytes::from_static(b"m");
    offer(&node, &mut group, &machine);
    give_piece(&node, &mut group, &machine, 0);
    assert_eq!(group.health(), Health::Sound);
    node.commit();
}

#[test]
fn commands_are_gathered_while_an_entry_is_on_its_way() {
    let mut node = Node::new();
    let mut group = node.create(&[ME]);
    node.step(&mut group, GroupStep::Member(Ticket(0), Change::AddLearner(OTHER)));
    group.take_image(1, Bytes::new(), Bytes::new(), node.cx());
    node.commit();
    node.step(&mut group, GroupStep::Durable);
    node.commit();
    node.step(&mut group, GroupStep::Durable);
    let before = group.progress().last;
    for ticket in 1..=5 {
        node.step(&mut group, propose(ticket, b"x"));
    }
    assert_eq!(group.progress().last, before + 1, "the first is on its way");
    node.commit();
    node.step(&mut group, GroupStep::Durable);
    node.commit();
    let fx = node.step(&mut group, GroupStep::Durable);
    let index = before + 2;
    let committed = |ticket| (Ticket(ticket), ProposalOutcome::Committed(index));
    assert_eq!(fx.answers, [committed(2), committed(3), committed(4), committed(5)]);
    assert_eq!(&*fx.committed[0].commands, b"xxxx");
}

#[test]
fn votes_are_dropped_while_the_leader_is_alive() {
    let mut node = Node::new();
    let third = PeerId(3 << 48 | 1);
    let mut group = node.create(&[ME, OTHER, third]);
    node.hear(&mut group, OTHER, 2, append([1, 1], 1, &[]));
    let log = cluster::LogEnd { last_index: 50, last_term: 2, commit: 0, commit_term: 0 };
    let vote = |is_transfer| MessageBody::Vote { is_pre: false, is_transfer, log };
    let fx = node.hear(&mut group, third, 3, vote(false));
    assert_eq!(
        (bodies(&fx), &*fx.requests),
        (vec![&MessageBody::WhoLeads], &[GroupRequest::TickLater][..])
    );
    // No word of the leader: it is forgotten, and the next request is granted.
    node.step(&mut group, GroupStep::Tick);
    let fx = node.hear(&mut group, third, 3, vote(false));
    let granted =
        MessageBody::Voted { is_pre: false, is_granted: true, log: cluster::LogEnd::default() };
    assert_eq!((bodies(&fx), group.term()), (vec![&granted], 3));
    // The leader's own wish passes.
    let fx = node.hear(&mut group, OTHER, 4, vote(true));
    assert_eq!((bodies(&fx), group.term()), (vec![&granted], 4));
}

/// The entries of the appends to `to`, in order.
fn sent_entries(fx: &GroupEffects, to: PeerId) -> Vec<Bytes> {
    let to_it = fx.messages.iter().map(|sent| &sent.message).filter(|message| message.to == to);
    let entries = to_it.flat_map(|message| {
        let MessageBody::Append { entries, .. } = &message.body else { return &[][..] };
        entries.as_slice()
    });
    entries.map(|entry| entry.payload.bytes.clone()).collect()
}

#[test]
fn reads_the_blocks_of_a_run_once() {
    const N: u64 = 10_000;
    let mut node = Node::new();
    let third = PeerId(3 << 48 | 1);
    let mut group = node.create(&[ME, OTHER, third]);
    for nth in 0..N / 100 {
        let (prev_index, commit) = (1 + nth * 100, 1);
        let entries = (0..100).map(|_| {
            let bytes = Bytes::from(vec![b'x'; 100]);
            let payload = cluster::Payload { entry_type: cluster::EntryType::Commands, bytes };
            cluster::SentEntry { term: 2, payload }
        });
        let (prev_term, entries) = (if nth == 0 { 1 } else { 2 }, entries.collect());
        let body = MessageBody::Append { prev_index, prev_term, commit, entries };
        node.hear(&mut group, OTHER, 2, body);
        node.commit();
    }
    let log_bytes = node.wal.stats().bytes;
    let (mut node, mut group) = node.restart(CrashOutcome::Everything);
    node.step(&mut group, GroupStep::Campaign);
    for is_pre in [true, false] {
        node.commit();
        let log = cluster::LogEnd::default();
        node.hear(&mut group, OTHER, 3, MessageBody::Voted { is_pre, is_granted: true, log });
    }
    node.commit();
    node.step(&mut group, GroupStep::Durable);
    let before = node.disk.read_bytes();
    let index = group.progress().last;
    let appended = MessageBody::Appended { index, commit: 1 };
    let fx = node.hear(&mut group, OTHER, 3, appended);
    assert_eq!((fx.committed.len() as u64, group.progress().applied), (N, index));
    let applying = node.disk.read_bytes() - before;
    let rejected = MessageBody::Rejected { index: N + 1, hint_index: 1, hint_term: 1, commit: 1 };
    let mut sent = sent_entries(&node.hear(&mut group, third, 3, rejected), third);
    for _ in 0..2 {
        let appended = MessageBody::Appended { index: 1 + sent.len() as u64, commit: 1 };
        sent.extend(sent_entries(&node.hear(&mut group, third, 3, appended), third));
    }
    assert_eq!(sent.iter().filter(|bytes| bytes.len() == 100).count() as u64, N);
    let sending = node.disk.read_bytes() - before - applying;
    println!("log {log_bytes} bytes, read {applying} to apply, {sending} to send");
    assert!(applying >= log_bytes && applying < log_bytes * 2, "{applying} of {log_bytes}");
    assert!(sending >= log_bytes && sending < log_bytes * 2, "{sending} of {log_bytes}");
}

#[test]
fn a_dead_follower_keeps_no_payloads_in_memory() {
    let mut node = Node::new();
    let third = PeerId(3 << 48 | 1);
    let mut group = node.create(&[ME, OTHER, third]);
    node.step(&mut group, GroupStep::Campaign);
    for is_pre in [true, false] {
        node.commit();
        let log = cluster::LogEnd::default();
        node.hear(&mut group, OTHER, 2, MessageBody::Voted { is_pre, is_granted: true, log });
    }
    node.commit();
    node.step(&mut group, propose(1, b"twelve bytes"));
    assert_eq!(node.cache.used_bytes(), 12);
    node.commit();
    node.step(&mut group, GroupStep::Durable);
    let index = group.progress().last;
    node.hear(&mut group, OTHER, 2, MessageBody::Appended { index, commit: 1 });
    assert_eq!((group.progress().applied, node.cache.used_bytes()), (index, 12));
    node.living.set(3, false);
    node.step(&mut group, GroupStep::Alive(3, false));
    assert_eq!((group.role(), node.cache.used_bytes()), (Role::Leader, 0));
}
