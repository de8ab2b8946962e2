//! The homes of queues: which node has the messages of a queue.

use meta::{Name, QueueDef, State};
use remote::RemoteQueue;
use std::sync::Arc;

/// The rule that tells the home of a queue: the name of another node, or `None` for this node.
#[derive(Clone, Copy, Debug)]
pub struct QueueHomes(pub fn(&State, &QueueDef) -> Option<Name>);

/// The rule of a node alone, which has all queues.
impl Default for QueueHomes {
    fn default() -> Self {
        Self(|_, _| None)
    }
}

impl QueueHomes {
    /// The queue at run time, unless this node has it: then the caller makes a queue of the definition's
    /// type, with its files.
    #[must_use]
    pub fn remote(self, meta: &State, def: &Arc<QueueDef>) -> Option<Arc<RemoteQueue>> {
        (self.0)(meta, def).map(|home| RemoteQueue::new(Arc::clone(def), home))
    }

    /// Whether this node has the queue.
    #[must_use]
    pub fn is_here(self, meta: &State, def: &QueueDef) -> bool {
        (self.0)(meta, def).is_none()
    }
}
