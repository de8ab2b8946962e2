//! The figures of the node, each a row.

use crate::Source;
use crate::queues::QUEUE_SUMS;
use crate::rows::rows;
use crate::snapshot::{OfProtocol, Snapshot};
use crate::text::{Kind, Writer};
use auth::Attempts;
use broker::MESSAGE_SIZES;
use log::{SYNC_MICROS, WalStats};
use meta::{Json, QueueKind};
use mgmt::Management;
use queue::Reason;
use queue::machine::DeadLetters;
use queue_type::{Count, Counts, Deaths};
use quorum::LogFigures;
use session::ProtocolKind;
use stdx::words;

/// A figure of the node: its value may be unknown.
type Of = fn(&Snapshot) -> Option<u64>;

/// Row of the node's figures: name, type, value, meaning.
pub(crate) type Row = (&'static str, Kind, Of, &'static str);

/// Row of figures that have a value for each of [`ProtocolKind::COUNTED`].
pub(crate) type ProtocolRow =
    (&'static str, Kind, fn(&Snapshot) -> [Option<u64>; N_PROTOCOLS], &'static str);

/// Row of logins' figures: name, type, value, meaning.
pub(crate) type LoginRow = (&'static str, Kind, fn(&Attempts) -> u64, &'static str);

/// Row of figures of quorum queues' log entries: name, type, value, meaning.
pub(crate) type QuorumRow = (&'static str, Kind, fn(&LogFigures) -> u64, &'static str);

/// Row of counts of messages that went through queues: name, type, value, meaning.
pub(crate) type CountRow = (&'static str, Kind, fn(&Counts) -> u64, &'static str);

use Kind::{Counter, Gauge, Histogram, Untyped};

