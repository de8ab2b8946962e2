//! The node's seat in a cluster while it runs: what an operator does to it, and the parts it is made of.

use super::cluster::ClusterRun;
use super::formation;
use super::joining::Move;
use super::means::PeerMeans;
use super::questions;
use api::ErrorCode;
use broker::Broker;
use http::PeerAnswers;
use mgmt::{ApiError, MemberReplies, NodeChange, NodeControl, NodeEnd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// The seat of a running node.
#[derive(Debug)]
pub(crate) struct NodeSeat {
    broker: Arc<Broker>,
    means: PeerMeans,
    /// The node's part in a cluster; none if it listens for no other nodes.
    cluster: Option<Arc<ClusterRun>>,
    end: watch::Sender<Option<NodeEnd>>,
    has_started: AtomicBool,
}

impl NodeSeat {
    pub(super) fn new(
        broker: &Arc<Broker>,
        means: PeerMeans,
        cluster: Option<Arc<ClusterRun>>,
    ) -> Self {
        let (broker, end) = (Arc::clone(broker), watch::Sender::new(None));
        Self { broker, means, cluster, end, has_started: AtomicBool::new(false) }
    }

    /// Notes that the definitions are there, and clients are let in.
    pub(super) fn started(&self) {
        self.has_started.store(true, Ordering::Relaxed);
    }

    /// Whether the start waits for other nodes.
    pub(super) fn waits(&self) -> bool {
        self.is_member() || self.cluster().is_some_and(|cluster| cluster.forming().is_some())
    }

    /// Resolves when an operator wants the node to stop, or to start again.
    pub(crate) async fn end_wanted(&self) -> NodeEnd {
        let mut end = self.end.subscribe();
        let wanted = end.wait_for(Option::is_some).await.ok().and_then(|wanted| *wanted);
        wanted.unwrap_or(NodeEnd::Stop)
    }

    /// Has questions of other nodes answered from now on.
    pub(super) fn answer_by(&self, answers: &Arc<PeerAnswers>) {
        if let Some(cluster) = &self.cluster {
            cluster.answer_by(answers);
        }
    }

    pub(super) fn moved(&self) -> Move<'_> {
        Move { broker: &self.broker, means: &self.means }
    }

    pub(super) fn cluster(&self) -> Option<&ClusterRun> {
        self.cluster.as_deref()
    }

    fn is_member(&self) -> bool {
        self.broker.control_plane.replication().is_some()
    }
}

impl NodeControl for NodeSeat {
    fn end(&self, end: NodeEnd) {
        self.end.send_replace(Some(end));
    }

    fn join<'n>(&'n self, node: &'n str, is_forced: bool) -> NodeChange<'n> {
        Box::pin(async move {
            if self.is_member() {
                return Err(refused("the node is already a member of a cluster: reset it first"));
            }
            if self.cluster().is_some_and(|cluster| cluster.forming().is_some()) {
                return Err(refused("the node is about to form a cluster"));
            }
            self.moved().join(node, is_forced).await.map_err(refused)?;
            self.end(NodeEnd::Restart);
            Ok(())
        })
    }

    fn reset(&self, is_forced: bool) -> NodeChange<'_> {
        Box::pin(async move {
            self.moved().reset(is_forced || !self.is_member()).await.map_err(refused)?;
            self.end(NodeEnd::Restart);
            Ok(())
        })
    }

    fn discard_others(&self) -> Result<(), ApiError> {
        match self.cluster() {
            Some(cluster) if cluster.is_member() && !cluster.is_led() => {}
            Some(cluster) if cluster.is_member() => {
                return Err(refused("a majority of the cluster runs: forget its lost nodes there"));
            }
            _ => return Err(refused("the node is not a member of a cluster")),
        }
        self.moved().discard_others().map_err(refused)?;
        self.end(NodeEnd::Restart);
        Ok(())
    }

    fn forget<'n>(&'n self, node: &'n str) -> NodeChange<'n> {
        Box::pin(async move {
            let view = self.broker.view();
            let known = view.meta.nodes().named(node);
            let Some(known) = known.filter(|_| self.is_member()) else {
                return Err(refused(format!("{node} is not a member of this cluster")));
            };
            if known.no == self.broker.figures().identity().number.0 {
                return Err(refused("a node is forgotten by another one: use reset"));
            }
            let command = meta::Command::NodeForgotten { no: known.no };
            self.broker.apply_definition(command).await?;
            Ok(())
        })
    }

    fn running_nodes(&self) -> Vec<String> {
        let identity = self.broker.figures().identity();
        let view = self.broker.view();
        let mut names = vec![identity.name.clone()];
        if let Some(cluster) = &self.cluster {
            let alive = view.meta.nodes().iter().filter(|node| cluster.is_alive(node.no));
            names.extend(alive.map(|node| node.name.to_string()));
        }
        names
    }

    fn ask_members(&self, question: Vec<u8>) -> MemberReplies<'_> {
        Box::pin(async move {
            match &self.cluster {
                Some(cluster) => questions::ask(cluster, &question).await,
                None => Vec::new(),
            }
        })
    }

    fn target_size(&self) -> usize {
        self.means.settings.discovery.target_size
    }

    fn discovered_peers(&self) -> Vec<String> {
        let me = &self.broker.figures().identity().name;
        tokio::task::block_in_place(|| formation::discovered(&self.means.settings.discovery, me))
    }

    fn waits_for(&self) -> Option<String> {
        if self.has_started.load(Ordering::Relaxed) {
            return None;
        }
        let Some(cluster) = self.cluster().filter(|_| self.waits()) else {
            return Some("this node is starting".to_owned());
        };
        Some(match cluster.forming() {
            Some(_) => "this node waits for others to form a cluster".to_owned(),
            None => format!("this node waits for a majority of its cluster: {}", cluster.missing()),
        })
    }
}

fn refused(text: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::Invalid, text)
}
