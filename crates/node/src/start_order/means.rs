//! The means of a node to reach other nodes.

use super::peers::PeerSecrets;
use crate::cli::ServerArgs;
use crate::config::{Config, Distribution};
use log::{NodeIdentity, NodeNumber};
use net::Timers;
use net::peer::PeerTransport;
use peer::{ConnectionKind, PEER_VERSIONS, PeerAddress, PeerHello, SpokenRange};
use segments::Disk;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

/// The levels of a cluster's commands and formats that this version supports.
pub(super) const LEVELS: SpokenRange = SpokenRange { min: 0, max: 0 };

/// The means of a node to reach others.
#[derive(Debug)]
pub(super) struct PeerMeans {
    pub(super) settings: Distribution,
    pub(super) data_dir: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) timers: Timers,
    /// Time in which the cluster decides on a change of definitions, milliseconds.
    pub(super) change_timeout_ms: u64,
    /// Whether the node serves clients without a majority.
    pub(super) serves_without_quorum: bool,
}

impl PeerMeans {
    pub(super) fn of(
        config: &Config,
        args: &ServerArgs,
        disk: Arc<dyn Disk>,
        timers: &Timers,
    ) -> Self {
        let settings = config.listeners.distribution.clone();
        Self {
            settings,
            data_dir: args.data_dir.clone(),
            disk,
            timers: timers.clone(),
            change_timeout_ms: config.definitions.change_timeout_ms,
            serves_without_quorum: config.definitions.serves_without_quorum,
        }
    }
}

impl PeerMeans {
    /// The means of connecting; a cookie is made if there is none.
    pub(super) fn transport(&self) -> anyhow::Result<PeerTransport> {
        let secrets = PeerSecrets::load(&self.settings, &self.data_dir)?;
        Ok(secrets.transport(&self.timers))
    }
}

/// The address of the node of a name, whose host follows the `@`; a port may follow that.
pub(super) fn address_of(name: &str, port: u16) -> PeerAddress {
    let host = name.split_once('@').map_or("localhost", |(_, host)| host);
    let (host, port) = match host.rsplit_once(':') {
        Some((host, given)) => (host, given.parse().unwrap_or(port)),
        None => (host, port),
    };
    PeerAddress { host: host.to_owned(), port }
}

/// The hello of a tunnel, whose sender is no member.
pub(super) fn tunnel_hello(me: &NodeIdentity) -> PeerHello {
    PeerHello {
        versions: PEER_VERSIONS,
        levels: LEVELS,
        kind: ConnectionKind::Ctl,
        identity: NodeIdentity { number: NodeNumber(0), ..me.clone() },
        nonce: u128::from(random()) << 64 | u128::from(random()),
    }
}

/// A random number that nobody can guess.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(())
}
