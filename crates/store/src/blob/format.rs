//! The bytes of a blob file. Integers are little-endian; checksums are crc32c.
//!
//! ```text
//! file "0000002a.blob":  file header | record | record | ... | table
//!
//! file header, 32 bytes; the second half is zero until the file is sealed
//!  0        4         8         12       16         20        24         28
//!  +--------+---------+---------+--------+----------+---------+----------+---------+
//!  | "LVBF" | version | file    | crc of | table at | entries | crc of   | crc of  |
//!  |        | u32     | u32     | 0..12  | u32      | u32     | the table| file and|
//!  |        |         |         | u32    |          |         | u32      | 16..28  |
//!  +--------+---------+---------+--------+----------+---------+----------+---------+
//!
//! record: 16 bytes, then the blob         table entry, 12 bytes, one for each record
//!  0        4       8       12                     0       4        8
//!  +--------+-------+-------+----------+------+    +-------+--------+-------+
//!  | crc of | index | bytes | crc of   | blob |    | index | offset | bytes |
//!  | blob   |       |       | file and |      |    |       |        |       |
//!  | u32    | u32   | u32   | 0..12 u32|      |    | u32   | u32    | u32   |
//!  +--------+-------+-------+----------+------+    +-------+--------+-------+
//! ```
//!
//! Indexes rise within a file. The checksum of a record's header covers the number of the file, so
//! a record of another file is no record here. The table is found through the file header, never by
//! looking at the end of the file, where a blob could imitate it; a file without a valid one is
//! read from its first record on. A damaged blob is passed over, since its header says how long it
//! is, and read as what it is when somebody wants it; behind a damaged header the next record that
//! is whole and has a later index is looked for. What lies behind the last one is the torn tail.

use log::{DiskFile, IoContext, LogError, crc32c};

use super::slots::{Slot, Slots};
use crate::error::Result;

pub(super) const FILE_HEADER_BYTES: u32 = 32;
pub(super) const RECORD_HEADER_BYTES: u32 = 16;
pub(super) const TABLE_ENTRY_BYTES: u32 = 12;
/// What a blob costs in a sealed file beside its own bytes.
pub(super) const OVERHEAD_BYTES: u32 = RECORD_HEADER_BYTES + TABLE_ENTRY_BYTES;

const MAGIC: [u8; 4] = *b"LVBF";
const VERSION: u32 = 1;
/// How much of an unsealed file is read at a time.
const WINDOW_BYTES: usize = 1 << 20;

/// The header of a file that is not sealed.
pub(super) fn file_header(file: u32) -> [u8; FILE_HEADER_BYTES as usize] {
    let mut header = [0; FILE_HEADER_BYTES as usize];
    put(&mut header, 0, MAGIC);
    put(&mut header, 4, VERSION.to_le_bytes());
    put(&mut header, 8, file.to_le_bytes());
    let crc = crc32c(header.get(..12).unwrap_or_default());
    put(&mut header, 12, crc.to_le_bytes());
    header
}

/// The header of a file whose table `table` lies at `table_at`.
pub(super) fn sealed_header(
    file: u32,
    table_at: u32,
    table: &[u8],
) -> [u8; FILE_HEADER_BYTES as usize] {
    let mut header = file_header(file);
    let entries = table.len() / TABLE_ENTRY_BYTES as usize;
    put(&mut header, 16, table_at.to_le_bytes());
    put(&mut header, 20, u32::try_from(entries).unwrap_or(u32::MAX).to_le_bytes());
    put(&mut header, 24, crc32c(table).to_le_bytes());
    let crc = crc_with_file(file, header.get(16..28).unwrap_or_default());
    put(&mut header, 28, crc.to_le_bytes());
    header
}

/// Header of the record of `blob`.
pub(super) fn record_header(
    file: u32,
    index: u32,
    blob: &[u8],
) -> [u8; RECORD_HEADER_BYTES as usize] {
    let mut header = [0; RECORD_HEADER_BYTES as usize];
    put(&mut header, 0, crc32c(blob).to_le_bytes());
    put(&mut header, 4, index.to_le_bytes());
    put(&mut header, 8, u32::try_from(blob.len()).unwrap_or(u32::MAX).to_le_bytes());
    let crc = crc_with_file(file, header.get(..12).unwrap_or_default());
    put(&mut header, 12, crc.to_le_bytes());
    header
}

