//! Readers: read-ahead, filters, types, large chunks, files that are closed, chunks as they are stored.

use std::sync::Arc;

use chunk_log::{
    BloomFilter, Bound, ChunkBytes, ChunkLog, ChunkSelector, ENGINE_CHUNK, FilterMatcher,
    LogOptions, Next, Range, RangeStart, ReadAhead, ReadCounts, ReaderOptions, RefusalReason,
    Start, StreamFiles, Wait,
};
use proptest::prelude::*;
use streamproto::ChunkType;
use testing::MemoryDisk;

use crate::parts::*;

/// The costs of reading a whole log.
fn costs(log: &ChunkLog, options: ReaderOptions) -> ReadCounts {
    let before = log.view().read_counts();
    let mut reader = log.view().reader(Start::First, options).unwrap();
    rest(&mut reader);
    drop(reader);
    let after = log.view().read_counts();
    ReadCounts {
        file_reads: after.file_reads - before.file_reads,
        read_bytes: after.read_bytes - before.read_bytes,
        chunks: after.chunks - before.chunks,
        chunks_read_ahead: after.chunks_read_ahead - before.chunks_read_ahead,
        ..ReadCounts::default()
    }
}

fn with(read_ahead: ReadAhead) -> ReaderOptions {
    ReaderOptions { read_ahead, ..ReaderOptions::default() }
}

#[test]
fn one_read_brings_hundreds_of_small_chunks_or_two_bring_one() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&files(&disk), LogOptions::default());
    for _ in 0..10_000 {
        add(&mut log, &[12]);
    }
    let adaptive = costs(&log, with(ReadAhead::Adaptive));
    assert_eq!(adaptive.chunks, 10_000);
    assert!(adaptive.file_reads < 20, "{adaptive:?}");
    assert!(adaptive.read_bytes < 10_100 * 64, "hardly a byte is read twice: {adaptive:?}");
    assert!(adaptive.chunks_read_ahead > 9_980, "{adaptive:?}");
    let limited = costs(&log, with(ReadAhead::Limit(4096)));
    assert!((150..170).contains(&limited.file_reads), "{limited:?}");
    let off = costs(&log, with(ReadAhead::Off));
    assert_eq!((off.file_reads, off.chunks_read_ahead), (20_000, 0));
    let mut reader = reader(log.view(), Start::First);
    assert!(matches!(reader.read_next(Wait::Never).unwrap(), Next::Chunk(_)));
}

proptest! {
    /// Chunks at hand are those that come next, whatever their sizes and kinds.
    #[test]
    fn chunks_at_hand_are_the_next_ones(
        sizes in prop::collection::vec(prop_oneof![4 => 1..200_usize, 1 => 1..20_000_usize, 1 => Just(80_000)], 1..60),
        at_hand_of_eight in 1..8_u8,
    ) {
        let disk = MemoryDisk::new();
        let (mut log, _) = open(&files(&disk), LogOptions::default());
        for (at, size) in sizes.iter().enumerate() {
            let mut chunk = draft(&log, &[*size]);
            if at % 7 == 3 {
                chunk.header.chunk_type = ENGINE_CHUNK;
            }
            append(&mut log, chunk);
        }
        let mut plain = reader(log.view(), Start::First);
        let mut mixed = reader(log.view(), Start::First);
        let mut n_at_hand = 0;
        for turn in 0_u8.. {
            let Next::Chunk(expected) = plain.read_next(Wait::ForDisk).unwrap() else { break };
            let is_asked = turn % 8 < at_hand_of_eight;
            let at_hand = if is_asked { mixed.next_at_hand() } else { None };
            match at_hand {
                Some(chunk) => {
                    n_at_hand += 1;
                    prop_assert_eq!(chunk.header, expected.header);
                    prop_assert_eq!(chunk.header_bytes(), expected.header_bytes());
                    prop_assert_eq!(chunk.data(false), &data(&expected)[..]);
                }
                None => {
                    let Next::Chunk(next) = mixed.read_next(Wait::ForDisk).unwrap() else { panic!("an end") };
                    prop_assert_eq!(next.header, expected.header);
                    prop_assert_eq!(data(&next), data(&expected));
                }
            }
            prop_assert_eq!(mixed.next_offset(), plain.next_offset());
        }
        prop_assert!(matches!(mixed.read_next(Wait::ForDisk).unwrap(), Next::End));
        prop_assert!(mixed.next_at_hand().is_none() && n_at_hand <= sizes.len());
    }
}

