//! A client's outbox: many threads put events in, one connection task takes bytes out.
//!
//! Everything is encoded as it is put in, under the outbox's lock, straight into the outgoing
//! buffer; only confirms wait until the bytes are taken, so that they fold. The task swaps buffers
//! under the lock and writes without it.

mod auto_ack_in_flight;
mod channel;
mod confirms;
mod encode;
pub(crate) mod events;
mod outbox_budget;
mod tags;
mod write_rope;

use crate::reply;
use amqp091::frame::HEARTBEAT;
use amqp091::method::{ConnectionClose, ConnectionCloseOk};
use auto_ack_in_flight::AutoAckInFlight;
use channel::{ChannelOut, Link};
pub use outbox_budget::OutboxBudget;
use session::{Error, LinkId, MethodTag, Outbox, Outcome, Position, Settle, Sink};
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use write_rope::{Cursor, WriteRope};

/// With this many bytes waiting at most, links are told that there is no room; with less where there are
/// many connections ([`OutboxBudget`]). When half of it or less is on its way, links that found no room are
/// resumed.
pub const OUTBOX_HIGH_WATER_BYTES: usize = 1024 * 1024;
/// With this many bytes waiting, the client is not listened to. Deliveries alone, which keep to the
/// high water, do not come near: a slow consumer is still heard.
pub const OUTBOX_STUCK_BYTES: usize = 8 * OUTBOX_HIGH_WATER_BYTES;
/// Shared bodies from this size on are spliced into the output instead of copied.
const SPLICE_BYTES_MIN: usize = 8 * 1024;
/// An idle outbox keeps no more than this much memory.
const IDLE_BYTES_MAX: usize = 512;
/// Deliveries that were settled by their write are handed on in portions of so many.
const SETTLED_MAX: usize = 256;

/// COMPAT: RabbitMQ keeps sockets of clients that fail the handshake, or that lost the frame
/// borders, open and silent for this long (milliseconds).
pub(crate) const SILENT_CLOSE_DELAY_MS: u64 = 3_000;

/// Memory that a connection keeps from one write to the next at most, where there are many connections.
const CROWDED_BYTES_MAX: usize = 4 * 1024;

/// The way to close a connection once everything before is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    /// Nothing more is said: half-close, then wait at most this many milliseconds for the peer to
    /// close, dropping what it sends, so that what was written is not lost to a reset.
    Linger(u64),
    /// Keep the socket open and silent until the peer closes it, or this many milliseconds are over. It is
    /// the client that closes after `connection.close-ok`: one that finds the end of the stream first takes a
    /// clean close for a failure. Peers that fail to log in are slowed down.
    Hold(u64),
}

/// The outbox of a connection's client.
#[derive(Debug)]
pub struct ClientOutbox {
    locked: Mutex<Locked>,
}

/// Bytes taken from an outbox, and how far they are written.
#[derive(Debug, Default)]
pub struct WriteBatch {
    rope: WriteRope,
    cursor: Cursor,
    n_left: usize,
    /// The end of the batch among all bytes ever taken.
    ends_at: u64,
    is_watched: bool,
    resume: Vec<LinkId>,
    refusal: Option<Box<Error>>,
    close_mode: Option<CloseMode>,
}

