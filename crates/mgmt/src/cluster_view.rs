//! The cluster as a node sees it, for the verbs and pages that show it.

use crate::Management;
use meta::ClusterNode;
use std::sync::atomic::Ordering;

/// The part of a member in the Raft group of the cluster's definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberPart {
    /// The member follows without a vote: a new one does until it has the definitions.
    Learner,
    /// The member votes.
    Voter,
    /// The member makes the changes.
    Leader,
}

/// The state of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// The member's name.
    pub name: String,
    /// Whether the member is alive, as far as this node knows.
    pub is_running: bool,
    /// The member's part in the definitions' group, as far as this node knows.
    pub part: MemberPart,
    /// Whether an operator has put the member into maintenance.
    pub is_in_maintenance: bool,
    /// The member's version; none while it is not known.
    pub version: Option<String>,
    /// The processor cores that the member may use; none while they are not known.
    pub cpu_cores: Option<usize>,
}

/// The part of this node in the Raft group of the cluster's definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionsStanding {
    /// The term.
    pub term: u64,
    /// The index of the image.
    pub image: u64,
    /// The index up to which entries are applied.
    pub applied: u64,
    /// The index up to which entries are known to be committed.
    pub committed: u64,
    /// The index of the last entry.
    pub last: u64,
    /// The number of the node that leads; none while this node knows none.
    leader: Option<u16>,
    /// The numbers of the nodes that vote.
    voters: Vec<u16>,
}

impl DefinitionsStanding {
    fn part_of(&self, node: u16) -> MemberPart {
        match (self.leader == Some(node), self.voters.contains(&node)) {
            (true, _) => MemberPart::Leader,
            (false, true) => MemberPart::Voter,
            (false, false) => MemberPart::Learner,
        }
    }
}

/// The cluster as a node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// The members, by name, this node among them.
    pub members: Vec<ClusterMember>,
    /// COMPAT: `cluster_formation.target_cluster_size_hint`, the members that the cluster is to have.
    pub target_size: usize,
}

impl ClusterView {
    /// The names of members that run.
    pub fn running(&self) -> impl Iterator<Item = &str> {
        self.members.iter().filter(|member| member.is_running).map(|member| member.name.as_str())
    }

    /// Whether the definitions are without a majority once the member of this name stops.
    #[must_use]
    pub fn is_quorum_critical(&self, name: &str) -> bool {
        let voters = || self.members.iter().filter(|member| member.part != MemberPart::Learner);
        let n_running = voters().filter(|member| member.is_running).count();
        n_running <= voters().count() / 2 + 1 && voters().any(|member| member.name == name)
    }

    /// Whether as many members run as the cluster is to have.
    #[must_use]
    pub fn has_reached_target_size(&self) -> bool {
        self.running().count() >= self.target_size
    }
}

impl Management {
    /// The number of members that this node does not hear.
    #[must_use]
    pub fn n_unreachable_members(&self) -> usize {
        let n_members = self.broker.view().meta.nodes().len();
        if n_members == 0 {
            0
        } else {
            n_members.saturating_sub(self.control.running_nodes().len())
        }
    }

    /// The cluster as this node sees it; a node in no cluster is alone.
    #[must_use]
    pub fn cluster_view(&self) -> ClusterView {
        let view = self.broker.view();
        let standing = self.definitions_standing().unwrap_or_default();
        let running = self.control.running_nodes();
        let me = self.this_member();
        let member = |node: &ClusterNode| {
            let member =
                if *node.name == *me.name { me.clone() } else { other_member(node, &running) };
            ClusterMember { part: standing.part_of(node.no), ..member }
        };
        let mut members: Vec<ClusterMember> = view.meta.nodes().iter().map(member).collect();
        if members.is_empty() {
            members.push(me);
        }
        members.sort_by(|left, right| left.name.cmp(&right.name));
        ClusterView { members, target_size: self.control.target_size() }
    }

    /// The part of this node in the Raft group of the definitions; none of a node in no cluster.
    #[must_use]
    pub fn definitions_standing(&self) -> Option<DefinitionsStanding> {
        let replication = self.broker.control_plane.replication()?;
        replication.inspect(|replica| {
            let (group, progress) = (replica.group(), replica.group().progress());
            DefinitionsStanding {
                term: group.term(),
                image: progress.image,
                applied: progress.applied,
                committed: progress.committed,
                last: progress.last,
                leader: group.leader().map(|peer| peer.node()),
                voters: group.members().voters.iter().map(|peer| peer.node()).collect(),
            }
        })
    }

    fn this_member(&self) -> ClusterMember {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        ClusterMember {
            name: self.node_info.name.clone(),
            is_running: true,
            part: MemberPart::Leader,
            is_in_maintenance: self.broker.connections.in_maintenance.load(Ordering::Relaxed),
            version: Some(self.node_info.version.clone()),
            cpu_cores: Some(cores),
        }
    }
}

fn other_member(node: &ClusterNode, running: &[String]) -> ClusterMember {
    ClusterMember {
        name: node.name.to_string(),
        is_running: running.iter().any(|name| **name == *node.name),
        part: MemberPart::Learner,
        is_in_maintenance: node.is_drained,
        version: None,
        cpu_cores: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_voter_is_critical_if_the_others_are_no_majority() {
        let view = |voters: &[bool], learners: &[bool]| {
            let of = |part| move |is_running: &bool| (part, *is_running);
            let all = voters.iter().map(of(MemberPart::Voter));
            let all = all.chain(learners.iter().map(of(MemberPart::Learner)));
            let member = |(n, (part, is_running)): (usize, (MemberPart, bool))| ClusterMember {
                name: format!("rabbit{n}@box"),
                is_running,
                part,
                is_in_maintenance: false,
                version: None,
                cpu_cores: None,
            };
            let members = all.enumerate().map(member).collect();
            ClusterView { members, target_size: 0 }
        };
        let is_critical = |voters: &[bool], learners: &[bool], name: &str| {
            view(voters, learners).is_quorum_critical(name)
        };
        assert!(!is_critical(&[true, true, true], &[], "rabbit0@box"));
        assert!(is_critical(&[true, true, false], &[], "rabbit0@box"));
        assert!(is_critical(&[true, true], &[true], "rabbit0@box"));
        assert!(!is_critical(&[true, true], &[true], "rabbit2@box"), "a learner");
        assert!(!is_critical(&[true, true, true, true, false], &[], "rabbit0@box"));
        assert!(is_critical(&[true, true, true, false, false], &[], "rabbit0@box"));
    }
}
