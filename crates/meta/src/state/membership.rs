//! Changes of the cluster's nodes, and the queues that go with them.

use super::resources::Resources;
use super::{Mode, State};
use crate::command::{Command, QueueDeclare};
use crate::error::MetaError;
use crate::nodes::{ClusterNode, ClusterNodes};
use crate::outcome::{Done, Fact, Outcome};
use crate::queue::QueueDef;
use crate::queue_home::QueueHome;
use std::sync::Arc;

/// Carries out a command about nodes.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others change no nodes")]
pub(super) fn change_nodes(
    nodes: &mut ClusterNodes,
    resources: &mut Resources,
    command: &Command,
    mode: Mode,
) -> Result<Outcome, MetaError> {
    let noted = |is_news: bool| if is_news { Outcome::logged(command) } else { Outcome::nothing() };
    match command {
        Command::NodeJoined { no, name, address, token } => {
            let (name, address, token) = (name.clone(), address.clone(), *token);
            let node = ClusterNode { no: 0, name, address, token, boot: 0, is_drained: false };
            join(nodes, *no, node)
        }
        Command::NodeBooted { no, boot } => {
            if !nodes.boot(*no, *boot)? {
                return Ok(Outcome::nothing());
            }
            let goes = |it: &QueueDef| it.home.node == *no && !it.durable && it.home.boot < *boot;
            resources.delete_with_node(goes, command, mode)
        }
        Command::NodeForgotten { no } => {
            if mode == Mode::Apply {
                nodes.check_goes(*no)?;
            }
            nodes.remove(*no);
            let goes = |it: &QueueDef| it.home.node == *no && !it.outlives_node();
            resources.delete_with_node(goes, command, mode)
        }
        Command::NodeDrained { no, on } => nodes.drain(*no, *on).map(noted),
        Command::Level { n } => nodes.raise_level(*n).map(noted),
        _ => {
            debug_assert!(false, "{command:?} changes no nodes");
            Ok(Outcome::nothing())
        }
    }
}

/// Refuses a queue on a node that is not in the cluster, or of a start that is over.
pub(super) fn check_home(nodes: &ClusterNodes, declare: &QueueDeclare) -> Result<(), MetaError> {
    if nodes.is_empty() {
        return Ok(());
    }
    let node = nodes.require(declare.home.node)?;
    let (no, boot) = (node.no, declare.home.boot);
    let ends_with_node = !declare.durable || declare.exclusive_owner.is_some();
    if ends_with_node && boot < node.boot {
        return Err(MetaError::NodeRestarted { no, boot });
    }
    Ok(())
}

fn join(
    nodes: &mut ClusterNodes,
    no: Option<u16>,
    node: ClusterNode,
) -> Result<Outcome, MetaError> {
    if let Some(known) = nodes.named(&node.name).filter(|known| known.token == node.token) {
        return Ok(Outcome::of(Done::NodeExists(known.no)));
    }
    let ClusterNode { name, address, token, .. } = node.clone();
    let no = nodes.add(no, node)?;
    let fact = Fact::durable(Command::NodeJoined { no: Some(no), name, address, token });
    Ok(Outcome { facts: vec![fact], ..Outcome::of(Done::NodeJoined(no)) })
}

/// Gives all queues of a node that is in no cluster their home: the node begins one. Queues that end with the
/// node end with this start of it.
pub fn settle_homes(state: &mut State, home: QueueHome) {
    let resources = &mut state.resources;
    let queues: Vec<_> = resources.queues.iter().cloned().collect();
    for queue in queues {
        let boot = if queue.durable { 0 } else { home.boot };
        let settled = QueueHome { boot, ..home };
        if queue.home != settled {
            let queue = Arc::new(QueueDef { home: settled, ..(*queue).clone() });
            resources.queues.insert(Arc::clone(&queue));
            if let Ok(vhost) = resources.vhost_mut(&queue.vhost) {
                vhost.set_queue(queue);
            }
        }
    }
}

impl Resources {
    /// Deletes queues, however many, as a part of the change of their node: their deletion is no fact of its
    /// own.
    fn delete_with_node(
        &mut self,
        goes: impl Fn(&QueueDef) -> bool,
        command: &Command,
        mode: Mode,
    ) -> Result<Outcome, MetaError> {
        let gone = self.queues.iter().filter(|queue| goes(queue));
        let gone: Vec<_> = gone.map(|queue| queue.id).collect();
        let Outcome { removed, mut facts, .. } = self.delete_queues(&gone, mode)?;
        let is_part = |command: &Command| matches!(command, Command::DeleteQueueById { id } if gone.binary_search(id).is_ok());
        facts.retain(|fact| !is_part(&fact.command));
        facts.insert(0, Fact::durable(command.clone()));
        Ok(Outcome { done: Done::Changed, removed, facts })
    }
}
