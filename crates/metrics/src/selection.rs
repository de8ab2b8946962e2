//! The wishes of a scrape of objects.

use meta::{QueueDef, QueueId};
use queues::{Diagnosis, QueueRef};
use std::collections::HashSet;

/// The families and objects that are wanted.
pub(crate) struct Selection<'s> {
    pub(crate) families: &'s [String],
    /// Virtual hosts whose figures are wanted; empty for all.
    pub(crate) vhosts: &'s [String],
    pub(crate) queues: Option<&'s HashSet<QueueId>>,
}

impl Selection<'_> {
    pub(crate) fn wants(&self, family: &str) -> bool {
        self.families.iter().any(|wanted| wanted == family)
    }

    pub(crate) fn wants_vhost(&self, vhost: &str) -> bool {
        self.vhosts.is_empty() || self.vhosts.iter().any(|wanted| wanted == vhost)
    }

    /// Whether the figures of a queue are wanted; those of another node's queue that node has.
    pub(crate) fn wants_own(&self, queue: &QueueRef) -> bool {
        Diagnosis(queue).home().is_none() && self.wants_queue(queue.def())
    }

    pub(crate) fn wants_queue(&self, def: &QueueDef) -> bool {
        !def.is_internal()
            && self.wants_vhost(&def.vhost)
            && self.queues.is_none_or(|wanted| wanted.contains(&def.id))
    }
}
