//! The node's configuration: RabbitMQ's file format and key names, read and validated once at start.
//! `options` declares every option; the parser, the help text and the docs page come from that table.

mod distribution;
mod environment;
mod erlang;
mod kind;
mod known;
mod logging;
mod lookup;
mod option;
mod options;
mod render;
mod rotation;
mod syntax;
mod tls;
mod units;

use front_amqp091::Immediate;
use mgmt::Threshold;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use self::tls::{TlsDraft, TlsOptions};
use ::tls::LoginFrom;
use logging::LogDraft;
use lookup::Found;
use meta::{HashAlgorithm, NodeQueueTypes, QueueVersion, VhostDefaults};
use net::ListenAddress;
use syntax::{ParsedLine, Place, Setting, SyntaxError};

pub(crate) use distribution::{Discovery, Distribution, PeerDiscovery};
pub(crate) use environment::Environment;
pub(crate) use logging::{
    Category, Formatter, LogPlace, Logging, Rotation, SyslogSettings, Transport,
};
pub(crate) use render::{help_text, markdown, sample};
#[cfg(test)]
pub(crate) use rotation::Period;
pub(crate) use units::{LEVELS, Level};

/// Everything that can be configured. Built by [`load`] and not changed afterwards.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config {
    pub(crate) listeners: Listeners,
    pub(crate) http: Http,
    pub(crate) connection: ConnectionLimits,
    pub(crate) limits: NodeLimits,
    pub(crate) access: Access,
    pub(crate) definitions: Definitions,
    pub(crate) resources: Resources,
    pub(crate) storage: Storage,
    pub(crate) logging: Logging,
    pub(crate) messages: Messages,
    pub(crate) streams: Streams,
    /// The settings in effect, by key, as they would be written; secrets are masked.
    pub(crate) settings: Vec<(String, String)>,
}

/// The listeners of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listeners {
    /// Plain TCP, in the order of their names.
    pub(crate) tcp: Vec<ListenAddress>,
    /// Plain TCP of the stream protocol; `None` where no key is set: then the usual port, if it is free.
    pub(crate) stream: Option<Vec<ListenAddress>>,
    /// TLS, in the order of their names.
    pub(crate) ssl: Vec<ListenAddress>,
    /// The stream protocol with TLS.
    pub(crate) stream_ssl: Vec<ListenAddress>,
    pub(crate) tls: TlsOptions,
    /// Longest TLS handshake, milliseconds.
    pub(crate) tls_handshake_timeout_ms: u64,
    /// Connections the kernel may hold before they are accepted.
    pub(crate) backlog: u32,
    /// Whether small writes are sent at once (`TCP_NODELAY`).
    pub(crate) nodelay: bool,
    /// Whether the system looks after idle connections (`SO_KEEPALIVE`).
    pub(crate) keepalive: bool,
    /// Whether clients come through a proxy, which says who they are (the PROXY protocol).
    pub(crate) proxy_protocol: bool,
    pub(crate) buffers: SocketBuffers,
    pub(crate) distribution: Distribution,
}

/// The buffers of a socket, bytes; `None` is the system's choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketBuffers {
    pub(crate) send: Option<usize>,
    pub(crate) receive: Option<usize>,
}

/// The HTTP API and Prometheus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Http {
    pub(crate) api: HttpListeners,
    pub(crate) metrics: HttpListeners,
    pub(crate) settings: http::Settings,
    /// The directory of files with traces, inside the data directory if it is relative.
    pub(crate) trace_dir: PathBuf,
    /// The time for which messages that are taken away can be brought back, seconds.
    pub(crate) undo_window_s: u64,
}

/// The listeners of the HTTP API, or of Prometheus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpListeners {
    pub(crate) is_enabled: bool,
    pub(crate) tcp: HttpAddress,
    pub(crate) ssl: HttpAddress,
    /// The address of the keys `management.listener`, which are older than the others.
    pub(crate) older: HttpAddress,
    /// Whether the listener of the older keys has TLS; `None` if no key says so.
    pub(crate) older_has_tls: Option<bool>,
}

