//! A prefetch limit that the consumers of one channel share, whatever their queues: `basic.qos` with
//! `global`, as it was before RabbitMQ 4.3. Knows numbers and links; must never know queues: consumers that
//! wait for room are named to the session, which knows their queues.

use queue::AckMode;
use session::LinkId;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Mutex;

/// The messages that the consumers of a channel hold together, and the consumers that wait for room.
#[derive(Debug, Default)]
pub struct ChannelLimit(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Maximum number of unsettled deliveries; 0 is no limit.
    prefetch: u64,
    n_unsettled: u64,
    /// Consumers that could be given messages if there was room; each once.
    waiting: BTreeSet<LinkId>,
    /// Consumer that got the last place: the others have their turns before it.
    last: Option<LinkId>,
}

impl State {
    const fn has_room(&self) -> bool {
        self.prefetch == 0 || self.n_unsettled < self.prefetch
    }

    /// Takes the consumers that wait, in turn, if there is room.
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
    /// Takes a place for one delivery; false if there is none: then the consumer waits. COMPAT: a consumer
    /// that settles nothing takes no place, and waits all the same.
    pub fn admits(&self, link: LinkId, settling: AckMode) -> bool {
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

    /// Counts messages that consumers held before the limit was there.
    pub fn count(&self, n: u64) {
        stdx::lock(&self.0).n_unsettled += n;
    }

    /// Sets the limit, or 0 for none; returns the consumers that may go on.
    pub fn set(&self, prefetch: u16) -> Vec<LinkId> {
        let mut state = stdx::lock(&self.0);
        state.prefetch = u64::from(prefetch);
        state.take_waiting()
    }

    /// Whether there is a limit at present.
    pub fn is_set(&self) -> bool {
        stdx::lock(&self.0).prefetch > 0
    }

    /// Whether the limit lets one more delivery through.
    pub fn has_room(&self) -> bool {
        stdx::lock(&self.0).has_room()
    }

    /// Frees the places of `n` settled deliveries; returns the consumers that may go on.
    pub fn release(&self, n: u64) -> Vec<LinkId> {
        let mut state = stdx::lock(&self.0);
        state.n_unsettled = state.n_unsettled.saturating_sub(n);
        state.take_waiting()
    }

    /// Frees all places but those of `n_left` deliveries, since the others went back; returns the consumers
    /// that may go on.
    pub fn recover(&self, n_left: u64) -> Vec<LinkId> {
        let mut state = stdx::lock(&self.0);
        state.n_unsettled = n_left;
        state.take_waiting()
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
