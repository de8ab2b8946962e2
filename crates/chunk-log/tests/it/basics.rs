//! Appending, committing, reading, and opening again.

use chunk_log::{ChunkLogError, LogOptions, Next, RefusalReason, Start, Wait};
use testing::MemoryDisk;

use crate::parts::*;

#[test]
fn what_is_committed_is_read_and_no_more() {
    let disk = MemoryDisk::new();
    let files = files(&disk);
    let (mut log, found) = open(&files, LogOptions::default());
    assert!(found.is_new);
    let mut reader = reader(log.view(), Start::First);
    assert!(matches!(reader.read_next(Wait::ForDisk).unwrap(), Next::End));
    let mut bytes = Vec::new();
    let header = draft(&log, &[12, 12]).encode(&mut bytes);
    let appended = log.append(&[header], &bytes).unwrap();
    assert_eq!((appended.end.next_ordinal, appended.end.next_offset), (1, 2));
    assert!(matches!(reader.read_next(Wait::ForDisk).unwrap(), Next::End), "not committed");
    log.view().set_committed(appended.end);
    let read = chunk(&mut reader);
    assert_eq!(read.header, header);
    assert_eq!(data(&read), bytes[48..]);
    let parts = read.parts().unwrap().unwrap();
    parts.verify_crc().unwrap();
    parts.verify_entries().unwrap();
    assert_eq!(stored(&read), bytes);
    assert_eq!(read.header_bytes()[..45], bytes[..45]);
    assert_eq!(read.header_bytes()[45..], [0; 3], "no seal for clients");
    assert!(matches!(reader.read_next(Wait::ForDisk).unwrap(), Next::End));
    assert_eq!(reader.next_offset(), log.view().next_offset());
}

#[test]
fn a_log_that_is_opened_again_goes_on() {
    let disk = MemoryDisk::new();
    let options = LogOptions { segment_bytes_max: 1_000, ..LogOptions::default() };
    let mut expected = Vec::new();
    for round in 0..5 {
        let (mut log, found) = open(&files(&disk), options);
        assert_eq!(found.is_new, round == 0);
        assert_eq!(found.end.next_ordinal, expected.len() as u64);
        assert_eq!((&found.cut, found.n_indexes_rebuilt), (&Vec::new(), 0), "{round}");
        assert_eq!(rest_ids(&mut reader(log.view(), Start::First)), expected);
        for n in 1..20 {
            expected.push(log.end().next_offset);
            add(&mut log, &vec![30; n % 4 + 1]);
        }
        if round % 2 == 0 {
            log.checkpoint().unwrap();
            assert!(log.is_checkpointed());
        }
        assert!(log.view().n_segments() > round * 2);
    }
}

#[test]
fn what_does_not_follow_is_refused_and_changes_nothing() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&files(&disk), LogOptions::default());
    let mut first = draft(&log, &[5]);
    first.header.epoch = 3;
    append(&mut log, first);
    let mut refuse = |draft: Draft<'_>, cut: usize| {
        let mut bytes = Vec::new();
        let header = draft.encode(&mut bytes);
        match log.append(&[header], &bytes[cut..]).unwrap_err() {
            ChunkLogError::Refused { reason, .. } => reason,
            other => panic!("{other}"),
        }
    };
    let good = Draft::new(1, vec![vec![1]]);
    let late = |chunk_id, epoch| {
        let mut draft = Draft::new(chunk_id, vec![vec![1]]);
        draft.header.epoch = epoch;
        draft
    };
    assert_eq!(refuse(good, 0), RefusalReason::Epoch { last: 3, found: 1 });
    assert_eq!(refuse(late(2, 3), 0), RefusalReason::Offset { expected: 1, found: 2 });
    assert_eq!(refuse(late(1, 3), 1), RefusalReason::Length { expected: 53, found: 52 });
    assert_eq!(refuse(Draft { messages: Vec::new(), ..late(1, 3) }, 0), RefusalReason::NoRecords);
    let mut unsealed = Vec::new();
    let header = late(1, 3).encode(&mut unsealed);
    unsealed[45..48].fill(0);
    let refused = log.append(&[header], &unsealed).unwrap_err();
    assert!(matches!(refused, ChunkLogError::Refused { reason: RefusalReason::NoSeal(1), .. }));
    append(&mut log, late(1, 4));
    assert_eq!(rest_ids(&mut reader(log.view(), Start::First)), [0, 1]);
    assert_eq!(log.epoch(), Some(4));
}

#[test]
fn readers_start_where_they_are_asked_to() {
    let disk = MemoryDisk::new();
    let options = LogOptions { segment_bytes_max: 300, ..LogOptions::default() };
    let (mut log, _) = open(&files(&disk), options);
    // Chunks of three offsets and 500 ms each: 0, 3, ... at 1000, 1500, ...
    for n in 0..20 {
        let mut chunk = draft(&log, &[10, 10, 10]);
        chunk.header.timestamp_ms = 1_000 + 500 * n;
        append(&mut log, chunk);
    }
    assert!(log.view().n_segments() > 5);
    let begins = |start| reader(log.view(), start).next_offset();
    assert_eq!((begins(Start::First), begins(Start::Next), begins(Start::Last)), (0, 60, 57));
    for offset in 0..70 {
        let expected = if offset < 60 { offset / 3 * 3 } else { 60 };
        assert_eq!(begins(Start::Offset(offset)), expected, "{offset}");
    }
    for at_ms in (0..12_000).step_by(250) {
        let n = (at_ms - 1_000_i64).max(0).cast_unsigned().div_ceil(500).min(20);
        assert_eq!(begins(Start::Timestamp(at_ms)), n * 3, "{at_ms}");
    }
    let ids = rest_ids(&mut reader(log.view(), Start::Offset(31)));
    assert_eq!(ids, (10..20).map(|n| n * 3).collect::<Vec<u64>>());
}