#[test]
fn no_size_of_chunks_is_a_cliff() {
    for size in [100, 1_000, 3_900, 4_000, 4_100, 5_000, 10_000, 30_000, 60_000] {
        let disk = MemoryDisk::new();
        let (mut log, _) = open(&files(&disk), LogOptions::default());
        for _ in 0..50 {
            add(&mut log, &[size]);
        }
        let on = costs(&log, with(ReadAhead::Adaptive));
        let off = costs(&log, with(ReadAhead::Off));
        assert_eq!(off.file_reads, 100);
        assert!(on.file_reads <= 52, "{size}: {on:?}");
        assert!(on.read_bytes <= off.read_bytes + (64 << 10), "{size}: {on:?}, {off:?}");
    }
}

#[test]
fn streams_of_small_and_large_chunks_in_turn_are_no_worse_off() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&files(&disk), LogOptions::default());
    for _ in 0..50 {
        add(&mut log, &[100]);
        add(&mut log, &[200_000]);
    }
    let on = costs(&log, with(ReadAhead::Adaptive));
    let off = costs(&log, with(ReadAhead::Off));
    assert_eq!((on.chunks, off.chunks), (100, 100));
    assert!(on.file_reads <= off.file_reads, "{on:?}, {off:?}");
    // 200,000 bytes of each pair go out of the file, to be compared with what is read beyond.
    assert!(on.read_bytes < off.read_bytes + 50 * 200_000 / 20, "{on:?}, {off:?}");
    let large =
        costs(&log, ReaderOptions { file_range_bytes_min: u64::MAX, ..with(ReadAhead::Off) });
    assert_eq!(large.file_reads, 200, "a header and data each");
}

#[test]
fn large_chunks_are_ranges_of_the_file() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&files(&disk), LogOptions::default());
    let mut large = draft(&log, &[100_000]);
    large.trailer = b"\x01\x01a\0\0\0\0\0\0\0\x07";
    append(&mut log, large.clone());
    let chunk = chunk(&mut reader(log.view(), Start::First));
    let mut bytes = Vec::new();
    let trailer = large.trailer;
    large.encode(&mut bytes);
    let ChunkBytes::File(range) = &chunk.bytes else { panic!("{chunk:?}") };
    assert_eq!((range.at(), range.len()), (32 + 48, 100_004));
    assert_eq!(data(&chunk), bytes[48..48 + 100_004]);
    let with_trailer = range.clone().with_trailer(&chunk.header);
    let mut into = vec![0; 200_000];
    let n = with_trailer.read_at(100_004, &mut into).unwrap();
    assert_eq!(into[..n], *trailer);
    assert!(chunk.data().is_none() && chunk.parts().is_none() && range.descriptor().is_none());
}

#[test]
fn a_filter_passes_over_chunks_by_header_and_filter_alone() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&files(&disk), LogOptions::default());
    for n in 0..5_000_u64 {
        let mut filter = BloomFilter::new(16);
        filter.insert(Some(if n % 100 == 0 { b"rare" } else { b"frequent" }));
        let draft = Draft { filter: filter.bytes(), ..draft(&log, &[9_000]) };
        append(&mut log, draft);
    }
    let filter = Some(FilterMatcher::new([b"rare".as_slice()]));
    let options = ReaderOptions { filter, ..ReaderOptions::default() };
    let mut reader = log.view().reader(Start::First, options).unwrap();
    let first = reader.read_next(Wait::ForDisk).unwrap();
    assert!(matches!(first, Next::Chunk(_)), "{first:?}");
    let ids = rest_ids(&mut reader);
    assert_eq!(ids, (1..50).map(|n| n * 100).collect::<Vec<u64>>());
    let counts = log.view().read_counts();
    assert_eq!((counts.chunks, counts.chunks_passed_over), (50, 4_950));
    assert!(counts.read_bytes < 5_000 * 256 + 50 * 10_000, "{counts:?}");
}

#[test]
fn nobody_is_given_chunks_of_the_engine_or_of_types_to_come() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&files(&disk), LogOptions::default());
    let kinds =
        [ENGINE_CHUNK, ChunkType::USER, ChunkType(77), ChunkType::TRACKING_DELTA, ENGINE_CHUNK];
    for kind in kinds {
        let mut chunk = draft(&log, &[3]);
        chunk.header.chunk_type = kind;
        append(&mut log, chunk);
    }
    assert_eq!(rest_ids(&mut reader(log.view(), Start::First)), [1]);
    let all = ReaderOptions { selector: ChunkSelector::All, ..ReaderOptions::default() };
    assert_eq!(rest_ids(&mut log.view().reader(Start::First, all).unwrap()), [1, 3]);
    assert_eq!(rest_ids(&mut reader(log.view(), Start::Last)), [1]);
    let Range::Chunks(range) =
        log.view().read_range(RangeStart::Ordinal(0), Bound::Committed, 1 << 20).unwrap()
    else {
        panic!()
    };
    assert_eq!(range.headers.len(), 5, "followers are");
}

