//! Random work on a store of blobs against a naive model: every loss of power at every operation,
//! failing operations, flipped bits, reclaiming in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use segments::{Disk, FileError, OpenMode};
use store::StoreError;
use store::blob::{BlobId, BlobOptions, BlobStore};
use testing::{CrashOutcome, Fault, MemoryDisk};

const FILE_BYTES: u32 = 600;

#[derive(Clone, Debug)]
enum Work {
    /// A blob of this length.
    Append(u16),
    Sync,
    /// One more reference to the nth live blob.
    Retain(u16),
    /// One reference of the nth live blob less.
    Release(u16),
    /// All that can be reclaimed, in steps of this many bytes.
    Reclaim(u16),
    /// The process ends and starts again.
    Restart,
}

fn work() -> impl Strategy<Value = Vec<Work>> {
    let one = prop_oneof![
        10 => (0_u16..200).prop_map(Work::Append),
        1 => (600_u16..1500).prop_map(Work::Append),
        4 => Just(Work::Sync),
        2 => any::<u16>().prop_map(Work::Retain),
        10 => any::<u16>().prop_map(Work::Release),
        2 => (1_u16..400).prop_map(Work::Reclaim),
        1 => Just(Work::Restart),
    ];
    prop::collection::vec(one, 1..80)
}

fn options() -> BlobOptions {
    BlobOptions { file_bytes: FILE_BYTES, open_files_max: 2, ..BlobOptions::new("bodies") }
}

#[derive(Clone, Debug)]
struct Blob {
    bytes: Vec<u8>,
    refs: u16,
    is_synced: bool,
}

/// A store on a disk, and what should be in it.
struct Run {
    disk: MemoryDisk,
    store: BlobStore,
    blobs: BTreeMap<BlobId, Blob>,
    n_appended: usize,
}

impl Run {
    fn new() -> Self {
        let disk = MemoryDisk::new();
        let store = BlobStore::open(Arc::new(disk.clone()), options()).unwrap();
        store.start_reclaiming();
        Self { disk, store, blobs: BTreeMap::new(), n_appended: 0 }
    }

    fn nth(&self, n: u16) -> Option<BlobId> {
        let place = usize::from(n).checked_rem(self.blobs.len())?;
        self.blobs.keys().nth(place).copied()
    }

    fn step(&mut self, work: &Work) -> Result<(), StoreError> {
        match work {
            Work::Append(bytes) => self.append(usize::from(*bytes)),
            Work::Sync => {
                self.store.sync()?;
                assert!(!self.store.is_dirty());
                self.blobs.values_mut().for_each(|blob| blob.is_synced = true);
            }
            Work::Retain(n) => {
                if let Some(id) = self.nth(*n) {
                    assert!(self.store.retain(id, 1));
                    self.blobs.get_mut(&id).unwrap().refs += 1;
                }
            }
            Work::Release(n) => {
                if let Some(id) = self.nth(*n) {
                    assert!(self.store.release(id, 1));
                    let blob = self.blobs.get_mut(&id).unwrap();
                    blob.refs -= 1;
                    if blob.refs == 0 {
                        self.blobs.remove(&id);
                    }
                }
            }
            Work::Reclaim(step) => self.reclaim(u64::from(*step))?,
            Work::Restart => self.restart(CrashOutcome::Everything)?,
        }
        Ok(())
    }

    fn append(&mut self, bytes: usize) {
        self.n_appended += 1;
        let seed = self.n_appended;
        let bytes: Vec<u8> =
            (0..bytes).map(|at| u8::try_from((at * 7 + seed * 13) % 251).unwrap()).collect();
        let (head, tail) = bytes.split_at(bytes.len() / 3);
        let id = self.store.append(&[head, tail]);
        let blob = Blob { bytes: bytes.clone(), refs: 1, is_synced: false };
        assert!(self.blobs.insert(id, blob).is_none(), "{id:?} names two live blobs");
    }

