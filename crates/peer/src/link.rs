//! The outgoing side of a node's connection to another one: frames are put in under the locks of queues, and
//! taken out in batches by the connection's writer.
//!
//! A link outlives its connections: those that open later end the earlier ones. Frames for a link without a
//! connection, and those that an ended connection leaves unwritten, are dropped and counted; whoever needs
//! them sends again when it is told that the link is made.

mod batch;
mod coalesced;
mod queue;

pub use batch::LinkBatch;

use crate::connection::{ConnectionNumber, LinkClass};
use crate::kinds::FrameKind;
use bytes::Bytes;
use coalesced::CoalescedRecords;
use queue::ClassQueue;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use stdx::{add_waker, lock};

/// A batch takes no more frames once it has so many bytes.
const BATCH_BYTES: usize = 256 * 1024;

/// The limits of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkLimits {
    /// Senders that can wait put nothing in above this.
    pub room_bytes: usize,
    /// The connection is ended above this: its peer does not read.
    pub bytes_max: usize,
}

/// A node's link to another one, of one kind.
#[derive(Debug)]
pub struct PeerLink(Mutex<LinkOut>);

/// The state of a link, behind its lock.
#[derive(Debug)]
pub struct LinkOut {
    limits: LinkLimits,
    /// The open connection.
    connection: Option<ConnectionNumber>,
    /// The newest connection there has been, and why it is not open any more.
    newest: Option<ConnectionNumber>,
    end: LinkEnd,
    queues: [ClassQueue; LinkClass::ALL.len()],
    coalesced: CoalescedRecords,
    traffic: LinkTraffic,
    /// Bytes taken and not written.
    n_in_flight: usize,
    n_dropped: u64,
    writer: Option<Waker>,
    /// The senders that wait for room.
    waiting: Vec<Waker>,
}

/// The bytes of frames that have gone over a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTraffic {
    /// Bytes that the socket has taken.
    pub sent: u64,
    /// Bytes that were read.
    pub received: u64,
}

/// The reason for the end of a connection, as its link knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// The connection has been closed.
    Closed,
    /// A newer one has taken its place.
    Replaced,
    /// More than the limit waits to be written.
    Overflowed,
}

/// The outcome of a writer's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenFromLink {
    /// The batch has bytes.
    Batch,
    /// The writer's connection has ended.
    End(LinkEnd),
}

impl PeerLink {
    /// Creates a link without a connection.
    #[must_use]
    pub fn new(limits: LinkLimits) -> Self {
        Self(Mutex::new(LinkOut {
            limits,
            connection: None,
            newest: None,
            end: LinkEnd::Closed,
            queues: LinkClass::ALL.map(ClassQueue::new),
            coalesced: CoalescedRecords::default(),
            traffic: LinkTraffic::default(),
            n_in_flight: 0,
            n_dropped: 0,
            writer: None,
            waiting: Vec::new(),
        }))
    }

    /// Opens the link with a connection that has just been made; an earlier one has ended. False if there
    /// has been a newer one.
    pub fn open(&self, connection: ConnectionNumber) -> bool {
        let mut out = lock(&self.0);
        if out.newest.is_some_and(|newest| newest >= connection) {
            return false;
        }
        let wakers = out.end(LinkEnd::Replaced);
        out.newest = Some(connection);
        out.connection = Some(connection);
        out.traffic = LinkTraffic::default();
        drop(out);
        wakers.into_iter().for_each(Waker::wake);
        true
    }

    /// Ends this connection, if it is the open one: what waits is dropped.
    pub fn close(&self, connection: ConnectionNumber) {
        let mut out = lock(&self.0);
        let is_open = out.connection == Some(connection);
        let wakers = if is_open { out.end(LinkEnd::Closed) } else { Vec::new() };
        drop(out);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The connection that is open.
    #[must_use]
    pub fn connection(&self) -> Option<ConnectionNumber> {
        lock(&self.0).connection
    }

    /// Puts frames in; returns the writer's waker, to be called without a lock.
    #[must_use]
    pub fn put(&self, fill: impl FnOnce(&mut LinkOut)) -> Option<Waker> {
        let mut out = lock(&self.0);
        fill(&mut out);
        // A writer with bytes in flight waits for its socket, not for more.
        let is_idle = out.n_in_flight == 0 && out.n_pending() > 0;
        if is_idle || !out.is_open() { out.writer.take() } else { None }
    }

    /// Puts answers in to what came over `connection`, unless that has ended.
    #[must_use]
    pub fn answer(
        &self,
        connection: ConnectionNumber,
        fill: impl FnOnce(&mut LinkOut),
    ) -> Option<Waker> {
        self.put(|out| {
            if out.connection == Some(connection) {
                fill(out);
            } else {
                out.n_dropped += 1;
            }
        })
    }

    /// Counts bytes that were read from `connection`. False if that has ended: they count for nothing.
    #[must_use]
    pub fn received(&self, connection: ConnectionNumber, n_bytes: usize) -> bool {
        let mut out = lock(&self.0);
        let is_open = out.connection == Some(connection);
        out.traffic.received += if is_open { n_bytes as u64 } else { 0 };
        is_open
    }

    /// The bytes that have gone over the newest connection.
    #[must_use]
    pub fn traffic(&self) -> LinkTraffic {
        lock(&self.0).traffic
    }

    /// Frames that were dropped, coalesced records left out.
    #[must_use]
    pub fn n_dropped(&self) -> u64 {
        lock(&self.0).n_dropped
    }

    /// Waits for room. A link without a connection has room: what is put in is dropped.
    pub fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        let mut out = lock(&self.0);
        if out.room_bytes() > 0 {
            return Poll::Ready(());
        }
        add_waker(&mut out.waiting, cx.waker());
        Poll::Pending
    }

