//! Figures, rates and what both were before. Counters say what was done since the node started; a sampler
//! looks at them every few seconds, and the difference of the last two looks is a rate. Queues that are empty
//! and unused take no memory.

mod looks;
mod pairs;
mod queues;
mod series;

pub(crate) use looks::ChangedQueues;
pub(crate) use series::Ranges;

use broker::{Broker, ChannelCounters, Connection, ExchangeCounts, PublishTotals, PublishedTo};
use looks::Looks;
use meta::{ConnectionId, QueueId};
use mgmt::{Management, memory_used_bytes};
use queue_type::{Count, Counts, QueueStat};
use serde_json::{Map, Value, json};
use series::{Moments, Range, details};
use session::ChannelId;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use stdx::Now;

/// Memory of the past of all queues, beside their figures as they are now, and of all objects of one other
/// kind, bytes.
const QUEUE_BYTES_MAX: usize = 20 << 20;
const OTHER_BYTES_MAX: usize = 2 << 20;

/// Names of what is counted, as RabbitMQ's message_stats have them.
const OF_QUEUES: [(&str, Count); 8] = [
    ("publish", Count::Published),
    ("deliver", Count::Delivered),
    ("deliver_no_ack", Count::DeliveredAuto),
    ("get", Count::Got),
    ("get_no_ack", Count::GotAuto),
    ("get_empty", Count::GotEmpty),
    ("redeliver", Count::Redelivered),
    ("ack", Count::Acked),
];
/// The place of acknowledgements among those.
const ACKED: usize = 7;
/// The places of what a queue holds, behind those.
const READY: usize = 8;
const UNACKED: usize = 9;
/// The place of what streams hold, in sums of queues.
const IN_STREAMS: usize = 10;

/// Names of what is counted of what clients publish.
const OF_PUBLISHERS: [&str; 4] = ["publish", "confirm", "return_unroutable", "drop_unroutable"];

/// Names of what comes and goes.
const CHURN: [&str; 7] = [
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_created",
    "queue_declared",
    "queue_deleted",
];

/// Counts of what has come and gone since the node started, in the order of [`CHURN`].
fn churn(broker: &Broker) -> [u64; CHURN.len()] {
    let (n_connections, n_channels) = broker.connections.n_opened();
    let list = broker.connections.list();
    let n_open: usize = list.iter().map(|one| one.n_channels()).sum();
    let [n_created, n_declared, n_deleted] = broker.figures().queue_churn();
    let closed = |opened: u64, now: usize| opened.saturating_sub(now as u64);
    [
        n_connections,
        closed(n_connections, list.len()),
        n_channels,
        closed(n_channels, n_open),
        n_created,
        n_declared,
        n_deleted,
    ]
}

/// A queue at one look: in the order of [`OF_QUEUES`], then what it holds.
type QueueLook = [u64; 10];
/// A channel in the order of [`OF_PUBLISHERS`], then in that of [`OF_QUEUES`] from the second on.
type ChannelLook = [u64; 11];
/// Queues together: those of a virtual host.
type QueueSums = [u64; 11];
/// A virtual host's queues, what was published in it ([`OF_PUBLISHERS`]), bytes received and sent.
type VhostLook = [u64; 17];
/// The places of what was published, and of bytes, behind those of queues.
const PUBLISHED: usize = 11;
const RECEIVED: usize = 15;

fn of_counts(counts: &Counts) -> [u64; 8] {
    OF_QUEUES.map(|(_, what)| counts.of(what))
}

fn of_queue(stat: &QueueStat) -> QueueLook {
    let [a, b, c, d, e, f, g, h] = of_counts(&stat.counts);
    [a, b, c, d, e, f, g, h, stat.n_ready, stat.n_unacked]
}

const fn of_published(totals: &PublishTotals) -> [u64; 4] {
    [totals.n_published, totals.n_answered, totals.n_returned, totals.n_dropped]
}

