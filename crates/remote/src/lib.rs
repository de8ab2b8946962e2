//! Queues whose messages are on another node, as this node's clients use them. Never sockets, what is asked
//! of the other node, or the choice of a queue's home.
//! Start reading at [`RemoteQueue`].

use confirm::DurabilityToken;
use message::Refusal;
use meta::{Name, QueueDef};
use queue_type::{AttachRefused, DeleteConditions, Incoming, QueueRefused, RefusedItem};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A queue whose home, the node that has its messages, is another node: the home is down, or cannot be
/// reached.
#[derive(Debug)]
pub struct RemoteQueue {
    def: Arc<QueueDef>,
    home: Name,
    is_deleted: AtomicBool,
}

impl RemoteQueue {
    /// Makes the queue of a definition; `home` is the name of the other node.
    #[must_use]
    pub fn new(def: Arc<QueueDef>, home: Name) -> Arc<Self> {
        Arc::new(Self { def, home, is_deleted: AtomicBool::new(false) })
    }

    /// The queue's definition.
    #[must_use]
    pub const fn def(&self) -> &Arc<QueueDef> {
        &self.def
    }

    /// The name of the node that has the queue's messages.
    #[must_use]
    pub const fn home(&self) -> &Name {
        &self.home
    }

    /// Refuses messages: publishers that wait for a confirm get a negative one. A deleted queue takes
    /// messages silently, as those of this node do.
    pub fn publish(
        &self,
        messages: &[Incoming<'_>],
        refused: &mut Vec<RefusedItem>,
    ) -> DurabilityToken {
        if !self.is_deleted() {
            let items = (0..).zip(messages).map(|(item, _)| item);
            let why = Refusal::Unavailable;
            refused.extend(items.map(|item| RefusedItem { item, why, dead_letter_to: None }));
        }
        DurabilityToken::default()
    }

    /// The refusal of a consumer and of a `basic.get`.
    #[must_use]
    pub fn refuse_attach(&self) -> AttachRefused {
        AttachRefused::HomeDown(self.explanation())
    }

    /// The refusal of any other request with an answer.
    #[must_use]
    pub fn refuse(&self) -> QueueRefused {
        QueueRefused::HomeDown(self.explanation())
    }

    /// The text of all refusals. COMPAT: RabbitMQ's for durable queues; it deletes the other queues of a node
    /// that goes down.
    #[must_use]
    pub fn explanation(&self) -> String {
        let (home, resource) = (&self.home, self.def.resource());
        let durable = if self.def.durable { "durable " } else { "" };
        format!("home node '{home}' of {durable}{resource} is down or inaccessible")
    }

    /// Allows a delete: the definition goes without the home, which drops the messages once it is back. No
    /// message is said to go with the queue. COMPAT: as RabbitMQ, whatever consumers the queue had.
    ///
    /// # Errors
    /// The queue is to be empty, which nobody knows.
    pub const fn begin_delete(&self, conditions: DeleteConditions) -> Result<u64, QueueRefused> {
        if conditions.if_empty { Err(QueueRefused::NotEmpty) } else { Ok(0) }
    }

    /// Notes that the queue is deleted.
    pub fn delete(&self) {
        self.is_deleted.store(true, Ordering::Release);
    }

    /// Whether the queue is deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
