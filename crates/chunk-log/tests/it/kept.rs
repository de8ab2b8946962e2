//! Retention, tracking, and files that are not what they were.

use chunk_log::{ChunkLog, LogOptions, Retention, Start, Tracking, Wait};
use streamproto::ChunkType;
use streamproto::tracking::{Tracked, TrackingForm, TrackingRecord};
use testing::{MemoryDisk, Random};

use crate::parts::*;

const HOUR_MS: i64 = 3_600_000;

#[test]
fn two_weeks_of_retention_by_age_and_size() {
    let disk = MemoryDisk::new();
    let retention = Retention { bytes_max: Some(200_000), age_max_ms: Some(3 * 24 * 3_600_000) };
    let options = LogOptions { segment_bytes_max: 10_000, retention, ..LogOptions::default() };
    let (mut log, _) = open(&files(&disk), options);
    let mut slow = reader(log.view(), Start::First);
    let mut random = Random::new(3);
    for hour in 0..14 * 24_i64 {
        // Little in the first week, much in the second.
        let n = if hour < 7 * 24 { 1 } else { 8 };
        for _ in 0..n {
            let mut chunk = draft(&log, &[random.below(2_000)]);
            chunk.header.timestamp_ms = hour * HOUR_MS;
            append(&mut log, chunk);
        }
        if hour % 6 == 0 {
            log.evaluate_retention(hour * HOUR_MS).unwrap();
        }
        let bytes: usize = disk.files().iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes < 220_000, "{hour}: {bytes}");
        let first_ms = log.view().first_timestamp_ms().unwrap().unwrap();
        assert!(first_ms >= (hour - 4 * 24) * HOUR_MS, "{hour}: {first_ms}");
        if hour % 50 == 0 {
            // It was left behind, and goes on with the first chunk there is, or a later one.
            let first = log.view().first_offset();
            slow.release();
            let chunk = chunk(&mut slow);
            assert!(chunk.header.chunk_id >= first, "{hour}");
        }
    }
    let (first, next) = (log.view().first_offset(), log.end().next_offset);
    assert!(first > 0);
    assert_eq!(
        rest_ids(&mut reader(log.view(), Start::Offset(0))),
        (first..next).collect::<Vec<_>>()
    );
    log.evaluate_retention(365 * 24 * HOUR_MS).unwrap();
    assert_eq!(log.view().n_segments(), 1, "the last one stays");
    drop(log);
    let (log, found) = open(&files(&disk), options);
    assert_eq!((found.end.next_offset, found.cut.len()), (next, 0));
    assert!(log.view().first_offset() > first);
}

#[test]
fn a_reader_in_a_removed_segment_reads_it_to_its_end() {
    let disk = MemoryDisk::new();
    let retention = Retention { bytes_max: Some(1_000), age_max_ms: None };
    let options = LogOptions { segment_bytes_max: 1_000, retention, ..LogOptions::default() };
    let (mut log, _) = open(&files(&disk), options);
    for _ in 0..9 {
        add(&mut log, &[100]);
    }
    let mut inside = reader(log.view(), Start::First);
    assert_eq!(chunk(&mut inside).header.chunk_id, 0);
    for _ in 0..20 {
        add(&mut log, &[100]);
    }
    assert!(log.view().first_offset() > 7);
    let ids = rest_ids(&mut inside);
    assert_eq!(ids[..6], [1, 2, 3, 4, 5, 6], "{ids:?}");
    assert_eq!(ids.last(), Some(&28));
}

#[test]
fn what_is_not_committed_is_not_removed() {
    let disk = MemoryDisk::new();
    let retention = Retention { bytes_max: Some(1), age_max_ms: Some(1) };
    let options = LogOptions { segment_bytes_max: 300, retention, ..LogOptions::default() };
    let (mut log, _) = open(&files(&disk), options);
    for _ in 0..20 {
        let mut bytes = Vec::new();
        let header = draft(&log, &[100]).encode(&mut bytes);
        log.append(&[header], &bytes).unwrap();
    }
    assert_eq!(log.evaluate_retention(i64::MAX).unwrap(), 0);
    assert_eq!(log.view().first_offset(), 0);
    log.view().set_committed(log.end());
    assert!(log.evaluate_retention(i64::MAX).unwrap() > 3);
    assert_eq!(log.view().n_segments(), 1);
}