impl WriteBatch {
    /// Fills `slices` with what is to be written next; returns how many were filled.
    pub fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.cursor.fill(&self.rope, slices)
    }

    /// Notes that `n` bytes were written.
    pub fn advance(&mut self, n: usize) {
        self.cursor.advance(&self.rope, n);
        self.n_left = self.n_left.saturating_sub(n);
    }

    /// Whether everything is written.
    #[must_use]
    pub const fn is_written(&self) -> bool {
        self.n_left == 0
    }

    /// The number of bytes left to write.
    #[must_use]
    pub const fn n_left(&self) -> usize {
        self.n_left
    }

    /// Whether something is settled by being written: the outbox is to be told of each write
    /// ([`ClientOutbox::wrote`]).
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Links that found no room and may go on: the caller asks the broker for more on them.
    pub const fn resume(&mut self) -> &mut Vec<LinkId> {
        &mut self.resume
    }

    /// Whether the connection is to be failed.
    #[must_use]
    pub const fn has_refusal(&self) -> bool {
        self.refusal.is_some()
    }

    /// The error with which the connection is to be failed: there was something the client could not be
    /// sent.
    pub const fn take_refusal(&mut self) -> Option<Box<Error>> {
        self.refusal.take()
    }

    /// Set when nothing follows these bytes.
    #[must_use]
    pub const fn close_mode(&self) -> Option<CloseMode> {
        self.close_mode
    }

    /// Gives back memory: the connection has nothing to do.
    pub fn trim(&mut self) {
        if self.is_written() {
            let (refusal, close_mode) = (self.refusal.take(), self.close_mode);
            *self = Self { refusal, close_mode, ..Self::default() };
        }
    }
}

/// The capabilities that the client announced.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Capabilities {
    pub(crate) cancel_notify: bool,
    pub(crate) blocked: bool,
    pub(crate) authentication_failure_close: bool,
}

/// The progress of a connection's close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Not at all.
    No,
    /// `connection.close` was put in; the client's answer is awaited.
    Sent,
    /// Nothing may follow.
    Ended,
}

/// Channels and connection closed by the broker while the decoder was not looking.
#[derive(Debug)]
pub(crate) struct BrokerUpdates {
    /// Channels the broker closed since the last look.
    pub(crate) failed: Vec<u16>,
    pub(crate) closing: Closing,
}

/// The effect of a request on the delivery tags of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagStep {
    SelectTx,
    CommitTx,
    RollBackTx,
    /// `basic.recover`.
    Recover,
}

/// A delivery tag that is not outstanding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnknownTag;

/// The part behind the lock.
#[derive(Debug)]
pub(crate) struct Locked {
    rope: WriteRope,
    budget: Arc<OutboxBudget>,
    /// Bytes this outbox may hold, as of the last look at the budget.
    high_water_bytes: usize,
    /// Bytes taken and not yet known to be written.
    n_in_flight: usize,
    waker: Option<Waker>,
    /// Sorted by number.
    channels: Vec<ChannelOut>,
    /// Sorted by id.
    links: Vec<Link>,
    n_links_gone: usize,
    /// Links that were told that there is no room.
    paused: Vec<LinkId>,
    /// Deliveries that are settled once they are written.
    unwritten: AutoAckInFlight,
    failed: Vec<u16>,
    /// Channels that became transactional before they were opened; no more than there are channels.
    early_tx: Vec<u16>,
    capabilities: Capabilities,
    frame_max: u32,
    /// There was something that the client cannot be sent.
    refusal: Option<Box<Error>>,
    /// Milliseconds the client has to close its socket after `connection.close-ok`.
    closing_ms: u64,
    closing: Closing,
    close_mode: Option<CloseMode>,
    has_confirms: bool,
    /// Bytes ever taken: tells whether a heartbeat is due.
    n_taken: u64,
}

