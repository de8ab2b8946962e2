//! Random work of several clients on a node over a simulated disk, with crashes and restarts, all from one
//! seed, checked against a naive model. Never sockets, threads or clocks; knows no protocol. Start reading
//! at [`run`], then `harness.rs`, which all worlds stand on, `world.rs`, which is the course of those with
//! policies, and `plain_queues.rs`; the rules that are checked there stand in `model.rs`. Every second seed
//! is about queues from which time, limits and returns take messages: `queue_policies.rs`; or, every
//! fourth, about queues that confirm a publish once a consumer has had it: `confirm_on.rs`. Every second of
//! those has limits in bytes, transactions and alarms, too. Seeds from [`LOG_QUEUES_FROM`] on are about
//! quorum queues and streams: `log_queues.rs`; those from [`SENT_ON_FROM`] on about messages that an
//! operator sends on: `sent_on.rs`.

mod client;
mod confirm_on;
mod declare;
mod harness;
mod log_queues;
mod model;
mod node;
mod plain_queues;
mod queue_policies;
mod seen;
mod sent_on;
mod trace;
mod world;

use confirm_on::{ConfirmOn, Kind};
use harness::Harness;
use log_queues::LogQueues;
use plain_queues::PlainQueues;
use queue_policies::QueuePolicies;
use sent_on::SentOn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World as _;

/// The first seed of the worlds of quorum queues and streams.
pub const LOG_QUEUES_FROM: u64 = 1_000_000_000;

/// The first seed of the worlds where messages are sent on.
pub const SENT_ON_FROM: u64 = 2_000_000_000;

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
    if seed >= SENT_ON_FROM {
        return report(SentOn::new(seed, echo), SentOn::run, |world| world.harness);
    }
    if seed >= LOG_QUEUES_FROM {
        return report(LogQueues::new(seed, echo), LogQueues::run, |world| world.harness);
    }
    match seed % 4 {
        0 | 2 => report(PlainQueues::new(seed, echo), PlainQueues::run, |world| world.harness),
        1 => report(QueuePolicies::new(seed, echo), QueuePolicies::run, |course| course.harness),
        _ => {
            report(ConfirmOn::new(seed, Kind::of(seed), echo), ConfirmOn::run, |late| late.harness)
        }
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
