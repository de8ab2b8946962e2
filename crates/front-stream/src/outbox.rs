//! A client's outbox: many threads put events in, one connection task takes bytes out.
//!
//! Everything is encoded as it is put in, under the outbox's lock, straight into the outgoing buffer; only
//! answers to published messages wait until the bytes are taken, so that they fold.

mod answers;
mod deliver;
mod events;

use answers::AppendAnswers;
use deliver::Links;
use edge::{CloseMode, Closing, OutboxBudget, Outgoing, TimedOutbox, WriteBatch};
use session::{
    ChannelId, ChunkDelivery, Confirmation, Delivery, Event, LinkId, Outbox, Position, PublisherId,
    Room, Settle, Sink, StreamRefusal, UnsettledSince,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use streamproto::command::{Close, Heartbeat};
use streamproto::{Command as _, ResponseCode};

/// Milliseconds that a client has for closing its socket once nothing more is said to it. COMPAT: RabbitMQ
/// takes as long before it answers clients that fail to log in.
pub(crate) const SILENT_CLOSE_DELAY_MS: u64 = 3_000;

/// The id of the requests that the server makes beside consumer updates. COMPAT: RabbitMQ's.
const CLOSE_CORRELATION_ID: u32 = 1;

/// The outbox of a connection's client.
#[derive(Debug)]
pub struct ClientOutbox {
    locked: Mutex<Locked>,
}

/// The part behind the lock.
#[derive(Debug)]
pub(crate) struct Locked {
    out: Outgoing,
    links: Links,
    answers: AppendAnswers,
    /// The id of the client's close, once it has said one.
    close_asked: Option<u32>,
    /// The host and port that clients are to connect to.
    advertised: (String, u16),
}

impl ClientOutbox {
    pub(crate) fn new(budget: &Arc<OutboxBudget>, advertised: (String, u16)) -> Self {
        Self {
            locked: Mutex::new(Locked {
                out: Outgoing::new(budget),
                links: Links::default(),
                answers: AppendAnswers::default(),
                close_asked: None,
                advertised,
            }),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Locked> {
        // Nothing in here panics with the data half changed; a poisoned outbox is still whole.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything that waits into `batch`, which must be written by now. False when there is
    /// nothing to do: no bytes, no links to resume, no end.
    pub fn try_take(&self, batch: &mut WriteBatch) -> bool {
        self.lock().take(batch)
    }

    /// As [`ClientOutbox::try_take`]; with nothing to do, the task is woken by the next thing put in. To be
    /// called before the task sleeps, each time: reading forgets the task's waker.
    pub fn poll_take(&self, cx: &mut Context<'_>, batch: &mut WriteBatch) -> Poll<()> {
        let mut locked = self.lock();
        if locked.take(batch) {
            return Poll::Ready(());
        }
        locked.out.sleep(cx.waker());
        Poll::Pending
    }

    /// As [`Outgoing::wrote`].
    pub fn wrote(&self, batch: &WriteBatch) {
        self.lock().out.wrote(batch);
    }

    /// As [`Outgoing::has_settled`].
    #[must_use]
    pub fn has_settled(&self) -> bool {
        self.lock().out.has_settled()
    }

    /// As [`Outgoing::take_settled`].
    pub fn take_settled(&self, settles: &mut Vec<Settle>) -> bool {
        self.lock().out.take_settled(settles)
    }

    /// Bytes that wait to be written.
    #[must_use]
    pub fn n_pending(&self) -> usize {
        let locked = self.lock();
        locked.out.n_pending().saturating_add(locked.answers.n_bytes())
    }
}

impl TimedOutbox for ClientOutbox {
    fn heartbeat(&self, n_taken_before: u64) -> u64 {
        let mut locked = self.lock();
        if locked.out.is_silent_since(n_taken_before) {
            locked.put(|out| Heartbeat {}.encode_frame(out));
        }
        locked.out.n_taken()
    }

    fn trim(&self) {
        let mut locked = self.lock();
        locked.out.trim();
        locked.answers.trim();
    }
}

impl Outbox for ClientOutbox {
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        let mut locked = self.lock();
        fill(&mut *locked);
        let has_something = locked.out.has_something() || !locked.answers.is_empty();
        if has_something { locked.out.take_waker() } else { None }
    }

    /// Chunks are not settled.
    fn unsettled(&self, _links: &[LinkId]) -> Vec<(LinkId, Position)> {
        Vec::new()
    }

    fn unsettled_since(&self, _link: LinkId) -> Option<UnsettledSince> {
        None
    }
}

impl Sink for Locked {
    /// Nothing that clients of this protocol consume comes as single messages.
    fn deliver(&mut self, _link: LinkId, _delivery: Delivery<'_>) -> Room {
        Room::Full
    }

    fn room_bytes(&self) -> usize {
        self.out.room_bytes()
    }

    fn event(&mut self, event: Event<'_>) {
        self.put_event(event);
    }

    /// Publishers of this protocol are answered by [`Sink::answer_append`].
    fn confirm(&mut self, _: ChannelId, _first: u64, _last: u64, _: Confirmation) {}

    fn readable(&mut self, link: LinkId) {
        let Self { links, out, .. } = self;
        if let Some(link) = links.get_mut(link) {
            out.readable(link.id, &mut link.is_paused);
        }
    }

    fn deliver_chunk(&mut self, link: LinkId, chunk: &ChunkDelivery<'_>) -> Room {
        let Self { links, out, .. } = self;
        links.deliver(out, link, chunk)
    }

    fn answer_append(
        &mut self,
        publisher: PublisherId,
        first: u64,
        last: u64,
        answer: Result<(), StreamRefusal>,
    ) {
        if self.out.closing() == Closing::No {
            self.answers.add(publisher, first, last, answer);
        }
    }
}

impl Locked {
    fn take(&mut self, batch: &mut WriteBatch) -> bool {
        self.tell_answers();
        let links = &mut self.links;
        self.out.take(batch, || links.resume())
    }

    /// The client has room for what it asks for now. The task is awake: nobody needs to wake it.
    pub(crate) fn closing(&mut self) -> Closing {
        self.out.awake();
        self.out.closing()
    }

    /// Appends frames of the front itself.
    pub(crate) fn put(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.out.closing() == Closing::No {
            encode(self.out.rope().bytes());
        }
    }

    /// The host and port that clients are to connect to.
    pub(crate) fn advertised(&self) -> (&str, u16) {
        (&self.advertised.0, self.advertised.1)
    }

    /// The client knows this version of deliveries.
    pub(crate) const fn set_deliver_version(&mut self, version: u16) {
        self.links.set_version(version);
    }

    /// The client has asked for the end; what it is told behind the rest of its requests has this id.
    pub(crate) const fn close_asked(&mut self, correlation_id: u32) {
        self.close_asked = Some(correlation_id);
    }

    /// Nothing is delivered any more.
    pub(crate) fn forget_links(&mut self) {
        self.links.clear();
    }

    /// Appends a close of the server's; everything after it is dropped, but for the end.
    pub(crate) fn put_close(&mut self, code: ResponseCode, reason: &str) {
        if self.out.closing() != Closing::No {
            return;
        }
        self.tell_answers();
        let close = Close { correlation_id: CLOSE_CORRELATION_ID, code, reason };
        close.encode_frame(self.out.rope().bytes());
        self.links.clear();
        self.out.close();
    }

    /// Nothing follows what is in the outbox.
    pub(crate) fn end(&mut self, close_mode: CloseMode) {
        if self.out.closing() != Closing::Ended {
            self.tell_answers();
            self.links.clear();
            self.out.end(close_mode);
        }
    }

    /// Appends the answers to published messages that were gathered.
    fn tell_answers(&mut self) {
        if !self.answers.is_empty() {
            self.answers.tell(self.out.rope().bytes());
        }
    }
}
