//! The tool's own limit, in messages per second: `cargo bench -p perf --bench sink`.
//!
//! `leveret-perf`, a process of its own, publishes with one thread into a socket whose other end
//! throws everything away. Its CPU time is what the system says it used between the first message
//! and the last; the sink counts the bytes, so that what is said to be sent was sent. Rounds
//! alternate between the loads, so that the machine's other work hits all of them.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for the console")]
#![allow(clippy::indexing_slicing, reason = "JSON answers null")]

#[allow(dead_code, reason = "tests use the rest of it")]
#[path = "../tests/end_to_end/broker.rs"]
mod broker;

use std::process::Command;

use broker::{Behaviour, Broker};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

const ROUNDS: usize = 5;
/// Options, and messages of a round.
const LOADS: [(&str, u64); 4] = [
    ("-s 12", 30_000_000),
    ("-s 12 -x 100", 30_000_000),
    ("-s 12 -f persistent -mp contentType=text/plain", 30_000_000),
    ("-s 1500", 2_000_000),
];

fn main() {
    let broker = Broker::start(Behaviour::Discard);
    // Without --bench it is `cargo test`, which wants to know whether it works.
    let (rounds, part) =
        if std::env::args().any(|arg| arg == "--bench") { (ROUNDS, 1) } else { (1, 1000) };
    for round in 1..=rounds {
        for (options, n) in LOADS {
            println!("round {round}: {}", publish(&broker, options, n / part));
        }
    }
}

fn publish(broker: &Broker, options: &str, n: u64) -> String {
    let n_publishers = if options.contains("-x 100") { 100 } else { 1 };
    let (bytes_before, cpu_before) = (broker.n_bytes(), own_cpu_s());
    let output = Command::new(env!("CARGO_BIN_EXE_leveret-perf"))
        .args(["-h", &broker.uri(), "--json", "-y", "0", "-u", "sink", "--threads", "1"])
        .args(["-C", &(n / n_publishers).to_string()])
        .args(options.split_whitespace())
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let summary: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(summary["sent"], n, "{summary}");
    let [cpu_s, seconds] =
        ["generator_cpu_seconds", "seconds"].map(|name| summary[name].as_f64().unwrap());
    let millions = summary["sent"].as_f64().unwrap() / 1e6;
    let bytes_per_message = (broker.n_bytes() - bytes_before) / n;
    let sink_cpu_s = own_cpu_s() - cpu_before;
    format!(
        "{options:48} {bytes_per_message:5} B on the wire, {:6.1} M per CPU second of the tool, \
         {:6.1} of the sink, {:6.1} M/s",
        millions / cpu_s,
        millions / sink_cpu_s,
        millions / seconds
    )
}

/// The sink's, since the tool is another process.
fn own_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    std::time::Duration::try_from(time).unwrap().as_secs_f64()
}
