//! Parts of files go out between other bytes, sent by the system or copied, and are waited for.

use super::{connected, in_time};
use crate::connection::Disconnect;
use crate::connection::writer::Writer;
use crate::socket;
use front_stream::{Connection, Settings};
use session::{
    CHUNK_HEADER_BYTES, ChunkData, ChunkDelivery, Event, FileBytes, LinkId, MethodTag, Outbox as _,
    StreamEvent, SubscriptionId,
};
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use stdx::Now;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

const BYTES: usize = 3_000_000;
/// In front of the data in its file.
const AT: u64 = 1000;
/// So much at a time is at hand.
const AT_HAND: usize = 200_000;

/// A file without a name, of which nothing is at hand that nobody has waited for.
#[derive(Debug)]
struct Part {
    file: File,
    len: usize,
    /// The system can send it.
    has_descriptor: bool,
    /// Up to here it was fetched.
    fetched: AtomicUsize,
}

impl Part {
    fn new(has_descriptor: bool) -> Self {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[0; 1000]).unwrap();
        file.write_all(&data()).unwrap();
        Self { file, len: BYTES, has_descriptor, fetched: AtomicUsize::new(0) }
    }
}

impl FileBytes for Part {
    fn len(&self) -> usize {
        self.len
    }

    fn descriptor(&self) -> Option<(BorrowedFd<'_>, u64)> {
        self.has_descriptor.then(|| (self.file.as_fd(), AT))
    }

    fn read_at(&self, from: usize, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(into, AT + from as u64)
    }

    fn n_at_hand(&self, from: usize) -> usize {
        self.fetched.load(Ordering::Relaxed).saturating_sub(from)
    }

    fn poll_at_hand(&self, from: usize, waker: &Waker) -> Poll<()> {
        if self.n_at_hand(from) > 0 {
            return Poll::Ready(());
        }
        self.fetched.store((from + AT_HAND).min(self.len), Ordering::Relaxed);
        waker.wake_by_ref();
        Poll::Pending
    }
}

fn data() -> Vec<u8> {
    (0..BYTES).map(|at| (at / 7).to_le_bytes()[0]).collect()
}

/// A writer with two chunks of such data.
fn writer(server: TcpStream, part: Part) -> Arc<Writer> {
    let now = Now::at_ms(0);
    let outbox = Connection::new(Arc::new(Settings::default()), 5552, now).outbox();
    let part: Arc<dyn FileBytes> = Arc::new(part);
    let waker = outbox.batch(&mut |sink| {
        let (origin, link, subscription) = (MethodTag(1), LinkId(1), SubscriptionId(1));
        sink.event(Event::Stream(StreamEvent::Subscribed { origin, link, subscription }));
        for _ in 0..2 {
            let (header, data) = (&[9; CHUNK_HEADER_BYTES], ChunkData::File(Arc::clone(&part)));
            sink.deliver_chunk(link, &ChunkDelivery { header, data, committed_chunk_id: 0 });
        }
    });
    assert!(waker.is_none(), "nobody sleeps yet");
    let (_from_peer, to_peer) = socket::plain(server);
    Writer::new(Some(to_peer), outbox)
}

async fn write_all(writer: &Writer) -> Result<(), Disconnect> {
    loop {
        poll_fn(|cx| writer.poll_ready(cx)).await;
        writer.flush(4, &mut Vec::new())?;
    }
}

#[tokio::test]
async fn a_client_gets_every_byte_of_a_file_that_is_gone() {
    for has_descriptor in [true, false] {
        let (mut client, server) = connected().await;
        let writer = writer(server, Part::new(has_descriptor));
        let front = 4 + 2 + 2 + 1 + CHUNK_HEADER_BYTES;
        let mut bytes = vec![0; 2 * (front + BYTES)];
        let reading = async {
            tokio::select! {
                read = client.read_exact(&mut bytes) => read.unwrap(),
                failed = write_all(&writer) => panic!("{failed:?}"),
            }
        };
        in_time(reading).await;
        for chunk in bytes.chunks_exact(front + BYTES) {
            assert_eq!(chunk[front - CHUNK_HEADER_BYTES..front], [9; CHUNK_HEADER_BYTES]);
            assert!(chunk[front..] == data(), "has_descriptor: {has_descriptor}");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_shorter_than_it_was_ends_the_connection() {
    for has_descriptor in [true, false] {
        let (mut client, server) = connected().await;
        let part = Part::new(has_descriptor);
        part.file.set_len(AT + 10).unwrap();
        let writer = writer(server, part);
        let mut bytes = Vec::new();
        let ending = async {
            tokio::select! {
                _read = client.read_to_end(&mut bytes) => panic!("nobody has closed it"),
                failed = write_all(&writer) => failed,
            }
        };
        let Err(Disconnect::Io(error)) = in_time(ending).await else { panic!("no error") };
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}