impl ClientOutbox {
    pub(crate) fn new(frame_max: u32, budget: &Arc<OutboxBudget>) -> Self {
        budget.add();
        let capabilities = Capabilities {
            cancel_notify: false,
            blocked: false,
            authentication_failure_close: false,
        };
        let locked = Locked {
            rope: WriteRope::new(),
            budget: Arc::clone(budget),
            high_water_bytes: budget.high_water_bytes(),
            n_in_flight: 0,
            waker: None,
            channels: Vec::new(),
            links: Vec::new(),
            n_links_gone: 0,
            paused: Vec::new(),
            unwritten: AutoAckInFlight::default(),
            failed: Vec::new(),
            early_tx: Vec::new(),
            capabilities,
            frame_max,
            refusal: None,
            closing_ms: SILENT_CLOSE_DELAY_MS,
            closing: Closing::No,
            close_mode: None,
            has_confirms: false,
            n_taken: 0,
        };
        Self { locked: Mutex::new(locked) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Locked> {
        // Nothing in here panics with the data half changed; a poisoned outbox is still whole.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything that waits into `batch`, which must be written by now. False when there is
    /// nothing to do: no bytes, no links to resume, nothing to be settled, no end.
    pub fn try_take(&self, batch: &mut WriteBatch) -> bool {
        self.lock().take(batch)
    }

    /// As [`ClientOutbox::try_take`]; with nothing to do, the task is woken by the next thing put
    /// in. To be called before the task sleeps, each time: reading forgets the task's waker.
    pub fn poll_take(&self, cx: &mut Context<'_>, batch: &mut WriteBatch) -> Poll<()> {
        let mut locked = self.lock();
        if locked.take(batch) {
            return Poll::Ready(());
        }
        match &mut locked.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// As much of a batch as is no longer left in it was written: what is settled by that waits for
    /// [`ClientOutbox::take_settled`].
    pub fn wrote(&self, batch: &WriteBatch) {
        let n_written = batch.ends_at.saturating_sub(batch.n_left as u64);
        self.lock().unwritten.wrote(n_written);
    }

    /// Whether deliveries were settled by being written.
    #[must_use]
    pub fn has_settled(&self) -> bool {
        self.lock().unwritten.has_written()
    }

    /// Takes some of the deliveries that were settled by being written; the broker is to be told
    /// before anything else happens, for the outbox knows nothing of them any more. False when there
    /// are none.
    pub fn take_settled(&self, settles: &mut Vec<Settle>) -> bool {
        let mut locked = self.lock();
        let has_some = locked.unwritten.has_written();
        if has_some {
            locked.unwritten.take_written(SETTLED_MAX, |settle| settles.push(settle));
        }
        has_some
    }

    /// Bytes that wait to be written.
    #[must_use]
    pub fn n_pending(&self) -> usize {
        self.lock().n_pending()
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.budget.remove();
    }
}

impl Outbox for ClientOutbox {
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        let mut locked = self.lock();
        fill(&mut *locked);
        if locked.has_something() { locked.waker.take() } else { None }
    }

    fn unsettled(&self, links: &[LinkId]) -> Vec<(LinkId, Position)> {
        self.lock().unsettled(links)
    }
}

impl Locked {
    fn n_pending(&self) -> usize {
        self.rope.len() + self.n_in_flight
    }

    fn has_something(&self) -> bool {
        self.rope.len() > 0
            || self.has_confirms
            || self.close_mode.is_some()
            || self.refusal.is_some()
    }

    fn take(&mut self, batch: &mut WriteBatch) -> bool {
        debug_assert!(batch.is_written(), "a batch is taken only after the one before is written");
        self.waker = None;
        self.tell_confirms();
        let n_taken = self.rope.len();
        batch.rope.clear();
        if self.high_water_bytes < OUTBOX_HIGH_WATER_BYTES {
            batch.rope.give_back(CROWDED_BYTES_MAX);
        }
        batch.cursor = Cursor::default();
        std::mem::swap(&mut batch.rope, &mut self.rope);
        batch.n_left = n_taken;
        batch.close_mode = self.close_mode;
        if self.closing == Closing::No && self.refusal.is_some() {
            batch.refusal = self.refusal.take();
        }
        self.n_in_flight = n_taken;
        self.n_taken += n_taken as u64;
        batch.ends_at = self.n_taken;
        batch.is_watched = !self.unwritten.is_empty();
        self.high_water_bytes = self.budget.high_water_bytes();
        if n_taken <= self.high_water_bytes / 2 && !self.paused.is_empty() {
            for link in self.links.iter_mut().filter(|link| link.paused) {
                link.paused = false;
            }
            batch.resume.append(&mut self.paused);
        }
        n_taken > 0
            || !batch.resume.is_empty()
            || batch.close_mode.is_some()
            || batch.refusal.is_some()
            || (batch.is_watched && self.unwritten.has_written())
    }

    /// The position of the next byte among all that were put in.
    fn end_of_bytes(&self) -> u64 {
        self.n_taken + self.rope.len() as u64
    }

    /// The broker's updates since the last look. The task is awake: nobody needs to wake it.
    pub(crate) fn broker_updates(&mut self) -> BrokerUpdates {
        self.waker = None;
        BrokerUpdates { failed: std::mem::take(&mut self.failed), closing: self.closing }
    }

    pub(crate) const fn set_capabilities(&mut self, capabilities: Capabilities) {
        self.capabilities = capabilities;
    }

    /// Takes the client's frame size and its time to answer a close.
    pub(crate) const fn tuned(&mut self, frame_max: u32, closing_ms: u64) {
        self.frame_max = frame_max;
        self.closing_ms = closing_ms;
    }

    /// Appends frames of the front itself.
    pub(crate) fn put(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.closing == Closing::No {
            encode(&mut self.rope.bytes);
        }
    }

    /// Appends `connection.close`; everything after it is dropped, but for the end.
    pub(crate) fn put_connection_close(&mut self, error: &Error, origin: MethodTag) {
        if self.closing != Closing::No {
            return;
        }
        self.tell_confirms();
        let text = reply::reply_text(error);
        let method = reply::method_of(origin);
        let close = ConnectionClose {
            reply_code: reply::reply_code(error.kind).code(),
            reply_text: text.as_bytes(),
            class_id: method.class,
            method_id: method.method,
        };
        close.encode_frame(0, &mut self.rope.bytes);
        self.close(Closing::Sent);
    }

    /// Appends `connection.close-ok` and ends: it is the client that closes the socket then.
    pub(crate) fn put_connection_close_ok(&mut self) {
        if self.closing != Closing::Ended {
            self.tell_confirms();
            ConnectionCloseOk {}.encode_frame(0, &mut self.rope.bytes);
            self.end(CloseMode::Hold(self.closing_ms));
        }
    }

    /// Nothing follows what is in the outbox.
    pub(crate) fn end(&mut self, close_mode: CloseMode) {
        if self.closing != Closing::Ended {
            self.close(Closing::Ended);
            self.close_mode = Some(close_mode);
        }
    }

    /// Closes the outbox. Deliveries are remembered: the broker may ask for them while it frees the
    /// session.
    fn close(&mut self, closing: Closing) {
        self.closing = closing;
        for channel in &mut self.channels {
            channel.is_closing = true;
        }
        for link in &mut self.links {
            link.paused = false;
        }
        self.paused = Vec::new();
    }

    /// A heartbeat, unless something else goes out or has since `n_taken_before` was returned.
    /// Returns the count for the next time.
    pub(crate) fn heartbeat(&mut self, n_taken_before: u64) -> u64 {
        if self.n_taken == n_taken_before && self.rope.len() == 0 && self.n_in_flight == 0 {
            self.put(|out| out.extend_from_slice(&HEARTBEAT));
        }
        self.n_taken
    }

    /// Gives back memory that is not in use.
    pub(crate) fn trim(&mut self) {
        if self.rope.spare_bytes() > IDLE_BYTES_MAX {
            self.rope = WriteRope::new();
        }
        for channel in &mut self.channels {
            channel.trim();
        }
        self.unwritten.trim();
        self.channels.shrink_to_fit();
        self.links.shrink_to_fit();
        self.paused.shrink_to_fit();
    }

    /// Turns a settlement of a client into the messages it settles.
    pub(crate) fn settle(
        &mut self,
        channel: u16,
        tag: DeliveryTag,
        mut each: impl FnMut(LinkId, Position),
    ) -> Result<(), UnknownTag> {
        let tags = &mut self.open_channel_mut(channel).ok_or(UnknownTag)?.tags;
        match tag {
            DeliveryTag::One(tag) => {
                let entry = tags.settle(tag).ok_or(UnknownTag)?;
                each(entry.link, entry.position);
                Ok(())
            }
            DeliveryTag::Upto(tag) => {
                let known = tags.settle_upto(tag, |entry| each(entry.link, entry.position));
                if known { Ok(()) } else { Err(UnknownTag) }
            }
        }
    }

    /// Follows what a request means for the tags of its channel.
    pub(crate) fn follow(&mut self, channel: u16, step: TagStep) {
        let Some(out) = self.open_channel_mut(channel) else {
            // It was opened in the same read, and the broker has not answered yet.
            if step == TagStep::SelectTx && !self.early_tx.contains(&channel) {
                self.early_tx.push(channel);
            }
            return;
        };
        match step {
            TagStep::SelectTx => out.tags.select_tx(),
            TagStep::CommitTx => out.tags.commit_tx(),
            TagStep::RollBackTx => out.tags.roll_back_tx(),
            TagStep::Recover => out.tags.recover(),
        }
    }

    /// The client closes the channel: its tags stand for nothing from here on, and nothing is
    /// delivered to it any more. What was is remembered until the broker has let go of it.
    pub(crate) fn channel_is_closing(&mut self, channel: u16) {
        if let Some(out) = self.channel_mut(channel) {
            out.is_closing = true;
        }
    }

    fn unsettled(&mut self, links: &[LinkId]) -> Vec<(LinkId, Position)> {
        let mut found: Vec<(u64, LinkId, Position)> = self.unwritten.of_links(links).collect();
        let channel_of = |id: &LinkId| {
            let index = self.links.binary_search_by_key(id, |link| link.id).ok()?;
            self.links.get(index).map(|link| link.channel)
        };
        // None if one of them is not known any more: it may be any channel's.
        let channels: Option<BTreeSet<u16>> = links.iter().map(channel_of).collect();
        for out in &mut self.channels {
            if channels.as_ref().is_none_or(|channels| channels.contains(&out.id)) {
                out.tags.unsettled(links, &mut found);
            }
        }
        found.sort_by_key(|(tag, ..)| *tag);
        found.into_iter().map(|(_, link, position)| (link, position)).collect()
    }

    fn channel_mut(&mut self, id: u16) -> Option<&mut ChannelOut> {
        let index = self.channels.binary_search_by_key(&id, |channel| channel.id).ok()?;
        self.channels.get_mut(index)
    }

    /// A channel that the client has not closed.
    fn open_channel_mut(&mut self, id: u16) -> Option<&mut ChannelOut> {
        self.channel_mut(id).filter(|channel| !channel.is_closing)
    }

    fn drop_links_of(&mut self, channel: u16) {
        self.links.retain(|link| link.channel != channel && !link.is_gone);
        self.n_links_gone = 0;
    }

    fn tell_confirms(&mut self) {
        if std::mem::take(&mut self.has_confirms) && self.closing == Closing::No {
            for channel in self.channels.iter_mut().filter(|channel| channel.has_confirms) {
                channel.has_confirms = false;
                channel.confirms.tell(channel.id, &mut self.rope.bytes);
            }
        }
    }
}

/// The delivery or deliveries that a settlement names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeliveryTag {
    /// One delivery.
    One(u64),
    /// A delivery and all before it; 0 for all.
    Upto(u64),
}

impl DeliveryTag {
    pub(crate) const fn new(tag: u64, multiple: bool) -> Self {
        if multiple { Self::Upto(tag) } else { Self::One(tag) }
    }

    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::One(tag) | Self::Upto(tag) => tag,
        }
    }
}

/// A settlement, in the client's words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settlement {
    pub(crate) tag: DeliveryTag,
    pub(crate) outcome: Outcome,
}
