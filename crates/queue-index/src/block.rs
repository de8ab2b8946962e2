//! The bytes of a journal and of a segment: a header, then blocks of operations.
//!
//! ```text
//! file   "0000002a.jif", "17.idx":  file header | block | block | ...
//!
//! file header, 32 bytes
//!  0       4         8      12    16       24       28
//!  +-------+---------+------+-----+--------+--------+-----+
//!  | "LVQI"| version | kind | 0   | number | crc of | 0   |   kind: 0 journal, 1 segment
//!  |       | u32     | u32  | u32 | u64    | 0..24  | u32 |
//!  +-------+---------+------+-----+--------+--------+-----+
//!
//! block header, 48 bytes, then the table, then the data
//!  0        4       8       12      16      20     24       32     40
//!  +--------+-------+-------+-------+-------+------+--------+------+--------+-----------+------+
//!  | crc of | crc of| crc of| entry | data  | kind | number | base | synced | table     | data |
//!  | 4..48  | table | data  | n     | bytes |      |        |      |        | 24 B each |      |
//!  | u32    | u32   | u32   | u32   | u32   | u32  | u64    | u64  | u64    |           |      |
//!  +--------+-------+-------+-------+-------+------+--------+------+--------+-----------+------+
//!
//! table entry
//!  0                4    5       6    8        12           16          20          24
//!  +----------------+----+-------+----+--------+------------+-----------+-----------+
//!  | position - base| op | flags | 0  | length | body bytes | blob file | blob index|
//!  | i32            | u8 | u8    | u16| u32    | u32        | u32       | u32       |
//!  +----------------+----+-------+----+--------+------------+-----------+-----------+
//! ```
//! Integers are little-endian; checksums are crc32c. Operations: 0 publish, 1 deliver, 2 ack. A
//! publish's `length` is that of its record (see the `message` crate), which is next in the data; its
//! flags are 1 persistent, 2 delivered, 4 the body lies in the body store under the blob's name, behind
//! the properties if the record has a stand-in for them.
//! For the others `length` is how many positions from this one on they are about. What lies before
//! `synced` was durable when the block was made: if it is damaged, that is no torn end.

use std::ops::Range;

use message::{
    MessageRef, StandIn, head_len, put_head, put_head_without_body, put_head_without_content,
};
use segments::{File, FileError, crc32c};
use stdx::record::{Reader, RecordError, put_u8, put_u16, put_u32, put_u64};

use store::StoreError;
use store::blob::BlobId;

use crate::Result;
use store::{Queued, StoredBody};

const HEADER_BYTES: usize = 32;
pub(super) const FILE_HEADER_BYTES: u64 = HEADER_BYTES as u64;
pub(super) const BLOCK_HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;
/// A block is closed when its data reaches this length: what one read fetches.
const BLOCK_DATA_BYTES: usize = 64 << 10;
/// Bytes that a search for a block reads at a time.
const SEARCH_BYTES: usize = 64 << 10;
/// A block has no more operations than this.
const BLOCK_ENTRIES_MAX: u32 = 2048;

const MAGIC: [u8; 4] = *b"LVQI";
const VERSION: u32 = 1;

const OP_PUBLISH: u8 = 0;
const OP_DELIVER: u8 = 1;
const OP_ACK: u8 = 2;

const FLAG_PERSISTENT: u8 = 1;
const FLAG_DELIVERED: u8 = 2;
const FLAG_STORED: u8 = 4;

const _: () = assert!(SEARCH_BYTES > BLOCK_HEADER_BYTES);

/// Bytes of a file that ends there beside its header; one that is shorter than that has nothing.
pub(super) const fn bytes_of_blocks(end: u64) -> u64 {
    end.saturating_sub(FILE_HEADER_BYTES)
}

/// Which file a block belongs to; stands in each block, so that none is taken for another file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) kind: TagKind,
    pub(super) number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagKind {
    Journal,
    Segment,
}

impl Tag {
    pub(super) const fn journal(number: u64) -> Self {
        Self { kind: TagKind::Journal, number }
    }

    pub(super) const fn segment(number: u64) -> Self {
        Self { kind: TagKind::Segment, number }
    }

    const fn kind_code(self) -> u32 {
        match self.kind {
            TagKind::Journal => 0,
            TagKind::Segment => 1,
        }
    }
}

