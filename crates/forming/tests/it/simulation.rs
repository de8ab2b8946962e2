//! Random starts, kills, cuts and late links: never two clusters, and one as soon as it can be.

use crate::world::{Seen, World};
use std::collections::{BTreeMap, BTreeSet};
use testing::Random;
use testing::net::{Address, Role, Speed};

/// Seeds of a run without `FORMING_SEEDS=first..end`.
const SEEDS: std::ops::Range<u64> = 0..80;
/// A cluster is there and has all its members so long after the last fault.
const SETTLED_MS: u64 = 300_000;

fn seeds() -> std::ops::Range<u64> {
    let Ok(given) = std::env::var("FORMING_SEEDS") else { return SEEDS };
    let (first, end) = given.split_once("..").unwrap();
    first.parse().unwrap()..end.parse().unwrap()
}

/// The names of the nodes, those that exist first, and each one's list.
fn lists(random: &mut Random) -> (Vec<String>, Vec<BTreeSet<String>>) {
    let n = random.choose(&[3, 5, 7]).unwrap();
    let mut all: Vec<String> = (0..n).map(|at| format!("rabbit@{at}")).collect();
    (0..n).for_each(|at| all.swap(at, random.below(n)));
    let base: BTreeSet<String> = all.iter().cloned().collect();
    let n_real = if random.percent(20) { n / 2 + 1 + random.below(n / 2) } else { n };
    // One name of those that all exist may be missing in some lists.
    let odd = random.perhaps(20, &all).filter(|_| n_real == n);
    let list_of = |me: &String, odd: Option<String>| {
        let mut list = base.clone();
        odd.filter(|odd| odd != me).iter().for_each(|odd| assert!(list.remove(odd)));
        list
    };
    let lists = all[..n_real].iter().map(|me| {
        let odd = odd.clone().filter(|_| random.percent(50));
        list_of(me, odd)
    });
    let lists = lists.collect();
    (all, lists)
}

fn fault(world: &mut World, n: usize) {
    let at = world.random.below(n);
    let other = (at + 1 + world.random.below(n - 1)) % n;
    let connection = world.random.choose(&world.net.connections());
    match (world.random.below(12), connection) {
        (0..4, _) => {
            let outcome = world.outcome();
            world.kill(at, outcome);
        }
        (4..7, _) => world.start(at),
        (7, _) => world.net.cut(Address(at), Address(other)),
        (8, _) => [(at, other), (other, at)]
            .into_iter()
            .for_each(|(from, to)| world.net.cut(Address(from), Address(to))),
        (9, Some(number)) => world.net.set_speed(number, Speed::Stuck),
        (10, Some(number)) => world.net.lose(world.now_ms, number, Some(Role::Acceptor)),
        _ => {
            if world.random.percent(30) {
                world.net.heal(world.now_ms);
            }
        }
    }
}

fn run(seed: u64) -> BTreeMap<Seen, usize> {
    let mut random = Random::new(seed);
    let (all, lists) = lists(&mut random);
    let n = lists.len();
    let mut world = World::new(random, all, lists);
    world.crash_percent = world.random.choose(&[0, 10, 40]).unwrap();
    if world.random.percent(30) {
        (0..n).for_each(|at| world.start(at));
    }
    for _ in 0..world.random.below(40) {
        let span_ms = world.random.choose(&[1, 30, 400, 4_000, 20_000]).unwrap();
        let span_ms = world.random.below(span_ms) as u64;
        world.run_to(world.now_ms + span_ms);
        fault(&mut world, n);
    }
    settle(&mut world, n, seed);
    world.seen
}

/// Heals all and starts all: each node becomes a member of the one cluster.
fn settle(world: &mut World, n: usize, seed: u64) {
    world.crash_percent = 0;
    world.net.heal(world.now_ms);
    let end_ms = world.now_ms + SETTLED_MS;
    while world.now_ms < end_ms {
        (0..n).for_each(|at| world.start(at));
        if (0..n).all(|at| world.cluster_of(at).is_some()) {
            return;
        }
        world.run_to(world.now_ms + 1_000);
    }
    panic!(
        "seed {seed}: no cluster of all: {:?}",
        (0..n).map(|at| world.cluster_of(at)).collect::<Vec<_>>()
    );
}

#[test]
fn one_cluster_forms_whatever_happens() {
    let mut seen: BTreeMap<Seen, usize> = BTreeMap::new();
    for seed in seeds() {
        let result = std::panic::catch_unwind(|| run(seed));
        let counts = result.unwrap_or_else(|_| panic!("seed {seed} fails"));
        counts.into_iter().for_each(|(it, n)| *seen.entry(it).or_default() += n);
    }
    println!("{seen:?}");
    let all = [
        Seen::Promise,
        Seen::PromiseTaken,
        Seen::AttemptEnded,
        Seen::CrashInWrite,
        Seen::CrashInMaking,
        Seen::CrashInJoining,
        Seen::PowerLoss,
        Seen::ProcessDeath,
        Seen::WantedBack,
        Seen::LostMaker,
        Seen::Waits,
        Seen::JoinFailed,
        Seen::Made,
    ];
    for one in all {
        assert!(seen.get(&one).is_some_and(|n| *n > 0), "{one:?} is not reached: {seen:?}");
    }
}
