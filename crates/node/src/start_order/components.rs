//! From configuration to a broker: the data, what a first start creates, who may log in.

use crate::config::{Config, Durability, Otel, Validator};
use crate::logging;
use crate::logging::{Log, LogExchange};
use crate::resources::ResourceMonitor;
use crate::wall;
use anyhow::Context as _;
use auth::{AnonymousLogin, Authenticator, Rules};
use broker::{
    Broker, BrokerOptions, Found, Interceptors, Limits, OpenError, Overwrite, PagerOptions,
    ReadAhead, StorageOptions, StreamDurability, StreamOptions, UndoOptions,
};
use ctl::environment;
use log::{DataDir, NodeId, NodeIdentity, WalOptions};
use meta::{Command, NodeLimits, PasswordHash, Pattern, VhostDefaults, VhostMetadata};
use mgmt::{PasswordRule, Resources as _};
use segments::ReservedDisk;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};
use stdx::{MonotonicMs, UnixMs};
use tokio::sync::mpsc;

const CANNOT_START: &str = "cannot start on this data";
/// The advice about damage.
const SEE_REPAIR: &str = "see 'leveret repair --dry-run'";

/// Opens the broker on the data directory. What makes its log fail later is told to `failed`.
pub(crate) fn open_broker(
    config: &Config,
    data_dir: &DataDir,
    reserved: &ReservedDisk,
    monitor: &ResourceMonitor,
    failed: mpsc::UnboundedSender<String>,
) -> anyhow::Result<(Arc<Broker>, NodeId)> {
    let options = WalOptions {
        durability: match config.storage.durability {
            Durability::Fsync => log::Durability::Sync,
            Durability::Write => log::Durability::Write,
        },
        on_failure: Some(Box::new(move |error| {
            tracing::error!("the log failed, nothing is confirmed any more: {error}");
            drop(failed.send(error.to_string()));
        })),
        ..WalOptions::default()
    };
    let bytes = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let storage = StorageOptions {
        pager: PagerOptions {
            budget_bytes: bytes(config.storage.backlog_bytes),
            ..PagerOptions::default()
        },
        embed_below_bytes: bytes(config.storage.embed_below),
        journal_operations_max: config.storage.journal_entries_max,
        default_version: config.storage.default_version,
        clock: broker::Clock::Read { unix_ms, monotonic_ms },
        ..StorageOptions::default()
    };
    let disk = data_dir.disk();
    let found = Found::read(&disk, &options).map_err(explained)?;
    tracing::info!(target: logging::NOT_TO_CONSOLE, "data directory of node {}", found.node());
    data_dir.mark().context(CANNOT_START)?;
    // The reserve is filled only once it is clear that this node writes here.
    reserved.refill(0);
    let storage = StorageOptions { is_short: monitor.is_disk_short(), ..storage };
    let settings = BrokerOptions {
        streams: stream_options(config, monitor.descriptors().total_limit),
        storage,
        limits: limits(config),
        interceptors: interceptors(config),
        vhost_defaults: vhost_defaults(config),
        undo: UndoOptions {
            window_ms: config.http.undo_window_s * 1_000,
            ..UndoOptions::default()
        },
        homes: broker::QueueHomes::default(),
    };
    let node = found.node();
    let started = broker::start(found, disk, options, settings).map_err(explained);
    let broker = started?;
    let NodeIdentity { cluster, number, boot, .. } = broker.figures().identity();
    tracing::info!(
        target: logging::NOT_TO_CONSOLE,
        "start {boot} of node {} in cluster {:032x}", number.0, cluster.0
    );
    Ok((broker, node))
}

/// The error of a start, with the way out if there may be one.
fn explained(error: OpenError) -> anyhow::Error {
    let is_damage = error.is_damage();
    let error = anyhow::Error::new(error).context(CANNOT_START);
    if is_damage { error.context(SEE_REPAIR) } else { error }
}

/// COMPAT: the time that consumers of quorum queues have where nobody says another.
const QUORUM_TIMEOUT_MS: u64 = 30 * 60 * 1000;

/// The share of file descriptors that streams may have open at most: one in so many.
const STREAMS_SHARE: u64 = 4;

fn stream_options(config: &Config, n_descriptors: u64) -> StreamOptions {
    let streams = &config.streams;
    let defaults = StreamOptions::default();
    let share = usize::try_from(n_descriptors / STREAMS_SHARE).unwrap_or(usize::MAX);
    StreamOptions {
        durability: match streams.durability {
            Durability::Fsync => StreamDurability::Fsync,
            Durability::Write => StreamDurability::Write,
        },
        read_ahead: match streams.read_ahead_limit {
            _ if !streams.read_ahead => ReadAhead::Off,
            Some(bytes) => ReadAhead::Limit(bytes),
            None => ReadAhead::Adaptive,
        },
        open_files_max: defaults.open_files_max.min(share),
        sub_batch_bytes_max: streams.sub_batch_bytes_max,
        scrub_interval_ms: streams.scrub_interval_s.saturating_mul(1_000),
    }
}

fn interceptors(config: &Config) -> Interceptors {
    let overwrite = |yes| if yes { Overwrite::Yes } else { Overwrite::No };
    Interceptors {
        timestamp: config.messages.timestamp.map(overwrite),
        routing_node: config.messages.routing_node.map(overwrite),
        sent_time: config.messages.sent_time,
        new_traces: new_traces(&config.messages.otel),
    }
}

/// The share of new traces, in 65536ths.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is at most 1")]
fn new_traces(otel: &Otel) -> u32 {
    if otel.endpoint.is_some() { (otel.sample_new.min(1.0) * 65_536.0) as u32 } else { 0 }
}

