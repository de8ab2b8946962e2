//! Data directories of every format that was ever released open, and hold what they held.
//!
//! `data/format-1`: a node without paged backlogs, killed. Queue `keep` had 100 messages of 40 bytes,
//! `part` had 30, `big` three of 9,000 bytes, `purged` three that stayed.
#![expect(clippy::unwrap_used, reason = "a test's helpers may panic")]
#![expect(clippy::indexing_slicing, reason = "a test's helpers may panic")]
#![expect(clippy::disallowed_methods, reason = "the samples are files, and deadlines need a clock")]
#![expect(dead_code, reason = "the client is made for all tests of this crate")]

#[path = "support/client.rs"]
mod client;

use client::{Client, start};
use log::{CrashOutcome, DataDir, Disk, MemoryDisk, OpenMode};
use std::path::Path;
use std::sync::Arc;

/// A copy of a sample directory.
fn sample(name: &str) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::new();
    copy(&disk, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name), "");
    Arc::new(disk.survive(CrashOutcome::Everything))
}

fn copy(disk: &MemoryDisk, from: &Path, to: &str) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let name = if to.is_empty() { name } else { format!("{to}/{name}") };
        if entry.file_type().unwrap().is_dir() {
            disk.create_dir(&name).unwrap();
            copy(disk, &entry.path(), &name);
        } else {
            let bytes = std::fs::read(entry.path()).unwrap();
            disk.open(&name, OpenMode::New).unwrap().write_at(0, &bytes).unwrap();
        }
    }
}

#[test]
fn format_1_opens() {
    let disk = sample("format-1");
    let mut found = Vec::new();
    for _ in 0..2 {
        let owned = DataDir::open(disk.clone()).unwrap();
        let broker = start(&disk);
        let mut client = Client::connect(&broker);
        let counts = ["keep", "part", "big", "purged"].map(|queue| client.declare(queue, true));
        found.push(counts.map(|line| line.concat()));
        let first = client.get("big").concat();
        assert!(first.starts_with("got ") && first.len() > 9_000);
        client.disconnect();
        broker.stop().unwrap();
        drop(owned);
    }
    let counts = ["declared 100 0", "declared 30 0", "declared 3 0", "declared 3 0"];
    assert_eq!(found, [counts, counts]);
}
