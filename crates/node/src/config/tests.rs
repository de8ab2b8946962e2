use std::io::Write as _;

use super::options;
use super::*;
use meta::ApplyTo;

fn sources<'s>(files: &'s [PathBuf], arguments: &'s [String]) -> Sources<'s> {
    static NONE: std::sync::LazyLock<Environment> = std::sync::LazyLock::new(Environment::default);
    Sources { files, environment: &NONE, arguments }
}

fn settings(text: &str) -> Vec<Setting> {
    let parsed = syntax::parse_file(Path::new("a.conf"), text);
    parsed.into_iter().map(Result::unwrap).collect()
}

fn applied(text: &str) -> Result<(Config, Vec<Warning>), ConfigError> {
    let Checked { config, warnings, errors } = apply(settings(text), Vec::new());
    errors.into_iter().next().map_or(Ok((config, warnings)), Err)
}

fn config(text: &str) -> Config {
    let (config, warnings) = applied(text).unwrap();
    assert_eq!(warnings, []);
    Config { settings: Vec::new(), ..config }
}

#[test]
fn what_is_in_effect_can_be_shown() {
    let text = "heartbeat = 30\ndefault_pass = secret\nlisteners.tcp.local = 127.0.0.1:1";
    let (config, _) = applied(text).unwrap();
    let shown = |key: &str| {
        let found = config.settings.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    };
    assert_eq!(shown("heartbeat"), Some("30"));
    assert_eq!(shown("frame_max"), Some("131072"));
    assert_eq!(shown("default_pass"), Some("***"));
    assert_eq!(shown("listeners.tcp.local"), Some("127.0.0.1:1"));
}

fn error(text: &str) -> String {
    applied(text).unwrap_err().to_string()
}

#[test]
fn an_empty_file_is_the_default() {
    let config = config("");
    assert_eq!(config, Config::standard());
    assert_eq!((config.connection.heartbeat_s, config.storage.backlog_bytes), (60, 32 << 20));
    assert_eq!(config.resources.disk_free, Threshold::Bytes(50_000_000));
    assert_eq!(config.listeners.tcp, [ListenAddress::Every(5672)]);
    assert_eq!(config.access.loopback_users, ["guest"]);
}

#[test]
fn each_documented_default_is_the_default() {
    for option in options::all().filter(|option| !option.default().is_empty()) {
        let key = option.key().replace("$name", "default");
        let text = format!("{key} = {}", option.default());
        assert_eq!(config(&text), Config::standard(), "{text}");
    }
}

fn first_start_of_v() -> FirstStart {
    FirstStart {
        vhost: "v".to_owned(),
        user: "u".to_owned(),
        pass: "p#".to_owned(),
        tags: vec!["monitoring".to_owned()],
        configure: "^c".to_owned(),
        write: "^w".to_owned(),
        read: "^r".to_owned(),
    }
}

const fn resources_of_a_gibibyte() -> Resources {
    Resources {
        memory_high: Threshold::Bytes(1 << 30),
        disk_free: Threshold::OfMemory(1.5),
        total_memory: None,
    }
}

