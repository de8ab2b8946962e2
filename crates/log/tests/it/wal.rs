//! The log's promises one by one, on a simulated disk and without a thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use log::{
    Appended, ClusterId, CommitListener, Durability, EntryAddress, Identities, LogError, Lsn,
    NodeId, Owner, SegmentId, SegmentState, Stepper, Wal, WalOptions,
};
use segments::{Disk, FileError, OpenMode};
use testing::{CrashOutcome, Fault, MemoryDisk};

const OWNER: Owner = Owner(3);

/// A surviving entry: segment, position, kind, payload.
type Seen = (SegmentId, Lsn, u8, Vec<u8>);

fn options() -> WalOptions {
    let given = Identities { salt: 1, node: NodeId(1), cluster: ClusterId(1) };
    WalOptions { segment_bytes: 4096, given, ..WalOptions::default() }
}

fn open(disk: &MemoryDisk, options: WalOptions) -> Result<(Wal, Stepper, Vec<Seen>), LogError> {
    let mut seen = Vec::new();
    let (wal, stepper) = Wal::open_stepped(Arc::new(disk.clone()), options, &mut |entry| {
        seen.push((entry.at.segment, entry.lsn, entry.kind, entry.payload.to_vec()));
        Ok(())
    })?;
    Ok((wal, stepper, seen))
}

fn append(wal: &Wal, payload: &[u8], retained: u64) -> Appended {
    wal.append(|batch| {
        batch.entry(OWNER, 7, &[payload]);
        batch.retain(OWNER, retained);
    })
}

/// The oldest segment, if it is not the one being written.
fn oldest(wal: &Wal) -> Option<SegmentState> {
    let stats = wal.stats();
    stats.oldest.filter(|_| stats.segments > 1)
}

fn steps(stepper: &mut Stepper) {
    while stepper.step() {}
}

/// Remembers the last call; answers whether it wants another one.
#[derive(Default)]
struct Watcher {
    upto: AtomicU64,
    calls: AtomicU64,
    keep: bool,
}

impl CommitListener for Watcher {
    fn durable(&self, upto: Lsn) -> bool {
        self.upto.store(upto.0, Ordering::SeqCst);
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.keep
    }
}

#[derive(Default)]
struct CountingWaker(AtomicU64);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn entries_come_back_in_order_with_their_positions() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, seen) = open(&disk, options()).unwrap();
    assert!(seen.is_empty());
    let one = append(&wal, b"one", 0);
    let two = wal.append(|batch| {
        batch.entry(OWNER, 1, &[b"tw", b"o"]);
        batch.entry(OWNER, 2, &[]);
    });
    assert_eq!((one.upto, two.upto), (Lsn(1), Lsn(3)));
    assert_eq!(wal.durable_upto(), Lsn(0));
    steps(&mut stepper);
    assert_eq!(wal.durable_upto(), Lsn(3));

    let disk = disk.survive(CrashOutcome::OnlySynced);
    let (wal, mut stepper, seen) = open(&disk, options()).unwrap();
    let segment = one.at.segment;
    let expected: Vec<Seen> = vec![
        (segment, Lsn(1), 7, b"one".to_vec()),
        (segment, Lsn(2), 1, b"two".to_vec()),
        (segment, Lsn(3), 2, vec![]),
    ];
    assert_eq!(seen, expected);
    assert_eq!(append(&wal, b"four", 0).upto, Lsn(4));
    steps(&mut stepper);
    let (_, _, seen) = open(&disk.survive(CrashOutcome::OnlySynced), options()).unwrap();
    assert_eq!(seen.len(), 4);
}

#[test]
fn positions_go_on_after_every_segment_was_freed() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) = open(&disk, options()).unwrap();
    wal.start_freeing();
    let mut last = append(&wal, &[0; 3000], 0);
    for _ in 0..5 {
        last = append(&wal, &[0; 3000], 0);
        steps(&mut stepper);
    }
    assert_eq!(wal.stats().segments, 1);
    let (wal, mut stepper, seen) =
        open(&disk.survive(CrashOutcome::OnlySynced), options()).unwrap();
    assert_eq!(seen.len(), 1);
    wal.start_freeing();
    steps(&mut stepper);
    assert_eq!(append(&wal, b"x", 0).upto.0, last.upto.0 + 1);
    assert_eq!(wal.stats().segments, 1);
}

