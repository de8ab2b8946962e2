//! Messages on their way into a queue, and those that it does not take.

use confirm::Publisher;
use message::{MessageRef, Refusal};
use message_store::BodyHome;
use meta::Name;
use std::sync::Arc;

/// A message on its way in.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The message.
    pub message: MessageRef<'a>,
    /// Home of the message's body, which is stored once for all its queues.
    pub home: Option<&'a Arc<BodyHome>>,
    /// Publisher of the message, if it waits for a confirm.
    pub confirm: Option<ConfirmRef<'a>>,
    /// Place of the message among those of a publisher that names itself.
    pub named: Option<&'a Named>,
}

/// The place of a message among those of a publisher that keeps its name over reconnects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The publisher's name.
    pub publisher: Box<[u8]>,
    /// Number of the message among those of its publisher, which rise.
    pub id: u64,
}

/// Flags of some messages together: each is set if it applies to any message.
#[expect(clippy::struct_excessive_bools, reason = "each is true or not, whatever the others are")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Any {
    /// Whether a message is persistent, and some of its queues are durable.
    pub logged: bool,
    /// Whether a message has a home for its body.
    pub stored: bool,
    /// Whether a message has an expiration.
    pub expiring: bool,
    /// Whether a message is of a publisher that names itself.
    pub named: bool,
    /// Whether the messages are of the broker itself, which sends them once and does not hear of a refusal.
    pub untracked: bool,
}

/// Messages on their way into one queue, in order; never none.
pub struct Publishes<'b, 'a> {
    /// The messages; the queue may change how it keeps them.
    pub messages: &'b mut [Incoming<'a>],
    /// Flags of the messages together.
    pub any: Any,
    /// Whether the messages are confirmed once a consumer has had them.
    pub on_consume: bool,
}

/// A publish that is to be confirmed.
#[derive(Clone, Debug)]
pub struct Confirm {
    /// Publisher that waits for the confirm.
    pub publisher: Arc<Publisher>,
    /// Number of the publish on its channel.
    pub sequence: u64,
}

/// A publish that is to be confirmed, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct ConfirmRef<'p> {
    /// Publisher that waits for the confirm.
    pub publisher: &'p Arc<Publisher>,
    /// Number of the publish on its channel.
    pub sequence: u64,
}

/// The confirm of a message that goes from its queue to another.
#[derive(Clone, Debug)]
pub struct TakenConfirm {
    /// Position of the message in the queue that it leaves.
    pub position: u64,
    /// The publish that is to be confirmed.
    pub confirm: Confirm,
}

impl Confirm {
    /// Borrows the publish.
    pub const fn as_ref(&self) -> ConfirmRef<'_> {
        ConfirmRef { publisher: &self.publisher, sequence: self.sequence }
    }
}

/// A message that a queue did not take.
#[derive(Clone, Debug)]
pub struct RefusedItem {
    /// Index of the message among those that came with it.
    pub item: u32,
    /// Reason of the refusal.
    pub why: Refusal,
    /// Target of the message if it is to be dead-lettered.
    pub dead_letter_to: Option<Arc<DeadLetterTo>>,
}

impl RefusedItem {
    /// Refuses all messages whose publishers wait, since the queue is deleted.
    pub fn awaited_by_deleted(messages: &[Incoming<'_>]) -> impl Iterator<Item = Self> {
        let awaited = (0..).zip(messages).filter(|(_, it)| it.confirm.is_some());
        awaited.map(|(item, _)| Self { item, why: Refusal::Deleted, dead_letter_to: None })
    }
}

/// The target of a queue's dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterTo {
    /// The exchange, which need not exist.
    pub exchange: Name,
    /// Routing key in place of those that a message has.
    pub routing_key: Option<Vec<u8>>,
}
