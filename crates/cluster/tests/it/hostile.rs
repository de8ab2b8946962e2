//! Replicas that are told anything: nothing that peers say may end their node.

use std::sync::Arc;

use bytes::Bytes;
use cluster::{
    Change, Context, EntryType, GroupEffects, GroupStep, ImageOffer, ImageStore, LivingNodes,
    LogEnd, Members, Message, MessageBody, Payload, PeerId, RaftGroup, SentEntry, Ticket,
};
use log::{Owner, Stepper, Wal, WalOptions};
use testing::{MemoryDisk, Random};

/// Each is a replica and the steps that it goes through.
const CASES: u64 = 400;
const STEPS: usize = 200;

fn peer(node: u64) -> PeerId {
    PeerId(node << 48 | 1)
}

fn small(random: &mut Random) -> u64 {
    if random.percent(2) { random.next() >> random.below(5) } else { random.below(12) as u64 }
}

fn members(random: &mut Random) -> Members {
    let mut any = |n: usize| -> Vec<_> {
        (0..random.below(n)).map(|_| peer(1 + random.below(4) as u64)).collect()
    };
    Members { since: 1, voters: any(4), learners: any(2) }
}

fn entries(random: &mut Random, term: u64) -> Vec<SentEntry> {
    let n = random.below(4);
    let mut entry = || {
        let entry_type = match random.below(4) {
            0 => EntryType::Membership,
            1 => EntryType::Nothing,
            _ => EntryType::Commands,
        };
        let mut bytes = Vec::new();
        let change = Change::AddLearner(peer(random.below(6) as u64));
        if random.percent(50) {
            change.encode(&mut bytes)
        } else {
            bytes = random.bytes(8)
        };
        let term = if random.percent(80) { term } else { small(random) };
        SentEntry { term, payload: Payload { entry_type, bytes: bytes.into() } }
    };
    (0..n).map(|_| entry()).collect()
}

fn body(random: &mut Random, term: u64) -> MessageBody {
    let [a, b, c, d] = std::array::from_fn(|_| small(random));
    let (yes, no) = (random.percent(50), random.percent(50));
    let log = LogEnd { last_index: a, last_term: b, commit: c, commit_term: d };
    match random.below(15) {
        0..3 => {
            let entries = entries(random, term);
            MessageBody::Append { prev_index: a, prev_term: b, commit: c, entries }
        }
        3 => MessageBody::Appended { index: a, commit: b },
        4 => MessageBody::Rejected { index: a, hint_index: b, hint_term: c, commit: d },
        5 => MessageBody::Vote { is_pre: yes, is_transfer: no, log },
        6 => MessageBody::Voted { is_pre: yes, is_granted: no, log },
        7 => MessageBody::Heartbeat { commit: a },
        8 => MessageBody::HeartbeatAnswer { commit: a },
        9 => MessageBody::Commit { commit: a },
        10 => MessageBody::TimeoutNow,
        11 => {
            if yes {
                MessageBody::WhoLeads
            } else {
                MessageBody::NotLeader
            }
        }
        12 => {
            let members = members(random);
            let (machine_bytes, n) = (c, usize::try_from(c).unwrap().min(64));
            let checksum = segments::crc32c(&[b'm'; 64][..n]) ^ u32::from(random.percent(5));
            MessageBody::ImageOffer(ImageOffer {
                index: a,
                term: b,
                members,
                machine_bytes,
                checksum,
            })
        }
        13 => MessageBody::ImageWant { index: a, offset: b },
        _ => MessageBody::ImagePiece {
            index: a,
            offset: b,
            bytes: vec![b'm'; random.below(4)].into(),
        },
    }
}

fn step(random: &mut Random) -> GroupStep {
    let (node, other) = (1 + random.below(4) as u64, 1 + random.below(4) as u64);
    match random.below(20) {
        0..12 => {
            let term = small(random);
            let from = if random.percent(95) { peer(node) } else { PeerId(random.next()) };
            let body = body(random, term);
            GroupStep::Peer(Message { from, to: peer(1), term, body })
        }
        12 => GroupStep::Propose(Ticket(1), Bytes::from(random.bytes(4))),
        13 => GroupStep::Alive(u16::try_from(node).unwrap(), random.percent(70)),
        14 | 15 => GroupStep::Campaign,
        16 => {
            let changes = [Change::AddLearner, Change::Promote, Change::Remove];
            GroupStep::Member(Ticket(2), changes[random.below(3)](peer(other)))
        }
        17 => GroupStep::Transfer(peer(other)),
        18 => GroupStep::Tick,
        _ => GroupStep::Durable,
    }
}

fn answer(group: &mut RaftGroup, fx: &GroupEffects, random: &mut Random, cx: Context<'_>) {
    // Others grant votes now and then, so that the replica leads too.
    for sent in &fx.messages {
        let Message { from, to, term, body } = &sent.message;
        if let MessageBody::Vote { is_pre, .. } = body
            && random.percent(60)
        {
            let body =
                MessageBody::Voted { is_pre: *is_pre, is_granted: true, log: LogEnd::default() };
            group.step(GroupStep::Peer(Message { from: *to, to: *from, term: *term, body }), cx);
        }
    }
}

fn commit(wal: &Wal, stepper: &mut Stepper) {
    wal.commit_soon();
    stepper.step();
}

#[test]
fn survives_any_words_of_peers() {
    let (mut led, mut n_files) = (0, 0);
    for seed in 0..CASES {
        let mut random = Random::new(seed);
        let disk = Arc::new(MemoryDisk::new());
        let (wal, mut stepper) =
            Wal::open_stepped(disk.clone(), WalOptions::default(), &mut |_| Ok(())).unwrap();
        let images = ImageStore::open(disk, random.below(4)).unwrap();
        let n = [0, 1, 2, 3][random.below(4)];
        let voters: Vec<_> = (1..=n).map(peer).collect();
        let members = Members { voters, ..Members::default() };
        let mut group = match n {
            0 => RaftGroup::join(Owner(1), peer(1)),
            _ => RaftGroup::create(&wal, Owner(1), peer(1), members),
        };
        let mut living = LivingNodes::default();
        (1..4).for_each(|node| living.set(node, true));
        for _ in 0..STEPS {
            let cx =
                Context { wal: &wal, living: &living, cache: &Arc::default(), images: &images };
            let mut fx = group.step(step(&mut random), cx);
            if random.percent(70) {
                commit(&wal, &mut stepper);
            }
            answer(&mut group, &fx, &mut random, cx);
            if random.percent(5) {
                let index = group.progress().applied;
                let machine = Bytes::from(vec![b'm'; random.below(6)]);
                fx = group.take_image(index, machine, Bytes::new(), cx);
            }
            while let Some(write) = fx.write.take() {
                n_files += 1;
                fx = group.image_written(write.write(&images, &wal), cx);
            }
            led += u64::from(group.role() == cluster::Role::Leader);
        }
    }
    assert!(led > CASES && n_files > CASES / 2, "{led} steps as leader, {n_files} files");
}
