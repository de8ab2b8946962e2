//! Logs on the file system.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use chunk_log::{
    ChunkBytes, ChunkLog, ChunkLogError, LogOptions, Next, Retention, Start, StreamFiles, Wait,
    delete_log,
};
use segments::{Disk, FileError, FileKind, RealDisk, ReservedDisk};

use crate::parts::*;

#[test]
fn chunks_are_read_without_waiting_and_sent_from_their_file() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir.path()).unwrap());
    let kind = FileKind { name: "streams", dir: chunk_log::STREAMS_DIR };
    let disk = ReservedDisk::new(disk, &[kind]);
    let files = StreamFiles::new(Arc::new(disk.clone()), 100);
    let (mut log, _) = open(&files, LogOptions::default());
    add(&mut log, &[12]);
    add(&mut log, &[300_000]);
    log.checkpoint().unwrap();
    drop(log);
    let (mut log, found) = open(&files, LogOptions::default());
    assert_eq!((found.end.next_offset, found.cut.len()), (2, 0));
    let mut reader = reader(log.view(), Start::First);
    // The file is not open yet. What was just written is in memory.
    assert!(matches!(reader.read_next(Wait::Never), Err(ChunkLogError::WouldBlock)));
    let small = reader.read_next(Wait::ForDisk).unwrap();
    assert!(matches!(small, Next::Chunk(_)), "{small:?}");
    let Next::Chunk(large) = reader.read_next(Wait::Never).unwrap() else { panic!() };
    let ChunkBytes::File(range) = &large.bytes else { panic!("{large:?}") };
    assert!(range.descriptor().is_some());
    assert_eq!(data(&large)[4..], [1; 300_000]);
    assert!(matches!(reader.read_next(Wait::Never).unwrap(), Next::End));
    let traffic = disk.traffic();
    let of_streams = traffic.iter().find(|kind| kind.kind == "streams").unwrap();
    assert!(of_streams.write_bytes > 300_000, "{of_streams:?}");
    add(&mut log, &[1]);
    delete_log(&files, ID).unwrap();
    assert_eq!(disk.list(chunk_log::STREAMS_DIR).unwrap(), [""; 0]);
    // Writer and reader are still there. The space of the files is not theirs any more.
    drop(large);
    assert_eq!((files.n_open(), n_unlinked(dir.path())), (0, 0));
    let is_gone = |error: ChunkLogError| {
        matches!(error, ChunkLogError::Disk(FileError::Io { source, .. })
            if source.kind() == ErrorKind::NotFound)
    };
    let mut late = crate::parts::reader(log.view(), Start::First);
    assert!(late.read_next(Wait::ForDisk).is_err_and(is_gone));
    let mut bytes = Vec::new();
    let header = draft(&log, &[1]).encode(&mut bytes);
    assert!(log.append(&[header], &bytes).is_err_and(is_gone));
    assert_eq!((files.n_open(), n_unlinked(dir.path())), (0, 0));
}

/// Closing the last handle of a large file takes as long as giving its space back.
#[test]
fn neither_who_writes_nor_who_reads_closes_removed_segments() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir.path()).unwrap());
    let files = StreamFiles::new(disk, 100);
    let retention = Retention { bytes_max: Some(1_000), age_max_ms: None };
    let options = LogOptions { segment_bytes_max: 1_000, retention, ..LogOptions::default() };
    let (mut log, _) = open(&files, options);
    add(&mut log, &[10_000]);
    let mut inside = reader(log.view(), Start::First);
    chunk(&mut inside);
    for _ in 0..9 {
        add(&mut log, &[1_000]);
    }
    assert_eq!((log.view().first_offset(), n_unlinked(dir.path())), (8, 8));
    files.close_removed();
    assert_eq!(n_unlinked(dir.path()), 1, "it is read");
    drop(inside);
    assert_eq!(n_unlinked(dir.path()), 1);
    files.close_removed();
    assert!(!files.has_removed());
    assert_eq!(n_unlinked(dir.path()), 0);
    for _ in 0..200 {
        add(&mut log, &[1_000]);
    }
    assert_eq!(n_unlinked(dir.path()), 64, "no more than these wait");
}

/// How many files without a name the process has open that were in `dir`.
fn n_unlinked(dir: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let files = open.filter_map(|it| std::fs::read_link(it.unwrap().path()).ok());
    files
        .filter(|file| file.starts_with(dir) && file.to_string_lossy().ends_with(" (deleted)"))
        .count()
}

/// As many streams as a node may have, with few files open.
#[test]
fn thousands_of_streams_open_again_with_few_files() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir.path()).unwrap());
    let files = StreamFiles::new(Arc::clone(&disk), 50);
    let open = |files: &Arc<StreamFiles>, id| {
        let (log, found) = ChunkLog::open(files, id, LogOptions::default()).unwrap();
        log.view().set_committed(found.end);
        log
    };
    let mut logs: Vec<ChunkLog> = (0..2_000).map(|id| open(&files, id)).collect();
    for log in &mut logs {
        add(log, &[10, 20]);
        assert!(files.n_open() <= 50);
    }
    drop(logs);
    let files = StreamFiles::new(disk, 50);
    let logs: Vec<ChunkLog> = (0..2_000).map(|id| open(&files, id)).collect();
    assert_eq!(files.n_open(), 0, "an idle log has no file open");
    for log in &logs {
        assert_eq!(rest_ids(&mut reader(log.view(), Start::First)), [0]);
    }
    assert!(files.n_open() <= 50);
}