pub(crate) const NODE: &[Row] = rows! {
    Gauge connections |it| Some(it.clients.n_connections) => "Connections currently open";
    Counter connections_opened_total |it| Some(it.clients.n_connections_opened) => "Connections opened";
    Counter connections_closed_total |it| it.clients.n_connections_opened.checked_sub(it.clients.n_connections) => "Connections closed";
    Gauge channels |it| Some(it.clients.n_channels) => "Channels currently open";
    Counter channels_opened_total |it| Some(it.clients.n_channels_opened) => "Channels opened";
    Counter channels_closed_total |it| it.clients.n_channels_opened.checked_sub(it.clients.n_channels) => "Channels closed";
    Gauge consumers |it| Some(it.queues.all.n_consumers) => "Consumers currently connected";
    Gauge queues |it| Some(it.queues.all.n) => "Queues available";
    Counter queues_created_total |it| Some(it.queues.n_created) => "Queues created";
    Counter queues_declared_total |it| Some(it.queues.n_declared) => "Queues declared";
    Counter queues_deleted_total |it| Some(it.queues.n_deleted) => "Queues deleted";
    Counter queue_messages_published_total |it| Some(it.queues.all.counts.of(Count::Published)) => "Messages enqueued";
    Counter queue_exchange_messages_published_total |it| Some(it.queues.all.counts.of(Count::Published)) => "Messages enqueued";
    Counter exchange_messages_published_total |it| Some(it.clients.published.n_published) => "Messages published to exchanges";
    Counter exchange_messages_confirmed_total |it| Some(it.clients.published.n_answered) => "Messages confirmed to publishers";
    Counter exchange_messages_unroutable_returned_total |it| Some(it.clients.published.n_returned) => "Messages returned as unroutable";
    Counter exchange_messages_unroutable_dropped_total |it| Some(it.clients.published.n_dropped) => "Messages dropped as unroutable";
    Gauge stream_segments |it| Some(it.queues.all.streams.n_segments) => "Segments of streams";
    Gauge stream_consumer_max_offset_lag |it| Some(it.queues.all.streams.lag_max) => "Largest lag of a subscription, in messages";
    Counter connection_incoming_bytes_total |it| it.clients.bytes.first().copied() => "Bytes received";
    Counter connection_outgoing_bytes_total |it| it.clients.bytes.last().copied() => "Bytes sent";
    Counter connection_incoming_packets_total |it| it.clients.calls.first().copied() => "Socket reads";
    Counter connection_outgoing_packets_total |it| it.clients.calls.last().copied() => "Socket writes";
    Gauge connection_channels |it| Some(it.clients.n_channels) => "Channels of connections";
    Gauge channel_consumers |it| Some(it.clients.channels.n_consumers) => "Consumers of channels";
    Gauge channel_messages_unacked |it| Some(it.queues.all.n_unacked) => "Messages delivered and not yet acknowledged";
    Gauge channel_messages_unconfirmed |it| Some(it.clients.channels.n_unconfirmed) => "Unconfirmed publishes";
    Gauge channel_messages_uncommitted |it| Some(it.clients.channels.n_uncommitted) => "Uncommitted publishes";
    Gauge channel_acks_uncommitted |it| Some(it.clients.channels.n_uncommitted_acks) => "Uncommitted acknowledgements";
    Gauge consumer_prefetch |it| Some(it.clients.channels.prefetch) => "Sum of the prefetch limits of new consumers";
    Counter channel_messages_published_total |it| Some(it.clients.published.n_published) => "Messages published";
    Counter channel_messages_confirmed_total |it| Some(it.clients.published.n_answered) => "Messages confirmed to publishers";
    Counter channel_messages_unroutable_returned_total |it| Some(it.clients.published.n_returned) => "Messages returned as unroutable";
    Counter channel_messages_unroutable_dropped_total |it| Some(it.clients.published.n_dropped) => "Messages dropped as unroutable";
    Gauge process_open_fds |it| it.system.n_descriptors => "Open file descriptors";
    Gauge process_max_fds |it| Some(it.system.n_descriptors_max) => "File descriptor limit";
    Gauge process_resident_memory_bytes |it| it.system.memory_bytes => "Memory used, bytes";
    Gauge resident_memory_limit_bytes |it| Some(it.system.memory_limit_bytes) => "Memory limit above which publishers are blocked, bytes";
    Gauge disk_space_available_bytes |it| it.system.disk_free_bytes => "Disk space available, bytes";
    Gauge disk_space_available_limit_bytes |it| Some(it.system.disk_free_limit_bytes) => "Free disk limit below which publishers are blocked, bytes";
    Gauge process_start_time_seconds |it| Some(it.start_seconds) => "Start time of the node, seconds since 1970";
    Gauge erlang_uptime_seconds |it| Some(it.system.uptime_seconds) => "Uptime of the node";
    Counter io_read_bytes_total |it| Some(it.system.read_bytes) => "Bytes read from files";
    Counter io_write_bytes_total |it| Some(it.system.written_bytes) => "Bytes written to files";
    Untyped alarms_memory_used_watermark |it| Some(it.system.memory_alarm.into()) => "1 while the memory alarm is on";
    Untyped alarms_free_disk_space_watermark |it| Some(it.system.disk_alarm.into()) => "1 while the disk alarm is on";
    Untyped alarms_file_descriptor_limit |it| Some(it.system.descriptor_alarm.into()) => "1 while file descriptors are short";
    Gauge unreachable_cluster_peers_count |it| Some(it.n_unreachable_members) => "Unreachable peers";
    Gauge leveret_pending_confirms |it| Some(it.queues.all.n_pending_confirms) => "Publishes waiting for consumers' acknowledgements";
    Counter leveret_confirm_timeouts_total |it| Some(it.queues.all.n_confirm_timeouts) => "Publishes whose confirm timed out waiting for consumers";
    Gauge leveret_dead_letters_waiting |it| Some(it.queues.all.n_departing) => "Messages waiting to be dead-lettered";
    Counter leveret_queue_annotations_dropped_total |it| Some(it.queues.n_annotations_dropped) => "Messages settled with annotations that their quorum queue had no room for";
    Gauge leveret_message_bytes |it| Some(it.storage.message_bytes) => "Bytes of messages in memory";
    Gauge leveret_queue_conversions |it| Some(it.queues.all.n_converting) => "Queues being converted to another storage version";
    Counter leveret_wal_bytes_written_total |it| Some(it.log.written_bytes) => "Bytes written to the log";
    Gauge leveret_wal_unsynced_bytes |it| Some(it.log.unsynced_bytes) => "Unsynced bytes of the log";
    Gauge leveret_wal_segments |it| Some(it.log.segments) => "Log segments in use";
    Gauge leveret_wal_needed_bytes |it| Some(it.log.live_bytes) => "Live bytes of the log, estimated";
    Gauge leveret_page_files |it| Some(it.storage.pages.files) => "Page files of backlogs";
    Gauge leveret_page_file_bytes |it| Some(it.storage.pages.file_bytes) => "Size of these files, bytes";
    Gauge leveret_page_needed_bytes |it| Some(it.storage.pages.live_bytes) => "Live bytes of page files";
    Counter leveret_page_bytes_written_total |it| Some(it.storage.pages.appended_bytes) => "Bytes of pages written";
    Gauge leveret_message_store_files |it| Some(it.storage.bodies.files) => "Message store files: large bodies and bodies shared by queues";
    Gauge leveret_message_store_file_bytes |it| Some(it.storage.bodies.file_bytes) => "Size of these files, bytes";
    Gauge leveret_message_store_needed_bytes |it| Some(it.storage.bodies.live_bytes) => "Live bytes of message store files";
    Gauge leveret_links |it| Some(it.clients.protocols.iter().map(|of| of.n_links).sum::<u64>()) => "Links of AMQP 1.0 on which clients publish or consume";
    Counter leveret_direct_replies_dropped_total |it| Some(it.n_replies_dropped) => "Direct replies dropped: the requester had no credit or did not read";
    Counter leveret_log_lines_dropped_total |it| Some(it.n_log_lines_dropped) => "Log lines dropped because the queue of lines was full";
    Counter leveret_otlp_spans_dropped_total |it| it.n_spans_dropped => "Spans dropped or not accepted by the collector; only with `otel.endpoint`";
    Counter leveret_messages_lost_total |it| Some(it.storage.n_lost) => "Messages lost in unreadable files";
};

