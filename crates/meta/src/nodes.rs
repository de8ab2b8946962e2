//! The nodes of the cluster, by number, and the level of their commands and formats.

use imbl::OrdMap;
use routing::Name;

use crate::error::MetaError;

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// The node's number, which no other node had or will have; from 1.
    pub no: u16,
    /// The node's name, unique among the nodes, for example `rabbit@host`.
    pub name: Name,
    /// The address at which other nodes reach it.
    pub address: ClusterAddress,
    /// The token of its join: whoever joins again by that name and token is the same node.
    pub token: u64,
    /// The number of the node's latest start that the cluster was told of; 0 before the first one.
    pub boot: u32,
    /// Whether the operator has put the node into maintenance mode: nothing new is to be placed there.
    pub is_drained: bool,
}

/// The address of a node for other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAddress {
    /// A host's name or IP address.
    pub host: Name,
    /// The TCP port.
    pub port: u16,
}

/// The nodes of the cluster; a node that is in no cluster has none. A clone is O(1).
#[derive(Clone, Debug, Default)]
pub struct ClusterNodes {
    by_number: OrdMap<u16, ClusterNode>,
    /// The highest number that was given to any node.
    last: u16,
    level: u16,
}

impl ClusterNodes {
    /// A node.
    pub fn get(&self, no: u16) -> Option<&ClusterNode> {
        self.by_number.get(&no)
    }

    /// The node of that name.
    pub fn named(&self, name: &str) -> Option<&ClusterNode> {
        self.iter().find(|node| node.name == *name)
    }

    /// All nodes by number.
    pub fn iter(&self) -> impl Iterator<Item = &ClusterNode> {
        self.by_number.values()
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The number that the next node gets; none if all were given.
    pub const fn next_number(&self) -> Option<u16> {
        self.last.checked_add(1)
    }

    /// The highest number that was given to any node; 0 if there never was one.
    pub(crate) const fn last_number(&self) -> u16 {
        self.last
    }

    /// The level of commands and formats that the cluster has switched on; 0 if it never did.
    pub const fn level(&self) -> u16 {
        self.level
    }

    pub(crate) fn require(&self, no: u16) -> Result<&ClusterNode, MetaError> {
        self.get(no).ok_or(MetaError::NodeNotFound(no))
    }

    /// Adds a node that has its number, or one to be given.
    pub(crate) fn add(&mut self, no: Option<u16>, node: ClusterNode) -> Result<u16, MetaError> {
        if self.named(&node.name).is_some() {
            return Err(MetaError::NodeExists(node.name));
        }
        let Some(no) = no.or_else(|| self.next_number()).filter(|no| *no > self.last) else {
            let number = no.unwrap_or(self.last);
            return Err(MetaError::Invalid(format!("no new node is {number}")));
        };
        self.last = no;
        self.by_number.insert(no, ClusterNode { no, ..node });
        Ok(no)
    }

    /// Notes a start of a node; returns whether it is news.
    pub(crate) fn boot(&mut self, no: u16, boot: u32) -> Result<bool, MetaError> {
        let node = self.get_mut(no)?;
        if node.boot > boot {
            return Err(MetaError::NodeRestarted { no, boot });
        }
        let is_news = node.boot < boot;
        node.boot = boot;
        Ok(is_news)
    }

    /// Notes whether a node is in maintenance mode; returns whether that is news.
    pub(crate) fn drain(&mut self, no: u16, on: bool) -> Result<bool, MetaError> {
        Ok(std::mem::replace(&mut self.get_mut(no)?.is_drained, on) != on)
    }

    /// Refuses to let go of a node that is not there, or the last one.
    pub(crate) fn check_goes(&self, no: u16) -> Result<(), MetaError> {
        self.require(no)?;
        if self.len() == 1 { Err(MetaError::LastNode(no)) } else { Ok(()) }
    }

    /// Removes a node, if it is there. Its number stays given.
    pub(crate) fn remove(&mut self, no: u16) {
        self.last = self.last.max(no);
        self.by_number.remove(&no);
    }

    /// Raises the level; returns whether that is news.
    pub(crate) fn raise_level(&mut self, level: u16) -> Result<bool, MetaError> {
        if level < self.level {
            let text = format!("level {level} is below the cluster's level {}", self.level);
            return Err(MetaError::Invalid(text));
        }
        Ok(std::mem::replace(&mut self.level, level) != level)
    }

    fn get_mut(&mut self, no: u16) -> Result<&mut ClusterNode, MetaError> {
        self.by_number.get_mut(&no).ok_or(MetaError::NodeNotFound(no))
    }
}
