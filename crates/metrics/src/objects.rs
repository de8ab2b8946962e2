//! Figures of each queue, connection, channel and virtual host, by RabbitMQ's families.

use crate::Source;
use crate::pairs;
use crate::queues::QUEUES;
use crate::rows::rows;
use crate::selection::Selection;
use crate::snapshot::Snapshot;
use crate::table::{
    COMMIT_LATENCY, LOGIN_FAMILY, LOGIN_SOURCES, NODE_FAMILIES, OLDEST, QUORUM_LOG,
    commit_latency_seconds, logins, of_family,
};
use crate::text::{Kind, Writer};
use auth::LoginThrottle;
use broker::{ChannelCounters, Connection};
use meta::QueueDef;
use mgmt::Management;
use queues::QueueRef;
use quorum::QuorumInspection;
use session::ChannelId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use stream::Inspection;

/// The figure that tells the type of each queue: name and meaning.
const QUEUE_INFO: (&str, &str) = ("queue_info", "1 for each queue");

/// The families that the endpoint of all objects has.
pub(crate) const ALL: [&str; 15] = [
    "queue_coarse_metrics",
    "queue_metrics",
    "queue_delivery_metrics",
    "stream_consumer_metrics",
    "ra_metrics",
    QUEUE_AGE,
    LOGIN_SOURCE,
    pairs::EXCHANGES,
    pairs::CHANNEL_EXCHANGES,
    pairs::CHANNEL_QUEUES,
    pairs::QUEUE_EXCHANGES,
    pairs::CHANNEL_QUEUE_EXCHANGES,
    "connection_coarse_metrics",
    "connection_metrics",
    "channel_metrics",
];

/// The family of logins by source.
const LOGIN_SOURCE: &str = "auth_attempt_detailed_metrics";
/// The family of the ages of messages.
const QUEUE_AGE: &str = "leveret_queue_age";

/// A figure of a connection.
type OfConnection = fn(&Connection) -> u64;

/// Row of connections' figures: name, type, value, meaning.
type ConnectionRow = (&'static str, Kind, OfConnection, &'static str);

/// A figure of a channel.
type OfChannel = fn(&Connection, ChannelId, &ChannelCounters) -> u64;

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The rows of connections, by family.
pub(crate) const CONNECTIONS: &[(&str, &[ConnectionRow])] = &[
    (
        "connection_coarse_metrics",
        rows! {
            Counter connection_incoming_bytes_total |it| read(&it.received.bytes) => "Bytes received";
            Counter connection_outgoing_bytes_total |it| read(&it.sent.bytes) => "Bytes sent";
        },
    ),
    (
        "connection_metrics",
        rows! {
            Counter connection_incoming_packets_total |it| read(&it.received.n_calls) => "Socket reads";
            Counter connection_outgoing_packets_total |it| read(&it.sent.n_calls) => "Socket writes";
            Gauge connection_channels |it| it.n_channels() as u64 => "Channels";
        },
    ),
];

/// The rows of channels.
pub(crate) const CHANNELS: &[(&str, Kind, OfChannel, &str)] = rows! {
    Gauge channel_consumers |_, _, it| it.n_consumers.load(Ordering::Relaxed).into() => "Consumers";
    Gauge channel_messages_unconfirmed |of, id, _| of.n_unconfirmed(id) => "Unconfirmed publishes";
    Gauge channel_messages_uncommitted |_, _, it| read(&it.n_uncommitted) => "Uncommitted publishes";
    Gauge channel_acks_uncommitted |_, _, it| read(&it.n_uncommitted_acks) => "Uncommitted acknowledgements";
    Gauge consumer_prefetch |_, _, it| it.prefetch_count.load(Ordering::Relaxed).into() => "Prefetch limit of new consumers";
};

/// The rows of streams.
pub(crate) const STREAMS: (&str, &str) =
    ("stream_consumer_max_offset_lag", "Largest lag of a subscription, in messages");

/// The files of streams.
pub(crate) const SEGMENTS: (&str, &str) = ("stream_segments", "Segments of a stream");

/// Whether objects have a figure of the name.
pub(crate) fn have(name: &str) -> bool {
    QUEUES.iter().flat_map(|(_, rows)| *rows).any(|(known, ..)| *known == name)
        || CONNECTIONS.iter().flat_map(|(_, rows)| *rows).any(|(known, ..)| *known == name)
        || CHANNELS.iter().any(|(known, ..)| *known == name)
        || [STREAMS.0, SEGMENTS.0].contains(&name)
        || pairs::have(name)
}