/// A record of a publisher's last message, or of a stored offset.
fn record(random: &mut Random, chunk_id: u64) -> Vec<u8> {
    let reference = format!("name {}", random.below(30));
    let value = random.next() % 1_000;
    let tracked = match random.below(3) {
        0 => Tracked::Sequence { chunk_id, publishing_id: value },
        1 => Tracked::Offset(value),
        _ => Tracked::Timestamp(value as i64),
    };
    let mut bytes = Vec::new();
    let record = TrackingRecord { reference: reference.as_bytes(), tracked };
    record.encode(TrackingForm::Delta { chunk_id }, &mut bytes);
    bytes
}

/// Appends a chunk, and a snapshot before it if one is due, as whoever makes chunks does.
fn track(log: &mut ChunkLog, tracking: &mut Tracking, random: &mut Random) {
    let mut drafts = Vec::new();
    let mut next = log.end().next_offset;
    if log.is_snapshot_due()
        && let Some(records) = tracking.snapshot(log.view().first_offset(), i64::MIN)
    {
        let mut snapshot = Draft::new(next, vec![records]);
        snapshot.header.chunk_type = ChunkType::TRACKING_SNAPSHOT;
        drafts.push(snapshot);
        next += 1;
    }
    let records = record(random, next);
    let mut delta = Draft::new(next, vec![records.clone()]);
    if random.percent(50) {
        delta.header.chunk_type = ChunkType::TRACKING_DELTA;
    } else {
        delta.trailer = &records;
    }
    drafts.push(delta);
    let (mut bytes, mut headers) = (Vec::new(), Vec::new());
    for draft in drafts {
        let from = bytes.len();
        headers.push(draft.encode(&mut bytes));
        let chunk = streamproto::Chunk::decode_stored(&bytes[from..]).unwrap().0;
        tracking.apply(&chunk).unwrap();
    }
    let end = log.append(&headers, &bytes).unwrap().end;
    log.view().set_committed(end);
}

#[test]
fn tracking_is_the_same_after_a_start_as_before() {
    let disk = MemoryDisk::new();
    let options = LogOptions { segment_bytes_max: 5_000, ..LogOptions::default() };
    let mut random = Random::new(9);
    let mut tracking = Tracking::default();
    for _ in 0..20 {
        let (mut log, _) = open(&files(&disk), options);
        assert_eq!(log.restore_tracking().unwrap(), tracking);
        for _ in 0..random.below(100) {
            track(&mut log, &mut tracking, &mut random);
        }
    }
    assert!(!tracking.is_empty());
}

#[test]
fn a_million_references_take_bounded_memory() {
    let mut tracking = Tracking::default();
    for n in 0..300_000_u64 {
        let mut trailer = Vec::new();
        let reference = n.to_be_bytes();
        let sequence = Tracked::Sequence { chunk_id: n, publishing_id: n };
        for tracked in [sequence, Tracked::Offset(n), Tracked::Timestamp(0)] {
            let record = TrackingRecord { reference: &reference, tracked };
            record.encode(TrackingForm::Delta { chunk_id: n }, &mut trailer);
        }
        let mut bytes = Vec::new();
        Draft { trailer: &trailer, ..Draft::new(n, vec![vec![]]) }.encode(&mut bytes);
        tracking.apply(&streamproto::Chunk::decode_stored(&bytes).unwrap().0).unwrap();
    }
    let last = 299_999_u64;
    assert_eq!(tracking.sequence(&last.to_be_bytes()).unwrap().publishing_id, last);
    assert_eq!(tracking.offset(&last.to_be_bytes()), Some(last));
    for n in
        [tracking.sequences().count(), tracking.offsets().count(), tracking.timestamps().count()]
    {
        assert!((12_000..=chunk_log::REFERENCES_MAX).contains(&n), "{n}");
    }
    let first = last - 100;
    let snapshot = tracking.snapshot(first, 1).unwrap();
    let mut restored = Tracking::default();
    let mut bytes = Vec::new();
    let mut draft = Draft::new(last + 1, vec![snapshot]);
    draft.header.chunk_type = ChunkType::TRACKING_SNAPSHOT;
    draft.encode(&mut bytes);
    restored.apply(&streamproto::Chunk::decode_stored(&bytes).unwrap().0).unwrap();
    assert_eq!(restored.sequences().count(), chunk_log::SNAPSHOT_SEQUENCES_MAX);
    assert!(restored.sequences().all(|(_, it)| it.chunk_id > last - 255));
    assert_eq!((restored.offsets().count(), restored.timestamps().count()), (101, 0));
}

