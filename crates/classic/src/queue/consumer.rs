//! A consumer as its session holds it: everything it says to its queue.

use super::Queue;
use super::deliveries::Get;
use queue::{AckMode, ConsumerKey};
use queue_type::{AfterDetach, AttachRefused, ChannelLimit, Got, Settled, Taker, Wakes};
use session::{ChannelId, CreditRequest, Settle};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// A consumer, or the taker of `basic.get`s of one channel, at its queue.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Queue of the consumer.
    pub queue: Arc<Queue>,
    pub(super) key: ConsumerKey,
    /// Channel of the consumer.
    pub channel: ChannelId,
    pub(super) settling: AckMode,
    pub(super) is_active: bool,
}

impl Consumer {
    /// Whether a delivery to this consumer settles the message.
    pub fn is_no_ack(&self) -> bool {
        self.settling == AckMode::Auto
    }

    /// Whether this consumer is given deliveries: not cancelled, and no taker of `basic.get`s.
    pub const fn is_active(&self) -> bool {
        self.is_active
    }

    /// Gives the next message to an outbox, if there is one and it is in memory.
    ///
    /// # Errors
    /// The queue is being deleted.
    pub fn get(&self, taker: Taker<'_>) -> Result<Got, AttachRefused> {
        let Self { key, channel, settling, .. } = *self;
        let get = Get { key, channel, settling, taker };
        self.queue.with(|state, wakes| state.get(&self.queue, &get, wakes))
    }

    /// Resolves when the first ready message is in memory, or there is none.
    pub async fn next_in_memory(&self) {
        poll_fn(|context| {
            self.queue.with(|state, _| {
                if state.deleted || !state.paging_turn().is_head_cold() {
                    return Poll::Ready(());
                }
                state.paging.wait(context.waker());
                Poll::Pending
            })
        })
        .await;
    }

    /// Settles messages as the consumer's client says. Unknown messages are passed over: they were taken from
    /// the consumer meanwhile.
    pub fn settle(&self, settles: &[Settle], wakes: &mut Wakes) -> Settled {
        let queue = &*self.queue;
        queue.with_wakes(wakes, |state, wakes| state.settle(queue, self.key, settles, wakes))
    }

    /// Records the positions of messages that the consumer holds without a record, since its client has
    /// settled them in a transaction that is not committed yet.
    pub fn record(&self, positions: impl Iterator<Item = u64>) {
        stdx::lock(&self.queue.state).fifo.consumers_mut().record(self.key, positions);
    }

    /// Cancels the consumer, which goes on holding its messages. `told` runs under the lock, after the last
    /// delivery.
    pub fn cancel(&mut self, told: impl FnOnce()) -> AfterDetach {
        self.is_active = false;
        self.queue.with(|state, wakes| {
            let after = state.cancel(&self.queue, self.key);
            told();
            state.deliveries().dispatch(&self.queue, wakes);
            after
        })
    }

    /// Detaches the consumer for good if it gets and holds no messages; true if that was done.
    #[must_use]
    pub fn detach_idle(&self) -> bool {
        stdx::lock(&self.queue.state).membership().detach_idle(self.key)
    }

    /// Sets the consumer's prefetch limit.
    pub fn set_prefetch(&self, prefetch: Option<u32>) {
        self.queue.with(|state, wakes| {
            state.membership().set_prefetch(self.key, prefetch);
            state.deliveries().dispatch(&self.queue, wakes);
        });
    }

    /// Takes the consumer's link credit as its client sees it. The client is told what is left, if it wishes,
    /// behind the messages that this gives to the consumer.
    pub fn flow(&self, request: &CreditRequest) {
        let queue = &*self.queue;
        queue.with(|state, wakes| {
            let is_first = state.membership().flow(self.key, request);
            state.leaving().look_at_time(queue);
            state.deliveries().dispatch(queue, wakes);
            if is_first || (request.echo && !request.drain) {
                state.membership().tell_credit(self.key, false, wakes);
            }
        });
    }

    /// Makes the consumer one of those that share `limit`.
    pub fn limit(&self, limit: &Arc<ChannelLimit>) {
        self.queue.with(|state, _| state.membership().limit(self.key, limit));
    }

    /// Resumes deliveries after the limit that the consumer shares has room again.
    pub fn resume_limited(&self) {
        self.queue.with(|state, wakes| {
            state.membership().resume_limited(self.key);
            state.deliveries().dispatch(&self.queue, wakes);
        });
    }

    /// Resumes deliveries after the consumer's connection has room again.
    pub fn resume(&self) {
        self.queue.with(|state, wakes| {
            state.membership().resume(self.key, wakes);
            state.deliveries().dispatch(&self.queue, wakes);
        });
    }
}