    fn reclaim(&mut self, step: u64) -> Result<(), StoreError> {
        while self.store.plan_reclaiming(|_| true) {
            while self.store.reclaim_step(step)?.has_more {}
        }
        let stats = self.store.stats();
        // What is not closed yet is left alone, and every file has a header.
        let spared = u64::from(FILE_BYTES) * 2 + 2 * 1600 + stats.files * 64;
        assert!(stats.file_bytes <= 2 * stats.live_bytes + spared, "{stats:?}");
        Ok(())
    }

    /// Starts again after what `survival` says, with the references of what was synced.
    fn restart(&mut self, survival: CrashOutcome) -> Result<(), StoreError> {
        let disk = self.disk.survive(survival);
        let store = BlobStore::open(Arc::new(disk.clone()), options())?;
        if survival != CrashOutcome::Everything {
            self.blobs.retain(|_, blob| blob.is_synced);
        } else {
            self.blobs.retain(|id, _| store.blob_bytes(*id).is_some());
            self.blobs.values_mut().for_each(|blob| blob.is_synced = true);
        }
        for (id, blob) in &self.blobs {
            // Counted up and down, as replaying a log does.
            store.release(*id, 2);
            assert!(store.retain(*id, blob.refs + 2), "{id:?} is gone");
        }
        store.start_reclaiming();
        (self.disk, self.store) = (disk, store);
        assert_eq!(self.store.stats().file_bytes, self.bytes_on_disk(), "something is not known");
        Ok(())
    }

    fn bytes_on_disk(&self) -> u64 {
        let names = self.disk.list("bodies").unwrap_or_default();
        let files = names.iter().map(|name| format!("bodies/{name}"));
        files.map(|name| self.disk.open(&name, OpenMode::Existing).unwrap().len().unwrap()).sum()
    }

    fn check(&self) {
        let mut into = Vec::new();
        for (id, blob) in &self.blobs {
            self.store.read(*id, &mut into).unwrap();
            assert_eq!(into, blob.bytes, "{id:?}");
            assert_eq!(self.store.blob_bytes(*id), Some(u32::try_from(into.len()).unwrap()));
        }
        let ids: Vec<BlobId> = self.blobs.keys().copied().collect();
        let mut seen = Vec::new();
        self.store.read_run(&ids, &mut into, &mut |id, bytes| {
            assert_eq!(bytes.unwrap(), self.blobs[&id].bytes);
            seen.push(id);
        });
        assert_eq!(seen, ids);
        let stats = self.store.stats();
        assert_eq!(stats.live_blobs, self.blobs.len() as u64);
    }
}

