//! The bytes of a blob file. Integers are little-endian; checksums are crc32c.
//!
//! ```text
//! file "0000002a.blob":  file header | record | record | ... | table
//!
//! file header, 64 bytes, in version 1 the first 32 of them; the second 16 are zero until the file is sealed
//!  0        4         8         12       16         20        24         28
//!  +--------+---------+---------+--------+----------+---------+----------+---------+
//!  | "LVBF" | version | file    | crc of | table at | entries | crc of   | crc of  |
//!  |        | u32     | u32     | 0..12  | u32      | u32     | the table| file and|
//!  |        |         |         | u32    |          |         | u32      | 16..28  |
//!  +--------+---------+---------+--------+----------+---------+----------+---------+
//!  32         40         48            56       60
//!  +----------+----------+-------------+--------+-----+
//!  | identity | synced   | synced when | crc of | 0   |   identity: of the log that names the blobs
//!  | u64      | at first | sealed, or 0| file,  | u32 |   synced: entries of the log that were, when the
//!  |          | u64      | u64         | 32..56 |     |   file was begun and when it was sealed
//!  +----------+----------+-------------+--------+-----+
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

use segments::{File, FileError, Lsn, STAMP_BYTES, Stamp, Window, crc32c};

use super::slots::{BlobSlot, Slots};
use crate::error::Result;

pub(super) const FILE_HEADER_BYTES: u32 = 64;
/// Length of a file header in version 1.
const FILE_HEADER_BYTES_V1: u32 = 32;
const STAMP_AT: usize = 32;
const SEALED_AT: usize = STAMP_AT + STAMP_BYTES;
const STAMP_CRC_AT: usize = 56;
pub(super) const RECORD_HEADER_BYTES: u32 = 16;
pub(super) const TABLE_ENTRY_BYTES: u32 = 12;
/// Bytes of a blob in a sealed file beside its own.
pub(super) const OVERHEAD_BYTES: u32 = RECORD_HEADER_BYTES + TABLE_ENTRY_BYTES;

const MAGIC: [u8; 4] = *b"LVBF";
const VERSION: u32 = 2;
/// How much of an unsealed file is read at a time.
const WINDOW_BYTES: usize = 1 << 20;

pub(super) type FileHeader = [u8; FILE_HEADER_BYTES as usize];

/// A file's stamps of the log that names its blobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamps {
    /// When the file was begun.
    pub(super) begun: Stamp,
    /// How far the log was synced when the file was sealed.
    pub(super) upto: Lsn,
}

/// The header of a file that is not sealed.
pub(super) fn file_header(file: u32, begun: Stamp) -> FileHeader {
    header_with(file, begun, 0)
}

fn header_with(file: u32, begun: Stamp, sealed: u64) -> FileHeader {
    let mut header = [0; FILE_HEADER_BYTES as usize];
    put(&mut header, 0, MAGIC);
    put(&mut header, 4, VERSION.to_le_bytes());
    put(&mut header, 8, file.to_le_bytes());
    let crc = crc32c(header.get(..12).unwrap_or_default());
    put(&mut header, 12, crc.to_le_bytes());
    put(&mut header, STAMP_AT, begun.to_bytes());
    put(&mut header, SEALED_AT, sealed.to_le_bytes());
    let crc = crc_with_file(file, header.get(STAMP_AT..STAMP_CRC_AT).unwrap_or_default());
    put(&mut header, STAMP_CRC_AT, crc.to_le_bytes());
    header
}

/// The header of a file whose table `table` lies at `table_at`.
pub(super) fn sealed_header(file: u32, stamps: Stamps, table_at: u32, table: &[u8]) -> FileHeader {
    let mut header = header_with(file, stamps.begun, stamps.upto.0);
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
pub(super) fn table<'a>(slots: impl Iterator<Item = &'a BlobSlot>) -> Vec<u8> {
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
        return Err("the record holds another blob");
    }
    if header.crc != crc32c(blob) {
        return Err("the blob's checksum does not match");
    }
    Ok(blob)
}

