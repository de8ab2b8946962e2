//! The listeners of the HTTP API and of Prometheus.

use crate::config::{Config, HttpAddress, HttpListeners};
use anyhow::Context as _;
use http::{Api, Entrance, IsTold, Listener, PeerLine};
use mgmt::ListenerInfo;
use net::{ListenAddress, PeerLineKind, Server};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// The two that listen: beginning of their keys, usual ports, names and purpose in listings.
struct Kind {
    key: &'static str,
    /// The usual port. With that in use, as by another node on this machine, the node starts without, since
    /// nobody has asked for it.
    port: u16,
    tls_port: u16,
    names: [&'static str; 2],
    purpose: &'static str,
}

/// The kinds, in the order of their TLS settings in the configuration.
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
    /// Binds the listeners; `shared` are the certificates of those that name none.
    pub(super) fn bind(
        config: &Config,
        shared: Option<&Arc<tls::Context>>,
    ) -> anyhow::Result<Self> {
        let mut bound = Self::default();
        warn_of_keys_without_effect(config);
        for (planned, listeners) in planned(config).iter().zip(&mut bound.of_kinds) {
            for planned in planned {
                let tls = match planned.certificates {
                    Certificates::None => None,
                    Certificates::Shared => Some(shared.cloned().context("no certificates")?),
                    Certificates::Own(options) => Some(super::tls_context(options)?),
                };
                if let (Some(tls), Certificates::Own(_)) = (&tls, planned.certificates) {
                    bound.own_tls.push(Arc::clone(tls));
                }
                let limits = planned.address.limits;
                listeners.extend(planned.listen()?.map(|socket| Listener { socket, tls, limits }));
            }
        }
        Ok(bound)
    }

    /// The listeners as listings show them.
    pub(super) fn infos(&self) -> impl Iterator<Item = ListenerInfo> {
        let of = |(kind, listeners): (&'static Kind, &Vec<Listener>)| {
            let info = |Listener { socket, tls, .. }: &Listener| {
                let [plain, encrypted] = kind.names;
                let protocol = if tls.is_some() { encrypted } else { plain };
                let address = socket.local_addr().ok()?;
                Some(ListenerInfo { protocol, purpose: kind.purpose.to_owned(), address })
            };
            listeners.iter().filter_map(info).collect::<Vec<_>>()
        };
        KINDS.iter().zip(&self.of_kinds).flat_map(of)
    }

    /// Serves the listeners until told to end.
    pub(super) fn start(self, api: Arc<Api>, server: &Arc<Server>) -> Arc<Notify> {
        let admission = server.admission();
        let server = Arc::clone(server);
        let is_told: IsTold = Arc::new(move |client, line| {
            let kind = match line {
                PeerLine::Handshake => PeerLineKind::Unencrypted,
                PeerLine::Login => PeerLineKind::HttpRefused,
                PeerLine::Access => PeerLineKind::HttpAccess,
            };
            server.is_told((client, kind))
        });
        let [of_api, of_metrics] = self.of_kinds.map(|listeners| Entrance {
            listeners,
            is_told: Arc::clone(&is_told),
            admission: Arc::clone(&admission),
        });
        let ending = Arc::new(Notify::new());
        let until = |ending: &Arc<Notify>| {
            let ending = Arc::clone(ending);
            async move { ending.notified().await }
        };
        if !of_api.listeners.is_empty() {
            tokio::spawn(http::serve(of_api, Arc::clone(&api), until(&ending)));
        }
        if !of_metrics.listeners.is_empty() {
            tokio::spawn(http::serve_metrics(of_metrics, api, until(&ending)));
        }
        ending
    }
}

/// A listener to be opened.
struct Planned<'c> {
    /// The beginning of the listener's keys.
    key: String,
    address: &'c HttpAddress,
    /// The listener's port if none is given.
    usual_port: u16,
    certificates: Certificates<'c>,
    /// Whether the node starts without the listener when its usual port is in use.
    may_be_missing: bool,
}

/// The certificates of a listener.
#[derive(Clone, Copy)]
enum Certificates<'c> {
    None,
    /// The certificates of all listeners that name none.
    Shared,
    Own(&'c tls::Options),
}

