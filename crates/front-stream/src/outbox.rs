//! A client's outbox: many threads put events in, one connection task takes bytes out.
//!
//! Everything is encoded as it is put in, under the outbox's lock, straight into the outgoing buffer; only
//! answers to published messages wait until the bytes are taken, so that they fold.

mod answers;
mod deliver;
mod events;

use crate::reply::refusal_code;
use answers::AppendAnswers;
use deliver::Links;
use edge::{CloseMode, Closing, OutboxBudget, OutboxState, Outgoing, SharedOutbox, WriteBatch};
use events::MetadataParts;
use session::{
    ChannelId, ChunkDelivery, Confirmation, Delivery, Event, LinkId, PublisherId, Room, Sink,
    StreamCounter, StreamRefusal,
};
use std::sync::Arc;
use streamproto::command::{Close, Heartbeat};
use streamproto::{Command as _, ResponseCode};

/// Milliseconds before a client that fails to log in is told so. COMPAT: RabbitMQ's.
pub(crate) const SILENT_CLOSE_DELAY_MS: u64 = 3_000;

/// Milliseconds that a client has for closing its socket once its close is answered. RabbitMQ closes at once.
const ANSWERED_MS: u64 = 500;

/// Milliseconds for what was said before to arrive, where an end comes that the client did not ask for.
pub(crate) const FORCED_MS: u64 = 500;

/// The id of the requests that the server makes beside consumer updates. COMPAT: RabbitMQ's.
const CLOSE_CORRELATION_ID: u32 = 1;

/// The outbox of a connection's client.
pub type ClientOutbox = SharedOutbox<Locked>;

/// The host and port that clients are to connect to.
#[derive(Debug)]
pub(crate) struct AdvertisedAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The part behind the outbox's lock.
#[derive(Debug)]
pub struct Locked {
    out: Outgoing,
    links: Links,
    answers: AppendAnswers,
    metadata: MetadataParts,
    /// The id of the client's close, once it has said one.
    close_asked: Option<u32>,
    advertised: AdvertisedAddress,
    counter: Arc<StreamCounter>,
}

impl OutboxState for Locked {
    #[inline]
    fn outgoing(&mut self) -> &mut Outgoing {
        &mut self.out
    }

    fn take(&mut self, batch: &mut WriteBatch) -> bool {
        self.tell_answers();
        let links = &mut self.links;
        self.out.take(batch, || links.resume())
    }

    fn n_pending(&self) -> usize {
        self.out.n_pending().saturating_add(self.answers.n_bytes())
    }

    #[inline]
    fn has_something(&self) -> bool {
        self.out.has_something() || !self.answers.is_empty()
    }

    fn put_heartbeat(&mut self) {
        self.put(|out| Heartbeat {}.encode_frame(out));
    }

    fn trim(&mut self) {
        self.out.trim();
        self.answers.trim();
    }
}

impl Sink for Locked {
    /// Delivers nothing: clients of this protocol consume chunks, not single messages.
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
    fn confirm(&mut self, _: ChannelId, _first: u64, _last: u64, _: Confirmation<'_>) {}

    fn readable(&mut self, link: LinkId) {
        let Self { links, out, .. } = self;
        if let Some(link) = links.get_mut(link) {
            out.readable(link.id, &mut link.is_paused);
        }
    }

    fn deliver_chunk(&mut self, link: LinkId, chunk: &ChunkDelivery<'_>) -> Room {
        let Self { links, out, counter, .. } = self;
        links.deliver(out, link, chunk, counter)
    }

    fn answer_append(
        &mut self,
        publisher: PublisherId,
        first: u64,
        last: u64,
        answer: Result<(), StreamRefusal>,
    ) {
        if self.out.closing() == Closing::No {
            let n = (last - first).saturating_add(1);
            match answer {
                Ok(()) => self.counter.note_confirmed(n),
                Err(why) => self.counter.note_refused(refusal_code(why).0, n),
            }
            self.answers.add(publisher, first, last, answer);
        }
    }
}

impl Locked {
    /// Creates an empty outbox, which tells the client the `advertised` address of this node.
    pub(crate) fn new(
        budget: &Arc<OutboxBudget>,
        advertised: AdvertisedAddress,
        counter: Arc<StreamCounter>,
    ) -> Self {
        Self {
            out: Outgoing::new(budget),
            links: Links::default(),
            answers: AppendAnswers::default(),
            metadata: MetadataParts::default(),
            close_asked: None,
            advertised,
            counter,
        }
    }

    /// Counts a response code that the client is told, if the code is an error.
    pub(crate) fn note_refused(&self, code: ResponseCode) {
        self.counter.note_refused(code.0, 1);
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

    pub(crate) const fn advertised(&self) -> &AdvertisedAddress {
        &self.advertised
    }

    /// The client knows this version of deliveries.
    pub(crate) const fn set_deliver_version(&mut self, version: u16) {
        self.links.set_version(version);
    }

    /// Notes that the client has asked for the close; the answer behind the rest of its requests has this id.
    pub(crate) const fn close_asked(&mut self, correlation_id: u32) {
        self.close_asked = Some(correlation_id);
    }

    /// Whether the client has asked for the close.
    pub(crate) const fn is_close_asked(&self) -> bool {
        self.close_asked.is_some()
    }

    /// Removes all links: nothing is delivered any more.
    pub(crate) fn forget_links(&mut self) {
        self.links.clear();
    }

    /// Appends a close of the server's; everything after it is dropped, but for the end.
    pub(crate) fn put_close(&mut self, code: ResponseCode, reason: &str) {
        if self.out.closing() != Closing::No {
            return;
        }
        self.tell_answers();
        self.note_refused(code);
        let close = Close { correlation_id: CLOSE_CORRELATION_ID, code, reason };
        close.encode_frame(self.out.rope().bytes());
        self.links.clear();
        self.out.close();
    }

    /// Ends the outbox: no bytes follow those it holds.
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