#[test]
fn every_option_finds_its_field() {
    let changed = config(
        "listeners.tcp.b = ::1:5673\nlisteners.tcp.a = 127.0.0.1:5672\n\
         tcp_listen_options.backlog = 4096\ntcp_listen_options.nodelay = false\n\
         handshake_timeout = infinity\nheartbeat = 580\nframe_max = 0\ninitial_frame_max = 4KB\n\
         channel_max = 100\nsession_max_per_connection = 7\nlink_max_per_session = 8\nmax_message_size = 1000\n\
         amqp091.immediate = honour\nconnection_max = 5\n\
         auth_mechanisms.1 = ANONYMOUS\nanonymous_login_user = anne\nanonymous_login_pass = x\n\
         loopback_users.guest = false\nloopback_users.root = true\n\
         default_vhost = v\ndefault_user = u\ndefault_pass = 'p#'\ndefault_user_tags.monitoring = true\n\
         default_permissions.configure = ^c\ndefault_permissions.write = ^w\ndefault_permissions.read = ^r\n\
         vm_memory_high_watermark.absolute = 1GiB\n\
         disk_free_limit.relative = 1.5\nqueue_index_embed_msgs_below = 1kb\nrabbit.queue_index_max_journal_entries = 99\n\
         backlog_memory = 1MB\n\
         durability = write\nlog.console = false\nlog.file = leveret.log\n\
         log.default.level = debug\ncluster_name = hutch\n",
    );
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let expected = Config {
        listeners: Listeners {
            tcp: vec![
                ListenAddress::One("127.0.0.1:5672".parse().unwrap()),
                ListenAddress::One("[::1]:5673".parse().unwrap()),
            ],
            backlog: 4096,
            nodelay: false,
            ..Config::standard().listeners
        },
        connection: ConnectionLimits {
            handshake_timeout_ms: None,
            heartbeat_s: 580,
            frame_max: 0,
            initial_frame_max: 4096,
            channel_max: 100,
            sessions_max: 7,
            links_max: 8,
            max_message_size: 1000,
            max_connections: Some(5),
            accepted_max: None,
            immediate: Immediate::Honour,
        },
        access: Access {
            loopback_users: words(&["root"]),
            auth_mechanisms: words(&["ANONYMOUS"]),
            anonymous_user: Some("anne".to_owned()),
            anonymous_pass: "x".to_owned(),
            ..Config::standard().access
        },
        definitions: Definitions {
            cluster_name: Some("hutch".to_owned()),
            first_start: first_start_of_v(),
            ..Config::standard().definitions
        },
        resources: resources_of_a_gibibyte(),
        storage: Storage {
            embed_below: 1024,
            journal_entries_max: 99,
            default_version: QueueVersion::V2,
            backlog_bytes: 1 << 20,
            durability: Durability::Write,
        },
        logging: Logging {
            file: Some(("leveret.log".into(), LogPlace::default())),
            default_level: Level::Debug,
            ..Logging::default()
        },
        ..Config::standard()
    };
    assert_eq!(changed, expected);
}

#[test]
fn definitions_and_their_limits_find_their_fields() {
    let changed = config(
        "load_definitions = /a\ndefinitions.local.path = /b\n\
         definitions.import_backend = local_filesystem\ndefinitions.skip_if_unchanged = true\n\
         channel_max_per_node = 1\nconsumer_max_per_channel = 2\nvhost_max = 3\n\
         cluster_queue_limit = 4\ncluster_exchange_limit = 5\n\
         deprecated_features.permit.global_qos = true\n\
         exchange_types.local_random.enabled = false\nrabbit.default_consumer_prefetch = 250\n\
         rabbit.default_consumer_prefetch_of_channel = true\n",
    );
    let limits = NodeLimits {
        channels: Some(1),
        consumers: Some(2),
        vhosts: Some(3),
        queues: Some(4),
        queue_types: NodeQueueTypes::default(),
        no_local_random: true,
        default_prefetch: 250,
        channel_has_default_prefetch: true,
        exchanges: Some(5),
        permits: BTreeMap::from([("global_qos".to_owned(), true)]),
    };
    let imported = Some(DefinitionsSource { path: "/b".into(), skip_if_unchanged: true });
    let definitions = Definitions { imported, ..Config::standard().definitions };
    assert_eq!(changed, Config { limits, definitions, ..Config::standard() });
}

#[test]
fn keys_that_keep_somebody_out_count_by_every_name() {
    let limits = config("ranch_connection_max = 3\nmax_connections = 5\n").connection;
    assert_eq!((limits.max_connections, limits.accepted_max), (Some(3), None));
    let resources = config(
        "total_memory_available_override_value = 1000\nvm_memory_high_watermark.relative = 0.5\n\
         disk_free_limit.relative = 2.0\n",
    )
    .resources;
    assert_eq!(resources.memory_high, Threshold::Bytes(500));
    assert_eq!(resources.disk_free, Threshold::Bytes(2000));
    let http = config(
        "management.disable_basic_auth = true\nhttp_dispatch.auth_backends.1 = internal\n\
         prometheus.tcp.port = 1\nprometheus.tcp.listener = 127.0.0.1:2\n\
         management.listener.ip = ::1\nmanagement.listener.port = 3\nmanagement.listener.ssl = true\n\
         management.listener.server.max_keepalive = 4\nmanagement.listener.ssl_opts.verify = verify_peer\n",
    );
    assert!(http.http.settings.restrictions.refuses_passwords);
    let HttpListeners { tcp, older, .. } = http.http.metrics;
    assert_eq!((tcp.ip.as_deref(), tcp.port), (Some("127.0.0.1"), Some(2)));
    assert_eq!(older, HttpAddress::default());
    let HttpListeners { older, older_has_tls, .. } = http.http.api;
    assert_eq!(
        (older.ip.as_deref(), older.port, older_has_tls),
        (Some("::1"), Some(3), Some(true))
    );
    assert_eq!(older.limits.requests_max, 4);
    let [.., of_older, _] = http.listeners.tls.own;
    assert_eq!(of_older.map(|options| options.verify), Some(::tls::Verify::IfShown));
    assert!(error("http_dispatch.auth_backends.1 = ldap").contains("only the node's own users"));
}