/// Has the broker tell of events, if that is wanted.
pub(crate) async fn tell_events(config: &Config, broker: &Broker) -> anyhow::Result<()> {
    let Some(vhost) = &config.messages.event_vhost else { return Ok(()) };
    let told = broker.events().tell_in(vhost).await;
    told.with_context(|| format!("cannot tell events in the virtual host '{vhost}'"))
}

/// Has the log published to an exchange, if that is wanted.
pub(crate) async fn publish_log(
    config: &Config,
    log: &Log,
    broker: &Arc<Broker>,
) -> anyhow::Result<Option<LogExchange>> {
    let Some(lines) = log.lines() else { return Ok(None) };
    let exchange = LogExchange::start(lines, broker, &config.definitions.first_start.vhost).await;
    exchange.map(Some).context("cannot start the thread that publishes the log")
}

fn limits(config: &Config) -> Limits {
    let of = &config.limits;
    Limits {
        definitions: NodeLimits {
            vhosts: of.vhosts,
            queues: of.queues,
            exchanges: of.exchanges,
            no_transient_queues: of.permits.get("transient_nonexcl_queues") == Some(&false),
            no_local_random: of.no_local_random,
            types: of.queue_types,
        },
        channels: of.channels,
        consumers_per_channel: of.consumers,
        super_stream_partitions: Some(config.streams.partitions_max),
        default_prefetch: of.default_prefetch,
        channel_prefetch: of.permits.get("global_qos") == Some(&true),
        channel_has_default_prefetch: of.channel_has_default_prefetch,
        consumer_timeout_ms: config.messages.consumer_timeout_ms.flatten(),
        quorum_timeout_ms: config.messages.consumer_timeout_ms.unwrap_or(Some(QUORUM_TIMEOUT_MS)),
        node: environment::node_name(&environment::of_process),
    }
}

/// Defaults of new virtual hosts, with the passwords of their users.
fn vhost_defaults(config: &Config) -> VhostDefaults {
    let mut defaults = config.definitions.vhost_defaults.clone();
    for (name, user) in &mut defaults.users {
        if let Some(password) = config.definitions.default_passwords.get(name) {
            user.password = PasswordHash::by(config.access.hashing, random_salt(), password);
        }
    }
    defaults
}

/// The time of day.
fn unix_ms() -> UnixMs {
    UnixMs::from_raw(u64::try_from(wall::since_1970().as_millis()).unwrap_or(u64::MAX))
}

/// The clock of connections, started when it is first asked for.
pub(crate) fn clock() -> net::Clock {
    static CLOCK: LazyLock<net::Clock> = LazyLock::new(net::Clock::start);
    *CLOCK
}

fn monotonic_ms() -> MonotonicMs {
    clock().now().monotonic_ms
}

/// Creates the default virtual host and user on an empty data directory.
pub(crate) async fn create_defaults(broker: &Broker, config: &Config) -> anyhow::Result<()> {
    if !broker.is_new() {
        return Ok(());
    }
    let first = &config.definitions.first_start;
    let (vhost, user) = (first.vhost.as_str(), first.user.as_str());
    let metadata = VhostMetadata {
        description: "Default virtual host".to_owned(),
        ..VhostMetadata::default()
    };
    let commands = [
        Command::CreateVhost { vhost: vhost.into(), metadata },
        Command::CreateUser {
            user: user.into(),
            password: PasswordHash::by(config.access.hashing, random_salt(), &first.pass),
            tags: first.tags.iter().map(|tag| tag.as_str().into()).collect(),
        },
        Command::SetPermissions {
            user: user.into(),
            vhost: vhost.into(),
            configure: first.configure.clone(),
            write: first.write.clone(),
            read: first.read.clone(),
        },
    ];
    broker.changes().apply_first(&commands).await.context("cannot create the default user")
}

/// Gives the cluster the name that is configured; without one it keeps what operators have called it.
pub(crate) async fn name_cluster(broker: &Broker, config: &Config) -> anyhow::Result<()> {
    let Some(name) = &config.definitions.cluster_name else { return Ok(()) };
    if broker.view().meta.global_parameters().cluster_name().as_ref() == Some(name) {
        return Ok(());
    }
    set_cluster_name(broker, name).await
}

/// Gives the cluster this name.
pub(super) async fn set_cluster_name(broker: &Broker, name: &str) -> anyhow::Result<()> {
    let value = meta::Json::parse(&serde_json::Value::from(name).to_string())?;
    let name = meta::CLUSTER_NAME.into();
    let change = broker.apply_definition(Command::SetGlobalParameter { name, value });
    change.await.map(|_| ()).context("cannot name the cluster")
}

/// A password salt. The standard hasher's keys come from the operating system's random source.
fn random_salt() -> meta::Salt {
    let [a, b, c, d, ..] = RandomState::new().hash_one("salt").to_le_bytes();
    [a, b, c, d]
}

/// The authenticator, as configured.
pub(crate) fn authenticator(config: &Config) -> Authenticator {
    let access = &config.access;
    Authenticator::new(Rules {
        loopback_users: access.loopback_users.clone(),
        anonymous: access.anonymous_user.as_ref().map(|user| AnonymousLogin {
            user: user.clone(),
            password: access.anonymous_pass.clone(),
        }),
    })
}

/// The rule for new passwords.
pub(crate) fn password_rule(config: &Config) -> anyhow::Result<PasswordRule> {
    let passwords = &config.access.passwords;
    Ok(match passwords.validator {
        Validator::Anything => PasswordRule::Anything,
        Validator::MinLength => PasswordRule::MinLength(passwords.min_length),
        Validator::Pattern => PasswordRule::Matches(Pattern::new(&passwords.pattern)?),
    })
}
