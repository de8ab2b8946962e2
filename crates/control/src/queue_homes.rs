//! The homes of queues: which node has the messages of a queue.

use log::NodeNumber;
use meta::{Name, QueueDef, State};
use remote::{Homes, RemoteQueue};
use std::sync::Arc;

/// The rule that tells the name of the other node that has a queue; `None` if the node of this number has it.
type HomeRule = fn(NodeNumber, &State, &QueueDef) -> Option<Name>;

/// The homes of queues, as a node sees them.
#[derive(Clone, Debug)]
pub struct QueueHomes {
    me: NodeNumber,
    rule: HomeRule,
    others: Arc<Homes>,
}

/// The homes that the definitions name, as the first node of a cluster sees them.
impl Default for QueueHomes {
    fn default() -> Self {
        Self { me: NodeNumber(1), rule: by_definitions, others: Arc::default() }
    }
}

impl QueueHomes {
    /// Homes by another rule, for tests.
    #[must_use]
    pub fn by_rule(rule: HomeRule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Returns the homes as the node of that number sees them.
    #[must_use]
    pub fn seen_by(self, me: NodeNumber) -> Self {
        Self { me, ..self }
    }

    /// The queue at run time, unless this node has it: then the caller makes a queue of the definition's
    /// type, with its files.
    #[must_use]
    pub fn remote(&self, meta: &State, def: &Arc<QueueDef>) -> Option<Arc<RemoteQueue>> {
        let home = (self.rule)(self.me, meta, def)?;
        let remote = RemoteQueue::new(Arc::clone(def), home, &self.others);
        remote.set_confirm_on(meta.queue_settings(def).confirm.on);
        Some(remote)
    }

    /// The other nodes, as homes of queues.
    #[must_use]
    pub const fn others(&self) -> &Arc<Homes> {
        &self.others
    }

    /// Whether this node has the queue.
    #[must_use]
    pub fn is_here(&self, meta: &State, def: &QueueDef) -> bool {
        (self.rule)(self.me, meta, def).is_none()
    }
}

/// A node that is in no cluster has all queues, whatever number it had when they were declared.
fn by_definitions(me: NodeNumber, meta: &State, def: &QueueDef) -> Option<Name> {
    let nodes = meta.nodes();
    if nodes.is_empty() || def.home.node == me.0 {
        return None;
    }
    let name = nodes.get(def.home.node).map(|node| node.name.clone());
    Some(name.unwrap_or_else(|| Name::from(&*format!("node {}", def.home.node))))
}
