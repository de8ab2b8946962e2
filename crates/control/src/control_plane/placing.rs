//! The node that a new queue is on.

use log::NodeNumber;
use meta::{QueueDeclare, QueueHome, State, Vhost};
use std::collections::BTreeMap;

/// Queues up to which those of each node are counted; with more, nodes have their turn.
const COUNTED_MAX: usize = 1_000;

/// Chooses the home of a queue: the node that its declaration came to, unless its argument or policy, or the
/// node's settings (`is_balanced`), want queues balanced over the living nodes; exclusive queues stay with
/// their connection. COMPAT: fewest leaders first, as `balanced` has it for up to 1,000 queues.
pub(super) fn home_of(
    meta: &State,
    declare: &QueueDeclare,
    here: QueueHome,
    is_balanced: bool,
    is_alive: impl Fn(NodeNumber) -> bool,
) -> QueueHome {
    let is_balanced = || meta::wants_balance(meta, declare).unwrap_or(is_balanced);
    if declare.exclusive_owner.is_some() || !is_balanced() {
        return here;
    }
    let nodes = meta.nodes().iter();
    let living = nodes
        .filter(|node| node.no == here.node || (is_alive(NodeNumber(node.no)) && !node.is_drained));
    let mut n_queues: BTreeMap<u16, usize> = living.map(|node| (node.no, 0)).collect();
    let n_all = meta.vhosts().map(|vhost| vhost.queues().len()).sum::<usize>();
    let chosen = if n_all <= COUNTED_MAX {
        for def in meta.vhosts().flat_map(Vhost::queues) {
            n_queues.entry(def.home.node).and_modify(|n| *n += 1);
        }
        // Of nodes with as many, the asker's.
        n_queues.iter().min_by_key(|(no, n)| (**n, **no != here.node, **no))
    } else {
        n_queues.iter().nth(n_all % n_queues.len().max(1))
    };
    let node = chosen.and_then(|(no, _)| meta.nodes().get(*no));
    node.map_or(here, |node| QueueHome { node: node.no, boot: node.boot })
}
