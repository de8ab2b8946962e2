//! Conditions of the deletion of a queue, and why it is refused.

/// Conditions for deleting a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteConditions {
    /// Only without consumers.
    pub if_unused: bool,
    /// Only without ready messages.
    pub if_empty: bool,
}

/// Why an operator's request on a queue was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueRefused {
    /// No queue of that name.
    NotFound,
    /// It has consumers.
    InUse,
    /// It has messages.
    NotEmpty,
    /// Queues of its type do not do that: the explanation.
    NotImplemented(String),
}
