//! The figures of the node, each a row.

use crate::rows::rows;
use crate::snapshot::Snapshot;
use crate::text::{Kind, Writer};
use broker::{Count, Counts};
use meta::{Json, QueueKind};
use mgmt::Management;

/// A figure of the node: its value may be unknown.
type Of = fn(&Snapshot) -> Option<u64>;

/// One row: name, type, value, meaning.
pub(crate) type Row = (&'static str, Kind, Of, &'static str);

/// One row of what went through queues.
pub(crate) type CountRow = (&'static str, Kind, fn(&Counts) -> u64, &'static str);

use Kind::{Gauge, Untyped};

pub(crate) const NODE: &[Row] = rows! {
    Gauge connections |it| Some(it.clients.n_connections) => "Connections currently open";
    Counter connections_opened_total |it| Some(it.clients.n_connections_opened) => "Connections opened";
    Counter connections_closed_total |it| it.clients.n_connections_opened.checked_sub(it.clients.n_connections) => "Connections closed";
    Gauge channels |it| Some(it.clients.n_channels) => "Channels currently open";
    Counter channels_opened_total |it| Some(it.clients.n_channels_opened) => "Channels opened";
    Counter channels_closed_total |it| it.clients.n_channels_opened.checked_sub(it.clients.n_channels) => "Channels closed";
    Gauge consumers |it| Some(it.queues.n_consumers) => "Consumers currently connected";
    Gauge queues |it| Some(it.queues.n) => "Queues available";
    Counter queues_created_total |it| Some(it.queues.n_created) => "Queues created";
    Counter queues_declared_total |it| Some(it.queues.n_declared) => "Queues declared";
    Counter queues_deleted_total |it| Some(it.queues.n_deleted) => "Queues deleted";
    Gauge queue_messages_ready |it| Some(it.queues.n_ready) => "Messages ready for consumers";
    Gauge queue_messages_unacked |it| Some(it.queues.n_unacked) => "Messages delivered and not yet acknowledged";
    Gauge queue_messages |it| Some(it.queues.n_ready + it.queues.n_unacked) => "Messages ready and unacknowledged";
    Counter channel_messages_unroutable_returned_total |it| Some(it.clients.published.n_returned) => "Messages returned as unroutable";
    Counter channel_messages_unroutable_dropped_total |it| Some(it.clients.published.n_dropped) => "Messages dropped as unroutable";
    Gauge process_open_fds |it| it.system.n_descriptors => "Open file descriptors";
    Gauge process_max_fds |it| Some(it.system.n_descriptors_max) => "Most file descriptors";
    Gauge process_resident_memory_bytes |it| it.system.memory_bytes => "Memory used, bytes";
    Gauge resident_memory_limit_bytes |it| Some(it.system.memory_limit_bytes) => "Memory above which publishers wait, bytes";
    Gauge disk_space_available_bytes |it| it.system.disk_free_bytes => "Disk space available, bytes";
    Gauge disk_space_available_limit_bytes |it| Some(it.system.disk_free_limit_bytes) => "Disk space below which publishers wait, bytes";
    Gauge erlang_uptime_seconds |it| Some(it.system.uptime_seconds) => "Uptime of the node";
    Counter io_read_bytes_total |it| Some(it.system.read_bytes) => "Bytes read from files";
    Counter io_write_bytes_total |it| Some(it.system.written_bytes) => "Bytes written to files";
    Untyped alarms_memory_used_watermark |it| Some(it.system.memory_alarm.into()) => "1 while the memory alarm is on";
    Untyped alarms_free_disk_space_watermark |it| Some(it.system.disk_alarm.into()) => "1 while the disk alarm is on";
    Untyped alarms_file_descriptor_limit |it| Some(it.system.descriptor_alarm.into()) => "1 while file descriptors are short";
    Gauge unreachable_cluster_peers_count |_| Some(0) => "Peers that cannot be reached";
    Gauge leveret_pending_confirms |it| Some(it.queues.n_pending_confirms) => "Publishes that wait for consumers";
    Gauge leveret_dead_letters_waiting |it| Some(it.queues.n_departing) => "Messages on their way to a dead letter exchange";
    Gauge leveret_message_bytes |it| Some(it.queues.message_bytes) => "Bytes of messages in memory";
    Counter leveret_wal_syncs_total |it| Some(it.log.syncs) => "Syncs of the log";
    Counter leveret_wal_bytes_written_total |it| Some(it.log.written_bytes) => "Bytes written to the log";
    Gauge leveret_wal_segments |it| Some(it.log.segments) => "Segments of the log in use";
    Gauge leveret_wal_needed_bytes |it| Some(it.log.live_bytes) => "Bytes of the log that are still needed, estimated";
};

/// Messages that went through queues, by their type.
pub(crate) const BY_QUEUE_TYPE: &[CountRow] = rows! {
    Counter global_messages_delivered_total |it| it.n_delivered() => "Messages delivered";
    Counter global_messages_delivered_consume_manual_ack_total |it| it.of(Count::Delivered) => "Messages delivered to consumers that acknowledge";
    Counter global_messages_delivered_consume_auto_ack_total |it| it.of(Count::DeliveredAuto) => "Messages delivered to consumers that do not acknowledge";
    Counter global_messages_delivered_get_manual_ack_total |it| it.of(Count::Got) => "Messages fetched, to be acknowledged";
    Counter global_messages_delivered_get_auto_ack_total |it| it.of(Count::GotAuto) => "Messages fetched for good";
    Counter global_messages_get_empty_total |it| it.of(Count::GotEmpty) => "Fetches that found nothing";
    Counter global_messages_redelivered_total |it| it.of(Count::Redelivered) => "Messages delivered again";
    Counter global_messages_acknowledged_total |it| it.of(Count::Acked) => "Messages acknowledged";
    Counter leveret_queue_messages_published_total |it| it.of(Count::Published) => "Messages put into queues";
};

