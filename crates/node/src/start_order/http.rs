//! The listeners of the HTTP API and of Prometheus.

use crate::config::{Config, HttpAddress, HttpListeners};
use anyhow::Context as _;
use http::{Api, IsTold, Listener};
use mgmt::ListenerInfo;
use net::{ListenAddress, Server};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// The two that listen: beginning of their keys, usual ports, names and purpose in listings.
struct Kind {
    key: &'static str,
    /// Nobody has asked for this one: with it in use, as by another node on this machine, the node starts
    /// without.
    port: u16,
    tls_port: u16,
    names: [&'static str; 2],
    purpose: &'static str,
}

/// In the order of the places that their settings of TLS have.
const KINDS: [Kind; 2] = [
    Kind {
        key: "management",
        port: 15_672,
        tls_port: 15_671,
        names: ["http", "https"],
        purpose: "HTTP API",
    },
    Kind {
        key: "prometheus",
        port: 15_692,
        tls_port: 15_691,
        names: ["http/prometheus", "https/prometheus"],
        purpose: "Prometheus exporter API over HTTP",
    },
];

/// Sockets that are listened on, of each kind, and the certificates that are theirs alone.
#[derive(Default)]
pub(super) struct Listeners {
    of_kinds: [Vec<Listener>; KINDS.len()],
    pub(super) own_tls: Vec<Arc<tls::Context>>,
}

impl Listeners {
    /// `shared` are the certificates of those that name none.
    pub(super) fn bind(
        config: &Config,
        shared: Option<&Arc<tls::Context>>,
    ) -> anyhow::Result<Self> {
        let mut bound = Self::default();
        let kinds = KINDS.iter().zip(wanted(config));
        for ((kind, wanted), listeners) in kinds.zip(&mut bound.of_kinds) {
            let own;
            (*listeners, own) = bind(kind, wanted, shared)?;
            bound.own_tls.extend(own);
        }
        Ok(bound)
    }

    /// As listings show them.
    pub(super) fn infos(&self) -> impl Iterator<Item = ListenerInfo> {
        let of = |(kind, listeners): (&'static Kind, &Vec<Listener>)| {
            let info = |Listener { socket, tls, .. }: &Listener| {
                let [plain, encrypted] = kind.names;
                let protocol = if tls.is_some() { encrypted } else { plain };
                let address = socket.local_addr().ok()?;
                Some(ListenerInfo { protocol, purpose: kind.purpose, address })
            };
            listeners.iter().filter_map(info).collect::<Vec<_>>()
        };
        KINDS.iter().zip(&self.of_kinds).flat_map(of)
    }

    /// Serves them until told to end.
    pub(super) fn start(self, api: Arc<Api>, server: &Arc<Server>) -> Arc<Notify> {
        let server = Arc::clone(server);
        let is_told: IsTold = Arc::new(move |client| server.tells_of_handshake(client));
        let [of_api, of_metrics] = self.of_kinds;
        let ending = Arc::new(Notify::new());
        let until = |ending: &Arc<Notify>| {
            let ending = Arc::clone(ending);
            async move { ending.notified().await }
        };
        if !of_api.is_empty() {
            let listeners = (of_api, Arc::clone(&is_told));
            tokio::spawn(http::serve(listeners, Arc::clone(&api), until(&ending)));
        }
        if !of_metrics.is_empty() {
            let listeners = (of_metrics, is_told);
            tokio::spawn(http::serve_metrics(listeners, api, until(&ending)));
        }
        ending
    }
}

/// The listeners that are wanted, with settings of TLS that are theirs alone.
fn wanted(config: &Config) -> [(&HttpListeners, Option<&tls::Options>); KINDS.len()] {
    let [of_api, of_metrics, _] = &config.listeners.tls.own;
    [(&config.http.api, of_api.as_ref()), (&config.http.metrics, of_metrics.as_ref())]
}

/// Whether there is one with TLS that has no settings of its own.
pub(super) fn shares_certificates(config: &Config) -> bool {
    let shares = |(wanted, own): &(&HttpListeners, Option<_>)| {
        wanted.is_enabled && own.is_none() && wanted.ssl != HttpAddress::default()
    };
    wanted(config).iter().any(shares)
}

/// COMPAT: with TLS there is no port without, unless something is said of it.
fn bind(
    kind: &Kind,
    (HttpListeners { is_enabled, tcp, ssl }, own): (&HttpListeners, Option<&tls::Options>),
    shared: Option<&Arc<tls::Context>>,
) -> anyhow::Result<(Vec<Listener>, Option<Arc<tls::Context>>)> {
    if !is_enabled {
        return Ok((Vec::new(), None));
    }
    let own = own.map(super::tls_context).transpose()?;
    let has_tls = own.is_some() || *ssl != HttpAddress::default();
    let mut listeners = Vec::new();
    if let Some(tls) = own.as_ref().or(shared).filter(|_| has_tls) {
        let HttpAddress { ip, port, limits } = ssl;
        let address = address(&format!("{}.ssl", kind.key), ip, port.unwrap_or(kind.tls_port))?;
        let socket = address
            .listen(limits.backlog)
            .with_context(|| format!("cannot listen on {address}"))?;
        listeners.push(Listener { socket, tls: Some(Arc::clone(tls)), limits: *limits });
    }
    if !has_tls || *tcp != HttpAddress::default() {
        let limits = tcp.limits;
        listeners.extend(listen(kind, tcp)?.map(|socket| Listener { socket, tls: None, limits }));
    }
    Ok((listeners, own))
}

fn address(key: &str, ip: &Option<String>, port: u16) -> anyhow::Result<ListenAddress> {
    let Some(ip) = ip else { return Ok(ListenAddress::Every(port)) };
    let ip: IpAddr = ip.parse().with_context(|| format!("`{key}.ip = {ip}` is no IP address"))?;
    Ok(ListenAddress::One(SocketAddr::new(ip, port)))
}

fn listen(
    Kind { key, port: usual, .. }: &Kind,
    HttpAddress { ip, port, limits }: &HttpAddress,
) -> anyhow::Result<Option<TcpListener>> {
    let address = address(&format!("{key}.tcp"), ip, port.unwrap_or(*usual))?;
    match address.listen(limits.backlog) {
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
