//! Which publishes are confirmed when, and which refused: random work of a few clients of queues of all
//! modes (`x-confirm-on`), against a model that says it exactly.

mod heard;
mod model;
mod world;

use model::{N_QUEUES, On, Spec};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use session::Outcome;
use world::{CHANNELS, N_PEERS, Put, World};

const ACTS_MAX: usize = 60;

#[derive(Clone, Debug)]
enum Act {
    Publish { peer: usize, puts: Vec<Put> },
    Settle { peer: usize, channel: u16, mask: u16, outcome: Outcome },
    Write { peer: usize, mask: u16 },
    Consume { peer: usize, channel: u16, queue: usize, no_ack: bool, prefetch: u16 },
    Cancel { peer: usize, at: usize },
    Get { peer: usize, channel: u16, queue: usize, no_ack: bool },
    Recover { peer: usize, channel: u16 },
    Commit(usize),
    CommitInVain(usize),
    RollBack(usize),
    Close { peer: usize, channel: u16 },
    Leave(usize),
    Purge(usize),
    Delete(usize),
    Declare(usize),
}

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let on = prop_oneof![1 => Just(On::Enqueue), 3 => Just(On::Ack), 2 => Just(On::AckDirect)];
    let limits = (option::weighted(0.3, 1..6_u64), option::weighted(0.3, 4..60_u64));
    let spec = (on, any::<bool>(), limits, prop::bool::weighted(0.2)).prop_map(
        |(on, durable, (max_pending, max_pending_bytes), wants_consumer)| Spec {
            on,
            durable,
            max_pending,
            max_pending_bytes,
            wants_consumer,
            letters_to: None,
        },
    );
    (vec(spec, N_QUEUES), option::weighted(0.7, 1..N_QUEUES)).prop_map(|(mut specs, to)| {
        specs[0].letters_to = to;
        specs
    })
}

fn act() -> impl Strategy<Value = Act> {
    let (peer, queue, at) = (0..N_PEERS, 0..N_QUEUES, 0..8_usize);
    let put = (CHANNELS, option::weighted(0.7, 0..N_QUEUES), 0..12_usize, any::<bool>());
    let put = put.prop_map(|(channel, to, n_more_bytes, persistent)| Put {
        channel,
        to,
        n_more_bytes,
        persistent,
    });
    let outcome = prop_oneof![
        5 => Just(Outcome::Accepted),
        2 => Just(Outcome::Rejected),
        1 => Just(Outcome::Modified),
        1 => Just(Outcome::Released),
    ];
    prop_oneof![
        8 => (peer.clone(), vec(put, 1..6)).prop_map(|(peer, puts)| Act::Publish { peer, puts }),
        9 => (peer.clone(), CHANNELS, any::<u16>(), outcome).prop_map(
            |(peer, channel, mask, outcome)| Act::Settle { peer, channel, mask, outcome }
        ),
        3 => (peer.clone(), any::<u16>()).prop_map(|(peer, mask)| Act::Write { peer, mask }),
        6 => (peer.clone(), CHANNELS, queue.clone(), prop::bool::weighted(0.3), 0..3_u16).prop_map(
            |(peer, channel, queue, no_ack, prefetch)| {
                Act::Consume { peer, channel, queue, no_ack, prefetch }
            }
        ),
        1 => (peer.clone(), at).prop_map(|(peer, at)| Act::Cancel { peer, at }),
        3 => (peer.clone(), CHANNELS, queue.clone(), any::<bool>()).prop_map(
            |(peer, channel, queue, no_ack)| Act::Get { peer, channel, queue, no_ack }
        ),
        1 => (peer.clone(), CHANNELS).prop_map(|(peer, channel)| Act::Recover { peer, channel }),
        2 => peer.clone().prop_map(Act::Commit),
        1 => peer.clone().prop_map(Act::CommitInVain),
        1 => peer.clone().prop_map(Act::RollBack),
        1 => (peer.clone(), CHANNELS).prop_map(|(peer, channel)| Act::Close { peer, channel }),
        1 => peer.prop_map(Act::Leave),
        1 => queue.clone().prop_map(Act::Purge),
        1 => queue.clone().prop_map(Act::Delete),
        1 => queue.prop_map(Act::Declare),
    ]
}

fn carry_out(world: &mut World, act: Act) {
    match act {
        Act::Publish { peer, puts } => world.publish(peer, &puts),
        Act::Settle { peer, channel, mask, outcome } => world.settle(peer, channel, mask, outcome),
        Act::Write { peer, mask } => world.write(peer, mask),
        Act::Consume { peer, channel, queue, no_ack, prefetch } => {
            world.consume(peer, channel, queue, (no_ack, prefetch));
        }
        Act::Cancel { peer, at } => world.cancel(peer, at),
        Act::Get { peer, channel, queue, no_ack } => world.get(peer, channel, queue, no_ack),
        Act::Recover { peer, channel } => world.recover(peer, channel),
        Act::Commit(peer) => world.commit(peer),
        Act::CommitInVain(peer) => world.commit_in_vain(peer),
        Act::RollBack(peer) => world.roll_back(peer),
        Act::Close { peer, channel } => world.close(peer, channel),
        Act::Leave(peer) => world.leave(peer),
        Act::Purge(queue) => world.purge(queue),
        Act::Delete(queue) => world.delete(queue),
        Act::Declare(queue) => world.declare(queue),
    }
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No publish is answered before its time, each exactly once, and as it must be.
    #[test]
    fn publishes_are_answered_as_what_becomes_of_them_says(
        specs in specs(),
        acts in vec(act(), 1..ACTS_MAX),
    ) {
        let mut world = World::new(specs);
        acts.into_iter().for_each(|act| carry_out(&mut world, act));
        world.end();
    }
}
