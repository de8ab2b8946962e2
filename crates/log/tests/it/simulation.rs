//! Random work, a loss of power at every single disk operation, and what must be left after it.
//!
//! Checked after every restart: positions are consecutive; every entry is one that was appended at
//! that position; appends are whole; what was reported durable is there; what is still needed, or
//! was released by something that is lost, is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use log::{
    ClusterId, CommitListener, Durability, ENTRY_HEADER_BYTES, Entry, EntryAddress, Identities,
    LogError, Lsn, NodeId, Owner, SegmentState, Stepper, Wal, WalOptions,
};
use proptest::prelude::*;
use segments::{Disk, FileError};
use testing::{CrashOutcome, Fault, MemoryDisk};

const OWNER: Owner = Owner(3);
const N_OWNERS: u64 = 5;

/// Each tries all its crash points, so a few are much; more were tried when the log was written.
const CASES: u32 = 12;

#[derive(Clone, Debug)]
enum Work {
    /// Entries of these sizes in one append, needed until released.
    Append(Vec<u16>),
    /// A watcher comes.
    Watch,
    /// The commit thread runs.
    Commit,
    /// Somebody watches and commits at once.
    CommitHere,
    /// The nth needed entry is settled: a record is appended, then it is released.
    Settle(u16),
    /// The survivors of the oldest segment are appended anew, then released.
    Move,
    /// The process ends properly and starts again.
    Restart,
}

fn work() -> impl Strategy<Value = Vec<Work>> {
    let one = prop_oneof![
        6 => prop::collection::vec(0_u16..300, 1..4).prop_map(Work::Append),
        1 => prop::collection::vec(900_u16..2000, 1..2).prop_map(Work::Append),
        2 => Just(Work::Watch),
        4 => Just(Work::Commit),
        2 => Just(Work::CommitHere),
        6 => any::<u16>().prop_map(Work::Settle),
        2 => Just(Work::Move),
        1 => Just(Work::Restart),
    ];
    prop::collection::vec(one, 1..60)
}

fn options(durability: Durability) -> WalOptions {
    WalOptions {
        segment_bytes: 1024,
        eager_sync_bytes: 700,
        durability,
        given: Identities { salt: 77, node: NodeId(1), cluster: ClusterId(1) },
        ..WalOptions::default()
    }
}

#[derive(Default)]
struct Told(AtomicU64);

impl CommitListener for Told {
    fn durable(&self, upto: Lsn) -> bool {
        self.0.fetch_max(upto.0, Ordering::SeqCst);
        false
    }
}

/// Entries that were appended, and what should have become of them.
#[derive(Clone, Debug)]
struct Written {
    payload: Vec<u8>,
    at: EntryAddress,
    owner: Owner,
    /// Last position of its append.
    append_end: u64,
    needed: bool,
    /// Last position appended when it was released.
    released_at: u64,
}

#[derive(Default)]
struct Model {
    entries: BTreeMap<u64, Written>,
    told: Arc<Told>,
    /// Last position known to be synced, whatever was told.
    synced: u64,
    serial: u64,
}

struct Node {
    disk: MemoryDisk,
    durability: Durability,
    wal: Wal,
    stepper: Stepper,
}

type Seen = Vec<(u64, EntryAddress, Option<Owner>, Vec<u8>)>;

fn open(disk: &MemoryDisk, durability: Durability) -> Result<(Node, Seen), LogError> {
    let mut seen = Seen::new();
    let (wal, stepper) =
        Wal::open_stepped(Arc::new(disk.clone()), options(durability), &mut |entry| {
            seen.push((entry.lsn.0, entry.at, entry.owner, entry.payload.to_vec()));
            Ok(())
        })?;
    Ok((Node { disk: disk.clone(), durability, wal, stepper }, seen))
}

/// The oldest segment, if it is not the one being written.
fn oldest(wal: &Wal) -> Option<SegmentState> {
    let stats = wal.stats();
    stats.oldest.filter(|_| stats.segments > 1)
}

impl Model {
    fn payload(&mut self, size: usize) -> Vec<u8> {
        self.serial += 1;
        let mut payload = self.serial.to_le_bytes().to_vec();
        payload.resize(payload.len() + size, self.serial.to_le_bytes()[0]);
        payload
    }

