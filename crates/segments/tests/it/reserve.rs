//! The disk that keeps space back, and that waits for file descriptors.

use segments::{Disk, FileKind, FileTraffic, OpenMode, RESERVE_FILE, ReservedDisk, Scarcity};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use testing::{Fault, MemoryDisk};

const DISK_BYTES: u64 = 80_000;
const RESERVE_BYTES: u64 = DISK_BYTES / 8;
const KINDS: &[FileKind] =
    &[FileKind { name: "log", dir: "wal" }, FileKind { name: "pages", dir: "pages" }];

fn disk() -> (MemoryDisk, ReservedDisk) {
    let disk = MemoryDisk::new();
    disk.limit_space(DISK_BYTES);
    let reserved = ReservedDisk::new(Arc::new(disk.clone()), KINDS);
    assert!(reserved.is_used() && disk.list("").unwrap().is_empty(), "it is written to");
    assert!(reserved.refill(0));
    (disk, reserved)
}

fn free_bytes(disk: &dyn Disk) -> u64 {
    disk.space().unwrap().free_bytes
}

/// The words that are told, in short.
fn listen(disk: &ReservedDisk) -> Arc<Mutex<Vec<String>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let to_tell = Arc::clone(&told);
    disk.watch(move |scarcity| {
        to_tell.lock().unwrap().push(match scarcity {
            Scarcity::NoSpace { file } => format!("no space for {file}"),
            Scarcity::NoDescriptors { file, error } => format!("cannot open {file}: {error}"),
            Scarcity::Descriptors { .. } => "opens again".to_owned(),
        });
    });
    told
}

#[test]
fn the_reserve_is_given_up_for_a_write_and_made_again_when_there_is_room() {
    let (raw, disk) = disk();
    let told = listen(&disk);
    assert_eq!(free_bytes(&disk), DISK_BYTES - RESERVE_BYTES);
    let full = vec![7; usize::try_from(DISK_BYTES - RESERVE_BYTES).unwrap()];
    let file = disk.open("full", OpenMode::New).unwrap();
    file.write_at(0, &full).unwrap();
    assert_eq!((free_bytes(&disk), disk.is_used()), (0, false));
    disk.open("more", OpenMode::New).unwrap().write_at(0, b"needed").unwrap();
    assert!(disk.is_used());
    assert_eq!(*told.lock().unwrap(), ["no space for more"]);
    assert_eq!(free_bytes(&disk), RESERVE_BYTES - 6);
    // What does not fit into the reserve either has failed.
    let failed = file.write_at(full.len() as u64, &full).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::StorageFull);
    assert!(!disk.refill(0), "there is no room for it");
    // Nor is there for the next start.
    let next = ReservedDisk::new(Arc::new(raw.clone()), KINDS);
    assert!(next.is_used() && !next.refill(0) && next.is_used());
    raw.remove("full").unwrap();
    assert!(!disk.refill(DISK_BYTES - RESERVE_BYTES), "so much is not left beside it");
    assert!(disk.refill(DISK_BYTES / 2) && !disk.is_used());
    assert_eq!(free_bytes(&disk), DISK_BYTES - RESERVE_BYTES - 6);
    let next = ReservedDisk::new(Arc::new(raw), KINDS);
    assert!(!next.is_used());
}

#[test]
fn a_reserve_of_another_size_is_made_anew() {
    let (raw, disk) = disk();
    raw.limit_space(2 * DISK_BYTES);
    drop(disk);
    let disk = ReservedDisk::new(Arc::new(raw), KINDS);
    assert!(disk.is_used() && disk.refill(0) && !disk.is_used());
    assert_eq!(free_bytes(&disk), 2 * (DISK_BYTES - RESERVE_BYTES));
}

#[test]
fn a_file_that_cannot_be_opened_is_waited_for_and_told_once() {
    let (raw, disk) = disk();
    raw.inject(raw.operations(), Fault::NoDescriptors);
    let refused = disk.open("before anybody listens", OpenMode::New);
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(24));
    let told = listen(&disk);
    for n in 0..3 {
        raw.inject(raw.operations() + n, Fault::NoDescriptors);
    }
    disk.open("next", OpenMode::New).unwrap();
    let expected = ["cannot open next: Too many open files (os error 24)", "opens again"];
    assert_eq!(*told.lock().unwrap(), expected);
    disk.end_waiting();
    raw.inject(raw.operations(), Fault::NoDescriptors);
    assert!(disk.open("at the end", OpenMode::New).is_err());
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    let (raw, disk) = disk();
    let told = listen(&disk);
    let file = disk.open("file", OpenMode::New).unwrap();
    file.write_at(0, b"bytes").unwrap();
    for fault in [Fault::NoSpace, Fault::Io] {
        raw.inject(raw.operations(), fault);
        assert!(file.sync_data().is_err());
        raw.inject(raw.operations(), fault);
        assert!(disk.sync_dir("").is_err());
    }
    assert!(told.lock().unwrap().is_empty() && !disk.is_used());
    assert!(disk.list("").unwrap().contains(&RESERVE_FILE.to_owned()));
}

#[test]
fn what_is_read_and_written_is_counted_by_kind() {
    let (raw, disk) = disk();
    for dir in ["wal", "pages", "walrus"] {
        disk.create_dir(dir).unwrap();
    }
    let log = disk.open("wal/1", OpenMode::New).unwrap();
    log.write_at(0, &[7; 10]).unwrap();
    log.write_at(5, &[7; 10]).unwrap();
    log.set_len(4_000).unwrap();
    assert_eq!(log.read_at(10, &mut [0; 3]).unwrap(), 3);
    disk.open("walrus/1", OpenMode::New).unwrap().write_at(0, &[7; 2]).unwrap();
    // Only what is there is read, and what fails is not written.
    let page = disk.open("pages/1", OpenMode::New).unwrap();
    assert_eq!(page.read_at(0, &mut [0; 9]).unwrap(), 0);
    raw.inject(raw.operations(), Fault::Io);
    page.write_at(0, &[7; 5]).unwrap_err();
    let traffic = |kind, read_bytes, write_bytes| FileTraffic { kind, read_bytes, write_bytes };
    let counted = [traffic("log", 3, 20), traffic("pages", 0, 0), traffic("other", 0, 2)];
    assert_eq!(disk.traffic(), counted);
}
