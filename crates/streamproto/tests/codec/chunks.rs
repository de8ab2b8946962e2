//! Chunks, their entries and their trailers.

use proptest::collection::vec;
use proptest::prelude::*;
use streamproto::chunk::data_crc;
use streamproto::field::Field;
use streamproto::spec::{FILTER_BYTES_MAX, REFERENCE_BYTES_MAX};
use streamproto::tracking::{Tracked, TrackingForm, TrackingRecord, TrackingRecords};
use streamproto::{
    Chunk, ChunkError, ChunkHeader, ChunkType, Compression, Entries, Entry, FieldError, SubBatch,
    SubBatchError,
};

use crate::fixtures::bytes;

const HEADER: ChunkHeader = ChunkHeader {
    chunk_type: ChunkType::USER,
    n_entries: 2,
    n_records: 4,
    timestamp_ms: 1_700_000_000_000,
    epoch: 3,
    chunk_id: 1000,
    crc: 0x98ae_f55d,
    data_bytes: 21,
    trailer_bytes: 12,
    filter_bytes: 16,
};
const HEADER_WORDS: &str = "50 00 0002 00000004 0000018bcfe56800 0000000000000003
    00000000000003e8 98aef55d 00000015 0000000c 10 000000";
const FILTER_WORDS: &str = "80000000000000000000000000000001";
const DATA_WORDS: &str = "00000003 'abc' 90 0003 00000100 00000003 'zip'";
const TRAILER_WORDS: &str = "01 02 'c1' 00000000000003e9";

const BATCH: SubBatch<'static> = SubBatch {
    compression: Compression::GZIP,
    n_records: 3,
    uncompressed_bytes: 256,
    bytes: b"zip",
};

fn put(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    entries.iter().for_each(|entry| entry.put(&mut out));
    out
}

#[test]
fn a_chunk_has_the_bytes_of_the_log_format() {
    let (filter, data, trailer) = (bytes(FILTER_WORDS), bytes(DATA_WORDS), bytes(TRAILER_WORDS));
    let header = ChunkHeader { crc: 0, data_bytes: 0, trailer_bytes: 0, filter_bytes: 0, ..HEADER };
    let chunk = Chunk::new(header, &filter, &data, &trailer).expect("short parts");
    assert_eq!(chunk.header, HEADER);
    let stored = [bytes(HEADER_WORDS), filter.clone(), data.clone(), trailer.clone()].concat();
    let mut out = Vec::new();
    chunk.encode(&mut out);
    assert_eq!(out, stored);
    assert_eq!(Chunk::decode_stored(&stored), Ok((chunk, &b""[..])));
    assert_eq!(stored.len() as u64, HEADER.stored_bytes());
    assert_eq!((HEADER.data_at(), HEADER.delivered_bytes()), (64, 69));
    assert_eq!(HEADER.next_offset(), 1004);
    let entries: Vec<_> = chunk.entries().map(|entry| entry.expect("a good entry")).collect();
    assert_eq!(entries, [(1000, Entry::Message(b"abc")), (1001, Entry::SubBatch(BATCH))]);
    assert_eq!((chunk.verify_crc(), chunk.verify_entries()), (Ok(()), Ok(())));
}

#[test]
fn a_delivered_chunk_is_without_its_filter() {
    let (header, data, trailer) = (bytes(HEADER_WORDS), bytes(DATA_WORDS), bytes(TRAILER_WORDS));
    let delivered = [&header[..], &data].concat();
    let chunk = Chunk::decode_delivered(&delivered).expect("a good chunk");
    assert_eq!(chunk, Chunk { header: HEADER, filter: b"", data: &data, trailer: b"" });
    assert_eq!(delivered.len() as u64, HEADER.delivered_bytes());
    let all = [&delivered[..], &trailer].concat();
    let chunk = Chunk::decode_delivered(&all).expect("a good chunk");
    assert_eq!(chunk.trailer, trailer);
    for cut in (0..delivered.len()).chain(delivered.len() + 1..all.len()) {
        assert_eq!(Chunk::decode_delivered(&all[..cut]), Err(ChunkError::Truncated));
    }
    let longer = [&all[..], b"!"].concat();
    let error = ChunkError::Entry(FieldError::TrailingBytes);
    assert_eq!(Chunk::decode_delivered(&longer), Err(error));
}