    fn append(&mut self, wal: &Wal, sizes: &[u16], needed: bool) {
        let payloads: Vec<_> = sizes.iter().map(|size| self.payload(usize::from(*size))).collect();
        let owner = Owner(self.serial % N_OWNERS);
        let appended = wal.append(|batch| {
            for payload in &payloads {
                let (head, tail) = payload.split_at(payload.len() / 2);
                batch.entry(owner, 1, &[head, tail]);
            }
            if needed {
                batch.retain(owner, payloads.len() as u64);
            }
        });
        let append_end = appended.upto.0;
        let first = append_end + 1 - payloads.len() as u64;
        let mut at = appended.at;
        for (lsn, payload) in (first..).zip(payloads) {
            at.bytes = u32::try_from(ENTRY_HEADER_BYTES + payload.len()).unwrap();
            let released_at = append_end;
            let written = Written { payload, at, owner, append_end, needed, released_at };
            assert!(first < lsn || at == appended.at);
            at.offset += at.bytes;
            self.entries.insert(lsn, written);
        }
    }

    fn needed(&self) -> Vec<u64> {
        self.entries.iter().filter(|(_, entry)| entry.needed).map(|(lsn, _)| *lsn).collect()
    }

    fn release(&mut self, wal: &Wal, lsn: u64) {
        let end = self.entries.last_key_value().map_or(0, |(lsn, _)| *lsn);
        let entry = self.entries.get_mut(&lsn).unwrap();
        (entry.needed, entry.released_at) = (false, end);
        wal.release(entry.at.segment, 1);
    }

    fn run(&mut self, node: &mut Node, work: &Work) -> Result<(), LogError> {
        match work {
            Work::Append(sizes) => self.append(&node.wal, sizes, true),
            Work::Watch => node.wal.watch(Arc::clone(&self.told) as Arc<dyn CommitListener>),
            Work::Commit => {
                node.stepper.step();
            }
            Work::CommitHere => {
                node.wal.watch_here(Arc::clone(&self.told) as Arc<dyn CommitListener>);
                node.wal.commit_here();
            }
            Work::Settle(nth) => {
                let needed = self.needed();
                if let Some(lsn) = needed.get(usize::from(*nth) % needed.len().max(1)) {
                    self.append(&node.wal, &[4], false);
                    self.release(&node.wal, *lsn);
                }
            }
            Work::Move => {
                let Some(oldest) = oldest(&node.wal) else { return Ok(()) };
                for lsn in self.needed() {
                    if self.entries[&lsn].at.segment == oldest.id {
                        let size = self.entries[&lsn].payload.len() - 8;
                        self.append(&node.wal, &[u16::try_from(size).unwrap()], true);
                        self.release(&node.wal, lsn);
                    }
                }
            }
            Work::Restart => {
                node.wal.watch(Arc::clone(&self.told) as Arc<dyn CommitListener>);
                node.wal.close().ok();
                node.stepper.step();
                let (next, seen) = open(&node.disk, node.durability)?;
                *node = next;
                self.check(node, &seen, true);
                self.go_on(node, &seen);
            }
        }
        Ok(())
    }

    /// `durable`: what was told must be there.
    fn check(&self, node: &Node, seen: &Seen, durable: bool) {
        let last = node.wal.durable_upto().0;
        let told = self.told.0.load(Ordering::SeqCst);
        assert!(!durable || last >= told, "{last} is left, {told} was told");
        assert!(last >= self.synced, "{last} is left, {} was synced", self.synced);
        let first = seen.first().map_or(last + 1, |entry| entry.0);
        assert_eq!(first + seen.len() as u64, last + 1, "the log goes on behind its last entry");
        for ((lsn, _, owner, payload), expected) in seen.iter().zip(first..) {
            assert_eq!(*lsn, expected, "positions are consecutive");
            let known = self.entries.get(lsn).expect("a phantom");
            assert_eq!((payload, *owner), (&known.payload, Some(known.owner)), "a phantom");
        }
        if let Some(entry) = self.entries.get(&last) {
            assert_eq!(entry.append_end, last, "half an append");
        }
        for (lsn, entry) in self.entries.range(..=last) {
            let replaced = !entry.needed && entry.released_at <= last;
            assert!(replaced || *lsn >= first, "{lsn} is needed and is not there");
        }
    }

    /// Whoever needs an entry is known to need its segment.
    fn check_owners(&self, node: &Node) {
        for entry in self.entries.values().filter(|entry| entry.needed) {
            let owners = node.wal.owners_in(entry.at.segment);
            assert!(owners.is_sorted() && owners.contains(&entry.owner), "{entry:?}: {owners:?}");
        }
    }

