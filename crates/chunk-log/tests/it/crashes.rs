//! Crashes at every write, against a naive model: a list of chunks.

use chunk_log::{ChunkLog, LogOptions, Start, StreamFiles};
use std::sync::Arc;
use streamproto::Chunk;
use testing::{CrashOutcome, Fault, MemoryDisk, Random};

use crate::parts::*;

const OPTIONS: LogOptions = LogOptions {
    segment_bytes_max: 900,
    segment_chunks_max: 9,
    retention: chunk_log::Retention { bytes_max: None, age_max_ms: None },
    initial_offset: 0,
};

/// The chunks there must be at least, and all there may be.
#[derive(Debug, Default)]
struct Model {
    /// Id and bytes of each chunk.
    chunks: Vec<(u64, Vec<u8>)>,
    n_synced: usize,
    /// The chunks before a cut that is not synced yet: it may be there again.
    before_cut: Option<Vec<(u64, Vec<u8>)>>,
}

/// Writes until something fails.
fn write_on(log: &mut ChunkLog, model: &mut Model, random: &mut Random) -> Option<()> {
    for _ in 0..30 {
        match random.below(10) {
            0 => {
                log.sync().ok()?;
                model.n_synced = model.chunks.len();
            }
            1 => {
                log.checkpoint().ok()?;
                model.n_synced = model.chunks.len();
            }
            2 => {
                let n = model.chunks.len() - random.below(4).min(model.chunks.len());
                model.n_synced = model.n_synced.min(n);
                model.before_cut = Some(model.chunks.clone());
                log.cut_off_from(n as u64).ok()?;
                model.chunks.truncate(n);
                log.sync().ok()?;
                model.n_synced = n;
                model.before_cut = None;
            }
            _ => append_run(log, model, random)?,
        }
    }
    Some(())
}

fn append_run(log: &mut ChunkLog, model: &mut Model, random: &mut Random) -> Option<()> {
    let (mut headers, mut bytes) = (Vec::new(), Vec::new());
    let mut next = log.end().next_offset;
    for _ in 0..=random.below(3) {
        let trailer = random.bytes(random.clone().below(40));
        let messages = (0..=random.below(3)).map(|_| {
            let n = random.below(60);
            random.bytes(n)
        });
        let mut chunk = Vec::new();
        let draft = Draft { trailer: &trailer, ..Draft::new(next, messages.collect()) };
        let header = draft.encode(&mut chunk);
        next = header.next_offset();
        bytes.extend(&chunk);
        headers.push(header);
        model.chunks.push((header.chunk_id, chunk));
    }
    log.append(&headers, &bytes).ok()?;
    Some(())
}

/// The chunks of a log are the first ones of the model, at least those that were synced.
fn compare(log: &ChunkLog, model: &mut Model, what: &str) {
    let found = rest(&mut reader(log.view(), Start::First));
    let found: Vec<Vec<u8>> = found.iter().map(stored).collect();
    assert!(found.len() >= model.n_synced, "{what}: {} of {}", found.len(), model.n_synced);
    if let Some(before) = model.before_cut.take()
        && found.len() > model.chunks.len()
    {
        model.chunks = before;
    }
    let expected: Vec<Vec<u8>> = model.chunks.iter().map(|(_, bytes)| bytes.clone()).collect();
    let is_right = found.len() <= expected.len() && found.iter().eq(&expected[..found.len()]);
    assert!(is_right, "{what}: {:?}", ids(&found));
    assert_eq!(log.end().next_ordinal, found.len() as u64, "{what}");
    model.chunks.truncate(found.len());
    // Every chunk is found by its offset, and by its ordinal.
    for (n, (id, _)) in model.chunks.iter().enumerate() {
        assert_eq!(reader(log.view(), Start::Offset(*id)).next_offset(), *id, "{what}");
        let ordinal = log.view().ordinal_of(*id, chunk_log::Bound::Written).unwrap();
        assert_eq!(ordinal, Some(n as u64), "{what}");
    }
}

fn ids(chunks: &[Vec<u8>]) -> Vec<u64> {
    let header = |chunk: &Vec<u8>| Chunk::decode_stored(chunk).unwrap().0.header;
    chunks.iter().map(|chunk| header(chunk).chunk_id).collect()
}

/// A crash at one write, and then another.
fn run(seed: u64, crash: impl Fn(&mut Random) -> CrashOutcome) {
    match seed % 3 {
        0 => run_with(seed, |disk| Ok(files(disk)), &crash),
        _ => run_with(seed, noted, &crash),
    }
}

/// Nothing that is intact is called damaged, whatever is noted of it.
fn run_with(
    seed: u64,
    files: impl Fn(&MemoryDisk) -> chunk_log::Result<Arc<StreamFiles>>,
    crash: impl Fn(&mut Random) -> CrashOutcome,
) {
    let mut random = Random::new(seed);
    let mut disk = MemoryDisk::new();
    let mut model = Model::default();
    for round in 0..4 {
        disk.inject(disk.operations() + random.below(70) as u64, Fault::PowerLoss);
        let opened = files(&disk).and_then(|files| ChunkLog::open(&files, ID, OPTIONS));
        if let Ok((mut log, _)) = opened {
            // What was found is what counts, until power is lost: only then may it be less.
            model.chunks.truncate(log.end().next_ordinal as usize);
            write_on(&mut log, &mut model, &mut random);
        }
        disk = disk.survive(crash(&mut random));
        let opened = MemoryDisk::clone(&disk);
        let (log, found) = open(&files(&opened).unwrap(), OPTIONS);
        compare(&log, &mut model, &format!("seed {seed}, round {round}: {found:?}"));
        disk = opened.survive(CrashOutcome::Everything);
        let again = open(&files(&disk).unwrap(), OPTIONS).1;
        assert_eq!((again.end, again.cut), (found.end, Vec::new()), "seed {seed}");
    }
}

