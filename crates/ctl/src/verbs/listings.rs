//! Listings whose columns can be chosen.

use super::choice;
use crate::client::STATE;
use crate::options::{flag, number, text};
use crate::output::Form;
use crate::recent;
use crate::top;
use crate::verb::{Action, Section, VERB, Verb, verbs};

const MONITORING: Verb = Verb { section: Section::Monitoring, ..VERB };

/// The columns of `list_queues`.
const QUEUE: &str = "\
    name, durable, auto_delete, arguments, policy, operator_policy, effective_policy_definition, \
    pid, owner_pid, exclusive, exclusive_consumer_pid, exclusive_consumer_tag, messages_ready, \
    messages_unacknowledged, messages, messages_ready_ram, messages_unacknowledged_ram, \
    messages_ram, messages_persistent, message_bytes, message_bytes_ready, \
    message_bytes_unacknowledged, message_bytes_ram, message_bytes_persistent, \
    head_message_timestamp, disk_reads, disk_writes, consumers, consumer_utilisation, \
    consumer_capacity, memory, state, type, storage_version, conversion, confirm_on, \
    messages_unconfirmed, message_bytes_unconfirmed, oldest_unconfirmed_ms, confirms_timed_out, \
    oldest_message_age_seconds, leader, members, online, committed_offset, committed_chunk_id, \
    readers, segments, durability, file_reads, file_read_bytes, chunks_read_ahead, chunks_read";

/// The columns of `list_connections`.
const CONNECTION: &str = "\
    pid, name, port, host, peer_port, peer_host, ssl, ssl_protocol, ssl_key_exchange, \
    ssl_cipher, ssl_hash, peer_cert_subject, peer_cert_issuer, peer_cert_serial_number, \
    peer_cert_validity, state, channels, protocol, auth_mechanism, user, vhost, container_id, \
    timeout, frame_max, channel_max, client_properties, recv_oct, recv_cnt, send_oct, send_cnt, \
    send_pend, connected_at";

/// The columns of `list_channels`.
const CHANNEL: &str = "\
    pid, connection, name, number, user, vhost, transactional, confirm, consumer_count, \
    messages_unacknowledged, messages_uncommitted, acks_uncommitted, messages_unconfirmed, \
    oldest_unconfirmed_ms, prefetch_count, consumer_state, oldest_held_seconds";

/// The columns of `list_bindings`.
const BINDING: &str = "\
    source_name:source, source_kind:=exchange, destination_name:destination, \
    destination_kind:destination_type, routing_key, arguments";

pub(super) const VERBS: &[Verb] = verbs! {
    MONITORING "top [--once] [--interval <seconds>] [--rows <rows>]",
        "Shows the busiest queues and connections, and blocked publishers":
        switches: &[flag("once", None), number("interval", Some('i')), number("rows", None)],
        action: Action::Follow(top::top);
    MONITORING "log_tail [--number|-N <number>]",
        "Shows the last lines of the node's log (50 by default)":
        switches: &[number("number", Some('N'))],
        banner_of: Some(|invocation| {
            let (number, node) = (recent::n_lines(invocation), invocation.node());
            format!("Last {number} log lines on node {node} ...")
        }),
        action: Action::Offline(recent::log_tail);
    MONITORING "log_tail_stream [--duration|-d <seconds>]", "Follows the node's log":
        switches: &[number("duration", Some('d'))], banner: "Streaming logs from node {node} ...",
        action: Action::Follow(recent::log_tail_stream);
    MONITORING "consume_event_stream [--duration|-d <seconds>] [--pattern <pattern>]",
        "Follows the node's events, one JSON object per line":
        switches: &[number("duration", Some('d')), text("pattern", None)],
        action: Action::Follow(recent::event_stream);
    MONITORING "list_queues [--vhost <vhost>] [--online] [--offline] [--local] \
        [--no-table-headers] [<column>, ...]",
        "Lists the queues of a virtual host":
        switches: &[flag("online", None), flag("offline", None), flag("local", None)], vhost: true,
        timeout_ms: Some(60_000),
        banner_of: Some(|invocation| {
            let seconds = invocation.timeout.unwrap_or_default().as_secs_f64();
            format!(
                "Timeout: {seconds:?} seconds ...\nListing queues for vhost {} ...",
                invocation.vhost()
            )
        }),
        action: choice("GET /queues/{vhost}?typed=true", Form::Streamed, QUEUE, "name, messages");
    MONITORING "list_unresponsive_queues [--local] [--queue-timeout <seconds>] [<column> ...] \
        [--no-table-headers]",
        "Lists nothing: queues respond whenever the node does":
        switches: &[flag("local", None), number("queue-timeout", None)], vhost: true,
        banner: "Listing unresponsive queues for vhost {vhost} ...",
        action: choice(STATE, Form::Whole, "name, durable, auto_delete, arguments, pid", "name");
    MONITORING "list_exchanges [--vhost <vhost>] [--no-table-headers] [<column> ...]",
        "Lists the exchanges of a virtual host":
        vhost: true, banner: "Listing exchanges for vhost {vhost} ...",
        action: choice(
            "GET /exchanges/{vhost}?typed=true",
            Form::Streamed,
            "name, type, durable, auto_delete, internal, arguments, policy",
            "name, type",
        );
    MONITORING "list_bindings [--vhost <vhost>] [--no-table-headers] [<column> ...]",
        "Lists the bindings of a virtual host":
        vhost: true, banner: "Listing bindings for vhost {vhost}...",
        action: choice("GET /bindings/{vhost}?typed=true", Form::Streamed, BINDING, BINDING);
    MONITORING "list_connections [--no-table-headers] [<column> ...]", "Lists client connections":
        banner: "Listing connections ...",
        action: choice(
            "GET /connections?typed=true",
            Form::Streamed,
            CONNECTION,
            "user, peer_host, peer_port, state",
        );
    MONITORING "list_channels [--no-table-headers] [<column> ...]", "Lists client channels":
        banner: "Listing channels ...",
        action: choice(
            "GET /channels?typed=true",
            Form::Streamed,
            CHANNEL,
            "pid, user, consumer_count, messages_unacknowledged",
        );
    MONITORING "list_consumers [--vhost <vhost>] [--no-table-headers] [<column> ...]",
        "Lists the consumers of a virtual host":
        vhost: true, banner: "Listing consumers in vhost {vhost} ...",
        action: choice(
            "GET /consumers/{vhost}?typed=true",
            Form::Streamed,
            "queue_name:queue.name, channel_pid, consumer_tag, ack_required, \
                    prefetch_count, active, activity_status, arguments, state, \
                    messages_held_by_channel, oldest_held_seconds",
            "queue_name, channel_pid, consumer_tag, ack_required, prefetch_count, active, \
                    arguments",
        );
};