const fn of_exchange(counts: &ExchangeCounts) -> [u64; 2] {
    [counts.n_published, counts.n_copies]
}

/// An open channel with its counters.
#[derive(Clone, Copy)]
pub(crate) struct OpenChannel<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) id: ChannelId,
    pub(crate) counters: &'c ChannelCounters,
}

impl OpenChannel<'_> {
    pub(crate) fn key(&self) -> ChannelKey {
        (self.connection.id, self.id)
    }

    /// Publishes on the channel, by exchange.
    pub(crate) fn publishes(&self) -> Vec<PublishedTo> {
        self.counters.by_exchange(self.connection.n_unconfirmed(self.id))
    }
}

fn of_channel(channel: OpenChannel<'_>) -> ChannelLook {
    let OpenChannel { connection, id, counters } = channel;
    let [a, b, c, d] = of_published(&counters.totals(connection.n_unconfirmed(id)));
    let [_, e, f, g, h, i, j, k] = of_counts(&counters.deliveries.counts());
    [a, b, c, d, e, f, g, h, i, j, k]
}

fn add(sums: &mut [u64], more: &[u64]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// Names of the node's own figures.
const OF_NODE: [&str; 8] = [
    "mem_used",
    "fd_used",
    "sockets_used",
    "proc_used",
    "disk_free",
    "io_read_bytes",
    "io_write_bytes",
    "io_sync_count",
];

fn of_node(management: &Management) -> [u64; OF_NODE.len()] {
    let n_connections = management.broker.connections.len() as u64;
    let traffic = management.resources.traffic();
    [
        memory_used_bytes().unwrap_or_default(),
        management.resources.descriptors().total_used.unwrap_or_default() as u64,
        n_connections,
        n_connections,
        management.node_info.disk_free_bytes().unwrap_or_default(),
        traffic.iter().map(|it| it.read_bytes).sum(),
        traffic.iter().map(|it| it.write_bytes).sum(),
        management.broker.figures().log().sync_micros.n(),
    ]
}

/// Virtual host and exchange.
type ExchangeKey = (String, Box<[u8]>);
type ChannelKey = (ConnectionId, ChannelId);

/// Figures of one object over time, on their way into an answer.
struct Past<'l, At> {
    moments: &'l Moments,
    at: At,
    range: Option<Range>,
    /// The answer's fields.
    object: Map<String, Value>,
}

impl<'l, const N: usize, At: Fn(u64) -> Option<[u64; N]>> Past<'l, At> {
    fn new(moments: &'l Moments, range: Option<Range>, at: At) -> Self {
        Self { moments, at, range, object: Map::new() }
    }

    fn now(&self) -> [u64; N] {
        (self.at)(self.moments.now_ms).unwrap_or([0; N])
    }

    /// The rate of the sum of what is at these places, and its samples.
    fn details(&self, places: Places) -> Value {
        let sum = |it: [u64; N]| it.get(places.clone()).unwrap_or_default().iter().sum();
        details(self.moments, self.range, |moment_ms| (self.at)(moment_ms).map(sum))
    }

    /// Puts a figure and its details.
    fn put(&mut self, name: &str, value: u64, places: Places) {
        self.object.insert(name.to_owned(), json!(value));
        self.object.insert(format!("{name}_details"), self.details(places));
    }

    /// Puts figures that stand at one place after the other.
    fn put_all<'n>(&mut self, named: impl Iterator<Item = (&'n str, u64)>, first: usize) {
        for (at, (name, value)) in named.enumerate() {
            self.put(name, value, first + at..first + at + 1);
        }
    }

    /// Puts the `message_stats` of what went through queues.
    fn put_counts(&mut self, counts: &[u64]) {
        self.put_all([OF_QUEUES[0].0].into_iter().zip(counts.iter().copied()), 0);
        self.put_deliveries(counts, 1);
    }

    /// Puts the counts of deliveries and acknowledgements.
    fn put_deliveries(&mut self, counts: &[u64], first: usize) {
        let names = OF_QUEUES.iter().skip(1).map(|(name, _)| *name);
        self.put_all(names.zip(counts.iter().copied().skip(first)), first);
        let places = first..first + 4;
        let n_delivered = counts.get(places.clone()).unwrap_or_default().iter().sum();
        self.put("deliver_get", n_delivered, places);
    }
}

