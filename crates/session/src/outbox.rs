use crate::{
    ChannelId, ChunkDelivery, Event, LinkId, ListedSession, Position, PublisherId, StreamRefusal,
};
use message::{MessageRef, Refusal};
use std::task::Waker;

/// The outbox of a connection: the broker puts events in. Implemented once per protocol front; many
/// threads put things in, one connection task takes the encoded bytes out.
///
/// Lock order: a queue's lock may be held while an outbox is locked, never the other way round, and
/// never two outboxes at a time.
pub trait Outbox: Send + Sync {
    /// Locks the outbox once and lets `fill` put things in. Returns the waker of the connection task
    /// when it sleeps: the caller wakes it after giving back its own locks.
    #[must_use]
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker>;

    /// The positions delivered on these links, which are sorted, that the client has not settled, each link's
    /// in the order of delivery; an acknowledgement counts from the commit of its transaction on. Called,
    /// under a queue's lock, only for queues that keep no record of the unacked messages of consumers
    /// (`ack-direct`). Positions that were named for an [`Op::ReleaseUnsettled`](crate::Op::ReleaseUnsettled)
    /// are not named again.
    fn unsettled(&self, _links: &[LinkId]) -> Vec<(LinkId, Position)> {
        Vec::new()
    }

    /// How far back deliveries on this link go that the client has not settled; none if there are none.
    /// Asked as [`Outbox::unsettled`], and changes nothing.
    fn unsettled_since(&self, _link: LinkId) -> Option<UnsettledSince> {
        None
    }

    /// The first session of the client on this channel or a higher one; none of clients whose protocol has
    /// no sessions.
    fn session_from(&self, _channel: ChannelId) -> Option<ListedSession> {
        None
    }
}

/// The numbers that a channel has given its deliveries, which rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsettledSince {
    /// The number of the link's oldest delivery that is not settled.
    pub oldest: u64,
    /// The number of the channel's newest delivery, whatever became of it.
    pub newest: u64,
}

/// A locked outbox.
pub trait Sink {
    /// Appends one delivery. With [`Room::Full`] the delivery was still taken; the broker gives no
    /// more on this link until the connection asks for it again (the outbox has noted the link).
    fn deliver(&mut self, link: LinkId, delivery: Delivery<'_>) -> Room;

    /// About how many bytes of deliveries it takes before it says [`Room::Full`], as if that was asked before
    /// the first of them. With none, that is its answer to the next one.
    fn room_bytes(&self) -> usize;

    /// Whether the client can be sent a message to whose properties the broker may add so many bytes. If not,
    /// it is about to lose its connection for that, and the message must stay in `queue`.
    fn fits(&mut self, _message: &MessageRef<'_>, _added_bytes: usize, _queue: &str) -> bool {
        true
    }

    /// Whether the client understands to be told of consumers that the broker cancels.
    fn understands_cancels(&self) -> bool {
        true
    }

    /// Tells the client that it has held deliveries on this link for too long, which are back in their queue:
    /// the link is given nothing before the client has settled them. False if the client cannot be told in
    /// this way: its consumer ends.
    fn timed_out(&mut self, _link: LinkId, _positions: &[Position]) -> bool {
        false
    }

    /// Appends anything else.
    fn event(&mut self, event: Event<'_>);

    /// Notes that an [`Op::ReleaseUnsettled`](crate::Op::ReleaseUnsettled) of the channel, which was answered
    /// before, is carried out.
    fn released(&mut self, _channel: ChannelId) {}

    /// The publishes of a confirming channel numbered `first..=last` (from 1, in the order they came
    /// since confirms were selected) are done. Frames are made when the bytes are taken, so that
    /// runs fold into one.
    fn confirm(&mut self, channel: ChannelId, first: u64, last: u64, answer: Confirmation<'_>);

    /// Notes that messages or chunks are there for a link that waits: the connection's task is to ask for
    /// them, as it does for links that found no room. Called once for each time that the link begins to wait.
    fn readable(&mut self, link: LinkId);

    /// Appends the credit of a link, behind the deliveries that were made before. Called for links alone
    /// whose clients [give credit](crate::Request::Flow).
    fn flowed(&mut self, _link: LinkId, _credit: ConsumerCredit) {}

    /// Appends one chunk, as [`Sink::deliver`] does a message. Called for clients alone that use streams as
    /// such.
    fn deliver_chunk(&mut self, _link: LinkId, _chunk: &ChunkDelivery<'_>) -> Room {
        Room::Full
    }

    /// Appends the answer to the messages that this publisher gave the ids `first..=last`: they are
    /// committed, or refused. Frames are made when the bytes are taken, so that many fold into one. Called
    /// for clients alone that use streams as such.
    fn answer_append(
        &mut self,
        _publisher: PublisherId,
        _first: u64,
        _last: u64,
        _answer: Result<(), StreamRefusal>,
    ) {
    }
}

/// The credit of a consumer's link as its queue has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerCredit {
    /// Deliveries made on the link, and those that were drained: a serial number.
    pub delivery_count: u32,
    /// Deliveries that may follow.
    pub credit: u32,
    /// Ready messages of the queue, or as many as the number tells.
    pub available: u32,
    /// Whether the client asked for the credit to be used up.
    pub drain: bool,
    /// Whether the consumer is its queue's single active one; `None` if the client knows, or there is none.
    pub is_active: Option<bool>,
}

/// The broker's answer to a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation<'q> {
    /// All queues of the message have it.
    Accepted,
    /// No queue was to have the message, and nothing else took it.
    Unroutable,
    /// A queue has not taken the message, or nobody will consume it there.
    Refused(RefusedBy<'q>),
}

/// The queue that refused a message, and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedBy<'q> {
    /// Name of the queue.
    pub queue: &'q str,
    /// Reason of the refusal.
    pub why: Refusal,
}

/// Bytes of a delivery in an outbox beyond its message, about: frames, tags.
pub const DELIVERY_BYTES: usize = 80;

/// Properties up to this size can be sent to every client.
pub const PROPERTIES_BYTES_ALWAYS_TAKEN: usize = 7 * 1024;

/// Whether an outbox wants more deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// About this many bytes more.
    Bytes(usize),
    /// None until the client has read some.
    Full,
}

/// A message on its way to a consumer.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The message's place in the queue, to be named when the delivery is settled.
    pub position: Position,
    /// Whether the message was delivered before.
    pub redelivered: bool,
    /// Deliveries of the message before this one that failed, as far as its queue counts them.
    pub n_failed: u32,
    /// Whether the delivery is settled (Accepted) by being written to the socket, without an
    /// acknowledgement. Only set on links without acknowledgements (`no_ack`).
    pub settled_by_write: bool,
    /// The message.
    pub message: &'a MessageRef<'a>,
}
