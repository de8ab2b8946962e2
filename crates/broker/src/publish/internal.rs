//! Messages of the broker's own: nobody waits for them, and classic queues without room for them go
//! without.

use super::{Batch, PendingPublish, Source, n_durable};
use confirm::Publisher;
use control::View;
use message::MessageRef;
use queue_type::{Wakes, wake_all};
use queues::QueueRef;
use std::sync::Arc;
use trace::Tracing;

/// A message that is the only one of its batch.
struct Single<'m>(&'m MessageRef<'m>);

impl Source for Single<'_> {
    fn message(&self, _: u32) -> MessageRef<'_> {
        *self.0
    }

    fn publisher(&self, _: &PendingPublish) -> Option<&Arc<Publisher>> {
        None
    }
}

/// Publishes a message to the exchange it names, on this very thread.
pub(crate) fn publish_internally(
    view: &View,
    tracing: &Tracing,
    vhost: &str,
    message: &MessageRef<'_>,
) {
    let exchange = String::from_utf8_lossy(message.exchange);
    let mut wakes = Wakes::new();
    let queues = view.route(vhost, &exchange, message);
    publish_to(tracing, Some(vhost), queues, message, &mut wakes);
    wake_all(&mut wakes);
}

/// Puts a message into queues. Those that are still being read after a start take none. It is new to its
/// exchange where the virtual host is named.
pub(crate) fn publish_to(
    tracing: &Tracing,
    vhost: Option<&str>,
    mut queues: Vec<QueueRef>,
    message: &MessageRef<'_>,
    wakes: &mut Wakes,
) {
    queues.retain(|queue| !queue.is_loading());
    let logged = message.persistent && n_durable(&queues) > 0;
    let mut batch = Batch::default();
    batch.any.untracked = true;
    if message.index().expiration().is_some() {
        batch.note_expiring();
    }
    batch.add(PendingPublish { logged, ..PendingPublish::of(0) }, &queues);
    batch.put_all_in(&Single(message), wakes);
    batch.show(tracing, vhost, &Single(message));
}