impl<'c> From<Option<&'c tls::Options>> for Certificates<'c> {
    fn from(own: Option<&'c tls::Options>) -> Self {
        own.map_or(Self::Shared, Self::Own)
    }
}

/// The listeners of each kind.
fn planned(config: &Config) -> [Vec<Planned<'_>>; KINDS.len()] {
    let [management, prometheus] = &KINDS;
    let [of_api, of_metrics, of_older, _] = &config.listeners.tls.own;
    [
        plan(management, &config.http.api, (of_api.as_ref(), of_older.as_ref())),
        plan(prometheus, &config.http.metrics, (of_metrics.as_ref(), None)),
    ]
}

/// Plans the listeners of a kind. COMPAT: with TLS only the TLS port is opened, unless a key of plain TCP is
/// set. The older keys do the same, and count for nothing where both of the newer ones are set.
fn plan<'c>(
    kind: &Kind,
    HttpListeners { is_enabled, tcp, ssl, older, older_has_tls }: &'c HttpListeners,
    (own, own_of_older): (Option<&'c tls::Options>, Option<&'c tls::Options>),
) -> Vec<Planned<'c>> {
    let nothing = HttpAddress::default();
    let has_tcp = *tcp != nothing;
    let has_tls = own.is_some() || *ssl != nothing;
    let has_older = *older != nothing || older_has_tls.is_some() || own_of_older.is_some();
    let plain = Planned {
        key: format!("{}.tcp", kind.key),
        address: tcp,
        usual_port: kind.port,
        certificates: Certificates::None,
        may_be_missing: true,
    };
    let encrypted = Planned {
        key: format!("{}.ssl", kind.key),
        address: ssl,
        usual_port: kind.tls_port,
        certificates: own.into(),
        may_be_missing: false,
    };
    let by_older_keys = Planned {
        key: format!("{}.listener", kind.key),
        address: older,
        usual_port: kind.port,
        certificates: match older_has_tls {
            Some(true) => own_of_older.into(),
            Some(false) | None => Certificates::None,
        },
        may_be_missing: false,
    };
    let all = [
        (has_tls, encrypted),
        (has_tcp || !(has_tls || has_older), plain),
        (has_older && !(has_tcp && has_tls), by_older_keys),
    ];
    let wanted = all.into_iter().filter(|(is_wanted, _)| *is_enabled && *is_wanted);
    of_each_address(wanted.map(|(_, planned)| planned).collect())
}

