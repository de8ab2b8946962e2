//! The vocabulary between protocol fronts and the broker: what a client asks ([`Request`]), what it
//! is told ([`Event`], [`Delivery`]), and where the broker puts that ([`Outbox`]).
//! Plain data. Never sockets, clocks, queues, and never how a protocol spells anything.
//! Start reading at [`Request`], then [`Outbox`].

mod client_totals;
mod error;
mod event;
mod file_part;
mod link;
mod listed;
mod management;
mod outbox;
mod protocol;
mod request;
mod stream;
mod stream_counts;
mod texts;
mod topic;

pub use client_totals::{ClientTotals, ConversionTotals, ConvertedTo};
pub use error::{Error, ErrorKind};
pub use event::{Event, MethodTag, ReturnReason};
pub use file_part::{FileBytes, FilePart};
pub use link::{DeclaredNode, LinkEvent, LinkOp, PublishTarget, REPLY_QUEUES};
pub use listed::{ListedLink, ListedSession, ListedWindows};
pub use management::{
    BindingEnds, BindingReport, BindingTarget, ManagementEvent, ManagementOp, QueueReport,
};
pub use outbox::{
    Confirmation, ConsumerCredit, DELIVERY_BYTES, Delivery, Outbox, PROPERTIES_BYTES_ALWAYS_TAKEN,
    RefusedBy, Room, Sink, UnsettledSince,
};
pub use protocol::{ProtocolKind, ProtocolRow};
pub use request::{
    Attachment, Content, Control, CreditRequest, ExchangeBinding, ExchangeDeclaration, Flag,
    HeadPlace, LinkSource, MessageChanges, Modification, Op, Outcome, OwnedContent, Publish,
    QueueBinding, QueueDeclaration, ReadInput, RefusalScope, Request, Settle, Span,
};
pub use stream::{
    Append, CHUNK_HEADER_BYTES, ChunkData, ChunkDelivery, ChunkSelection, ONLY_CHANNEL, Properties,
    PublisherId, StreamCredit, StreamEvent, StreamOffset, StreamOp, StreamRefusal,
    StreamSubscription, SubscriptionId, SuperStream,
};
pub use stream_counts::{StreamCounter, StreamCounts, StreamTotals};
pub use texts::Texts;
pub use topic::{
    Subscribe, Subscription, SubscriptionKind, TOPIC_EXCHANGE, Topic, TopicEvent, TopicOp,
};

pub use amqp091::table::{ShortString, Table, TableRef, Value};

/// A channel or session of a connection. Protocols without channels use one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u16);

/// Ties deliveries to what asked for them: one consumer, or one channel's `get`s from one queue.
/// Given out by the broker in rising order, never used twice on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// A message's place in its queue: rises with every message put into that queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position(pub u64);

/// The limits that client and server agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// Most channels; 0 for no limit.
    pub channel_max: u16,
    /// Largest frame in bytes; 0 for no limit.
    pub frame_max: u32,
    /// Heartbeat interval in seconds; 0 for none.
    pub heartbeat_s: u16,
}
