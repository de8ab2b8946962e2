//! Links: order, room, what an ended connection leaves, and frames of an older one.

use crate::frames::decode;
use bytes::Bytes;
use peer::{
    ConnectionNumber, FrameDecoder, FrameKind, KindRow, LinkBatch, LinkClass, LinkEnd, LinkLimits,
    LinkTraffic, PeerLink, TakenFromLink, Vocabulary,
};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

const fn row(kind: u8) -> KindRow {
    KindRow { kind: FrameKind(kind), level: 1, bytes_max: 1 << 20 }
}

/// Kinds of frames for tests.
pub(crate) const ROWS: &[KindRow] = &[row(40), row(41), row(42), row(43)];

const FIRST: ConnectionNumber = ConnectionNumber(1);
const SECOND: ConnectionNumber = ConnectionNumber(2);
const LIMITS: LinkLimits = LinkLimits { room_bytes: 1_000, bytes_max: 1 << 20 };

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn open_link() -> PeerLink {
    let link = PeerLink::new(LIMITS);
    assert!(link.open(FIRST));
    link
}

fn put(link: &PeerLink, class: LinkClass, kind: u8, body: &[u8]) -> Option<Waker> {
    link.put(|out| out.push(class, FrameKind(kind), |out| out.extend_from_slice(body), &[]))
}

/// Writes the batch, three slices and at most `n_max` bytes at a time.
fn write(
    link: &PeerLink,
    connection: ConnectionNumber,
    batch: &mut LinkBatch,
    n_max: usize,
) -> Vec<u8> {
    let mut written = Vec::new();
    while batch.n_left() > 0 {
        let mut slices = [IoSlice::new(&[]); 3];
        let n = batch.fill(&mut slices);
        let bytes: Vec<u8> =
            slices.iter().take(n).flat_map(|slice| slice.to_vec()).take(n_max).collect();
        written.extend_from_slice(&bytes);
        link.wrote(connection, batch, bytes.len());
    }
    written
}

/// Takes and writes batches until there is nothing left.
pub(crate) fn take_all(link: &PeerLink, connection: ConnectionNumber) -> Vec<u8> {
    let (mut batch, mut bytes) = (LinkBatch::default(), Vec::new());
    let cx = Context::from_waker(Waker::noop());
    while link.poll_take(connection, &cx, &mut batch) == Poll::Ready(TakenFromLink::Batch) {
        bytes.extend(write(link, connection, &mut batch, 50_000));
    }
    bytes
}

fn kinds(bytes: &[u8]) -> Vec<u8> {
    let mut decoder = FrameDecoder::new(Vocabulary::new(1, &[ROWS]));
    let frames = decode(&mut decoder, &[bytes]).expect("own frames");
    frames.iter().map(|frame| frame.0.0).collect()
}

#[test]
fn urgent_frames_pass_between_the_pieces_of_large_ones() {
    let link = open_link();
    drop(put(&link, LinkClass::Bulk, 42, &vec![1; 900_000]));
    let (mut batch, cx) = (LinkBatch::default(), Context::from_waker(Waker::noop()));
    assert!(link.poll_take(FIRST, &cx, &mut batch).is_ready());
    let mut bytes = write(&link, FIRST, &mut batch, usize::MAX);
    assert!((200_000..330_000).contains(&bytes.len()), "{}", bytes.len());
    drop(put(&link, LinkClass::Ordinary, 41, b"ordinary"));
    drop(put(&link, LinkClass::Urgent, 40, b"urgent"));
    bytes.extend(take_all(&link, FIRST));
    assert_eq!(kinds(&bytes), [40, 41, 42]);
}

#[test]
fn a_flood_of_urgent_frames_does_not_starve_the_others() {
    let link = PeerLink::new(LinkLimits { room_bytes: 1 << 30, bytes_max: 1 << 30 });
    assert!(link.open(FIRST));
    (0..100).for_each(|_| drop(put(&link, LinkClass::Urgent, 40, &[0; 10_000])));
    drop(put(&link, LinkClass::Bulk, 42, b"bulk"));
    let (mut batch, cx) = (LinkBatch::default(), Context::from_waker(Waker::noop()));
    assert!(link.poll_take(FIRST, &cx, &mut batch).is_ready());
    let first_batch = write(&link, FIRST, &mut batch, usize::MAX);
    assert!(kinds(&first_batch).contains(&42));
    assert!(kinds(&first_batch).len() < 60);
}