#[test]
fn a_hostile_header_is_refused() {
    let header =
        |words: &str| ChunkHeader::decode(bytes(words).first_chunk().expect("a header's bytes"));
    assert_eq!(header(HEADER_WORDS), Ok(HEADER));
    assert_eq!(header(&HEADER_WORDS.replace("50 00", "51 00")), Err(ChunkError::Magic(0x51)));
    let crowded = HEADER_WORDS.replace("50 00 0002", "50 00 0006");
    let error = ChunkError::EntriesDoNotFit { n_entries: 6, data_bytes: 21 };
    assert_eq!(header(&crowded), Err(error));
    let reserved = HEADER_WORDS.replace("10 000000", "10 ffffff");
    assert_eq!(header(&reserved), Ok(HEADER));
    let huge = HEADER_WORDS.replace("00000015", "ffffffff");
    assert_eq!(Chunk::decode_stored(&bytes(&huge)), Err(ChunkError::Truncated));
    let unknown = header(&HEADER_WORDS.replace("50 00", "50 09")).expect("any type is read");
    assert_eq!(unknown.chunk_type, ChunkType(9));
}

#[test]
fn what_a_header_says_of_entries_is_verified() {
    let data = bytes(DATA_WORDS);
    let with = |n_entries, n_records| {
        let header = ChunkHeader { n_entries, n_records, ..HEADER };
        Chunk::new(header, b"", &data, b"").expect("short parts").verify_entries()
    };
    assert_eq!(with(2, 4), Ok(()));
    assert_eq!(with(2, 5), Err(ChunkError::Records { expected: 5, found: 4 }));
    assert_eq!(with(1, 1), Err(ChunkError::Entry(FieldError::TrailingBytes)));
    assert_eq!(with(3, 4), Err(ChunkError::Entry(FieldError::Truncated)));
    let chunk = Chunk { header: HEADER, filter: b"", data: &data[1..], trailer: b"" };
    let found = data_crc(&data[1..]);
    assert_eq!(chunk.verify_crc(), Err(ChunkError::Crc { expected: HEADER.crc, found }));
    let filter = [0; FILTER_BYTES_MAX + 1];
    assert_eq!(Chunk::new(HEADER, &filter, b"", b""), Err(ChunkError::TooLong));
}

#[test]
fn the_checksum_is_the_crc_32_of_ieee_802_3() {
    assert_eq!(data_crc(b"123456789"), 0xcbf4_3926);
    assert_eq!(data_crc(b""), 0);
}

#[test]
fn a_sub_batch_that_cannot_be_is_refused() {
    assert_eq!(BATCH.check(256), Ok(()));
    assert_eq!(BATCH.check(255), Err(SubBatchError::TooLarge(256)));
    let none = SubBatch { n_records: 0, ..BATCH };
    assert_eq!(none.check(256), Err(SubBatchError::NoRecords));
    let crowded = SubBatch { n_records: 65, ..BATCH };
    let error = SubBatchError::RecordsDoNotFit { n_records: 65, uncompressed_bytes: 256 };
    assert_eq!(crowded.check(256), Err(error));
    let empty = SubBatch { bytes: b"", ..BATCH };
    assert_eq!(empty.check(256), Err(SubBatchError::Empty));
    let plain = SubBatch { compression: Compression::NONE, ..BATCH };
    assert_eq!(plain.check(256), Err(SubBatchError::Size { expected: 256, found: 3 }));
    let input = bytes("d0 0001 00000004 00000001 00");
    let Ok(Entry::SubBatch(unknown)) = Entry::read(&mut &input[..]) else { panic!("a batch") };
    assert_eq!(unknown.check(256), Err(SubBatchError::UnknownCompression(5)));
}

#[test]
fn the_messages_of_a_sub_batch_have_offsets_too() {
    let messages = bytes("00000001 'a' 00000000");
    let entries: Vec<_> = Entries::new(&messages, 2, 7).collect();
    assert_eq!(entries, [Ok((7, Entry::Message(b"a"))), Ok((8, Entry::Message(b"")))]);
    let entries: Vec<_> = Entries::new(&messages, 3, u64::MAX).collect();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries.last(), Some(&Err(FieldError::Truncated)));
}