/// The content of a file that was there at the start.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) slots: Slots,
    /// Where the next record would go.
    pub(super) end: u32,
    pub(super) file_bytes: u64,
    pub(super) is_sealed: bool,
    /// None in a file of version 1, or if the header is damaged.
    pub(super) stamps: Option<Stamps>,
    /// Whether the file begins with a header of the present length.
    pub(super) is_present_version: bool,
}

/// The header of a file, as far as it is whole.
struct StampedHeader {
    bytes: FileHeader,
    /// Where the first record begins.
    end: u32,
    stamps: Option<Stamps>,
}

impl StampedHeader {
    fn read(file: &File, number: u32) -> Result<Self> {
        let found = file.read(0, FILE_HEADER_BYTES as usize)?;
        let mut bytes = [0; FILE_HEADER_BYTES as usize];
        bytes.iter_mut().zip(&found).for_each(|(to, from)| *to = *from);
        let is_whole = found.len() >= FILE_HEADER_BYTES_V1 as usize
            && bytes.starts_with(&MAGIC)
            && u32_at(&bytes, 12) == crc32c(bytes.get(..12).unwrap_or_default());
        let version = u32_at(&bytes, 4);
        if is_whole && version > VERSION {
            let file = file.name().to_owned();
            return Err(FileError::Newer { file, found: version, known: VERSION }.into());
        }
        // Of a damaged header nothing is known: the first record tells where it is.
        let first_of_v1 = bytes.get(FILE_HEADER_BYTES_V1 as usize..).unwrap_or_default();
        let is_v1 = match is_whole {
            true => version < VERSION,
            false => parse_header(first_of_v1, number).is_some(),
        };
        let end = if is_v1 { FILE_HEADER_BYTES_V1 } else { FILE_HEADER_BYTES };
        let covered = bytes.get(STAMP_AT..STAMP_CRC_AT).unwrap_or_default();
        let is_stamped =
            is_whole && !is_v1 && u32_at(&bytes, STAMP_CRC_AT) == crc_with_file(number, covered);
        let begun = Stamp::from_bytes(covered).filter(|_| is_stamped);
        let upto = covered.get(STAMP_BYTES..).and_then(|rest| rest.first_chunk::<8>());
        let upto = Lsn(upto.map_or(0, |upto| u64::from_le_bytes(*upto)));
        Ok(Self { bytes, end, stamps: begun.map(|begun| Stamps { begun, upto }) })
    }
}

/// A file's stamp of its log: that it was synced so far, at least.
pub(super) fn read_stamp(file: &File, number: u32) -> Result<Option<Stamp>> {
    let stamps = StampedHeader::read(file, number)?.stamps;
    let reached =
        |Stamps { begun, upto }: Stamps| Stamp { synced: begun.synced.max(upto), ..begun };
    Ok(stamps.map(reached))
}

/// Finds the records of the file with the number `number`.
pub(super) fn read_file(file: &File, number: u32) -> Result<FoundFile> {
    let file_bytes = file.size()?;
    let StampedHeader { bytes, end, stamps } = StampedHeader::read(file, number)?;
    let is_present_version = end == FILE_HEADER_BYTES;
    let table = read_table(file, number, &bytes)?;
    let is_sealed = table.is_some();
    let FoundRecords { slots, end } = match table {
        Some(found) => found,
        None => RecordScan::new(file, number, file_bytes).records(end)?,
    };
    Ok(FoundFile { slots, end, file_bytes, is_sealed, stamps, is_present_version })
}

/// The records of a file, and where the next one would go.
struct FoundRecords {
    slots: Slots,
    end: u32,
}

