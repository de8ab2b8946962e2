//! Data directories of every format that was ever released open, and hold what they held.
//!
//! `data/format-1`: a node without paged backlogs, killed. Queue `keep` had 100 messages of 40 bytes,
//! `part` had 30, `big` three of 9,000 bytes, `purged` three that stayed.

use crate::client::{Client, start};
use broker::{Broker, BrokerOptions, OpenError, Steppers};
use log::{ClusterId, DataDir, Identities, NodeId, WalOptions};
use segments::{Disk, OpenMode};
use std::path::Path;
use std::sync::Arc;
use testing::{CrashOutcome, Fault, MemoryDisk};

/// A copy of a sample directory.
fn sample(name: &str) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::new();
    copy(&disk, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name), "");
    Arc::new(disk.survive(CrashOutcome::Everything))
}

/// The first start on older data, to where it can be used.
fn start_first(disk: &Arc<MemoryDisk>) -> Result<(Arc<Broker>, Steppers), OpenError> {
    let data_dir = DataDir::open(disk.clone())?;
    data_dir.mark()?;
    let options = WalOptions {
        given: Identities { salt: 1, node: NodeId(2), cluster: ClusterId(3) },
        ..WalOptions::default()
    };
    Broker::open_stepped(disk.clone(), options, BrokerOptions::default())
}

/// Queue `older` of the sample has version 1, which its definitions say, and 33 messages.
#[test]
fn a_first_start_that_is_cut_short_leaves_data_that_opens() {
    let older = sample("../../../node/tests/data/format-5/killed");
    let mut n_cut_short = 0;
    for operation in 0.. {
        let disk = Arc::new(older.survive(CrashOutcome::Everything));
        disk.inject(operation, Fault::PowerLoss);
        // Definitions that are written anew no longer say which version files have.
        let first = start_first(&disk);
        let was_whole = first.is_ok_and(|(broker, _)| broker.snapshot_definitions().is_ok());
        n_cut_short += u32::from(!was_whole);
        for outcome in [CrashOutcome::Torn(operation), CrashOutcome::OnlySynced] {
            let disk = Arc::new(disk.survive(outcome));
            let (broker, mut steppers) = start_first(&disk).unwrap();
            while steppers.v1.step() || steppers.log.step() {}
            let queue = broker.view().queue("shop", "older").unwrap();
            let n_ready = queue.local_stat().n_ready;
            assert_eq!((queue.local_stat().version.number(), n_ready), (1, 33), "{operation}");
            let sizes = broker.view().queue("shop", "sizes").unwrap();
            assert_eq!(sizes.local_stat().version.number(), 2);
        }
        if was_whole {
            break;
        }
    }
    assert!(n_cut_short > 20, "{n_cut_short}");
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
            let file = disk.open(&name, OpenMode::New).unwrap();
            file.write_at(0, &bytes).unwrap();
            file.sync_data().unwrap();
        }
    }
    disk.sync_dir(to).unwrap();
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