#[test]
fn payloads_are_written_from_where_they_lie() {
    let link = open_link();
    let payload = Bytes::from(vec![3; 300_000]);
    drop(link.put(|out| {
        let payloads = [payload.slice(..30_000), payload.clone()];
        out.push(LinkClass::Ordinary, FrameKind(41), |out| out.push(9), &payloads[..1]);
        out.push(LinkClass::Ordinary, FrameKind(41), |out| out.push(9), &payloads[1..]);
    }));
    let (mut batch, cx) = (LinkBatch::default(), Context::from_waker(Waker::noop()));
    assert!(link.poll_take(FIRST, &cx, &mut batch).is_ready());
    let mut slices = [IoSlice::new(&[]); 16];
    let n = batch.fill(&mut slices);
    let within = payload.as_ptr_range();
    let shared = slices[..n].iter().filter(|slice| within.contains(&slice.as_ptr()));
    let shared: usize = shared.map(|slice| slice.len()).sum();
    let copied: usize = slices[..n].iter().map(|slice| slice.len()).sum::<usize>() - shared;
    assert!(shared > 200_000 && copied < 100, "{shared} shared, {copied} copied");
}

#[test]
fn only_the_latest_of_coalesced_records_goes_out_before_all_frames() {
    let link = open_link();
    let record = |key: u64, value: u64| [key.to_le_bytes(), value.to_le_bytes()].concat();
    drop(link.put(|out| {
        out.push(LinkClass::Urgent, FrameKind(40), |out| out.push(1), &[]);
        for value in 0..3 {
            out.coalesce(FrameKind(43), 8, &record(8, value));
            out.coalesce(FrameKind(43), 7, &record(7, value));
        }
        out.coalesce(FrameKind(42), 7, &record(7, 9));
    }));
    let bytes = take_all(&link, FIRST);
    let mut decoder = FrameDecoder::new(Vocabulary::new(1, &[ROWS]));
    let frames = decode(&mut decoder, &[&bytes]).unwrap();
    let expected = [(40, vec![1]), (42, record(7, 9)), (43, [record(7, 2), record(8, 2)].concat())];
    let mut frames: Vec<(u8, Vec<u8>)> =
        frames.into_iter().map(|(it, body)| (it.0, body)).collect();
    frames.sort();
    assert_eq!(frames, expected);
}

#[test]
fn very_many_coalesced_records_are_several_frames() {
    let link = PeerLink::new(LinkLimits { room_bytes: 1 << 30, bytes_max: 1 << 30 });
    assert!(link.open(FIRST));
    drop(link.put(|out| {
        (0..33_000).for_each(|key| out.coalesce(FrameKind(43), key, &[7; 28]));
    }));
    let mut decoder = FrameDecoder::new(Vocabulary::new(1, &[ROWS]));
    let frames = decode(&mut decoder, &[&take_all(&link, FIRST)]).unwrap();
    assert_eq!(frames.iter().map(|frame| frame.1.len()).sum::<usize>(), 33_000 * 28);
    assert!(frames.iter().all(|frame| frame.1.len().is_multiple_of(28)));
    assert!((10..20).contains(&frames.len()));
}

