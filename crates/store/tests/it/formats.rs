//! Files of every format version that was ever written are opened; those of the newest are written
//! byte by byte as they were. `samples/` has them. After a change of format: a new version in the
//! file, and another sample beside the old one, which stays.
//!
//! `LEVERET_WRITE_SAMPLES=1 cargo test -p store --test it formats` writes what is missing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use message::{Body, MessageRef};
use segments::{Disk, OpenMode};
use store::blob::{BlobId, BlobOptions, BlobStore};
use store::v1::{Live, V1Options, V1Queue};
use store::{Queued, StoredBody};
use testing::MemoryDisk;

fn samples(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(format)
}

fn content(disk: &MemoryDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name, OpenMode::Existing).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Compares the files in `dir` with the sample.
fn compare(disk: &MemoryDisk, dir: &str, format: &str) {
    let samples = samples(format);
    let names = disk.list(dir).unwrap();
    if std::env::var_os("LEVERET_WRITE_SAMPLES").is_some() && !samples.exists() {
        std::fs::create_dir_all(&samples).unwrap();
        for name in &names {
            std::fs::write(samples.join(name), content(disk, &format!("{dir}/{name}"))).unwrap();
        }
    }
    let mut known: Vec<String> = std::fs::read_dir(&samples)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    known.sort();
    assert_eq!(names, known);
    for name in names {
        let known = std::fs::read(samples.join(&name)).unwrap();
        assert_eq!(content(disk, &format!("{dir}/{name}")), known, "{name} is written otherwise");
    }
}

/// A disk with a sample in `dir`.
fn disk_with(format: &str, dir: &str) -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.create_dir(dir).unwrap();
    for entry in std::fs::read_dir(samples(format)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let file = disk.open(&format!("{dir}/{name}"), OpenMode::New).unwrap();
        file.write_at(0, &std::fs::read(entry.path()).unwrap()).unwrap();
    }
    disk
}

/// One file is full and sealed, the next one is being filled.
fn blob_options() -> BlobOptions {
    BlobOptions { file_bytes: 132, ..BlobOptions::new("blobs") }
}

const BLOBS: [&[u8]; 4] =
    [b"first", b"", b"the third one makes the file full: it is the longest", b"4"];

#[test]
fn blobs_of_every_version() {
    let disk = MemoryDisk::new();
    let store = BlobStore::open(Arc::new(disk.clone()), blob_options()).unwrap();
    let ids = BLOBS.map(|blob| store.append(&[blob]));
    store.sync().unwrap();
    let expected = [(1, 0), (1, 1), (1, 2), (2, 0)].map(|(file, index)| BlobId { file, index });
    assert_eq!(ids, expected);
    compare(&disk, "blobs", "blob-2");

    for format in ["blob-1", "blob-2"] {
        let disk = disk_with(format, "blobs");
        let store = BlobStore::open(Arc::new(disk), blob_options()).unwrap();
        let more = store.append(&[b"more"]);
        store.sync().unwrap();
        for (id, blob) in ids.into_iter().zip(BLOBS).chain([(more, b"more".as_slice())]) {
            let mut into = Vec::new();
            store.read(id, &mut into).unwrap();
            assert_eq!(into, blob);
        }
    }
}

fn queued(position: u64, stored: Option<StoredBody>) -> Queued<'static> {
    let message = MessageRef {
        exchange: b"orders",
        routing_key: b"eu.de",
        properties: &[0x10, 0, 2],
        body: Body::Borrowed(b"hello"),
        persistent: true,
        annotations: Default::default(),
    };
    Queued { position, message, stored, is_delivered: position == 3 }
}

#[test]
fn a_queue_of_the_older_form_of_version_1() {
    let disk = MemoryDisk::new();
    let bodies = BlobStore::open(Arc::new(disk.clone()), blob_options()).unwrap();
    let open = |disk: &MemoryDisk, each: &mut dyn FnMut(Live)| {
        V1Queue::open(Arc::new(disk.clone()), V1Options::new("q"), each).unwrap()
    };
    let (queue, _) = open(&disk, &mut |_| ());
    let stored =
        StoredBody { blob: BlobId { file: 7, index: 9 }, bytes: 5_000, properties_bytes: 0 };
    (0..4).for_each(|position| {
        queue.publish(&queued(position, None), 0);
    });
    queue.publish(&queued(20_000, Some(stored)), 0);
    queue.ack(1..2);
    queue.flush(&bodies).unwrap();
    queue.publish(&queued(20_001, None), 0);
    queue.deliver(2..3);
    queue.ack(0..1);
    queue.sync(&bodies).unwrap();
    compare(&disk, "q", "v1-1");

    let disk = disk_with("v1-1", "q");
    let mut found = Vec::new();
    let (queue, recovered) = open(&disk, &mut |live: Live| {
        found.push((live.position, live.is_delivered, live.blob));
    });
    let expected = [
        (2, true, None),
        (3, true, None),
        (20_000, false, Some(stored.blob)),
        (20_001, false, None),
    ];
    assert_eq!(found, expected);
    assert_eq!((recovered.next_position, recovered.damage.len()), (20_002, 0));
    let mut n_read = 0;
    for part in [0..16_384, 16_384..20_002] {
        queue.read(part, u64::MAX, &mut |position, read| {
            let read = read.unwrap();
            let expected = queued(position, (position == 20_000).then_some(stored));
            assert_eq!(read.message.exchange, expected.message.exchange);
            assert_eq!(read.message.properties, expected.message.properties);
            let body: &[u8] = if expected.stored.is_some() { b"" } else { b"hello" };
            assert_eq!((read.message.body.bytes(), read.stored), (body, expected.stored));
            n_read += 1;
        });
    }
    assert_eq!(n_read, 4);
}
