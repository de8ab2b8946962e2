//! Publishes that have waited for consumers for too long (`x-confirm-timeout`). They are refused. Whoever was
//! refused may publish again, so nobody is given such a message any more: it goes at once if it is ready, and
//! otherwise when its consumer gives it back, or when it would be tried again. It is no dead letter.

use super::Queue;
use super::confirm_on::Confirms;
use content::Content;
use message::Refusal;
use queue::{ConsumerKey, Fifo, PositionRange};
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use stdx::UnixMs;

/// The parts of a queue that have to do with messages whose publishers were refused.
pub(super) struct GivenUp<'s> {
    pub(super) fifo: &'s mut Fifo,
    pub(super) content: &'s mut Content,
    pub(super) confirms: &'s mut Confirms,
}

impl GivenUp<'_> {
    /// Refuses publishes that have waited for too long. Messages among them that nobody holds are gone.
    pub(super) fn refuse_overdue(&mut self, queue: &Queue) {
        let refused = self.confirms.refuse_overdue(queue.time().monotonic_ms());
        queue.counters.n_confirm_timeouts.fetch_add(refused.len() as u64, Ordering::Relaxed);
        for (at, bytes) in refused {
            let is_ready = self.fifo.messages_mut().discard(PositionRange::one(at)) > 0;
            if !is_ready {
                self.confirms.give_up(at);
                continue;
            }
            if let Some(policy) = self.fifo.messages_mut().policy_mut() {
                policy.ready_bytes_mut().left(bytes);
            }
            self.forget(queue, at);
        }
        self.content.log_settled(queue);
    }

    /// Makes messages ready that have waited to be tried again by `now_ms`; given-up messages are gone.
    pub(super) fn wake(&mut self, queue: &Queue, now_ms: UnixMs) {
        let Self { fifo, confirms, .. } = self;
        let Some(policy) = fifo.messages_mut().policy_mut() else { return };
        for at in policy.wake(now_ms, |at| confirms.is_given_up(at)) {
            self.forget(queue, at);
        }
    }

    /// A consumer is about to give a message back. If it is one of these it goes instead; whether it did.
    pub(super) fn drop_returned(&mut self, queue: &Queue, consumer: ConsumerKey, at: u64) -> bool {
        let goes = self.confirms.is_given_up(at) && self.fifo.settle(consumer, at).is_ok();
        if goes {
            self.forget(queue, at);
        }
        goes
    }

    /// Drops all given-up messages that a consumer holds and returns, but for `kept`.
    pub(super) fn drop_all_returned(
        &mut self,
        queue: &Queue,
        consumer: ConsumerKey,
        kept: &HashSet<u64>,
    ) {
        if !self.confirms.has_given_up() {
            return;
        }
        let holder = self.fifo.consumers().get(consumer);
        let held = holder.into_iter().flat_map(queue::Consumer::held);
        let returned: Vec<u64> = held.filter(|at| !kept.contains(at)).collect();
        for at in returned {
            self.drop_returned(queue, consumer, at);
        }
    }

    fn forget(&mut self, queue: &Queue, at: u64) {
        self.confirms.not_consumed(PositionRange::one(at), Refusal::Timeout);
        self.content.release(queue.pool(), at);
    }
}