/// The figures of exchanges and their bindings: name and meaning.
const EXCHANGE_NAMES: (&str, &str) = ("rabbitmq_cluster_exchange_name", "1 for each exchange");
const EXCHANGE_BINDINGS: (&str, &str) =
    ("rabbitmq_cluster_exchange_bindings", "Bindings with this exchange as source");

impl Selection<'_> {
    pub(crate) fn write(&self, writer: &mut Writer<'_>, source: &Source<'_>) {
        let management = source.management;
        self.write_node(writer, source);
        self.write_queues(writer, management);
        self.write_log_queues(writer, management);
        if self.wants(LOGIN_SOURCE) {
            write_logins(writer, source.throttle);
        }
        if self.wants(QUEUE_AGE) {
            self.write_ages(writer, source);
        }
        for (_, rows) in CONNECTIONS.iter().filter(|(family, _)| self.wants(family)) {
            write_connections(writer, management, rows);
        }
        if self.wants("channel_metrics") {
            write_channels(writer, management);
        }
        if self.wants("vhost_status") {
            let view = management.broker.view();
            let mut metric =
                writer.begin("rabbitmq_cluster_vhost_status", Kind::Gauge, "1 while it runs");
            for vhost in view.meta.vhosts().filter(|vhost| self.wants_vhost(&vhost.name)) {
                metric.value(&[("vhost", &vhost.name)], 1);
            }
        }
        self.write_exchanges(writer, management);
        self.write_pairs(writer, management);
    }

    /// Figures of the node, where they are asked for by their family.
    fn write_node(&self, writer: &mut Writer<'_>, source: &Source<'_>) {
        let wanted: Vec<&str> =
            NODE_FAMILIES.iter().map(|it| it.0).filter(|it| self.wants(it)).collect();
        if wanted.is_empty() && !self.wants(LOGIN_FAMILY) {
            return;
        }
        let snapshot = Snapshot::of(source);
        wanted.iter().for_each(|family| of_family(writer, &snapshot, family));
        if self.wants(LOGIN_FAMILY) {
            logins(writer, &snapshot);
        }
    }

    fn write_queues(&self, writer: &mut Writer<'_>, management: &Management) {
        let view = management.broker.view();
        let is_wanted = |queue: &&QueueRef| self.wants_own(queue);
        // The number of consumers is a row of both families: it is written once.
        let is_counted_twice =
            |family: &str| family == "queue_consumer_count" && self.wants("queue_metrics");
        for (family, rows) in QUEUES {
            if !self.wants(family) || is_counted_twice(family) {
                continue;
            }
            for (name, kind, of, help) in *rows {
                let mut metric = writer.begin(name, *kind, help);
                for queue in view.queues().filter(is_wanted) {
                    metric.value(&labels(queue.def()), of(&queue.local_stat()));
                }
            }
        }
        if ["queue_coarse_metrics", "queue_consumer_count", "queue_metrics"]
            .iter()
            .any(|it| self.wants(it))
        {
            let mut metric = writer.begin(QUEUE_INFO.0, Kind::Gauge, QUEUE_INFO.1);
            for queue in view.queues().filter(is_wanted) {
                let [vhost, name] = labels(queue.def());
                let module = ("queue_type", queue.def().kind.module());
                metric.value(&[vhost, name, module, ("membership", "leader")], 1);
            }
        }
    }

    /// Figures of streams and of quorum queues.
    fn write_log_queues(&self, writer: &mut Writer<'_>, management: &Management) {
        let view = management.broker.view();
        if self.wants("stream_consumer_metrics") {
            let mut metric = writer.begin(STREAMS.0, Kind::Gauge, STREAMS.1);
            for stream in view.streams().filter(|it| self.wants_queue(it.def())) {
                let inspection = Inspection::of(stream);
                let next = u64::try_from(inspection.figures().committed_offset + 1).unwrap_or(0);
                let lags = inspection.subscriptions();
                let lags = lags.iter().map(|it| next.saturating_sub(it.figures.next_offset));
                metric.value(&labels(stream.def()), lags.max().unwrap_or(0));
            }
        }
        if self.wants("queue_metrics") {
            let mut metric = writer.begin(SEGMENTS.0, Kind::Gauge, SEGMENTS.1);
            for stream in view.streams().filter(|it| self.wants_queue(it.def())) {
                let n_segments = Inspection::of(stream).figures().n_segments;
                metric.value(&labels(stream.def()), n_segments);
            }
        }
        if !self.wants("ra_metrics") {
            return;
        }
        let of_queues = || view.quorum_queues().filter(|it| self.wants_queue(it.def()));
        for (name, kind, of, help) in QUORUM_LOG {
            let mut metric = writer.begin(name, *kind, help);
            of_queues().for_each(|it| {
                metric.value(&labels(it.def()), of(&QuorumInspection::of(it).log_figures()))
            });
        }
        let seconds = commit_latency_seconds(&management.broker.figures().log());
        let mut metric = writer.begin(COMMIT_LATENCY.0, Kind::Gauge, COMMIT_LATENCY.1);
        of_queues().for_each(|it| metric.value(&labels(it.def()), seconds));
    }

    fn write_ages(&self, writer: &mut Writer<'_>, source: &Source<'_>) {
        let (view, ages) =
            (source.management.broker.view(), source.history.ages.seconds(source.now));
        let mut metric = writer.begin(OLDEST.0, Kind::Gauge, OLDEST.1);
        for queue in view.queues().filter(|queue| self.wants_own(queue)) {
            metric.value(&labels(queue.def()), ages.get(&queue.id()).copied().unwrap_or(0.0));
        }
    }

    /// Exchanges by name, and with the number of bindings that they are the source of.
    fn write_exchanges(&self, writer: &mut Writer<'_>, management: &Management) {
        let view = management.broker.view();
        let vhosts = || view.meta.vhosts().filter(|vhost| self.wants_vhost(&vhost.name));
        let mut write = |(name, help), value: &dyn Fn(&BTreeMap<&str, u64>, &str) -> u64| {
            let mut metric = writer.begin(name, Kind::Gauge, help);
            for vhost in vhosts() {
                let mut bindings = BTreeMap::new();
                for binding in vhost.routes.bindings() {
                    *bindings.entry(binding.source.as_str()).or_default() += 1;
                }
                for exchange in vhost.exchanges() {
                    let name = exchange.name.as_str();
                    let kind = ("type", exchange.kind.as_str());
                    let labels = [("vhost", vhost.name.as_str()), ("exchange", name), kind];
                    metric.value(&labels, value(&bindings, name));
                }
            }
        };
        if self.wants("exchange_names") {
            write(EXCHANGE_NAMES, &|_, _| 1);
        }
        if self.wants("exchange_bindings") {
            write(EXCHANGE_BINDINGS, &|n, name| n.get(name).copied().unwrap_or_default());
        }
    }
}