/// An address and a port, where something was said of them, and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpAddress {
    pub(crate) ip: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) limits: http::Limits,
}

/// Limits of a connection, and the number of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// Time from accept to the end of the handshake; `None` waits for ever.
    pub(crate) handshake_timeout_ms: Option<u64>,
    /// Heartbeat suggested to clients, seconds; 0 is none.
    pub(crate) heartbeat_s: u16,
    /// Largest frame, bytes, negotiated down by clients; 0 is no limit.
    pub(crate) frame_max: u32,
    /// Largest frame until tuning is over, bytes.
    pub(crate) initial_frame_max: u32,
    /// Channels per connection, negotiated down by clients; 0 is no limit.
    pub(crate) channel_max: u16,
    /// AMQP 1.0 sessions per connection.
    pub(crate) sessions_max: u16,
    /// AMQP 1.0 links per session.
    pub(crate) links_max: u32,
    /// Longest message body, bytes.
    pub(crate) max_message_size: u64,
    /// Connections to this node; `None` is no limit.
    pub(crate) max_connections: Option<u64>,
    /// Connections to this node, by `ranch_connection_max`; `None` is no limit.
    pub(crate) accepted_max: Option<u64>,
    /// The treatment of AMQP 0-9-1 publishes with `immediate`.
    pub(crate) immediate: Immediate,
}

/// Limits of all clients of this node together; `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeLimits {
    pub(crate) channels: Option<u64>,
    /// Consumers of a channel.
    pub(crate) consumers: Option<u64>,
    pub(crate) vhosts: Option<u64>,
    pub(crate) queues: Option<u64>,
    pub(crate) exchanges: Option<u64>,
    pub(crate) queue_types: NodeQueueTypes,
    /// Unacknowledged deliveries of a consumer whose channel has set no limit; 0 is no limit.
    pub(crate) default_prefetch: u16,
    /// Whether the default prefetch also limits all consumers of a channel together.
    pub(crate) channel_has_default_prefetch: bool,
    /// Whether exchanges of the type `x-local-random` are refused.
    pub(crate) no_local_random: bool,
    /// Whether deprecated features may be used, by name; the others as by default.
    pub(crate) permits: BTreeMap<String, bool>,
}

/// Users, passwords and login mechanisms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// Users who may connect from this machine only.
    pub(crate) loopback_users: Vec<String>,
    /// SASL mechanisms in the order they are offered.
    pub(crate) auth_mechanisms: Vec<String>,
    /// The user ANONYMOUS logs in as; `None` refuses it.
    pub(crate) anonymous_user: Option<String>,
    /// The password used for that login.
    pub(crate) anonymous_pass: String,
    /// The rule for new passwords.
    pub(crate) passwords: Passwords,
    /// The hash of new passwords.
    pub(crate) hashing: HashAlgorithm,
    /// The part of a certificate that is a user's name.
    pub(crate) cert_login: LoginFrom,
    /// Whether attempts to log in are counted by address and user.
    pub(crate) track_auth_attempt_source: bool,
}

/// The rule for new passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passwords {
    pub(crate) validator: Validator,
    /// Bytes, for [`Validator::MinLength`].
    pub(crate) min_length: usize,
    /// A regular expression, for [`Validator::Pattern`].
    pub(crate) pattern: String,
}

stdx::named! {
    /// The validators of new passwords.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) enum Validator {
        #[default]
        Anything = "rabbit_credential_validator_accept_everything",
        MinLength = "rabbit_credential_validator_min_password_length",
        Pattern = "rabbit_credential_validator_password_regexp",
    }
}