impl<At: Fn(u64) -> Option<VhostLook>> Past<'_, At> {
    /// Puts what queues hold.
    fn put_lengths(&mut self) {
        let now = self.now();
        let sum = |places: Places| now.get(places).unwrap_or_default().iter().sum();
        let in_streams = ("messages_in_streams", IN_STREAMS..IN_STREAMS + 1);
        for (name, places) in LENGTHS.into_iter().chain([in_streams]) {
            self.put(name, sum(places.clone()), places);
        }
    }

    /// Puts the `message_stats`.
    fn put_messages(&mut self) {
        let now = self.now();
        self.put_counts(&now);
        // Counts of what clients published replace those of what came to queues.
        let published = now.into_iter().take(RECEIVED).skip(PUBLISHED);
        self.put_all(OF_PUBLISHERS.into_iter().zip(published), PUBLISHED);
    }
}

/// Places of figures.
type Places = std::ops::Range<usize>;

/// Lengths of queues, by name and places.
const LENGTHS: [(&str, Places); 3] = [
    ("messages", READY..UNACKED + 1),
    ("messages_ready", READY..READY + 1),
    ("messages_unacknowledged", UNACKED..UNACKED + 1),
];

/// The node's figures over time.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Whether the figures are looked at by themselves.
    pub(crate) is_sampled: AtomicBool,
    looks: Mutex<Looks>,
}

impl Stats {
    /// Looks at the node and its virtual hosts; at all objects too, if that is wanted, and then tells which
    /// queues have changed since the last time.
    pub(crate) fn look(
        &self,
        management: &Management,
        now: Now,
        wants_all: bool,
    ) -> Option<ChangedQueues> {
        let mut looks = stdx::lock(&self.looks);
        looks.look(management, now);
        wants_all.then(|| looks.look_at_objects(&management.broker, now))
    }

    /// Whether a queue was ever used.
    pub(crate) fn knows(&self, queue: QueueId) -> bool {
        stdx::lock(&self.looks).known.has(queue)
    }

    /// Since when nothing of a queue has changed, Unix milliseconds.
    pub(crate) fn idle_since_ms(&self, queue: QueueId) -> Option<u64> {
        stdx::lock(&self.looks).known.idle_since_ms(queue)
    }

    /// The rate of a length of a queue, and its samples.
    pub(crate) fn details_of_queue(&self, queue: QueueId, length: &str, ranges: &Ranges) -> Value {
        let looks = stdx::lock(&self.looks);
        let places = LENGTHS.into_iter().find(|(name, _)| *name == length);
        let past = looks.queues.past(&queue, &looks.slow, ranges.lengths);
        past.details(places.map_or(0..0, |(_, places)| places))
    }

    /// The `message_stats` of a queue; `None` if nothing was done to it.
    pub(crate) fn of_queue(
        &self,
        queue: QueueId,
        stat: &QueueStat,
        ranges: &Ranges,
    ) -> Option<Value> {
        if stat.counts == Counts::default() {
            return None;
        }
        let looks = stdx::lock(&self.looks);
        let mut past = looks.queues.past(&queue, &looks.slow, ranges.msg_rates);
        past.put_counts(&of_counts(&stat.counts));
        Some(past.object.into())
    }

    /// The details of a connection's bytes received, or sent.
    pub(crate) fn details_of_connection(
        &self,
        connection: ConnectionId,
        is_sent: bool,
        ranges: &Ranges,
    ) -> Value {
        let (looks, place) = (stdx::lock(&self.looks), usize::from(is_sent));
        let past = looks.connections.past(&connection, &looks.slow, ranges.data_rates);
        past.details(place..place + 1)
    }