/// COMPAT: they count after all files of lines; what has no key there is told by name.
#[test]
fn files_of_terms_are_read_beside_those_of_lines() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let lines = write("rabbitmq.conf", "heartbeat = 10\nmax_connections = 5\n");
    write(
        "advanced.config",
        "[{rabbit, [{heartbeat, 20}, {odd, [{a, b}]}]},\n {rabbitmq_shovel, [{shovels, []}]}].",
    );
    let Checked { config, warnings, errors } = check(sources(&[lines], &[]));
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!((config.connection.heartbeat_s, config.connection.max_connections), (20, Some(5)));
    let told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert!(
        told.len() == 2 && told[0].contains("advanced.config:1: `odd.a` has no effect"),
        "{told:?}"
    );
    assert!(told[1].contains("advanced.config:2: `rabbitmq_shovel.shovels`"), "{told:?}");
    let classic = write(
        "classic.config",
        "[{rabbit, [{default_consumer_prefetch, {false, 7}}, {heartbeat, x}]}].",
    );
    let Checked { config, errors, .. } = check(sources(&[classic], &[]));
    assert_eq!(config.limits.default_prefetch, 7);
    assert!(
        errors.len() == 1 && errors[0].to_string().contains("`heartbeat` cannot be `x`"),
        "{errors:?}"
    );
    let broken = write("broken.config", "[{rabbit, [}].");
    assert!(
        check(sources(&[broken], &[])).errors[0]
            .to_string()
            .contains("broken.config:1: a term is expected")
    );
}

#[test]
fn the_stream_protocol_finds_its_fields() {
    let changed = config(
        "stream.listeners.tcp.b = 127.0.0.1:2\nstream.listeners.tcp.a = 5553\n\
         stream.frame_max = 0\nstream.initial_frame_max = 4096\nstream.heartbeat = 10\n\
         stream.advertised_host = hare\nstream.advertised_port = 1\nstream.max_connections = 7\n\
         stream.max_super_stream_partitions = 3\n\
         stream.max_uncompressed_sub_entry_batch_size = 33554432\n\
         stream.durability = fsync\nstream.read_ahead = false\nstream.read_ahead_limit = 1kB\n\
         stream.scrub_interval = 0\n",
    );
    let stream =
        vec![ListenAddress::Every(5553), ListenAddress::One("127.0.0.1:2".parse().unwrap())];
    let listeners = Listeners { stream: Some(stream), ..Config::standard().listeners };
    let streams = Streams {
        frame_max: 0,
        initial_frame_max: 4_096,
        heartbeat_s: 10,
        advertised: Advertised { host: Some("hare".to_owned()), port: Some(1) },
        advertised_tls: Advertised::default(),
        max_connections: Some(7),
        partitions_max: 3,
        sub_batch_bytes_max: 33_554_432,
        durability: Durability::Fsync,
        read_ahead: false,
        read_ahead_limit: Some(1_024),
        scrub_interval_s: 0,
    };
    assert_eq!(changed, Config { listeners, streams, ..Config::standard() });
    assert_eq!(Config::standard().listeners.stream, None);
    assert_eq!(config("stream.listeners.tcp = none").listeners.stream, Some(Vec::new()));
}

