//! The table of options: one row per option with its key, kind, default and meaning.
//! Add an option by adding a field to `Config` and a row here; then `cargo xtask docs`.

pub(super) mod http;
pub(super) mod log;
pub(super) mod tls;

use super::kind::Kind;
use super::option::{ConfigOption, row};
use super::{Draft, Durability, Immediate, Validator};
use meta::{
    ApplyTo, DefaultLimits, DefaultPolicy, DefaultUser, HashAlgorithm, QueueKind, QueueVersion,
};

/// Every option, in the order of the documentation.
pub(super) fn all() -> impl Iterator<Item = &'static ConfigOption> {
    OPTIONS
        .iter()
        .chain(log::OPTIONS.iter().copied().flatten())
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
pub(super) const OPTIONS: &[ConfigOption] = &[
    row(
        "listeners.tcp",
        Kind::Nothing(|d| d.tcp.none = true),
        "`none` disables all plain listeners.",
    ),
    row(
        "listeners.tcp.$name = 5672",
        Kind::Address(|d, name, v| {
            d.tcp.named.insert(name.to_owned(), v);
        }),
        "Address of a plain AMQP listener, by a name of your own. The first one replaces the default \
         `listeners.tcp.default = 5672`. A port alone listens on all addresses; port 0 picks a free port.",
    ),
    row(
        "tcp_listen_options.backlog = 65535",
        Kind::Integer(1..=65_535, "connections", |d, v| d.config.listeners.backlog = fits(v)),
        "Length of the accept queue, at most `net.core.somaxconn`.",
    ),
    row(
        "tcp_listen_options.nodelay = true",
        Kind::Flag(|d, v| d.config.listeners.nodelay = v),
        "Send small writes immediately (`TCP_NODELAY`).",
    ),
    row(
        "tcp_listen_options.keepalive = false",
        Kind::Flag(|d, v| d.config.listeners.keepalive = v),
        "Enable TCP keepalives (`SO_KEEPALIVE`).",
    ),
    row(
        "tcp_listen_options.sndbuf",
        Kind::Integer(1_024..=1 << 30, "bytes", |d, v| d.config.listeners.send_buffer = Some(fits(v))),
        "Socket send buffer (`SO_SNDBUF`); the system's default when unset.",
    ),
    row(
        "tcp_listen_options.recbuf",
        Kind::Integer(1_024..=1 << 30, "bytes", |d, v| d.config.listeners.receive_buffer = Some(fits(v))),
        "Socket receive buffer (`SO_RCVBUF`); the system's default when unset.",
    ),
    row(
        "proxy_protocol = false",
        Kind::Flag(|d, v| d.config.listeners.proxy_protocol = v),
        "Require a PROXY protocol header (version 1 or 2) on each connection, and use its addresses. \
         Connections without one are closed. The node trusts the header, also for `loopback_users`: only the \
         proxy should reach its ports.",
    ),
    row(
        "handshake_timeout = 10000",
        Kind::IntegerOrInfinity("milliseconds", |d, v| d.config.connection.handshake_timeout_ms = v),
        "Time limit for a client to open its AMQP connection after connecting.",
    ),
    row(
        "heartbeat = 60",
        Kind::Integer(0..=65_535, "seconds", |d, v| d.config.connection.heartbeat_s = fits(v)),
        "Heartbeat timeout offered to clients; 0 offers none.",
    ),
    row(
        "frame_max = 131072",
        Kind::ByteSizeOrZero(4_096..=0x7fff_ffff, |d, v| d.config.connection.frame_max = fits(v)),
        "Maximum frame size offered to clients, which may lower it.",
    ),
    row(
        "initial_frame_max = 8192",
        Kind::ByteSize(4_096..=0x7fff_ffff, |d, v| d.config.connection.initial_frame_max = fits(v)),
        "Maximum frame size accepted before tuning ends.",
    ),
    row(
        "max_channels_per_connection = 2047",
        Kind::IntegerOrZero(1..=65_535,
            "channels",
            |d, v| d.config.connection.channel_max = fits(v),
        ),
        "Maximum number of channels per connection offered to clients, which may lower it.",
    )
    .also("channel_max"),
    row(
        "session_max_per_connection = 64",
        Kind::Integer(1..=65_535, "sessions", |d, v| d.config.connection.sessions_max = fits(v)),
        "Maximum number of sessions per AMQP 1.0 connection.",
    ),
    row(
        "link_max_per_session = 256",
        Kind::Integer(1..=65_535, "links", |d, v| d.config.connection.links_max = fits(v)),
        "Maximum number of links per AMQP 1.0 session.",
    ),
    row(
        "max_message_size = 16777216",
        Kind::Integer(1..=512 << 20, "bytes", |d, v| d.config.connection.max_message_size = v),
        "Maximum size of a message body.",
    ),
    row(
        "amqp091.immediate = refuse",
        Kind::Word(&Immediate::NAMES, |d, v| d.config.connection.immediate = Immediate::of_name(v).unwrap_or_default()),
        "Handling of messages published with `immediate`: `refuse` closes the connection with 540, as \
         RabbitMQ does; `honour` returns the message with 313 unless a consumer can get it immediately. \
         Leveret's own key.",
    ),
    row(
        "stream.listeners.tcp",
        Kind::Nothing(|d| d.stream_tcp.none = true),
        "`none` disables all plain listeners of the stream protocol.",
    ),
    row(
        "stream.listeners.tcp.$name",
        Kind::Address(|d, name, v| {
            d.stream_tcp.named.insert(name.to_owned(), v);
        }),
        "Address of a plain stream listener, as in `listeners.tcp.$name`. When unset, port 5552 on all \
         addresses; the node starts even if that port is in use.",
    ),
    row(
        "stream.frame_max = 1048576",
        Kind::ByteSizeOrZero(8_192..=16_000_000, |d, v| d.config.streams.frame_max = fits(v)),
        "Maximum frame size offered to clients, which may lower it. Frames of 16 MB or more are always rejected.",
    ),
    row(
        "stream.initial_frame_max = 8192",
        Kind::ByteSize(1_024..=16_000_000, |d, v| d.config.streams.initial_frame_max = fits(v)),
        "Maximum frame size accepted before a virtual host is opened.",
    ),
    row(
        "stream.heartbeat = 60",
        Kind::Integer(0..=65_535, "seconds", |d, v| d.config.streams.heartbeat_s = fits(v)),
        "Heartbeat timeout offered to clients; 0 offers none.",
    ),
    row(
        "stream.advertised_host",
        Kind::Text(|d, v| d.config.streams.advertised.host = Some(v.to_owned())),
        "Host name advertised to clients; this machine's name when unset.",
    ),
    row(
        "stream.advertised_port",
        Kind::Integer(1..=65_535, "", |d, v| d.config.streams.advertised.port = Some(fits(v))),
        "Port advertised to clients; the listener's when unset.",
    ),
    row(
        "stream.max_connections = infinity",
        Kind::IntegerOrInfinity("connections", |d, v| d.config.streams.max_connections = v),
        "Maximum number of stream protocol connections.",
    ),
    row(
        "stream.max_super_stream_partitions = 1000",
        Kind::Integer(1..=65_535, "partitions", |d, v| d.config.streams.partitions_max = v),
        "Maximum number of partitions of a super stream that a stream client creates.",
    ),
    row(
        "stream.max_uncompressed_sub_entry_batch_size = 67108864",
        Kind::Integer(0..=1 << 31, "bytes", |d, v| d.config.streams.sub_batch_bytes_max = fits(v)),
        "Maximum uncompressed size of a sub-entry batch; larger ones are rejected. Set clients to the same limit.",
    ),
    row(
        "stream.durability = write",
        Kind::Word(&Durability::NAMES, |d, v| d.config.streams.durability = Durability::of_name(v).unwrap_or_default()),
        "`durability` for messages in streams. Leveret's own key.",
    ),
    row(
        "stream.read_ahead = true",
        Kind::Flag(|d, v| d.config.streams.read_ahead = v),
        "Read several small chunks of a stream at once; when `false`, each chunk is read and sent by itself.",
    ),
    row(
        "stream.read_ahead_limit",
        Kind::ByteSize(1..=1 << 30, |d, v| d.config.streams.read_ahead_limit = Some(fits(v))),
        "Bytes to read ahead after a smaller chunk; chosen automatically when unset.",
    ),
    row(
        "stream.scrub_interval = 604800",
        Kind::Integer(0..=31_536_000, "seconds", |d, v| d.config.streams.scrub_interval_s = v),
        "Interval at which each stream's checksums are verified in the background; damage is logged and \
         counted. 0: never. Leveret's own key.",
    ),
    row(
        "max_connections = infinity",
        Kind::IntegerOrInfinity("connections", |d, v| d.config.connection.max_connections = v),
        "Maximum number of client connections of this node.",
    )
    .also("connection_max"),
    row(
        "ranch_connection_max = infinity",
        Kind::IntegerOrInfinity("connections", |d, v| d.config.connection.accepted_max = v),
        "Another name of `max_connections`; the lower value applies.",
    ),
    row(
        "channel_max_per_node = infinity",
        Kind::IntegerOrInfinity("channels", |d, v| d.config.limits.channels = v),
        "Maximum number of channels of this node.",
    ),
    row(
        "consumer_max_per_channel = infinity",
        Kind::IntegerOrInfinity("consumers", |d, v| d.config.limits.consumers = v),
        "Maximum number of consumers per channel. 1000 is more than applications need and stops consumer leaks.",
    ),
    row(
        "vhost_max = infinity",
        Kind::IntegerOrInfinity("virtual hosts", |d, v| d.config.limits.vhosts = v),
        "Maximum number of virtual hosts; existing ones are kept.",
    ),
    row(
        "cluster_queue_limit = infinity",
        Kind::IntegerOrInfinity("queues", |d, v| d.config.limits.queues = v),
        "Maximum number of queues in all virtual hosts; existing ones are kept and may be redeclared.",
    ),
    row(
        "cluster_exchange_limit = infinity",
        Kind::IntegerOrInfinity("exchanges", |d, v| d.config.limits.exchanges = v),
        "Maximum number of exchanges in all virtual hosts, including predeclared ones.",
    ),
    row(
        "default_queue_type = classic",
        Kind::Word(&QueueKind::NAMES, |d, v| d.config.limits.queue_types.default = QueueKind::of_name(v).filter(|kind| *kind != QueueKind::Classic)),
        "Default queue type where neither the queue nor its virtual host sets one. Exclusive, auto-delete \
         and non-durable queues are always classic.",
    ),
    row(
        "exchange_types.local_random.enabled = true",
        Kind::Flag(|d, v| d.config.limits.no_local_random = !v),
        "Permit declaring `x-local-random` exchanges; existing ones are kept.",
    ),
    row(
        "queue_types.$type.enabled",
        Kind::QueueTypeFlag(|d, kind, v| d.config.limits.queue_types.enable(kind, v)),
        "Permit declaring queues of a type, for example `classic`, unless `false`; existing ones are kept. \
         Clients of the stream protocol may declare streams all the same.",
    ),
    row(
        "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration = false",
        Kind::Flag(|d, v| d.config.limits.queue_types.relaxed_redeclaration = v),
        "Permit redeclaring a quorum queue as a classic queue, for example as non-durable; only dead \
         lettering, TTLs, length limits and single active consumer must match.",
    ),
    row(
        "deprecated_features.permit.$name",
        Kind::NamedFlag(|d, name, v| {
            d.config.limits.permits.insert(name.to_owned(), v);
        }),
        "Permit a deprecated feature. `transient_nonexcl_queues` (queues neither durable nor exclusive) is \
         permitted unless `false`. With `global_qos = true`, `basic.qos` with `global` limits all consumers \
         of a channel together, as up to RabbitMQ 4.2; otherwise each consumer. With `amqp_address_v1 = \
         true`, clients of AMQP 1.0 may also use addresses of RabbitMQ's version 1. Other names only change \
         the output of `leveret ctl list_deprecated_features`.",
    ),
    row(
        "auth_mechanisms.$name",
        Kind::NamedWord(MECHANISMS, |d, name, v| {
            d.auth_mechanisms.insert(name.to_owned(), v.to_owned());
        }),
        "SASL mechanisms offered, ordered by name. Replaces the default: `PLAIN`, `AMQPLAIN` and, with an \
         `anonymous_login_user`, `ANONYMOUS`.",
    ),
    row(
        "anonymous_login_user = guest",
        Kind::TextOrNone(|d, v| d.config.access.anonymous_user = v.map(str::to_owned)),
        "User of `ANONYMOUS` logins, with `anonymous_login_pass`; `none` rejects such logins. While this user \
         has its initial password and is one of `loopback_users`, it may log in from this machine only.",
    ),
    row(
        "anonymous_login_pass = guest",
        Kind::Text(|d, v| v.clone_into(&mut d.config.access.anonymous_pass)),
        "Password of `ANONYMOUS` logins.",
    ),
    row(
        "credential_validator.validation_backend = rabbit_credential_validator_accept_everything",
        Kind::Word(&Validator::NAMES, |d, v| d.config.access.passwords.validator = Validator::of_name(v).unwrap_or_default()),
        "Validation of passwords in `add_user` and `change_password`.",
    ),
    row(
        "credential_validator.min_length = 1",
        Kind::Integer(0..=1_024, "bytes", |d, v| d.config.access.passwords.min_length = fits(v)),
        "Minimum length for `rabbit_credential_validator_min_password_length`.",
    ),
    row(
        "credential_validator.regexp",
        Kind::NamedPattern(|d, _, v| v.clone_into(&mut d.config.access.passwords.pattern)),
        "Regular expression for `rabbit_credential_validator_password_regexp`.",
    ),
    row(
        "password_hashing_module = rabbit_password_hashing_sha256",
        Kind::Word(&HashAlgorithm::NAMES, |d, v| d.config.access.hashing = HashAlgorithm::of_name(v).unwrap_or_default()),
        "Algorithm of new password hashes, and of imported ones that name none. Existing hashes are kept.",
    ),
    row(
        "track_auth_attempt_source = false",
        Kind::Flag(|d, v| d.config.access.track_auth_attempt_source = v),
        "Count login attempts by address and user too (10,000 at most), until reset over HTTP. In RabbitMQ \
         this key is only in `advanced.config`.",
    ),
    row(
        "auth_backends.$num",
        Kind::AuthBackend,
        "Authentication backends, ordered by number. Only the internal one is supported; with any other \
         the node does not start, rather than admit the wrong users.",
    ),
    row("auth_backends.$num.authn", Kind::AuthBackend, "As `auth_backends.$num`, for authentication only."),
    row("auth_backends.$num.authz", Kind::AuthBackend, "As `auth_backends.$num`, for authorization only."),
    row("http_dispatch.auth_backends.$num", Kind::AuthBackend, "As `auth_backends.$num`, for the HTTP API."),
    row("http_dispatch.auth_backends.$num.authn", Kind::AuthBackend, "As `auth_backends.$num`, for authentication in the HTTP API."),
    row("http_dispatch.auth_backends.$num.authz", Kind::AuthBackend, "As `auth_backends.$num`, for authorization in the HTTP API."),
    row(
        "loopback_users",
        Kind::Nothing(|d| d.no_loopback_users = true),
        "`none` lets all users connect from anywhere, overriding `loopback_users.$user`.",
    ),
    row(
        "loopback_users.$user",
        Kind::NamedFlag(|d, name, v| {
            d.loopback_users.insert(name.to_owned(), v);
        }),
        "Restrict a user to connections from this machine. Replaces the default \
         `loopback_users.guest = true`.",
    ),
    row(
        "default_vhost = /",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.vhost)),
        "Virtual host created on an empty data directory.",
    ),
    row(
        "default_user = guest",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.user)),
        "User created on an empty data directory.",
    ),
    row(
        "default_pass = guest",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.pass)),
        "Password of this user.",
    ),
    row(
        "default_user_tags.$tag",
        Kind::NamedFlag(|d, name, v| {
            d.tags.insert(name.to_owned(), v);
        }),
        "Tag of this user. Replaces the default `default_user_tags.administrator = true`.",
    ),
    row(
        "default_permissions.configure = .*",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.configure)),
        "Configure permission of this user, a regular expression.",
    ),
    row(
        "default_permissions.write = .*",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.write)),
        "Write permission of this user, a regular expression.",
    ),
    row(
        "default_permissions.read = .*",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.read)),
        "Read permission of this user, a regular expression.",
    ),
    row(
        "consumer_timeout",
        Kind::IntegerOrInfinity("milliseconds", |d, v| d.config.messages.consumer_timeout_ms = Some(v)),
        "Delivery acknowledgement timeout, after which the message is requeued. A quorum queue's consumer is \
         cancelled (`basic.cancel`); a classic queue's channel, or a client without consumer cancel \
         notifications, is closed with 406. Over AMQP 1.0 a quorum queue's messages are `released`, and a \
         classic queue's session is ended. When unset: 1800000 for quorum queues, none for classic queues, \
         as in RabbitMQ since 4.3. The argument `x-consumer-timeout` of a consumer or queue (`rabbitmq:consumer-timeout` of a link) and the \
         policy key `consumer-timeout` override it.",
    ),
    row(
        "rabbit.default_consumer_prefetch = 0",
        Kind::Integer(0..=65_535, "deliveries", |d, v| d.config.limits.default_prefetch = fits(v)),
        "Prefetch limit of consumers whose channel sets none; 0 is no limit. In RabbitMQ only in \
         `advanced.config`, as `{default_consumer_prefetch, {false, 250}}`.",
    ),
    row(
        "rabbit.default_consumer_prefetch_of_channel = false",
        Kind::Flag(|d, v| d.config.limits.channel_has_default_prefetch = v),
        "Apply `rabbit.default_consumer_prefetch` to all consumers of a channel together as well, if \
         `deprecated_features.permit.global_qos` is set. In `advanced.config`: \
         `{default_consumer_prefetch, {true, 250}}`.",
    ),
    row(
        "message_interceptors.incoming.set_header_timestamp.overwrite",
        Kind::Flag(|d, v| d.config.messages.timestamp = Some(v)),
        "Add the time to published messages: the header `timestamp_in_ms` and the property `timestamp`. \
         `true` overwrites existing values, `false` keeps them. Off when unset.",
    ),
    row(
        "message_interceptors.incoming.set_header_routing_node.overwrite",
        Kind::Flag(|d, v| d.config.messages.routing_node = Some(v)),
        "Add the node's name to published messages, as the header `x-routed-by`. `true` overwrites an \
         existing one, `false` keeps it. Off when unset.",
    ),
    row(
        "message_interceptors.outgoing.timestamp.enabled = false",
        Kind::Flag(|d, v| d.config.messages.sent_time = v),
        "Add the time in milliseconds to delivered messages, as the header `x-opt-rabbitmq-sent-time`.",
    ),
    row(
        "event_exchange.vhost = none",
        Kind::TextOrNone(|d, v| d.config.messages.event_vhost = v.map(str::to_owned)),
        "Virtual host of the exchange `amq.rabbitmq.event`, to which the node publishes events of \
         definitions, connections, channels, consumers and alarms. `none` disables it.",
    ),
    row(
        "event_exchange.protocol = amqp_0_9_1",
        Kind::Word(&["amqp_0_9_1"], |_, _| {}),
        "Format of events: a message with headers and no body.",
    ),
    row(
        "default_limits.vhosts.$id.pattern",
        Kind::NamedPattern(|d, id, v| v.clone_into(&mut limits_of(d, id).pattern)),
        "New virtual hosts with matching names get these limits; the first matching id applies. Existing \
         virtual hosts are not changed.",
    ),
    row(
        "default_limits.vhosts.$id.max_connections",
        Kind::NamedLimit(|d, id, v| limits_of(d, id).limits.max_connections = Some(v)),
        "Maximum number of connections of a matching virtual host.",
    ),
    row(
        "default_limits.vhosts.$id.max_queues",
        Kind::NamedLimit(|d, id, v| limits_of(d, id).limits.max_queues = Some(v)),
        "Maximum number of queues of a matching virtual host.",
    ),
    row(
        "default_policies.operator.$id.vhost_pattern",
        Kind::NamedPattern(|d, id, v| v.clone_into(&mut policy_of(d, id).vhost_pattern)),
        "New virtual hosts with matching names get an operator policy with this id as its name.",
    ),
    row(
        "default_policies.operator.$id.queue_pattern",
        Kind::NamedPattern(|d, id, v| v.clone_into(&mut policy_of(d, id).queue_pattern)),
        "Queue name pattern of the policy; all queues when unset.",
    ),
    row(
        "default_policies.operator.$id.apply_to",
        Kind::NamedWord(&ApplyTo::NAMES, |d, id, v| policy_of(d, id).apply_to = ApplyTo::of_name(v).unwrap_or_default()),
        "`apply-to` of the policy; `all` when unset.",
    ),
    row(
        "default_policies.operator.$id.expires",
        Kind::NamedTime(|d, id, v| set_in_policy(d, id, "expires", v)),
        "Expiry of unused queues (`expires`).",
    ),
    row(
        "default_policies.operator.$id.message_ttl",
        Kind::NamedTime(|d, id, v| set_in_policy(d, id, "message-ttl", v)),
        "Message TTL.",
    ),
    row(
        "default_policies.operator.$id.max_length",
        Kind::NamedInteger(|d, id, v| set_in_policy(d, id, "max-length", v)),
        "Maximum number of ready messages per queue.",
    ),
    row(
        "default_policies.operator.$id.max_length_bytes",
        Kind::NamedByteSize(|d, id, v| set_in_policy(d, id, "max-length-bytes", v)),
        "Maximum bytes of ready messages per queue.",
    ),
    row(
        "default_policies.operator.$id.max_in_memory_length",
        Kind::NamedInteger(|d, id, v| set_in_policy(d, id, "max-in-memory-length", v)),
        "Policies with this key do not apply to classic queues, as in RabbitMQ.",
    ),
    row(
        "default_policies.operator.$id.max_in_memory_bytes",
        Kind::NamedByteSize(|d, id, v| set_in_policy(d, id, "max-in-memory-bytes", v)),
        "Policies with this key do not apply to classic queues, as in RabbitMQ.",
    ),
    row(
        "default_policies.operator.$id.delivery_limit",
        Kind::NamedInteger(|d, id, v| set_in_policy(d, id, "delivery-limit", v)),
        "Delivery limit, after which a message is dead-lettered or discarded.",
    ),
    row(
        "default_policies.operator.$id.classic_queues.queue_version",
        Kind::NamedInteger(|d, id, v| set_in_policy(d, id, "queue-version", v)),
        "Storage version of classic queues.",
    ),
    row(
        "default_users.$name.vhost_pattern",
        Kind::NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).vhost_pattern)),
        "The user gets access to new virtual hosts with matching names, and is created with the first one.",
    ),
    row(
        "default_users.$name.password",
        Kind::NamedText(|d, name, v| {
            user_of(d, name);
            d.config.definitions.default_passwords.insert(name.to_owned(), v.to_owned());
        }),
        "Password of this user; password login is disabled when unset.",
    ),
    row(
        "default_users.$name.tags",
        Kind::NamedWords(|d, name, v| {
            user_of(d, name).tags = v.iter().map(|tag| tag.as_str().into()).collect();
        }),
        "Tags of this user.",
    ),
    row(
        "default_users.$name.configure",
        Kind::NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).configure)),
        "Configure permission of this user; all when unset.",
    ),
    row(
        "default_users.$name.write",
        Kind::NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).write)),
        "Write permission of this user; all when unset.",
    ),
    row(
        "default_users.$name.read",
        Kind::NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).read)),
        "Read permission of this user; all when unset.",
    ),
    row(
        "load_definitions = none",
        Kind::PathOrNone(|d, v| d.definitions.path = d.definitions.path.take().or(v)),
        "JSON definitions file, or directory of such files, imported at every start. The default virtual \
         host and user are not created then. The node does not start if a definition is invalid.",
    )
    .also("management.load_definitions"),
    row(
        "definitions.import_backend = local_filesystem",
        Kind::Word(&["local_filesystem"], |_, _| {}),
        "Source of the definitions imported at start: `definitions.local.path`.",
    ),
    row(
        "definitions.local.path = none",
        Kind::PathOrNone(|d, v| d.definitions.path = v),
        "As `load_definitions`, which it overrides.",
    ),
    row(
        "definitions.skip_if_unchanged = false",
        Kind::Flag(|d, v| d.definitions.skip_if_unchanged = v),
        "Skip the import at start when the definitions have not changed since the last import.",
    ),
    row(
        "vm_memory_high_watermark.relative = 0.6",
        Kind::Ratio(|d, v| d.memory_high.relative = Some(v)),
        "Memory limit as a share of the machine's memory; publishers are blocked above it.",
    ),
    row(
        "vm_memory_high_watermark.absolute",
        Kind::Memory(|d, v| d.memory_high.absolute = Some(v)),
        "Memory limit; publishers are blocked above it. Overrides the relative one.",
    ),
    row(
        "total_memory_available_override_value",
        Kind::Memory(|d, v| d.config.resources.total_memory = Some(v)),
        "Total memory that relative limits refer to; the machine's when unset.",
    ),
    row(
        "disk_free_limit.relative",
        Kind::Ratio(|d, v| d.disk_free.relative = Some(v)),
        "Free disk limit as a share of the machine's memory; publishers are blocked below it.",
    ),
    row(
        "disk_free_limit.absolute = 50MB",
        Kind::Memory(|d, v| d.disk_free.absolute = Some(v)),
        "Free disk limit; below it publishers are blocked, and dead-lettering and conversions pause. Overrides the relative one.",
    ),
    row(
        "queue_index_embed_msgs_below = 4096",
        Kind::ByteSize(0..=1 << 30, |d, v| d.config.storage.embed_below = v),
        "Minimum body size for the message store, which stores a body once per virtual host. It has such bodies of messages in several queues and, if persistent, in version 1 queues: persistent ones from publishing on, transient ones once paged out. Persistent messages that arrive in a deep version 2 queue (4 MiB, less with many deep queues) are included, unless confirmed a few at a time. Other bodies are stored with their queue. Properties of 4 KiB or more of a message in several queues are stored once with the body, whatever its size.",
    ),
    row(
        "queue_index_max_journal_entries = 32768",
        Kind::Integer(1..=1 << 24, "entries", |d, v| d.config.storage.journal_entries_max = v),
        "Entries after which the journal of a version 1 queue is flushed to its segments of 16,384 positions. \
         Higher values lengthen recovery after a crash; lower ones cause more writes for short-lived \
         messages. The alias is RabbitMQ's key in `advanced.config`.",
    )
    .also("rabbit.queue_index_max_journal_entries"),
    row(
        "classic_queue.default_version = 2",
        Kind::Integer(1..=2, "", |d, v| d.config.storage.default_version = QueueVersion::of_number(v).unwrap_or_default()),
        "Storage version of classic queues without the argument `x-queue-version` or the policy key \
         `queue-version`. Queues of another version are converted.",
    ),
    row(
        "backlog_memory = 32MB",
        Kind::ByteSize(0..=1 << 40, |d, v| d.config.storage.backlog_bytes = v),
        "Memory shared by the backlogs of deep queues; the rest is kept on disk only. Each queue gets at \
         least 16 kB. Leveret's own key.",
    ),
    row(
        "durability = fsync",
        Kind::Word(&Durability::NAMES, |d, v| d.config.storage.durability = Durability::of_name(v).unwrap_or_default()),
        "When persistent messages are confirmed: `fsync` once they survive a loss of power, \
         `write` once it would survive the death of the process, as with RabbitMQ. Leveret's own \
         key.",
    ),
    row(
        "cluster_name",
        Kind::Text(|d, v| d.config.definitions.cluster_name = Some(v.to_owned())),
        "Cluster name; derived from the host name when unset.",
    ),
];
