//! The commit thread with several threads around it: nobody is forgotten.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use log::{CommitListener, Durability, LogError, Lsn, Owner, Wal, WalOptions};
use segments::RealDisk;
use testing::{Fault, MemoryDisk};

const OWNER: Owner = Owner(3);

const DEADLINE: Duration = Duration::from_secs(30);
const THREADS: u64 = 4;

fn wal(options: WalOptions) -> Wal {
    Wal::open(Arc::new(MemoryDisk::new()), options, &mut |_| Ok(())).unwrap()
}

/// A session with confirms: holds positions until they are durable.
#[derive(Default)]
struct Session {
    inner: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    waiting: Vec<Lsn>,
    watching: bool,
    released: u64,
}

impl Session {
    /// Appends, holds, and watches unless it does so already. Commits itself if it is `here`.
    fn publish(self: &Arc<Self>, wal: &Wal, bytes: &[u8], here: bool) {
        let upto = wal.append(|batch| batch.entry(OWNER, 1, &[bytes])).upto;
        let mut held = self.inner.lock().unwrap();
        held.waiting.push(upto);
        let watch = !std::mem::replace(&mut held.watching, true);
        drop(held);
        match (watch, here) {
            (true, true) => {
                wal.watch_here(Arc::clone(self) as Arc<dyn CommitListener>);
                wal.commit_here();
            }
            (true, false) => wal.watch(Arc::clone(self) as Arc<dyn CommitListener>),
            (false, _) => {}
        }
    }

    fn wait_for(&self, released: u64) {
        let held = self.inner.lock().unwrap();
        let waiting = |held: &mut Held| held.released < released;
        let (held, time) = self.changed.wait_timeout_while(held, DEADLINE, waiting).unwrap();
        assert!(!time.timed_out(), "{} of {released}, {:?}", held.released, held.waiting);
    }
}

impl CommitListener for Session {
    fn durable(&self, upto: Lsn) -> bool {
        let mut held = self.inner.lock().unwrap();
        let before = held.waiting.len();
        held.waiting.retain(|lsn| *lsn > upto);
        held.released += (before - held.waiting.len()) as u64;
        held.watching = !held.waiting.is_empty();
        self.changed.notify_all();
        held.watching
    }
}

/// Windows of different sizes, each waited for: a lost wake-up would hang until the deadline.
fn stress(wal: &Wal, rounds: u64) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let session = Arc::<Session>::default();
                let mut sent = 0;
                for round in 0..rounds {
                    let n_publishes = (round * (thread + 1)) % 7;
                    let here = n_publishes == 0 || thread == 0;
                    for _ in 0..=n_publishes {
                        session.publish(wal, &[0; 40], here);
                        sent += 1;
                    }
                    session.wait_for(sent);
                }
            });
        }
    });
}

#[test]
fn no_wakeup_is_lost_when_syncs_are_instant() {
    for durability in [Durability::Sync, Durability::Write] {
        let wal = wal(WalOptions { durability, segment_bytes: 1 << 20, ..WalOptions::default() });
        wal.start_freeing();
        stress(&wal, 3000);
        wal.close().unwrap();
        let stats = wal.stats();
        assert_eq!(stats.durable_upto, stats.appended_upto);
    }
}

#[test]
fn no_wakeup_is_lost_on_a_real_disk_and_everything_is_read_back() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("wal-stress");
    std::fs::remove_dir_all(&dir).ok();
    let disk = Arc::new(RealDisk::new(&dir).unwrap());
    let options = || WalOptions { segment_bytes: 128 << 10, ..WalOptions::default() };
    let wal = Wal::open(disk.clone(), options(), &mut |_| Ok(())).unwrap();
    stress(&wal, 60);
    wal.close().unwrap();
    let appended = wal.stats().appended_upto.0;
    drop(wal);
    let mut seen = 0;
    let wal = Wal::open(disk, options(), &mut |entry| {
        seen += 1;
        assert_eq!((entry.lsn.0, entry.payload), (seen, [0; 40].as_slice()));
        Ok(())
    });
    wal.unwrap().close().unwrap();
    assert_eq!(seen, appended);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn an_append_nobody_watches_is_synced_by_itself() {
    let options = WalOptions { lazy_sync: Duration::from_millis(5), ..WalOptions::default() };
    let wal = wal(options);
    for _ in 0..3 {
        let upto = wal.append(|batch| batch.entry(OWNER, 1, &[b"x"])).upto;
        let begin = Instant::now();
        while wal.durable_upto() < upto {
            assert!(begin.elapsed() < DEADLINE);
            std::thread::yield_now();
        }
    }
}

