//! The settings of connections with other nodes.

use std::collections::BTreeMap;
use tls::{Options, Verify};

/// The listener of other nodes, as far as something is said of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Distribution {
    pub(crate) port: Option<u16>,
    /// An IP address; all where it is absent.
    pub(crate) interface: Option<String>,
    /// The certificate that is shown to other nodes, and the authorities of theirs.
    pub(crate) tls: Option<Options>,
    pub(crate) discovery: Discovery,
}

impl Distribution {
    /// Whether anything is said of other nodes.
    pub(crate) fn is_configured(&self) -> bool {
        let Self { port, interface, tls, discovery } = self;
        port.is_some() || interface.is_some() || tls.is_some() || discovery.is_on()
    }

    /// The settings of TLS, to be changed: both sides show certificates.
    pub(super) fn tls(&mut self) -> &mut Options {
        let new = || Options { verify: Verify::Always, ..Options::new("cluster.tls") };
        self.tls.get_or_insert_with(new)
    }
}

stdx::named! {
    /// The places where peers are found.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) enum PeerDiscovery {
        #[default]
        List = "classic_config",
        ListModule = "rabbit_peer_discovery_classic_config",
        Dns = "dns",
        DnsModule = "rabbit_peer_discovery_dns",
    }
}

/// The settings of a node that forms a cluster with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Discovery {
    pub(crate) backend: PeerDiscovery,
    /// The names of nodes, in the order of their keys.
    pub(crate) nodes: BTreeMap<String, String>,
    /// The host whose addresses are those of the nodes.
    pub(crate) hostname: Option<String>,
    /// The members that the cluster is to have.
    pub(crate) target_size: usize,
    /// Attempts to hear a majority; none for any number.
    pub(crate) retry_limit: Option<u64>,
    pub(crate) retry_interval_ms: u64,
}

impl Discovery {
    /// The host whose addresses are those of the nodes, if it is to be asked.
    pub(crate) fn host(&self) -> Option<&str> {
        let is_dns = matches!(self.backend, PeerDiscovery::Dns | PeerDiscovery::DnsModule);
        self.hostname.as_deref().filter(|_| is_dns)
    }

    /// The names of the nodes, as they are configured.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let is_list = matches!(self.backend, PeerDiscovery::List | PeerDiscovery::ListModule);
        self.nodes.values().filter(move |_| is_list).map(String::as_str)
    }

    /// Whether a node without data forms a cluster with others.
    pub(crate) fn is_on(&self) -> bool {
        self.host().is_some() || self.names().next().is_some()
    }
}
