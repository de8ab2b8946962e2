//! What must hold for any file of what operators have taken away. Shared by the fuzz target and by an
//! ordinary test of the crate, which needs no fuzzer.

use broker::UndoEntry;
use segments::{Disk, OpenMode, crc32c};
use testing::MemoryDisk;

/// The number of the entry.
const ID: u64 = 7;

/// A record with its checksum.
pub(crate) fn put_record(kind: u8, payload: &[u8], file: &mut Vec<u8>) {
    let record = [&[kind], payload].concat();
    let length = u32::try_from(payload.len()).expect("inputs are short");
    file.extend(length.to_le_bytes());
    file.extend(crc32c(&record).to_le_bytes());
    file.extend(record);
}

/// The file that an input stands for: behind a 0 that file itself, otherwise records, each with its kind and
/// its length in front, whose checksums are right.
fn file_of(input: &[u8]) -> Vec<u8> {
    let Some((form, mut rest)) = input.split_first() else { return Vec::new() };
    if *form == 0 {
        return rest.to_vec();
    }
    let mut file = Vec::new();
    while let [kind, low, high, behind @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(behind.len());
        let (payload, behind) = behind.split_at(length);
        put_record(*kind, payload, &mut file);
        rest = behind;
    }
    file
}

/// Whatever a file is, it is read or refused, has no more messages than bytes, and is told alike the next
/// time.
pub(crate) fn file(input: &[u8]) {
    let disk = MemoryDisk::new();
    let write = || -> std::io::Result<()> {
        disk.create_dir("undo")?;
        disk.open(&format!("undo/{ID}.undo"), OpenMode::New)?.write_at(0, &file_of(input))
    };
    write().expect("memory takes it");
    let Ok((entry, n_messages)) = UndoEntry::read(&disk, ID) else { return };
    assert!(n_messages <= input.len(), "each message takes a byte at least");
    assert_eq!(UndoEntry::read(&disk, ID).ok(), Some((entry, n_messages)));
}
