//! The `deliveries`, `publishes`, `incoming` and `outgoing` of channels, exchanges and queues.

use super::client_details::channel_details;
use crate::Api;
use crate::stats::{OpenChannel, Ranges};
use broker::{Connection, PublishedTo};
use meta::{QueueDef, QueueId};
use queue_type::Counts;
use serde_json::{Value, json};
use session::ChannelId;
use std::collections::HashMap;
use std::sync::Arc;

/// An exchange, and messages that came from there.
type Incoming = (Box<[u8]>, u64);

/// Messages that channels were given from each queue, and that went to it from exchanges.
#[derive(Default)]
pub(super) struct ByQueue {
    deliveries: HashMap<QueueId, Vec<(Arc<Connection>, ChannelId, Counts)>>,
    incoming: HashMap<QueueId, Vec<Incoming>>,
}

impl ByQueue {
    pub(super) fn of(api: &Api) -> Self {
        let (broker, mut this) = (&api.management.broker, Self::default());
        for connection in broker.connections.list() {
            for (id, counters) in stdx::lock(&connection.channels).iter() {
                for (queue, counts) in counters.deliveries.by_queue() {
                    let of_queue = this.deliveries.entry(queue).or_default();
                    of_queue.push((Arc::clone(&connection), *id, counts));
                }
            }
        }
        for ((exchange, queue), n) in
            broker.figures().published().into_values().flat_map(|it| it.pairs)
        {
            this.incoming.entry(queue).or_default().push((exchange, n));
        }
        this
    }
}

/// Writes what went between two as objects.
pub(super) struct Flows<'a> {
    pub(super) api: &'a Api,
    pub(super) ranges: &'a Ranges,
}

impl Flows<'_> {
    /// The `deliveries` of a channel.
    pub(super) fn deliveries_of_channel(&self, channel: OpenChannel<'_>) -> Value {
        let view = self.api.management.broker.view();
        let of_queue = |(queue, counts): (QueueId, Counts)| {
            let def = Arc::clone(view.queue_by_id(queue)?.def());
            let key = (channel.key(), queue);
            let stats = self.api.stats.of_deliveries(&key, &counts, self.ranges);
            Some(json!({"queue": named(&def.vhost, &def.name), "stats": stats}))
        };
        channel.counters.deliveries.by_queue().into_iter().filter_map(of_queue).collect()
    }

    /// The `publishes` of a channel.
    pub(super) fn publishes_of_channel(&self, channel: OpenChannel<'_>) -> Value {
        let vhost = &channel.connection.identity.vhost;
        let of_exchange = |publishes: PublishedTo| {
            let exchange = named(vhost, &String::from_utf8_lossy(&publishes.exchange));
            let stats = self.api.stats.of_publishes(channel.key(), publishes, self.ranges);
            json!({"exchange": exchange, "stats": stats})
        };
        channel.publishes().into_iter().map(of_exchange).collect()
    }

    /// The `deliveries` of a queue.
    pub(super) fn deliveries_of_queue(&self, queue: &QueueDef, all: &ByQueue) -> Value {
        let of_channels = all.deliveries.get(&queue.id).into_iter().flatten();
        let of_channel = |(connection, id, counts): &(Arc<Connection>, ChannelId, Counts)| {
            let key = ((connection.id, *id), queue.id);
            let stats = self.api.stats.of_deliveries(&key, counts, self.ranges);
            json!({"channel_details": channel_details(self.api, connection.id, *id), "stats": stats})
        };
        of_channels.map(of_channel).collect()
    }

    /// The `incoming` of a queue.
    pub(super) fn incoming_of_queue(&self, queue: &QueueDef, all: &ByQueue) -> Value {
        let of_exchanges = all.incoming.get(&queue.id).into_iter().flatten();
        let of_exchange = |(exchange, n): &Incoming| {
            let key = (exchange.clone(), queue.id);
            let stats = self.api.stats.of_route(&key, *n, self.ranges);
            let name = String::from_utf8_lossy(exchange);
            json!({"exchange": named(&queue.vhost, &name), "stats": stats})
        };
        of_exchanges.map(of_exchange).collect()
    }

    /// The `incoming` of an exchange.
    pub(super) fn incoming_of_exchange(&self, vhost: &str, exchange: &str) -> Value {
        let mut channels = Vec::new();
        let list = self.api.management.broker.connections.list();
        for connection in list.iter().filter(|one| one.identity.vhost == vhost) {
            for (id, counters) in stdx::lock(&connection.channels).iter() {
                let channel = OpenChannel { connection, id: *id, counters };
                let publishes = channel.publishes().into_iter();
                let to_it = publishes.filter(|it| *it.exchange == *exchange.as_bytes());
                channels.extend(to_it.map(|publishes| (channel.key(), publishes)));
            }
        }
        let of_channel = |((connection, id), publishes): ((_, _), PublishedTo)| {
            let stats = self.api.stats.of_publishes((connection, id), publishes, self.ranges);
            json!({"channel_details": channel_details(self.api, connection, id), "stats": stats})
        };
        channels.into_iter().map(of_channel).collect()
    }

    /// The `outgoing` of an exchange.
    pub(super) fn outgoing_of_exchange(&self, vhost: &str, exchange: &str) -> Value {
        let broker = &self.api.management.broker;
        let view = broker.view();
        let of_queue = |((name, queue), n): ((Box<[u8]>, QueueId), u64)| {
            let def = Arc::clone(view.queue_by_id(queue)?.def());
            let key = (name, queue);
            (*key.0 == *exchange.as_bytes()).then(|| {
                let stats = self.api.stats.of_route(&key, n, self.ranges);
                json!({"queue": named(&def.vhost, &def.name), "stats": stats})
            })
        };
        let pairs = broker.figures().published().remove(vhost).unwrap_or_default().pairs;
        pairs.into_iter().filter_map(of_queue).collect()
    }
}

fn named(vhost: &str, name: &str) -> Value {
    json!({"name": name, "vhost": vhost})
}