#[test]
fn waiting_for_durability_blocks_until_it_is_there() {
    let wal = wal(WalOptions::default());
    for _ in 0..100 {
        let upto = wal.append(|batch| batch.entry(OWNER, 1, &[b"x"])).upto;
        wal.wait_durable(upto).unwrap();
        assert!(wal.durable_upto() >= upto);
    }
}

#[test]
fn a_failure_releases_everybody_and_a_closed_log_takes_nothing() {
    let disk = MemoryDisk::new();
    let failed = Arc::new(AtomicBool::new(false));
    let on_failure: log::OnFailure = {
        let failed = Arc::clone(&failed);
        Box::new(move |_| failed.store(true, Ordering::SeqCst))
    };
    let options = WalOptions { on_failure: Some(on_failure), ..WalOptions::default() };
    let wal = Wal::open(Arc::new(disk.clone()), options, &mut |_| Ok(())).unwrap();
    let upto = wal.append(|batch| batch.entry(OWNER, 1, &[b"x"])).upto;
    wal.wait_durable(upto).unwrap();
    disk.inject(disk.operations() + 1, Fault::Io);
    let upto = wal.append(|batch| batch.entry(OWNER, 1, &[b"y"])).upto;
    assert!(matches!(wal.wait_durable(upto), Err(LogError::Poisoned { .. })));
    assert!(wal.close().is_err());
    assert!(failed.load(Ordering::SeqCst));

    let wal = self::wal(WalOptions::default());
    wal.close().unwrap();
    let upto = wal.append(|batch| batch.entry(OWNER, 1, &[b"z"])).upto;
    assert!(matches!(wal.wait_durable(upto), Err(LogError::Poisoned { .. })));
    wal.close().unwrap();
}

#[test]
fn a_failure_on_the_callers_thread_ends_the_log_as_well() {
    let disk = MemoryDisk::new();
    let wal = Wal::open(Arc::new(disk.clone()), WalOptions::default(), &mut |_| Ok(())).unwrap();
    let session = Arc::<Session>::default();
    session.publish(&wal, b"x", true);
    session.wait_for(1);
    disk.inject(disk.operations() + 1, Fault::Io);
    session.publish(&wal, b"y", true);
    let upto = wal.append(|batch| batch.entry(OWNER, 1, &[b"z"])).upto;
    assert!(matches!(wal.wait_durable(upto), Err(LogError::Poisoned { .. })));
    assert!(wal.close().is_err());
}

/// Blocks a publisher until it is woken.
#[derive(Default)]
struct Parker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

#[test]
fn publishers_that_wait_for_room_all_go_on() {
    let wal = wal(WalOptions { unsynced_bytes_max: 2000, ..WalOptions::default() });
    let most = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let parker = Arc::<Parker>::default();
                let waker = Waker::from(Arc::clone(&parker));
                for _ in 0..3000 {
                    wal.append(|batch| batch.entry(OWNER, 1, &[&[0; 150]]));
                    most.fetch_max(wal.unsynced_bytes() as u64, Ordering::Relaxed);
                    while !wal.poll_capacity(&waker) {
                        let woken = parker.woken.lock().unwrap();
                        let (mut woken, time) = parker
                            .changed
                            .wait_timeout_while(woken, DEADLINE, |woken| !*woken)
                            .unwrap();
                        assert!(!time.timed_out());
                        *woken = false;
                    }
                }
            });
        }
    });
    wal.close().unwrap();
    assert_eq!(wal.durable_upto(), Lsn(THREADS * 3000));
    assert!(most.into_inner() < 2000 + (THREADS + 1) * 155);
}

#[test]
fn a_watcher_that_panics_poisons_the_log_instead_of_hanging_it() {
    struct Panics;
    impl CommitListener for Panics {
        fn durable(&self, _: Lsn) -> bool {
            panic!("expected by this test");
        }
    }
    let wal = wal(WalOptions::default());
    wal.watch(Arc::new(Panics));
    let upto = wal.append(|batch| batch.entry(OWNER, 1, &[b"x"])).upto;
    assert!(wal.close().is_err());
    assert!(wal.wait_durable(Lsn(upto.0 + 1)).is_err());
}