#[test]
fn tls_finds_its_fields() {
    let changed = config(
        "listeners.ssl.a = 5671\nstream.listeners.ssl.b = 5551\nssl_handshake_timeout = 5000\n\
         ssl_options.certfile = /c\nssl_options.keyfile = /k\nssl_options.password = p\n\
         ssl_options.cacertfile = /a\nssl_options.verify = verify_peer\nssl_options.depth = 2\n\
         ssl_options.fail_if_no_peer_cert = true\nssl_options.versions.1 = tlsv1.3\n\
         ssl_options.ciphers.1 = X\nssl_options.honor_cipher_order = false\n\
         ssl_options.reuse_sessions = false\nssl_options.crl_check = peer\n\
         ssl_options.crl_sources.1 = hash_dir\nssl_options.crl_sources.1.path = /l\n\
         ssl_options.sni.x.certfile = /d\nssl_options.sni.x.keyfile = /e\n\
         ssl_cert_login_from = subject_alternative_name\nssl_cert_login_san_type = email\n\
         ssl_cert_login_san_index = 3\nprometheus.ssl.certfile = /p\n\
         prometheus.ssl.keyfile = /q\nprometheus.ssl.versions.1 = tlsv1.2\n",
    );
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let tls = ::tls::Options {
        identity: Some(("/c".into(), "/k".into())),
        by_name: [("x".to_owned(), ("/d".into(), "/e".into()))].into(),
        password: Some("p".to_owned()),
        cacertfile: Some("/a".into()),
        verify: ::tls::Verify::Always,
        depth: 2,
        versions: words(&["tlsv1.3"]),
        ciphers: words(&["X"]),
        prefers_own_order: false,
        resumes: false,
        crls: (::tls::CrlCheck::Peer, vec!["/l".into()]),
        ..::tls::Options::new("ssl_options")
    };
    let own = ::tls::Options {
        identity: Some(("/p".into(), "/q".into())),
        versions: words(&["tlsv1.2"]),
        ..::tls::Options::new("prometheus.ssl")
    };
    let listeners = Listeners {
        ssl: vec![ListenAddress::Every(5671)],
        stream_ssl: vec![ListenAddress::Every(5551)],
        tls_handshake_timeout_ms: 5_000,
        tls: TlsOptions { shared: tls, own: [None, Some(own), None, None] },
        ..Config::standard().listeners
    };
    let cert_login = LoginFrom::San(::tls::SanKind::Email, 3);
    let access = Access { cert_login, ..Config::standard().access };
    assert_eq!(changed, Config { listeners, access, ..Config::standard() });
    assert!(error("ssl_options.versions.1 = tlsv1.4").contains("expected one of `tlsv1.3`"));
    assert!(error("management.ssl.depth = x").contains("management.ssl.depth"));
    let (_, told) = applied("management.ssl.honor_ecc_order = true").unwrap();
    assert!(matches!(told.as_slice(), [Warning::NoEffect { .. }]), "{told:?}");
}

#[test]
fn what_becomes_of_sockets_and_new_passwords_finds_its_fields() {
    let changed = config(
        "tcp_listen_options.keepalive = true\ntcp_listen_options.sndbuf = 32768\n\
         tcp_listen_options.recbuf = 65536\nproxy_protocol = true\n\
         credential_validator.validation_backend = rabbit_credential_validator_password_regexp\n\
         credential_validator.min_length = 8\ncredential_validator.regexp = ^x\n",
    );
    let listeners = Listeners {
        keepalive: true,
        proxy_protocol: true,
        buffers: SocketBuffers { send: Some(32_768), receive: Some(65_536) },
        ..Config::standard().listeners
    };
    let passwords =
        Passwords { validator: Validator::Pattern, min_length: 8, pattern: "^x".to_owned() };
    let access = Access { passwords, ..Config::standard().access };
    assert_eq!(changed, Config { listeners, access, ..Config::standard() });
    let hashing = config("password_hashing_module = rabbit_password_hashing_sha512").access.hashing;
    assert_eq!(hashing, HashAlgorithm::Sha512);
    let wrong = error("password_hashing_module = sha512");
    assert!(
        wrong.contains("cannot be `sha512`: expected one of `rabbit_password_hashing_sha256`"),
        "{wrong}"
    );
    let wrong = error("credential_validator.validation_backend = mine");
    assert!(wrong.contains("`rabbit_credential_validator_accept_everything`"), "{wrong}");
}

