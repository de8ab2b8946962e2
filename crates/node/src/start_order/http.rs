//! The listener of the HTTP API.

use crate::config::Config;
use anyhow::Context as _;
use auth::LoginThrottle;
use http::{Api, Limits};
use mgmt::{ListenerInfo, Management};
use net::{Clock, ListenAddress};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;

/// The port if nothing was said of one. Nobody has asked for it: with the port in use, as by another node on
/// this machine, the node starts without.
const PORT: u16 = 15_672;
/// Connections the kernel may hold before they are accepted.
const BACKLOG: u32 = 1_024;

/// Binds it, if there is to be one.
pub(super) fn listen(config: &Config) -> anyhow::Result<Option<TcpListener>> {
    let http = &config.http;
    if !http.is_enabled {
        return Ok(None);
    }
    let port = http.port.unwrap_or(PORT);
    let address = match &http.ip {
        None => ListenAddress::Every(port),
        Some(ip) => {
            let ip: IpAddr = ip
                .parse()
                .with_context(|| format!("`management.tcp.ip = {ip}` is no IP address"))?;
            ListenAddress::One(SocketAddr::new(ip, port))
        }
    };
    match address.listen(BACKLOG) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if http.port.is_none() => {
            tracing::warn!(
                "no HTTP API: cannot listen on {address}: {error}; `management.tcp.port` says where \
                 else, `management.enabled = false` that there is none"
            );
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("cannot listen on {address}")),
    }
}

/// As listings show it.
pub(super) fn info(listener: &TcpListener) -> Option<ListenerInfo> {
    let address = listener.local_addr().ok()?;
    Some(ListenerInfo { protocol: "http", purpose: "HTTP API", address })
}

/// Serves it until `until` resolves.
pub(super) fn start(
    listener: TcpListener,
    config: &Config,
    management: Arc<Management>,
    (throttle, clock): (Arc<LoginThrottle>, Clock),
    until: impl Future<Output = ()> + Send + 'static,
) {
    let limits = Limits {
        body_bytes_max: config.http.body_bytes_max,
        connections_max: config.connection.max_connections,
    };
    let api = Api::new(management, throttle, limits, Box::new(move || clock.now()));
    tokio::spawn(http::serve(listener, api, until));
}
