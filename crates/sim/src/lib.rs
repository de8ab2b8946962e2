//! Random work of several clients on a node over a simulated disk, with crashes and restarts, all from one
//! seed, checked against a naive model. Never sockets, threads or clocks; only `frame_client.rs` knows a
//! protocol. Start reading at [`run`], then `harness.rs`, which both worlds stand on: `plain_queues.rs`,
//! where each message is followed (the rules that are checked there stand in `model.rs`), and `world.rs`,
//! where queues have rules and a ledger says what may have become of each message. Even seeds are about
//! plain queues; `Features` of `world.rs` says what the others are about.

mod client;
mod declare;
mod harness;
mod model;
mod node;
mod node_host;
mod plain_queues;
mod seen;
mod world;

use plain_queues::PlainQueues;
use testing::run::Trace;
use world::{Features, World};

pub use testing::run::{Report, Show};

/// The first seed of runs with quorum queues and streams.
pub const LOG_QUEUES_FROM: u64 = 1_000_000_000;

/// The first seed of runs where messages are sent on.
pub const SENT_ON_FROM: u64 = 2_000_000_000;

/// The first seed of runs with clients of AMQP 1.0.
pub const AMQP10_FROM: u64 = 3_000_000_000;

/// Runs one simulation. The same seed always does the same.
#[must_use]
pub fn run(seed: u64, show: Show) -> Report {
    let trace = Trace::new(show);
    match Features::of(seed) {
        Some(features) => {
            Report::of(World::new(seed, features, trace), World::run, |world| world.harness.trace)
        }
        None => {
            Report::of(PlainQueues::new(seed, trace), PlainQueues::run, |world| world.harness.trace)
        }
    }
}