/// Where a block lies in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRef {
    pub(super) at: u64,
    pub(super) n_entries: u32,
    pub(super) data_bytes: u32,
    /// Lowest and highest position published in it; nothing is if they are the wrong way round.
    pub(super) first: u64,
    pub(super) last: u64,
}

impl BlockRef {
    pub(super) const fn bytes(&self) -> u64 {
        block_bytes(self.n_entries, self.data_bytes)
    }

    pub(super) const fn overlaps(&self, range: &Range<u64>) -> bool {
        self.first <= self.last && self.first < range.end && range.start <= self.last
    }
}

const fn block_bytes(n_entries: u32, data_bytes: u32) -> u64 {
    BLOCK_HEADER_BYTES as u64 + n_entries as u64 * ENTRY_BYTES as u64 + data_bytes as u64
}

/// A line of a block's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) position: u64,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Publish(Publication),
    /// The delivery of so many positions, from the operation's on.
    Deliver(u32),
    /// The acknowledgement of so many positions, from the operation's on.
    Ack(u32),
}

/// The part of a publish beside the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Publication {
    pub(super) record_bytes: u32,
    pub(super) body_bytes: u32,
    pub(super) blob: Option<BlobId>,
    pub(super) is_persistent: bool,
    pub(super) is_delivered: bool,
}

impl Publication {
    /// Where the body is, if that is the body store. The record alone says whether properties are there.
    pub(super) fn stored(&self) -> Option<StoredBody> {
        self.blob.map(|blob| StoredBody { blob, bytes: self.body_bytes, properties_bytes: 0 })
    }
}

/// Header of a file.
pub(super) fn file_header(tag: Tag) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(&MAGIC);
    put_u32(&mut header, VERSION);
    put_u32(&mut header, tag.kind_code());
    put_u32(&mut header, 0);
    put_u64(&mut header, tag.number);
    let crc = crc32c(&header);
    put_u32(&mut header, crc);
    put_u32(&mut header, 0);
    assert_eq!(header.len(), HEADER_BYTES, "a header is as long as it is drawn");
    header
}

/// A block being filled.
#[derive(Debug, Default)]
pub(super) struct Builder {
    base: u64,
    n_entries: u32,
    table: Vec<u8>,
    data: Vec<u8>,
    first: u64,
    last: u64,
    /// Bytes that were added to the body store for it.
    pub(super) body_bytes: u64,
    /// The last entry, if it is a run: what it is about and where the run ends.
    run: Option<(u8, u64)>,
}

impl Builder {
    pub(super) fn is_empty(&self) -> bool {
        self.n_entries == 0
    }

    /// Bytes it would take in a file.
    pub(super) fn bytes(&self) -> usize {
        if self.is_empty() { 0 } else { BLOCK_HEADER_BYTES + self.table.len() + self.data.len() }
    }

    /// Whether an operation on `position` has to go into another block.
    pub(super) fn is_full_for(&self, position: u64) -> bool {
        !self.is_empty()
            && (self.data.len() >= BLOCK_DATA_BYTES
                || self.n_entries >= BLOCK_ENTRIES_MAX
                || relative(position, self.base).is_none())
    }

    pub(super) fn publish(&mut self, queued: &Queued<'_>) {
        let Queued { position, message, stored, is_delivered } = queued;
        let start = self.data.len();
        let own_bytes = if stored.is_some() { 0 } else { message.body.len() };
        self.data.reserve(head_len(message) + own_bytes);
        if let Some(stored) = stored {
            match queued.stand_in().map(StandIn::to_bytes) {
                Some(stand_in) => {
                    let shown = MessageRef { properties: &stand_in, ..*message };
                    put_head_without_content(&mut self.data, &shown, stored.bytes);
                }
                None => put_head_without_body(&mut self.data, message, stored.bytes),
            }
        } else {
            put_head(&mut self.data, message);
            self.data.extend_from_slice(message.body.bytes());
        }
        let publication = Publication {
            record_bytes: u32::try_from(self.data.len() - start).unwrap_or(u32::MAX),
            body_bytes: queued.body_bytes(),
            blob: stored.map(|stored| stored.blob),
            is_persistent: message.persistent,
            is_delivered: *is_delivered,
        };
        self.note_published(*position, &publication);
    }