/// COMPAT: modules of RabbitMQ.
const TYPES: [(QueueKind, &str); 3] = [
    (QueueKind::Classic, "rabbit_classic_queue"),
    (QueueKind::Quorum, "rabbit_quorum_queue"),
    (QueueKind::Stream, "rabbit_stream_queue"),
];

/// Messages that clients of AMQP 0-9-1 published.
pub(crate) const BY_PROTOCOL: &[Row] = rows! {
    Counter global_messages_received_total |it| Some(it.clients.published.n_published) => "Messages received from publishers";
    Counter global_messages_received_confirm_total |it| Some(it.clients.published.n_confirming) => "Messages received on channels with confirms";
    Counter global_messages_confirmed_total |it| Some(it.clients.published.n_answered) => "Messages whose publishers were answered";
    Counter global_messages_routed_total |it| Some(it.clients.published.n_routed()) => "Messages that went to a queue";
    Counter global_messages_unroutable_returned_total |it| Some(it.clients.published.n_returned) => "Messages returned as unroutable";
    Counter global_messages_unroutable_dropped_total |it| Some(it.clients.published.n_dropped) => "Messages dropped as unroutable";
    Gauge global_publishers |it| Some(it.clients.n_publishers) => "Publishers connected";
    Gauge global_consumers |it| Some(it.queues.n_consumers) => "Consumers connected";
};

/// The figure of certificates: name and meaning.
pub(crate) const CERTIFICATES: (&str, &str) =
    ("leveret_certificate_not_after_seconds", "End of a certificate, seconds since 1970");

/// Who this is: dashboards join everything with it.
pub(crate) fn identity(writer: &mut Writer<'_>, management: &Management, endpoint: &str) {
    let (node_info, view) = (&management.node_info, management.broker.view());
    let parameter = |name| view.meta.global_parameters().get(name).map(Json::value);
    let text = |name| parameter(name).and_then(|value| value.as_str().map(str::to_owned));
    let cluster = text("cluster_name").unwrap_or_else(|| node_info.name.clone());
    let id = text("internal_cluster_id").unwrap_or_default();
    writer.begin("rabbitmq_identity_info", Untyped, "Node and cluster").value(
        &[
            ("rabbitmq_node", &node_info.name),
            ("rabbitmq_cluster", &cluster),
            ("rabbitmq_cluster_permanent_id", &id),
            ("rabbitmq_endpoint", endpoint),
        ],
        1,
    );
    writer.begin("rabbitmq_build_info", Untyped, "Versions").value(
        &[
            ("rabbitmq_version", &node_info.rabbitmq_version),
            ("prometheus_plugin_version", &node_info.rabbitmq_version),
            ("prometheus_client_version", "none"),
            ("erlang_version", "none"),
            ("product_name", "Leveret"),
            ("product_version", &node_info.version),
        ],
        1,
    );
}

fn write_rows<'r>(
    writer: &mut Writer<'_>,
    rows: impl Iterator<Item = &'r Row>,
    labels: &[(&str, &str)],
    snapshot: &Snapshot,
) {
    for (name, kind, of, help) in rows {
        if let Some(value) = of(snapshot) {
            writer.begin(name, *kind, help).value(labels, value);
        }
    }
}

/// The node's figures.
pub(crate) fn node(writer: &mut Writer<'_>, snapshot: &Snapshot, is_wanted: impl Fn(&str) -> bool) {
    write_rows(writer, NODE.iter().filter(|row| is_wanted(row.0)), &[], snapshot);
    write_rows(writer, BY_PROTOCOL.iter(), &[("protocol", "amqp091")], snapshot);
    for (name, kind, of, help) in BY_QUEUE_TYPE.iter().filter(|row| is_wanted(row.0)) {
        let mut metric = writer.begin(name, *kind, help);
        for (queue_kind, module) in TYPES {
            let of_kind = snapshot.queues.counts.get(&queue_kind).copied().unwrap_or_default();
            let value = of(&of_kind);
            metric.value(&[("protocol", "amqp091"), ("queue_type", module)], value);
        }
    }
}

/// The ends of certificates; nothing without TLS.
pub(crate) fn certificates(writer: &mut Writer<'_>, management: &Management) {
    let ends = management.certificate_ends();
    if ends.is_empty() {
        return;
    }
    let (name, help) = CERTIFICATES;
    let mut metric = writer.begin(name, Gauge, help);
    for (file, not_after_s) in ends {
        metric.value(&[("file", &file)], not_after_s);
    }
}

/// Memory by its use, as far as that is known.
pub(crate) fn memory(writer: &mut Writer<'_>, snapshot: &Snapshot) {
    let messages = snapshot.queues.message_bytes;
    let total = snapshot.system.memory_bytes.unwrap_or_default();
    writer.begin("memory_queue_procs_bytes", Gauge, "Messages of queues").value(&[], messages);
    let other = total.saturating_sub(messages);
    writer.begin("memory_other_proc_bytes", Gauge, "Everything else").value(&[], other);
}
