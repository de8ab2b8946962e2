//! Messages that come back to a queue together: of the consumers of a channel that ends or recovers, and very
//! many of one consumer. They come slice after slice, and yet nobody is given what stands behind them before
//! all are back.

use super::Queue;
use super::consumer::Consumer;
use super::state::QueueState;
use queue::{ConsumerKey, Return};
use queue_type::AfterDetach;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Nobody is given anything until this is dropped.
#[derive(Debug)]
#[must_use = "consumers are given what stands behind messages that are to come back"]
pub struct Returning(Arc<Queue>);

impl Returning {
    /// From now on.
    pub(super) fn begin(queue: &Arc<Queue>) -> Self {
        queue.with(|state, _| state.fifo.consumers_mut().begin_return());
        Self(Arc::clone(queue))
    }
}

impl Consumer {
    /// Begins to return messages in several parts: nobody is given anything until the returned guard is
    /// dropped.
    pub fn begin_return(&self) -> Returning {
        Returning::begin(&self.queue)
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        self.0.with(|state, wakes| {
            state.fifo.consumers_mut().end_return();
            state.deliveries().dispatch(&self.0, wakes);
        });
    }
}

/// The consumers of one channel at one queue, whose messages come back together.
#[derive(Debug)]
pub struct Release {
    queue: Arc<Queue>,
    consumers: Vec<ConsumerKey>,
    /// Positions that consumers keep.
    kept: HashMap<ConsumerKey, HashSet<u64>>,
    /// Retired consumers that still hold something.
    holding: Vec<ConsumerKey>,
    /// Messages that are yet to come back in slices.
    slices: Option<(std::vec::IntoIter<(ConsumerKey, u64)>, Returning)>,
}

impl Release {
    /// The release of these consumers, all of one queue, with the positions that each keeps; `None` without
    /// any.
    pub fn of<'c>(consumers: impl Iterator<Item = (&'c Consumer, HashSet<u64>)>) -> Option<Self> {
        let mut consumers = consumers.peekable();
        let queue = Arc::clone(&consumers.peek()?.0.queue);
        let (mut keys, mut kept) = (Vec::new(), HashMap::new());
        for (consumer, of_consumer) in consumers {
            keys.push(consumer.key);
            if !of_consumer.is_empty() {
                kept.insert(consumer.key, of_consumer);
            }
        }
        Some(Self { queue, consumers: keys, kept, holding: Vec::new(), slices: None })
    }

    /// Number of consumers that are released.
    pub const fn n_consumers(&self) -> usize {
        self.consumers.len()
    }

    /// Ends the deliveries of the last `n` consumers, and takes those of them away for good that hold
    /// nothing. What they leave to others is given out by [`Release::detach`]. `None` when all were
    /// retired: those are left then that hold something.
    pub fn retire(&mut self, n: usize) -> Option<AfterDetach> {
        let consumers = self.consumers.split_off(self.consumers.len().saturating_sub(n));
        if consumers.is_empty() {
            self.consumers = std::mem::take(&mut self.holding);
            return None;
        }
        Some(self.queue.with(|state, _| {
            state.membership().record_held(consumers.iter().copied());
            let mut after = AfterDetach::Stays;
            for consumer in consumers {
                after = after.or(state.cancel(&self.queue, consumer));
                if !state.membership().detach_idle(consumer) {
                    self.holding.push(consumer);
                }
            }
            after
        }))
    }

    /// Whether the queue's consumers hold more than `n` messages.
    pub fn is_of_more_than(&self, n: usize) -> bool {
        self.queue.counters.n_unacked.load(Ordering::Relaxed) > n as u64
    }

    /// Gives back up to `n` of the messages that the consumers do not keep; returns how many there were.
    /// Nobody is given any of them until this is dropped.
    pub fn give_back(&mut self, n: usize, how: Return) -> usize {
        if self.slices.is_none() {
            let returning = Returning::begin(&self.queue);
            let held = self.held(&mut stdx::lock(&self.queue.state));
            self.slices = Some((held.into_iter(), returning));
        }
        let Some((held, _)) = &mut self.slices else { return 0 };
        let mut slice: Vec<_> = held.take(n).collect();
        let n_taken = slice.len();
        if !slice.is_empty() {
            self.queue.with(|state, wakes| {
                let mut given_up = state.given_up();
                slice.retain(|(one, at)| !given_up.drop_returned(&self.queue, *one, *at));
                state.give_back(&self.queue, |members, now_ms, gone| {
                    for (consumer, at) in &slice {
                        let _is_held = members.give_back(*consumer, *at, how, now_ms, gone);
                    }
                });
                state.deliveries().dispatch(&self.queue, wakes);
            });
        }
        n_taken
    }

    fn held(&self, state: &mut QueueState) -> Vec<(ConsumerKey, u64)> {
        let mut members = state.membership();
        members.record_held(self.consumers.iter().copied());
        let held = self.consumers.iter().flat_map(|consumer| {
            let kept = self.kept.get(consumer);
            let known = members.fifo.consumers().get(*consumer);
            let held = known.into_iter().flat_map(queue::Consumer::held);
            let held = held.filter(move |at| !kept.is_some_and(|kept| kept.contains(at)));
            held.map(|at| (*consumer, at))
        });
        held.collect()
    }

    /// Everything the consumers hold goes back, but for what each keeps, before anybody is given any of it;
    /// they stay attached.
    pub fn requeue_all(self) {
        let (none, queue) = (HashSet::new(), &*self.queue);
        queue.with(|state, wakes| {
            state.membership().record_held(self.consumers.iter().copied());
            for consumer in &self.consumers {
                let kept = self.kept.get(consumer).unwrap_or(&none);
                state.given_up().drop_all_returned(queue, *consumer, kept);
                state.give_back(queue, |members, now_ms, gone| {
                    members.give_back_all(*consumer, kept, now_ms, gone);
                });
            }
            state.deliveries().dispatch(queue, wakes);
        });
    }

    /// Takes the consumers away and gives back what they hold, before anybody else gets any of it.
    pub fn detach(self) -> AfterDetach {
        let queue = &*self.queue;
        queue.with(|state, wakes| {
            state.membership().record_held(self.consumers.iter().copied());
            let after = self.consumers.iter().fold(AfterDetach::Stays, |after, consumer| {
                after.or(state.detach(queue, *consumer))
            });
            state.deliveries().dispatch(queue, wakes);
            after
        })
    }
}