#[test]
fn a_watcher_is_told_after_the_commit_and_kept_if_it_wants() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) = open(&disk, options()).unwrap();
    let (once, kept) = (Arc::<Watcher>::default(), Watcher { keep: true, ..Default::default() });
    let kept = Arc::new(kept);
    append(&wal, b"a", 0);
    wal.watch(Arc::clone(&once) as Arc<dyn CommitListener>);
    wal.watch(Arc::clone(&kept) as Arc<dyn CommitListener>);
    assert_eq!(once.calls.load(Ordering::SeqCst), 0);
    assert!(stepper.step());
    assert_eq!(once.upto.load(Ordering::SeqCst), 1);
    assert!(!stepper.step(), "a kept watcher alone is no reason to commit");
    append(&wal, b"b", 0);
    steps(&mut stepper);
    assert_eq!(once.calls.load(Ordering::SeqCst), 1);
    assert_eq!((kept.calls.load(Ordering::SeqCst), kept.upto.load(Ordering::SeqCst)), (2, 2));
    wal.watch(Arc::clone(&once) as Arc<dyn CommitListener>);
    steps(&mut stepper);
    assert_eq!(once.calls.load(Ordering::SeqCst), 2, "already durable is told too");
    assert_eq!(wal.stats().sync_micros.n(), 2);
}

#[test]
fn one_append_stays_in_one_segment_and_a_large_one_gets_its_own() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) = open(&disk, options()).unwrap();
    let first = append(&wal, &[1; 100], 0).at.segment;
    let second = append(&wal, &[2; 4000], 0).at.segment;
    let large = append(&wal, &[3; 50_000], 0).at.segment;
    let after = append(&wal, &[4; 100], 0).at.segment;
    assert_eq!([second.0, large.0, after.0].map(|id| id - first.0), [1, 2, 3]);
    steps(&mut stepper);
    let (_, _, seen) = open(&disk.survive(CrashOutcome::OnlySynced), options()).unwrap();
    let found: Vec<_> = seen.iter().map(|entry| (entry.0, entry.3.len())).collect();
    assert_eq!(found, [(first, 100), (second, 4000), (large, 50_000), (after, 100)]);
}

#[test]
fn segments_are_freed_oldest_first_and_only_when_what_replaced_them_is_synced() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) = open(&disk, options()).unwrap();
    wal.start_freeing();
    let appended: Vec<_> = (0..4).map(|_| append(&wal, &[0; 3000], 1)).collect();
    steps(&mut stepper);
    assert_eq!(wal.stats().segments, 4);
    wal.release(appended[1].at.segment, 1);
    steps(&mut stepper);
    assert_eq!(wal.stats().segments, 4, "the oldest is still needed");
    let oldest = oldest(&wal).unwrap();
    assert_eq!((oldest.id, oldest.live, oldest.live_bytes), (appended[0].at.segment, 1, 3013));

    // The survivor of the oldest moves to the end; the sync of that move fails.
    append(&wal, &[0; 500], 1);
    wal.release(appended[0].at.segment, 1);
    let copy = disk.survive(CrashOutcome::Everything);
    disk.inject(disk.operations() + 1, Fault::PowerLoss);
    steps(&mut stepper);
    let (_, _, seen) = open(&disk.survive(CrashOutcome::OnlySynced), options()).unwrap();
    assert_eq!(seen.len(), 4, "nothing is freed before the move is synced");

    // The same with a sync that works.
    let (wal, mut stepper, seen) = open(&copy, options()).unwrap();
    assert_eq!(seen.len(), 4);
    seen.iter().for_each(|entry| wal.retain(entry.0, OWNER, 1));
    wal.start_freeing();
    append(&wal, &[0; 500], 1);
    seen[..2].iter().for_each(|entry| wal.release(entry.0, 1));
    steps(&mut stepper);
    assert_eq!(wal.stats().segments, 3);
    let (_, _, seen) = open(&copy.survive(CrashOutcome::OnlySynced), options()).unwrap();
    assert_eq!(seen.len(), 3);
}

/// Moves the survivor of a segment while the commit thread is between sync and freeing.
struct Mover {
    wal: Arc<Wal>,
    from: Mutex<Option<SegmentId>>,
}

