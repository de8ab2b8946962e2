//! Connections with other nodes: the distribution port, the cookie, the certificates.
//!
//! A node alone listens if its configuration says something of other nodes, or a cookie is there.

use super::{components, tls_context};
use crate::config::{Config, Distribution};
use anyhow::Context as _;
use ctl::environment;
use net::peer::{COOKIE_FILE, PeerTransport, load_cookie};
use net::{ListenAddress, Timers};
use peer::PeerCookie;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;

/// COMPAT: the port that other nodes connect to where nothing is said of one.
pub(super) const DISTRIBUTION_PORT: u16 = 25_672;
/// Connections the kernel may hold before they are accepted.
const BACKLOG: u32 = 1_024;

/// The socket of the distribution port, and what is needed to speak over it.
pub(super) struct DistributionPort {
    listener: TcpListener,
    pub(super) secrets: PeerSecrets,
}

/// The secrets by which nodes know each other.
pub(super) struct PeerSecrets {
    cookie: PeerCookie,
    pub(super) tls: Option<Arc<tls::Context>>,
}

/// Listens for other nodes, if the configuration or a cookie asks for it.
pub(super) fn listen(config: &Config, data_dir: &Path) -> anyhow::Result<Option<DistributionPort>> {
    let wanted = &config.listeners.distribution;
    let has_cookie = given_cookie().is_some() || data_dir.join(COOKIE_FILE).exists();
    let is_configured = wanted.is_configured();
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
    Ok(Some(DistributionPort { listener, secrets: PeerSecrets::load(wanted, data_dir)? }))
}

fn given_cookie() -> Option<String> {
    environment::of_process("RABBITMQ_ERLANG_COOKIE")
}

impl DistributionPort {
    /// The socket, and the means of connecting.
    pub(super) fn into_parts(self, timers: &Timers) -> (TcpListener, PeerTransport) {
        (self.listener, self.secrets.transport(timers))
    }
}

impl PeerSecrets {
    /// Reads them. A cookie is made if there is none.
    pub(super) fn load(settings: &Distribution, data_dir: &Path) -> anyhow::Result<Self> {
        let cookie = load_cookie(data_dir, given_cookie().as_deref())?;
        let tls = settings.tls.as_ref().map(tls_context).transpose()?;
        Ok(Self { cookie, tls })
    }

    /// The means of connecting to other nodes.
    pub(super) fn transport(self, timers: &Timers) -> PeerTransport {
        let Self { cookie, tls } = self;
        PeerTransport { cookie, tls, clock: components::clock(), timers: timers.clone() }
    }
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
