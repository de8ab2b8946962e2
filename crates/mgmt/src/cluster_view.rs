//! The cluster as a node sees it, for the verbs and pages that show it.

use crate::Management;
use std::sync::atomic::Ordering;

/// The state of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// The member's name.
    pub name: String,
    /// Whether the member is alive, as far as this node knows.
    pub is_running: bool,
    /// Whether the member votes on definitions; others only follow.
    pub is_voter: bool,
    /// Whether an operator has put the member into maintenance.
    pub is_in_maintenance: bool,
    /// The member's version; none while it is not known.
    pub version: Option<String>,
    /// The processor cores that the member may use; none while they are not known.
    pub cpu_cores: Option<usize>,
}

/// The cluster as a node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// The members, by name, this node among them.
    pub members: Vec<ClusterMember>,
    /// The names that peer discovery finds, the node's own among them; empty without peer discovery.
    pub discovered_peers: Vec<String>,
    /// COMPAT: `cluster_formation.target_cluster_size_hint`, the members that the cluster is to have.
    pub target_size: usize,
}

impl ClusterView {
    /// The names of members that run.
    pub fn running(&self) -> impl Iterator<Item = &str> {
        self.members.iter().filter(|member| member.is_running).map(|member| member.name.as_str())
    }

    /// Whether as many members run as the cluster is to have.
    #[must_use]
    pub fn has_reached_target_size(&self) -> bool {
        self.running().count() >= self.target_size
    }
}

impl Management {
    /// The cluster as this node sees it: the node alone.
    #[must_use]
    pub fn cluster_view(&self) -> ClusterView {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let member = ClusterMember {
            name: self.node_info.name.clone(),
            is_running: true,
            is_voter: true,
            is_in_maintenance: self.broker.connections.in_maintenance.load(Ordering::Relaxed),
            version: Some(self.node_info.version.clone()),
            cpu_cores: Some(cores),
        };
        ClusterView { members: vec![member], discovered_peers: Vec::new(), target_size: 1 }
    }
}