/// Definitions that the node makes by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Definitions {
    /// The name clients and operators see; derived from the host's name when absent.
    pub(crate) cluster_name: Option<String>,
    pub(crate) first_start: FirstStart,
    /// Imported at every start; then nothing of `first_start` is made.
    pub(crate) imported: Option<DefinitionsSource>,
    /// Defaults of new virtual hosts, without the passwords of users.
    pub(crate) vhost_defaults: VhostDefaults,
    /// Passwords of the default users of new virtual hosts, by user.
    pub(crate) default_passwords: BTreeMap<String, String>,
    /// Time in which a cluster decides on a change, milliseconds.
    pub(crate) change_timeout_ms: u64,
    /// Whether a member of a cluster serves clients without a majority.
    pub(crate) serves_without_quorum: bool,
}

/// The user and virtual host that a node creates in an empty data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstStart {
    pub(crate) vhost: String,
    pub(crate) user: String,
    pub(crate) pass: String,
    pub(crate) tags: Vec<String>,
    /// Patterns of the resources the user may configure, write and read.
    pub(crate) configure: String,
    pub(crate) write: String,
    pub(crate) read: String,
}

/// The source of imported definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefinitionsSource {
    /// A file, or a directory of files.
    pub(crate) path: PathBuf,
    /// Whether the import is skipped when the same definitions were imported last.
    pub(crate) skip_if_unchanged: bool,
}

/// The node's settings for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Messages {
    /// Time a delivery may wait for its acknowledgement, milliseconds, or for ever; `None` is as by default.
    pub(crate) consumer_timeout_ms: Option<Option<u64>>,
    /// The virtual host of the exchange that events are published to.
    pub(crate) event_vhost: Option<String>,
    /// Whether a time stamp replaces that of the publisher; `None` writes no time stamp.
    pub(crate) timestamp: Option<bool>,
    /// Whether the header with the node's name replaces that of the publisher; `None` writes no header.
    pub(crate) routing_node: Option<bool>,
    /// Whether the time is written into each delivered message.
    pub(crate) sent_time: bool,
    pub(crate) otel: Otel,
}

/// The collector of OpenTelemetry.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Otel {
    /// The collector's address; `None` sends nothing.
    pub(crate) endpoint: Option<String>,
    pub(crate) interval_s: u64,
    /// The share of messages without a trace that begin one.
    pub(crate) sample_new: f64,
}

impl Eq for Otel {}

/// Address that clients are told to connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advertised {
    /// The host; another one is told where it is absent.
    pub(crate) host: Option<String>,
    /// The port; the listener's where it is absent.
    pub(crate) port: Option<u16>,
}

/// Connections of the stream protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Streams {
    /// Bytes, negotiated down by clients; 0 is no limit.
    pub(crate) frame_max: u32,
    /// Bytes, until a virtual host is open.
    pub(crate) initial_frame_max: u32,
    /// Suggested to clients, seconds; 0 is none.
    pub(crate) heartbeat_s: u32,
    /// Told to clients as the host and port to connect to; this machine's name and that of the listener when
    /// absent.
    pub(crate) advertised: Advertised,
    /// Told to clients over TLS as the host and port to connect to; the host of other clients when absent.
    pub(crate) advertised_tls: Advertised,
    /// Connections of this protocol; `None` is no limit.
    pub(crate) max_connections: Option<u64>,
    /// Partitions of a super stream that a client creates.
    pub(crate) partitions_max: u64,
    /// Bytes of a sub-batch that is published, unpacked.
    pub(crate) sub_batch_bytes_max: u32,
    /// The promise that a confirm of a message in a stream makes.
    pub(crate) durability: Durability,
    /// Whether consumers read ahead.
    pub(crate) read_ahead: bool,
    /// Bytes that are read ahead after a smaller chunk; `None` chooses them automatically.
    pub(crate) read_ahead_limit: Option<u32>,
    /// Interval at which each stream is read to find damage, seconds; 0 for never.
    pub(crate) scrub_interval_s: u64,
}

/// Limits of memory and disk at which publishers are blocked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Resources {
    /// Stop above this much used memory.
    pub(crate) memory_high: Threshold,
    /// Stop below this much free disk; a share is of the machine's memory.
    pub(crate) disk_free: Threshold,
    /// The memory that shares are of, if it is not the machine's; bytes.
    pub(crate) total_memory: Option<u64>,
}

