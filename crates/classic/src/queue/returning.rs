//! Very many messages that come back to a queue: slice after slice, and yet nobody is given what stands
//! behind them before all are back.

use super::Queue;
use queue::{ConsumerKey, Return};
use std::collections::HashSet;
use std::sync::Arc;

/// Nobody is given anything until this is dropped.
#[must_use = "consumers are given what stands behind messages that are to come back"]
pub struct Returning(Arc<Queue>);

impl Returning {
    /// From now on.
    pub fn begin(queue: &Arc<Queue>) -> Self {
        queue.with(|local, _| local.fifo.consumers_mut().begin_return());
        Self(Arc::clone(queue))
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        self.0.with(|local, wakes| {
            local.fifo.consumers_mut().end_return();
            local.deliveries().dispatch(&self.0, wakes);
        });
    }
}

impl Queue {
    /// Messages that consumers of one connection hold, but for those to be kept of each.
    pub fn held_by(&self, consumers: &[(ConsumerKey, HashSet<u64>)]) -> Vec<(ConsumerKey, u64)> {
        let mut local = stdx::lock(&self.local);
        local.record_held(consumers.iter().map(|(consumer, _)| *consumer));
        let held = consumers.iter().flat_map(|(consumer, kept)| {
            let held = local
                .fifo
                .consumers()
                .get(*consumer)
                .into_iter()
                .flat_map(queue::Consumer::held)
                .filter(|at| !kept.contains(at));
            held.map(|at| (*consumer, at))
        });
        held.collect()
    }

    /// Messages come back that consumers hold; any others are passed over.
    pub fn give_back(&self, held: &[(ConsumerKey, u64)], how: Return) {
        self.with(|local, wakes| {
            let (now_ms, mut gone) = (local.leaving().returned_ms(self), Vec::new());
            for (consumer, at) in held {
                local.watched.forget(*consumer, *at);
                let _is_held = local.fifo.give_back(*consumer, *at, how, now_ms, &mut gone);
            }
            local.leaving().after_return(self, &gone);
            local.deliveries().dispatch(self, wakes);
        });
    }
}