/// Entries of quorum queues in the log, of each queue and of all.
pub(crate) const QUORUM_LOG: &[QuorumRow] = rows! {
    Counter raft_term |it| it.n_terms => "Leader elections since the start; a queue's only member leads immediately";
    Counter raft_last_written_index |it| it.n_appended => "Log entries appended since the start";
    Counter raft_commit_index |it| it.n_durable => "Durable log entries";
    Counter raft_snapshot_index |it| it.n_in_form => "Log entries covered by the last snapshot";
};

/// The commit latency of quorum queues: name and meaning.
pub(crate) const COMMIT_LATENCY: (&str, &str) =
    ("raft_commit_latency_seconds", "Recent duration of a log write with its fsync");

/// Messages that went through queues, by their type.
pub(crate) const BY_QUEUE_TYPE: &[CountRow] = rows! {
    Counter global_messages_delivered_total |it| it.n_delivered() => "Messages delivered";
    Counter global_messages_delivered_consume_manual_ack_total |it| it.of(Count::Delivered) => "Messages delivered to consumers with manual acknowledgement";
    Counter global_messages_delivered_consume_auto_ack_total |it| it.of(Count::DeliveredAuto) => "Messages delivered to consumers with automatic acknowledgement";
    Counter global_messages_delivered_get_manual_ack_total |it| it.of(Count::Got) => "Messages fetched with manual acknowledgement";
    Counter global_messages_delivered_get_auto_ack_total |it| it.of(Count::GotAuto) => "Messages fetched with automatic acknowledgement";
    Counter global_messages_get_empty_total |it| it.of(Count::GotEmpty) => "Fetches from empty queues";
    Counter global_messages_redelivered_total |it| it.of(Count::Redelivered) => "Messages redelivered";
    Counter global_messages_acknowledged_total |it| it.of(Count::Acked) => "Messages acknowledged";
};

/// Messages that channels were given from queues, of each two and of all.
pub(crate) const DELIVERED_ROWS: &[CountRow] = rows! {
    Counter channel_get_ack_total |it| it.of(Count::Got) => "Messages fetched with manual acknowledgement";
    Counter channel_get_total |it| it.of(Count::GotAuto) => "Messages fetched with automatic acknowledgement";
    Counter channel_get_empty_total |it| it.of(Count::GotEmpty) => "Fetches from empty queues";
    Counter channel_messages_delivered_ack_total |it| it.of(Count::Delivered) => "Messages delivered to consumers with manual acknowledgement";
    Counter channel_messages_delivered_total |it| it.of(Count::DeliveredAuto) => "Messages delivered to consumers with automatic acknowledgement";
    Counter channel_messages_redelivered_total |it| it.of(Count::Redelivered) => "Messages redelivered";
    Counter channel_messages_acked_total |it| it.of(Count::Acked) => "Messages acknowledged";
};