/// The storage of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Storage {
    /// Messages of fewer bytes are stored with their queue, larger ones once per vhost.
    pub(crate) embed_below: u64,
    /// Entries after which the journal of a queue of version 1 is flushed.
    pub(crate) journal_entries_max: u64,
    /// The form of classic queues that neither an argument nor a policy says anything about.
    pub(crate) default_version: QueueVersion,
    /// Bytes of backlogs in memory, shared by all deep queues.
    pub(crate) backlog_bytes: u64,
    pub(crate) durability: Durability,
}

stdx::named! {
    /// The promise that a confirm of a persistent message makes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) enum Durability {
        /// The message survives loss of power.
        #[default]
        Fsync = "fsync",
        /// The message survives the death of the process, as with RabbitMQ.
        Write = "write",
    }
}

/// The error of a configuration that cannot be used. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{0}: {1}")]
    Syntax(Place, SyntaxError),
    #[error("{place}: unknown key `{key}`; did you mean `{nearest}`?")]
    UnknownKey { place: Place, key: String, nearest: String },
    #[error("{place}: `{key}` cannot be `{value}`: expected {expected}")]
    BadValue { place: Place, key: String, value: String, expected: String },
    /// Settings that cannot be had together.
    #[error("{0}")]
    Contradiction(&'static str),
    /// Variables that keep a node from starting. COMPAT: RabbitMQ's image says so, here on one line.
    #[error(
        "{0} set but deprecated: deprecated environment variables detected. Please use a \
         configuration file instead"
    )]
    RetiredVariables(String),
}

impl ConfigError {
    /// Whether an argument of the program is not a setting at all.
    pub(crate) const fn is_usage(&self) -> bool {
        matches!(self, Self::Syntax(Place::CommandLine, _))
    }
}

/// Something worth a line in the log that does not keep the node from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// RabbitMQ has this key, Leveret does not act on it yet.
    NotBuilt { place: Place, key: String },
    /// RabbitMQ has this key, and here there is nothing to set.
    NoEffect { place: Place, key: String, why: &'static str },
    /// An absolute and a relative limit are set: the absolute one counts.
    BothThresholds(&'static str),
    /// An environment variable without an effect.
    Environment(String),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt { place, key } => {
                write!(f, "{place}: `{key}` has no effect yet: Leveret does not have this option")
            }
            Self::NoEffect { place, key, why } => {
                write!(f, "{place}: `{key}` has no effect: {why}")
            }
            Self::Environment(text) => f.write_str(text),
            Self::BothThresholds(key) => {
                write!(f, "both {key}.absolute and {key}.relative are set; absolute counts")
            }
        }
    }
}

/// A configuration, and everything that is to be said of it.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The configuration, from the settings without an error.
    pub(crate) config: Config,
    pub(crate) warnings: Vec<Warning>,
    /// Errors, empty if a node can use the configuration.
    pub(crate) errors: Vec<ConfigError>,
}

/// The sources of a configuration. Of several settings of one key the last counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'s> {
    /// Files in their order; a directory stands for its `*.conf` files, sorted.
    pub(crate) files: &'s [PathBuf],
    pub(crate) environment: &'s Environment,
    /// Settings in the form `key=value`.
    pub(crate) arguments: &'s [String],
}

/// Reads the configuration.
pub(crate) fn load(sources: Sources<'_>) -> Result<(Config, Vec<Warning>), ConfigError> {
    let Checked { config, warnings, errors } = check(sources);
    errors.into_iter().next().map_or(Ok((config, warnings)), Err)
}