#[test]
fn what_the_node_does_with_messages_finds_its_fields() {
    let changed = config(
        "consumer_timeout = 60000\nevent_exchange.vhost = /\n\
         event_exchange.protocol = amqp_0_9_1\n\
         message_interceptors.incoming.set_header_timestamp.overwrite = true\n\
         message_interceptors.incoming.set_header_routing_node.overwrite = false\n\
         message_interceptors.outgoing.timestamp.enabled = true\n",
    );
    let messages = Messages {
        consumer_timeout_ms: Some(Some(60_000)),
        event_vhost: Some("/".to_owned()),
        timestamp: Some(true),
        routing_node: Some(false),
        sent_time: true,
        otel: Config::standard().messages.otel,
    };
    assert_eq!(changed, Config { messages, ..Config::standard() });
    assert_eq!(config("consumer_timeout = infinity").messages.consumer_timeout_ms, Some(None));
}

#[test]
fn what_new_virtual_hosts_get_finds_its_fields() {
    let changed = config(
        "default_limits.vhosts.1.pattern = ^shop\ndefault_limits.vhosts.1.max_queues = 5\n\
         default_limits.vhosts.1.max_connections = -1\n\
         default_policies.operator.ttl.vhost_pattern = ^v\n\
         default_policies.operator.ttl.queue_pattern = ^q\n\
         default_policies.operator.ttl.apply_to = classic_queues\n\
         default_policies.operator.ttl.expires = 1h\n\
         default_policies.operator.ttl.message_ttl = 500\n\
         default_policies.operator.ttl.max_length = 7\n\
         default_policies.operator.ttl.max_length_bytes = 1KB\n\
         default_policies.operator.ttl.max_in_memory_bytes = 2KB\n\
         default_policies.operator.ttl.max_in_memory_length = 8\n\
         default_policies.operator.ttl.classic_queues.queue_version = 1\n\
         default_users.ann.vhost_pattern = ^a\ndefault_users.ann.password = secret\n\
         default_users.ann.tags = monitoring, management\ndefault_users.ann.read = ^r\n",
    );
    let limits = &changed.definitions.vhost_defaults.limits["1"];
    assert_eq!(limits.pattern, "^shop");
    assert_eq!((limits.limits.max_queues, limits.limits.max_connections), (Some(5), Some(-1)));
    let policy = &changed.definitions.vhost_defaults.operator_policies["ttl"];
    assert_eq!((policy.vhost_pattern.as_str(), policy.queue_pattern.as_str()), ("^v", "^q"));
    assert_eq!(policy.apply_to, ApplyTo::ClassicQueues);
    let settings = [
        ("expires", 3_600_000),
        ("max-in-memory-bytes", 2_048),
        ("max-in-memory-length", 8),
        ("max-length", 7),
        ("max-length-bytes", 1_024),
        ("message-ttl", 500),
        ("queue-version", 1),
    ];
    assert_eq!(policy.settings, BTreeMap::from(settings));
    let user = &changed.definitions.vhost_defaults.users["ann"];
    assert_eq!((user.vhost_pattern.as_str(), user.read.as_str()), ("^a", "^r"));
    assert_eq!((user.configure.as_str(), user.tags.len()), (".*", 2));
    assert_eq!(changed.definitions.default_passwords["ann"], "secret");
    let shown = format!("{:?}", changed.settings);
    assert!(!shown.contains("secret"), "{shown}");
    assert_eq!(
        error("default_users.ann.read = ("),
        "a.conf:1: `default_users.ann.read` cannot be `(`: expected a regular expression"
    );
    assert!(error("default_users.ann.raed = x").contains("did you mean `default_users.ann.read`?"));
}

#[test]
fn nobody_is_known_from_anywhere_but_the_node_itself() {
    let internal = "auth_backends.1 = internal\nauth_backends.2 = rabbit_auth_backend_internal\n\
                    auth_backends.3.authn = internal\nauth_backends.3.authz = internal";
    assert_eq!(config(internal), Config::standard());
    for (key, value) in [
        ("auth_backends.1", "ldap"),
        ("auth_backends.2", "rabbit_auth_backend_http"),
        ("auth_backends.1", "internal_loopback"),
        ("auth_backends.1.authn", "oauth2"),
        ("auth_backends.1.authz", "cache"),
        ("auth_backends.first", "internal"),
    ] {
        assert_eq!(
            error(&format!("auth_backends.1 = internal\n{key} = {value}")),
            format!(
                "a.conf:2: `{key}` cannot be `{value}`: expected `internal` (or \
                 `rabbit_auth_backend_internal`) at a numbered place: only the node's own users"
            )
        );
    }
}

