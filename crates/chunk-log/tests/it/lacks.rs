//! Missing parts of a stream are noticed, nothing is touched, and it goes on without once that is accepted.

use chunk_log::{
    ChunkLog, ChunkLogError, LogOptions, Recovered, Retention, Start, StreamTable, find_unaccepted,
};
use segments::{Disk as _, OpenMode};
use std::sync::Arc;
use testing::{CrashOutcome, MemoryDisk, Random};

use crate::parts::*;

const OPTIONS: LogOptions = LogOptions {
    segment_bytes_max: 900,
    segment_chunks_max: 9,
    retention: Retention { bytes_max: None, age_max_ms: None },
    initial_offset: 0,
};

/// Messages of the whole stream.
const N: u64 = 40;

/// A stream of several segments, one message a chunk, at its end, and its segments' names.
fn whole(is_stopped: bool) -> (MemoryDisk, Vec<String>) {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&noted(&disk).unwrap(), OPTIONS);
    for _ in 0..N {
        add(&mut log, &[50]);
    }
    if is_stopped {
        log.checkpoint().unwrap()
    } else {
        log.sync().unwrap()
    }
    let names = disk.files().into_iter().map(|(name, _)| name);
    let segments: Vec<String> = names.filter(|name| name.ends_with(".segment")).collect();
    assert!(segments.len() >= 4, "{segments:?}");
    (disk.survive(CrashOutcome::Everything), segments)
}

fn try_open(disk: &MemoryDisk) -> chunk_log::Result<(ChunkLog, Recovered)> {
    ChunkLog::open(&noted(disk)?, ID, OPTIONS)
}

/// It is refused with this text, and nothing is touched. Then it is accepted; what is left of it.
fn refused(disk: &MemoryDisk, told: &str, n_lost: u64) -> Vec<u64> {
    let before = contents(disk);
    let Err(ChunkLogError::Lost(lack)) = try_open(disk) else { panic!("it opens without {told}") };
    assert!(lack.what.contains(told), "{told}: {}", lack.what);
    assert_eq!(lack.n_messages, n_lost, "{}", lack.what);
    assert_eq!(contents(disk), before, "touched without {told}");
    let notes = StreamTable::read(disk).unwrap();
    assert_eq!(find_unaccepted(disk, ID, notes.as_ref()).unwrap(), Some(lack));
    StreamTable::open(Arc::new(disk.clone()), 1).unwrap().accept_loss(ID).unwrap();
    let (mut log, found) = try_open(disk).unwrap();
    assert_eq!(found.lost.map(|lack| lack.n_messages), Some(n_lost));
    log.view().set_committed(found.end);
    assert!(log.end().next_offset >= N, "offsets are not given twice");
    let kept = rest_ids(&mut reader(log.view(), Start::First));
    add(&mut log, &[9]);
    log.checkpoint().unwrap();
    let crashed = disk.survive(CrashOutcome::OnlySynced);
    let (log, found) = try_open(&crashed).unwrap();
    assert!(found.lost.is_none() && found.cut.is_empty(), "{found:?}");
    log.view().set_committed(found.end);
    let mut all = kept.clone();
    all.push(log.end().next_offset - 1);
    assert_eq!(rest_ids(&mut reader(log.view(), Start::First)), all, "{told}");
    kept
}

fn contents(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let content = |(name, _): (String, usize)| {
        let bytes = segments::read_file(disk, &name).unwrap().unwrap();
        (name, bytes)
    };
    disk.files().into_iter().map(content).collect()
}

fn first_of(segment: &str) -> u64 {
    let (_, name) = segment.rsplit_once('/').unwrap();
    name.trim_end_matches(".segment").parse().unwrap()
}

fn without(offsets: std::ops::Range<u64>) -> Vec<u64> {
    (0..N).filter(|offset| !offsets.contains(offset)).collect()
}