/// Reads the configuration as [`load`] does, with all errors at once: those of the text first.
pub(crate) fn check(sources: Sources<'_>) -> Checked {
    let Sources { files, environment, arguments } = sources;
    let mut errors: Vec<ConfigError> = retired(environment).into_iter().collect();
    let mut settings = Vec::new();
    let advanced = advanced_beside(files).into_iter().chain(environment.advanced.clone());
    for path in files.iter().cloned().chain(advanced) {
        match read(&path) {
            Ok(parsed) => {
                let mut own = Vec::new();
                for line in parsed {
                    let line = line.map_err(|(place, error)| ConfigError::Syntax(place, error));
                    line.map_or_else(|error| errors.push(error), |setting| own.push(setting));
                }
                if is_of_terms(&path) {
                    drop_replaced(&mut settings, &own);
                }
                settings.append(&mut own);
            }
            Err(error) => errors.push(error),
        }
    }
    let mut given = Vec::new();
    for argument in arguments {
        match syntax::parse_argument(argument) {
            Ok(setting) => given.push(setting),
            Err(error) => errors.push(ConfigError::Syntax(Place::CommandLine, error)),
        }
    }
    put_over(&mut settings, environment.settings.clone(), given);
    let mut checked = apply(settings, errors);
    checked.warnings.extend(environment.warnings.iter().cloned().map(Warning::Environment));
    checked
}

/// Drops lists of lines that terms replace. COMPAT: a list of terms replaces the whole list of lines.
fn drop_replaced(settings: &mut Vec<Setting>, terms: &[Setting]) {
    const LISTS: [&[&str]; 6] = [
        &["listeners", "tcp"],
        &["listeners", "ssl"],
        &["stream", "listeners", "tcp"],
        &["stream", "listeners", "ssl"],
        &["auth_mechanisms"],
        &["loopback_users"],
    ];
    let is_of = |setting: &Setting, list: &[&str]| {
        setting.key.len() >= list.len() && setting.key.iter().zip(list).all(|(key, it)| key == it)
    };
    for list in LISTS.into_iter().filter(|list| terms.iter().any(|it| is_of(it, list))) {
        settings.retain(|setting| !is_of(setting, list));
    }
}

fn retired(environment: &Environment) -> Option<ConfigError> {
    let names = environment.retired.join(", ");
    let verb = if environment.retired.len() == 1 { "is" } else { "are" };
    (!names.is_empty()).then(|| ConfigError::RetiredVariables(format!("{names} {verb}")))
}

/// Puts the environment's settings and then the arguments behind those of files. The listener of the
/// environment stands for all of the files, and none is needed beside those of arguments.
fn put_over(settings: &mut Vec<Setting>, mut environment: Vec<Setting>, arguments: Vec<Setting>) {
    let is_listener = |setting: &Setting| matches!(setting.key.as_slice(), [a, b, _] if a == "listeners" && b == "tcp");
    if arguments.iter().any(is_listener) {
        environment.retain(|setting| !is_listener(setting));
    }
    if environment.iter().any(is_listener) {
        settings.retain(|setting| !is_listener(setting));
    }
    settings.extend(environment);
    settings.extend(arguments);
}

/// Files of Erlang terms beside those of lines. COMPAT: they count after all of these.
fn advanced_beside(files: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for file in files.iter().filter(|file| !is_of_terms(file)) {
        let beside = file.with_file_name("advanced.config");
        if beside.is_file() && !found.contains(&beside) {
            found.push(beside);
        }
    }
    found
}

fn is_of_terms(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "config")
}

/// The lines of a file, or of the files of a directory, that are not empty; of a file of terms its settings.
fn read(path: &Path) -> Result<Vec<ParsedLine>, ConfigError> {
    let mut parsed = Vec::new();
    for path in expand(path)? {
        let mut text = String::new();
        let file = File::open(&path).map(|file| file.take(erlang::FILE_BYTES_MAX + 1));
        let n = file.and_then(|mut file| file.read_to_string(&mut text)).and_then(|n| {
            let is_long = n as u64 > erlang::FILE_BYTES_MAX;
            let why = format!("longer than {} bytes", erlang::FILE_BYTES_MAX);
            if is_long { Err(std::io::Error::other(why)) } else { Ok(n) }
        });
        n.map_err(|source| ConfigError::Unreadable { path: path.clone(), source })?;
        parsed.extend(if is_of_terms(&path) {
            erlang::parse_file(&path, &text)
        } else {
            syntax::parse_file(&path, &text)
        });
    }
    Ok(parsed)
}

