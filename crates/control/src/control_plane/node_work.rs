//! The work that changes of other nodes leave for this one's connections and queues, for a task of its own.

use super::effects::{Effects, NodeEffect};
use log::Lsn;
use meta::{Fact, Name, QueueHome, QueueId, Removed};
use queues::QueueRef;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The effects of changes on this node's connections and queues that no task of an asker carries out. What
/// comes twice is done once, so that they never outgrow the definitions.
#[derive(Debug)]
pub struct NodeWork {
    /// The home of queues that are declared on this node.
    pub(super) home: QueueHome,
    left: Mutex<WorkLeft>,
    comes: Notify,
}

#[derive(Debug, Default)]
struct WorkLeft {
    gone: Vec<QueueRef>,
    upto: Lsn,
    review_versions: bool,
    review_settings: BTreeMap<QueueId, QueueRef>,
    close_connections_to: BTreeSet<Name>,
    close_connections_of: BTreeSet<Name>,
    review_rights_of: BTreeSet<Name>,
    unused: BTreeSet<QueueId>,
}

/// A part of a [`NodeWork`], taken out to be done.
#[derive(Debug)]
pub struct NodeWorkDue {
    /// Queues that are gone from the definitions, and still have their messages.
    pub gone: Vec<QueueRef>,
    /// Their deletions are durable when the log is so up to here.
    pub upto: Lsn,
    /// The effects.
    pub effects: Vec<NodeEffect>,
    /// Queues of this node that nobody uses: they are to be deleted.
    pub unused: BTreeSet<QueueId>,
}

impl NodeWork {
    pub(super) fn of(home: QueueHome) -> Self {
        Self { home, left: Mutex::default(), comes: Notify::new() }
    }

    /// Adds what follows from changes that are durable when the log is so up to `upto`.
    pub(super) fn add(&self, gone: Vec<QueueRef>, effects: Vec<NodeEffect>, upto: Lsn) {
        if gone.is_empty() && effects.is_empty() {
            return;
        }
        let mut left = stdx::lock(&self.left);
        left.gone.extend(gone);
        left.upto = left.upto.max(upto);
        for effect in effects {
            match effect {
                NodeEffect::ReviewVersions => left.review_versions = true,
                NodeEffect::ReviewSettings(queues) => {
                    left.review_settings.extend(queues.into_iter().map(|it| (it.id(), it)));
                }
                NodeEffect::CloseConnectionsTo(vhost) => {
                    left.close_connections_to.insert(vhost);
                }
                NodeEffect::CloseConnectionsOf(user) => {
                    left.close_connections_of.insert(user);
                }
                NodeEffect::ReviewRightsOf(user) => {
                    left.review_rights_of.insert(user);
                }
            }
        }
        drop(left);
        self.comes.notify_one();
    }

    /// Adds the deletion of a queue that nobody uses.
    pub fn add_unused(&self, queue: QueueId) {
        stdx::lock(&self.left).unused.insert(queue);
        self.comes.notify_one();
    }

    /// Takes what is to be done, once there is something.
    pub async fn next(&self) -> NodeWorkDue {
        loop {
            if let Some(due) = self.take() {
                return due;
            }
            self.comes.notified().await;
        }
    }

    /// Takes what is to be done, if there is anything.
    pub fn take(&self) -> Option<NodeWorkDue> {
        let left = std::mem::take(&mut *stdx::lock(&self.left));
        let mut effects = Vec::new();
        if left.review_versions {
            effects.push(NodeEffect::ReviewVersions);
        }
        if !left.review_settings.is_empty() {
            let queues = left.review_settings.into_values().collect();
            effects.push(NodeEffect::ReviewSettings(queues));
        }
        effects.extend(left.close_connections_to.into_iter().map(NodeEffect::CloseConnectionsTo));
        effects.extend(left.close_connections_of.into_iter().map(NodeEffect::CloseConnectionsOf));
        effects.extend(left.review_rights_of.into_iter().map(NodeEffect::ReviewRightsOf));
        let (gone, upto, unused) = (left.gone, left.upto, left.unused);
        let any = !gone.is_empty() || !effects.is_empty() || !unused.is_empty();
        any.then_some(NodeWorkDue { gone, upto, effects, unused })
    }
}

/// A change that was asked for on this node and is applied here: its asker carries out what follows from it.
/// If it is dropped before, the effects on this node are left to the [`NodeWork`].
#[derive(Debug)]
pub(super) struct OwnChange {
    pub(super) facts: Vec<Fact>,
    pub(super) removed: Vec<Removed>,
    pub(super) gone: Vec<QueueRef>,
    pub(super) effects: Effects,
    pub(super) upto: Lsn,
    pub(super) work: Arc<NodeWork>,
}

impl Drop for OwnChange {
    fn drop(&mut self) {
        let (gone, node) = (std::mem::take(&mut self.gone), std::mem::take(&mut self.effects.node));
        self.work.add(gone, node, self.upto);
    }
}
