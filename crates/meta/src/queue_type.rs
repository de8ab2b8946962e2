//! The type of a queue, the format it is stored in, and the connection it may belong to.

/// The types of queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// On one node.
    Classic,
}

impl QueueKind {
    /// The name used in `x-queue-type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Classic => "classic",
        }
    }
}

/// The format a classic queue is stored in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueVersion {
    /// The older one.
    V1,
    /// The newer one.
    #[default]
    V2,
}

impl QueueVersion {
    /// As it is written.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// The version of that number, if there is one.
    #[must_use]
    pub const fn of_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }
}

/// A client connection, as far as it can own queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);