fn expand(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "conf") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn apply(settings: Vec<Setting>, mut errors: Vec<ConfigError>) -> Checked {
    let mut last = BTreeMap::new();
    let mut warnings = Vec::new();
    for setting in settings {
        match lookup::find(&setting.key) {
            Some(found) => {
                last.insert(found.setting(), (found, setting));
            }
            None if known::is_known(&setting.key) => {
                let (place, key) = (setting.place, setting.key.join("."));
                warnings.push(match known::without_effect(&key) {
                    Some(why) => Warning::NoEffect { place, key, why },
                    None => Warning::NotBuilt { place, key },
                });
            }
            None if is_from_terms(&setting.place) => {
                let (place, key) = (setting.place, setting.key.join("."));
                warnings.push(Warning::NotBuilt { place, key });
            }
            None => {
                let key = setting.key.join(".");
                let nearest = known::nearest(&setting.key);
                errors.push(ConfigError::UnknownKey { place: setting.place, key, nearest });
            }
        }
    }
    let in_effect = in_effect(last.values().map(|(_, setting)| setting));
    let mut draft = Draft::new();
    for (found, setting) in last.into_values() {
        errors.extend(set(&mut draft, &found, setting).err());
    }
    errors.extend(draft.tls.check());
    let mut config = draft.finish(&mut warnings);
    config.settings = in_effect;
    Checked { config, warnings, errors }
}

/// Whether a setting stands in a file of terms: applications may have any, and what is not known is told.
fn is_from_terms(place: &Place) -> bool {
    matches!(place, Place::Line(path, _) if is_of_terms(path))
}

/// The given settings, and the defaults of all others.
fn in_effect<'s>(set: impl Iterator<Item = &'s Setting>) -> Vec<(String, String)> {
    let mut all = BTreeMap::new();
    for option in options::all().filter(|option| !option.default().is_empty()) {
        all.insert(option.key().to_owned(), option.default().to_owned());
    }
    for setting in set {
        all.insert(setting.key.join("."), setting.value.clone());
    }
    for (_, value) in all.iter_mut().filter(|(key, _)| is_secret(key)) {
        "***".clone_into(value);
    }
    all.into_iter().collect()
}

fn is_secret(key: &str) -> bool {
    key.contains("pass") && key != "password_hashing_module"
}

fn set(draft: &mut Draft, found: &Found, setting: Setting) -> Result<(), ConfigError> {
    draft.tls.switch(found.own);
    let is_set = found.option.kind.set(draft, &found.name, &setting.value);
    draft.tls.switch(found.own);
    if is_set {
        return Ok(());
    }
    let key = setting.key.join(".");
    // A password mistyped in a way that makes it invalid is still not shown.
    let value = if is_secret(&key) { "***".to_owned() } else { setting.value };
    let expected = found.option.kind.expects();
    Err(ConfigError::BadValue { place: setting.place, key, value, expected })
}

/// The configuration while settings are applied: what is still a choice between several keys.
#[derive(Debug, Default)]
struct Draft {
    config: Config,
    tcp: ListenersDraft,
    stream_tcp: ListenersDraft,
    tls: TlsDraft,
    no_loopback_users: bool,
    loopback_users: BTreeMap<String, bool>,
    auth_mechanisms: BTreeMap<String, String>,
    tags: BTreeMap<String, bool>,
    definitions: DefinitionsDraft,
    memory_high: Choice,
    disk_free: Choice,
    log: LogDraft,
}

/// The listeners of one protocol.
#[derive(Debug, Default)]
struct ListenersDraft {
    /// Whether it was said that there are none.
    none: bool,
    named: BTreeMap<String, ListenAddress>,
}

impl ListenersDraft {
    /// The listeners in the order of their names; `None` if nothing was said.
    fn finish(self) -> Option<Vec<ListenAddress>> {
        let said = self.none || !self.named.is_empty();
        let named = if self.none { BTreeMap::new() } else { self.named };
        said.then(|| named.into_values().collect())
    }
}

