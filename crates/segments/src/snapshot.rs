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

use std::io;

use crate::checksum::crc32c;
use crate::disk::{Disk, OpenMode};
use crate::error::{IoContext, LogError, Result};
use crate::files::read_file;
use crate::stamp::{STAMP_BYTES, Stamp};

const MAGIC: [u8; 4] = *b"LVSN";
/// Without and with a stamp.
const VERSION_PLAIN: u32 = 1;
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 24;
const UNCHECKED_BYTES: usize = 8;

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
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    let crc = crc32c(&bytes);
    let mut head = [0; UNCHECKED_BYTES];
    let (magic, sum) = head.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    sum.copy_from_slice(&crc.to_le_bytes());
    bytes.splice(..0, head);
    replace_file(disk, name, &bytes)
}

/// The payload of the file `name`, or `None` if there is no such file. What is returned stays: a
/// loss of power does not bring an older one back.
pub fn read_snapshot(disk: &dyn Disk, name: &str) -> Result<Option<Vec<u8>>> {
    let found = read_stamped(disk, name)?;
    if found.is_some() {
        // A process that was killed may have renamed the file without having synced its directory.
        sync_dir_of(disk, name)?;
    }
    Ok(found.map(|(_, payload)| payload))
}

/// The payload of the file `name` and its stamp, if it has one. Touches nothing: what is returned
/// stays only once the directory is synced.
pub fn read_stamped(disk: &dyn Disk, name: &str) -> Result<Option<(Option<Stamp>, Vec<u8>)>> {
    let Some(mut bytes) = read_file(disk, name)? else { return Ok(None) };
    let corrupt = |what| LogError::Corrupt { file: name.to_owned(), offset: 0, what };
    if bytes.get(..MAGIC.len()) != Some(&MAGIC) || bytes.len() < HEADER_BYTES {
        return Err(corrupt("not a snapshot file"));
    }
    let number = |at: usize| {
        let field = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        field.map_or(0, |field| u32::from_le_bytes(*field))
    };
    let version = number(8);
    if version > VERSION {
        return Err(LogError::Newer { file: name.to_owned(), found: version, known: VERSION });
    }
    if number(4) != crc32c(bytes.get(UNCHECKED_BYTES..).unwrap_or_default()) {
        return Err(corrupt("the snapshot's checksum does not match"));
    }
    let length = bytes.get(16..).and_then(|rest| rest.first_chunk::<8>());
    let length = length.map_or(0, |length| u64::from_le_bytes(*length));
    if length != (bytes.len() - HEADER_BYTES) as u64 {
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
    match disk.remove(&draft) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).context("remove", &draft),
    }
    let file = disk.open(&draft, OpenMode::New).context("create", &draft)?;
    let written = file.write_at(0, bytes).context("write", &draft);
    if let Err(error) = written.and_then(|()| file.sync_data().context("sync", &draft)) {
        // A draft that was not written whole would only take space.
        disk.remove(&draft).ok();
        return Err(error);
    }
    disk.rename(&draft, name).context("rename", &draft)?;
    sync_dir_of(disk, name)
}

fn sync_dir_of(disk: &dyn Disk, name: &str) -> Result<()> {
    let dir = name.rsplit_once('/').map_or("", |(dir, _)| dir);
    disk.sync_dir(dir).context("sync the directory of", name)
}
