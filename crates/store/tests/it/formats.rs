//! Files of every format version that was ever written are opened; those of the newest are written
//! byte by byte as they were. `samples/` has them. After a change of format: a new version in the
//! file, and another sample beside the old one, which stays.
//!
//! `LEVERET_WRITE_SAMPLES=1 cargo test -p store --test it formats` writes what is missing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::blob::{BlobId, BlobOptions, BlobStore};
use testing::{MemoryDisk, compare_with_sample, disk_with_sample};

fn samples(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(format)
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
    compare_with_sample(&disk, "blobs", &samples("blob-2")).unwrap();

    for format in ["blob-1", "blob-2"] {
        let disk = disk_with_sample(&samples(format), "blobs").unwrap();
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