fn read_table(file: &File, number: u32, header: &[u8]) -> Result<Option<FoundRecords>> {
    let seal = header.get(16..28).unwrap_or_default();
    if u32_at(header, 28) != crc_with_file(number, seal) {
        return Ok(None);
    }
    let (table_at, entries) = (u32_at(seal, 0), u32_at(seal, 4));
    let table_bytes = entries as usize * TABLE_ENTRY_BYTES as usize;
    let table = file.read(u64::from(table_at), table_bytes)?;
    if table.len() != table_bytes || crc32c(&table) != u32_at(seal, 8) {
        return Ok(None);
    }
    let mut slots = Slots::default();
    for entry in table.chunks_exact(TABLE_ENTRY_BYTES as usize) {
        slots.push(BlobSlot::new(u32_at(entry, 0), u32_at(entry, 4), u32_at(entry, 8)));
    }
    slots.shrink();
    Ok(Some(FoundRecords { slots, end: table_at }))
}

/// A walk through the records of a file without a table.
struct RecordScan {
    number: u32,
    window: Window,
}

/// A record that a scan has met.
struct FoundRecord {
    at: u32,
    header: RecordHeader,
}

impl RecordScan {
    fn new(file: &File, number: u32, file_bytes: u64) -> Self {
        // Records lie in front of 4 GiB.
        let end = file_bytes.min(u64::from(u32::MAX));
        Self { number, window: Window::new(file.clone(), end, WINDOW_BYTES..=WINDOW_BYTES) }
    }

    /// The records from `end` on.
    fn records(&mut self, mut end: u32) -> Result<FoundRecords> {
        let (mut slots, mut next_index) = (Slots::default(), 0);
        loop {
            let mut found = self.record(end, next_index)?;
            if found.is_none() {
                found = self.next_whole(end, next_index)?;
            }
            let Some(FoundRecord { at, header }) = found else { break };
            slots.push(BlobSlot::new(header.index, at, header.bytes));
            next_index = header.index + 1;
            end = at + RECORD_HEADER_BYTES + header.bytes;
        }
        slots.shrink();
        Ok(FoundRecords { slots, end })
    }

    /// The first whole record behind `after` that comes later than the one that should be there.
    fn next_whole(&mut self, after: u32, next_index: u32) -> Result<Option<FoundRecord>> {
        let Some(later) = next_index.checked_add(1) else { return Ok(None) };
        let mut at = after;
        while let Some(next) = at.checked_add(1)
            && self.get(next, RECORD_HEADER_BYTES)?.is_some()
        {
            at = next;
            let Some(found) = self.record(at, later)? else { continue };
            let (number, header) = (self.number, found.header);
            let record = self.get(at, RECORD_HEADER_BYTES + header.bytes)?.unwrap_or_default();
            if checked_blob(record, number, header.index).is_ok() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The record at `at`, if it is one of this file, its index is not below `index_min`, and the file is
    /// long enough for it.
    fn record(&mut self, at: u32, index_min: u32) -> Result<Option<FoundRecord>> {
        let number = self.number;
        let Some(header) = self.get(at, RECORD_HEADER_BYTES)? else { return Ok(None) };
        let Some(header) = parse_header(header, number) else { return Ok(None) };
        let upto = u64::from(at) + u64::from(RECORD_HEADER_BYTES) + u64::from(header.bytes);
        let is_wanted = upto <= self.window.end() && (index_min..u32::MAX).contains(&header.index);
        Ok(is_wanted.then_some(FoundRecord { at, header }))
    }

    fn get(&mut self, at: u32, bytes: u32) -> Result<Option<&[u8]>> {
        Ok(self.window.whole(at.into(), bytes as usize)?)
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

/// Checksum over the number of the file and some bytes.
fn crc_with_file(file: u32, bytes: &[u8]) -> u32 {
    let mut covered = [0; 4 + STAMP_CRC_AT - STAMP_AT];
    put(&mut covered, 0, file.to_le_bytes());
    let rest = covered.iter_mut().skip(4);
    rest.zip(bytes).for_each(|(to, from)| *to = *from);
    crc32c(covered.get(..4 + bytes.len()).unwrap_or_default())
}

fn put<const N: usize>(into: &mut [u8], at: usize, field: [u8; N]) {
    into.iter_mut().skip(at).zip(field).for_each(|(to, from)| *to = from);
}

/// The number at `at`; 0 where there is none, which no checksum of ours accepts.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    field.map_or(0, |field| u32::from_le_bytes(*field))
}