#[test]
fn tracking_records_have_the_bytes_of_the_log_format() {
    let delta =
        bytes("00 02 'p1' 0000000000000005 01 02 'c1' 00000000000003e9 02 00 ffffffffffffffff");
    let form = TrackingForm::Delta { chunk_id: 1000 };
    let records: Result<Vec<_>, _> = TrackingRecords::new(&delta, form).collect();
    let sequence = Tracked::Sequence { chunk_id: 1000, publishing_id: 5 };
    let expected = vec![
        TrackingRecord { reference: b"p1", tracked: sequence },
        TrackingRecord { reference: b"c1", tracked: Tracked::Offset(1001) },
        TrackingRecord { reference: b"", tracked: Tracked::Timestamp(-1) },
    ];
    assert_eq!(records, Ok(expected.clone()));
    let snapshot = bytes(
        "00 02 'p1' 00000000000003e8 0000000000000005 01 02 'c1' 00000000000003e9
         02 00 ffffffffffffffff",
    );
    let records: Result<Vec<_>, _> =
        TrackingRecords::new(&snapshot, TrackingForm::Snapshot).collect();
    assert_eq!(records, Ok(expected.clone()));
    for (form, bytes) in [(form, delta), (TrackingForm::Snapshot, snapshot)] {
        let mut out = Vec::new();
        expected.iter().for_each(|record| record.encode(form, &mut out));
        assert_eq!(out, bytes);
        let cut: Vec<_> = TrackingRecords::new(&bytes[..bytes.len() - 1], form).collect();
        assert_eq!(cut[2], Err(FieldError::Truncated));
    }
    let unknown: Vec<_> = TrackingRecords::new(b"\x03\0", form).collect();
    assert_eq!(unknown, [Err(FieldError::UnknownTrackingType(3))]);
}

#[test]
fn a_tracking_reference_has_at_most_255_bytes() {
    let reference = [b'r'; REFERENCE_BYTES_MAX + 1];
    let mut out = Vec::new();
    let record = TrackingRecord { reference: &reference, tracked: Tracked::Offset(1) };
    record.encode(TrackingForm::Snapshot, &mut out);
    let read = TrackingRecords::new(&out, TrackingForm::Snapshot).next();
    let read = read.expect("a record").expect("a good record");
    assert_eq!(read.reference, &reference[..REFERENCE_BYTES_MAX]);
}

#[derive(Clone, Debug)]
struct OwnedEntry {
    bytes: Vec<u8>,
    batch: Option<(u16, u32)>,
}

impl OwnedEntry {
    fn entry(&self) -> Entry<'_> {
        let Some((n_records, uncompressed_bytes)) = self.batch else {
            return Entry::Message(&self.bytes);
        };
        let compression = Compression::LZ4;
        Entry::SubBatch(SubBatch { compression, n_records, uncompressed_bytes, bytes: &self.bytes })
    }
}

fn entries() -> impl Strategy<Value = Vec<OwnedEntry>> {
    let entry = (vec(any::<u8>(), 0..30), any::<Option<(u16, u32)>>());
    vec(entry.prop_map(|(bytes, batch)| OwnedEntry { bytes, batch }), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_survive(
        entries in entries(),
        filter in vec(any::<u8>(), 0..=FILTER_BYTES_MAX),
        trailer in vec(any::<u8>(), 0..40),
        fixed in any::<(u8, i64, u64, u64)>(),
        flip in any::<prop::sample::Index>(),
    ) {
        let entries: Vec<Entry<'_>> = entries.iter().map(OwnedEntry::entry).collect();
        let data = put(&entries);
        let (chunk_type, timestamp_ms, epoch, chunk_id) = fixed;
        let header = ChunkHeader {
            chunk_type: ChunkType(chunk_type),
            n_entries: u16::try_from(entries.len())?,
            n_records: entries.iter().map(|entry| u32::from(entry.n_records())).sum(),
            timestamp_ms,
            epoch,
            chunk_id,
            ..ChunkHeader::default()
        };
        let chunk = Chunk::new(header, &filter, &data, &trailer)?;
        let mut stored = Vec::new();
        chunk.encode(&mut stored);
        prop_assert_eq!(Chunk::decode_stored(&stored)?, (chunk, &b""[..]));
        chunk.verify_crc()?;
        chunk.verify_entries()?;
        let mut read = chunk.entries();
        let again: Vec<Entry<'_>> = read.by_ref().map(|entry| entry.unwrap().1).collect();
        prop_assert_eq!(again, entries);
        prop_assert_eq!(read.next_offset(), chunk.header.next_offset());
        if !data.is_empty() {
            let mut flipped = data.clone();
            flipped[flip.index(data.len())] ^= 1;
            let chunk = Chunk { data: &flipped, ..chunk };
            prop_assert!(chunk.verify_crc().is_err());
        }
    }
}
