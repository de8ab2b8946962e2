//! The words of clients that use streams as such: publishers with names and publishing ids, consumers that
//! are given whole chunks for credit, stored offsets, super streams.

use crate::{ChannelId, Content, FilePart, LinkId, MethodTag, OwnedContent, Texts};
use bytes::Bytes;

/// The channel of everything on a connection without channels.
pub const ONLY_CHANNEL: ChannelId = ChannelId(1);
/// Bytes of the header in front of a chunk, as it is stored and as it is delivered.
pub const CHUNK_HEADER_BYTES: usize = 48;

/// A publisher of a connection; the client chooses the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublisherId(pub u8);

/// A subscription of a connection; the client chooses the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionId(pub u8);

/// Messages to be appended to a publisher's stream, all of one publish command.
#[derive(Debug)]
pub struct Append {
    /// The publisher.
    pub publisher: PublisherId,
    /// Whether each message has a filter value, or a null in its place.
    pub has_filter_values: bool,
    /// The number of messages and sub-batches.
    pub n_entries: u32,
    /// The entries one after the other, as they came: publishing id, filter value if there are any, message
    /// or sub-batch. The front has looked at their borders; [`OwnedContent::head`](crate::OwnedContent) is
    /// empty.
    pub entries: Content,
}

impl Append {
    /// The entries, in the input of the read.
    pub fn entries<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        match &self.entries {
            Content::Inline(span) => span.of(input),
            Content::Owned(owned) => &owned.body,
        }
    }

    /// Makes the request independent of the input of the read.
    #[must_use]
    pub fn owned(self, input: &[u8]) -> Self {
        let Content::Inline(span) = self.entries else { return self };
        let body = Bytes::copy_from_slice(span.of(input));
        let owned = OwnedContent { head: Bytes::new(), body };
        Self { entries: Content::Owned(Box::new(owned)), ..self }
    }
}

/// Credit for more chunks to be sent to a subscription, or for fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCredit {
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The number of chunks; negative takes credit back.
    pub n_chunks: i16,
}

/// A place in a stream to begin at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOffset {
    /// The first message there is.
    First,
    /// The first message of the last chunk.
    Last,
    /// The next message that is published.
    Next,
    /// The message of this offset.
    Offset(u64),
    /// The first chunk that is not older: milliseconds since 1970.
    TimestampMs(i64),
}

/// Names and values of a request, as a client gave them.
pub type Properties = Vec<(String, String)>;

/// The operation that a client asks for; each is answered, but for `StoreOffset` and `ConsumerUpdated`.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamOp {
    /// Begin to publish to a stream.
    DeclarePublisher {
        /// The number that the publisher gets.
        publisher: PublisherId,
        /// The publisher's name, for deduplication; empty for none.
        reference: String,
        /// The stream.
        stream: String,
    },
    /// End a publisher.
    DeletePublisher(PublisherId),
    /// Ask for the last publishing id of a name.
    QueryPublisherSequence {
        /// The publisher's name.
        reference: String,
        /// The stream.
        stream: String,
    },
    /// Begin to consume a stream.
    Subscribe(StreamSubscription),
    /// End a subscription.
    Unsubscribe(SubscriptionId),
    /// Remember an offset under a consumer's name.
    StoreOffset {
        /// The consumer's name.
        reference: String,
        /// The stream.
        stream: String,
        /// The offset.
        offset: u64,
    },
    /// Ask for the offset that is remembered under a consumer's name.
    QueryOffset {
        /// The consumer's name.
        reference: String,
        /// The stream.
        stream: String,
    },
    /// Ask which offset a place is at.
    ResolveOffset {
        /// The stream.
        stream: String,
        /// The place.
        offset: StreamOffset,
        /// The chunks that would be consumed.
        selection: ChunkSelection,
    },
    /// Create a stream.
    Create {
        /// The stream's name.
        stream: String,
        /// The stream's arguments, for example `max-age`, without the `x-` of other protocols.
        arguments: Properties,
    },
    /// Delete a stream.
    Delete {
        /// The stream's name.
        stream: String,
    },
    /// Ask which of these streams exist.
    Metadata {
        /// The streams' names.
        streams: Texts,
    },
    /// Ask for the figures of a stream.
    Stats {
        /// The stream's name.
        stream: String,
    },
    /// Ask to which streams of a super stream a key leads.
    Route {
        /// The key.
        routing_key: String,
        /// The super stream.
        super_stream: String,
    },
    /// Ask for the streams of a super stream.
    Partitions {
        /// The super stream.
        super_stream: String,
    },
    /// Create a super stream and its streams.
    CreateSuperStream(SuperStream),
    /// Delete a super stream and its streams.
    DeleteSuperStream {
        /// The super stream's name.
        super_stream: String,
    },
    /// The client has taken note of [`StreamEvent::ConsumerUpdate`].
    ConsumerUpdated {
        /// The number that the event had.
        update: u32,
        /// The place to begin at, if the client has a wish of its own.
        offset: Option<StreamOffset>,
    },
}

/// A subscription that a client asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct StreamSubscription {
    /// The number that the subscription gets.
    pub subscription: SubscriptionId,
    /// The stream.
    pub stream: String,
    /// The place to begin at.
    pub offset: StreamOffset,
    /// The number of chunks that may be sent at first.
    pub credit: u16,
    /// The chunks to consume.
    pub selection: ChunkSelection,
    /// The name of the consumer, if it has one.
    pub name: Option<String>,
    /// Whether only one of the consumers of the same name is given anything.
    pub single_active: bool,
    /// The super stream that the stream is consumed as a part of.
    pub super_stream: Option<String>,
    /// The properties that the client gave the subscription, for listings.
    pub properties: Properties,
}