    /// Takes over a record from another block.
    pub(super) fn publish_record(
        &mut self,
        position: u64,
        publication: &Publication,
        record: &[u8],
    ) {
        self.data.extend_from_slice(record);
        self.note_published(position, publication);
    }

    fn note_published(&mut self, position: u64, publication: &Publication) {
        let Publication { record_bytes, body_bytes, blob, is_persistent, is_delivered } =
            *publication;
        if self.first > self.last || self.is_empty() {
            (self.first, self.last) = (position, position);
        }
        (self.first, self.last) = (self.first.min(position), self.last.max(position));
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(is_persistent, FLAG_PERSISTENT)
            | flag(is_delivered, FLAG_DELIVERED)
            | flag(blob.is_some(), FLAG_STORED);
        let blob = blob.unwrap_or(BlobId { file: 0, index: 0 });
        self.put(position, [OP_PUBLISH, flags], [record_bytes, body_bytes, blob.file, blob.index]);
        self.run = None;
    }

    /// Notes that `run` was delivered.
    pub(super) fn deliver(&mut self, run: Range<u64>) {
        self.put_run(OP_DELIVER, run);
    }

    /// Notes that `run` was acknowledged.
    pub(super) fn ack(&mut self, run: Range<u64>) {
        self.put_run(OP_ACK, run);
    }

    fn put_run(&mut self, op: u8, run: Range<u64>) {
        let n = u32::try_from(run.end - run.start).unwrap_or(u32::MAX);
        if self.run == Some((op, run.start)) && self.lengthen_run(n) {
            self.run = Some((op, run.end));
            return;
        }
        if self.is_empty() {
            (self.first, self.last) = (1, 0);
        }
        self.put(run.start, [op, 0], [n, 0, 0, 0]);
        self.run = Some((op, run.end));
    }

    fn lengthen_run(&mut self, n: u32) -> bool {
        let length = self.table.last_chunk_mut::<16>().and_then(|rest| rest.first_chunk_mut::<4>());
        let Some(length) = length else { return false };
        let Some(longer) = u32::from_le_bytes(*length).checked_add(n) else { return false };
        *length = longer.to_le_bytes();
        true
    }

    fn put(&mut self, position: u64, [op, flags]: [u8; 2], numbers: [u32; 4]) {
        if self.is_empty() {
            self.base = position;
        }
        let relative = relative(position, self.base).unwrap_or_default();
        self.table.extend_from_slice(&relative.to_le_bytes());
        put_u8(&mut self.table, op);
        put_u8(&mut self.table, flags);
        put_u16(&mut self.table, 0);
        numbers.iter().for_each(|number| put_u32(&mut self.table, *number));
        self.n_entries += 1;
    }