    /// Takes over what recovery found, as the broker does: what is lost never happened.
    fn go_on(&mut self, node: &Node, seen: &Seen) {
        let last = node.wal.durable_upto().0;
        self.entries.split_off(&(last + 1));
        self.synced = last;
        self.told.0.fetch_min(last, Ordering::SeqCst);
        for (lsn, at, ..) in seen {
            let entry = self.entries.get_mut(lsn).unwrap();
            assert_eq!(entry.at, *at);
            entry.needed |= entry.released_at > last;
            if entry.needed {
                node.wal.retain(at.segment, entry.owner, 1);
            }
        }
        self.check_owners(node);
        if let Some((lsn, at, owner, payload)) = seen.get(seen.len() / 2) {
            let mut read = Vec::new();
            let mut take =
                |entry: Entry<'_>| read.push((entry.lsn.0, entry.owner, entry.payload.to_vec()));
            node.wal.read(&[*at], &mut take).unwrap();
            assert_eq!(read, [(*lsn, *owner, payload.clone())]);
        }
        node.wal.start_freeing();
    }
}

/// Runs the work until the disk fails or the work is done. False if the disk failed.
fn run_all(model: &mut Model, node: &mut Node, work: &[Work]) -> bool {
    for one in work {
        if model.run(node, one).is_err() || node.wal.poisoned().is_some() {
            return false;
        }
        model.check_owners(node);
        if node.wal.unsynced_bytes() == 0 {
            model.synced = node.wal.durable_upto().0;
        }
    }
    true
}

/// Crashes at an operation in the first run, and earlier in a second one over what the first left.
fn crash_and_check(
    work: &[Work],
    durability: Durability,
    at: u64,
    survivals: [CrashOutcome; 2],
) -> bool {
    let mut disk = MemoryDisk::new();
    let mut model = Model::default();
    let mut survived = false;
    for (at, survival) in [at, at / 2].into_iter().zip(survivals) {
        disk.inject(at, Fault::PowerLoss);
        if let Ok((mut node, seen)) = open(&disk, durability) {
            model.check(&node, &seen, true);
            model.go_on(&node, &seen);
            survived = run_all(&mut model, &mut node, work);
        }
        disk = disk.survive(survival);
        if !is_durable(durability, survival) {
            model.told.0.store(0, Ordering::SeqCst);
        }
    }
    let (node, seen) = open(&disk, durability).expect("a crash is no corruption");
    model.check(&node, &seen, true);
    survived
}

fn is_durable(durability: Durability, survival: CrashOutcome) -> bool {
    durability == Durability::Sync || survival == CrashOutcome::Everything
}

