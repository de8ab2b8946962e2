//! Requests of clients to the broker, and its answers: words that the vocabulary of sessions lacks as yet.

use crate::fault::ProtocolFault;
use amqp10::{Attach, LinkTarget, MapRef, Performative, SourceTerminus};
use conversion::{DeliveryAttempt, to_amqp10};
use message::{BodyForm, MessageRef};
use session::{
    ChannelId, Content, CreditRequest, HeadPlace, LinkId, Modification, Position, Publish,
    PublishTarget, Settle, Span,
};

/// A link of a connection, as its client names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkHandle {
    /// The session's channel.
    pub channel: ChannelId,
    /// The link's number within the session.
    pub handle: u32,
}

/// A request to the broker, in the order in which the client made them.
#[derive(Debug)]
pub enum LinkRequest {
    /// A session has begun: publishes are counted from its first on.
    BeginSession(ChannelId),
    /// Attach a link; answered by `attached`.
    Attach(Box<AttachAsked>),
    /// The client detaches a link: what was delivered on it and is not settled goes back, in order.
    Detach {
        /// The session's channel.
        channel: ChannelId,
        /// The link.
        link: LinkId,
        /// Whether the client has closed it, and with it the subscription that it is attached to.
        is_closed: bool,
    },
    /// Put a message in, on its session's channel; answered by `answer` with the number of the publish on
    /// that channel, from 1 on.
    Publish(Publish),
    /// Settle a delivered message.
    Settle(Settle),
    /// Settle delivered messages with changes that their queue may keep.
    Modify {
        /// The session's channel.
        channel: ChannelId,
        /// The messages and their changes.
        modification: Box<Modification>,
    },
    /// Give a consumer credit; answered by `flowed` if the client asks for that.
    Credit(CreditRequest),
    /// Carry out a request to the management node; answered by `deliver`.
    Manage(Box<ManagementCall>),
    /// The link on which responses of the management node go out is gone.
    EndResponses(LinkHandle),
    /// Make the exchange of topics, unless it is there; not answered.
    NeedTopics(ChannelId),
    /// Begin to keep what transactions of a session do, on this channel, until [`LinkRequest::Discharge`].
    BeginTransactions(ChannelId),
    /// End a transaction; answered by `discharged`.
    Discharge {
        /// The session's channel.
        session: ChannelId,
        /// The channel of its transactions.
        channel: ChannelId,
        /// The number of the transaction.
        number: u32,
        /// Whether what it did is carried out.
        commits: bool,
    },
    /// The session has ended: its links are gone. Or the coordinator of a session has: the open transaction
    /// on this channel is rolled back.
    EndSession(ChannelId),
    /// The connection is closed: all of its sessions are gone.
    CloseConnection,
}

/// A publish that is to be filled in where it lies: one that is copied just after it was filled in stalls.
pub(crate) const UNFILLED: Publish = Publish {
    channel: ChannelId(0),
    head: HeadPlace::Scratch,
    exchange: Span { start: 0, len: 0 },
    routing_key: Span { start: 0, len: 0 },
    properties: Span { start: 0, len: 0 },
    content: Content::Inline(Span { start: 0, len: 0 }),
    form: BodyForm::Amqp10,
    mandatory: false,
    immediate: false,
    persistent: false,
    inspect: false,
};

/// A link that a client attaches.
#[derive(Clone, Debug)]
pub struct AttachAsked {
    /// The link.
    pub key: LinkHandle,
    /// The attach, as it came.
    pub(crate) body: Vec<u8>,
    /// The exchange and key of a publisher's messages; none if each of them says its own, and of a consumer.
    pub(crate) target: Option<PublishTarget>,
}

impl AttachAsked {
    /// The client's attach.
    #[must_use]
    pub fn attach(&self) -> Option<Attach<'_>> {
        match Performative::decode(&self.body) {
            Ok((Performative::Attach(attach), _)) => Some(*attach),
            _ => None,
        }
    }
}

/// The link that the broker has attached. What is in place may differ from what was asked for.
#[derive(Clone, Copy, Debug)]
pub struct AttachedLink<'a> {
    /// The broker's name for the link.
    pub link: LinkId,
    /// The source in place; `None` for what was asked for. One that is not dynamic has its filters, too.
    pub source: Option<SourceTerminus<'a>>,
    /// The target in place; `None` for what was asked for.
    pub target: Option<LinkTarget<'a>>,
    /// The filters in place, of those that were asked for; `None` if the source has no filters.
    pub filters: Option<MapRef<'a>>,
}

/// The answer to an attach.
pub type AttachResult<'a> = Result<AttachedLink<'a>, ProtocolFault>;

/// A request to the management node, in the sections of a message.
#[derive(Debug)]
pub struct ManagementCall {
    /// The link on which the response goes out.
    pub responses: LinkHandle,
    /// The message, for [`ManagementRequest::parse`](crate::management::ManagementRequest::parse).
    pub sections: Vec<u8>,
}

/// A message on its way to a consumer.
#[derive(Clone, Copy, Debug)]
pub struct SentMessage<'m> {
    /// The message's place in its queue; of no meaning for a response of the management node.
    pub position: Position,
    /// The message.
    pub content: SentContent<'m>,
}

/// A message's sections, or where they are made of.
#[derive(Clone, Copy, Debug)]
pub enum SentContent<'m> {
    /// The sections.
    Sections(&'m [u8]),
    /// A message of a queue, and how often it was delivered before.
    Stored {
        /// The message.
        message: &'m MessageRef<'m>,
        /// Its deliveries before.
        attempt: DeliveryAttempt,
    },
}

impl<'m> SentMessage<'m> {
    /// A message that is there in sections.
    #[must_use]
    pub const fn in_sections(position: Position, sections: &'m [u8]) -> Self {
        Self { position, content: SentContent::Sections(sections) }
    }
}

impl SentContent<'_> {
    /// Appends the message's sections.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Sections(sections) => out.extend_from_slice(sections),
            Self::Stored { message, attempt } => to_amqp10(message, attempt, out),
        }
    }
}
