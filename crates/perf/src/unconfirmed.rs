//! Messages that a publisher keeps until they are confirmed, to publish them again: after a nack, after
//! a time without an answer, on the next connection.

use std::collections::{BTreeMap, VecDeque};

use crate::clock::MILLISECOND;

/// The pause after a nack: a broker that refuses is not asked all the time.
const NACK_PAUSE_NS: u64 = 100 * MILLISECOND;
/// A message's time-out doubles with every publish on one connection, so often at most: a consumer that is
/// slower than it is not buried in copies.
const DOUBLINGS_MAX: u32 = 10;

/// A message that is not confirmed.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// The time its latencies count from.
    stamp: u64,
    /// The delivery tag of its last publish on this connection.
    tag: u64,
    /// The time to publish it again.
    due_at: u64,
    /// Publishes on this connection.
    n_publishes: u32,
}

/// The unconfirmed messages of one channel, by number, `capacity` at most. All times are nanoseconds of the
/// clock that never goes back.
#[derive(Debug)]
pub(crate) struct Unconfirmed {
    capacity: usize,
    timeout_ns: u64,
    kept: BTreeMap<u64, Kept>,
    /// Publishes on this connection that the broker has not answered: tag and number. A message that was
    /// published twice is confirmed by the first answer, whichever it belongs to.
    unanswered: BTreeMap<u64, u64>,
    next_tag: u64,
    /// Numbers of messages that were due at the last look, in order.
    due: VecDeque<u64>,
    /// The time before which no message is due.
    look_at: u64,
}

impl Unconfirmed {
    /// Keeps `capacity` messages; each is due again `timeout_ns` after its publish.
    pub(crate) fn new(capacity: usize, timeout_ns: u64) -> Self {
        Self {
            capacity,
            timeout_ns,
            kept: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            next_tag: 1,
            due: VecDeque::new(),
            look_at: u64::MAX,
        }
    }