/// Tries every crash point there is.
fn every_crash(work: &[Work], durability: Durability, seed: u64) {
    for at in 0.. {
        let (torn, other) =
            (CrashOutcome::Torn(seed ^ at), CrashOutcome::Torn(seed.wrapping_mul(31) ^ at));
        let done = [
            [torn, other],
            [CrashOutcome::OnlySynced, torn],
            [CrashOutcome::Everything, CrashOutcome::OnlySynced],
            [CrashOutcome::Everything, CrashOutcome::Everything],
        ]
        .map(|survivals| crash_and_check(work, durability, at, survivals));
        if done.iter().all(|done| *done) {
            break;
        }
        assert!(at < 10_000, "the work never ends");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn a_loss_of_power_anywhere_loses_nothing_that_was_told(work in work(), seed: u64) {
        every_crash(&work, Durability::Sync, seed);
    }

    #[test]
    fn without_syncs_a_crash_still_leaves_a_prefix(work in work(), seed: u64) {
        every_crash(&work, Durability::Write, seed);
    }

    #[test]
    fn a_flipped_bit_is_an_error_or_harmless(work in work(), bit: u8) {
        let disk = MemoryDisk::new();
        let (mut node, seen) = open(&disk, Durability::Sync).unwrap();
        let mut model = Model::default();
        model.go_on(&node, &seen);
        let mut newest_block_from = 0;
        for work in work.iter().chain([&Work::Commit]) {
            let before = node.wal.durable_upto().0;
            model.run(&mut node, work).unwrap();
            if node.wal.durable_upto().0 > before {
                newest_block_from = before + 1;
            }
        }
        let disk = disk.survive(CrashOutcome::OnlySynced);
        let (_, whole) = open(&disk.survive(CrashOutcome::OnlySynced), Durability::Sync).unwrap();
        flip_everywhere(&disk, &whole, newest_block_from, bit);
        // A log that was closed properly ends with a block that vouches for the newest one.
        node.wal.close().unwrap();
        prop_assert!(node.stepper.step());
        flip_everywhere(&node.disk, &whole, u64::MAX, bit);
    }
}

/// Starts that are cut short one after the other leave segments without entries, and without
/// headers, in every mixture.
#[test]
fn starts_that_never_finish_lose_nothing() {
    let disk = MemoryDisk::new();
    let (mut node, _) = open(&disk, Durability::Sync).unwrap();
    node.wal.append(|batch| batch.entry(OWNER, 1, &[&[5; 600]]));
    while node.stepper.step() {}
    let (mut node, _) = open(&disk.survive(CrashOutcome::Everything), Durability::Sync).unwrap();
    node.wal.start_freeing();
    while node.stepper.step() {}
    assert_eq!(node.wal.stats().segments, 1, "all is freed but for the empty one");
    let disk = node.disk;
    let starts = [CrashOutcome::Torn(1), CrashOutcome::Torn(2), CrashOutcome::OnlySynced];
    for (first, second, third) in (0..18 * 18 * 18).map(|n| (n % 18, n / 18 % 18, n / 324)) {
        let mut disk = disk.survive(CrashOutcome::OnlySynced);
        for (at, survival) in [first, second, third].into_iter().zip(starts) {
            disk.inject(at, Fault::PowerLoss);
            if let Ok((node, _)) = open(&disk, Durability::Sync) {
                node.wal.start_freeing();
            }
            disk = disk.survive(survival);
        }
        let (node, _) = open(&disk, Durability::Sync).expect("a crash is no corruption");
        assert_eq!(node.wal.durable_upto(), Lsn(1), "{first} {second} {third}");
    }
}

/// After a flip either the log refuses to open, or all is there but for the newest block, which
/// looks as if it had been torn. It never shows anything else.
fn flip_everywhere(disk: &MemoryDisk, whole: &Seen, newest_block_from: u64, bit: u8) {
    for name in disk.list("wal").unwrap() {
        let name = format!("wal/{name}");
        let mut offset = 0;
        while disk.flip_bit(&name, offset, bit) {
            match open(&disk.survive(CrashOutcome::OnlySynced), Durability::Sync) {
                Ok((_, seen)) => {
                    assert!(whole.starts_with(&seen), "{name} {offset}");
                    let mut lost = whole.iter().skip(seen.len());
                    assert!(lost.all(|entry| entry.0 >= newest_block_from), "{name} {offset}");
                }
                Err(
                    LogError::File(FileError::Corrupt { .. })
                    | LogError::CutOff { .. }
                    | LogError::File(FileError::Newer { .. }),
                ) => {}
                Err(error) => panic!("{name} {offset}: {error}"),
            }
            assert!(disk.flip_bit(&name, offset, bit));
            offset += 7;
        }
    }
}

#[test]
fn a_broken_block_before_a_synced_one_is_corruption_with_its_place() {
    let disk = MemoryDisk::new();
    let (mut node, _) = open(&disk, Durability::Sync).unwrap();
    for _ in 0..3 {
        node.wal.append(|batch| batch.entry(OWNER, 1, &[&[5; 60]]));
        assert!(node.stepper.step());
    }
    let name = "wal/00000000000000000001.wal";
    // Header at 0, blocks of 117 bytes at 64, 192, 320.
    for (flipped, reported) in [(70, Some(64)), (192 + 116, Some(192)), (330, None)] {
        assert!(disk.flip_bit(name, flipped, 1));
        let opened = open(&disk.survive(CrashOutcome::OnlySynced), Durability::Sync);
        match (opened, reported) {
            (Err(LogError::File(FileError::Corrupt { file, offset, .. })), Some(reported)) => {
                assert_eq!((file.as_str(), offset), (name, reported));
            }
            (Ok((_, seen)), None) => assert_eq!(seen.len(), 2, "the newest block looks torn"),
            (opened, _) => panic!("{flipped}: {:?}", opened.map(|(_, seen)| seen)),
        }
        assert!(disk.flip_bit(name, flipped, 1));
    }
}

#[test]
fn a_missing_segment_is_corruption() {
    let disk = MemoryDisk::new();
    let (mut node, _) = open(&disk, Durability::Sync).unwrap();
    for _ in 0..6 {
        node.wal.append(|batch| batch.entry(OWNER, 1, &[&[5; 600]]));
        node.stepper.step();
    }
    disk.remove("wal/00000000000000000003.wal").unwrap();
    let opened = open(&disk.survive(CrashOutcome::Everything), Durability::Sync);
    assert!(matches!(opened.map(|_| ()), Err(LogError::File(FileError::Corrupt { .. }))));
}