#[test]
fn few_files_are_open_however_many_are_used() {
    let disk = MemoryDisk::new();
    let files = StreamFiles::new(Arc::new(disk.clone()), 6);
    let options = LogOptions { segment_bytes_max: 500, ..LogOptions::default() };
    let mut logs: Vec<ChunkLog> =
        (0..20).map(|id| ChunkLog::open(&files, id, options).unwrap().0).collect();
    let views: Vec<_> = logs.iter().map(|log| log.view().clone()).collect();
    let mut readers: Vec<_> = views.iter().map(|view| reader(view, Start::First)).collect();
    for round in 0..10 {
        for (log, reader) in logs.iter_mut().zip(&mut readers) {
            add(log, &[100, 50]);
            assert_eq!(rest_ids(reader), [round * 2]);
            assert!(files.n_open() <= 6, "{}", files.n_open());
        }
    }
    logs.iter_mut().for_each(|log| log.checkpoint().unwrap());
    assert!(files.n_open() <= 6);
}

#[test]
fn a_follower_takes_ranges_and_begins_anew() {
    let disk = MemoryDisk::new();
    let options = LogOptions { segment_bytes_max: 700, ..LogOptions::default() };
    let (mut leader, _) = open(&files(&disk), options);
    for n in 0..60 {
        add(&mut leader, &[n; 3]);
    }
    let (copy_disk, from) = (MemoryDisk::new(), 25);
    let (mut follower, _) = open(&files(&copy_disk), options);
    add(&mut follower, &[1, 2]);
    let offset = leader.view().offset_of(from, Bound::Written).unwrap().unwrap();
    follower.start_at(from, offset).unwrap();
    assert_eq!(follower.view().first_offset(), offset);
    loop {
        let next = RangeStart::Ordinal(follower.end().next_ordinal);
        match leader.view().read_range(next, Bound::Written, 300).unwrap() {
            Range::Chunks(range) => {
                assert_eq!(range.first_ordinal, follower.end().next_ordinal);
                follower.append(&range.headers, &range.bytes).unwrap();
            }
            Range::End => break,
            Range::Gone => panic!("{next:?}"),
        }
    }
    assert_eq!(follower.end().next_offset, leader.end().next_offset);
    follower.view().set_committed(follower.end());
    let ids = rest_ids(&mut reader(leader.view(), Start::Offset(offset)));
    assert_eq!(rest_ids(&mut reader(follower.view(), Start::First)), ids);
    let refused = follower.cut_off_from(40).unwrap_err();
    let is_right = matches!(refused, chunk_log::ChunkLogError::Refused { reason, .. }
        if reason == RefusalReason::Committed(40));
    assert!(is_right, "{refused}");
    drop(follower);
    let (follower, found) = open(&files(&copy_disk), options);
    assert_eq!(found.end.next_ordinal, 60);
    for ordinal in 0..62 {
        let found = follower.view().offset_of(ordinal, Bound::Written).unwrap();
        let expected = (25..=60).contains(&ordinal).then_some(ordinal * 3);
        assert_eq!(found, expected, "{ordinal}");
    }
}

proptest! {
    /// Whatever the sizes, filters, and ways of reading: all chunks, in order, as they were.
    #[test]
    fn every_way_of_reading_gives_the_same_chunks(
        sizes in prop::collection::vec((0_usize..9_000, 0_usize..3, 0_usize..20), 1..60),
        segment_bytes_max in 500_u64..60_000,
        limit in 0_u32..20_000,
        file_range_bytes_min in 0_u64..10_000,
        release_every in 1_usize..20,
    ) {
        let disk = MemoryDisk::new();
        let options = LogOptions { segment_bytes_max, ..LogOptions::default() };
        let (mut log, _) = open(&files(&disk), options);
        let trailer = [7; 20];
        let mut expected = Vec::new();
        for (size, n_filter, n_trailer) in sizes {
            let filter = vec![1; [0, 16, 255][n_filter]];
            let draft = Draft { filter: &filter, trailer: &trailer[..n_trailer], ..draft(&log, &[size]) };
            let mut bytes = Vec::new();
            let header = draft.clone().encode(&mut bytes);
            let from = header.data_at() as usize;
            expected.push((header, bytes[from..from + header.data_bytes as usize].to_vec()));
            append(&mut log, draft);
        }
        for read_ahead in [ReadAhead::Adaptive, ReadAhead::Off, ReadAhead::Limit(limit)] {
            let options = ReaderOptions { read_ahead, file_range_bytes_min, ..Default::default() };
            let mut reader = log.view().reader(Start::First, options).unwrap();
            let mut found = Vec::new();
            while let Next::Chunk(chunk) = reader.read_next(Wait::ForDisk).unwrap() {
                found.push((chunk.header, data(&chunk)));
                if found.len() % release_every == 0 {
                    reader.release();
                }
            }
            prop_assert_eq!(&found, &expected);
        }
    }
}

