//! Figures of each queue, connection, channel and virtual host, by RabbitMQ's families.

use crate::rows::rows;
use crate::text::{Kind, Writer};
use broker::{Count, QueueRef, QueueStat};
use meta::Vhost;
use mgmt::Management;
use regex::Regex;
use std::sync::atomic::Ordering;

/// The families that the endpoint of all objects has.
pub(crate) const ALL: [&str; 5] = [
    "queue_coarse_metrics",
    "queue_metrics",
    "queue_delivery_metrics",
    "connection_coarse_metrics",
    "channel_metrics",
];

/// A figure of a queue.
type OfQueue = fn(&QueueStat) -> u64;

/// One row: name, type, value, meaning.
type QueueRow = (&'static str, Kind, OfQueue, &'static str);

/// The rows of each family.
pub(crate) const QUEUES: &[(&str, &[QueueRow])] = &[
    (
        "queue_coarse_metrics",
        rows! {
            Gauge queue_messages_ready |it| it.n_ready => "Messages ready for consumers";
            Gauge queue_messages_unacked |it| it.n_unacked => "Messages unacknowledged";
            Gauge queue_messages |it| it.n_ready + it.n_unacked => "Messages";
        },
    ),
    (
        "queue_consumer_count",
        rows! {
            Gauge queue_consumers |it| it.n_consumers => "Consumers";
        },
    ),
    (
        "queue_metrics",
        rows! {
            Gauge queue_consumers |it| it.n_consumers => "Consumers";
            Gauge queue_messages_bytes |it| it.message_bytes => "Bytes of messages";
        },
    ),
    (
        "queue_delivery_metrics",
        rows! {
            Counter queue_messages_delivered_ack_total |it| it.counts.of(Count::Delivered) => "Messages delivered to consumers that acknowledge";
            Counter queue_messages_delivered_total |it| it.counts.of(Count::DeliveredAuto) => "Messages delivered to consumers that do not acknowledge";
            Counter queue_get_ack_total |it| it.counts.of(Count::Got) => "Messages fetched, to be acknowledged";
            Counter queue_get_total |it| it.counts.of(Count::GotAuto) => "Messages fetched for good";
            Counter queue_get_empty_total |it| it.counts.of(Count::GotEmpty) => "Fetches that found nothing";
            Counter queue_messages_redelivered_total |it| it.counts.of(Count::Redelivered) => "Messages delivered again";
            Counter queue_messages_acked_total |it| it.counts.of(Count::Acked) => "Messages acknowledged";
            Counter leveret_queue_messages_published_total |it| it.counts.of(Count::Published) => "Messages put into the queue";
        },
    ),
];

/// Whether queues have a figure of the name.
pub(crate) fn have(name: &str) -> bool {
    QUEUES.iter().flat_map(|(_, rows)| *rows).any(|(known, ..)| *known == name)
}

/// The families and objects that are wanted.
pub(crate) struct Selection<'s> {
    pub(crate) families: &'s [String],
    /// None for all.
    pub(crate) vhosts: &'s [String],
    pub(crate) queues: Option<&'s Regex>,
}

impl Selection<'_> {
    fn wants(&self, family: &str) -> bool {
        self.families.iter().any(|wanted| wanted == family)
    }

    fn wants_vhost(&self, vhost: &str) -> bool {
        self.vhosts.is_empty() || self.vhosts.iter().any(|wanted| wanted == vhost)
    }

    pub(crate) fn write(&self, writer: &mut Writer<'_>, management: &Management) {
        self.write_queues(writer, management);
        if self.wants("connection_coarse_metrics") {
            write_connections(writer, management);
        }
        if self.wants("channel_metrics") {
            write_channels(writer, management);
        }
        if self.wants("vhost_status") {
            let view = management.broker.view();
            let mut metric =
                writer.begin("rabbitmq_cluster_vhost_status", Kind::Gauge, "1 while it runs");
            for vhost in view.meta.vhosts().filter(|vhost| self.wants_vhost(vhost.name())) {
                metric.value(&[("vhost", vhost.name())], 1);
            }
        }
        if self.wants("exchange_names") {
            self.write_exchanges(writer, management);
        }
    }

    fn write_queues(&self, writer: &mut Writer<'_>, management: &Management) {
        let view = management.broker.view();
        let is_wanted = |queue: &&QueueRef| {
            let def = queue.def();
            !def.is_internal()
                && self.wants_vhost(&def.vhost)
                && self.queues.is_none_or(|regex| regex.is_match(&def.name))
        };
        // Consumers come with either family, once.
        let is_counted_twice =
            |family: &str| family == "queue_consumer_count" && self.wants("queue_metrics");
        for (family, rows) in QUEUES {
            if !self.wants(family) || is_counted_twice(family) {
                continue;
            }
            for (name, kind, of, help) in *rows {
                let mut metric = writer.begin(name, *kind, help);
                for queue in view.queues().filter(is_wanted) {
                    let def = queue.def();
                    let labels = [("vhost", def.vhost.as_str()), ("queue", def.name.as_str())];
                    metric.value(&labels, of(&queue.stat()));
                }
            }
        }
    }

    fn write_exchanges(&self, writer: &mut Writer<'_>, management: &Management) {
        let view = management.broker.view();
        let mut metric =
            writer.begin("rabbitmq_cluster_exchange_name", Kind::Gauge, "1 for each exchange");
        let wanted = |vhost: &&Vhost| self.wants_vhost(vhost.name());
        for vhost in view.meta.vhosts().filter(wanted) {
            for exchange in vhost.exchanges() {
                let labels = [
                    ("vhost", vhost.name().as_str()),
                    ("exchange", exchange.name.as_str()),
                    ("type", exchange.kind.as_str()),
                ];
                metric.value(&labels, 1);
            }
        }
    }
}

fn write_connections(writer: &mut Writer<'_>, management: &Management) {
    let list = management.broker.connections.list();
    for (name, is_received) in
        [("connection_incoming_bytes_total", true), ("connection_outgoing_bytes_total", false)]
    {
        let mut metric = writer.begin(name, Kind::Counter, "Bytes on the socket");
        for connection in &list {
            let traffic = if is_received { &connection.received } else { &connection.sent };
            let name = &connection.identity.name;
            metric.value(&[("channel", name)], traffic.bytes.load(Ordering::Relaxed));
        }
    }
}

fn write_channels(writer: &mut Writer<'_>, management: &Management) {
    let list = management.broker.connections.list();
    let mut metric = writer.begin("channel_consumers", Kind::Gauge, "Consumers of a channel");
    for connection in &list {
        for (channel, counters) in stdx::lock(&connection.channels).iter() {
            let name = format!("{} ({})", connection.identity.name, channel.0);
            let n_consumers = counters.n_consumers.load(Ordering::Relaxed);
            metric.value(&[("channel", &name)], n_consumers);
        }
    }
}
