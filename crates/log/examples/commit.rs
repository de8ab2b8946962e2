//! The cost of a commit: `cargo run --release -p leveret-log --example commit [directory]`.
//!
//! 1. One at a time: append, watch, wait, beside a bare write and `fdatasync` of as many bytes into
//!    an already written file. Rounds alternate, so that the machine's other load hits both.
//! 2. Opening an empty directory, to the first entry that is durable.
//! 3. Throughput: threads append 12-byte entries in windows and wait for each window.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for the console")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use log::{CommitListener, Durability, Lsn, Owner, Wal, WalOptions};
use segments::RealDisk;

const OWNER: Owner = Owner(3);

const ROUNDS: usize = 10;
const COMMITS_PER_ROUND: usize = 200;
const BLOCK_BYTES: usize = 52 + 5 + 100;
const THROUGHPUT_TIME: Duration = Duration::from_secs(2);

fn main() {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = dir.join(format!("leveret-commit-{}", std::process::id()));
    one_at_a_time(&dir);
    opening(&dir);
    for durability in [Durability::Sync, Durability::Write] {
        for (threads, window) in [(1, 200), (4, 200), (30, 200), (2, 20_000)] {
            throughput(&dir, durability, threads, window);
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

fn open(dir: &Path, durability: Durability) -> Wal {
    std::fs::remove_dir_all(dir).ok();
    let disk = Arc::new(RealDisk::new(dir).unwrap());
    let options = WalOptions { durability, segment_bytes: 8 << 20, ..WalOptions::default() };
    let wal = Wal::open(disk, options, &mut |_| Ok(())).unwrap();
    wal.start_freeing();
    wal
}

/// Goes through the segments until freed ones are reused: the state of a node that runs.
fn warm(wal: &Wal) {
    while wal.stats().written_bytes < 40 << 20 {
        let upto = wal.append(|batch| batch.entry(OWNER, 1, &[&[0; 256 << 10]])).upto;
        wal.wait_durable(upto).unwrap();
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get((sorted.len() * percent / 100).min(sorted.len() - 1)).copied().unwrap_or_default()
}

fn report(name: &str, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let [p50, p90, p99] = [50, 90, 99].map(|percent| percentile(&times, percent));
    println!("{name:32} p50 {p50:>9.1?}  p90 {p90:>9.1?}  p99 {p99:>9.1?}");
    p50
}

fn one_at_a_time(dir: &Path) {
    let fresh = open(&dir.join("fresh"), Durability::Sync);
    let recycled = open(&dir.join("recycled"), Durability::Sync);
    let written = open(&dir.join("written"), Durability::Write);
    warm(&recycled);
    warm(&written);
    let bare = bare_file(&dir.join("bare"));
    let mut at = 0;
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let [bare_times, logs @ ..] = &mut times;
        for _ in 0..COMMITS_PER_ROUND {
            let begin = Instant::now();
            bare.write_all_at(&[7; BLOCK_BYTES], at).unwrap();
            bare.sync_data().unwrap();
            bare_times.push(begin.elapsed());
            at += 192;
        }
        for (wal, times) in [&recycled, &fresh, &written].into_iter().zip(logs) {
            for _ in 0..COMMITS_PER_ROUND {
                let begin = Instant::now();
                let upto = wal.append(|batch| batch.entry(OWNER, 1, &[&[7; 100]])).upto;
                wal.wait_durable(upto).unwrap();
                times.push(begin.elapsed());
            }
        }
    }
    let names = ["bare write + fdatasync", "log, recycled segment", "log, new segment"];
    let [bare_times, logs @ ..] = times;
    let bare = report("bare write + fdatasync", bare_times);
    for (name, times) in names.iter().skip(1).chain(&["log, not synced"]).zip(logs) {
        let log = report(name, times);
        println!("{:32} {:.2} of bare", "", log.as_secs_f64() / bare.as_secs_f64());
    }
}

fn opening(dir: &Path) {
    let (mut opens, mut commits) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let begin = Instant::now();
        let wal = open(&dir.join("opening"), Durability::Sync);
        opens.push(begin.elapsed());
        let upto = wal.append(|batch| batch.entry(OWNER, 1, &[&[7; 100]])).upto;
        wal.wait_durable(upto).unwrap();
        commits.push(begin.elapsed());
    }
    report("open an empty directory", opens);
    report("the same and one commit", commits);
    let recycled = dir.join("recycled-tail");
    let wal = open(&recycled, Durability::Sync);
    warm(&wal);
    let (mut after_kill, mut after_close) = (Vec::new(), Vec::new());
    drop(wal);
    for _ in 0..20 {
        let begin = Instant::now();
        let wal = reopen(&recycled);
        after_close.push(begin.elapsed());
        // A node that is killed leaves the log as a copy of its files shows it.
        let killed = dir.join("killed");
        copy(&recycled.join("wal"), &killed.join("wal"));
        let begin = Instant::now();
        let other = reopen(&killed);
        after_kill.push(begin.elapsed());
        drop((wal, other));
    }
    report("open after a close", after_close);
    report("open after a kill", after_kill);
}

fn reopen(dir: &Path) -> Wal {
    let disk = Arc::new(RealDisk::new(dir).unwrap());
    let options = WalOptions { segment_bytes: 8 << 20, ..WalOptions::default() };
    Wal::open(disk, options, &mut |_| Ok(())).unwrap()
}

fn copy(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).ok();
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        std::fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// A file of which every byte has been written and synced before.
fn bare_file(path: &Path) -> File {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    file.write_all_at(&vec![1; 8 << 20], 0).unwrap();
    file.sync_all().unwrap();
    file
}

/// Wakes its thread when everything up to `wanted` is durable.
struct Window {
    wanted: Lsn,
    done: mpsc::Sender<()>,
}

impl CommitListener for Window {
    fn durable(&self, upto: Lsn) -> bool {
        upto < self.wanted || self.done.send(()).is_err()
    }
}

fn throughput(dir: &Path, durability: Durability, threads: u64, window: u64) {
    let wal = open(&dir.join("throughput"), durability);
    warm(&wal);
    let before = (wal.stats(), cpu_time(), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (done, told) = mpsc::channel();
                while before.2.elapsed() < THROUGHPUT_TIME {
                    // In batches of 10, as a session appends what one read of its socket brought.
                    let mut wanted = Lsn(0);
                    for _ in 0..window / 10 {
                        let fill = |batch: &mut log::Batch<'_>| {
                            (0..10).for_each(|_| batch.entry(OWNER, 1, &[b"twelve bytes"]));
                        };
                        wanted = wal.append(fill).upto;
                    }
                    wal.watch(Arc::new(Window { wanted, done: done.clone() }));
                    told.recv().unwrap();
                }
            });
        }
    });
    let (stats, cpu, begin) = before;
    let (time, cpu) = (begin.elapsed().as_secs_f64(), cpu_time() - cpu);
    let after = wal.stats();
    let entries = (after.appended_upto.0 - stats.appended_upto.0) as f64;
    println!(
        "{durability:?} {threads:2} threads, window {window:5}: {:6.2} M/s, {:.3} us CPU each, {:.0} entries per block",
        entries / time / 1e6,
        cpu * 1e6 / entries,
        entries / (after.blocks - stats.blocks) as f64,
    );
}

/// User and system time of this process in seconds.
fn cpu_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let behind_name = stat.rsplit_once(')').unwrap().1;
    let ticks: Vec<f64> =
        behind_name.split_whitespace().skip(11).take(2).map(|n| n.parse().unwrap()).collect();
    // USER_HZ is 100 on every Linux this runs on.
    ticks.iter().sum::<f64>() / 100.0
}
