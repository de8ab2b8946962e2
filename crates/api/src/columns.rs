//! Columns of lists, each once: the API and the tool find them here by their names. A column is spelled as
//! it is shown.

/// An enum of columns. The columns of the tool come first, in the order in which it lists them; a text behind
/// a column is its title there, and behind a colon the path to its value. The others are the API's alone.
macro_rules! columns {
    (@shown $column:ident) => { stringify!($column) };
    (@shown $column:ident $shown:literal) => { $shown };
    ($(#[$meta:meta])* $name:ident: $($tool:ident $($shown:literal)?),*; $($other:ident),*;) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(non_camel_case_types, missing_docs, reason = "a column is spelled as it is shown")]
        pub enum $name { $($tool,)* $($other,)* }

        impl $name {
            /// All columns.
            pub const ALL: &[Self] = &[$(Self::$tool,)* $(Self::$other,)*];
            /// The columns of the tool, with commas between them.
            pub const OF_TOOL: &str = concat!($(columns!(@shown $tool $($shown)?), ", "),*);

            /// The column's name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$tool => plain(stringify!($tool)),)*
                    $(Self::$other => plain(stringify!($other)),)*
                }
            }
        }
    };
}

/// A name without the mark of a name that is a word of Rust.
const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

columns! {
    /// Columns of queues.
    QueueColumn:
    name, durable, auto_delete, arguments, policy, operator_policy, effective_policy_definition,
    pid, owner_pid, exclusive, exclusive_consumer_pid, exclusive_consumer_tag, messages_ready,
    messages_unacknowledged, messages, messages_ready_ram, messages_unacknowledged_ram,
    messages_ram, messages_persistent, message_bytes, message_bytes_ready,
    message_bytes_unacknowledged, message_bytes_ram, message_bytes_persistent,
    head_message_timestamp, disk_reads, disk_writes, consumers, consumer_utilisation,
    consumer_capacity, memory, state, r#type "type", storage_version, conversion, confirm_on,
    messages_unconfirmed, message_bytes_unconfirmed, oldest_unconfirmed_ms, confirms_timed_out,
    oldest_message_age_seconds, leader, members, online, committed_offset, committed_chunk_id,
    readers, segments, durability, file_reads, file_read_bytes, chunks_read_ahead, chunks_read;
    consumer_details, damage, delayed_retry, deliveries, delivery_limit, idle_ms, idle_since,
    incoming, internal, internal_owner, last_delayed_at, message_stats, messages_active_priorities,
    messages_by_priority, messages_delayed, messages_details, messages_dlx, messages_ready_details,
    messages_unacknowledged_details, next_delayed_at, node, owner_pid_details,
    single_active_consumer_tag, vhost;
}

columns! {
    /// Columns of connections.
    ConnectionColumn:
    pid, name, port, host, peer_port, peer_host, ssl, ssl_protocol, ssl_key_exchange, ssl_cipher,
    ssl_hash, peer_cert_subject, peer_cert_issuer, peer_cert_serial_number, peer_cert_validity,
    state, channels, protocol, auth_mechanism, user, vhost, container_id, timeout, frame_max,
    channel_max, client_properties, recv_oct, recv_cnt, send_oct, send_cnt, send_pend, connected_at;
    node, recv_oct_details, send_oct_details, subscriptions, r#type, user_provided_name,
    user_who_performed_action;
}

columns! {
    /// Columns of channels.
    ChannelColumn:
    pid, connection, name, number, user, vhost, transactional, confirm, consumer_count,
    messages_unacknowledged, messages_uncommitted, acks_uncommitted, messages_unconfirmed,
    oldest_unconfirmed_ms, prefetch_count, consumer_state, oldest_held_seconds;
    connection_details, consumer_details, deliveries, message_stats, node, oldest_unacked_ms,
    publishes, state, user_who_performed_action;
}

/// Columns of sessions of AMQP 1.0, all of them the tool's.
pub const SESSION_COLUMNS: &str = "connection, channel_number, user, vhost, handle_max, \
    next_incoming_id, incoming_window, next_outgoing_id, remote_incoming_window, \
    remote_outgoing_window, outgoing_unsettled_deliveries, incoming_links, outgoing_links";

/// Columns of links of AMQP 1.0, all of them the tool's.
pub const LINK_COLUMNS: &str = "connection, channel_number, user, vhost, direction, handle, \
    link_name, target_address, source_address, queue_name, snd_settle_mode, send_settled, \
    max_message_size, delivery_count, credit, unconfirmed_messages, filter";

columns! {
    /// Columns of consumers.
    ConsumerColumn:
    queue "queue_name:queue.name", channel_pid, consumer_tag, ack_required, prefetch_count, active,
    activity_status, arguments, state, messages_held_by_channel, oldest_held_seconds;
    channel_details, consumer_timeout, exclusive;
}

columns! {
    /// Columns of bindings.
    BindingColumn:
    source "source_name:source", source_kind, destination "destination_name:destination",
    destination_type "destination_kind:destination_type", routing_key, arguments;
    properties_key, vhost;
}

columns! {
    /// Columns of exchanges.
    ExchangeColumn:
    name, r#type "type", durable, auto_delete, internal, arguments, policy;
    incoming, message_stats, messages_delayed, outgoing, user_who_performed_action, vhost;
}