#[test]
fn a_missing_segment_is_named_wherever_it_was() {
    for is_stopped in [true, false] {
        let (_, segments) = whole(is_stopped);
        for (n, gone) in segments.iter().enumerate() {
            let (disk, _) = whole(is_stopped);
            disk.remove(gone).unwrap();
            let next = segments.get(n + 1).map_or(N, |next| first_of(next));
            let lost = first_of(gone)..next;
            let kept = refused(&disk, &format!("{gone} is missing"), next - first_of(gone));
            assert_eq!(kept, without(lost), "{gone}");
        }
    }
}

#[test]
fn a_missing_directory_is_noticed() {
    let (disk, _) = whole(true);
    for (name, _) in disk.files() {
        if name.starts_with("streams/") {
            disk.remove(&name).unwrap();
        }
    }
    let (empty, told) = (disk.survive(CrashOutcome::Everything), "000.segment is missing");
    assert!(refused(&empty, told, N).is_empty());
    disk.remove_dir("streams/7").unwrap();
    assert!(refused(&disk, "streams/7 is missing", N).is_empty());
}

#[test]
fn a_segment_that_is_cut_short_is_noticed_wherever_it_ends() {
    let (_, segments) = whole(true);
    let mut random = Random::new(5);
    for round in 0..60 {
        let (disk, _) = whole(round % 2 == 0);
        let cut = &segments[random.below(segments.len())];
        let file = disk.open(cut, OpenMode::Existing).unwrap();
        let left = 32 + random.below(file.len().unwrap() as usize - 32) as u64;
        file.set_len(left).unwrap();
        let Err(ChunkLogError::Lost(lack)) = try_open(&disk) else { panic!("{cut}: {left}") };
        assert!(lack.what.contains(cut), "{cut}: {}", lack.what);
        let kept = refused(&disk, cut, lack.n_messages);
        assert_eq!(kept.len() as u64, N - lack.n_messages, "{cut}: {left}");
    }
}

#[test]
fn a_segment_of_another_stream_or_of_an_older_backup_is_noticed() {
    let (disk, segments) = whole(true);
    let (other, _) = open(&noted(&disk).unwrap(), OPTIONS);
    drop(other);
    let files = noted(&disk).unwrap();
    let (mut other, _) = ChunkLog::open(&files, ID + 1, OPTIONS).unwrap();
    for _ in 0..N {
        add(&mut other, &[50]);
    }
    other.checkpoint().unwrap();
    for (n, segment) in segments.iter().enumerate() {
        let swapped = disk.survive(CrashOutcome::Everything);
        let from = segment.replace("streams/7/", "streams/8/");
        let bytes = segments::read_file(&swapped, &from).unwrap().unwrap();
        swapped.remove(segment).unwrap();
        swapped.open(segment, OpenMode::New).unwrap().write_at(0, &bytes).unwrap();
        let next = segments.get(n + 1).map_or(N, |next| first_of(next));
        let n_lost = next - first_of(segment);
        let kept = refused(&swapped, &format!("{segment} belongs to another stream"), n_lost);
        assert_eq!(kept, without(first_of(segment)..next));
    }
    // The same stream, as it was earlier.
    let older = whole(true);
    let (mut log, found) = try_open(&older.0).unwrap();
    log.view().set_committed(found.end);
    let backup: Vec<_> = contents(&older.0);
    for _ in 0..30 {
        add(&mut log, &[50]);
    }
    log.checkpoint().unwrap();
    let disk = older.0.survive(CrashOutcome::Everything);
    for (name, _) in disk.files().into_iter().filter(|(name, _)| name.starts_with("streams/")) {
        disk.remove(&name).unwrap();
    }
    for (name, bytes) in backup.into_iter().filter(|(name, _)| name.starts_with("streams/")) {
        disk.open(&name, OpenMode::New).unwrap().write_at(0, &bytes).unwrap();
    }
    let Err(ChunkLogError::Lost(lack)) = try_open(&disk) else { panic!("an older backup opens") };
    assert_eq!(lack.n_messages, 30, "{}", lack.what);
}

