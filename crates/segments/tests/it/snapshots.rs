//! Snapshot files through a crash.

use segments::{read_snapshot, write_snapshot};
use testing::{CrashOutcome, Fault, MemoryDisk};

#[test]
fn a_snapshot_is_the_old_or_the_new_one_after_any_crash() {
    let base = MemoryDisk::new();
    write_snapshot(&base, "meta", b"old content").unwrap();
    for operation in 0..6 {
        for seed in 0..20 {
            let disk = base.survive(CrashOutcome::Everything);
            let mut torn = CrashOutcome::Torn(seed);
            disk.inject(operation, Fault::PowerLoss);
            let written = write_snapshot(&disk, "meta", b"the new content");
            if seed == 0 {
                torn = CrashOutcome::OnlySynced;
            }
            let disk = disk.survive(torn);
            let found = read_snapshot(&disk, "meta").unwrap().unwrap();
            let is_new = found == b"the new content";
            assert!(is_new || found == b"old content");
            assert!(is_new || written.is_err(), "a written snapshot was lost");
            write_snapshot(&disk, "meta", b"later").unwrap();
            assert_eq!(read_snapshot(&disk, "meta").unwrap().unwrap(), b"later");
        }
    }
}

/// The process is killed, the next one reads, then power is lost.
#[test]
fn what_was_read_of_a_snapshot_stays() {
    let base = MemoryDisk::new();
    write_snapshot(&base, "meta", b"old").unwrap();
    for operation in 0..6 {
        let disk = base.survive(CrashOutcome::Everything);
        disk.inject(operation, Fault::PowerLoss);
        drop(write_snapshot(&disk, "meta", b"new"));
        let disk = disk.survive(CrashOutcome::Everything);
        let read = read_snapshot(&disk, "meta").unwrap();
        let disk = disk.survive(CrashOutcome::OnlySynced);
        assert_eq!(read_snapshot(&disk, "meta").unwrap(), read, "{operation}");
    }
}

#[test]
fn a_flipped_bit_in_a_snapshot_is_noticed() {
    let disk = MemoryDisk::new();
    assert!(read_snapshot(&disk, "meta").unwrap().is_none());
    write_snapshot(&disk, "meta", b"content").unwrap();
    for offset in 0..31 {
        assert!(disk.flip_bit("meta", offset, 3));
        assert!(read_snapshot(&disk, "meta").is_err(), "byte {offset}");
        assert!(disk.flip_bit("meta", offset, 3));
    }
    assert_eq!(read_snapshot(&disk, "meta").unwrap().unwrap(), b"content");
}