#[test]
fn power_loss_at_any_write_leaves_whole_chunks_and_all_synced_ones() {
    for seed in 0..1_000 {
        run(seed, |random| CrashOutcome::Torn(random.next()));
    }
    for seed in 0..200 {
        run(seed, |_| CrashOutcome::OnlySynced);
    }
}

#[test]
fn a_process_that_dies_at_any_write_loses_nothing_it_had_written() {
    for seed in 0..200 {
        run(seed, |_| CrashOutcome::Everything);
    }
}

/// Retention removes segments while power is lost: what is left is whole and side by side.
#[test]
fn power_loss_while_segments_are_removed_leaves_the_newer_ones() {
    for seed in 0..600 {
        match seed % 3 {
            0 => lose_power_while_removing(seed, |disk| Ok(files(disk))),
            _ => lose_power_while_removing(seed, noted),
        }
    }
}

fn lose_power_while_removing(
    seed: u64,
    files: impl Fn(&MemoryDisk) -> chunk_log::Result<Arc<StreamFiles>>,
) {
    let retention = chunk_log::Retention { bytes_max: Some(1_500), age_max_ms: None };
    let options = LogOptions { retention, segment_bytes_max: 400, ..OPTIONS };
    {
        let mut random = Random::new(seed);
        let disk = MemoryDisk::new();
        disk.inject(random.below(200) as u64, Fault::PowerLoss);
        let mut n_synced = 0;
        let opened = files(&disk).and_then(|files| ChunkLog::open(&files, ID, options));
        if let Ok((mut log, _)) = opened {
            for n in 0..60 {
                let mut bytes = Vec::new();
                let header = draft(&log, &[50]).encode(&mut bytes);
                let Ok(appended) = log.append(&[header], &bytes) else { break };
                log.view().set_committed(appended.end);
                if n % 7 == 0 && log.sync().is_ok() {
                    n_synced = n + 1;
                }
            }
        }
        let disk = disk.survive(CrashOutcome::Torn(random.next()));
        let (mut log, found) = open(&files(&disk).unwrap(), options);
        assert!(found.end.next_offset >= n_synced, "{seed}: {found:?}, {n_synced}");
        let first = log.view().first_offset();
        let expected: Vec<u64> = (first..found.end.next_offset).collect();
        assert_eq!(rest_ids(&mut reader(log.view(), Start::First)), expected, "{seed}");
        for _ in 0..20 {
            add(&mut log, &[50]);
        }
        log.sync().unwrap();
        let bytes: usize = disk.files().iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes < 4_000, "{seed}: nothing is left behind for ever: {:?}", disk.files());
    }
}

/// A disk that fails or is full: the log takes nothing more, and what was there before is there afterwards.
#[test]
fn after_a_failed_write_or_sync_nothing_is_taken_until_the_next_opening() {
    for fault in [Fault::Io, Fault::NoSpace] {
        for operation in 0..40 {
            let disk = MemoryDisk::new();
            let (mut log, _) = open(&files(&disk), OPTIONS);
            disk.inject(disk.operations() + operation, fault);
            let mut n = 0;
            let failed = loop {
                let mut bytes = Vec::new();
                let header = draft(&log, &[50]).encode(&mut bytes);
                match log.append(&[header], &bytes).and_then(|_| log.sync()) {
                    Ok(()) => n += 1,
                    Err(error) => break error,
                }
            };
            let (mut bytes, next) = (Vec::new(), log.end().next_offset);
            let header = draft(&log, &[50]).encode(&mut bytes);
            let again = log.append(&[header], &bytes).unwrap_err();
            assert!(matches!(again, chunk_log::ChunkLogError::Failed { .. }), "{failed}: {again}");
            assert!(log.sync().is_err() && log.cut_off_from(0).is_err());
            drop(log);
            let (log, found) = open(&files(&disk), OPTIONS);
            assert!((n..=next + 1).contains(&found.end.next_offset), "{operation} {fault:?}");
            let expected: Vec<u64> = (0..found.end.next_offset).collect();
            assert_eq!(rest_ids(&mut reader(log.view(), Start::First)), expected);
        }
    }
}

/// Syncs end in any order: the names of files are durable once one is done that has synced them itself.
#[test]
fn a_sync_makes_new_files_durable_although_one_begun_before_is_not_done() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&files(&disk), OPTIONS);
    add(&mut log, &[10]);
    let _earlier = log.begin_sync().unwrap();
    let later = log.begin_checkpoint().unwrap();
    let ran = later.run(&disk);
    log.finish_sync(&later, ran).unwrap();
    let end = log.end();
    let disk = disk.survive(CrashOutcome::OnlySynced);
    assert_eq!(open(&files(&disk), OPTIONS).1.end, end);
}