    /// The `message_stats` of a channel; `None` if nothing was done on it.
    pub(crate) fn of_channel(&self, channel: OpenChannel<'_>, ranges: &Ranges) -> Option<Value> {
        let (key, now) = (channel.key(), of_channel(channel));
        if now == [0; 11] {
            return None;
        }
        let looks = stdx::lock(&self.looks);
        let mut past = looks.channels.past(&key, &looks.slow, ranges.msg_rates);
        past.put_all(OF_PUBLISHERS.into_iter().zip(now), 0);
        past.put_deliveries(&now, OF_PUBLISHERS.len());
        Some(past.object.into())
    }

    /// The `message_stats` of an exchange; `None` if nothing was published to it. `key` has the present
    /// figures.
    pub(crate) fn of_exchange(
        &self,
        key: &ExchangeKey,
        now: &ExchangeCounts,
        ranges: &Ranges,
    ) -> Value {
        let looks = stdx::lock(&self.looks);
        let mut past = looks.exchanges.past(key, &looks.slow, ranges.msg_rates);
        past.put_all(["publish_in", "publish_out"].into_iter().zip(of_exchange(now)), 0);
        past.object.into()
    }

    /// The figures of a virtual host as fields of its object.
    pub(crate) fn of_vhost(&self, vhost: &str, ranges: &Ranges) -> Map<String, Value> {
        let (looks, vhost) = (stdx::lock(&self.looks), vhost.to_owned());
        let past = |range| looks.vhosts.past(&vhost, &looks.fast, range);
        let (mut fields, mut bytes) = (past(ranges.lengths), past(ranges.data_rates));
        let mut messages = past(ranges.msg_rates);
        fields.put_lengths();
        let transferred = bytes.now().into_iter().skip(RECEIVED);
        bytes.put_all(["recv_oct", "send_oct"].into_iter().zip(transferred), RECEIVED);
        messages.put_messages();
        fields.object.append(&mut bytes.object);
        fields.object.insert("message_stats".to_owned(), messages.object.into());
        fields.object
    }

    /// The figures of the wanted virtual hosts together, as fields.
    pub(crate) fn overview(
        &self,
        wanted: impl Fn(&str) -> bool,
        ranges: &Ranges,
    ) -> Map<String, Value> {
        let looks = stdx::lock(&self.looks);
        let keys: Vec<&String> = looks.vhosts.keys().filter(|vhost| wanted(vhost)).collect();
        let at = |moment_ms| {
            let figures = keys.iter().filter_map(|vhost| looks.vhosts.at(vhost, moment_ms));
            figures.reduce(|mut sums, more| {
                add(&mut sums, &more);
                sums
            })
        };
        let mut totals = Past::new(&looks.fast, ranges.lengths, at);
        let mut messages = Past::new(&looks.fast, ranges.msg_rates, at);
        totals.put_lengths();
        messages.put_messages();
        let objects = [("queue_totals", totals.object), ("message_stats", messages.object)];
        objects.into_iter().map(|(name, object)| (name.to_owned(), object.into())).collect()
    }

    /// Connections, channels and queues that come and go, as fields.
    pub(crate) fn churn(&self, broker: &Broker, ranges: &Ranges) -> Map<String, Value> {
        let (now, looks) = (churn(broker), stdx::lock(&self.looks));
        let mut past = looks.churn.past(&(), &looks.fast, ranges.node_stats);
        past.put_all(CHURN.into_iter().zip(now), 0);
        past.object
    }

    /// The node's own figures, as fields.
    pub(crate) fn of_node(&self, management: &Management, ranges: &Ranges) -> Map<String, Value> {
        let (now, looks) = (of_node(management), stdx::lock(&self.looks));
        let mut past = looks.node.past(&(), &looks.fast, ranges.node_stats);
        past.put_all(OF_NODE.into_iter().zip(now), 0);
        past.object
    }
}