/// Messages put into queues, by their type: name and meaning.
pub(crate) const PUBLISHED: (&str, &str) =
    ("leveret_queue_messages_published_total", "Messages enqueued");

/// Messages that died: name, reason, meaning.
pub(crate) const DEATHS: [(&str, Reason, &str); 4] = [
    (
        "global_messages_dead_lettered_maxlen_total",
        Reason::MaxLen,
        "Messages dead-lettered: queue length limit",
    ),
    (
        "global_messages_dead_lettered_expired_total",
        Reason::Expired,
        "Messages dead-lettered: expired",
    ),
    (
        "global_messages_dead_lettered_rejected_total",
        Reason::Rejected,
        "Messages dead-lettered: rejected by a consumer",
    ),
    (
        "global_messages_dead_lettered_delivery_limit_total",
        Reason::DeliveryLimit,
        "Messages dead-lettered: delivery limit",
    ),
];

/// Dead letters that arrived: name and meaning.
pub(crate) const DEATHS_CONFIRMED: (&str, &str) = (
    "global_messages_dead_lettered_confirmed_total",
    "Dead-lettered messages confirmed by all target queues",
);

/// The types of queues whose messages die, and where to, as RabbitMQ spells it.
const STRATEGIES: [(QueueKind, DeadLetters, &str); 5] = [
    (QueueKind::Classic, DeadLetters::Dropped, "disabled"),
    (QueueKind::Classic, DeadLetters::AtMostOnce, "at_most_once"),
    (QueueKind::Quorum, DeadLetters::Dropped, "disabled"),
    (QueueKind::Quorum, DeadLetters::AtMostOnce, "at_most_once"),
    (QueueKind::Quorum, DeadLetters::AtLeastOnce, "at_least_once"),
];

/// The row that the stream protocol has a value in, too.
const DELIVERED: &str = "global_messages_delivered_total";
/// The meaning of [`STREAM_ERRORS`].
pub(crate) const STREAM_ERROR: &str = "Errors sent to stream clients";

const N_PROTOCOLS: usize = ProtocolKind::COUNTED.len();

/// Messages that clients published, and who is connected, by protocol. COMPAT: of the stream protocol
/// RabbitMQ counts neither what was routed nor what was not.
pub(crate) const BY_PROTOCOL: &[ProtocolRow] = rows! {
    Counter global_messages_received_total |it| each(it, |of| of.totals.published.n_published, Some(it.streams.n_received)) => "Messages received from publishers";
    Counter global_messages_received_confirm_total |it| each(it, |of| of.totals.published.n_confirming, Some(it.streams.n_received)) => "Messages received on channels with confirms, or in sessions";
    Counter global_messages_confirmed_total |it| each(it, |of| of.totals.published.n_answered, Some(it.streams.n_confirmed)) => "Messages confirmed to publishers";
    Counter global_messages_routed_total |it| each(it, |of| of.totals.published.n_routed(), None) => "Messages routed to at least one queue";
    Counter global_messages_unroutable_returned_total |it| each(it, |of| of.totals.published.n_returned, None) => "Messages returned as unroutable";
    Counter global_messages_unroutable_dropped_total |it| each(it, |of| of.totals.published.n_dropped, None) => "Messages dropped as unroutable";
    Gauge global_publishers |it| each(it, |of| of.n_publishers, Some(it.queues.all.streams.n_publishers)) => "Publishers connected";
    Gauge global_consumers |it| each(it, |of| of.n_consumers, Some(it.queues.all.streams.n_subscriptions)) => "Consumers connected";
    Gauge leveret_channels |it| each(it, |of| of.n_channels, None) => "Channels or sessions currently open";
    Counter leveret_messages_converted_total |it| each(it, |of| of.n_converted, None) => "Messages that were converted to this protocol: from queues for consumers, into streams and out of them";
    Gauge leveret_connections |it| it.clients.protocols.each_ref().map(|of| Some(of.n_connections)) => "Connections currently open";
};

