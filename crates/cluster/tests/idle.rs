//! Bytes that idle replicas take: a node has as many as there are queues.
#![expect(clippy::unwrap_used, reason = "a test's helpers may panic")]

use std::sync::Arc;

use bytes::Bytes;
use cluster::{
    CacheBudget, Context, EntryType, GroupStep, IMAGE_IN_LOG_BYTES_MAX, ImageStore, LivingNodes,
    LogEnd, Members, Message, MessageBody, Payload, PeerId, RaftGroup, Role, SentEntry,
};
use log::{Owner, Stepper, Wal, WalOptions};
use testing::MemoryDisk;

#[global_allocator]
static ALLOCATOR: counting::Allocator = counting::Allocator;

const N: u64 = 10_000;
/// Most bytes of a follower that sleeps.
const ASLEEP_BYTES_MAX: u64 = 480;
/// Most bytes of a leader, which stays awake.
const LEADER_BYTES_MAX: u64 = 2550;

const fn peer(node: u64) -> PeerId {
    PeerId(node << 48 | 1)
}

struct Node {
    wal: Wal,
    stepper: Stepper,
    living: LivingNodes,
    cache: Arc<CacheBudget>,
    images: ImageStore,
    groups: Vec<RaftGroup>,
}

impl Node {
    fn new() -> Self {
        let disk = Arc::new(MemoryDisk::new());
        let (wal, stepper) =
            Wal::open_stepped(disk.clone(), WalOptions::default(), &mut |_| Ok(())).unwrap();
        let images = ImageStore::open(disk, IMAGE_IN_LOG_BYTES_MAX).unwrap();
        let mut living = LivingNodes::default();
        (1..4).for_each(|node| living.set(node, true));
        let members = Members { voters: vec![peer(1), peer(2), peer(3)], ..Members::default() };
        let create = |owner| RaftGroup::create(&wal, Owner(owner), peer(1), members.clone());
        let groups = (0..N).map(create).collect();
        Self { wal, stepper, living, cache: Arc::default(), images, groups }
    }

    /// Steps all replicas, and makes durable what they wrote.
    fn step(&mut self, step: &GroupStep) {
        for step in [step, &GroupStep::Durable] {
            for group in &mut self.groups {
                group.step(
                    step.clone(),
                    Context {
                        wal: &self.wal,
                        living: &self.living,
                        cache: &self.cache,
                        images: &self.images,
                    },
                );
            }
            self.wal.commit_soon();
            self.stepper.step();
        }
    }

    fn hear(&mut self, from: u64, term: u64, body: MessageBody) {
        self.step(&GroupStep::Peer(Message { from: peer(from), to: peer(1), term, body }));
    }

    /// The bytes of a replica.
    fn bytes_each(&mut self) -> u64 {
        let before = counting::live_bytes();
        self.groups = Vec::new();
        (before - counting::live_bytes()) / N
    }
}

#[test]
fn idle_replicas_take_little_memory() {
    let mut node = Node::new();
    let payload = Payload { entry_type: EntryType::Commands, bytes: Bytes::from(vec![1; 200]) };
    let entries = vec![SentEntry { term: 2, payload }];
    node.hear(2, 2, MessageBody::Append { prev_index: 1, prev_term: 1, commit: 1, entries });
    node.hear(2, 2, MessageBody::Commit { commit: 2 });
    assert!(node.groups.iter().all(|group| group.progress().applied == 2));
    node.step(&GroupStep::Tick);
    assert!(node.groups.iter().all(|group| group.leader() == Some(peer(2))));
    let asleep = node.bytes_each();

    let mut node = Node::new();
    node.step(&GroupStep::Campaign);
    for is_pre in [true, false] {
        let (is_granted, log) = (true, LogEnd::default());
        node.hear(2, 2, MessageBody::Voted { is_pre, is_granted, log });
    }
    for follower in [2, 3] {
        node.hear(follower, 2, MessageBody::Appended { index: 2, commit: 2 });
    }
    node.step(&GroupStep::Tick);
    let is_done = |group: &RaftGroup| group.role() == Role::Leader && group.progress().applied == 2;
    assert!(node.groups.iter().all(is_done));
    let leader = node.bytes_each();
    println!("asleep {asleep} bytes, leader {leader} bytes");
    assert!(asleep < ASLEEP_BYTES_MAX && leader < LEADER_BYTES_MAX, "{asleep}, {leader}");
}