/// The chunks that a consumer is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkSelection {
    /// Filter values: chunks that may have a message with one of them are given; empty for all chunks.
    pub filters: Vec<Vec<u8>>,
    /// Whether chunks with messages that have no filter value are given beside those of `filters`.
    pub match_unfiltered: bool,
    /// Whether chunks of every type are given, with their trailers, not those of messages alone.
    pub all_types: bool,
}

/// A super stream to be created.
#[derive(Debug, PartialEq, Eq)]
pub struct SuperStream {
    /// The name of the super stream.
    pub name: String,
    /// The names of its streams.
    pub partitions: Vec<String>,
    /// The binding key of each stream.
    pub binding_keys: Vec<String>,
    /// The arguments of each stream.
    pub arguments: Properties,
}

/// The sorts of refusal, none of which ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamRefusal {
    /// The stream does not exist, or is a queue of another type.
    StreamDoesNotExist,
    /// The subscription's number is taken.
    SubscriptionIdAlreadyExists,
    /// The subscription does not exist.
    SubscriptionIdDoesNotExist,
    /// The name is that of a queue already.
    StreamAlreadyExists,
    /// The stream is there and cannot be used now.
    StreamNotAvailable,
    /// The node has failed.
    InternalError,
    /// The user may not do that.
    AccessRefused,
    /// The request says something that cannot be.
    PreconditionFailed,
    /// The publisher does not exist.
    PublisherDoesNotExist,
    /// The name has no stored offset.
    NoOffset,
}

/// An event for a client that uses streams. Success without more to say is [`Event::Done`](crate::Event).
#[derive(Debug)]
pub enum StreamEvent<'a> {
    /// A request is refused.
    Refused {
        /// The request.
        origin: MethodTag,
        /// The reason.
        why: StreamRefusal,
    },
    /// Credit for a subscription that cannot have any.
    CreditRefused {
        /// The subscription that was named.
        subscription: SubscriptionId,
        /// The reason.
        why: StreamRefusal,
    },
    /// A subscription is there; its deliveries follow on `link`.
    Subscribed {
        /// The request.
        origin: MethodTag,
        /// The link of its deliveries.
        link: LinkId,
        /// The subscription's number.
        subscription: SubscriptionId,
    },
    /// A subscription has ended as its client asked; nothing is delivered on `link` any more.
    Unsubscribed {
        /// The request.
        origin: MethodTag,
        /// The link of its deliveries.
        link: LinkId,
    },
    /// The last publishing id of a name, 0 without one.
    PublisherSequence {
        /// The request.
        origin: MethodTag,
        /// The publishing id.
        sequence: u64,
    },
    /// The offset that is remembered, or that a place is at.
    Offset {
        /// The request.
        origin: MethodTag,
        /// The offset.
        offset: u64,
    },
    /// The first of very many streams that were asked for, in order, and whether they are there. More follow.
    MetadataPart {
        /// Name and state.
        streams: &'a [(&'a str, Result<(), StreamRefusal>)],
        /// Whether clients may connect to this node, which leads the streams: as in
        /// [`StreamEvent::Metadata`].
        is_served: bool,
    },
    /// The streams that were asked for, in order, and whether they are there: the last part of them, or all.
    Metadata {
        /// The request.
        origin: MethodTag,
        /// Name and state.
        streams: &'a [(&'a str, Result<(), StreamRefusal>)],
        /// Whether clients may connect to this node, which leads them.
        is_served: bool,
    },
    /// The streams that belong to a super stream, or that a key leads to, in order.
    Streams {
        /// The request.
        origin: MethodTag,
        /// The streams' names.
        streams: &'a [&'a str],
    },
    /// The figures of a stream.
    Stats {
        /// The request.
        origin: MethodTag,
        /// Name and value.
        figures: &'a [(&'a str, i64)],
    },
    /// A stream that the client publishes to or consumes has become unavailable. Its publishers and
    /// subscriptions are gone.
    StreamGone {
        /// The stream.
        stream: &'a str,
        /// The links of its subscriptions.
        links: &'a [LinkId],
    },
    /// A consumer of a name shared by several becomes the active one, or is no longer. The client must answer
    /// by [`StreamOp::ConsumerUpdated`] before anything is delivered.
    ConsumerUpdate {
        /// A number that the answer is to name.
        update: u32,
        /// The subscription.
        subscription: SubscriptionId,
        /// Whether it is the active one.
        active: bool,
    },
}

/// A chunk on its way to a consumer.
#[derive(Debug)]
pub struct ChunkDelivery<'a> {
    /// The header as it is stored.
    pub header: &'a [u8; CHUNK_HEADER_BYTES],
    /// The entries; for consumers of chunks of all types with the trailer behind them.
    pub data: ChunkData<'a>,
    /// The id of the last chunk that is committed.
    pub committed_chunk_id: u64,
}

/// The place of a chunk's data.
#[derive(Clone, Debug)]
pub enum ChunkData<'a> {
    /// Bytes to be copied.
    Borrowed(&'a [u8]),
    /// Part of a larger read, or of what was just appended: large ones are not copied.
    Shared(Bytes),
    /// Bytes of a file, to be sent from there.
    File(FilePart),
}

impl ChunkData<'_> {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Borrowed(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
            Self::File(part) => part.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