/// The values of a row that channels count, and that of the stream protocol.
fn each(
    snapshot: &Snapshot,
    of: fn(&OfProtocol) -> u64,
    of_streams: Option<u64>,
) -> [Option<u64>; N_PROTOCOLS] {
    let mut values =
        ProtocolKind::COUNTED.iter().zip(&snapshot.clients.protocols).map(|(protocol, clients)| {
            if protocol.row().has_channels { Some(of(clients)) } else { of_streams }
        });
    std::array::from_fn(|_| values.next().flatten())
}

/// The names of the protocols whose clients have channels, and these clients.
fn of_channels(snapshot: &Snapshot) -> impl Iterator<Item = (&'static str, &OfProtocol)> {
    let all = ProtocolKind::COUNTED.iter().map(|it| it.row()).zip(&snapshot.clients.protocols);
    all.filter(|(row, _)| row.has_channels).map(|(row, clients)| (row.counted_as, clients))
}

/// Errors told to clients of the stream protocol, by response code.
pub(crate) const STREAM_ERRORS: [(&str, u16); 17] = [
    ("global_stream_error_stream_does_not_exist_total", 0x02),
    ("global_stream_error_subscription_id_already_exists_total", 0x03),
    ("global_stream_error_subscription_id_does_not_exist_total", 0x04),
    ("global_stream_error_stream_already_exists_total", 0x05),
    ("global_stream_error_stream_not_available_total", 0x06),
    ("global_stream_error_sasl_mechanism_not_supported_total", 0x07),
    ("global_stream_error_authentication_failure_total", 0x08),
    ("global_stream_error_sasl_error_total", 0x09),
    ("global_stream_error_sasl_challenge_total", 0x0a),
    ("global_stream_error_sasl_authentication_failure_loopback_total", 0x0b),
    ("global_stream_error_vhost_access_failure_total", 0x0c),
    ("global_stream_error_unknown_frame_total", 0x0d),
    ("global_stream_error_frame_too_large_total", 0x0e),
    ("global_stream_error_internal_error_total", 0x0f),
    ("global_stream_error_access_refused_total", 0x10),
    ("global_stream_error_precondition_failed_total", 0x11),
    ("global_stream_error_publisher_does_not_exist_total", 0x12),
];

/// Logins by protocol.
pub(crate) const LOGINS: &[LoginRow] = rows! {
    Counter auth_attempts_total |it| it.n_succeeded + it.n_failed => "Login attempts";
    Counter auth_attempts_succeeded_total |it| it.n_succeeded => "Successful login attempts";
    Counter auth_attempts_failed_total |it| it.n_failed => "Failed login attempts";
};

/// Logins by source.
pub(crate) const LOGIN_SOURCES: &[LoginRow] = rows! {
    Counter auth_attempts_detailed_total |it| it.n_succeeded + it.n_failed => "Login attempts";
    Counter auth_attempts_detailed_succeeded_total |it| it.n_succeeded => "Successful login attempts";
    Counter auth_attempts_detailed_failed_total |it| it.n_failed => "Failed login attempts";
};

/// The distribution of message sizes: name and meaning.
pub(crate) const MESSAGE_SIZE: (&str, &str) =
    ("message_size_bytes", "Sizes of messages received from publishers");
/// The distribution of the durations of log fsyncs: name and meaning.
pub(crate) const SYNC_TIME: (&str, &str) = ("leveret_wal_fsync_seconds", "Duration of log fsyncs");

/// The figure of certificates: name and meaning.
pub(crate) const CERTIFICATES: (&str, &str) =
    ("leveret_certificate_not_after_seconds", "Expiry of a certificate, seconds since 1970");