impl CommitListener for Mover {
    fn durable(&self, _: Lsn) -> bool {
        if let Some(from) = self.from.lock().ok().and_then(|mut from| from.take()) {
            append(&self.wal, b"moved", 1);
            self.wal.release(from, 1);
        }
        false
    }
}

#[test]
fn a_segment_stays_while_what_replaces_it_is_in_the_next_commit() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) = open(&disk, options()).unwrap();
    let wal = Arc::new(wal);
    wal.start_freeing();
    let from = append(&wal, &[0; 3000], 1).at.segment;
    append(&wal, &[0; 3000], 0);
    wal.watch(Arc::new(Mover { wal: Arc::clone(&wal), from: Mutex::new(Some(from)) }));
    assert!(stepper.step());
    assert_eq!(oldest(&wal).map(|oldest| (oldest.id, oldest.live)), Some((from, 0)));
    assert!(stepper.step());
    assert_eq!(oldest(&wal), None);
}

#[test]
fn freed_files_are_reused_and_their_old_content_does_not_come_back() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) = open(&disk, options()).unwrap();
    wal.start_freeing();
    for round in 0..40_u8 {
        // Blocks of equal sizes: the stale ones lie exactly where new ones are expected.
        append(&wal, &[round; 900], 0);
        steps(&mut stepper);
        let (_, _, seen) = open(&disk.survive(CrashOutcome::Everything), options()).unwrap();
        let payloads: Vec<u8> = seen.iter().map(|entry| entry.3[0]).collect();
        let expected: Vec<u8> = (0..=round).rev().take(payloads.len()).rev().collect();
        assert_eq!(payloads, expected);
        assert!(!payloads.is_empty());
    }
    let files = disk.list("wal").unwrap();
    assert!(files.len() <= 3, "{files:?}");
}

#[test]
fn a_failed_sync_ends_the_log_and_nobody_is_told() {
    for (fault, write) in [(Fault::Io, false), (Fault::Io, true), (Fault::NoSpace, true)] {
        let disk = MemoryDisk::new();
        let told = Arc::new(Mutex::new(Vec::new()));
        let on_failure = {
            let told = Arc::clone(&told);
            Box::new(move |error: &LogError| told.lock().unwrap().push(error.to_string()))
        };
        let options = WalOptions { on_failure: Some(on_failure), ..options() };
        let (wal, mut stepper, _) = open(&disk, options).unwrap();
        append(&wal, b"good", 0);
        steps(&mut stepper);
        // A commit into a grown file is one write and one sync.
        disk.inject(disk.operations() + u64::from(!write), fault);
        let watcher = Arc::<Watcher>::default();
        let lost = append(&wal, b"lost", 0);
        wal.watch(Arc::clone(&watcher) as Arc<dyn CommitListener>);
        steps(&mut stepper);
        assert_eq!(watcher.calls.load(Ordering::SeqCst), 0);
        assert!(wal.poisoned().is_some());
        assert_eq!(told.lock().unwrap().len(), 1);
        append(&wal, b"more", 0);
        wal.watch(Arc::clone(&watcher) as Arc<dyn CommitListener>);
        assert!(!stepper.step(), "nothing is tried again");
        assert_eq!((wal.durable_upto(), wal.unsynced_bytes()), (Lsn(1), 0));
        assert!(matches!(wal.wait_durable(lost.upto), Err(LogError::Poisoned { .. })));
        assert!(matches!(wal.close(), Err(LogError::Poisoned { .. })));
        let (_, _, seen) = open(&disk.survive(CrashOutcome::OnlySynced), self::options()).unwrap();
        assert_eq!(seen.len(), 1);
    }
}

#[test]
fn room_runs_out_and_its_return_is_told_once() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) =
        open(&disk, WalOptions { unsynced_bytes_max: 1000, ..options() }).unwrap();
    let counting = Arc::<CountingWaker>::default();
    let waker = Waker::from(Arc::clone(&counting));
    assert!(wal.poll_capacity(&waker));
    append(&wal, &[0; 2000], 0);
    assert!(!wal.has_capacity());
    assert!(!wal.poll_capacity(&waker) && !wal.poll_capacity(&waker));
    assert_eq!(counting.0.load(Ordering::SeqCst), 0);
    steps(&mut stepper);
    assert!(wal.has_capacity());
    assert_eq!(counting.0.load(Ordering::SeqCst), 1);
}