    /// The number of messages that may still be published for the first time.
    pub(crate) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.kept.len())
    }

    /// The number of messages that are not confirmed.
    pub(crate) fn n_kept(&self) -> usize {
        self.kept.len()
    }

    /// A message is published, for the first time or again.
    pub(crate) fn publish(&mut self, number: u64, stamp: u64, now: u64) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.unanswered.insert(tag, number);
        let kept = Kept { stamp, tag, due_at: u64::MAX, n_publishes: 0 };
        let kept = self.kept.entry(number).or_insert(kept);
        let wait = self.timeout_ns.saturating_mul(1_u64 << kept.n_publishes.min(DOUBLINGS_MAX));
        (kept.tag, kept.due_at) = (tag, now.saturating_add(wait));
        kept.n_publishes = kept.n_publishes.saturating_add(1);
        self.look_at = self.look_at.min(kept.due_at);
    }

    /// A basic.ack came; `confirmed` gets number and stamp of each message it is the first to confirm.
    /// Gives back how many those were.
    pub(crate) fn confirm(
        &mut self,
        tag: u64,
        is_multiple: bool,
        mut confirmed: impl FnMut(u64, u64),
    ) -> u64 {
        let mut n = 0;
        while let Some((_, number)) = self.next_answered(tag, is_multiple) {
            if let Some(kept) = self.kept.remove(&number) {
                confirmed(number, kept.stamp);
                n += 1;
            }
        }
        n
    }

    /// A basic.nack came: what it refuses is due again soon, unless a later publish of it is under way. Gives
    /// back how many publishes it answered.
    pub(crate) fn refuse(&mut self, tag: u64, is_multiple: bool, now: u64) -> u64 {
        let mut n = 0;
        while let Some((tag, number)) = self.next_answered(tag, is_multiple) {
            if let Some(kept) = self.kept.get_mut(&number).filter(|kept| kept.tag == tag) {
                kept.due_at = now.saturating_add(NACK_PAUSE_NS);
                self.look_at = self.look_at.min(kept.due_at);
            }
            n += 1;
        }
        n
    }

    /// Takes out the next publish that an answer is about: tag and number.
    fn next_answered(&mut self, tag: u64, is_multiple: bool) -> Option<(u64, u64)> {
        if !is_multiple {
            return self.unanswered.remove_entry(&tag);
        }
        let first = self.unanswered.first_entry()?;
        (tag == 0 || *first.key() <= tag).then(|| first.remove_entry())
    }

    /// The connection is lost: everything is due on the next one, where tags count from 1.
    pub(crate) fn disconnect(&mut self) {
        self.unanswered.clear();
        self.due.clear();
        self.next_tag = 1;
        for kept in self.kept.values_mut() {
            (kept.tag, kept.due_at, kept.n_publishes) = (0, 0, 0);
        }
        self.look_at = 0;
    }

    /// Number and stamp of the next message that is due again.
    pub(crate) fn next_due(&mut self, now: u64) -> Option<(u64, u64)> {
        loop {
            if self.due.is_empty() && self.look_at <= now {
                self.look(now);
            }
            let number = self.due.pop_front()?;
            // Answered, or published again, since the look.
            if let Some(kept) = self.kept.get(&number).filter(|kept| kept.due_at <= now) {
                return Some((number, kept.stamp));
            }
        }
    }

    fn look(&mut self, now: u64) {
        let is_due = |kept: &Kept| kept.due_at <= now;
        self.due
            .extend(self.kept.iter().filter(|(_, kept)| is_due(kept)).map(|(number, _)| number));
        let later = self.kept.values().filter(|kept| !is_due(kept));
        self.look_at = later.map(|kept| kept.due_at).min().unwrap_or(u64::MAX);
    }

    /// The time at which something may be due; `None`: not before there is an answer or a loss.
    pub(crate) fn due_at(&self) -> Option<u64> {
        let at = if self.due.is_empty() { self.look_at } else { 0 };
        (at < u64::MAX).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: u64 = 1_000_000_000;
    const NONE: [u64; 0] = [];

    /// Messages 0 to `n`, published at 0.
    fn published(n: u64) -> Unconfirmed {
        let mut unconfirmed = Unconfirmed::new(10, TIMEOUT);
        (0..n).for_each(|number| unconfirmed.publish(number, 100 + number, 0));
        unconfirmed
    }

    fn confirm(unconfirmed: &mut Unconfirmed, tag: u64, is_multiple: bool) -> Vec<u64> {
        let mut numbers = Vec::new();
        let n = unconfirmed.confirm(tag, is_multiple, |number, stamp| {
            assert_eq!(stamp, 100 + number);
            numbers.push(number);
        });
        assert_eq!(n, numbers.len() as u64);
        numbers
    }

    /// Publishes what is due at that time.
    fn publish_due(unconfirmed: &mut Unconfirmed, now: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some((number, stamp)) = unconfirmed.next_due(now) {
            unconfirmed.publish(number, stamp, now);
            numbers.push(number);
        }
        numbers
    }

    #[test]
    fn confirms_make_room_and_nothing_is_due() {
        let mut unconfirmed = published(6);
        assert_eq!((unconfirmed.room(), unconfirmed.n_kept()), (4, 6));
        assert_eq!(confirm(&mut unconfirmed, 2, false), [1]);
        assert_eq!(confirm(&mut unconfirmed, 2, false), NONE);
        assert_eq!(confirm(&mut unconfirmed, 4, true), [0, 2, 3]);
        assert_eq!(confirm(&mut unconfirmed, 0, true), [4, 5]);
        assert_eq!(publish_due(&mut unconfirmed, u64::MAX - 1), NONE);
        assert_eq!(unconfirmed.due_at(), None);
    }

    #[test]
    fn a_nack_is_followed_by_a_pause() {
        let mut unconfirmed = published(3);
        assert_eq!(unconfirmed.refuse(2, true, 5), 2);
        assert_eq!(unconfirmed.due_at(), Some(5 + NACK_PAUSE_NS));
        assert_eq!(publish_due(&mut unconfirmed, 4 + NACK_PAUSE_NS), NONE);
        assert_eq!(publish_due(&mut unconfirmed, 5 + NACK_PAUSE_NS), [0, 1]);
        assert_eq!(confirm(&mut unconfirmed, 4, false), [0]);
        assert_eq!(confirm(&mut unconfirmed, 5, true), [2, 1]);
    }

    #[test]
    fn the_time_without_an_answer_doubles() {
        let mut unconfirmed = published(1);
        assert_eq!(publish_due(&mut unconfirmed, TIMEOUT - 1), NONE);
        let mut now = 0;
        for doublings in 0..20 {
            now += TIMEOUT << doublings.min(DOUBLINGS_MAX);
            assert_eq!(unconfirmed.due_at(), Some(now));
            assert_eq!(publish_due(&mut unconfirmed, now), [0]);
        }
        let for_ever = Unconfirmed::new(1, u64::MAX);
        let mut for_ever = Unconfirmed { kept: published(1).kept, ..for_ever };
        for_ever.publish(0, 100, 7);
        assert_eq!(for_ever.due_at(), None);
    }

    #[test]
    fn a_late_confirm_counts_and_the_next_one_does_not() {
        let mut unconfirmed = published(2);
        assert_eq!(publish_due(&mut unconfirmed, TIMEOUT), [0, 1]);
        // The first publish is refused while the second is under way: there is nothing to do.
        assert_eq!(unconfirmed.refuse(1, false, TIMEOUT), 1);
        assert_eq!(publish_due(&mut unconfirmed, TIMEOUT + NACK_PAUSE_NS), NONE);
        assert_eq!(confirm(&mut unconfirmed, 2, false), [1]);
        assert_eq!(confirm(&mut unconfirmed, 4, true), [0]);
        assert_eq!((unconfirmed.n_kept(), unconfirmed.unanswered.len()), (0, 0));
    }

    #[test]
    fn on_the_next_connection_everything_is_due_in_order() {
        let mut unconfirmed = published(4);
        confirm(&mut unconfirmed, 2, false);
        unconfirmed.refuse(1, false, 0);
        unconfirmed.disconnect();
        assert_eq!(unconfirmed.due_at(), Some(0));
        assert_eq!(publish_due(&mut unconfirmed, 1), [0, 2, 3]);
        assert_eq!(unconfirmed.due_at(), Some(1 + TIMEOUT));
        assert_eq!(confirm(&mut unconfirmed, 2, true), [0, 2]);
        assert_eq!(unconfirmed.n_kept(), 1);
    }

    #[test]
    fn what_is_answered_while_it_waits_its_turn_is_not_published() {
        let mut unconfirmed = published(3);
        assert_eq!(unconfirmed.next_due(TIMEOUT), Some((0, 100)));
        confirm(&mut unconfirmed, 2, false);
        unconfirmed.publish(0, 100, TIMEOUT);
        assert_eq!(publish_due(&mut unconfirmed, TIMEOUT), [2]);
    }
}
