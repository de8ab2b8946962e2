//! The one way of messages into queues, whoever sends them.
//!
//! ```text
//! reads of clients, transactions ---(routes)---+
//! dead letters, delayed messages ---(routes)---+--> Batch::add --> Batch::put_in --> answers
//! events, traces, log lines, histories --------+    by queue       each queue told   to those
//!                                                                   at once          who wait
//! ```
//! A producer routes its messages, or knows their queues, and adds each as a [`PendingPublish`]; the messages
//! stay where they are, in a [`Source`]. Must never know exchanges, permissions or channels.

mod answers;
mod batch;
mod groups;
mod internal;
mod refused;
mod shared_body;

pub(crate) use answers::Answers;
pub(crate) use batch::{Batch, MessageOverrides, PendingPublish, Placed, Source};
pub(crate) use groups::BatchGroups;
pub(crate) use internal::{publish_internally, publish_to};
pub(crate) use shared_body::{Bodies, is_shared, shared_body};

use confirm::Publisher;
use message::MessageRef;
use queues::QueueRef;
use std::slice;
use std::sync::Arc;

/// Messages for one queue, for which nobody waits.
pub(crate) struct ForOneQueue<'m>(pub(crate) Vec<MessageRef<'m>>);

impl Source for ForOneQueue<'_> {
    fn message(&self, index: u32) -> MessageRef<'_> {
        *self.0.get(index as usize).expect("each publish has a message")
    }

    fn publisher(&self, _: &PendingPublish) -> Option<&Arc<Publisher>> {
        None
    }
}

impl ForOneQueue<'_> {
    /// The batch that brings them there, logged where they are persistent.
    pub(crate) fn batch(&self, queue: &QueueRef) -> Batch {
        let (mut batch, queues) = (Batch::kept_at_once(), slice::from_ref(queue));
        for (index, message) in self.0.iter().enumerate() {
            if message.index().expiration().is_some() {
                batch.note_expiring();
            }
            let logged = message.persistent && n_durable(queues) > 0;
            batch.add(PendingPublish { logged, ..PendingPublish::of(index) }, queues);
        }
        batch
    }
}

/// How many of `queues` log a persistent message.
pub(crate) fn n_durable(queues: &[QueueRef]) -> usize {
    let is_logged = |queue: &&QueueRef| queue.def().durable && queue.def().kind.is_logged();
    queues.iter().filter(is_logged).count()
}
