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
        "Where AMQP clients connect without TLS. Any number of names; the first one given replaces \
         the default `listeners.tcp.default = 5672`. A port alone listens on every address, port 0 \
         on any free port.",
    ),
    row(
        "tcp_listen_options.backlog = 65535",
        Kind::Integer(1..=65_535, "connections", |d, v| d.config.listeners.backlog = fits(v)),
        "Length of the queue of connections not yet accepted. The kernel gives `net.core.somaxconn` at most.",
    ),
    row(
        "tcp_listen_options.nodelay = true",
        Kind::Flag(|d, v| d.config.listeners.nodelay = v),
        "Send small writes at once (`TCP_NODELAY`).",
    ),
    row(
        "tcp_listen_options.keepalive = false",
        Kind::Flag(|d, v| d.config.listeners.keepalive = v),
        "Have the system look after idle connections (`SO_KEEPALIVE`).",
    ),
    row(
        "tcp_listen_options.sndbuf",
        Kind::Integer(1_024..=1 << 30, "bytes", |d, v| d.config.listeners.send_buffer = Some(fits(v))),
        "Size of the send buffer of a connection's socket (`SO_SNDBUF`); the system's default when not set.",
    ),
    row(
        "tcp_listen_options.recbuf",
        Kind::Integer(1_024..=1 << 30, "bytes", |d, v| d.config.listeners.receive_buffer = Some(fits(v))),
        "Size of the receive buffer of a connection's socket (`SO_RCVBUF`); the system's default when not set.",
    ),
    row(
        "proxy_protocol = false",
        Kind::Flag(|d, v| d.config.listeners.proxy_protocol = v),
        "Clients come through a proxy: each connection has to begin with a header of the PROXY protocol, \
         version 1 or 2, and is known by the addresses in it. One without is closed. The node believes the \
         header, also about `loopback_users`: nobody but the proxy should reach its ports.",
    ),
    row(
        "handshake_timeout = 10000",
        Kind::IntegerOrInfinity("milliseconds", |d, v| d.config.connection.handshake_timeout_ms = v),
        "Time a client has from connecting to an open connection.",
    ),
    row(
        "heartbeat = 60",
        Kind::Integer(0..=65_535, "seconds", |d, v| d.config.connection.heartbeat_s = fits(v)),
        "Heartbeat time-out suggested to clients. 0 suggests none.",
    ),
    row(
        "frame_max = 131072",
        Kind::ByteSizeOrZero(4_096..=0x7fff_ffff, |d, v| d.config.connection.frame_max = fits(v)),
        "Largest frame, offered to clients, which may lower it.",
    ),
    row(
        "initial_frame_max = 8192",
        Kind::ByteSize(4_096..=0x7fff_ffff, |d, v| d.config.connection.initial_frame_max = fits(v)),
        "Largest frame taken from a client before tuning is over.",
    ),
    row(
        "max_channels_per_connection = 2047",
        Kind::IntegerOrZero(1..=65_535,
            "channels",
            |d, v| d.config.connection.channel_max = fits(v),
        ),
        "Most channels of one connection, offered to clients, which may lower it.",
    )
    .also("channel_max"),
    row(
        "max_message_size = 16777216",
        Kind::Integer(1..=512 << 20, "bytes", |d, v| d.config.connection.max_message_size = v),
        "Largest message body.",
    ),
    row(
        "amqp091.immediate = refuse",
        Kind::Word(&Immediate::NAMES, |d, v| d.config.connection.immediate = Immediate::of_name(v).unwrap_or_default()),
        "What becomes of a message published with `immediate`: `refuse` closes the connection with \
         540, as RabbitMQ does, `honour` returns it with 313 when no consumer could be given it at \
         once. Leveret's own key.",
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
        "Where clients of the stream protocol connect without TLS, as `listeners.tcp.$name`. If none is given, \
         port 5552 on every address; in use, it does not keep the node from starting then.",
    ),
    row(
        "stream.frame_max = 1048576",
        Kind::ByteSizeOrZero(8_192..=16_000_000, |d, v| d.config.streams.frame_max = fits(v)),
        "Largest frame, offered to clients, which may lower it. Frames of 16 MB and more are never taken.",
    ),
    row(
        "stream.initial_frame_max = 8192",
        Kind::ByteSize(1_024..=16_000_000, |d, v| d.config.streams.initial_frame_max = fits(v)),
        "Largest frame taken from a client before a virtual host is open.",
    ),
    row(
        "stream.heartbeat = 60",
        Kind::Integer(0..=65_535, "seconds", |d, v| d.config.streams.heartbeat_s = fits(v)),
        "Heartbeat time-out suggested to clients. 0 suggests none.",
    ),
    row(
        "stream.advertised_host",
        Kind::Text(|d, v| d.config.streams.advertised.0 = Some(v.to_owned())),
        "The host that clients are told to connect to; this machine's name when not set.",
    ),
    row(
        "stream.advertised_port",
        Kind::Integer(1..=65_535, "port", |d, v| d.config.streams.advertised.1 = Some(fits(v))),
        "The port that clients are told to connect to; that of the listener when not set.",
    ),
    row(
        "stream.max_connections = infinity",
        Kind::IntegerOrInfinity("connections", |d, v| d.config.streams.max_connections = v),
        "Most connections of the stream protocol.",
    ),
    row(
        "stream.max_super_stream_partitions = 1000",
        Kind::Integer(1..=65_535, "partitions", |d, v| d.config.streams.partitions_max = v),
        "Most partitions of a super stream that a client of the stream protocol creates.",
    ),
    row(
        "stream.max_uncompressed_sub_entry_batch_size = 67108864",
        Kind::Integer(0..=1 << 31, "bytes", |d, v| d.config.streams.sub_batch_bytes_max = fits(v)),
        "Larger sub-batches, compressed or not, are refused. Set clients' limits to the same.",
    ),
    row(
        "stream.durability = write",
        Kind::Word(&Durability::NAMES, |d, v| d.config.streams.durability = Durability::of_name(v).unwrap_or_default()),
        "The same as `durability`, for messages in streams. Leveret's own key.",
    ),
    row(
        "stream.read_ahead = true",
        Kind::Flag(|d, v| d.config.streams.read_ahead = v),
        "Consumers of streams read several small chunks with one read of the file; without it, each chunk is \
         read, and written to its client, by itself.",
    ),
    row(
        "stream.read_ahead_limit",
        Kind::ByteSize(1..=1 << 30, |d, v| d.config.streams.read_ahead_limit = Some(fits(v))),
        "So many bytes at once after a smaller chunk, as with RabbitMQ; without it, as many as pay.",
    ),
    row(
        "stream.scrub_interval = 604800",
        Kind::Integer(0..=31_536_000, "seconds", |d, v| d.config.streams.scrub_interval_s = v),
        "Each stream is read once in so long, in the background, and compared with its checksums: damage is \
         told and counted before anybody needs what is damaged. 0: never. Leveret's own key.",
    ),
    row(
        "max_connections = infinity",
        Kind::IntegerOrInfinity("connections", |d, v| d.config.connection.max_connections = v),
        "Most client connections to this node.",
    )
    .also("connection_max"),
    row(
        "ranch_connection_max = infinity",
        Kind::IntegerOrInfinity("connections", |d, v| d.config.connection.accepted_max = v),
        "The same, by another key; the lower one counts.",
    ),
    row(
        "channel_max_per_node = infinity",
        Kind::IntegerOrInfinity("channels", |d, v| d.config.limits.channels = v),
        "Most channels of all connections to this node.",
    ),
    row(
        "consumer_max_per_channel = infinity",
        Kind::IntegerOrInfinity("consumers", |d, v| d.config.limits.consumers = v),
        "Most consumers of one channel. There is no limit by default, as with RabbitMQ; 1000 is more than applications need and stops one that leaks consumers.",
    ),
    row(
        "vhost_max = infinity",
        Kind::IntegerOrInfinity("virtual hosts", |d, v| d.config.limits.vhosts = v),
        "Most virtual hosts. Those that are there stay.",
    ),
    row(
        "cluster_queue_limit = infinity",
        Kind::IntegerOrInfinity("queues", |d, v| d.config.limits.queues = v),
        "Most queues of all virtual hosts together. Those that are there stay, and may be declared again.",
    ),
    row(
        "cluster_exchange_limit = infinity",
        Kind::IntegerOrInfinity("exchanges", |d, v| d.config.limits.exchanges = v),
        "Most exchanges of all virtual hosts together, the predeclared ones included.",
    ),
    row(
        "default_queue_type = classic",
        Kind::Word(&["classic", "quorum", "stream"], |d, v| d.config.limits.queue_types.default = QueueKind::of_name(v).filter(|kind| *kind != QueueKind::Classic)),
        "The type of queues that name none, where their virtual host names none either: `classic`, \
         `quorum` or `stream`. Queues that are exclusive, auto-delete or not durable are classic.",
    ),
    row(
        "exchange_types.local_random.enabled = true",
        Kind::Flag(|d, v| d.config.limits.no_local_random = !v),
        "Whether exchanges of the type `x-local-random` may be declared. Those that are there stay.",
    ),
    row(
        "queue_types.classic.enabled = true",
        Kind::Flag(|d, v| d.config.limits.queue_types.enable(QueueKind::Classic, v)),
        "Whether classic queues may be declared. Those that are there stay.",
    ),
    row(
        "queue_types.quorum.enabled = true",
        Kind::Flag(|d, v| d.config.limits.queue_types.enable(QueueKind::Quorum, v)),
        "Whether quorum queues may be declared. Those that are there stay.",
    ),
    row(
        "queue_types.stream.enabled = true",
        Kind::Flag(|d, v| d.config.limits.queue_types.enable(QueueKind::Stream, v)),
        "Whether streams may be declared over AMQP 0-9-1. Those that are there stay.",
    ),
    row(
        "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration = false",
        Kind::Flag(|d, v| d.config.limits.queue_types.relaxed_redeclaration = v),
        "Whether a quorum queue may be declared again as a classic one, which is not durable, say: only \
         dead letters, times to live, length limits and single active consumers must be as they are.",
    ),
    row(
        "deprecated_features.permit.$name",
        Kind::NamedFlag(|d, name, v| {
            d.config.limits.permits.insert(name.to_owned(), v);
        }),
        "Whether a deprecated feature may be used. `transient_nonexcl_queues`, queues that are neither \
         durable nor exclusive, may be unless this says `false`. `global_qos`: with `true`, \
         `basic.qos` with `global` limits what all consumers of a channel hold together, as it did \
         up to RabbitMQ 4.2; otherwise it limits each. About the others it only says what \
         `leveret ctl list_deprecated_features` shows.",
    ),
    row(
        "auth_mechanisms.$name",
        Kind::NamedWord(MECHANISMS, |d, name, v| {
            d.auth_mechanisms.insert(name.to_owned(), v.to_owned());
        }),
        "SASL mechanisms offered, in the order of their names. Setting one replaces the default: \
         `PLAIN`, `AMQPLAIN` and, while there is an `anonymous_login_user`, `ANONYMOUS`.",
    ),
    row(
        "anonymous_login_user = guest",
        Kind::TextOrNone(|d, v| d.config.access.anonymous_user = v.map(str::to_owned)),
        "The user that `ANONYMOUS` logs in as, with `anonymous_login_pass`; as long as that user has its \
         first password and is one of `loopback_users`, it is let in from this machine alone. `none` refuses \
         such logins.",
    ),
    row(
        "anonymous_login_pass = guest",
        Kind::Text(|d, v| v.clone_into(&mut d.config.access.anonymous_pass)),
        "The password used for `ANONYMOUS` logins.",
    ),
    row(
        "credential_validator.validation_backend = rabbit_credential_validator_accept_everything",
        Kind::Word(&Validator::NAMES, |d, v| d.config.access.passwords.validator = Validator::of_name(v).unwrap_or_default()),
        "How the password in `add_user` and `change_password` is validated.",
    ),
    row(
        "credential_validator.min_length = 1",
        Kind::Integer(0..=1_024, "bytes", |d, v| d.config.access.passwords.min_length = fits(v)),
        "The least length for `rabbit_credential_validator_min_password_length`.",
    ),
    row(
        "credential_validator.regexp",
        Kind::NamedPattern(|d, _, v| v.clone_into(&mut d.config.access.passwords.pattern)),
        "What `rabbit_credential_validator_password_regexp` must find.",
    ),
    row(
        "password_hashing_module = rabbit_password_hashing_sha256",
        Kind::Word(&HashAlgorithm::NAMES, |d, v| d.config.access.hashing = HashAlgorithm::of_name(v).unwrap_or_default()),
        "The algorithm of new password hashes, and of imported ones that do not name theirs. Users keep \
         the hashes they have.",
    ),
    row(
        "track_auth_attempt_source = false",
        Kind::Flag(|d, v| d.config.access.track_auth_attempt_source = v),
        "Whether attempts to log in are counted by address and user too, 10,000 of them at most, until they \
         are reset over HTTP. RabbitMQ has it in `advanced.config` alone.",
    ),
    row(
        "auth_backends.$num",
        Kind::AuthBackend,
        "Where users are known from, in the order of the numbers. The node's own users are all there is: \
         with any other backend the node does not start, so that nobody is let in who should not be.",
    ),
    row("auth_backends.$num.authn", Kind::AuthBackend, "The same for authentication alone."),
    row("auth_backends.$num.authz", Kind::AuthBackend, "The same for authorization alone."),
    row("http_dispatch.auth_backends.$num", Kind::AuthBackend, "The same for the HTTP API."),
    row("http_dispatch.auth_backends.$num.authn", Kind::AuthBackend, "The same for authentication there."),
    row("http_dispatch.auth_backends.$num.authz", Kind::AuthBackend, "The same for authorization there."),
    row(
        "loopback_users",
        Kind::Nothing(|d| d.no_loopback_users = true),
        "Every user may connect from anywhere, whatever `loopback_users.$user` says.",
    ),
    row(
        "loopback_users.$user",
        Kind::NamedFlag(|d, name, v| {
            d.loopback_users.insert(name.to_owned(), v);
        }),
        "Whether this user may connect from this machine only. Setting one replaces the default \
         `loopback_users.guest = true`.",
    ),
    row(
        "default_vhost = /",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.vhost)),
        "The virtual host created when a node starts on an empty data directory.",
    ),
    row(
        "default_user = guest",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.user)),
        "The user created when a node starts on an empty data directory.",
    ),
    row(
        "default_pass = guest",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.pass)),
        "The password of that user.",
    ),
    row(
        "default_user_tags.$tag",
        Kind::NamedFlag(|d, name, v| {
            d.tags.insert(name.to_owned(), v);
        }),
        "Whether that user has this tag. Setting one replaces the default \
         `default_user_tags.administrator = true`.",
    ),
    row(
        "default_permissions.configure = .*",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.configure)),
        "Regular expression for the names of what that user may declare and delete.",
    ),
    row(
        "default_permissions.write = .*",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.write)),
        "Regular expression for the names of what that user may publish to.",
    ),
    row(
        "default_permissions.read = .*",
        Kind::Text(|d, v| v.clone_into(&mut d.config.definitions.first_start.read)),
        "Regular expression for the names of what that user may consume from.",
    ),
    row(
        "consumer_timeout",
        Kind::IntegerOrInfinity("milliseconds", |d, v| d.config.messages.consumer_timeout_ms = Some(v)),
        "Time a message may wait for its acknowledgement; then it goes back. A consumer of a quorum queue is \
         cancelled (`basic.cancel`); its channel is closed with 406 if its client does not know that, as are \
         channels of classic queues. When not set it is 1800000 for quorum queues, and consumers of classic \
         queues may take their time, as with RabbitMQ since 4.3. The argument `x-consumer-timeout` of a consumer or queue, and the policy key \
         `consumer-timeout`, count before it.",
    ),
    row(
        "rabbit.default_consumer_prefetch = 0",
        Kind::Integer(0..=65_535, "deliveries", |d, v| d.config.limits.default_prefetch = fits(v)),
        "Unacknowledged deliveries that a consumer may have whose channel has set no limit; 0 is no limit. In \
         RabbitMQ it stands in `advanced.config` alone, as `{default_consumer_prefetch, {false, 250}}`.",
    ),
    row(
        "rabbit.default_consumer_prefetch_of_channel = false",
        Kind::Flag(|d, v| d.config.limits.channel_has_default_prefetch = v),
        "A channel's consumers together have no more than `rabbit.default_consumer_prefetch` either, if \
         `deprecated_features.permit.global_qos` is set. In `advanced.config` it is \
         `{default_consumer_prefetch, {true, 250}}`.",
    ),
    row(
        "message_interceptors.incoming.set_header_timestamp.overwrite",
        Kind::Flag(|d, v| d.config.messages.timestamp = Some(v)),
        "Write the time into each message that is published: the header `timestamp_in_ms` and the property \
         `timestamp`. `false` leaves those that are there already. Nothing is written when not set.",
    ),
    row(
        "message_interceptors.incoming.set_header_routing_node.overwrite",
        Kind::Flag(|d, v| d.config.messages.routing_node = Some(v)),
        "Write the node's name into each message that is published, as the header `x-routed-by`. `false` \
         leaves one that is there already. Nothing is written when not set.",
    ),
    row(
        "message_interceptors.outgoing.timestamp.enabled = false",
        Kind::Flag(|d, v| d.config.messages.sent_time = v),
        "Write the time in milliseconds into each message that is delivered, as the header \
         `x-opt-rabbitmq-sent-time`.",
    ),
    row(
        "event_exchange.vhost = none",
        Kind::TextOrNone(|d, v| d.config.messages.event_vhost = v.map(str::to_owned)),
        "The virtual host that gets an exchange `amq.rabbitmq.event`, to which the node tells what happens \
         to definitions, connections, channels, consumers and alarms. `none` tells nothing.",
    ),
    row(
        "event_exchange.protocol = amqp_0_9_1",
        Kind::Word(&["amqp_0_9_1"], |_, _| {}),
        "The format of events: a message without a body, with what is known in its headers.",
    ),
    row(
        "default_limits.vhosts.$id.pattern",
        Kind::NamedPattern(|d, id, v| v.clone_into(&mut limits_of(d, id).pattern)),
        "New virtual hosts whose names match get these limits; of several ids the first counts. Those that \
         are there already stay as they are.",
    ),
    row(
        "default_limits.vhosts.$id.max_connections",
        Kind::NamedLimit(|d, id, v| limits_of(d, id).limits.max_connections = Some(v)),
        "Most connections to such a virtual host.",
    ),
    row(
        "default_limits.vhosts.$id.max_queues",
        Kind::NamedLimit(|d, id, v| limits_of(d, id).limits.max_queues = Some(v)),
        "Most queues in such a virtual host.",
    ),
    row(
        "default_policies.operator.$id.vhost_pattern",
        Kind::NamedPattern(|d, id, v| v.clone_into(&mut policy_of(d, id).vhost_pattern)),
        "New virtual hosts whose names match get an operator policy of this name.",
    ),
    row(
        "default_policies.operator.$id.queue_pattern",
        Kind::NamedPattern(|d, id, v| v.clone_into(&mut policy_of(d, id).queue_pattern)),
        "The queues it applies to; all of them when not set.",
    ),
    row(
        "default_policies.operator.$id.apply_to",
        Kind::NamedWord(&ApplyTo::NAMES, |d, id, v| policy_of(d, id).apply_to = ApplyTo::of_name(v).unwrap_or_default()),
        "What it applies to; `all` when not set.",
    ),
    row(
        "default_policies.operator.$id.expires",
        Kind::NamedTime(|d, id, v| set_in_policy(d, id, "expires", v)),
        "Time without use after which such a queue is deleted.",
    ),
    row(
        "default_policies.operator.$id.message_ttl",
        Kind::NamedTime(|d, id, v| set_in_policy(d, id, "message-ttl", v)),
        "Time to live of the messages of such a queue.",
    ),
    row(
        "default_policies.operator.$id.max_length",
        Kind::NamedInteger(|d, id, v| set_in_policy(d, id, "max-length", v)),
        "Most ready messages of such a queue.",
    ),
    row(
        "default_policies.operator.$id.max_length_bytes",
        Kind::NamedByteSize(|d, id, v| set_in_policy(d, id, "max-length-bytes", v)),
        "Most bytes of the ready messages of such a queue.",
    ),
    row(
        "default_policies.operator.$id.max_in_memory_length",
        Kind::NamedInteger(|d, id, v| set_in_policy(d, id, "max-in-memory-length", v)),
        "A policy with this key does not apply to classic queues, as with RabbitMQ.",
    ),
    row(
        "default_policies.operator.$id.max_in_memory_bytes",
        Kind::NamedByteSize(|d, id, v| set_in_policy(d, id, "max-in-memory-bytes", v)),
        "A policy with this key does not apply to classic queues, as with RabbitMQ.",
    ),
    row(
        "default_policies.operator.$id.delivery_limit",
        Kind::NamedInteger(|d, id, v| set_in_policy(d, id, "delivery-limit", v)),
        "Failed deliveries after which a message is gone.",
    ),
    row(
        "default_policies.operator.$id.classic_queues.queue_version",
        Kind::NamedInteger(|d, id, v| set_in_policy(d, id, "queue-version", v)),
        "The storage version of such a queue.",
    ),
    row(
        "default_users.$name.vhost_pattern",
        Kind::NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).vhost_pattern)),
        "The user gets access to new virtual hosts whose names match, and is created with the first.",
    ),
    row(
        "default_users.$name.password",
        Kind::NamedText(|d, name, v| {
            user_of(d, name);
            d.config.definitions.default_passwords.insert(name.to_owned(), v.to_owned());
        }),
        "The password of that user, who cannot log in with one when it is not set.",
    ),
    row(
        "default_users.$name.tags",
        Kind::NamedWords(|d, name, v| {
            user_of(d, name).tags = v.iter().map(|tag| tag.as_str().into()).collect();
        }),
        "The tags of that user.",
    ),
    row(
        "default_users.$name.configure",
        Kind::NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).configure)),
        "The names of what that user may declare and delete; all when not set.",
    ),
    row(
        "default_users.$name.write",
        Kind::NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).write)),
        "The names of what that user may publish to; all when not set.",
    ),
    row(
        "default_users.$name.read",
        Kind::NamedPattern(|d, name, v| v.clone_into(&mut user_of(d, name).read)),
        "The names of what that user may consume from; all when not set.",
    ),
    row(
        "load_definitions = none",
        Kind::PathOrNone(|d, v| d.definitions.path = d.definitions.path.take().or(v)),
        "A file with definitions in RabbitMQ's JSON format, or a directory of such files, that is \
         imported at every start. The default virtual host and user are not created then. A node \
         does not start if an object in it is invalid.",
    )
    .also("management.load_definitions"),
    row(
        "definitions.import_backend = local_filesystem",
        Kind::Word(&["local_filesystem"], |_, _| {}),
        "How definitions are imported at the start: from `definitions.local.path`.",
    ),
    row(
        "definitions.local.path = none",
        Kind::PathOrNone(|d, v| d.definitions.path = v),
        "The same as `load_definitions`, and counts before it.",
    ),
    row(
        "definitions.skip_if_unchanged = false",
        Kind::Flag(|d, v| d.definitions.skip_if_unchanged = v),
        "Import definitions at the start only when they differ from those imported last.",
    ),
    row(
        "vm_memory_high_watermark.relative = 0.6",
        Kind::Ratio(|d, v| d.memory_high.relative = Some(v)),
        "Share of the machine's memory above which publishers are stopped.",
    ),
    row(
        "vm_memory_high_watermark.absolute",
        Kind::Memory(|d, v| d.memory_high.absolute = Some(v)),
        "Used memory above which publishers are stopped. Counts before the relative one.",
    ),
    row(
        "total_memory_available_override_value",
        Kind::Memory(|d, v| d.config.resources.total_memory = Some(v)),
        "The memory that shares of memory are of; the machine's when not set.",
    ),
    row(
        "disk_free_limit.relative",
        Kind::Ratio(|d, v| d.disk_free.relative = Some(v)),
        "Free disk space below which publishers are stopped, as a share of the machine's memory.",
    ),
    row(
        "disk_free_limit.absolute = 50MB",
        Kind::Memory(|d, v| d.disk_free.absolute = Some(v)),
        "Free disk space below which publishers are stopped, and dead letters, conversions and the like wait. Counts before the relative one.",
    ),
    row(
        "queue_index_embed_msgs_below = 4096",
        Kind::ByteSize(0..=1 << 30, |d, v| d.config.storage.embed_below = v),
        "Bodies of this size or more that go to several queues, and persistent ones in queues of version 1, are stored once per virtual host: persistent ones when they are published, transient ones when they are written because memory is short. So are persistent ones that come to a deep queue of version 2 (4 MiB, less with many deep queues), unless they are confirmed a few at a time. Others are stored with their queue. Where the properties of a message to several queues take 4 KiB or more, they are stored once together with the body, whatever the body's size.",
    ),
    row(
        "queue_index_max_journal_entries = 32768",
        Kind::Integer(1..=1 << 24, "entries", |d, v| d.config.storage.journal_entries_max = v),
        "After so many entries the journal of a queue of version 1 is flushed to its segments, which \
         have 16,384 positions each. More are read again at a start after a crash; fewer make for more \
         writing where messages are soon gone. The other name is that of `advanced.config` in RabbitMQ.",
    )
    .also("rabbit.queue_index_max_journal_entries"),
    row(
        "classic_queue.default_version = 2",
        Kind::Integer(1..=2, "", |d, v| d.config.storage.default_version = QueueVersion::of_number(v).unwrap_or_default()),
        "The storage version of classic queues without the argument `x-queue-version` and the policy key \
         `queue-version`. Queues of the other version are converted.",
    ),
    row(
        "backlog_memory = 32MB",
        Kind::ByteSize(0..=1 << 40, |d, v| d.config.storage.backlog_bytes = v),
        "Memory that backlogs of deep queues share; what does not fit is on disk only. A queue is \
         always given 16 kB. Leveret's own key.",
    ),
    row(
        "durability = fsync",
        Kind::Word(&Durability::NAMES, |d, v| d.config.storage.durability = Durability::of_name(v).unwrap_or_default()),
        "When a persistent message is confirmed: `fsync` once it would survive loss of power, \
         `write` once it would survive the death of the process, as with RabbitMQ. Leveret's own \
         key.",
    ),
    row(
        "cluster_name",
        Kind::Text(|d, v| d.config.definitions.cluster_name = Some(v.to_owned())),
        "The name clients and operators see; derived from the host's name when not set.",
    ),
];
