//! The cost of a store of blobs: `cargo run --release -p store --example blobs [directory]`.
//!
//! For blobs of several lengths: appending with a sync every 4 MiB, one sync of a single blob,
//! reading one by one and in runs, and giving back half of every file.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for the console")]
#![expect(clippy::disallowed_methods, clippy::cast_precision_loss, reason = "it measures time")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::RealDisk;
use store::blob::{BlobId, BlobOptions, BlobStore};

const TOTAL_BYTES: usize = 256 << 20;
const SYNC_EVERY_BYTES: u64 = 4 << 20;
const SINGLE_SYNCS: u32 = 200;

fn main() {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = dir.join(format!("leveret-blobs-{}", std::process::id()));
    for is_volatile in [false, true] {
        for blob_bytes in [512, 4096, 64 << 10, 1 << 20] {
            measure(&dir, blob_bytes, is_volatile);
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

fn measure(dir: &Path, blob_bytes: usize, is_volatile: bool) {
    std::fs::remove_dir_all(dir).ok();
    let disk = Arc::new(RealDisk::new(dir).unwrap());
    let options = BlobOptions { is_volatile, ..BlobOptions::new("blobs") };
    let store = BlobStore::open(Arc::clone(&disk) as _, options.clone()).unwrap();
    store.start_reclaiming();
    let blob = vec![7; blob_bytes];
    let mut ids = Vec::new();
    let append = timed(|| {
        for _ in 0..TOTAL_BYTES / blob_bytes {
            ids.push(store.append(&[&blob]));
            if store.unsynced_bytes() >= SYNC_EVERY_BYTES {
                store.sync().unwrap();
            }
        }
        store.sync().unwrap();
    });
    let single = timed(|| {
        for _ in 0..SINGLE_SYNCS {
            ids.push(store.append(&[&blob]));
            store.sync().unwrap();
        }
    });
    let one_by_one = timed(|| read_each(&store, &ids));
    let in_runs = timed(|| read_runs(&store, &ids));
    ids.iter().step_by(2).for_each(|id| assert!(store.release(*id, 1)));
    // A little more than half, so that files are sparse.
    ids.iter().skip(1).step_by(20).for_each(|id| assert!(store.release(*id, 1)));
    let reclaim = timed(|| {
        while store.plan_reclaiming(|_| true) {
            while store.reclaim_step(1 << 20).unwrap().has_more {}
        }
    });
    let stats = store.stats();
    drop(store);
    let open = timed(|| drop(BlobStore::open(Arc::clone(&disk) as _, options.clone()).unwrap()));
    let rate = |time: Duration| ids.len() as f64 * blob_bytes as f64 / 1e6 / time.as_secs_f64();
    println!(
        "{} {blob_bytes:>8} B: append+sync {:>5.0} MB/s, one append+sync {:>7.1?}, read {:>5.0} MB/s, \
         in runs {:>5.0} MB/s, reclaim {:>4} MB in {:>7.1?} (moved {} MB), open {:>7.1?}",
        if is_volatile { "volatile" } else { "durable " },
        rate(append),
        single / SINGLE_SYNCS,
        rate(one_by_one),
        rate(in_runs),
        stats.reclaimed_bytes / 1_000_000,
        reclaim,
        stats.moved_bytes / 1_000_000,
        open,
    );
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn read_each(store: &BlobStore, ids: &[BlobId]) {
    let mut into = Vec::new();
    ids.iter().for_each(|id| store.read(*id, &mut into).unwrap());
}

fn read_runs(store: &BlobStore, ids: &[BlobId]) {
    let mut into = Vec::new();
    for run in ids.chunks(256) {
        store.read_run(run, &mut into, &mut |_, blob| assert!(blob.is_ok()));
    }
}