#[test]
fn write_mode_tells_after_the_write_and_syncs_later() {
    let disk = MemoryDisk::new();
    let options = WalOptions { durability: Durability::Write, ..options() };
    let (wal, mut stepper, _) = open(&disk, options).unwrap();
    append(&wal, b"a", 0);
    wal.watch(Arc::<Watcher>::default());
    assert!(stepper.step());
    assert_eq!((wal.durable_upto(), wal.stats().sync_micros.n()), (Lsn(1), 0));
    assert!(wal.unsynced_bytes() > 0);
    assert!(stepper.step(), "the lazy sync");
    assert_eq!((wal.unsynced_bytes(), wal.stats().sync_micros.n()), (0, 1));
    assert!(!stepper.step());
}

#[test]
fn a_panic_while_filling_a_batch_leaves_no_trace() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) = open(&disk, options()).unwrap();
    append(&wal, b"before", 0);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wal.append(|batch| {
            batch.entry(OWNER, 1, &[b"half"]);
            panic!("expected by this test");
        });
    }));
    assert!(panicked.is_err());
    append(&wal, b"after", 0);
    steps(&mut stepper);
    let (_, _, seen) = open(&disk.survive(CrashOutcome::OnlySynced), options()).unwrap();
    let payloads: Vec<_> = seen.iter().map(|entry| entry.3.as_slice()).collect();
    assert_eq!(payloads, [b"before".as_slice(), b"after"]);
}

#[test]
fn an_empty_append_is_no_entry_and_is_durable_with_what_came_before() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) = open(&disk, options()).unwrap();
    assert_eq!(wal.append(|_| {}).upto, Lsn(0));
    assert!(!stepper.step());
    append(&wal, b"x", 0);
    assert_eq!(wal.append(|_| {}).upto, Lsn(1));
}

#[test]
fn a_refused_entry_stops_the_start() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) = open(&disk, options()).unwrap();
    append(&wal, b"x", 0);
    steps(&mut stepper);
    let disk = disk.survive(CrashOutcome::Everything);
    let opened =
        Wal::open(Arc::new(disk), options(), &mut |_| Err(log::RefusedEntry("odd".into())));
    assert!(matches!(opened, Err(LogError::Refused { lsn: Lsn(1), .. })), "{opened:?}");
}

#[test]
fn what_entries_refer_to_is_made_durable_before_them() {
    let disk = MemoryDisk::new();
    let beside = Arc::new(disk.open("beside", OpenMode::New).unwrap());
    let file = Arc::clone(&beside);
    let before_commit = Box::new(move || {
        let error = |source| {
            LogError::File(FileError::Io { what: "sync", file: "beside".to_owned(), source })
        };
        file.sync_data().map_err(error)
    });
    let options = WalOptions { before_commit: Some(before_commit), ..options() };
    let (wal, mut stepper, _) = open(&disk, options).unwrap();
    disk.sync_dir("").unwrap();
    beside.write_at(0, b"body").unwrap();
    append(&wal, b"names the body", 1);
    let (written, synced) = (disk.operations(), disk.operations() + 1);
    // The block is written right after the sync.
    disk.inject(synced, Fault::PowerLoss);
    steps(&mut stepper);
    assert!(disk.operations() > written && wal.poisoned().is_some());
    let after = disk.survive(CrashOutcome::OnlySynced);
    let mut found = [0; 4];
    after.open("beside", OpenMode::Existing).unwrap().read_at(0, &mut found).unwrap();
    assert_eq!(&found, b"body");

    let (wal, mut stepper, _) = {
        let refuse = Box::new(|| Err(LogError::Poisoned { reason: "pages".to_owned() }));
        let options = WalOptions { before_commit: Some(refuse), ..self::options() };
        open(&MemoryDisk::new(), options).unwrap()
    };
    let appended = append(&wal, b"never durable", 1);
    steps(&mut stepper);
    assert!(wal.poisoned().is_some_and(|reason| reason.contains("pages")));
    assert!(wal.durable_upto() < appended.upto);
}

