//! What the older form costs, and going from one to the other:
//! `cargo run --release -p store --example conversion [directory]`.
//!
//! One queue of 1,000,000 messages of 100 bytes: published with a sync every 20,000 messages, read,
//! converted to pages and back, opened, acknowledged. Then 1,000 queues of 1,000 messages, converted
//! both ways with syncs of many queues together.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for the console")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use log::{Disk, RealDisk, SegmentId};
use message::{Body, MessageRef};
use store::Queued;
use store::backlog::{Backlog, LoadedPage, PagePool, Part, WrittenPage};
use store::blob::{BlobOptions, BlobStore};
use store::convert::{ToPages, pour};
use store::v1::{V1Options, V1Queue};

const BODY_BYTES: usize = 100;
const STEP_BYTES: u64 = 1 << 20;
/// Queues are made durable together when this much of them is in memory.
const TOGETHER_BYTES: u64 = 32 << 20;

fn main() {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = dir.join(format!("leveret-conversion-{}", std::process::id()));
    std::fs::remove_dir_all(&dir).ok();
    let stores = Stores::open(&dir);
    one_queue(&stores, 1_000_000);
    many_queues(&stores, 1_000, 1_000);
    std::fs::remove_dir_all(&dir).unwrap();
}

struct Stores {
    disk: Arc<RealDisk>,
    bodies: BlobStore,
    pages: BlobStore,
    pool: PagePool,
}

impl Stores {
    fn open(dir: &PathBuf) -> Self {
        let disk = Arc::new(RealDisk::new(dir).unwrap());
        let blobs = |dir| {
            BlobStore::open(Arc::clone(&disk) as Arc<dyn Disk>, BlobOptions::new(dir)).unwrap()
        };
        let (bodies, pages) = (blobs("bodies"), blobs("pages"));
        Self { disk, bodies, pages, pool: PagePool::default() }
    }

    fn queue(&self, dir: &str) -> V1Queue {
        let disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        V1Queue::open(disk, V1Options::new(dir), &mut |_| ()).unwrap().0
    }

    /// Converts to pages, up to appending them to their store.
    fn to_pages(&self, queue: &V1Queue) -> Vec<WrittenPage> {
        let mut conversion = ToPages::new(0..queue.next_position());
        let mut notes = Vec::new();
        loop {
            let step = conversion.step(queue, &self.pages, STEP_BYTES);
            notes.extend(step.pages);
            if step.is_done {
                return notes;
            }
            if !self.pages.has_room() {
                self.pages.sync().unwrap();
            }
        }
    }

    /// Converts from pages, up to publishing in `queue`.
    fn to_queue(&self, notes: &[WrittenPage], queue: &V1Queue) -> u64 {
        let mut backlog = Backlog::new();
        notes.iter().for_each(|page| backlog.restore_page(&page.all, SegmentId(1)).unwrap());
        let (mut image, mut next, mut n) = (Vec::new(), 0, 0);
        while let Some(part) = backlog.part_from(next) {
            let Part::Stored { blob, wanted, end, .. } = part else { continue };
            self.pages.read(blob, &mut image).unwrap();
            let loaded = LoadedPage::read(&self.pool, &image, &wanted).unwrap();
            n += pour(loaded.messages(), |_| false, queue);
            queue.make_room(&self.bodies).unwrap();
            next = end;
        }
        n
    }
}

fn fill(stores: &Stores, queue: &V1Queue, n: u64) {
    let body = [7; BODY_BYTES];
    let message = MessageRef {
        exchange: b"",
        routing_key: b"a-queue",
        properties: &[0x10, 0, 2],
        body: Body::Borrowed(&body),
        persistent: true,
        annotations: Default::default(),
    };
    for position in 0..n {
        queue.publish(&Queued { position, message, stored: None, is_delivered: false });
        if position % 20_000 == 0 {
            queue.sync(&stores.bodies).unwrap();
        }
        if position % 1000 == 0 {
            queue.make_room(&stores.bodies).unwrap();
        }
    }
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{what:60} {:>9.1?}", start.elapsed());
    result
}

fn one_queue(stores: &Stores, n: u64) {
    let queue = stores.queue("one");
    timed(&format!("{n} messages published and synced"), || {
        fill(stores, &queue, n);
        queue.sync(&stores.bodies).unwrap();
    });
    println!("{:?}", queue.stats());
    timed("read in pages of 64 KiB", || {
        let (mut next, mut n_read) = (0, 0);
        while next < n {
            next = queue.read(next..n, 64 << 10, &mut |_, queued| {
                queued.unwrap();
                n_read += 1;
            });
        }
        assert_eq!(n_read, n);
    });
    let notes = timed("converted to pages, durable", || {
        let notes = stores.to_pages(&queue);
        stores.pages.sync().unwrap();
        notes
    });
    timed("converted back, durable", || {
        let back = stores.queue("back");
        assert_eq!(stores.to_queue(&notes, &back), n);
        back.sync(&stores.bodies).unwrap();
    });
    timed("opened", || assert_eq!(stores.queue("back").stats().live, n));
    timed("acknowledged one by one, flushed", || {
        for position in 0..n {
            queue.ack(position..position + 1);
            if position % 1000 == 0 {
                queue.make_room(&stores.bodies).unwrap();
            }
        }
        queue.flush(&stores.bodies).unwrap();
    });
    assert_eq!(queue.stats().file_bytes, 0);
}

fn many_queues(stores: &Stores, n_queues: u64, n: u64) {
    let queues: Vec<V1Queue> = (0..n_queues)
        .map(|number| {
            let queue = stores.queue(&format!("from-{number}"));
            fill(stores, &queue, n);
            queue
        })
        .collect();
    let notes: Vec<Vec<WrittenPage>> =
        timed(&format!("{n_queues} queues of {n} messages to pages, durable"), || {
            let notes = queues.iter().map(|queue| stores.to_pages(queue)).collect();
            stores.pages.sync().unwrap();
            notes
        });
    timed("converted back, durable", || {
        let (mut waiting, mut bytes) = (Vec::new(), 0);
        for (number, notes) in notes.iter().enumerate() {
            let queue = stores.queue(&format!("to-{number}"));
            assert_eq!(stores.to_queue(notes, &queue), n);
            bytes += queue.unsynced_bytes();
            let unsynced = queue.write_unsynced(&stores.bodies).unwrap();
            waiting.push((queue, unsynced));
            if bytes > TOGETHER_BYTES {
                bytes = 0;
                confirm(stores, &mut waiting);
            }
        }
        confirm(stores, &mut waiting);
    });
}

fn confirm(stores: &Stores, waiting: &mut Vec<(V1Queue, store::v1::Unsynced)>) {
    stores.disk.sync_all().unwrap();
    for (queue, unsynced) in waiting.drain(..) {
        queue.confirm(unsynced);
        assert!(!queue.is_dirty());
    }
}