#[test]
fn none_empties_a_list() {
    let config = config(
        "loopback_users = none\nloopback_users.a = true\nlisteners.tcp = none\nlisteners.tcp.1 = 1",
    );
    assert_eq!(config.access.loopback_users, Vec::<String>::new());
    assert_eq!(config.listeners.tcp, []);
}

#[test]
fn the_last_setting_counts_under_either_name() {
    let text = "channel_max = 5\nmax_channels_per_connection = 6\nheartbeat = 1\nheartbeat = 2";
    let config = config(text);
    assert_eq!((config.connection.channel_max, config.connection.heartbeat_s), (6, 2));
}

#[test]
fn levels_fall_back_to_the_default_level() {
    let config = config("log.default.level = error\nlog.file = f\nlog.file.level = alert");
    assert_eq!(config.logging.default_level, Level::Error);
    assert_eq!(config.logging.console, Some(LogPlace::default()));
    let place = LogPlace { level: Some(Level::Error), ..LogPlace::default() };
    assert_eq!(config.logging.file, Some(("f".into(), place)));
    assert_eq!(config.logging.exchange, None);
}

#[test]
fn the_log_may_go_to_an_exchange() {
    let exchange = |text: &str| config(text).logging.exchange;
    assert_eq!(exchange("log.exchange = true"), Some(LogPlace::default()));
    let place = LogPlace { level: Some(Level::Debug), ..LogPlace::default() };
    assert_eq!(exchange("log.exchange = true\nlog.exchange.level = debug"), Some(place));
    assert_eq!(exchange("log.exchange = false\nlog.exchange.level = debug"), None);
}

#[test]
fn an_unknown_key_names_its_line_and_the_nearest_key() {
    assert_eq!(
        error("# x\nheartbaet = 5"),
        "a.conf:2: unknown key `heartbaet`; did you mean `heartbeat`?"
    );
}

#[test]
fn a_wrong_value_names_its_line_and_what_was_expected() {
    for (text, message) in [
        (
            "heartbeat = 65536",
            "`heartbeat` cannot be `65536`: expected a whole number of seconds, 0 to 65535",
        ),
        (
            "frame_max = 4095",
            "`frame_max` cannot be `4095`: expected a number of bytes, or one with `KB`, `MB`, \
             `GB`, 4096 to 2147483647, or 0 for no limit",
        ),
        ("log.console = yes", "`log.console` cannot be `yes`: expected `true` or `false`"),
        ("listeners.tcp = all", "`listeners.tcp` cannot be `all`: expected `none`"),
        (
            "listeners.tcp.default = localhost:5672",
            "`listeners.tcp.default` cannot be `localhost:5672`: expected a port, or an IP address \
             and port as in `127.0.0.1:5672`",
        ),
        ("durability = maybe", "`durability` cannot be `maybe`: expected one of `fsync`, `write`"),
    ] {
        assert_eq!(error(text), format!("a.conf:1: {message}"));
    }
}

#[test]
fn what_rabbitmq_has_and_we_have_not_warns_once_per_line() {
    let text = "auth_ldap.use_ssl = true\nheartbeat = 5\nmqtt.prefetch = 3\nraft.data_dir = /r";
    let (config, warnings) = applied(text).unwrap();
    assert_eq!(config.connection.heartbeat_s, 5);
    let lines: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "a.conf:1: `auth_ldap.use_ssl` has no effect yet: Leveret does not have this option",
            "a.conf:3: `mqtt.prefetch` has no effect yet: Leveret does not have this option",
            "a.conf:4: `raft.data_dir` has no effect: everything is in the data directory",
        ]
    );
}

#[test]
fn the_absolute_threshold_counts_and_both_warn() {
    let text = "disk_free_limit.relative = 1.0\ndisk_free_limit.absolute = 1GB";
    let (config, warnings) = applied(text).unwrap();
    assert_eq!(config.resources.disk_free, Threshold::Bytes(1_000_000_000));
    assert_eq!(warnings, [Warning::BothThresholds("disk_free_limit")]);
}

