//! The table of options: one row per option with its key, kind, default and meaning.
//! Add an option by adding a field to `Config` and a row here; then `cargo xtask docs`.

pub(super) mod cluster;
pub(super) mod http;
pub(super) mod log;
pub(super) mod tls;

use super::option::{ConfigOption, options};
use super::{Draft, Durability, Immediate, Validator};
use meta::{
    ApplyTo, DefaultLimits, DefaultPolicy, DefaultUser, HashAlgorithm, QueueKind, QueueVersion,
};

/// Every option, in the order of the documentation.
pub(super) fn all() -> impl Iterator<Item = &'static ConfigOption> {
    OPTIONS
        .iter()
        .chain(log::OPTIONS.iter().copied().flatten())
        .chain(cluster::OPTIONS)
        .chain(tls::OPTIONS)
        .chain(http::OPTIONS.iter().copied().flatten())
}

/// A number whose range the option's row has already checked.
fn fits<T: TryFrom<u64>>(number: u64) -> T {
    T::try_from(number).ok().expect("the option's range is that of its field")
}

fn limits_of<'d>(draft: &'d mut Draft, id: &str) -> &'d mut DefaultLimits {
    draft.config.definitions.vhost_defaults.limits.entry(id.to_owned()).or_default()
}

fn policy_of<'d>(draft: &'d mut Draft, id: &str) -> &'d mut DefaultPolicy {
    draft.config.definitions.vhost_defaults.operator_policies.entry(id.to_owned()).or_default()
}

fn set_in_policy(draft: &mut Draft, id: &str, key: &'static str, value: u64) {
    policy_of(draft, id).settings.insert(key, value);
}

fn user_of<'d>(draft: &'d mut Draft, name: &str) -> &'d mut DefaultUser {
    draft.config.definitions.vhost_defaults.users.entry(name.to_owned()).or_default()
}

/// SASL mechanisms that can be switched on.
const MECHANISMS: &[&str] = &["PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL", "RABBIT-CR-DEMO"];

