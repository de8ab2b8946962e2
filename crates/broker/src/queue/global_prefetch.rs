//! A prefetch limit that the consumers of one channel share, whatever their queues: `basic.qos` with `global`, as
//! it was before RabbitMQ 4.3. Knows numbers and links; must never know queues: who waits for room is told to
//! the session, which knows where they are.

use super::state::{QueueState, host_mut};
use super::{Queue, Wakes};
use queue::{AckMode, Assigned, ConsumerKey};
use session::{LinkId, PROPERTIES_BYTES_ALWAYS_TAKEN};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// What the consumers of a channel hold together, and who of them waits.
#[derive(Debug, Default)]
pub(crate) struct ChannelLimit(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// 0 is no limit.
    prefetch: u64,
    n_unsettled: u64,
    /// Consumers that could be given something if there was room; each once.
    waiting: BTreeSet<LinkId>,
    /// Who got the last place: the others are before it.
    last: Option<LinkId>,
}

impl State {
    const fn has_room(&self) -> bool {
        self.prefetch == 0 || self.n_unsettled < self.prefetch
    }

    /// Those who wait, in turn, if there is room.
    fn take_waiting(&mut self) -> Vec<LinkId> {
        if !self.has_room() {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut self.waiting);
        let is_before = |link: &&LinkId| Some(**link) <= self.last;
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let after = waiting.range((after, Bound::Unbounded));
        after.chain(waiting.iter().take_while(is_before)).copied().collect()
    }
}

impl ChannelLimit {
    /// Takes a place for one delivery; false if there is none: then the consumer waits. COMPAT: who settles
    /// nothing takes no place, and waits all the same.
    fn admits(&self, link: LinkId, settling: AckMode) -> bool {
        let mut state = stdx::lock(&self.0);
        if !state.has_room() {
            state.waiting.insert(link);
            return false;
        }
        if settling == AckMode::Manual {
            state.n_unsettled += 1;
            state.last = Some(link);
        }
        true
    }

    /// Counts what consumers hold that were there before the limit.
    fn count(&self, n: u64) {
        stdx::lock(&self.0).n_unsettled += n;
    }

    /// Changes the limit; 0 for none. Who may go on.
    pub(crate) fn set(&self, prefetch: u16) -> Vec<LinkId> {
        let mut state = stdx::lock(&self.0);
        state.prefetch = u64::from(prefetch);
        state.take_waiting()
    }

    /// So many deliveries were settled. Who may go on.
    pub(crate) fn release(&self, n: u64) -> Vec<LinkId> {
        let mut state = stdx::lock(&self.0);
        state.n_unsettled = state.n_unsettled.saturating_sub(n);
        state.take_waiting()
    }

    /// Everything but so many deliveries went back. Who may go on.
    pub(crate) fn recover(&self, n_left: u64) -> Vec<LinkId> {
        let mut state = stdx::lock(&self.0);
        state.n_unsettled = n_left;
        state.take_waiting()
    }
}

impl QueueState {
    /// The next message, which has so many bytes of properties, for the consumer whose turn it is, who takes
    /// such properties, and whose channel has room for it.
    pub(super) fn next_delivery(
        &mut self,
        queue: &Queue,
        properties_bytes: usize,
        wakes: &mut Wakes,
    ) -> Option<Assigned> {
        if self.n_limited > 0 || properties_bytes > PROPERTIES_BYTES_ALWAYS_TAKEN {
            return self.next_limited(queue, properties_bytes, wakes);
        }
        self.fifo.next_delivery()
    }

    #[cold]
    fn next_limited(
        &mut self,
        queue: &Queue,
        properties_bytes: usize,
        wakes: &mut Wakes,
    ) -> Option<Assigned> {
        loop {
            let consumer = self.fifo.next_taker().filter(|_| self.fifo.head().is_some())?;
            if !self.fits_consumer(queue, consumer, properties_bytes, wakes) {
                self.fifo.pause(consumer);
                continue;
            }
            let host = host_mut(&mut self.hosts, consumer);
            let Some((limit, host)) = host.and_then(|host| Some((host.limit.clone()?, host)))
            else {
                return self.fifo.next_delivery();
            };
            let settling = host.checkout.settling;
            if !limit.admits(host.link, settling) {
                self.fifo.pause(consumer);
                continue;
            }
            let given = self.fifo.next_delivery();
            if given.is_none() && settling == AckMode::Manual {
                limit.release(1);
            }
            return given;
        }
    }

    /// From now on the consumer is one of those that share `limit`.
    pub(super) fn limit_consumer(&mut self, consumer: ConsumerKey, limit: &Arc<ChannelLimit>) {
        limit.count(self.fifo.n_held_by(consumer) as u64);
        if let Some(host) = host_mut(&mut self.hosts, consumer) {
            self.n_limited += usize::from(host.limit.is_none());
            host.limit = Some(Arc::clone(limit));
        }
    }

    /// The consumer's channel has room again. Its connection may be full all the same.
    pub(super) fn resume_limited(&mut self, consumer: ConsumerKey) {
        if host_mut(&mut self.hosts, consumer).is_some_and(|host| !host.held_back) {
            self.fifo.resume(consumer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_shared_and_given_in_turn() {
        let limit = ChannelLimit::default();
        limit.set(1);
        let admits = |link| limit.admits(LinkId(link), AckMode::Manual);
        assert!(admits(1));
        assert!(!admits(1) && !admits(2) && !admits(2) && !admits(3));
        assert!(!limit.admits(LinkId(4), AckMode::Auto));
        assert_eq!(limit.release(1), [2, 3, 4, 1].map(LinkId));
        assert!(limit.admits(LinkId(4), AckMode::Auto), "takes no place");
        assert!(admits(2));
        assert!(!admits(3) && !admits(1));
        assert_eq!(limit.set(2), [3, 1].map(LinkId));
        assert!(admits(3));
        assert!(!admits(1));
        assert_eq!(limit.release(0), []);
        assert_eq!(limit.set(0), [LinkId(1)]);
        assert!(admits(1) && admits(1));
        limit.set(1);
        assert!(!admits(1));
        assert_eq!(limit.recover(1), []);
        assert_eq!(limit.recover(0), [LinkId(1)]);
    }
}
