//! The looks at everything: at the node and its virtual hosts often, at all objects now and then.

use super::pairs::Pairs;
use super::queues::{Queues, n_messages};
use super::series::{History, LONG, Moments, SHORT};
use super::{
    CHURN, ChannelKey, ExchangeKey, OF_NODE, OTHER_BYTES_MAX, OpenChannel, PUBLISHED,
    QUEUE_BYTES_MAX, READY, RECEIVED, VhostLook, add, churn, of_channel, of_counts, of_exchange,
    of_node, of_published,
};
use broker::{Broker, Connection};
use meta::{ConnectionId, QueueId, QueueKind};
use metrics::ChangedQueue;
use mgmt::Management;
use std::collections::BTreeMap;
use stdx::Now;

/// Figures over time, of the node and of all objects.
#[derive(Debug)]
pub(super) struct Looks {
    /// The looks at the node and its virtual hosts, and those at all objects.
    pub(super) fast: Moments,
    pub(super) slow: Moments,
    pub(super) known: Queues,
    pub(super) queues: History<QueueId, 10>,
    pub(super) vhosts: History<String, 17>,
    /// Bytes received and sent.
    pub(super) connections: History<ConnectionId, 2>,
    pub(super) channels: History<ChannelKey, 11>,
    pub(super) pairs: Pairs,
    /// Messages that came, and copies that went to queues.
    pub(super) exchanges: History<ExchangeKey, 2>,
    pub(super) churn: History<(), { CHURN.len() }>,
    pub(super) node: History<(), { OF_NODE.len() }>,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            fast: Moments::default(),
            slow: Moments::default(),
            known: Queues::default(),
            queues: History::new(SHORT, QUEUE_BYTES_MAX),
            vhosts: History::new(LONG, OTHER_BYTES_MAX),
            connections: History::new(SHORT, OTHER_BYTES_MAX),
            channels: History::new(SHORT, OTHER_BYTES_MAX),
            pairs: Pairs::default(),
            exchanges: History::new(SHORT, OTHER_BYTES_MAX),
            churn: History::new(LONG, OTHER_BYTES_MAX),
            node: History::new(LONG, OTHER_BYTES_MAX),
        }
    }
}

/// Queues but for streams that have changed between two looks, at these times.
#[derive(Debug)]
pub(crate) struct ChangedQueues {
    pub(crate) before_ms: u64,
    pub(crate) now_ms: u64,
    pub(crate) queues: Vec<ChangedQueue>,
}

impl Looks {
    /// Looks at the node and its virtual hosts.
    pub(super) fn look(&mut self, management: &Management, now: Now) {
        let broker = &management.broker;
        self.fast.advance(now);
        for (vhost, mut figures) in self.look_at_vhosts(broker) {
            // A queue that went just now may be in neither count.
            let before = self.vhosts.at(&vhost, now.monotonic_ms.get()).unwrap_or_default();
            for (now, before) in figures.iter_mut().zip(before).take(READY) {
                *now = before.max(*now);
            }
            self.vhosts.look(vhost, figures, &self.fast);
        }
        self.vhosts.end_look(&self.fast);
        self.churn.look((), churn(broker), &self.fast);
        self.node.look((), of_node(management), &self.fast);
    }

    fn look_at_vhosts(&mut self, broker: &Broker) -> BTreeMap<String, VhostLook> {
        let mut vhosts: BTreeMap<String, VhostLook> = BTreeMap::new();
        let mut put = |vhost: &str, at: usize, figures: &[u64]| {
            if !vhosts.contains_key(vhost) {
                vhosts.insert(vhost.to_owned(), VhostLook::default());
            }
            let sums = vhosts.get_mut(vhost).and_then(|sums| sums.get_mut(at..));
            add(sums.unwrap_or_default(), figures);
        };
        for ((vhost, _), counts) in broker.figures().ended() {
            put(&vhost, 0, &of_counts(&counts));
        }
        self.known.look(broker, self.fast.unix_ms);
        self.known.sums().for_each(|(vhost, sums)| put(vhost, 0, sums));
        for (vhost, totals) in broker.connections.published() {
            put(&vhost, PUBLISHED, &of_published(&totals));
        }
        for (vhost, bytes) in broker.connections.traffic() {
            put(&vhost, RECEIVED, &bytes);
        }
        vhosts
    }

    /// Looks at the other objects, and tells which queues have changed since the last time.
    pub(super) fn look_at_objects(&mut self, broker: &Broker, now: Now) -> ChangedQueues {
        let slow = &mut self.slow;
        slow.advance(now);
        let changed = self.known.take_changed();
        changed.iter().for_each(|it| self.queues.look(it.id, it.look, slow));
        self.queues.keep(|id| self.known.has(*id));
        broker.connections.list().iter().for_each(|it| self.look_at_connection(it));
        self.connections.end_look(&self.slow);
        self.channels.end_look(&self.slow);
        for (vhost, of_vhost) in broker.figures().published() {
            for (exchange, counts) in of_vhost.exchanges {
                let key = (vhost.clone(), exchange);
                self.exchanges.look(key, of_exchange(&counts), &self.slow);
            }
            self.pairs.look_at_routes(of_vhost.pairs, &self.slow);
        }
        self.exchanges.end_look(&self.slow);
        self.pairs.end_look(&self.slow);
        let plain = changed.iter().filter(|it| it.kind != QueueKind::Stream);
        let queues = plain.map(|it| ChangedQueue {
            id: it.id,
            n_come: it.look[0],
            n_messages: n_messages(&it.look),
        });
        let Moments { before_ms, now_ms, .. } = self.slow;
        ChangedQueues { before_ms, now_ms, queues: queues.collect() }
    }

    fn look_at_connection(&mut self, connection: &Connection) {
        self.connections.look(connection.id, connection.bytes(), &self.slow);
        for (channel, counters) in stdx::lock(&connection.channels).iter() {
            let channel = OpenChannel { connection, id: *channel, counters };
            self.channels.look(channel.key(), of_channel(channel), &self.slow);
            self.pairs.look_at_channel(channel, &self.slow);
        }
    }
}
