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
mod trace;
mod world;

use harness::Harness;
use plain_queues::PlainQueues;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::{Features, World};

/// The first seed of runs with quorum queues and streams.
pub const LOG_QUEUES_FROM: u64 = 1_000_000_000;

/// The first seed of runs where messages are sent on.
pub const SENT_ON_FROM: u64 = 2_000_000_000;

/// The first seed of runs with clients of AMQP 1.0.
pub const AMQP10_FROM: u64 = 3_000_000_000;

/// The report of a run.
#[derive(Debug)]
pub struct Report {
    /// The trace, line by line; empty when it was printed meanwhile.
    pub trace: Vec<String>,
    /// A number that is the same for the same trace.
    pub hash: u64,
    /// The violation, if there is one.
    pub failure: Option<String>,
}

/// The destination of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// The trace is kept in the report.
    Kept,
    /// The trace is printed as it comes.
    Printed,
}

/// Runs one simulation. The same seed always does the same.
#[must_use]
pub fn run(seed: u64, show: Show) -> Report {
    let echo = show == Show::Printed;
    match Features::of(seed) {
        Some(features) => {
            report(World::new(seed, features, echo), World::run, |world| world.harness)
        }
        None => report(PlainQueues::new(seed, echo), PlainQueues::run, |world| world.harness),
    }
}

fn report<W>(mut world: W, run: fn(&mut W), harness_of: fn(W) -> Harness) -> Report {
    let ran = catch_unwind(AssertUnwindSafe(|| run(&mut world)));
    let failure = ran.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_else(|| "a panic without a text".to_owned())
    });
    let trace = harness_of(world).trace;
    Report { trace: trace.lines, hash: trace.hash, failure }
}
