//! The listeners of clients, each with the settings of its protocols' fronts.

use super::{http, tls_context};
use crate::config::{Advertised, Config};
use anyhow::Context as _;
use ctl::environment;
use front_amqp091::{Mechanism, OutboxBudget, Settings};
use net::{ClosedListener, ListenAddress, Listener, Protocol, Service};
use session::ClientTotals;
use std::sync::Arc;

/// The listener of the stream protocol where nothing is said of one. Nobody has asked for it: with the port
/// in use, as by another node on this machine, the node starts without.
const STREAM_ADDRESS: ListenAddress = ListenAddress::Every(5552);

/// The listeners of clients before the node is ready. Those of a node that waits for others are closed: its
/// clients are to find another node at once.
pub(super) struct ClientListeners {
    open: Vec<Listener>,
    closed: Vec<ClosedListener>,
}

impl ClientListeners {
    pub(super) fn new(all: Vec<Listener>, is_closed: bool) -> Self {
        if is_closed {
            let closed = all.into_iter().map(Listener::close).collect();
            return Self { open: Vec::new(), closed };
        }
        Self { open: all, closed: Vec::new() }
    }

    /// All of them, open.
    pub(super) fn open(self) -> anyhow::Result<Vec<Listener>> {
        let Self { mut open, closed } = self;
        for closed in closed {
            let opened = closed.open();
            open.push(opened.with_context(|| format!("cannot listen on {}", closed.address))?);
        }
        Ok(open)
    }
}

/// Binds all listeners of clients; returns also the certificates that TLS listeners share, if there are any.
pub(super) fn listen(
    config: &Config,
    client_totals: &ClientTotals,
) -> anyhow::Result<(Vec<Listener>, Option<Arc<tls::Context>>)> {
    let listeners = &config.listeners;
    let of_stream = listeners.stream.as_deref().unwrap_or_default();
    let conversions = Arc::clone(&client_totals.conversions);
    let budget = Arc::new(OutboxBudget::counting(conversions));
    let settings = Settings { budget, ..front_settings(config) };
    let services = |tls| services(config, &settings, &client_totals.streams, tls);
    let [amqp091, stream] = services(None);
    let mut wanted = vec![(listeners.tcp.as_slice(), amqp091), (of_stream, stream.clone())];
    let has_tls = !listeners.ssl.is_empty() || !listeners.stream_ssl.is_empty();
    let has_tls = has_tls || http::shares_certificates(config);
    let tls = has_tls.then(|| tls_context(&listeners.tls.shared)).transpose()?;
    if let Some(tls) = &tls {
        let [amqp091, stream] = services(Some(tls));
        wanted.extend([(listeners.ssl.as_slice(), amqp091), (&listeners.stream_ssl, stream)]);
    }
    let bind = |address, service: &Service| {
        Listener::bind(address, listeners.backlog, service.clone())
            .with_context(|| format!("cannot listen on {address}"))
    };
    let all = wanted
        .iter()
        .flat_map(|(addresses, service)| addresses.iter().map(move |address| (*address, service)));
    let mut bound: Vec<Listener> =
        all.map(|(address, service)| bind(address, service)).collect::<Result<_, _>>()?;
    if listeners.stream.is_none() {
        match Listener::bind(STREAM_ADDRESS, listeners.backlog, stream) {
            Ok(listener) => bound.push(listener),
            Err(error) => tracing::warn!(
                "stream protocol is off: cannot listen on {STREAM_ADDRESS}: {error}; \
                 set `stream.listeners.tcp` to another address or `none`"
            ),
        }
    }
    Ok((bound, tls))
}

