//! The cost of a start: `cargo run --release -p broker --example start [directory]`.
//!
//! 1. A log full of small messages of one queue.
//! 2. Many queues with a few messages each.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for the console")]
#![expect(dead_code, reason = "the client is made for the tests of this crate")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(clippy::indexing_slicing, reason = "a tool for the console")]

#[path = "../tests/support/client.rs"]
mod client;

use broker::Broker;
use client::{Client, Kind};
use log::{Disk, RealDisk, WalOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const BATCH: usize = 1_000;

fn main() {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = dir.join(format!("leveret-start-{}", std::process::id()));
    one_queue(&dir, 4_000_000);
    many_queues(&dir, 100_000, 3);
    std::fs::remove_dir_all(&dir).unwrap();
}

fn one_queue(dir: &Path, n_messages: usize) {
    std::fs::remove_dir_all(dir).ok();
    let broker = client::start_on(disk(dir));
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    let bodies = ["twelve bytes"; BATCH];
    for _ in 0..n_messages / BATCH {
        client.publish("q", &bodies, Kind::Persistent);
        client::block_on(client.session().released());
    }
    measure(dir, broker, &format!("{n_messages} messages in one queue"));
}

fn many_queues(dir: &Path, n_queues: usize, n_each: usize) {
    std::fs::remove_dir_all(dir).ok();
    let broker = client::start_on(disk(dir));
    let mut client = Client::connect(&broker);
    let bodies = vec!["twelve bytes"; n_each];
    for number in 0..n_queues {
        let queue = format!("q{number}");
        client.declare(&queue, true);
        client.publish(&queue, &bodies, Kind::Persistent);
    }
    measure(dir, broker, &format!("{n_each} messages in each of {n_queues} queues"));
}

/// The process dies without a word as far as the data can tell.
fn measure(dir: &Path, broker: Arc<Broker>, what: &str) {
    while broker.figures().log().unsynced_bytes > 0 {
        std::thread::yield_now();
    }
    let bytes = broker.figures().log().bytes;
    std::mem::forget(broker);
    for _ in 0..3 {
        let begin = Instant::now();
        let broker = Broker::open(disk(dir), WalOptions::default()).unwrap();
        let took = begin.elapsed();
        println!("{what}: {took:?}, the log had {} MB", bytes >> 20);
        std::mem::forget(broker);
    }
}

fn disk(dir: &Path) -> Arc<dyn Disk> {
    Arc::new(RealDisk::new(dir).unwrap())
}
