//! Requests of clients to the broker, and its answers: words that the vocabulary of sessions lacks as yet.

use crate::fault::ProtocolFault;
use amqp10::{Attach, LinkTarget, MapRef, Performative, SourceTerminus};
use amqp091::TableRef;
use conversion::{DeliveryAttempt, to_amqp10};
use message::MessageRef;
use session::{
    ChannelId, CreditRequest, LinkId, Modification, Position, Publish, PublishTarget, Settle,
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
        modification: Modification,
    },
    /// Give a consumer credit; answered by `flowed` if the client asks for that.
    Credit(CreditRequest),
    /// Carry out a request to the management node; answered by `deliver`.
    Manage(Box<ManagementCall>),
    /// The link on which responses of the management node go out is gone.
    EndResponses(LinkHandle),
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
    /// The source in place; `None` for what was asked for.
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
    /// A message of a queue, and whether it was delivered before.
    Stored {
        /// The message.
        message: &'m MessageRef<'m>,
        /// Whether it was delivered before.
        redelivered: bool,
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
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Sections(sections) => out.extend_from_slice(sections),
            Self::Stored { message, redelivered } => {
                to_amqp10(message, attempt_of(message, redelivered), out);
            }
        }
    }
}

/// The deliveries before this one. COMPAT: as many have failed as a queue says of a message that comes again,
/// by the header `x-delivery-count`, and as a dead letter was rejected before it came to its queue.
fn attempt_of(message: &MessageRef<'_>, redelivered: bool) -> DeliveryAttempt {
    let is_letter = message.annotations.dead_lettered;
    if !redelivered && !is_letter {
        return DeliveryAttempt::FIRST;
    }
    let headers = message.index().headers().unwrap_or(TableRef::EMPTY);
    let counted = headers.get(b"x-delivery-count").filter(|_| redelivered);
    let n_failed = counted.and_then(|it| it.as_i64()).unwrap_or(0);
    let n_rejected = if is_letter { n_rejected(headers) } else { 0 };
    let n_failed = u32::try_from(n_failed.saturating_add(n_rejected)).unwrap_or(0);
    DeliveryAttempt { first_acquirer: false, delivery_count: n_failed }
}

fn n_rejected(headers: TableRef<'_>) -> i64 {
    let deaths = headers.get(b"x-death").and_then(|it| it.as_array()).unwrap_or_default();
    let counts = deaths.iter().filter_map(|death| {
        let death = death.as_table()?;
        let is_rejected = death.get(b"reason")?.as_bytes() == Some(b"rejected");
        is_rejected.then(|| death.get(b"count")?.as_i64()).flatten()
    });
    counts.fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use amqp091::{ShortString, Table, Value};
    use message::{Annotations, Body, BodyForm, Properties};

    fn headers(entries: Vec<(&'static str, Value)>) -> Table {
        entries.into_iter().map(|(name, it)| (ShortString::from_static(name), it)).collect()
    }

    #[test]
    fn rejections_of_dead_letters_count_as_failures() {
        let death = |reason: &str, count| {
            let fields = vec![("reason", Value::from(reason)), ("count", Value::I64(count))];
            Value::Table(headers(fields))
        };
        let deaths = Value::Array(vec![death("rejected", 2), death("expired", 5)]);
        let entries = vec![("x-death", deaths), ("x-delivery-count", Value::I64(3))];
        let properties = Properties { headers: Some(headers(entries)), ..Properties::default() };
        let properties = properties.to_bytes();
        let attempt = |dead_lettered, redelivered| {
            let annotations = Annotations { dead_lettered, ..Annotations::default() };
            let message = MessageRef {
                exchange: b"",
                routing_key: b"q",
                properties: &properties,
                body: Body::Borrowed(b""),
                persistent: true,
                annotations,
                form: BodyForm::Plain,
            };
            let attempt = attempt_of(&message, redelivered);
            (attempt.first_acquirer, attempt.delivery_count)
        };
        assert_eq!(attempt(false, false), (true, 0));
        assert_eq!(attempt(false, true), (false, 3));
        assert_eq!(attempt(true, false), (false, 2));
        assert_eq!(attempt(true, true), (false, 5));
    }
}