#[test]
fn a_flipped_bit_anywhere_costs_its_chunk_and_a_scrub_finds_it() {
    let base = MemoryDisk::new();
    let options = LogOptions { segment_bytes_max: 600, ..LogOptions::default() };
    let (mut log, _) = open(&files(&base), options);
    for _ in 0..12 {
        let draft = Draft { filter: &[9; 16], trailer: b"abc", ..draft(&log, &[40, 40]) };
        append(&mut log, draft);
    }
    log.checkpoint().unwrap();
    drop(log);
    let mut random = Random::new(4);
    for (name, bytes) in base.files() {
        for at in 0..bytes {
            let disk = base.survive(testing::CrashOutcome::Everything);
            assert!(disk.flip_bit(&name, at, random.below(8) as u8));
            let Ok((log, found)) = ChunkLog::open(&files(&disk), ID, options) else {
                continue;
            };
            log.view().set_committed(found.end);
            let mut scrub = log.view().scrub();
            while scrub.step().unwrap() {}
            let found_all = scrub.found().n_chunks == 12 && found.cut.is_empty();
            // Headers of files and reserved bytes say nothing about chunks.
            let is_header = at < if name.ends_with("index") { 64 } else { 32 };
            let is_noticed = scrub.found().n_damaged > 0 || found != clean(&base, options);
            assert!(is_header || is_noticed || !found_all, "{name} {at}");
            let mut reader = reader(log.view(), Start::First);
            while let Ok(chunk_log::Next::Chunk(_)) = reader.read_next(Wait::ForDisk) {}
        }
    }
}

fn clean(base: &MemoryDisk, options: LogOptions) -> chunk_log::Recovered {
    open(&files(&base.survive(testing::CrashOutcome::Everything)), options).1
}

#[test]
fn files_of_anything_are_an_error_or_cut_and_never_a_panic() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let disk = MemoryDisk::new();
        let (mut log, _) =
            open(&files(&disk), LogOptions { segment_bytes_max: 400, ..Default::default() });
        for _ in 0..random.below(12) {
            add(&mut log, &[30, 60]);
        }
        if random.percent(50) {
            log.checkpoint().unwrap();
        }
        drop(log);
        for (name, bytes) in disk.files() {
            let file = segments::Disk::open(&disk, &name, segments::OpenMode::Existing).unwrap();
            match random.below(6) {
                0 => file.set_len(random.below(bytes + 1) as u64).unwrap(),
                1 => {
                    let junk = random.below(200);
                    file.write_at(random.below(bytes + 1) as u64, &random.bytes(junk)).unwrap();
                }
                2 => segments::Disk::remove(&disk, &name).unwrap(),
                _ => {}
            }
        }
        let Ok((mut log, found)) = ChunkLog::open(&files(&disk), ID, LogOptions::default()) else {
            continue;
        };
        log.view().set_committed(found.end);
        add(&mut log, &[5]);
        let starts = [Start::First, Start::Last, Start::Offset(3), Start::Timestamp(1_000)];
        for start in starts {
            let Ok(mut reader) = log.view().reader(start, Default::default()) else { continue };
            while let Ok(chunk_log::Next::Chunk(_)) = reader.read_next(Wait::ForDisk) {}
        }
        drop(log.restore_tracking());
        let mut scrub = log.view().scrub();
        while scrub.step().unwrap_or(false) {}
    }
}

#[test]
fn a_log_begins_at_the_offset_that_it_is_made_with() {
    const AT: u64 = (1 << 62) - 1;
    let disk = MemoryDisk::new();
    let options = LogOptions { initial_offset: AT, ..Default::default() };
    let (log, _) = open(&files(&disk), options);
    assert_eq!((log.end().next_offset, log.view().first_offset()), (AT, AT));
    drop(log);
    // Of one that is there nothing else is believed.
    let (log, recovered) = open(&files(&disk), LogOptions::default());
    assert_eq!((log.end().next_offset, recovered.end.next_offset), (AT, AT));
}