    /// Appends the block to `out`, and starts an empty one. `at` is where it will lie in the file,
    /// which is durable up to `synced`.
    pub(super) fn close(&mut self, tag: Tag, at: u64, synced: u64, out: &mut Vec<u8>) -> BlockRef {
        let data_bytes = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
        let mut header = Vec::with_capacity(BLOCK_HEADER_BYTES);
        put_u32(&mut header, crc32c(&self.table));
        put_u32(&mut header, crc32c(&self.data));
        put_u32(&mut header, self.n_entries);
        put_u32(&mut header, data_bytes);
        put_u32(&mut header, tag.kind_code());
        put_u64(&mut header, tag.number);
        put_u64(&mut header, self.base);
        put_u64(&mut header, synced);
        let table_bytes = self.n_entries as usize * ENTRY_BYTES;
        assert_eq!(self.table.len(), table_bytes, "the table has the entries that are counted");
        assert!(synced <= at, "a block goes behind what is durable");
        out.extend_from_slice(&crc32c(&header).to_le_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(&self.table);
        out.extend_from_slice(&self.data);
        let Self { n_entries, first, last, .. } = *self;
        *self = Self::default();
        BlockRef { at, n_entries, data_bytes, first, last }
    }
}

fn relative(position: u64, base: u64) -> Option<i32> {
    i32::try_from(i128::from(position) - i128::from(base)).ok()
}

/// A block's header, checked.
#[derive(Clone, Copy, Debug)]
struct OperationHeader {
    table_crc: u32,
    data_crc: u32,
    n_entries: u32,
    data_bytes: u32,
    base: u64,
    synced: u64,
}

impl OperationHeader {
    fn parse(bytes: &[u8], tag: Tag) -> Option<Self> {
        let mut reader = Reader::new(bytes.get(..BLOCK_HEADER_BYTES)?);
        if reader.u32().ok()? != crc32c(reader.rest()) {
            return None;
        }
        let mut header = || -> std::result::Result<_, RecordError> {
            let [table_crc, data_crc, n_entries, data_bytes, kind] =
                [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
            let (number, base, synced) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let is_ours = kind == tag.kind_code() && number == tag.number;
            let header = Self { table_crc, data_crc, n_entries, data_bytes, base, synced };
            Ok(is_ours.then_some(header))
        };
        header().ok().flatten()
    }

    fn table_bytes(&self) -> usize {
        self.n_entries as usize * ENTRY_BYTES
    }
}

/// The lines of a table; one of an unknown operation ends it.
fn operations(table: &[u8], base: u64) -> impl Iterator<Item = Operation> + '_ {
    table.as_chunks::<ENTRY_BYTES>().0.iter().map_while(move |entry| {
        let mut reader = Reader::new(entry);
        // Two's complement: the same addition serves both signs.
        let relative = i64::from(reader.u32().ok()?.cast_signed());
        let position = base.wrapping_add_signed(relative);
        let (op, flags) = (reader.u8().ok()?, reader.u8().ok()?);
        reader.u16().ok()?;
        let (length, body_bytes) = (reader.u32().ok()?, reader.u32().ok()?);
        let blob = BlobId { file: reader.u32().ok()?, index: reader.u32().ok()? };
        let what = match op {
            OP_PUBLISH => What::Publish(Publication {
                record_bytes: length,
                body_bytes,
                blob: (flags & FLAG_STORED != 0).then_some(blob),
                is_persistent: flags & FLAG_PERSISTENT != 0,
                is_delivered: flags & FLAG_DELIVERED != 0,
            }),
            OP_DELIVER => What::Deliver(length),
            OP_ACK => What::Ack(length),
            _ => return None,
        };
        Some(Operation { position, what })
    })
}

/// A whole block, checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationBlock<'a> {
    base: u64,
    table: &'a [u8],
    data: &'a [u8],
}

impl<'a> OperationBlock<'a> {
    /// Checks `bytes`, which are those of a block of the file `tag`.
    pub(super) fn parse(bytes: &'a [u8], tag: Tag) -> std::result::Result<Self, &'static str> {
        let header = OperationHeader::parse(bytes, tag).ok_or("the block's header is damaged")?;
        let rest = bytes.get(BLOCK_HEADER_BYTES..).unwrap_or_default();
        let parts = rest.split_at_checked(header.table_bytes());
        let (table, data) = parts.ok_or("the block is cut off")?;
        if crc32c(table) != header.table_crc {
            return Err("the checksum of the block's table does not match");
        }
        if data.len() != header.data_bytes as usize || crc32c(data) != header.data_crc {
            return Err("the checksum of the block's data does not match");
        }
        Ok(Self { base: header.base, table, data })
    }

    /// Its operations, the published ones with their records.
    pub(super) fn operations(&self) -> impl Iterator<Item = (Operation, &'a [u8])> + 'a {
        let mut data = self.data;
        operations(self.table, self.base).map(move |operation| {
            let record_bytes = match operation.what {
                What::Publish(publication) => publication.record_bytes as usize,
                What::Deliver(_) | What::Ack(_) => 0,
            };
            let (record, rest) = data.split_at_checked(record_bytes).unwrap_or((data, &[]));
            data = rest;
            (operation, record)
        })
    }
}

/// A place in a file that cannot be used.
#[derive(Debug)]
pub struct Damage {
    /// Where it begins, and what is wrong with it.
    pub error: StoreError,
    /// Its length.
    pub bytes: u64,
    /// Messages, and runs of deliveries and of acknowledgements, that it had, if that can be read.
    pub n_entries: Option<u32>,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { error, bytes, n_entries } = self;
        write!(f, "{error}: {bytes} bytes, ")?;
        match n_entries {
            Some(n) => write!(f, "with {n} messages at most"),
            None => write!(f, "with how many messages cannot be read"),
        }
    }
}

/// The findings of a file's scan.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) blocks: Vec<BlockRef>,
    /// Behind the last usable block: where the next one goes.
    pub(super) end: u64,
    /// Parts that cannot be used, in the order of their places.
    damage: Vec<DamagedPart>,
    /// Up to where the file was durable, as far as its blocks say.
    synced: u64,
}

