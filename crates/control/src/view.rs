//! The definitions and queues as of one moment.

use classic::Queue;
use exchanges::{Forecast, StatefulExchanges};
use message::MessageRef;
use meta::{Name, QueueId, State};
use queues::QueueRef;
use quorum::QuorumQueue;
use routing::{Message, Passage};
use std::sync::Arc;
use stdx::UnixMs;
use stream::Stream;

/// The definitions and queues as of one moment, as sessions read them.
#[derive(Debug)]
pub struct View {
    /// The number of the last change of definitions since the start: each rises it by one, durable or not. A
    /// restart counts anew, since changes of what does not outlive it leave no trace.
    pub epoch: u64,
    /// Changes that only this node has made since the start: streams opened without data that is missing,
    /// and slices of deletions.
    pub(crate) n_local: u64,
    /// The definitions.
    pub meta: State,
    pub(crate) queues: imbl::OrdMap<QueueId, QueueRef>,
    /// Exchanges that do more than route.
    pub exchanges: Arc<StatefulExchanges>,
}

impl View {
    /// The view's number: rises by one with every view, whatever has changed.
    pub const fn version(&self) -> u64 {
        self.epoch + self.n_local
    }

    /// The queue of that id.
    #[must_use]
    pub fn queue_by_id(&self, id: QueueId) -> Option<QueueRef> {
        self.queues.get(&id).cloned()
    }

    /// The queue of that name.
    #[must_use]
    pub fn queue(&self, vhost: &str, name: &str) -> Option<QueueRef> {
        self.queue_by_id(self.meta.queue(vhost, name)?.id)
    }

    /// All queues, in no particular order.
    pub fn queues(&self) -> impl Iterator<Item = &QueueRef> {
        self.queues.values()
    }

    /// The classic queues, for background work.
    pub fn classic_queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.queues.values().filter_map(QueueRef::as_classic)
    }

    /// The quorum queues.
    pub fn quorum_queues(&self) -> impl Iterator<Item = &Arc<QuorumQueue>> {
        self.queues.values().filter_map(QueueRef::as_quorum)
    }

    /// All streams.
    pub fn streams(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.queues.values().filter_map(QueueRef::as_stream)
    }

    /// A stream by name.
    #[must_use]
    pub fn stream(&self, vhost: &str, name: &str) -> Option<Arc<Stream>> {
        self.queue(vhost, name)?.as_stream().cloned()
    }

    /// The fate that a client's message would have at an exchange. Nothing comes of it.
    #[must_use]
    pub fn forecast(
        &self,
        vhost: &str,
        exchange: &Name,
        message: &Message<'_>,
        now_ms: UnixMs,
    ) -> Forecast {
        match self.exchanges.get(vhost, exchange).map(|it| (it, it.forecast(message, now_ms))) {
            // A policy that has just come has no queue yet.
            Some((it, Forecast::Delayed { .. }))
                if self.queue(vhost, &it.delayed_queue).is_none() =>
            {
                Forecast::GoesOn
            }
            Some((_, forecast)) => forecast,
            None => Forecast::GoesOn,
        }
    }

    /// Whether anybody would get what is published to an exchange.
    pub fn has_listeners(&self, vhost: &str, exchange: &str) -> bool {
        self.meta.routes(vhost).is_some_and(|routes| routes.n_bindings_from(exchange) > 0)
    }

    /// The queues a message of the broker's own goes to from an exchange.
    pub fn route(&self, vhost: &str, exchange: &str, message: &MessageRef<'_>) -> Vec<QueueRef> {
        let properties = message.index();
        let keys = [message.routing_key];
        let seen =
            Message { properties: Some(properties), ..Message::new(&keys, properties.headers()) };
        let mut ids = Vec::new();
        if let Some(routes) = self.meta.routes(vhost) {
            let pass = |_: &Name| Passage::Open;
            routes.route_from_broker(exchange.as_bytes(), &seen, pass, &mut ids);
        }
        ids.iter().filter_map(|id| self.queue_by_id(*id)).collect()
    }
}
