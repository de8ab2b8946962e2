//! From one form to the other and back: the same messages, at the same positions.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::BTreeSet;
use std::sync::Arc;

use log::{MemoryDisk, SegmentId, Survival};
use message::{Body, MessageRef};
use proptest::prelude::*;
use store::backlog::{Backlog, LoadedPage, PagePool, Part};
use store::blob::{BlobId, BlobOptions, BlobStore};
use store::convert::{ToPages, pour};
use store::v1::{V1Options, V1Queue};
use store::{Queued, StoredBody};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    position: u64,
    body: Vec<u8>,
    stored: Option<StoredBody>,
    is_persistent: bool,
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let gap = prop_oneof![9 => Just(0_u64), 1 => 0_u64..20_000];
    let one = (gap, 0_usize..3_000, prop::bool::weighted(0.1), prop::bool::weighted(0.8));
    prop::collection::vec(one, 0..300).prop_map(|all| {
        let mut next = 0;
        let message = |(gap, bytes, is_stored, is_persistent)| {
            let position = next + gap;
            next = position + 1;
            let stored = StoredBody {
                blob: BlobId { file: 1, index: u32::try_from(position).unwrap() },
                bytes: u32::try_from(bytes).unwrap(),
            };
            let body =
                vec![u8::try_from(position % 251).unwrap(); if is_stored { 0 } else { bytes }];
            Message { position, body, stored: is_stored.then_some(stored), is_persistent }
        };
        all.into_iter().map(message).collect()
    })
}

fn queued(message: &Message) -> Queued<'_> {
    let Message { position, body, stored, is_persistent } = message;
    let message = MessageRef {
        exchange: b"e",
        routing_key: b"key",
        properties: &[0, 0],
        body: Body::Borrowed(body),
        persistent: *is_persistent,
        annotations: Default::default(),
    };
    Queued { position: *position, message, stored: *stored, is_delivered: false }
}

fn owned(queued: &Queued<'_>) -> Message {
    assert_eq!((queued.message.exchange, queued.message.routing_key), (&b"e"[..], &b"key"[..]));
    Message {
        position: queued.position,
        body: queued.message.body.bytes().to_vec(),
        stored: queued.stored,
        is_persistent: queued.message.persistent,
    }
}

fn open_v1(disk: &MemoryDisk, dir: &str) -> V1Queue {
    let options = V1Options { journal_operations_max: 50, ..V1Options::new(dir) };
    V1Queue::open(Arc::new(disk.clone()), options, &mut |_| ()).unwrap().0
}

fn open_blobs(disk: &MemoryDisk, dir: &str) -> BlobStore {
    let options = BlobOptions { file_bytes: 100_000, ..BlobOptions::new(dir) };
    BlobStore::open(Arc::new(disk.clone()), options).unwrap()
}

fn content(queue: &V1Queue) -> Vec<(Message, bool)> {
    let (mut read, mut from) = (Vec::new(), 0);
    while from < queue.next_position() {
        from = queue.read(from..queue.next_position(), u64::MAX, &mut |_, queued| {
            let queued = queued.unwrap();
            read.push((owned(&queued), queued.is_delivered));
        });
    }
    read
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn there_and_back_every_message_is_the_same(
        all in messages(),
        acked in prop::collection::vec(0_usize..300, 0..20),
        bytes_max in 1_u64..100_000,
    ) {
        let disk = MemoryDisk::new();
        let (bodies, pages) = (open_blobs(&disk, "bodies"), open_blobs(&disk, "pages"));
        let old = open_v1(&disk, "old");
        for message in &all {
            old.publish(&queued(message));
            old.make_room(&bodies).unwrap();
        }
        let gone: BTreeSet<u64> =
            acked.into_iter().filter_map(|at| all.get(at)).map(|one| one.position).collect();
        gone.iter().for_each(|position| {
            old.ack(*position..position + 1);
        });
        let live: Vec<Message> =
            all.into_iter().filter(|one| !gone.contains(&one.position)).collect();

        let mut conversion = ToPages::new(0..old.next_position());
        let (mut notes, mut n_messages) = (Vec::new(), 0);
        loop {
            let step = conversion.step(&old, &pages, bytes_max);
            prop_assert!(step.lost.is_empty());
            n_messages += step.n_messages;
            notes.extend(step.pages);
            if step.is_done {
                break;
            }
        }
        pages.sync().unwrap();
        prop_assert_eq!(n_messages, live.len() as u64);

        // After a loss of power: what was made durable is what counts.
        let disk = disk.survive(Survival::OnlySynced);
        let (bodies, pages) = (open_blobs(&disk, "bodies"), open_blobs(&disk, "pages"));
        let mut backlog = Backlog::new();
        notes.iter().for_each(|page| backlog.restore_page(&page.all, SegmentId(1)).unwrap());

        let new = open_v1(&disk, "new");
        let (pool, mut image, mut next) = (PagePool::default(), Vec::new(), 0);
        while let Some(part) = backlog.part_from(next) {
            let Part::Stored { blob, wanted, end, .. } = part else { panic!("all are cold") };
            pages.read(blob, &mut image).unwrap();
            let loaded = LoadedPage::read(&pool, &image, &wanted).unwrap();
            pour(loaded.messages(), |position| position % 2 == 0, &new);
            new.make_room(&bodies).unwrap();
            next = end;
        }
        let expected: Vec<(Message, bool)> =
            live.iter().map(|one| (one.clone(), one.position % 2 == 0)).collect();
        prop_assert_eq!(content(&new), &expected[..]);
        new.sync(&bodies).unwrap();
        let new = open_v1(&disk.survive(Survival::OnlySynced), "new");
        let kept: Vec<(Message, bool)> =
            expected.into_iter().filter(|(one, _)| one.is_persistent).collect();
        prop_assert_eq!(content(&new), &kept[..]);
    }
}
