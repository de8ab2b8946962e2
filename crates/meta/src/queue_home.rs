//! The node that a queue is on.

/// The node that a queue is on, chosen when the queue is declared. A redeclaration does not compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueHome {
    /// The node's number.
    pub node: u16,
    /// The number of the node's start with which a transient or exclusive queue ends; 0 for a durable queue.
    pub boot: u32,
}

impl Default for QueueHome {
    /// The home of queues that name none: the first node, at no start in particular.
    fn default() -> Self {
        Self { node: 1, boot: 0 }
    }
}
