//! Small files that are replaced as a whole: after a crash either the old or the new content is there.
//!
//! ```text
//!  0       4       8         12       16
//!  +-------+-------+---------+--------+----------+---------+
//!  | "LVSN"| crc32c| version | 0      | bytes    | payload |
//!  | u32   | u32   | u32     | u32    | u64      |         |
//!  +-------+-------+---------+--------+----------+---------+
//!  crc32c over everything after it; integers are little-endian
//! ```
//! In version 2 the payload begins with a stamp: the log's identity and how far it was synced, u64 each.

use crate::checksum::{CHECKED_AT, seal_record, unseal_record};
use crate::disk::Disk;
use crate::error::{FileError, IoContext as _, Result};
use crate::file::{File, read_file, remove_if_there, sync_name};
use crate::stamp::{STAMP_BYTES, Stamp};
use stdx::record::Reader;

const MAGIC: [u8; 4] = *b"LVSN";
/// Without and with a stamp.
const VERSION_PLAIN: u32 = 1;
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 24;

/// Where the payload begins in a file that has a stamp.
pub const STAMPED_PAYLOAD_AT: u64 = (HEADER_BYTES + STAMP_BYTES) as u64;

/// Replaces the file `name` by `payload`; durable when this returns.
pub fn write_snapshot(disk: &dyn Disk, name: &str, payload: &[u8]) -> Result<()> {
    write(disk, name, VERSION_PLAIN, &[payload])
}

/// As [`write_snapshot`], for a file that means something only beside its log.
pub fn write_stamped(disk: &dyn Disk, name: &str, stamp: Stamp, payload: &[u8]) -> Result<()> {
    write(disk, name, VERSION, &[&stamp.to_bytes(), payload])
}

fn write(disk: &dyn Disk, name: &str, version: u32, parts: &[&[u8]]) -> Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + length);
    bytes.extend_from_slice(&[0; CHECKED_AT]);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    assert_eq!(bytes.len(), HEADER_BYTES + length, "the header has its length");
    seal_record(MAGIC, &mut bytes);
    replace_file(disk, name, &bytes)
}

/// The payload of the file `name`, or `None` if there is no such file. What is returned stays: a
/// loss of power does not bring an older one back.
pub fn read_snapshot(disk: &dyn Disk, name: &str) -> Result<Option<Vec<u8>>> {
    let found = read_stamped(disk, name)?;
    if found.is_some() {
        // A process that was killed may have renamed the file without having synced its directory.
        sync_name(disk, name)?;
    }
    Ok(found.map(|(_, payload)| payload))
}

/// The payload of the file `name` and its stamp, if it has one. Touches nothing: what is returned
/// stays only once the directory is synced.
pub fn read_stamped(disk: &dyn Disk, name: &str) -> Result<Option<(Option<Stamp>, Vec<u8>)>> {
    let Some(mut bytes) = read_file(disk, name)? else { return Ok(None) };
    let corrupt = |what| FileError::Corrupt { file: name.to_owned(), offset: 0, what };
    if bytes.get(..MAGIC.len()) != Some(&MAGIC) || bytes.len() < HEADER_BYTES {
        return Err(corrupt("not a snapshot file"));
    }
    let mut header = Reader::new(bytes.get(CHECKED_AT..).unwrap_or_default());
    let (version, _) = (header.u32().unwrap_or_default(), header.u32());
    if version > VERSION {
        return Err(FileError::Newer { file: name.to_owned(), found: version, known: VERSION });
    }
    if unseal_record(MAGIC, &bytes).is_none() {
        return Err(corrupt("the snapshot's checksum does not match"));
    }
    if header.u64() != Ok((bytes.len() - HEADER_BYTES) as u64) {
        return Err(corrupt("the snapshot's length does not match"));
    }
    bytes.drain(..HEADER_BYTES);
    if version == VERSION_PLAIN {
        return Ok(Some((None, bytes)));
    }
    let stamp = Stamp::from_bytes(&bytes).ok_or_else(|| corrupt("the snapshot has no stamp"))?;
    bytes.drain(..STAMP_BYTES);
    Ok(Some((Some(stamp), bytes)))
}

/// Bytes that may be the payload of a file whose checksum or length is wrong, by each version.
#[must_use]
pub fn salvage_snapshot(disk: &dyn Disk, name: &str) -> Vec<Vec<u8>> {
    let bytes = read_file(disk, name).ok().flatten().unwrap_or_default();
    let begins = [HEADER_BYTES + STAMP_BYTES, HEADER_BYTES].into_iter();
    begins.filter_map(|at| bytes.get(at..)).map(<[u8]>::to_vec).collect()
}

/// Writes `name` next to itself, syncs, renames, syncs the directory.
pub fn replace_file(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<()> {
    let draft = format!("{name}.tmp");
    remove_if_there(disk, &draft)?;
    let file = File::create(disk, &draft)?;
    if let Err(error) = file.write(0, bytes).and_then(|()| file.sync()) {
        // A draft that was not written whole would only take space.
        disk.remove(&draft).ok();
        return Err(error);
    }
    disk.rename(&draft, name).context("rename", &draft)?;
    sync_name(disk, name)
}
