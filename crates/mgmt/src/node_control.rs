//! The node as a whole, as an operator sees it: its end, and its place in a cluster.

use crate::api_error::ApiError;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Mutex;

/// The end of a node's run that an operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEnd {
    /// The process ends.
    Stop,
    /// The node starts again in the same process, on what its data directory then is.
    Restart,
}

/// The course of a change of a node's place in a cluster.
pub type NodeChange<'n> = Pin<Box<dyn Future<Output = Result<(), ApiError>> + Send + 'n>>;

/// The reply of another member of the cluster to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReply {
    /// The member's name.
    pub node: String,
    /// The reply; none of a member that has not replied in time.
    pub reply: Option<Vec<u8>>,
}

/// The course of a question to the other members of the cluster.
pub type MemberReplies<'n> = Pin<Box<dyn Future<Output = Vec<MemberReply>> + Send + 'n>>;

/// The control of a node's run and of its place in a cluster.
pub trait NodeControl: Debug + Send + Sync {
    /// Ends the node's run.
    fn end(&self, end: NodeEnd);

    /// Has the node join the cluster of the node of this name, and then start again. What the node has is
    /// lost; messages in durable queues forbid it unless it is forced.
    fn join<'n>(&'n self, node: &'n str, is_forced: bool) -> NodeChange<'n>;

    /// Has the node leave its cluster, lose what it has, and start again; if it is forced, without telling
    /// the others.
    fn reset(&self, is_forced: bool) -> NodeChange<'_>;

    /// Has a member that waits for a majority start again as the only one of its cluster: others are lost.
    ///
    /// # Errors
    /// A majority runs, or the node is no member.
    fn discard_others(&self) -> Result<(), ApiError>;

    /// Removes another node from the cluster.
    fn forget<'n>(&'n self, node: &'n str) -> NodeChange<'n>;

    /// The names of the cluster's nodes that are alive, this one included.
    fn running_nodes(&self) -> Vec<String>;

    /// Asks all other members of the cluster a question, in which each finds what it has to do. None of them
    /// is waited for that does not go on with its reply.
    fn ask_members(&self, question: Vec<u8>) -> MemberReplies<'_>;

    /// COMPAT: `cluster_formation.target_cluster_size_hint`, the members that the cluster is to have.
    fn target_size(&self) -> usize;

    /// The names that peer discovery finds, the node's own among them; empty without peer discovery.
    /// **Blocks** while a host name is looked up.
    fn discovered_peers(&self) -> Vec<String>;

    /// The reason for which the node has not started yet.
    fn waits_for(&self) -> Option<String>;
}

/// The control of a node in no cluster that only notes the end that is wanted: for tests.
#[derive(Debug, Default)]
pub struct NotedControl(Mutex<Option<NodeEnd>>);

impl NotedControl {
    /// The end that is wanted.
    pub fn noted(&self) -> Option<NodeEnd> {
        *stdx::lock(&self.0)
    }
}

impl NodeControl for NotedControl {
    fn end(&self, end: NodeEnd) {
        *stdx::lock(&self.0) = Some(end);
    }

    fn join<'n>(&'n self, _node: &'n str, _is_forced: bool) -> NodeChange<'n> {
        Box::pin(async { Ok(()) })
    }

    fn reset(&self, _is_forced: bool) -> NodeChange<'_> {
        Box::pin(async { Ok(()) })
    }

    fn discard_others(&self) -> Result<(), ApiError> {
        Ok(())
    }

    fn forget<'n>(&'n self, _node: &'n str) -> NodeChange<'n> {
        Box::pin(async { Ok(()) })
    }

    fn running_nodes(&self) -> Vec<String> {
        Vec::new()
    }

    fn ask_members(&self, _question: Vec<u8>) -> MemberReplies<'_> {
        Box::pin(async { Vec::new() })
    }

    fn target_size(&self) -> usize {
        1
    }

    fn discovered_peers(&self) -> Vec<String> {
        Vec::new()
    }

    fn waits_for(&self) -> Option<String> {
        None
    }
}
