//! A missing part of a log is noticed, named, and nothing is touched.

use std::sync::Arc;

use log::{
    ClusterId, Identities, LOG_FILE, LogError, Lsn, NodeId, Owner, Wal, WalFound, WalOptions,
};
use segments::{Disk, FileError, OpenMode};
use testing::{CrashOutcome, MemoryDisk};

const OWNER: Owner = Owner(3);

fn options(salt: u64) -> WalOptions {
    let given = Identities { salt, node: NodeId(1), cluster: ClusterId(1) };
    WalOptions { segment_bytes: 4096, given, ..WalOptions::default() }
}

fn open(disk: &MemoryDisk, salt: u64) -> Result<(Wal, log::Stepper, u64), LogError> {
    let mut n = 0;
    let (wal, stepper) = Wal::open_stepped(Arc::new(disk.clone()), options(salt), &mut |_| {
        n += 1;
        Ok(())
    })?;
    Ok((wal, stepper, n))
}

/// A log of several segments, stopped or killed.
fn log_of(n_entries: u8, salt: u64, is_stopped: bool) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (wal, mut stepper, _) = open(&disk, salt).unwrap();
    for entry in 0..n_entries {
        wal.append(|batch| {
            batch.entry(OWNER, 1, &[&[entry; 892]]);
            batch.retain(OWNER, 1);
        });
        while stepper.step() {}
    }
    if is_stopped {
        wal.close().unwrap();
        assert!(stepper.step());
    }
    drop((wal, stepper));
    disk.survive(CrashOutcome::Everything)
}

/// The error of a start, which has touched nothing.
fn refused(disk: &MemoryDisk) -> LogError {
    let (files, operations) = (disk.files(), disk.operations());
    let error = open(disk, 1).map(|_| ()).unwrap_err();
    assert_eq!((disk.files(), disk.operations()), (files, operations), "{error}");
    error
}

fn segments(disk: &MemoryDisk) -> Vec<String> {
    disk.list("wal").unwrap().into_iter().map(|name| format!("wal/{name}")).collect()
}

#[test]
fn a_missing_segment_is_named_whichever_it_is() {
    for is_stopped in [false, true] {
        let whole = log_of(12, 1, is_stopped);
        let names = segments(&whole);
        assert!(names.len() >= 3, "{names:?}");
        for (idx, name) in names.iter().enumerate() {
            let disk = whole.survive(CrashOutcome::Everything);
            disk.remove(name).unwrap();
            match refused(&disk) {
                LogError::File(FileError::Missing { file, .. }) => assert_eq!(&file, name),
                // The one before it ends too early.
                LogError::File(FileError::Corrupt { file, .. }) => {
                    assert_eq!(Some(&file), idx.checked_sub(1).and_then(|idx| names.get(idx)));
                }
                error => panic!("{error}"),
            }
        }
        for name in &names {
            whole.remove(name).unwrap();
        }
        assert!(
            matches!(refused(&whole), LogError::File(FileError::Missing { file, .. }) if file == "wal")
        );
    }
}

#[test]
fn a_log_without_its_file_beside_it_is_refused() {
    let disk = log_of(3, 1, true);
    disk.remove(LOG_FILE).unwrap();
    assert!(
        matches!(refused(&disk), LogError::File(FileError::Missing { file, .. }) if file == LOG_FILE)
    );
}

#[test]
fn segments_of_another_log_are_refused() {
    let (disk, other) = (log_of(5, 1, true), log_of(5, 2, true));
    for name in segments(&other) {
        let from = other.open(&name, OpenMode::Existing).unwrap();
        let mut bytes = vec![0; usize::try_from(from.len().unwrap()).unwrap()];
        from.read_at(0, &mut bytes).unwrap();
        disk.remove(&name).unwrap();
        disk.open(&name, OpenMode::New).unwrap().write_at(0, &bytes).unwrap();
    }
    assert!(matches!(refused(&disk), LogError::Foreign { .. }));
}