    /// Moves what waits into `batch`, all of which has been written, for the writer of `connection`; with
    /// nothing to write, the writer is woken by what is put in next.
    pub fn poll_take(
        &self,
        connection: ConnectionNumber,
        cx: &Context<'_>,
        batch: &mut LinkBatch,
    ) -> Poll<TakenFromLink> {
        let mut out = lock(&self.0);
        if out.connection != Some(connection) {
            drop(out);
            return self.poll_end(connection, cx).map(TakenFromLink::End);
        }
        debug_assert!(batch.n_left() == 0, "a batch is taken when the one before is written");
        out.take(batch);
        if batch.n_left() > 0 {
            return Poll::Ready(TakenFromLink::Batch);
        }
        out.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits for the end of `connection`, for a writer whose socket takes nothing.
    pub fn poll_end(&self, connection: ConnectionNumber, cx: &Context<'_>) -> Poll<LinkEnd> {
        let mut out = lock(&self.0);
        if out.connection == Some(connection) {
            out.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let end = if out.newest == Some(connection) { out.end } else { LinkEnd::Replaced };
        let waiting = if out.is_open() { Vec::new() } else { std::mem::take(&mut out.waiting) };
        drop(out);
        waiting.into_iter().for_each(Waker::wake);
        Poll::Ready(end)
    }

    /// Notes that the socket of `connection` has taken the first `n` bytes of the batch.
    pub fn wrote(&self, connection: ConnectionNumber, batch: &mut LinkBatch, n: usize) {
        batch.advance(n);
        let mut out = lock(&self.0);
        if out.connection != Some(connection) {
            return;
        }
        out.traffic.sent += n as u64;
        out.n_in_flight = out.n_in_flight.saturating_sub(n);
        let has_room = out.room_bytes() > 0;
        let waiting = if has_room { std::mem::take(&mut out.waiting) } else { Vec::new() };
        drop(out);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl LinkOut {
    /// Whether there is a connection: what is put in without one is dropped.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// Bytes that may be put in before their sender has to wait. Without a connection there is room, so that
    /// nobody waits for a peer that is gone.
    #[must_use]
    pub fn room_bytes(&self) -> usize {
        self.limits.room_bytes.saturating_sub(self.n_pending())
    }

    /// Puts a frame in. Its body is what `fill` appends and then the payloads, which are not copied unless
    /// they are short; a long one is sent in pieces.
    pub fn push(
        &mut self,
        class: LinkClass,
        kind: FrameKind,
        fill: impl FnOnce(&mut Vec<u8>),
        payloads: &[Bytes],
    ) {
        match self.queues.get_mut(class.place()) {
            Some(queue) if self.connection.is_some() => queue.push(kind, fill, payloads),
            Some(_) | None => self.n_dropped += 1,
        }
        if self.n_pending() > self.limits.bytes_max {
            // The caller wakes the writer, and the writer wakes those who wait for room.
            self.end_connection(LinkEnd::Overflowed);
        }
    }

    /// Notes a record for the frame of this kind that goes out with the next batch, before all others. Of
    /// those with one key only the latest goes out.
    pub fn coalesce(&mut self, kind: FrameKind, key: u64, record: &[u8]) {
        if self.connection.is_some() {
            self.coalesced.put(kind, key, record);
        }
    }

    /// Bytes that wait to be written.
    fn n_pending(&self) -> usize {
        self.queues.iter().map(ClassQueue::n_bytes).sum::<usize>()
            + self.coalesced.n_bytes()
            + self.n_in_flight
    }

    /// Moves frames of each class into the batch, so that none starves.
    fn take(&mut self, batch: &mut LinkBatch) {
        let [urgent, ..] = &mut self.queues;
        self.coalesced.take(|kind, body| urgent.push(kind, |out| out.extend_from_slice(body), &[]));
        for queue in &mut self.queues {
            queue.take(batch, BATCH_BYTES);
        }
        self.n_in_flight = batch.n_left();
    }

    /// Ends the connection and drops what waits; returns whom to wake without the lock.
    fn end(&mut self, end: LinkEnd) -> Vec<Waker> {
        self.end_connection(end);
        let mut wakers = std::mem::take(&mut self.waiting);
        wakers.extend(self.writer.take());
        wakers
    }

    fn end_connection(&mut self, end: LinkEnd) {
        if self.connection.take().is_some() {
            self.end = end;
        }
        let n_dropped: usize = self.queues.iter_mut().map(ClassQueue::clear).sum();
        self.n_dropped += n_dropped as u64;
        self.coalesced = CoalescedRecords::default();
        self.n_in_flight = 0;
    }
}
