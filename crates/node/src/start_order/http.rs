//! The listeners of the HTTP API and of Prometheus.

use crate::config::Http;
use anyhow::Context as _;
use http::Api;
use mgmt::ListenerInfo;
use net::ListenAddress;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// The ports if nothing was said of one. Nobody has asked for them: with one in use, as by another node on
/// this machine, the node starts without.
const API_PORT: u16 = 15_672;
const METRICS_PORT: u16 = 15_692;
/// Connections the kernel may hold before they are accepted.
const BACKLOG: u32 = 1_024;

/// Sockets that are listened on; none where there is to be none.
pub(super) struct Listeners {
    api: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

impl Listeners {
    pub(super) fn bind(Http { is_enabled, port, ip, metrics, .. }: &Http) -> anyhow::Result<Self> {
        let api = listen("management", *is_enabled, (ip.as_deref(), *port, API_PORT))?;
        let address = (metrics.ip.as_deref(), metrics.port, METRICS_PORT);
        Ok(Self { api, metrics: listen("prometheus", metrics.is_enabled, address)? })
    }

    /// As listings show them.
    pub(super) fn infos(&self) -> impl Iterator<Item = ListenerInfo> {
        let of = |listener: &Option<TcpListener>, protocol, purpose| {
            let address = listener.as_ref()?.local_addr().ok()?;
            Some(ListenerInfo { protocol, purpose, address })
        };
        let api = of(&self.api, "http", "HTTP API");
        api.into_iter().chain(of(
            &self.metrics,
            "http/prometheus",
            "Prometheus exporter API over HTTP",
        ))
    }

    /// Serves them until told to end.
    pub(super) fn start(self, api: Arc<Api>) -> Arc<Notify> {
        let ending = Arc::new(Notify::new());
        let until = |ending: &Arc<Notify>| {
            let ending = Arc::clone(ending);
            async move { ending.notified().await }
        };
        if let Some(listener) = self.api {
            tokio::spawn(http::serve(listener, Arc::clone(&api), until(&ending)));
        }
        if let Some(listener) = self.metrics {
            tokio::spawn(http::serve_metrics(listener, api, until(&ending)));
        }
        ending
    }
}

fn listen(
    key: &str,
    is_enabled: bool,
    (ip, port, usual): (Option<&str>, Option<u16>, u16),
) -> anyhow::Result<Option<TcpListener>> {
    if !is_enabled {
        return Ok(None);
    }
    let number = port.unwrap_or(usual);
    let address = match ip {
        None => ListenAddress::Every(number),
        Some(ip) => {
            let ip: IpAddr =
                ip.parse().with_context(|| format!("`{key}.tcp.ip = {ip}` is no IP address"))?;
            ListenAddress::One(SocketAddr::new(ip, number))
        }
    };
    match address.listen(BACKLOG) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if port.is_none() => {
            tracing::warn!(
                "no listener on {address}: {error}; `{key}.tcp.port` says where else, \
                 `{key}.enabled = false` that there is none"
            );
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("cannot listen on {address}")),
    }
}