/// Wherever the newest segment is cut off: what was synced is known, after a stop and after a kill.
#[test]
fn a_cut_tail_is_told_with_what_is_lost() {
    for is_stopped in [false, true] {
        let whole = log_of(6, 1, is_stopped);
        let name = segments(&whole).pop().unwrap();
        let length = whole.open(&name, OpenMode::Existing).unwrap().len().unwrap();
        let mut fewest = u64::MAX;
        for cut in (0..length).step_by(97) {
            let disk = whole.survive(CrashOutcome::Everything);
            disk.open(&name, OpenMode::Existing).unwrap().set_len(cut).unwrap();
            let read = open(&disk.survive(CrashOutcome::Everything), 1);
            if let Ok((_, _, n)) = read {
                assert_eq!(n, 6, "cut at {cut}");
                continue;
            }
            match refused(&disk) {
                LogError::CutOff { file, upto, synced, told_by, .. } => {
                    assert_eq!((synced, told_by.as_str()), (Lsn(6), LOG_FILE));
                    assert!(upto < synced && name == file, "cut at {cut}: {file} {upto:?}");
                    fewest = fewest.min(upto.0);
                }
                error => panic!("cut at {cut}: {error}"),
            }
        }
        assert_eq!(fewest, 4, "the newest segment has entries 5 and 6");
    }
}

#[test]
fn a_log_of_an_earlier_program_is_told_of_from_its_first_start_on() {
    let disk = log_of(3, 1, true);
    // As an earlier program would have left it: without the flag, whose place is in the checksum.
    disk.remove(LOG_FILE).unwrap();
    for name in segments(&disk) {
        let file = disk.open(&name, OpenMode::Existing).unwrap();
        let mut header = [0; log::BLOCK_HEADER_BYTES];
        file.read_at(0, &mut header).unwrap();
        let [.., flag, _] = header.first_chunk_mut::<12>().unwrap();
        *flag = 0;
        let crc = segments::crc32c(header.get(8..).unwrap()).to_le_bytes();
        header.get_mut(4..8).unwrap().copy_from_slice(&crc);
        file.write_at(0, &header).unwrap();
    }
    let (wal, _, n) = open(&disk, 9).unwrap();
    assert_eq!(n, 3);
    drop(wal);
    let disk = disk.survive(CrashOutcome::OnlySynced);
    assert!(disk.list("").unwrap().contains(&LOG_FILE.to_owned()));
    let (_, _, n) = open(&disk.survive(CrashOutcome::Everything), 9).unwrap();
    assert_eq!(n, 3);
    let oldest = segments(&disk).remove(0);
    disk.remove(&oldest).unwrap();
    assert!(
        matches!(refused(&disk), LogError::File(FileError::Missing { file, .. }) if file == oldest)
    );
}

/// Starts as node `given` where no other is told; which it was then.
fn start_as(disk: &MemoryDisk, given: u64) -> Result<NodeId, LogError> {
    let options = || WalOptions {
        given: Identities { salt: 1, node: NodeId(given), cluster: ClusterId(1) },
        ..options(1)
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let found = WalFound::read(&disk, &options(), &mut |_| Ok(()))?;
    let node = found.node;
    drop(Wal::start_stepped(found, disk, options())?);
    Ok(node)
}

#[test]
fn a_node_keeps_its_identity_and_one_of_an_older_format_gets_one() {
    let disk = MemoryDisk::new();
    for given in [5, 6, 7] {
        assert_eq!(start_as(&disk, given).unwrap(), NodeId(5));
    }
    // As earlier nodes leave the file.
    let older = MemoryDisk::new();
    start_as(&older, 0).unwrap();
    for operation in 0..20 {
        for seed in 0..20 {
            let disk = older.survive(CrashOutcome::Everything);
            disk.inject(operation, testing::Fault::PowerLoss);
            let first = start_as(&disk, 8);
            let disk = disk.survive(CrashOutcome::Torn(seed));
            let then = start_as(&disk, 9).unwrap();
            assert!(
                then == NodeId(8) || (then == NodeId(9) && first.is_err()),
                "{operation} {seed}"
            );
            assert_eq!(start_as(&disk, 10).unwrap(), then);
        }
    }
}