#[test]
fn what_entries_refer_to_counts_as_unsynced() {
    let options = WalOptions { eager_sync_bytes: 100, unsynced_bytes_max: 200, ..options() };
    let (wal, mut stepper, _) = open(&MemoryDisk::new(), options).unwrap();
    wal.append(|batch| {
        batch.entry(OWNER, 1, &[b"names a body"]);
        batch.count_beside(1_000);
    });
    assert!(wal.unsynced_bytes() > 1_000 && !wal.has_capacity());
    steps(&mut stepper);
    assert!(wal.unsynced_bytes() == 0 && wal.has_capacity());
}

#[test]
fn an_entry_is_read_back_by_its_address() {
    let disk = MemoryDisk::new();
    let options = || WalOptions { segment_bytes: 2 << 20, ..options() };
    let (wal, mut stepper, _) = open(&disk, options()).unwrap();
    let mut written = Vec::new();
    for (nth, size) in [10, 700_000, 3, 0, 900_000, 40, 600_000].into_iter().enumerate() {
        let body = vec![u8::try_from(nth).unwrap(); size];
        let appended = wal.append(|batch| {
            batch.entry(Owner(nth as u64), 9, &[&body]);
            batch.entry(OWNER, 8, &[b"behind it"]);
            batch.retain(Owner(nth as u64), 1);
        });
        written.push((appended.at, body, nth as u64));
        if nth % 3 == 2 {
            steps(&mut stepper);
        }
    }
    steps(&mut stepper);
    let places: Vec<_> = written.iter().map(|(at, ..)| *at).collect();
    let backwards = places.iter().rev().copied().collect::<Vec<_>>();
    for run in places.chunks(1).chain([&places[..], &backwards]) {
        let mut shown = Vec::new();
        wal.read(run, &mut |entry| {
            let nth = usize::try_from(entry.owner.unwrap().0).unwrap();
            let (_, body, _) = &written[nth];
            assert_eq!((entry.kind, entry.lsn.0), (9, 2 * nth as u64 + 1));
            assert!(entry.payload == body.as_slice(), "{nth}");
            shown.push(entry.at);
        })
        .unwrap();
        assert_eq!(shown, run);
    }
    let at = places[1];
    for wrong in [EntryAddress { bytes: at.bytes + 1, ..at }, EntryAddress { offset: 70, ..at }] {
        assert!(
            matches!(
                wal.read(&[wrong], &mut |_| ()),
                Err(LogError::File(FileError::Corrupt { .. }))
            ),
            "{wrong:?}"
        );
    }
    assert!(disk.flip_bit("wal/00000000000000000001.wal", 500_000, 1));
    let mut n = 0;
    let read = wal.read(&[places[6], at, places[5]], &mut |_| n += 1);
    assert_eq!(n, 1, "only the one in front of the damaged block is shown");
    assert!(matches!(read, Err(LogError::File(FileError::Corrupt { .. }))), "{read:?}");
}

#[test]
fn a_segment_says_whose_entries_in_it_are_needed() {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) = open(&disk, options()).unwrap();
    let put = |owner: u64, size: usize| {
        let appended = wal.append(|batch| {
            batch.entry(Owner(owner), 1, &[&vec![0; size]]);
            batch.entry(Owner(99), 2, &[b"not needed"]);
            batch.retain(Owner(owner), 1);
        });
        appended.at.segment
    };
    let first = put(7, 10);
    [7, 5, 6, 5, 5].into_iter().for_each(|owner| assert_eq!(put(owner, 10), first));
    let second = put(6, 3900);
    wal.retain(second, Owner(1), 1);
    assert!(second > first);
    let owners =
        |wal: &Wal, segment| wal.owners_in(segment).into_iter().map(|owner| owner.0).collect();
    let (in_first, in_second): (Vec<u64>, Vec<u64>) = (owners(&wal, first), owners(&wal, second));
    assert_eq!((in_first, in_second), (vec![5, 6, 7], vec![1, 6]));
    assert!(wal.owners_in(SegmentId(77)).is_empty());
    steps(&mut stepper);
    let (wal, _, seen) = open(&disk.survive(CrashOutcome::OnlySynced), options()).unwrap();
    assert!(wal.owners_in(first).is_empty(), "nobody has said yet that they are needed");
    wal.retain(seen[0].0, Owner(7), 1);
    assert_eq!(wal.owners_in(first), [Owner(7)]);
}