/// Drops listeners whose address is taken. COMPAT: the older keys win against a newer one with the same
/// address.
fn of_each_address(mut all: Vec<Planned<'_>>) -> Vec<Planned<'_>> {
    let older = all.iter().find(|planned| planned.is_by_older_keys());
    if let Some(Ok(older)) = older.map(Planned::address) {
        let is_there = |address| are_in_each_others_way(address, older);
        all.retain(|it| it.is_by_older_keys() || !it.address().is_ok_and(is_there));
    }
    all
}

/// Whether two addresses exclude each other, since only one of them can be listened on.
fn are_in_each_others_way(one: ListenAddress, other: ListenAddress) -> bool {
    let parts = |address| match address {
        ListenAddress::Every(port) => (IpAddr::from(Ipv6Addr::UNSPECIFIED), port),
        ListenAddress::One(address) => (address.ip(), address.port()),
    };
    let ((one, port), (other, other_port)) = (parts(one), parts(other));
    // A socket on all addresses of IPv6 has those of IPv4 too.
    let has_all = |ip: IpAddr, of: IpAddr| ip.is_unspecified() && (ip.is_ipv6() || of.is_ipv4());
    port != 0 && port == other_port && (one == other || has_all(one, other) || has_all(other, one))
}

/// Tells which listeners of the API there are not although something is said of them.
fn warn_of_keys_without_effect(config: &Config) {
    let HttpListeners { is_enabled, tcp, ssl, older, .. } = &config.http.api;
    let ([of_api, ..], [own, ..]) = (planned(config), &config.listeners.tls.own);
    let nothing = HttpAddress::default();
    let is_unused = |key: &str| *is_enabled && !of_api.iter().any(|planned| planned.key == key);
    if *older != nothing && is_unused("management.listener") {
        tracing::warn!(
            "`management.listener` has no effect beside both `management.tcp` and `management.ssl`"
        );
    }
    for (is_set, key) in
        [(*tcp != nothing, "management.tcp"), (own.is_some() || *ssl != nothing, "management.ssl")]
    {
        if is_set && is_unused(key) {
            tracing::warn!("`{key}` has no effect: `management.listener` has the same port");
        }
    }
}

/// Whether a listener with TLS has no settings of its own.
pub(super) fn shares_certificates(config: &Config) -> bool {
    let shares = |planned: &Planned<'_>| matches!(planned.certificates, Certificates::Shared);
    planned(config).iter().flatten().any(shares)
}

/// The errors of addresses that are not valid.
pub(super) fn wrong_addresses(config: &Config) -> Vec<anyhow::Error> {
    planned(config).iter().flatten().filter_map(|planned| planned.address().err()).collect()
}

/// The settings of TLS that are those of one listener alone.
pub(super) fn own_tls(config: &Config) -> Vec<&tls::Options> {
    let certificates = planned(config).into_iter().flatten().map(|planned| planned.certificates);
    let own = certificates.filter_map(|certificates| match certificates {
        Certificates::Own(options) => Some(options),
        Certificates::None | Certificates::Shared => None,
    });
    own.collect()
}

impl Planned<'_> {
    fn is_by_older_keys(&self) -> bool {
        self.key.ends_with(".listener")
    }

    fn address(&self) -> anyhow::Result<ListenAddress> {
        let HttpAddress { ip, port, .. } = self.address;
        let port = port.unwrap_or(self.usual_port);
        let Some(ip) = ip else { return Ok(ListenAddress::Every(port)) };
        let parsed: IpAddr =
            ip.parse().with_context(|| format!("`{}.ip = {ip}` is no IP address", self.key))?;
        Ok(ListenAddress::One(SocketAddr::new(parsed, port)))
    }

    /// Opens the listener; `None` if its port is in use and the node may start without it.
    fn listen(&self) -> anyhow::Result<Option<TcpListener>> {
        let address = self.address()?;
        match address.listen(self.address.limits.backlog) {
            Ok(listener) => Ok(Some(listener)),
            Err(error) if self.may_be_missing && self.address.port.is_none() => {
                let key = self.key.trim_end_matches(".tcp");
                tracing::warn!(
                    "cannot listen on {address}: {error}; set `{key}.tcp.port` to another port, \
                     or `{key}.enabled = false`"
                );
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("cannot listen on {address}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys((older, tcp): (HttpAddress, HttpAddress)) -> Vec<String> {
        let listeners = HttpListeners { is_enabled: true, tcp, older, ..HttpListeners::default() };
        let [management, _] = &KINDS;
        plan(management, &listeners, (None, None)).into_iter().map(|planned| planned.key).collect()
    }

    fn at(ip: &str, port: Option<u16>) -> HttpAddress {
        let ip = (!ip.is_empty()).then(|| ip.to_owned());
        HttpAddress { ip, port, ..HttpAddress::default() }
    }

    #[test]
    fn an_address_of_older_and_newer_keys_has_one_listener() {
        for same in [
            (at("", Some(15_672)), at("", Some(15_672))),
            (at("", Some(15_672)), at("127.0.0.1", None)),
            (at("127.0.0.1", None), at("127.0.0.1", Some(15_672))),
            (at("::", Some(1)), at("127.0.0.1", Some(1))),
        ] {
            assert_eq!(keys(same), ["management.listener"]);
        }
        for others in [
            (at("", Some(1)), at("", Some(2))),
            (at("", Some(0)), at("", Some(0))),
            (at("127.0.0.1", Some(1)), at("127.0.0.2", Some(1))),
            (at("0.0.0.0", Some(1)), at("::1", Some(1))),
            (at("nowhere", Some(1)), at("nowhere", Some(1))),
        ] {
            assert_eq!(keys(others), ["management.tcp", "management.listener"]);
        }
    }
}
