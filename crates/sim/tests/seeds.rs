//! A moderate number of simulations; `SIM_SEEDS` asks for more.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::{AMQP10_FROM, LOG_QUEUES_FROM, SENT_ON_FROM, Show, run};

/// Simulations without being asked for more: about twenty seconds in a debug build.
const SEEDS: u64 = 2_000;

/// Simulations of quorum queues and streams, without being asked for more.
const LOG_QUEUES_SEEDS: u64 = 150;

fn n_seeds() -> u64 {
    std::env::var("SIM_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap())
}

/// Simulations of messages that are sent on, likewise.
const SENT_ON_SEEDS: u64 = 150;

/// Simulations of clients of AMQP 1.0, likewise.
const AMQP10_SEEDS: u64 = 150;

/// A rare seed: a page that was in its image in part only when the power was lost, while its queue was on its
/// way into another form.
const FOUND: u64 = 4_574;

#[test]
fn no_seed_finds_anything_wrong() {
    let log_queues = LOG_QUEUES_FROM..LOG_QUEUES_FROM + LOG_QUEUES_SEEDS;
    let sent_on = SENT_ON_FROM..SENT_ON_FROM + SENT_ON_SEEDS;
    let amqp10 = AMQP10_FROM..AMQP10_FROM + AMQP10_SEEDS;
    let others = log_queues.chain(sent_on).chain(amqp10);
    let seeds: Vec<u64> = std::iter::once(FOUND).chain(others).chain(0..n_seeds()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let replay = format!("cargo run -p sim -- --seed {seed}");
                    run(seed, Show::Kept).assert_passed(&replay);
                }
            });
        }
    });
}

#[test]
fn a_seed_always_does_the_same() {
    for seed in 1_000..1_010 {
        let (first, second) = (run(seed, Show::Kept), run(seed, Show::Kept));
        let differs = first.trace.iter().zip(&second.trace).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.hash, second.hash, "seed {seed}");
    }
}