/// The services of AMQP and the stream protocol, with TLS or without.
fn services(
    config: &Config,
    settings: &Settings,
    stream_totals: &Arc<session::StreamTotals>,
    tls: Option<&Arc<tls::Context>>,
) -> [Service; 2] {
    let mut amqp091 = settings.clone();
    let mut advertised = config.streams.advertised.clone();
    if tls.is_some() {
        let Advertised { host, port } = config.streams.advertised_tls.clone();
        advertised = Advertised { host: host.or(advertised.host), port };
    } else if !config.listeners.proxy_protocol {
        // COMPAT: without TLS no client has a certificate to log in with.
        amqp091.mechanisms.retain(|mechanism| *mechanism != Mechanism::External);
    }
    let mut stream = stream_settings(config, &amqp091, &advertised);
    stream.totals = Arc::clone(stream_totals);
    let amqp10 = Protocol::Amqp10(Arc::new(amqp10_settings(config, &amqp091)));
    let protocols = [
        (Protocol::Amqp091(Arc::new(amqp091)), Some(amqp10)),
        (Protocol::Stream(Arc::new(stream)), None),
    ];
    protocols.map(|(protocol, other)| Service { protocol, other, tls: tls.cloned() })
}

/// The mechanisms that clients are offered, whatever their protocol.
fn mechanisms(config: &Config) -> Vec<Mechanism> {
    let known = config.access.auth_mechanisms.iter().filter_map(|name| Mechanism::from_name(name));
    let offered = |mechanism: &Mechanism| {
        *mechanism != Mechanism::Anonymous || config.access.anonymous_user.is_some()
    };
    known.filter(offered).collect()
}

/// Settings of the stream protocol's front; connections share the memory of `others`.
fn stream_settings(
    config: &Config,
    others: &Settings,
    advertised: &Advertised,
) -> front_stream::Settings {
    let streams = &config.streams;
    // COMPAT: the host as the node's name has it.
    let host = || {
        let node = environment::node_name(&environment::of_process);
        node.split_once('@').map_or_else(|| node.clone(), |(_, host)| host.to_owned())
    };
    front_stream::Settings {
        cluster_name: others.cluster_name.clone(),
        mechanisms: others.mechanisms.clone(),
        frame_max: streams.frame_max,
        initial_frame_max: streams.initial_frame_max,
        heartbeat_s: streams.heartbeat_s,
        advertised_host: advertised.host.clone().unwrap_or_else(host),
        advertised_port: advertised.port,
        max_connections: streams.max_connections,
        handshake_timeout_ms: others.handshake_timeout_ms,
        budget: Arc::clone(&others.budget),
        ..front_stream::Settings::default()
    }
}

/// Settings of the AMQP 1.0 front, on the ports of AMQP 0-9-1.
fn amqp10_settings(config: &Config, others: &Settings) -> front_amqp10::ConnectionSettings {
    let limits = &config.connection;
    front_amqp10::ConnectionSettings {
        node_name: others.cluster_name.clone(),
        mechanisms: others.mechanisms.clone(),
        capabilities: vec![
            front_amqp10::LINK_PAIR,
            front_amqp10::ANONYMOUS_RELAY,
            front_amqp10::SHARED_SUBSCRIPTIONS,
            front_amqp10::SOLE_CONNECTION,
        ],
        default_vhost: config.definitions.first_start.vhost.clone(),
        permits_address_v1: config.limits.permits.get("amqp_address_v1") == Some(&true),
        frame_bytes_max: if limits.frame_max == 0 { u32::MAX } else { limits.frame_max },
        message_bytes_max: limits.max_message_size,
        silence_ms_max: u32::from(limits.heartbeat_s) * 1_000,
        sessions_max: limits.sessions_max,
        links_per_session_max: limits.links_max,
        handshake_timeout_ms: others.handshake_timeout_ms,
        budget: Arc::clone(&others.budget),
    }
}

/// Settings of the AMQP 0-9-1 front.
fn front_settings(config: &Config) -> Settings {
    let limits = &config.connection;
    let settings = Settings::default();
    Settings {
        cluster_name: environment::node_name(&environment::of_process),
        mechanisms: mechanisms(config),
        channel_max: limits.channel_max,
        frame_max: limits.frame_max,
        initial_frame_max: limits.initial_frame_max,
        heartbeat_s: limits.heartbeat_s,
        message_bytes_max: limits.max_message_size,
        immediate: limits.immediate,
        handshake_timeout_ms: limits.handshake_timeout_ms.unwrap_or(u64::MAX),
        ..settings
    }
}