/// Writes the names and versions of node and cluster, which dashboards join all other figures with.
pub(crate) fn identity(writer: &mut Writer<'_>, management: &Management, endpoint: &str) {
    let (node_info, view) = (&management.node_info, management.broker.view());
    let parameter = |name| view.meta.global_parameters().get(name).map(Json::value);
    let text = |name| parameter(name).and_then(|value| value.as_str().map(str::to_owned));
    let cluster =
        view.meta.global_parameters().cluster_name().unwrap_or_else(|| node_info.name.clone());
    let id = text("internal_cluster_id").unwrap_or_else(|| node_info.cluster_id.clone());
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

/// The node's figures.
pub(crate) fn node(writer: &mut Writer<'_>, snapshot: &Snapshot, is_wanted: impl Fn(&str) -> bool) {
    for (name, kind, of, help) in NODE.iter().filter(|row| is_wanted(row.0)) {
        if let Some(value) = of(snapshot) {
            writer.begin(name, *kind, help).value(&[], value);
        }
    }
    queues_together(writer, snapshot, &is_wanted);
    for (name, kind, of, help) in BY_PROTOCOL {
        let mut metric = writer.begin(name, *kind, help);
        for (protocol, value) in ProtocolKind::COUNTED.iter().zip(of(snapshot)) {
            let label = ("protocol", protocol.row().counted_as);
            value.into_iter().for_each(|value| metric.value(&[label], value));
        }
    }
    queue_types(writer, snapshot);
    for (name, kind, of, help) in DELIVERED_ROWS.iter().filter(|row| is_wanted(row.0)) {
        let mut all = Counts::default();
        snapshot.queues.counts.values().for_each(|counts| all.add(counts));
        writer.begin(name, *kind, help).value(&[], of(&all));
    }
    if is_wanted(PUBLISHED.0) {
        let mut metric = writer.begin(PUBLISHED.0, Counter, PUBLISHED.1);
        for kind in QueueKind::ALL {
            let n = snapshot.queues.of(kind).of(Count::Published);
            metric.value(&[("queue_type", kind.module())], n);
        }
    }
    distributions(writer, snapshot);
    for (name, code) in STREAM_ERRORS {
        let value = snapshot.streams.n_refused(code);
        writer.begin(name, Counter, STREAM_ERROR).value(&[("protocol", "stream")], value);
    }
    logins(writer, snapshot);
}

/// Logins, by protocol.
pub(crate) fn logins(writer: &mut Writer<'_>, snapshot: &Snapshot) {
    for (name, kind, of, help) in LOGINS {
        let mut metric = writer.begin(name, *kind, help);
        for (protocol, counts) in &snapshot.clients.logins {
            metric.value(&[("protocol", protocol)], of(counts));
        }
    }
}

/// The figures that each queue has, of all together.
fn queues_together(writer: &mut Writer<'_>, snapshot: &Snapshot, is_wanted: impl Fn(&str) -> bool) {
    let stat = snapshot.queues.stat();
    for (name, kind, of, help) in QUEUE_SUMS.iter().flat_map(|rows| *rows) {
        if is_wanted(name) {
            writer.begin(name, *kind, help).value(&[], of(&stat));
        }
    }
}

/// The figures of the node that are a family of RabbitMQ's.
pub(crate) fn of_family(writer: &mut Writer<'_>, snapshot: &Snapshot, family: &str) {
    let names = NODE_FAMILIES.iter().find(|(known, _)| *known == family);
    let is_in = |name: &str| names.is_some_and(|(_, names)| words(names).any(|it| it == name));
    for (name, kind, of, help) in NODE.iter().filter(|row| is_in(row.0)) {
        of(snapshot).into_iter().for_each(|it| writer.begin(name, *kind, help).value(&[], it));
    }
}

/// Families of the node's figures, by RabbitMQ's names.
pub(crate) const NODE_FAMILIES: [(&str, &str); 4] = [
    (
        "connection_churn_metrics",
        "connections_opened_total, connections_closed_total, channels_opened_total, \
         channels_closed_total, queues_declared_total, queues_created_total, queues_deleted_total",
    ),
    (
        "node_coarse_metrics",
        "process_open_fds, process_resident_memory_bytes, disk_space_available_bytes",
    ),
    (
        "node_metrics",
        "process_max_fds, resident_memory_limit_bytes, disk_space_available_limit_bytes, \
         erlang_uptime_seconds",
    ),
    ("node_persister_metrics", "io_read_bytes_total, io_write_bytes_total"),
];

/// The family of [`LOGINS`].
pub(crate) const LOGIN_FAMILY: &str = "auth_attempt_metrics";

/// Figures of messages that went through queues, by type of queue.
fn queue_types(writer: &mut Writer<'_>, snapshot: &Snapshot) {
    for (name, kind, of, help) in BY_QUEUE_TYPE {
        let mut metric = writer.begin(name, *kind, help);
        for (protocol, of_protocol) in of_channels(snapshot) {
            for queue_kind in QueueKind::ALL {
                let labels = [("protocol", protocol), ("queue_type", queue_kind.module())];
                let counts = of_protocol.totals.delivered.get(&queue_kind).copied();
                metric.value(&labels, of(&counts.unwrap_or_default()));
            }
        }
        if *name == DELIVERED {
            let labels = [("protocol", "stream"), ("queue_type", QueueKind::Stream.module())];
            metric.value(&labels, snapshot.streams.n_delivered);
        }
    }
}

fn distributions(writer: &mut Writer<'_>, snapshot: &Snapshot) {
    let (name, help) = MESSAGE_SIZE;
    let mut metric = writer.begin(name, Histogram, help);
    for (protocol, of_protocol) in of_channels(snapshot) {
        let sizes = &of_protocol.totals.published.sizes;
        metric.histogram(("protocol", protocol), &MESSAGE_SIZES, 1.0, sizes);
    }
    let (name, help) = SYNC_TIME;
    let mut metric = writer.begin(name, Histogram, help);
    metric.histogram(("", ""), &SYNC_MICROS, 1e6, &snapshot.log.sync_micros);
}

/// Messages that died, by type of queue and how sure their dead letters are to arrive.
pub(crate) fn deaths(writer: &mut Writer<'_>, deaths: &Deaths) {
    for (name, reason, help) in DEATHS {
        let mut metric = writer.begin(name, Counter, help);
        for (kind, to, strategy) in STRATEGIES {
            // At-least-once dead-lettering rejects publishes to a full queue, so no message is dropped over
            // the limit.
            if reason != Reason::MaxLen || to != DeadLetters::AtLeastOnce {
                let labels = [("queue_type", kind.module()), ("dead_letter_strategy", strategy)];
                metric.value(&labels, deaths.n(kind, to, reason));
            }
        }
    }
    let (name, help) = DEATHS_CONFIRMED;
    let labels =
        [("queue_type", QueueKind::Quorum.module()), ("dead_letter_strategy", "at_least_once")];
    writer.begin(name, Counter, help).value(&labels, deaths.n_confirmed());
}

/// Figures of the log that quorum queues have together.
pub(crate) fn quorum_log(writer: &mut Writer<'_>, snapshot: &Snapshot) {
    let labels = [("module", "ra_server"), ("ra_system", "quorum_queues")];
    for (name, kind, of, help) in QUORUM_LOG {
        writer.begin(name, *kind, help).value(&labels, of(&snapshot.queues.all.log));
    }
    let seconds = commit_latency_seconds(&snapshot.log);
    writer.begin(COMMIT_LATENCY.0, Gauge, COMMIT_LATENCY.1).value(&labels, seconds);
}

/// See [`COMMIT_LATENCY`].
pub(crate) fn commit_latency_seconds(log: &WalStats) -> f64 {
    log.commit_micros as f64 / 1e6
}

/// The age of the oldest message: name and meaning.
pub(crate) const OLDEST: (&str, &str) = (
    "leveret_queue_oldest_message_age_seconds",
    "Age of the oldest message, not of streams, accurate to a few seconds",
);

/// The age of the oldest message of all queues.
pub(crate) fn oldest_message(writer: &mut Writer<'_>, source: &Source<'_>) {
    let seconds = source.history.ages.seconds(source.now).into_values().fold(0.0, f64::max);
    writer.begin(OLDEST.0, Gauge, OLDEST.1).value(&[], seconds);
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
pub(crate) const MEMORY: &[Row] = rows! {
    Gauge memory_binary_heap_bytes |it| Some(it.storage.message_bytes) => "Memory of messages, bytes";
    Gauge memory_client_connection_other_bytes |it| Some(it.clients.held_bytes) => "Memory of connections' incomplete input and unread output, bytes";
    Gauge memory_other_system_bytes |it| it.system.memory_bytes?.checked_sub(it.storage.message_bytes + it.clients.held_bytes) => "Other memory, bytes";
};

/// See [`MEMORY`].
pub(crate) fn memory(writer: &mut Writer<'_>, snapshot: &Snapshot) {
    for (name, kind, of, help) in MEMORY {
        of(snapshot).into_iter().for_each(|it| writer.begin(name, *kind, help).value(&[], it));
    }
}