/// Indexes are made anew from what they are about, and nothing is called damaged for it.
#[test]
fn a_lost_short_or_foreign_index_costs_nothing() {
    let (disk, segments) = whole(true);
    for segment in &segments {
        let index = segment.replace(".segment", ".index");
        for harm in 0..3 {
            let disk = disk.survive(CrashOutcome::Everything);
            let file = disk.open(&index, OpenMode::Existing).unwrap();
            match harm {
                0 => disk.remove(&index).unwrap(),
                1 => file.set_len(64 + 40).unwrap(),
                _ => file.set_len(0).unwrap(),
            }
            let (log, found) = try_open(&disk).unwrap();
            log.view().set_committed(found.end);
            let all: Vec<u64> = (0..N).collect();
            assert_eq!(rest_ids(&mut reader(log.view(), Start::First)), all, "{index} {harm}");
        }
    }
}

/// The last chunk is flipped: it is told of, and stays where it is, but nobody is given it.
#[test]
fn a_flipped_chunk_that_was_synced_is_told_and_not_cut_off() {
    let (disk, segments) = whole(false);
    let last = segments.last().unwrap();
    let file = disk.open(last, OpenMode::Existing).unwrap();
    let at = file.len().unwrap() as usize - 10;
    assert!(disk.flip_bit(last, at, 2));
    let (log, found) = try_open(&disk).unwrap();
    assert_eq!((found.damaged.len(), found.cut.len(), found.end.next_offset), (1, 0, N));
    assert_eq!((found.damaged[0].offset, found.damaged[0].n_messages), (Some(N - 1), 1));
    log.view().set_committed(found.end);
    assert!(log.view().note_damaged(&found.damaged[0]));
    assert!(!log.view().note_damaged(&found.damaged[0]), "it is told once");
    let kept = rest_ids(&mut reader(log.view(), Start::First));
    assert_eq!(kept, without(N - 1..N));
    // Its header: what follows cannot be found any more.
    let header = file.len().unwrap() as usize - 54 - 48;
    assert!(disk.flip_bit(last, header, 0));
    refused(&disk, "segment: the synced chunk at byte", 1);
}

/// Chunks that were written whole and not synced are cut off, and their messages are counted.
#[test]
fn what_is_cut_off_says_how_many_messages_had_been_written() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&noted(&disk).unwrap(), OPTIONS);
    add(&mut log, &[50]);
    log.sync().unwrap();
    add(&mut log, &[50, 50]);
    add(&mut log, &[50, 50, 50]);
    let disk = disk.survive(CrashOutcome::Everything);
    let name = "streams/7/00000000000000000000.segment";
    let file = disk.open(name, OpenMode::Existing).unwrap();
    file.set_len(file.len().unwrap() - 1).unwrap();
    let (_, found) = try_open(&disk).unwrap();
    let cut: Vec<_> = found.cut.iter().map(|cut| cut.n_messages).collect();
    assert!(cut == [1] || cut == [3], "{cut:?}");
    assert_eq!(found.end.next_offset, 3);
}

#[test]
fn the_table_itself_is_missed_and_an_older_directory_is_believed() {
    let (disk, _) = whole(true);
    disk.remove("leveret-streams").unwrap();
    let told = "leveret-streams is missing: cannot tell whether streams/7 is complete";
    let Err(ChunkLogError::Lost(lack)) = try_open(&disk) else { panic!("it is not missed") };
    assert!(lack.what.starts_with(told), "{}", lack.what);
    let older = MemoryDisk::new();
    let (mut log, _) = open(&files(&older), OPTIONS);
    for _ in 0..N {
        add(&mut log, &[50]);
    }
    log.checkpoint().unwrap();
    let older = older.survive(CrashOutcome::Everything);
    let (log, found) = try_open(&older).unwrap();
    assert_eq!((found.end.next_offset, found.lost), (N, None));
    assert!(!log.notes.are_missing(), "what is durable is noted at once");
}

/// A note is lost with its slot, and then nothing is promised.
#[test]
fn a_damaged_note_promises_nothing() {
    let (whole, _) = whole(true);
    for at in 0..128 {
        let disk = whole.survive(CrashOutcome::Everything);
        assert!(disk.flip_bit("leveret-streams", at, 3));
        assert_eq!(try_open(&disk).unwrap().1.end.next_offset, N, "{at}");
    }
}
