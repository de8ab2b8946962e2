//! Requests of clients to the broker, and its answers: words that the vocabulary of sessions lacks as yet.

use crate::fault::ProtocolFault;
use amqp10::{Attach, LinkTarget, Performative, SerialNumber, SourceTerminus};
use session::{ChannelId, Content, CreditRequest, LinkId, Modification, Position, Settle};

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
    },
    /// Put a message in; answered by `answer` with the number of the publish on its channel, from 1 on.
    Publish {
        /// The session's channel.
        channel: ChannelId,
        /// The message.
        message: ReceivedMessage,
    },
    /// Settle a delivered message.
    Settle(Settle),
    /// Settle delivered messages with changes that their queue may keep.
    Modify {
        /// The session's channel.
        channel: ChannelId,
        /// The messages and their changes.
        modification: Modification,
    },
    /// Give a consumer credit; answered by `flowed` if the client asks for that.
    Credit(CreditRequest),
    /// Carry out a request to the management node; answered by `deliver`.
    Manage(Box<ManagementCall>),
    /// The session has ended: its links are gone.
    EndSession(ChannelId),
    /// The connection is closed: all of its sessions are gone.
    CloseConnection,
}

/// A message that arrived as a whole.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// The link.
    pub link: LinkId,
    /// The client's number for the link.
    pub handle: u32,
    /// The client's number for the delivery.
    pub id: SerialNumber,
    /// Whether the client wants no answer.
    pub is_settled: bool,
    /// The message format; 0 is AMQP's own.
    pub message_format: u32,
    /// The sections of the message as they came, in the input of the read or gathered from several.
    pub content: Content,
}

/// A link that a client attaches.
#[derive(Debug)]
pub struct AttachAsked {
    /// The link.
    pub key: LinkHandle,
    /// The attach, as it came.
    body: Vec<u8>,
}

impl AttachAsked {
    pub(crate) const fn new(key: LinkHandle, body: Vec<u8>) -> Self {
        Self { key, body }
    }

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
    /// The source in place; `None` for what was asked for.
    pub source: Option<SourceTerminus<'a>>,
    /// The target in place; `None` for what was asked for.
    pub target: Option<LinkTarget<'a>>,
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
    /// The message's sections.
    pub sections: &'m [u8],
}
