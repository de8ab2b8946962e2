//! A queue's files of every format version that was ever written are opened; those of the newest are written
//! byte by byte as they were. `samples/` has them. After a change of format: a new version in the file, and
//! another sample beside the old one, which stays.
//!
//! `LEVERET_WRITE_SAMPLES=1 cargo test -p queue-index --test it formats` writes what is missing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use message::{Body, MessageRef};
use queue_index::{Live, V1Options, V1Queue};
use store::blob::{BlobId, BlobOptions, BlobStore};
use store::{Queued, StoredBody};
use testing::{MemoryDisk, compare_with_sample, disk_with_sample};

fn samples(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(format)
}

fn queued(position: u64, stored: Option<StoredBody>) -> Queued<'static> {
    let message = MessageRef {
        exchange: b"orders",
        routing_key: b"eu.de",
        properties: &[0x10, 0, 2],
        body: Body::Borrowed(b"hello"),
        persistent: true,
        annotations: Default::default(),
        form: message::BodyForm::Plain,
    };
    Queued { position, message, stored, is_delivered: position == 3 }
}

#[test]
fn a_queue_of_the_older_form_of_version_1() {
    let disk = MemoryDisk::new();
    let bodies = BlobStore::open(Arc::new(disk.clone()), BlobOptions::new("blobs")).unwrap();
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
    compare_with_sample(&disk, "q", &samples("v1-1")).unwrap();

    let disk = disk_with_sample(&samples("v1-1"), "q").unwrap();
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
