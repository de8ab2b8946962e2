//! Connections with other nodes: the distribution port, the cookie, the certificates.
//!
//! A node alone listens if its configuration says something of other nodes, or a cookie is there. It knows no
//! members yet: whoever connects is told why it is refused, and tools are not served.

use super::tls_context;
use crate::config::{Config, Distribution};
use anyhow::Context as _;
use broker::{Alarm, Broker};
use ctl::environment;
use member::{MemberEvent, Membership, MembershipOptions, PeerConnection, PeerInput, PulseHealth};
use net::peer::{
    COOKIE_FILE, PeerHandler, PeerService, PeerServiceOptions, PeerTransport, PeerTunnel,
    load_cookie,
};
use net::{Clock, ListenAddress, Server, Timers};
use peer::{LinkLimits, PeerCookie, PeerHello, PulseAlarms, SpokenRange};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpListener;

/// COMPAT: the port that other nodes connect to where nothing is said of one.
const DISTRIBUTION_PORT: u16 = 25_672;
/// Connections the kernel may hold before they are accepted.
const BACKLOG: u32 = 1_024;
/// The levels of a cluster's commands and formats that this version supports.
const LEVELS: SpokenRange = SpokenRange { min: 0, max: 0 };
/// The limits of a link to another node.
const LINK_LIMITS: LinkLimits = LinkLimits { room_bytes: 8 << 20, bytes_max: 256 << 20 };

/// The socket of the distribution port, and what is needed to speak over it.
pub(super) struct DistributionPort {
    listener: TcpListener,
    cookie: PeerCookie,
    pub(super) tls: Option<Arc<tls::Context>>,
}

/// Listens for other nodes, if the configuration or a cookie asks for it.
pub(super) fn listen(config: &Config, data_dir: &Path) -> anyhow::Result<Option<DistributionPort>> {
    let wanted = &config.listeners.distribution;
    let given = environment::of_process("RABBITMQ_ERLANG_COOKIE");
    let has_cookie = given.is_some() || data_dir.join(COOKIE_FILE).exists();
    let is_configured = *wanted != Distribution::default();
    if !is_configured && !has_cookie {
        return Ok(None);
    }
    let address = address(wanted)?;
    let listener = match address.listen(BACKLOG) {
        Ok(listener) => listener,
        Err(error) if !is_configured => {
            tracing::warn!(
                "other nodes cannot connect: cannot listen on {address}: {error}; set \
                 `distribution.listener.port_range.min` to another port"
            );
            return Ok(None);
        }
        Err(error) => return Err(error).with_context(|| format!("cannot listen on {address}")),
    };
    let cookie = load_cookie(data_dir, given.as_deref())?;
    let tls = wanted.tls.as_ref().map(tls_context).transpose()?;
    Ok(Some(DistributionPort { listener, cookie, tls }))
}

/// The address of the distribution port.
pub(super) fn address(wanted: &Distribution) -> anyhow::Result<ListenAddress> {
    let port = wanted.port.unwrap_or(DISTRIBUTION_PORT);
    let Some(ip) = &wanted.interface else { return Ok(ListenAddress::Every(port)) };
    let parsed: IpAddr = ip
        .parse()
        .with_context(|| format!("`distribution.listener.interface = {ip}` is no IP address"))?;
    Ok(ListenAddress::One(SocketAddr::new(parsed, port)))
}

/// Begins to serve other nodes, if there is a port for them.
pub(super) fn start(
    port: Option<DistributionPort>,
    broker: &Arc<Broker>,
    server: &Server,
    (clock, timers): (Clock, Timers),
) -> anyhow::Result<Option<PeerService>> {
    let Some(DistributionPort { listener, cookie, tls }) = port else { return Ok(None) };
    if let Ok(address) = listener.local_addr() {
        tracing::info!("listening for other nodes on {address}");
    }
    let me = broker.figures().identity().clone();
    let membership = Membership::new(MembershipOptions { me, levels: LEVELS, limits: LINK_LIMITS });
    let options = PeerServiceOptions {
        listener: Some(listener),
        transport: PeerTransport { cookie, tls, clock, timers },
        admission: server.admission(),
    };
    let host = Arc::new(LoneNode(Arc::clone(broker)));
    let started = PeerService::start(options, Arc::new(membership), host);
    started.map(Some).context("cannot start threads")
}

/// Ends connections with other nodes.
pub(super) async fn stop(service: Option<PeerService>) {
    if let Some(service) = service {
        service.stop().await;
    }
}

/// The host of a node without members.
#[derive(Debug)]
struct LoneNode(Arc<Broker>);

impl PeerHandler for LoneNode {
    fn receive(&self, _connection: PeerConnection, inputs: &mut Vec<PeerInput>) {
        inputs.clear();
    }

    fn poll_room(&self, _connection: PeerConnection, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn events(&self, _events: Vec<MemberEvent>) {}

    fn health(&self) -> PulseHealth {
        let [memory, disk] = [Alarm::Memory, Alarm::Disk].map(|alarm| self.0.alarms.is_on(alarm));
        PulseHealth { alarms: PulseAlarms { memory, disk }, ..PulseHealth::default() }
    }

    fn tunnel(&self, peer: PeerHello, _tunnel: PeerTunnel) {
        tracing::info!(
            "{} has connected: requests of tools are not served here",
            peer.identity.name
        );
    }
}
