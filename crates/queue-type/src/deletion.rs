//! Conditions of the deletion of a queue, the reasons for refusing it, and messages that are removed from it.

/// Conditions for deleting a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteConditions {
    /// Whether to delete only a queue without consumers.
    pub if_unused: bool,
    /// Whether to delete only a queue without ready messages.
    pub if_empty: bool,
}

/// A message that an operator picked among those of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PickedMessage {
    /// Position of the message in its queue.
    pub position: u64,
    /// Size of the message's body.
    pub body_bytes: u64,
}

/// The reason that a request on a queue was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueRefused {
    /// No queue has that name.
    NotFound,
    /// The queue has consumers.
    InUse,
    /// The queue has messages.
    NotEmpty,
    /// Queues of this type cannot do that: the explanation.
    NotImplemented(String),
    /// The node that has the queue is down: the explanation.
    HomeDown(String),
}