/// The work up to the first failure, and the operations it took.
fn run_until_it_fails(work: &[Work], fault: Option<(u64, Fault)>) -> Run {
    let mut run = Run::new();
    if let Some((operation, fault)) = fault {
        run.disk.inject(run.disk.operations() + operation, fault);
    }
    for one in work.iter().filter(|one| fault.is_none() || !matches!(one, Work::Restart)) {
        let outcome = run.step(one);
        if fault.is_none() {
            outcome.unwrap();
        } else if outcome.is_err() {
            break;
        }
    }
    run
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_referenced_blob_reads_back(work in work()) {
        let mut run = Run::new();
        for one in &work {
            run.step(one).unwrap();
            run.check();
        }
    }

    #[test]
    fn reclaiming_keeps_space_below_twice_what_lives(work in work()) {
        let mut run = run_until_it_fails(&work, None);
        run.step(&Work::Sync).unwrap();
        run.reclaim(200).unwrap();
        run.check();
        for _ in 0..run.blobs.values().map(|blob| usize::from(blob.refs)).sum() {
            run.step(&Work::Release(0)).unwrap();
        }
        run.reclaim(200).unwrap();
        prop_assert!(run.store.stats().file_bytes <= u64::from(FILE_BYTES) + 1600);
    }

    #[test]
    fn a_flipped_bit_is_never_handed_out(work in work(), place in any::<(u16, u16, u8)>()) {
        let mut run = run_until_it_fails(&work, None);
        run.step(&Work::Sync).unwrap();
        let names = run.disk.list("bodies").unwrap_or_default();
        let Some(name) = usize::from(place.0).checked_rem(names.len()).map(|at| &names[at]) else {
            return Ok(());
        };
        let name = format!("bodies/{name}");
        let bytes = run.disk.open(&name, OpenMode::Existing).unwrap().len().unwrap();
        run.disk.flip_bit(&name, usize::from(place.1) % usize::try_from(bytes).unwrap(), place.2);
        let after = BlobStore::open(Arc::new(run.disk.survive(CrashOutcome::Everything)), options());
        for store in [Some(run.store), after.ok()].into_iter().flatten() {
            let (mut into, mut n_read) = (Vec::new(), 0);
            for (id, blob) in &run.blobs {
                match store.read(*id, &mut into) {
                    Ok(()) => {
                        prop_assert_eq!(&into, &blob.bytes);
                        n_read += 1;
                    }
                    Err(StoreError::Disk(FileError::Corrupt { file, .. })) => {
                        prop_assert_eq!(&file, &name);
                    }
                    Err(StoreError::Missing { file, .. }) => prop_assert_eq!(&file, &name),
                    Err(error) => panic!("{error}"),
                }
            }
            prop_assert!(n_read + 1 >= run.blobs.len(), "one bit is the loss of one blob");
        }
    }

    #[test]
    fn a_failing_operation_loses_nothing_durable(
        work in work(),
        operation in 0_u64..120,
        is_full in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let fault = if is_full { Fault::NoSpace } else { Fault::Io };
        let mut run = run_until_it_fails(&work, Some((operation, fault)));
        run.check();
        run.restart(CrashOutcome::Torn(seed)).unwrap();
        run.check();
    }
}

proptest! {
    // Each tries all its crash points, so a few are much.
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_loss_of_power_at_any_operation_loses_nothing_durable(work in work(), seed in any::<u64>()) {
        let whole: Vec<Work> =
            work.into_iter().filter(|one| !matches!(one, Work::Restart)).collect();
        let first = Run::new().disk.operations();
        let operations = run_until_it_fails(&whole, None).disk.operations() - first;
        for operation in 0..operations {
            let torn = CrashOutcome::Torn(seed ^ operation);
            for survival in [CrashOutcome::Everything, CrashOutcome::OnlySynced, torn] {
                let mut run = run_until_it_fails(&whole, Some((operation, Fault::PowerLoss)));
                run.restart(survival).unwrap();
                run.check();
                // What a start has found stays, also if the process before did not sync it.
                run.restart(CrashOutcome::OnlySynced).unwrap();
                run.check();
                // And it goes on from there.
                for bytes in [0, 10, 300, 700, 20] {
                    run.append(bytes);
                }
                run.step(&Work::Sync).unwrap();
                run.reclaim(100).unwrap();
                run.check();
                run.restart(survival).unwrap();
                run.check();
            }
        }
    }
}

#[test]
fn a_number_of_a_file_is_not_used_again() {
    let mut run = Run::new();
    for _ in 0..20 {
        run.append(300);
    }
    run.step(&Work::Sync).unwrap();
    let highest = *run.blobs.keys().next_back().unwrap();
    for _ in 0..20 {
        run.step(&Work::Release(0)).unwrap();
    }
    run.reclaim(1000).unwrap();
    run.restart(CrashOutcome::OnlySynced).unwrap();
    run.reclaim(1000).unwrap();
    let id = run.store.append(&[b"new"]);
    assert!(id > highest, "{id:?} after {highest:?}");
}

