//! A client's outbox: many threads put events in, one connection task takes bytes out.
//!
//! Everything is encoded as it is put in, under the outbox's lock, straight into the outgoing
//! buffer; only confirms wait until the bytes are taken, so that they fold. The task swaps buffers
//! under the lock and writes without it.

mod channels;
mod confirms;
mod encode;
pub(crate) mod events;
mod links;

use crate::reply;
use amqp091::frame::HEARTBEAT;
use amqp091::method::{ConnectionClose, ConnectionCloseOk};
use channels::ChannelsOut;
use edge::{CloseMode, Closing, OutboxBudget, OutboxState, Outgoing, SharedOutbox, WriteBatch};
use links::Links;
use session::{Error, LinkId, MethodTag, Outcome, Position, UnsettledSince};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Shared bodies from this size on are spliced into the output instead of copied.
const SPLICE_BYTES_MIN: usize = 8 * 1024;

/// COMPAT: RabbitMQ keeps sockets of clients that fail the handshake, or that lost the frame
/// borders, open and silent for this long (milliseconds).
pub(crate) const SILENT_CLOSE_DELAY_MS: u64 = 3_000;

/// The outbox of a connection's client.
pub type ClientOutbox = SharedOutbox<Locked>;

/// The capabilities that the client announced.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Capabilities {
    pub(crate) cancel_notify: bool,
    pub(crate) blocked: bool,
    pub(crate) authentication_failure_close: bool,
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
    ReleaseAll,
}

/// A delivery tag that is not outstanding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnknownTag;

/// The client's terms: what it announced and agreed to.
#[derive(Clone, Copy, Debug)]
struct Terms {
    capabilities: Capabilities,
    frame_max: u32,
    /// Milliseconds the client has to close its socket after `connection.close-ok`.
    closing_ms: u64,
}

/// The part behind the outbox's lock.
#[derive(Debug)]
pub struct Locked {
    out: Outgoing,
    channels: ChannelsOut,
    links: Links,
    terms: Terms,
    /// Room for properties and bodies of messages of other protocols.
    converted: Vec<u8>,
}

impl OutboxState for Locked {
    #[inline]
    fn outgoing(&mut self) -> &mut Outgoing {
        &mut self.out
    }

    fn take(&mut self, batch: &mut WriteBatch) -> bool {
        self.tell_confirms();
        let links = &mut self.links;
        self.out.take(batch, || links.resume())
    }

    fn n_pending(&self) -> usize {
        self.out.n_pending()
    }

    #[inline]
    fn has_something(&self) -> bool {
        self.out.has_something() || self.channels.has_confirms()
    }

    fn put_heartbeat(&mut self) {
        self.put(|out| out.extend_from_slice(&HEARTBEAT));
    }

    fn trim(&mut self) {
        self.out.trim();
        self.channels.trim();
        self.links.trim();
        self.converted = Vec::new();
    }

    fn unsettled(&mut self, links: &[LinkId]) -> Vec<(LinkId, Position)> {
        let mut found: Vec<(u64, LinkId, Position)> = self.out.unsettled(links).collect();
        // None if one of them is not known any more: it may be any channel's.
        let channels: Option<BTreeSet<u16>> =
            links.iter().map(|id| self.links.channel_of(*id)).collect();
        self.channels.unsettled(channels.as_ref(), links, &mut found);
        found.sort_by_key(|(tag, ..)| *tag);
        found.into_iter().map(|(_, link, position)| (link, position)).collect()
    }

    fn unsettled_since(&mut self, link: LinkId) -> Option<UnsettledSince> {
        let channel = self.links.channel_of(link)?;
        self.channels.unsettled_since(channel, link)
    }
}

impl Locked {
    /// Creates an empty outbox for a client that has sent nothing yet.
    pub(crate) fn new(frame_max: u32, budget: &Arc<OutboxBudget>) -> Self {
        let capabilities = Capabilities::default();
        Self {
            out: Outgoing::new(budget),
            channels: ChannelsOut::default(),
            links: Links::default(),
            terms: Terms { capabilities, frame_max, closing_ms: SILENT_CLOSE_DELAY_MS },
            converted: Vec::new(),
        }
    }

    /// The broker's updates since the last look. The task is awake: nobody needs to wake it.
    pub(crate) fn broker_updates(&mut self) -> BrokerUpdates {
        self.out.awake();
        BrokerUpdates { failed: self.channels.take_failed(), closing: self.out.closing() }
    }

    pub(crate) const fn set_capabilities(&mut self, capabilities: Capabilities) {
        self.terms.capabilities = capabilities;
    }

    /// Takes the client's frame size and its time to answer a close.
    pub(crate) const fn tuned(&mut self, frame_max: u32, closing_ms: u64) {
        self.terms.frame_max = frame_max;
        self.terms.closing_ms = closing_ms;
    }

    /// Appends frames of the front itself.
    pub(crate) fn put(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.out.closing() == Closing::No {
            encode(self.out.rope().bytes());
        }
    }

    /// Appends `connection.close`; everything after it is dropped, but for the end.
    pub(crate) fn put_connection_close(&mut self, error: &Error, origin: MethodTag) {
        if self.out.closing() != Closing::No {
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
        close.encode_frame(0, self.out.rope().bytes());
        self.channels.close_all();
        self.links.resume();
        self.out.close();
    }

    /// Appends `connection.close-ok` and ends: it is the client that closes the socket then.
    pub(crate) fn put_connection_close_ok(&mut self) {
        if self.out.closing() != Closing::Ended {
            self.tell_confirms();
            ConnectionCloseOk {}.encode_frame(0, self.out.rope().bytes());
            self.end(CloseMode::Hold(self.terms.closing_ms));
        }
    }

    /// Ends the outbox: no bytes follow those it holds. Deliveries are remembered: the broker may ask for
    /// them while it frees the session.
    pub(crate) fn end(&mut self, close_mode: CloseMode) {
        if self.out.closing() != Closing::Ended {
            self.channels.close_all();
            self.links.resume();
            self.out.end(close_mode);
        }
    }

    /// The channels, for what the client's requests do to their delivery tags.
    pub(crate) const fn channels(&mut self) -> &mut ChannelsOut {
        &mut self.channels
    }

    /// Appends the confirms that were gathered; none once the connection closes.
    fn tell_confirms(&mut self) {
        let out = (self.out.closing() == Closing::No).then(|| self.out.rope().bytes());
        self.channels.tell_confirms(out);
    }
}

/// The delivery or deliveries that a settlement names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeliveryTag {
    /// A single delivery.
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