#[test]
fn files_of_a_directory_are_read_in_order_and_arguments_win() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("20.conf", "heartbeat = 20\nframe_max = 20000"),
        ("10.conf", "heartbeat = 10\nchannel_max = 10"),
        ("30.conf.bak", "not read"),
    ] {
        let mut file = File::create(dir.path().join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
    let (config, _) =
        load(sources(&[dir.path().to_owned()], &["frame_max=30000".to_owned()])).unwrap();
    let limits = config.connection;
    assert_eq!((limits.channel_max, limits.heartbeat_s, limits.frame_max), (10, 20, 30_000));
}

#[test]
fn arguments_and_missing_files_have_errors_of_their_own() {
    let from = |argument: &str| load(sources(&[], &[argument.to_owned()])).unwrap_err().to_string();
    assert_eq!(from("heartbeat"), "--set: expected `key = value`");
    assert_eq!(from("haertbeat=5"), "--set: unknown key `haertbeat`; did you mean `heartbeat`?");
    let missing = load(sources(&["/nowhere/a.conf".into()], &[])).unwrap_err().to_string();
    assert_eq!(missing, "cannot read the configuration /nowhere/a.conf");
}

#[test]
fn a_check_finds_all_errors_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.conf");
    std::fs::write(&path, "broken\nheartbeat = 7\nhaertbeat = 5\nframe_max = x\n").unwrap();
    let missing = dir.path().join("b.conf");
    let Checked { config, errors, .. } = check(sources(&[path, missing], &["nothing".to_owned()]));
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(config.connection.heartbeat_s, 7);
    for (told, expected) in told.iter().zip([
        "a.conf:1: expected `key = value`",
        "b.conf",
        "--set: expected `key = value`",
        "a.conf:3: unknown key `haertbeat`; did you mean `heartbeat`?",
        "a.conf:4: `frame_max` cannot be `x`: expected ",
    ]) {
        assert!(told.contains(expected), "{told}");
    }
    assert_eq!(told.len(), 5, "{told:?}");
}

#[test]
fn an_argument_goes_before_a_variable_and_a_variable_before_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.conf");
    let text = "default_user = file\ndefault_vhost = file\nheartbeat = 1\nlisteners.tcp.a = 1\n";
    std::fs::write(&file, text).unwrap();
    let variables = |name: &str| {
        Some(match name {
            "RABBITMQ_DEFAULT_USER" | "RABBITMQ_DEFAULT_VHOST" => "variable".to_owned(),
            "RABBITMQ_NODE_PORT" => "2".to_owned(),
            _ => return None,
        })
    };
    let environment = Environment::read(&variables, true);
    let files = [file];
    let with = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        let sources = Sources { files: &files, environment: &environment, arguments: &arguments };
        load(sources).unwrap().0
    };
    let config = with(&["default_user=argument"]);
    assert_eq!(config.definitions.first_start.user, "argument");
    assert_eq!(config.definitions.first_start.vhost, "variable");
    assert_eq!(config.connection.heartbeat_s, 1);
    assert_eq!(config.listeners.tcp, [ListenAddress::Every(2)]);
    let both = [ListenAddress::Every(1), ListenAddress::Every(3)];
    assert_eq!(with(&["listeners.tcp.b=3"]).listeners.tcp, both);
    let error = |variables: ctl::environment::Variables<'_>| {
        let environment = Environment::read(variables, false);
        let sources = Sources { files: &[], environment: &environment, arguments: &[] };
        load(sources).unwrap_err().to_string()
    };
    let wrong = error(&|name| (name == "RABBITMQ_NODE_PORT").then(|| "x".to_owned()));
    assert!(
        wrong.starts_with("RABBITMQ_NODE_PORT: `listeners.tcp.default` cannot be `x`"),
        "{wrong}"
    );
    let retired = error(&|name| name.starts_with("RABBITMQ_SSL_VERIFY").then(|| "x".to_owned()));
    assert!(retired.starts_with("RABBITMQ_SSL_VERIFY is set but deprecated: "), "{retired}");
}

#[test]
fn the_log_has_a_directory() {
    let file = |text: &str| config(text).logging.file.map(|(path, _)| path);
    assert_eq!(file("log.dir = /l\nlog.file = x.log"), Some("/l/x.log".into()));
    assert_eq!(file("log.dir = /l\nlog.file = /y/x.log"), Some("/y/x.log".into()));
    assert_eq!(file("log.dir = /l\nlog.file = false"), None);
    let named = file("log.dir = /l").unwrap();
    assert!(named.starts_with("/l") && named.extension().is_some_and(|end| end == "log"));
}