/// The table of `slots`.
pub(super) fn table<'a>(slots: impl Iterator<Item = &'a Slot>) -> Vec<u8> {
    let mut table = Vec::with_capacity(slots.size_hint().0 * TABLE_ENTRY_BYTES as usize);
    for slot in slots {
        for number in [slot.index, slot.offset, slot.bytes] {
            table.extend_from_slice(&number.to_le_bytes());
        }
    }
    table
}

/// The blob in `record`, if that is the record number `index` of `file`, intact.
pub(super) fn checked_blob(
    record: &[u8],
    file: u32,
    index: u32,
) -> std::result::Result<&[u8], &'static str> {
    let header = parse_header(record, file).ok_or("the blob's header is damaged")?;
    let blob = record.get(RECORD_HEADER_BYTES as usize..).unwrap_or_default();
    if header.index != index || header.bytes as usize != blob.len() {
        return Err("another blob lies here");
    }
    if header.crc != crc32c(blob) {
        return Err("the blob's checksum does not match");
    }
    Ok(blob)
}

/// What is in a file that was there at the start.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) slots: Slots,
    /// Where the next record would go.
    pub(super) end: u32,
    pub(super) file_bytes: u64,
    pub(super) is_sealed: bool,
}

/// Finds the records of the file `name` that has the number `number`.
pub(super) fn read_file(file: &dyn DiskFile, name: &str, number: u32) -> Result<Found> {
    let file_bytes = file.len().context("size", name)?;
    let mut header = [0; FILE_HEADER_BYTES as usize];
    let n = file.read_at(0, &mut header).context("read", name)?;
    let is_whole = n == header.len()
        && header.starts_with(&MAGIC)
        && u32_at(&header, 12) == crc32c(header.get(..12).unwrap_or_default());
    let version = u32_at(&header, 4);
    if is_whole && version > VERSION {
        let file = name.to_owned();
        return Err(LogError::Newer { file, found: version, known: VERSION }.into());
    }
    if let Some((slots, end)) = read_table(file, name, number, &header)? {
        return Ok(Found { slots, end, file_bytes, is_sealed: true });
    }
    let (slots, end) = scan(file, name, number, file_bytes)?;
    Ok(Found { slots, end, file_bytes, is_sealed: false })
}

fn read_table(
    file: &dyn DiskFile,
    name: &str,
    number: u32,
    header: &[u8],
) -> Result<Option<(Slots, u32)>> {
    let seal = header.get(16..28).unwrap_or_default();
    if u32_at(header, 28) != crc_with_file(number, seal) {
        return Ok(None);
    }
    let (table_at, entries) = (u32_at(seal, 0), u32_at(seal, 4));
    let mut table = vec![0; entries as usize * TABLE_ENTRY_BYTES as usize];
    let n = file.read_at(u64::from(table_at), &mut table).context("read", name)?;
    if n != table.len() || crc32c(&table) != u32_at(seal, 8) {
        return Ok(None);
    }
    let mut slots = Slots::default();
    for entry in table.chunks_exact(TABLE_ENTRY_BYTES as usize) {
        slots.push(Slot::new(u32_at(entry, 0), u32_at(entry, 4), u32_at(entry, 8)));
    }
    slots.shrink();
    Ok(Some((slots, table_at)))
}

fn scan(file: &dyn DiskFile, name: &str, number: u32, file_bytes: u64) -> Result<(Slots, u32)> {
    let mut slots = Slots::default();
    let mut window = Window { file, name, file_bytes, at: 0, bytes: Vec::new() };
    let mut end = FILE_HEADER_BYTES;
    let mut next_index = 0;
    loop {
        let mut found = window.record(number, end, next_index)?.map(|header| (end, header));
        if found.is_none() {
            found = next_whole(&mut window, number, end, next_index)?;
        }
        let Some((at, header)) = found else { break };
        slots.push(Slot::new(header.index, at, header.bytes));
        next_index = header.index + 1;
        end = at + RECORD_HEADER_BYTES + header.bytes;
    }
    slots.shrink();
    Ok((slots, end))
}