/// A file that was being written is read record by record: the damaged one is not taken for its end.
#[test]
fn a_flipped_bit_costs_one_blob_also_after_a_crash() {
    let mut run = Run::new();
    for bytes in [10, 300, 0, 77] {
        run.append(bytes);
    }
    run.step(&Work::Sync).unwrap();
    let name = "bodies/00000001.blob";
    let bytes = usize::try_from(run.bytes_on_disk()).unwrap();
    for at in 0..bytes {
        let disk = run.disk.survive(CrashOutcome::Everything);
        assert!(disk.flip_bit(name, at, 5));
        let store = BlobStore::open(Arc::new(disk.clone()), options()).unwrap();
        let mut into = Vec::new();
        let lost = run.blobs.keys().filter(|id| store.read(**id, &mut into).is_err()).count();
        assert!(lost <= 1, "byte {at} costs {lost} blobs");
        // What comes later takes no place that something may still name, and is as good.
        let id = store.append(&[b"later"]);
        assert!(!run.blobs.contains_key(&id), "byte {at}");
        store.sync().unwrap();
        let disk = disk.survive(CrashOutcome::OnlySynced);
        let store = BlobStore::open(Arc::new(disk), options()).unwrap();
        store.read(id, &mut into).unwrap();
        assert_eq!(into, b"later");
    }
}

#[test]
fn a_volatile_store_is_empty_after_a_restart_and_never_syncs() {
    let disk = MemoryDisk::new();
    let options = BlobOptions { is_volatile: true, ..options() };
    let store = BlobStore::open(Arc::new(disk.clone()), options.clone()).unwrap();
    let ids: Vec<BlobId> = (0..40).map(|_| store.append(&[&[7; 100]])).collect();
    store.sync().unwrap();
    assert_eq!(store.stats().syncs, 0);
    let mut into = Vec::new();
    store.read(ids[3], &mut into).unwrap();
    assert_eq!(into, [7; 100]);
    let store = BlobStore::open(Arc::new(disk), options).unwrap();
    assert_eq!(store.stats().files, 0);
    assert!(matches!(store.read(ids[3], &mut into), Err(StoreError::Missing { .. })));
}

#[test]
fn a_failed_sync_is_for_good_and_what_was_durable_stays_readable() {
    let mut run = Run::new();
    run.append(50);
    run.step(&Work::Sync).unwrap();
    run.append(60);
    run.disk.inject(run.disk.operations() + 1, Fault::Io);
    assert!(matches!(run.store.sync(), Err(StoreError::Disk(FileError::Io { .. }))));
    assert!(matches!(run.store.sync(), Err(StoreError::Poisoned { .. })));
    assert!(run.store.is_dirty());
    run.check();
}

#[test]
fn a_newer_file_is_refused() {
    let mut run = Run::new();
    run.append(50);
    run.step(&Work::Sync).unwrap();
    let file = run.disk.open("bodies/00000001.blob", OpenMode::Existing).unwrap();
    let mut header = [0; 16];
    file.read_at(0, &mut header).unwrap();
    header[4] = 9;
    let crc = segments::crc32c(&header[..12]);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    file.write_at(0, &header).unwrap();
    let refused = BlobStore::open(Arc::new(run.disk.clone()), options()).unwrap_err();
    assert!(matches!(refused, StoreError::Disk(FileError::Newer { found: 9, .. })), "{refused}");
}

#[test]
fn reads_go_on_while_others_append_sync_and_reclaim() {
    let run = Run::new();
    let kept: Vec<(BlobId, Vec<u8>)> = (0..50_u8)
        .map(|n| {
            let bytes = vec![n; 40];
            // Neighbours that go, so that every file becomes sparse.
            let dead: Vec<BlobId> = (0..4).map(|_| run.store.append(&[&[0; 60]])).collect();
            let id = run.store.append(&[&bytes]);
            dead.into_iter().for_each(|id| assert!(run.store.release(id, 1)));
            (id, bytes)
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut into = Vec::new();
                for (id, bytes) in kept.iter().cycle().take(5000) {
                    run.store.read(*id, &mut into).unwrap();
                    assert_eq!(&into, bytes);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                let id = run.store.append(&[&[1; 100]]);
                run.store.sync().unwrap();
                run.store.release(id, 1);
                while run.store.plan_reclaiming(|_| true) {
                    while run.store.reclaim_step(64).unwrap().has_more {}
                }
            }
        });
    });
    assert!(run.store.stats().moved_bytes > 0);
}