#[derive(Debug)]
struct DamagedPart {
    at: u64,
    damage: Damage,
}

impl Scanned {
    /// Moves out the bytes that cannot be read of what was durable, which is all if the whole file was, and
    /// of the rest.
    pub(super) fn take_damage(
        &mut self,
        extent: SyncedExtent,
        durable: &mut Vec<Damage>,
        torn: &mut Vec<Damage>,
    ) {
        let synced = match extent {
            SyncedExtent::Whole => u64::MAX,
            SyncedExtent::AsItSays => self.synced,
        };
        for DamagedPart { at, damage } in self.damage.drain(..) {
            if at < synced { durable.push(damage) } else { torn.push(damage) }
        }
    }

    /// Whether all of it can be used.
    pub(super) const fn is_whole(&self) -> bool {
        self.damage.is_empty()
    }

    /// Where the first damage begins, or the end.
    pub(super) fn readable_end(&self) -> u64 {
        self.damage.first().map_or(self.end, |part| part.at)
    }

    /// Ends the file before the first damage to what was perhaps not durable. What lies behind it
    /// comes again, if it was cut off.
    pub(super) fn cut_torn_end(&mut self) {
        let synced = self.synced;
        let torn = self.damage.iter().map(|part| part.at).find(|at| *at >= synced);
        if let Some(end) = torn {
            self.end = end;
            self.blocks.retain(|block| block.at < end);
            self.damage.retain(|part| part.at <= end);
        }
    }

    fn damaged(&mut self, at: u64, damage: Damage) {
        assert!(self.damage.last().is_none_or(|last| last.at < at), "a scan goes forward");
        self.damage.push(DamagedPart { at, damage });
    }
}

/// How much of a file was durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncedExtent {
    /// The whole file.
    Whole,
    /// The content of its blocks; the rest may be torn.
    AsItSays,
}

/// How much of each block a scan looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Headers and tables.
    Tables,
    /// The data too.
    Data,
}

/// Goes through the blocks of a file and hands each operation to `each`. A block that cannot be
/// used is passed over, and what lies before the next header where none can be read.
pub(super) fn scan(
    file: &File,
    tag: Tag,
    depth: Depth,
    each: &mut dyn FnMut(Operation),
) -> Result<Scanned> {
    let file_bytes = file.size()?;
    let mut scanned =
        Scanned { blocks: Vec::new(), end: FILE_HEADER_BYTES, damage: Vec::new(), synced: 0 };
    let mut bytes = file.read(0, HEADER_BYTES)?;
    check_version(&bytes, file.name())?;
    while scanned.end < file_bytes {
        let at = scanned.end;
        file.read_into(at, BLOCK_HEADER_BYTES, &mut bytes)?;
        let header = OperationHeader::parse(&bytes, tag);
        let fits = |header: &OperationHeader| {
            at + block_bytes(header.n_entries, header.data_bytes) <= file_bytes
        };
        let Some(header) = header.filter(fits) else {
            let next = next_block(file, tag, at + 1..file_bytes)?;
            let error = file.corrupt(at, "no block begins here").into();
            let bytes = next.unwrap_or(file_bytes) - at;
            scanned.damaged(at, Damage { error, bytes, n_entries: None });
            let Some(next) = next else { break };
            scanned.end = next;
            continue;
        };
        let data_bytes = if depth == Depth::Data { header.data_bytes as usize } else { 0 };
        let wanted = header.table_bytes() + data_bytes;
        file.read_into(at + BLOCK_HEADER_BYTES as u64, wanted, &mut bytes)?;
        let (table, data) = bytes.split_at_checked(header.table_bytes()).unwrap_or_default();
        scanned.synced = scanned.synced.max(header.synced);
        scanned.end += block_bytes(header.n_entries, header.data_bytes);
        let is_whole = crc32c(table) == header.table_crc
            && (depth == Depth::Tables || crc32c(data) == header.data_crc);
        if !is_whole {
            let error = file.corrupt(at, "a block is damaged").into();
            let (bytes, n_entries) = (scanned.end - at, Some(header.n_entries));
            scanned.damaged(at, Damage { error, bytes, n_entries });
            continue;
        }
        scanned.blocks.push(take_table(table, at, &header, each));
    }
    Ok(scanned)
}