/// The first whole record behind `after` that comes later than the one that should be there.
fn next_whole(
    window: &mut Window<'_>,
    number: u32,
    after: u32,
    next_index: u32,
) -> Result<Option<(u32, RecordHeader)>> {
    let Some(later) = next_index.checked_add(1) else { return Ok(None) };
    let mut at = after;
    while let Some(next) = at.checked_add(1)
        && window.get(next, RECORD_HEADER_BYTES)?.is_some()
    {
        at = next;
        let Some(header) = window.record(number, at, later)? else { continue };
        let record = window.get(at, RECORD_HEADER_BYTES + header.bytes)?.unwrap_or_default();
        if checked_blob(record, number, header.index).is_ok() {
            return Ok(Some((at, header)));
        }
    }
    Ok(None)
}

/// Reads a file from front to back through one buffer.
struct Window<'a> {
    file: &'a dyn DiskFile,
    name: &'a str,
    file_bytes: u64,
    at: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// The header of the record at `at`, if that is one of the file `number`, its index is not below
    /// `index_min`, and the file is long enough for it.
    fn record(&mut self, number: u32, at: u32, index_min: u32) -> Result<Option<RecordHeader>> {
        let Some(header) = self.get(at, RECORD_HEADER_BYTES)? else { return Ok(None) };
        let header = parse_header(header, number).filter(|header| header.index >= index_min);
        let upto = header.map_or(0, |header| {
            u64::from(at) + u64::from(RECORD_HEADER_BYTES) + u64::from(header.bytes)
        });
        let is_whole = upto <= self.file_bytes && u32::try_from(upto).is_ok();
        Ok(header.filter(|header| is_whole && header.index < u32::MAX))
    }

    /// `bytes` bytes at `at`, or `None` if the file ends before.
    fn get(&mut self, at: u32, bytes: u32) -> Result<Option<&[u8]>> {
        let (from, upto) = (u64::from(at), u64::from(at) + u64::from(bytes));
        if upto > self.file_bytes || upto > u64::from(u32::MAX) {
            return Ok(None);
        }
        if from < self.at || upto > self.at + self.bytes.len() as u64 {
            let left = usize::try_from(self.file_bytes - from).unwrap_or(usize::MAX);
            self.bytes.resize(left.min(WINDOW_BYTES.max(bytes as usize)), 0);
            let n = self.file.read_at(from, &mut self.bytes).context("read", self.name)?;
            self.bytes.truncate(n);
            self.at = from;
        }
        let start = usize::try_from(from - self.at).unwrap_or(usize::MAX);
        Ok(self.bytes.get(start..).and_then(|rest| rest.get(..bytes as usize)))
    }
}

#[derive(Clone, Copy)]
struct RecordHeader {
    crc: u32,
    index: u32,
    bytes: u32,
}

fn parse_header(record: &[u8], file: u32) -> Option<RecordHeader> {
    let header = record.get(..RECORD_HEADER_BYTES as usize)?;
    let covered = header.get(..12)?;
    (u32_at(header, 12) == crc_with_file(file, covered)).then(|| RecordHeader {
        crc: u32_at(header, 0),
        index: u32_at(header, 4),
        bytes: u32_at(header, 8),
    })
}

/// Checksum over the number of the file and twelve bytes.
fn crc_with_file(file: u32, bytes: &[u8]) -> u32 {
    let mut covered = [0; 16];
    put(&mut covered, 0, file.to_le_bytes());
    let rest = covered.iter_mut().skip(4);
    rest.zip(bytes).for_each(|(to, from)| *to = *from);
    crc32c(&covered)
}

fn put(into: &mut [u8], at: usize, number: [u8; 4]) {
    into.iter_mut().skip(at).zip(number).for_each(|(to, from)| *to = from);
}

/// The number at `at`; 0 where there is none, which no checksum of ours accepts.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    field.map_or(0, |field| u32::from_le_bytes(*field))
}