#[test]
fn wakes_the_writer_for_frames_and_senders_for_room() {
    let link = open_link();
    let (writer, sender) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
    let wakers = [Waker::from(Arc::clone(&writer)), Waker::from(Arc::clone(&sender))];
    let [writer_cx, sender_cx] = [&wakers[0], &wakers[1]].map(Context::from_waker);
    let mut batch = LinkBatch::default();
    assert!(link.poll_take(FIRST, &writer_cx, &mut batch).is_pending());
    assert!(link.put(|_| ()).is_none(), "nothing to write");
    assert!(link.poll_room(&sender_cx).is_ready());
    put(&link, LinkClass::Ordinary, 41, &[0; 2_000]).expect("the writer sleeps").wake();
    assert!(put(&link, LinkClass::Ordinary, 41, b"more").is_none(), "the writer is awake");
    assert!(link.poll_room(&sender_cx).is_pending());
    assert!(link.poll_take(FIRST, &writer_cx, &mut batch).is_ready());
    assert_eq!((writer.count(), sender.count()), (1, 0));
    write(&link, FIRST, &mut batch, 100);
    assert_eq!((writer.count(), sender.count()), (1, 1));
    assert_eq!(link.traffic(), LinkTraffic { sent: 2_012, received: 0 });
}

#[test]
fn a_closed_link_drops_and_counts_and_holds_up_nobody() {
    let link = PeerLink::new(LIMITS);
    assert!(put(&link, LinkClass::Urgent, 40, b"lost").is_none());
    assert_eq!(link.n_dropped(), 1);
    assert!(link.open(FIRST));
    let sender = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&sender));
    drop(put(&link, LinkClass::Ordinary, 41, &[0; 600]));
    drop(put(&link, LinkClass::Bulk, 42, &vec![0; 100_000]));
    assert!(link.poll_room(&Context::from_waker(&waker)).is_pending());
    link.close(FIRST);
    assert_eq!((link.n_dropped(), sender.count()), (3, 1));
    assert!(link.poll_room(&Context::from_waker(&waker)).is_ready());
    assert!(link.open(SECOND));
    assert_eq!(take_all(&link, SECOND), b"", "nothing is left of the first connection");
}

#[test]
fn a_newer_connection_ends_the_older_whose_frames_count_for_nothing() {
    let link = open_link();
    let writer = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&writer));
    let (cx, mut batch) = (Context::from_waker(&waker), LinkBatch::default());
    assert!(link.poll_take(FIRST, &cx, &mut batch).is_pending());
    assert!(link.received(FIRST, 10));
    assert!(link.open(SECOND));
    assert_eq!(writer.count(), 1, "the older writer is woken to end");
    let end = Poll::Ready(TakenFromLink::End(LinkEnd::Replaced));
    assert_eq!(link.poll_take(FIRST, &cx, &mut batch), end);
    assert!(!link.received(FIRST, 10));
    assert!(link.answer(FIRST, |_| panic!("an answer to what counts for nothing")).is_none());
    assert!(!link.open(FIRST), "the older one comes late");
    link.close(FIRST);
    assert!(link.received(SECOND, 5));
    assert_eq!(link.traffic(), LinkTraffic { sent: 0, received: 5 });
}

#[test]
fn a_peer_that_does_not_read_loses_its_connection() {
    let link = open_link();
    let (writer, sender) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
    let wakers = [Waker::from(Arc::clone(&writer)), Waker::from(Arc::clone(&sender))];
    let [cx, sender_cx] = [&wakers[0], &wakers[1]].map(Context::from_waker);
    let mut batch = LinkBatch::default();
    drop(put(&link, LinkClass::Ordinary, 41, &vec![0; 200_000]));
    assert!(link.poll_take(FIRST, &cx, &mut batch).is_ready());
    // The socket takes nothing: the writer waits for it, or for the end.
    assert!(link.poll_end(FIRST, &cx).is_pending());
    assert!(link.poll_room(&sender_cx).is_pending());
    assert!(put(&link, LinkClass::Ordinary, 41, &vec![0; 500_000]).is_none());
    put(&link, LinkClass::Ordinary, 41, &vec![0; 500_000]).expect("the end").wake();
    assert_eq!(link.poll_end(FIRST, &cx), Poll::Ready(LinkEnd::Overflowed));
    let end = Poll::Ready(TakenFromLink::End(LinkEnd::Overflowed));
    assert_eq!(link.poll_take(FIRST, &cx, &mut batch), end);
    assert_eq!((writer.count(), sender.count()), (1, 1));
    assert_eq!(link.n_dropped(), 2);
}