/// The labels of a queue.
fn labels(def: &QueueDef) -> [(&'static str, &str); 2] {
    [("vhost", def.vhost.as_str()), ("queue", def.name.as_str())]
}

fn write_logins(writer: &mut Writer<'_>, throttle: &LoginThrottle) {
    let by_source = throttle.attempts_by_source();
    for (name, kind, of, help) in LOGIN_SOURCES {
        let mut metric = writer.begin(name, *kind, help);
        for ((address, user, protocol), attempts) in &by_source {
            let address = ("remote_address", &*address.to_string());
            metric.value(&[address, ("username", user), ("protocol", protocol)], of(attempts));
        }
    }
}

fn write_connections(writer: &mut Writer<'_>, management: &Management, rows: &[ConnectionRow]) {
    let list = management.broker.connections.list();
    for (name, kind, of, help) in rows {
        let mut metric = writer.begin(name, *kind, help);
        list.iter().for_each(|it| metric.value(&[("channel", &it.identity.name)], of(it)));
    }
}

fn write_channels(writer: &mut Writer<'_>, management: &Management) {
    let list = management.broker.connections.list();
    for (name, kind, of, help) in CHANNELS {
        let mut metric = writer.begin(name, *kind, help);
        for connection in &list {
            for (id, counters) in stdx::lock(&connection.channels).iter() {
                let channel = format!("{} ({})", connection.identity.name, id.0);
                metric.value(&[("channel", &channel)], of(connection, *id, counters));
            }
        }
    }
}