/// Every option Leveret acts on.
pub(super) const OPTIONS: &[ConfigOption] = options! {
    "listeners.tcp" => Nothing(|d| d.tcp.none = true), "`none` disables all plain listeners.";
    "listeners.tcp.$name = 5672" => Address(|d, name, v| {
        d.tcp.named.insert(name.to_owned(), v);
    }),
        "Address of a plain AMQP listener, by a name of your own. The first one replaces the default \
         `listeners.tcp.default = 5672`. A port alone listens on all addresses; port 0 picks a free port.";
    "tcp_listen_options.backlog = 65535" =>
        Integer(1..=65_535, "connections", |d, v| d.config.listeners.backlog = fits(v)),
        "Length of the accept queue, at most `net.core.somaxconn`.";
    "tcp_listen_options.nodelay = true" => Flag(|d, v| d.config.listeners.nodelay = v),
        "Send small writes immediately (`TCP_NODELAY`).";
    "tcp_listen_options.keepalive = false" => Flag(|d, v| d.config.listeners.keepalive = v),
        "Enable TCP keepalives (`SO_KEEPALIVE`).";
    "tcp_listen_options.sndbuf" =>
        Integer(1_024..=1 << 30, "bytes", |d, v| d.config.listeners.buffers.send = Some(fits(v))),
        "Socket send buffer (`SO_SNDBUF`); the system's default when unset.";
    "tcp_listen_options.recbuf" =>
        Integer(1_024..=1 << 30, "bytes", |d, v| d.config.listeners.buffers.receive = Some(fits(v))),
        "Socket receive buffer (`SO_RCVBUF`); the system's default when unset.";
    "proxy_protocol = false" => Flag(|d, v| d.config.listeners.proxy_protocol = v),
        "Require a PROXY protocol header (version 1 or 2) on each connection, and use its addresses. \
         Connections without one are closed. The node trusts the header, also for `loopback_users`: only \
         the proxy should reach its ports.";
    "handshake_timeout = 10000" =>
        IntegerOrInfinity("milliseconds", |d, v| d.config.connection.handshake_timeout_ms = v),
        "Time limit for a client to open its AMQP connection after connecting.";
    "heartbeat = 60" => Integer(0..=65_535, "seconds", |d, v| d.config.connection.heartbeat_s = fits(v)),
        "Heartbeat timeout offered to clients; 0 offers none.";
    "frame_max = 131072" =>
        ByteSizeOrZero(4_096..=0x7fff_ffff, |d, v| d.config.connection.frame_max = fits(v)),
        "Maximum frame size offered to clients, which may lower it.";
    "initial_frame_max = 8192" =>
        ByteSize(4_096..=0x7fff_ffff, |d, v| d.config.connection.initial_frame_max = fits(v)),
        "Maximum frame size accepted before tuning ends.";
    "max_channels_per_connection = 2047", also "channel_max" =>
        IntegerOrZero(1..=65_535, "channels", |d, v| d.config.connection.channel_max = fits(v)),
        "Maximum number of channels per connection offered to clients, which may lower it.";
    "session_max_per_connection = 64" =>
        Integer(1..=65_535, "sessions", |d, v| d.config.connection.sessions_max = fits(v)),
        "Maximum number of sessions per AMQP 1.0 connection.";
    "link_max_per_session = 256" =>
        Integer(1..=65_535, "links", |d, v| d.config.connection.links_max = fits(v)),
        "Maximum number of links per AMQP 1.0 session.";
    "max_message_size = 16777216" =>
        Integer(1..=512 << 20, "bytes", |d, v| d.config.connection.max_message_size = v),
        "Maximum size of a message body.";
    "amqp091.immediate = refuse" => OneOf(Immediate, config.connection.immediate),
        "Handling of messages published with `immediate`: `refuse` closes the connection with 540, as \
         RabbitMQ does; `honour` returns the message with 313 unless a consumer can get it immediately. \
         Leveret's own key.";
    "stream.listeners.tcp" => Nothing(|d| d.stream_tcp.none = true),
        "`none` disables all plain listeners of the stream protocol.";
    "stream.listeners.tcp.$name" => Address(|d, name, v| {
        d.stream_tcp.named.insert(name.to_owned(), v);
    }),
        "Address of a plain stream listener, as in `listeners.tcp.$name`. When unset, port 5552 on all \
         addresses; the node starts even if that port is in use.";
    "stream.frame_max = 1048576" =>
        ByteSizeOrZero(8_192..=16_000_000, |d, v| d.config.streams.frame_max = fits(v)),
        "Maximum frame size offered to clients, which may lower it. Frames of 16 MB or more are always \
         rejected.";
    "stream.initial_frame_max = 8192" =>
        ByteSize(1_024..=16_000_000, |d, v| d.config.streams.initial_frame_max = fits(v)),
        "Maximum frame size accepted before a virtual host is opened.";
    "stream.heartbeat = 60" =>
        Integer(0..=65_535, "seconds", |d, v| d.config.streams.heartbeat_s = fits(v)),
        "Heartbeat timeout offered to clients; 0 offers none.";
    "stream.advertised_host" => Text(|d, v| d.config.streams.advertised.host = Some(v.to_owned())),
        "Host name advertised to clients; this machine's name when unset.";
    "stream.advertised_port" =>
        Integer(1..=65_535, "", |d, v| d.config.streams.advertised.port = Some(fits(v))),
        "Port advertised to clients; the listener's when unset.";
    "stream.max_connections = infinity" =>
        IntegerOrInfinity("connections", |d, v| d.config.streams.max_connections = v),
        "Maximum number of stream protocol connections.";
    "stream.max_super_stream_partitions = 1000" =>
        Integer(1..=65_535, "partitions", |d, v| d.config.streams.partitions_max = v),
        "Maximum number of partitions of a super stream that a stream client creates.";
    "stream.max_uncompressed_sub_entry_batch_size = 67108864" =>
        Integer(0..=1 << 31, "bytes", |d, v| d.config.streams.sub_batch_bytes_max = fits(v)),
        "Maximum uncompressed size of a sub-entry batch; larger ones are rejected. Set clients to the same \
         limit.";
    "stream.durability = write" => OneOf(Durability, config.streams.durability),
        "`durability` for messages in streams. Leveret's own key.";
    "stream.read_ahead = true" => Flag(|d, v| d.config.streams.read_ahead = v),
        "Read several small chunks of a stream at once; when `false`, each chunk is read and sent by \
         itself.";
    "stream.read_ahead_limit" =>
        ByteSize(1..=1 << 30, |d, v| d.config.streams.read_ahead_limit = Some(fits(v))),
        "Bytes to read ahead after a smaller chunk; chosen automatically when unset.";
    "stream.scrub_interval = 604800" =>
        Integer(0..=31_536_000, "seconds", |d, v| d.config.streams.scrub_interval_s = v),
        "Interval at which each stream's checksums are verified in the background; damage is logged and \
         counted. 0: never. Leveret's own key.";
    "max_connections = infinity", also "connection_max" =>
        IntegerOrInfinity("connections", |d, v| d.config.connection.max_connections = v),
        "Maximum number of client connections of this node.";
    "ranch_connection_max = infinity" =>
        IntegerOrInfinity("connections", |d, v| d.config.connection.accepted_max = v),
        "Another name of `max_connections`; the lower value applies.";
    "channel_max_per_node = infinity" => IntegerOrInfinity("channels", |d, v| d.config.limits.channels = v),
        "Maximum number of channels of this node.";
    "consumer_max_per_channel = infinity" =>
        IntegerOrInfinity("consumers", |d, v| d.config.limits.consumers = v),
        "Maximum number of consumers per channel. 1000 is more than applications need and stops consumer \
         leaks.";
    "vhost_max = infinity" => IntegerOrInfinity("virtual hosts", |d, v| d.config.limits.vhosts = v),
        "Maximum number of virtual hosts; existing ones are kept.";
    "cluster_queue_limit = infinity" => IntegerOrInfinity("queues", |d, v| d.config.limits.queues = v),
        "Maximum number of queues in all virtual hosts; existing ones are kept and may be redeclared.";
    "cluster_exchange_limit = infinity" =>
        IntegerOrInfinity("exchanges", |d, v| d.config.limits.exchanges = v),
        "Maximum number of exchanges in all virtual hosts, including predeclared ones.";
    "default_queue_type = classic" =>
        Word(&QueueKind::NAMES, |d, v| {
            let kind = QueueKind::of_name(v).filter(|kind| *kind != QueueKind::Classic);
            d.config.limits.queue_types.default = kind;
        }),
        "Default queue type where neither the queue nor its virtual host sets one. Exclusive, auto-delete \
         and non-durable queues are always classic.";
    "queue_leader_locator = client-local" =>
        Word(&["client-local", "balanced"], |d, v| {
            d.config.limits.queue_types.is_balanced = v == "balanced";
        }),
        "Node of a [cluster](clusters.md) on which a new queue is placed, if neither its arguments nor a policy \
         say: the one its client is connected to, or the one with the fewest queues. Streams and exclusive \
         queues stay where they are declared.";
    "exchange_types.local_random.enabled = true" => Flag(|d, v| d.config.limits.no_local_random = !v),
        "Permit declaring `x-local-random` exchanges; existing ones are kept.";
    "queue_types.$type.enabled" => QueueTypeFlag(|d, kind, v| d.config.limits.queue_types.enable(kind, v)),
        "Permit declaring queues of a type, for example `classic`, unless `false`; existing ones are kept. \
         Clients of the stream protocol may declare streams all the same.";
    "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration = false" =>
        Flag(|d, v| d.config.limits.queue_types.relaxed_redeclaration = v),
        "Permit redeclaring a quorum queue as a classic queue, for example as non-durable; only dead \
         lettering, TTLs, length limits and single active consumer must match.";
    "deprecated_features.permit.$name" => NamedFlag(|d, name, v| {
        d.config.limits.permits.insert(name.to_owned(), v);
    }),
        "Permit a deprecated feature. `transient_nonexcl_queues` (queues neither durable nor exclusive) is \
         permitted unless `false`. With `global_qos = true`, `basic.qos` with `global` limits all \
         consumers of a channel together, as up to RabbitMQ 4.2; otherwise each consumer. With \
         `amqp_address_v1 = true`, clients of AMQP 1.0 may also use addresses of RabbitMQ's version 1. \
         Other names only change the output of `leveret ctl list_deprecated_features`.";
    "auth_mechanisms.$name" => NamedWord(MECHANISMS, |d, name, v| {
        d.auth_mechanisms.insert(name.to_owned(), v.to_owned());
    }),
        "SASL mechanisms offered, ordered by name. Replaces the default: `PLAIN`, `AMQPLAIN` and, with an \
         `anonymous_login_user`, `ANONYMOUS`.";
    "anonymous_login_user = guest" =>
        TextOrNone(|d, v| d.config.access.anonymous_user = v.map(str::to_owned)),
        "User of `ANONYMOUS` logins, with `anonymous_login_pass`; `none` rejects such logins. While this \
         user has its initial password and is one of `loopback_users`, it may log in from this machine \
         only.";
    "anonymous_login_pass = guest" => Text(|d, v| v.clone_into(&mut d.config.access.anonymous_pass)),
        "Password of `ANONYMOUS` logins.";
    "credential_validator.validation_backend = rabbit_credential_validator_accept_everything" =>
        OneOf(Validator, config.access.passwords.validator),
        "Validation of passwords in `add_user` and `change_password`.";
    "credential_validator.min_length = 1" =>
        Integer(0..=1_024, "bytes", |d, v| d.config.access.passwords.min_length = fits(v)),
        "Minimum length for `rabbit_credential_validator_min_password_length`.";
    "credential_validator.regexp" =>
        NamedPattern(|d, _, v| v.clone_into(&mut d.config.access.passwords.pattern)),
        "Regular expression for `rabbit_credential_validator_password_regexp`.";
    "password_hashing_module = rabbit_password_hashing_sha256" =>
        OneOf(HashAlgorithm, config.access.hashing),
        "Algorithm of new password hashes, and of imported ones that name none. Existing hashes are kept.";
    "track_auth_attempt_source = false" => Flag(|d, v| d.config.access.track_auth_attempt_source = v),
        "Count login attempts by address and user too (10,000 at most), until reset over HTTP. In RabbitMQ \
         this key is only in `advanced.config`.";
    "auth_backends.$num" => AuthBackend,
        "Authentication backends, ordered by number. Only the internal one is supported; with any other \
         the node does not start, rather than admit the wrong users.";
    "auth_backends.$num.authn" => AuthBackend, "As `auth_backends.$num`, for authentication only.";
    "auth_backends.$num.authz" => AuthBackend, "As `auth_backends.$num`, for authorization only.";
    "http_dispatch.auth_backends.$num" => AuthBackend, "As `auth_backends.$num`, for the HTTP API.";
    "http_dispatch.auth_backends.$num.authn" => AuthBackend,
        "As `auth_backends.$num`, for authentication in the HTTP API.";
    "http_dispatch.auth_backends.$num.authz" => AuthBackend,
        "As `auth_backends.$num`, for authorization in the HTTP API.";
    "loopback_users" => Nothing(|d| d.no_loopback_users = true),
        "`none` lets all users connect from anywhere, overriding `loopback_users.$user`.";
    "loopback_users.$user" => NamedFlag(|d, name, v| {
        d.loopback_users.insert(name.to_owned(), v);
    }),
        "Restrict a user to connections from this machine. Replaces the default `loopback_users.guest = \
         true`.";
    "default_vhost = /" => Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.vhost)),
        "Virtual host created on an empty data directory.";
    "default_user = guest" => Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.user)),
        "User created on an empty data directory.";
    "default_pass = guest" => Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.pass)),
        "Password of this user.";
    "default_user_tags.$tag" => NamedFlag(|d, name, v| {
        d.tags.insert(name.to_owned(), v);
    }),
        "Tag of this user. Replaces the default `default_user_tags.administrator = true`.";
    "default_permissions.configure = .*" =>
        Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.configure)),
        "Configure permission of this user, a regular expression.";
    "default_permissions.write = .*" =>
        Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.write)),
        "Write permission of this user, a regular expression.";
    "default_permissions.read = .*" =>
        Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.read)),
        "Read permission of this user, a regular expression.";
    "consumer_timeout" =>
        IntegerOrInfinity("milliseconds", |d, v| d.config.messages.consumer_timeout_ms = Some(v)),
        "Delivery acknowledgement timeout, after which the message is requeued. A quorum queue's consumer \
         is cancelled (`basic.cancel`); a classic queue's channel, or a client without consumer cancel \
         notifications, is closed with 406. Over AMQP 1.0 a quorum queue's messages are `released`, and a \
         classic queue's session is ended. When unset: 1800000 for quorum queues, none for classic queues, \
         as in RabbitMQ since 4.3. The argument `x-consumer-timeout` of a consumer or queue \
         (`rabbitmq:consumer-timeout` of a link) and the policy key `consumer-timeout` override it.";
    "rabbit.default_consumer_prefetch = 0" =>
        Integer(0..=65_535, "deliveries", |d, v| d.config.limits.default_prefetch = fits(v)),
        "Prefetch limit of consumers whose channel sets none; 0 is no limit. In RabbitMQ only in \
         `advanced.config`, as `{default_consumer_prefetch, {false, 250}}`.";
    "rabbit.default_consumer_prefetch_of_channel = false" =>
        Flag(|d, v| d.config.limits.channel_has_default_prefetch = v),
        "Apply `rabbit.default_consumer_prefetch` to all consumers of a channel together as well, if \
         `deprecated_features.permit.global_qos` is set. In `advanced.config`: \
         `{default_consumer_prefetch, {true, 250}}`.";
    "message_interceptors.incoming.set_header_timestamp.overwrite" =>
        Flag(|d, v| d.config.messages.timestamp = Some(v)),
        "Add the time to published messages: the header `timestamp_in_ms` and the property `timestamp`. \
         `true` overwrites existing values, `false` keeps them. Off when unset.";
    "message_interceptors.incoming.set_header_routing_node.overwrite" =>
        Flag(|d, v| d.config.messages.routing_node = Some(v)),
        "Add the node's name to published messages, as the header `x-routed-by`. `true` overwrites an \
         existing one, `false` keeps it. Off when unset.";
    "message_interceptors.outgoing.timestamp.enabled = false" =>
        Flag(|d, v| d.config.messages.sent_time = v),
        "Add the time in milliseconds to delivered messages, as the header `x-opt-rabbitmq-sent-time`.";
    "event_exchange.vhost = none" =>
        TextOrNone(|d, v| d.config.messages.event_vhost = v.map(str::to_owned)),
        "Virtual host of the exchange `amq.rabbitmq.event`, to which the node publishes events of \
         definitions, connections, channels, consumers and alarms. `none` disables it.";
    "event_exchange.protocol = amqp_0_9_1" => Word(&["amqp_0_9_1"], |_, _| {}),
        "Format of events: a message with headers and no body.";
    "default_limits.vhosts.$id.pattern" =>
        NamedPattern(|d, id, v| v.clone_into(&mut limits_of(d, id).pattern)),
        "New virtual hosts with matching names get these limits; the first matching id applies. Existing \
         virtual hosts are not changed.";
    "default_limits.vhosts.$id.max_connections" =>
        NamedLimit(|d, id, v| limits_of(d, id).limits.max_connections = Some(v)),
        "Maximum number of connections of a matching virtual host.";
    "default_limits.vhosts.$id.max_queues" =>
        NamedLimit(|d, id, v| limits_of(d, id).limits.max_queues = Some(v)),
        "Maximum number of queues of a matching virtual host.";
    "default_policies.operator.$id.vhost_pattern" =>
        NamedPattern(|d, id, v| v.clone_into(&mut policy_of(d, id).vhost_pattern)),
        "New virtual hosts with matching names get an operator policy with this id as its name.";
    "default_policies.operator.$id.queue_pattern" =>
        NamedPattern(|d, id, v| v.clone_into(&mut policy_of(d, id).queue_pattern)),
        "Queue name pattern of the policy; all queues when unset.";
    "default_policies.operator.$id.apply_to" =>
        NamedWord(&ApplyTo::NAMES, |d, id, v| {
            policy_of(d, id).apply_to = ApplyTo::of_name(v).unwrap_or_default();
        }),
        "`apply-to` of the policy; `all` when unset.";
    "default_policies.operator.$id.expires" => NamedTime(|d, id, v| set_in_policy(d, id, "expires", v)),
        "Expiry of unused queues (`expires`).";
    "default_policies.operator.$id.message_ttl" =>
        NamedTime(|d, id, v| set_in_policy(d, id, "message-ttl", v)),
        "Message TTL.";
    "default_policies.operator.$id.max_length" =>
        NamedInteger(|d, id, v| set_in_policy(d, id, "max-length", v)),
        "Maximum number of ready messages per queue.";
    "default_policies.operator.$id.max_length_bytes" =>
        NamedByteSize(|d, id, v| set_in_policy(d, id, "max-length-bytes", v)),
        "Maximum bytes of ready messages per queue.";
    "default_policies.operator.$id.max_in_memory_length" =>
        NamedInteger(|d, id, v| set_in_policy(d, id, "max-in-memory-length", v)),
        "Policies with this key do not apply to classic queues, as in RabbitMQ.";
    "default_policies.operator.$id.max_in_memory_bytes" =>
        NamedByteSize(|d, id, v| set_in_policy(d, id, "max-in-memory-bytes", v)),
        "Policies with this key do not apply to classic queues, as in RabbitMQ.";
    "default_policies.operator.$id.delivery_limit" =>
        NamedInteger(|d, id, v| set_in_policy(d, id, "delivery-limit", v)),
        "Delivery limit, after which a message is dead-lettered or discarded.";
    "default_policies.operator.$id.classic_queues.queue_version" =>
        NamedInteger(|d, id, v| set_in_policy(d, id, "queue-version", v)),
        "Storage version of classic queues.";
    "default_users.$name.vhost_pattern" =>
        NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).vhost_pattern)),
        "The user gets access to new virtual hosts with matching names, and is created with the first \
         one.";
    "default_users.$name.password" => NamedText(|d, name, v| {
        user_of(d, name);
        d.config.definitions.default_passwords.insert(name.to_owned(), v.to_owned());
    }),
        "Password of this user; password login is disabled when unset.";
    "default_users.$name.tags" => NamedWords(|d, name, v| {
        user_of(d, name).tags = v.iter().map(|tag| tag.as_str().into()).collect();
    }),
        "Tags of this user.";
    "default_users.$name.configure" =>
        NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).configure)),
        "Configure permission of this user; all when unset.";
    "default_users.$name.write" => NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).write)),
        "Write permission of this user; all when unset.";
    "default_users.$name.read" => NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).read)),
        "Read permission of this user; all when unset.";
    "load_definitions = none", also "management.load_definitions" =>
        PathOrNone(|d, v| d.definitions.path = d.definitions.path.take().or(v)),
        "JSON definitions file, or directory of such files, imported at every start. The default virtual \
         host and user are not created then. The node does not start if a definition is invalid.";
    "definitions.import_backend = local_filesystem" => Word(&["local_filesystem"], |_, _| {}),
        "Source of the definitions imported at start: `definitions.local.path`.";
    "definitions.local.path = none" => PathOrNone(|d, v| d.definitions.path = v),
        "As `load_definitions`, which it overrides.";
    "definitions.skip_if_unchanged = false" => Flag(|d, v| d.definitions.skip_if_unchanged = v),
        "Skip the import at start when the definitions have not changed since the last import.";
    "vm_memory_high_watermark.relative = 0.6" => Ratio(|d, v| d.memory_high.relative = Some(v)),
        "Memory limit as a share of the machine's memory; publishers are blocked above it.";
    "vm_memory_high_watermark.absolute" => Memory(|d, v| d.memory_high.absolute = Some(v)),
        "Memory limit; publishers are blocked above it. Overrides the relative one.";
    "total_memory_available_override_value" => Memory(|d, v| d.config.resources.total_memory = Some(v)),
        "Total memory that relative limits refer to; the machine's when unset.";
    "disk_free_limit.relative" => Ratio(|d, v| d.disk_free.relative = Some(v)),
        "Free disk limit as a share of the machine's memory; publishers are blocked below it.";
    "disk_free_limit.absolute = 50MB" => Memory(|d, v| d.disk_free.absolute = Some(v)),
        "Free disk limit; below it publishers are blocked, and dead-lettering and conversions pause. \
         Overrides the relative one.";
    "queue_index_embed_msgs_below = 4096" => ByteSize(0..=1 << 30, |d, v| d.config.storage.embed_below = v),
        "Minimum body size for the message store, which stores a body once per virtual host. It has such \
         bodies of messages in several queues and, if persistent, in version 1 queues: persistent ones \
         from publishing on, transient ones once paged out. Persistent messages that arrive in a deep \
         version 2 queue (4 MiB, less with many deep queues) are included, unless confirmed a few at a \
         time. Other bodies are stored with their queue. Properties of 4 KiB or more of a message in \
         several queues are stored once with the body, whatever its size.";
    "queue_index_max_journal_entries = 32768", also "rabbit.queue_index_max_journal_entries" =>
        Integer(1..=1 << 24, "entries", |d, v| d.config.storage.journal_entries_max = v),
        "Entries after which the journal of a version 1 queue is flushed to its segments of 16,384 \
         positions. Higher values lengthen recovery after a crash; lower ones cause more writes for \
         short-lived messages. The alias is RabbitMQ's key in `advanced.config`.";
    "classic_queue.default_version = 2" =>
        Integer(1..=2, "", |d, v| {
            d.config.storage.default_version = QueueVersion::of_number(v).unwrap_or_default();
        }),
        "Storage version of classic queues without the argument `x-queue-version` or the policy key \
         `queue-version`. Queues of another version are converted.";
    "backlog_memory = 32MB" => ByteSize(0..=1 << 40, |d, v| d.config.storage.backlog_bytes = v),
        "Memory shared by the backlogs of deep queues; the rest is kept on disk only. Each queue gets at \
         least 16 kB. Leveret's own key.";
    "durability = fsync" => OneOf(Durability, config.storage.durability),
        "When persistent messages are confirmed: `fsync` once they survive a loss of power, `write` once \
         it would survive the death of the process, as with RabbitMQ. Leveret's own key.";
    "cluster_name" => Text(|d, v| d.config.definitions.cluster_name = Some(v.to_owned())),
        "Cluster name; derived from the host name when unset.";
};
