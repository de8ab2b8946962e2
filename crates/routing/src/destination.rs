//! The place a binding leads to.

use crate::name::{Name, QueueId};

/// A binding's destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination {
    /// A queue.
    Queue(QueueId),
    /// Another exchange of the same virtual host.
    Exchange(Name),
}
