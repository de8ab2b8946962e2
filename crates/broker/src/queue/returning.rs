//! Very many messages that come back to a queue: slice after slice, and yet nobody is given what stands
//! behind them before all are back.

use super::Queue;
use queue::{ConsumerKey, Return};
use std::collections::HashSet;
use std::sync::Arc;

/// Nobody is given anything until this is dropped.
#[must_use = "consumers are given what stands behind messages that are to come back"]
pub(crate) struct Returning(Arc<Queue>);

impl Returning {
    pub(crate) fn begin(queue: &Arc<Queue>) -> Self {
        queue.with(|local, _| local.fifo.begin_return());
        Self(Arc::clone(queue))
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        self.0.with(|local, wakes| {
            local.fifo.end_return();
            local.dispatch(&self.0, wakes);
        });
    }
}

impl Queue {
    /// What consumers of one connection hold, but for what is to be kept of each.
    pub(crate) fn held_by(
        &self,
        consumers: &[(ConsumerKey, HashSet<u64>)],
    ) -> Vec<(ConsumerKey, u64)> {
        let mut local = stdx::lock(&self.local);
        local.record_held(consumers.iter().map(|(consumer, _)| *consumer));
        let held = consumers.iter().flat_map(|(consumer, kept)| {
            let held = local.fifo.held_by(*consumer).filter(|at| !kept.contains(at));
            held.map(|at| (*consumer, at))
        });
        held.collect()
    }

    /// Messages come back that consumers hold; any others are passed over.
    pub(crate) fn give_back(&self, held: &[(ConsumerKey, u64)], how: Return) {
        self.with(|local, wakes| {
            let (now_ms, mut gone) = (local.returned_ms(self), Vec::new());
            for (consumer, at) in held {
                local.watched.forget(*consumer, *at);
                let _is_held = local.fifo.give_back(*consumer, *at, how, now_ms, &mut gone);
            }
            local.after_return(self, &gone);
            local.dispatch(self, wakes);
        });
    }
}