/// Where the first block in a part of a file begins.
fn next_block(file: &File, tag: Tag, within: Range<u64>) -> Result<Option<u64>> {
    let mut bytes = Vec::new();
    let mut at = within.start;
    while at < within.end {
        // Each part begins with what was too short for a header in the one before.
        file.read_into(at, SEARCH_BYTES, &mut bytes)?;
        let is_header = |header: &[u8]| OperationHeader::parse(header, tag).is_some();
        if let Some(found) = bytes.windows(BLOCK_HEADER_BYTES).position(is_header) {
            return Ok(Some(at + found as u64));
        }
        if bytes.len() < SEARCH_BYTES {
            break;
        }
        at += (SEARCH_BYTES - BLOCK_HEADER_BYTES + 1) as u64;
    }
    Ok(None)
}

fn take_table(
    table: &[u8],
    at: u64,
    header: &OperationHeader,
    each: &mut dyn FnMut(Operation),
) -> BlockRef {
    let (mut first, mut last) = (u64::MAX, 0);
    for operation in operations(table, header.base) {
        if matches!(operation.what, What::Publish(_)) {
            first = first.min(operation.position);
            last = last.max(operation.position);
        }
        each(operation);
    }
    let OperationHeader { n_entries, data_bytes, .. } = *header;
    BlockRef { at, n_entries, data_bytes, first, last }
}

/// A torn header is no error: then nothing behind it was ever durable, or each block says itself
/// whose it is.
fn check_version(header: &[u8], name: &str) -> Result<()> {
    let Some((covered, rest)) = header.split_at_checked(24) else { return Ok(()) };
    let mut reader = Reader::new(covered);
    let is_ours =
        reader.take(MAGIC.len()) == Ok(&MAGIC) && Reader::new(rest).u32() == Ok(crc32c(covered));
    match reader.u32() {
        Ok(found) if is_ours && found > VERSION => {
            Err(FileError::Newer { file: name.to_owned(), found, known: VERSION }.into())
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::{Body, MessageRef};

    fn queued(position: u64, body: &[u8]) -> Queued<'_> {
        let message = MessageRef {
            exchange: b"",
            routing_key: b"q",
            properties: &[0, 0],
            body: Body::Borrowed(body),
            persistent: true,
            annotations: Default::default(),
            form: message::BodyForm::Plain,
        };
        Queued { position, message, stored: None, is_delivered: false }
    }

    #[test]
    fn runs_side_by_side_become_one_and_every_flipped_bit_is_noticed() {
        let mut builder = Builder::default();
        builder.ack(90..95);
        builder.ack(95..96);
        builder.publish(&queued(5_000, b"body"));
        builder.ack(96..97);
        builder.deliver(97..99);
        assert!(builder.is_full_for(90 + (1 << 40)) && !builder.is_full_for(0));
        let (mut bytes, tag) = (Vec::new(), Tag::segment(3));
        let block = builder.close(tag, 32, 32, &mut bytes);
        assert_eq!((block.n_entries, block.first, block.last), (4, 5_000, 5_000));
        assert_eq!(block.bytes(), bytes.len() as u64);
        let read: Vec<_> = OperationBlock::parse(&bytes, tag).unwrap().operations().collect();
        assert_eq!(read[0].0, Operation { position: 90, what: What::Ack(6) });
        assert!(read[1].1.ends_with(b"body"));
        assert_eq!(read[3].0, Operation { position: 97, what: What::Deliver(2) });
        assert!(OperationBlock::parse(&bytes, Tag::journal(3)).is_err());
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(OperationBlock::parse(&bytes, tag).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_block_of_runs_only_publishes_nothing() {
        let mut builder = Builder::default();
        builder.ack(1..2);
        let block = builder.close(Tag::journal(1), 32, 32, &mut Vec::new());
        assert!(!block.overlaps(&(0..u64::MAX)));
        builder.publish(&queued(7, b""));
        let block = builder.close(Tag::journal(1), 32, 32, &mut Vec::new());
        assert!(block.overlaps(&(7..8)) && !block.overlaps(&(8..9)) && !block.overlaps(&(0..7)));
    }
}