/// Readers on threads of their own, beside a writer that begins and removes segments.
#[test]
fn readers_beside_a_writer_see_chunks_in_order() {
    const N: u64 = 3_000;
    let disk = MemoryDisk::new();
    let files = StreamFiles::new(Arc::new(disk.clone()), 3);
    let retention = chunk_log::Retention { bytes_max: Some(20_000), age_max_ms: None };
    let options = LogOptions { segment_bytes_max: 4_000, retention, ..LogOptions::default() };
    let (mut log, _) = open(&files, options);
    let view = log.view().clone();
    std::thread::scope(|scope| {
        for n in 0..3_u64 {
            let view = view.clone();
            scope.spawn(move || {
                let mut reader = reader(&view, Start::First);
                let (mut next, mut n_read) = (0, 0_u64);
                while next < N {
                    match reader.read_next(Wait::ForDisk).unwrap() {
                        Next::Chunk(chunk) => {
                            assert!(chunk.header.chunk_id >= next, "{next}: {chunk:?}");
                            assert_eq!(chunk.header.chunk_id + 1, reader.next_offset());
                            chunk.parts().unwrap().unwrap().verify_crc().unwrap();
                            next = reader.next_offset();
                            n_read += 1;
                        }
                        Next::PassedOver => {}
                        Next::End => std::thread::yield_now(),
                    }
                    if n == 2 && n_read % 7 == 0 {
                        reader.release();
                    }
                }
                assert!(n_read > 0);
            });
        }
        for n in 0..N {
            add(&mut log, &[usize::try_from(n % 97).unwrap()]);
        }
    });
}

/// The last segment is written and not committed: its first chunk has the position of the one that is read.
#[test]
fn what_was_just_written_is_not_taken_for_another_segments() {
    let options = LogOptions { segment_bytes_max: 1, ..LogOptions::default() };
    let (mut log, _) = open(&files(&MemoryDisk::new()), options);
    let mut reader = reader(log.view(), Start::First);
    add(&mut log, &[7]);
    let mut bytes = Vec::new();
    let header = draft(&log, &[7]).encode(&mut bytes);
    log.append(&[header], &bytes).unwrap();
    assert_eq!(chunk(&mut reader).header.chunk_id, 0);
}

#[test]
fn what_was_just_written_is_not_read_from_the_file() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&files(&disk), LogOptions::default());
    add(&mut log, &[12]);
    let mut readers = [ReadAhead::Adaptive, ReadAhead::Off]
        .map(|read_ahead| log.view().reader(Start::Next, with(read_ahead)).unwrap());
    let mut n_reads = |log: &ChunkLog| {
        readers.each_mut().map(|reader| {
            let before = log.view().read_counts().file_reads;
            let given = stored(&chunk(reader));
            assert!(rest(reader).is_empty());
            assert!(given.ends_with(&[log.end().next_offset as u8 - 1; 12]));
            log.view().read_counts().file_reads - before
        })
    };
    add(&mut log, &[12]);
    assert_eq!(n_reads(&log), [0, 2]);
    add(&mut log, &[12; 1_000]);
    assert_eq!(n_reads(&log), [2, 2], "too much to be kept");
    add(&mut log, &[12]);
    log.checkpoint().unwrap();
    assert_eq!(n_reads(&log), [1, 2], "nothing is kept of an idle log");
    let mut bytes = Vec::new();
    let header = draft(&log, &[7]).encode(&mut bytes);
    let uncommitted = log.append(&[header], &bytes).unwrap().end;
    log.cut_off_from(uncommitted.next_ordinal - 1).unwrap();
    add(&mut log, &[12]);
    assert_eq!(n_reads(&log), [0, 2], "what replaces what was cut off");
}