#[derive(Debug, Default)]
struct DefinitionsDraft {
    path: Option<PathBuf>,
    skip_if_unchanged: bool,
}

#[derive(Debug, Default)]
struct Choice {
    relative: Option<f64>,
    absolute: Option<u64>,
}

impl Choice {
    fn finish(
        &self,
        default: Threshold,
        key: &'static str,
        warnings: &mut Vec<Warning>,
    ) -> Threshold {
        match (self.absolute, self.relative) {
            (None, None) => default,
            (None, Some(share)) => Threshold::OfMemory(share),
            (Some(bytes), None) => Threshold::Bytes(bytes),
            (Some(bytes), Some(_)) => {
                warnings.push(Warning::BothThresholds(key));
                Threshold::Bytes(bytes)
            }
        }
    }
}

impl Config {
    /// The configuration of a node that nothing is said to: the defaults in the table of options.
    pub(crate) fn standard() -> Self {
        Draft::of_defaults().finish(&mut Vec::new())
    }
}

impl Draft {
    /// The defaults, where nothing that is still a choice between several keys is chosen.
    fn new() -> Self {
        let mut log = Self::of_defaults().log;
        (log.path, log.journald.fields) = (None, None);
        Self { config: Config::standard(), log, ..Self::default() }
    }

    fn of_defaults() -> Self {
        let mut draft = Self::default();
        for option in options::all().filter(|option| !option.default().is_empty()) {
            assert!(option.kind.set(&mut draft, "default", option.default()), "{}", option.line);
        }
        draft.loopback_users.insert("guest".to_owned(), true);
        draft.tags.insert("administrator".to_owned(), true);
        for (at, mechanism) in ["PLAIN", "AMQPLAIN", "ANONYMOUS"].into_iter().enumerate() {
            draft.auth_mechanisms.insert(at.to_string(), mechanism.to_owned());
        }
        draft
    }

    fn finish(self, warnings: &mut Vec<Warning>) -> Config {
        let mut config = self.config;
        if let Some(tcp) = self.tcp.finish() {
            config.listeners.tcp = tcp;
        }
        config.listeners.stream = self.stream_tcp.finish();
        let metrics = &mut config.http.metrics;
        if metrics.older.port.is_some() {
            metrics.tcp.ip = metrics.older.ip.take();
            metrics.tcp.port = metrics.older.port.take();
        }
        config.access.cert_login = self.tls.finish(&mut config.listeners);
        if self.no_loopback_users {
            config.access.loopback_users = Vec::new();
        } else if !self.loopback_users.is_empty() {
            config.access.loopback_users = chosen(self.loopback_users);
        }
        if !self.auth_mechanisms.is_empty() {
            config.access.auth_mechanisms = self.auth_mechanisms.into_values().collect();
        }
        if !self.tags.is_empty() {
            config.definitions.first_start.tags = chosen(self.tags);
        }
        let DefinitionsDraft { path, skip_if_unchanged } = self.definitions;
        config.definitions.imported =
            path.map(|path| DefinitionsSource { path, skip_if_unchanged });
        let resources = &mut config.resources;
        resources.memory_high =
            self.memory_high.finish(resources.memory_high, "vm_memory_high_watermark", warnings);
        resources.disk_free =
            self.disk_free.finish(resources.disk_free, "disk_free_limit", warnings);
        if let Some(total) = resources.total_memory {
            resources.memory_high = Threshold::Bytes(resources.memory_high.bytes(total));
            resources.disk_free = Threshold::Bytes(resources.disk_free.bytes(total));
        }
        let connection = &mut config.connection;
        let limits = [connection.max_connections, connection.accepted_max.take()];
        connection.max_connections = limits.into_iter().flatten().min();
        config.logging = self.log.finish(config.listeners.tls.of_syslog());
        config
    }
}

fn chosen(flags: BTreeMap<String, bool>) -> Vec<String> {
    flags.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests;
