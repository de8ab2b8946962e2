//! Messages on their way into a queue, and those that it does not take.

use confirm::Publisher;
use message::MessageRef;
use message_store::BodyHome;
use meta::Name;
use std::sync::Arc;

/// A message on its way in.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The message.
    pub message: MessageRef<'a>,
    /// Where its body is stored, once for all its queues.
    pub home: Option<&'a Arc<BodyHome>>,
    /// Its publisher, if that waits for it to be confirmed.
    pub confirm: Option<ConfirmRef<'a>>,
    /// Its place among those of a publisher that names itself.
    pub named: Option<&'a Named>,
}

/// The place of a message among those of a publisher that keeps its name over reconnects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The publisher's name.
    pub publisher: Box<[u8]>,
    /// The message's number among that publisher's, which rise.
    pub id: u64,
}

/// Whether any of some messages ...
#[expect(clippy::struct_excessive_bools, reason = "each is true or not, whatever the others are")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Any {
    /// is persistent, and some of its queues are durable.
    pub logged: bool,
    /// has a home for its body.
    pub stored: bool,
    /// has an expiration.
    pub expiring: bool,
    /// is of a publisher that names itself.
    pub named: bool,
    /// is of the broker itself, which sends it once and does not hear of a refusal; all are then.
    pub untracked: bool,
}

/// Messages on their way into one queue, in order; never none.
pub struct Publishes<'b, 'a> {
    /// The queue may change how it keeps them.
    pub messages: &'b mut [Incoming<'a>],
    /// Of all of them.
    pub any: Any,
    /// They are confirmed once a consumer has had them.
    pub on_consume: bool,
}

/// A publish that is to be confirmed.
#[derive(Clone, Debug)]
pub struct Confirm {
    /// The channel that waits.
    pub publisher: Arc<Publisher>,
    /// Its number on its channel.
    pub sequence: u64,
}

/// Likewise, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct ConfirmRef<'p> {
    /// The channel that waits.
    pub publisher: &'p Arc<Publisher>,
    /// Its number on its channel.
    pub sequence: u64,
}

impl Confirm {
    /// Borrowed.
    pub const fn as_ref(&self) -> ConfirmRef<'_> {
        ConfirmRef { publisher: &self.publisher, sequence: self.sequence }
    }
}

/// A message that a full queue did not take.
#[derive(Clone, Debug)]
pub struct RefusedItem {
    /// Its place among those that came with it.
    pub item: u32,
    /// It is to be dead-lettered.
    pub dead_letter_to: Option<Arc<DeadLetterTo>>,
}

/// Where a queue's dead letters go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterTo {
    /// The exchange, which need not exist.
    pub exchange: Name,
    /// Instead of the keys a message has.
    pub routing_key: Option<Vec<u8>>,
}
