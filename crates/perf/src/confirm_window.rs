//! Publishes that are not confirmed yet, by delivery tag, with the times they are measured from.

use std::collections::VecDeque;

/// The stamp of a publish that was confirmed before those in front of it.
const SETTLED: u64 = 0;

/// The outstanding publishes of one channel.
#[derive(Debug)]
pub(crate) struct ConfirmWindow {
    capacity: usize,
    /// The delivery tag of the front of `stamps`.
    first: u64,
    /// Times of publishing, never [`SETTLED`] while outstanding.
    stamps: VecDeque<u64>,
    n_outstanding: usize,
}

impl ConfirmWindow {
    /// Lets `capacity` publishes be outstanding.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, first: 1, stamps: VecDeque::new(), n_outstanding: 0 }
    }

    /// The number of messages that may still be published now.
    pub(crate) fn room(&self) -> usize {
        self.capacity - self.n_outstanding
    }

    /// The number of unconfirmed messages.
    pub(crate) fn n_outstanding(&self) -> usize {
        self.n_outstanding
    }

    /// Forgets everything: tags count from 1 again on a new channel.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.capacity);
    }

    /// A message is published. Calls beyond [`Self::room`] are the caller's mistake.
    pub(crate) fn publish(&mut self, stamp: u64) {
        self.stamps.push_back(stamp.max(SETTLED + 1));
        self.n_outstanding += 1;
    }

    /// A confirm came; `settled` gets the tag and stamp of each publish it settles. Gives back how
    /// many those were: none for a confirm that makes no sense.
    pub(crate) fn settle(
        &mut self,
        tag: u64,
        is_multiple: bool,
        mut settled: impl FnMut(u64, u64),
    ) -> u64 {
        let before = self.n_outstanding;
        if is_multiple {
            let last = if tag == 0 { u64::MAX } else { tag };
            while self.first <= last {
                let Some(stamp) = self.stamps.pop_front() else { break };
                if stamp != SETTLED {
                    settled(self.first, stamp);
                    self.n_outstanding -= 1;
                }
                self.first += 1;
            }
        } else {
            let at = tag.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
            if let Some(stamp) = at.and_then(|at| self.stamps.get_mut(at))
                && *stamp != SETTLED
            {
                settled(tag, *stamp);
                *stamp = SETTLED;
                self.n_outstanding -= 1;
            }
        }
        while self.stamps.front() == Some(&SETTLED) {
            self.stamps.pop_front();
            self.first += 1;
        }
        u64::try_from(before - self.n_outstanding).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(n: u64) -> ConfirmWindow {
        let mut window = ConfirmWindow::new(10);
        (1..=n).for_each(|tag| window.publish(tag * 100));
        window
    }

    fn settle(window: &mut ConfirmWindow, tag: u64, is_multiple: bool) -> Vec<(u64, u64)> {
        let mut settled = Vec::new();
        let n = window.settle(tag, is_multiple, |tag, stamp| settled.push((tag, stamp)));
        assert_eq!(n, settled.len() as u64);
        settled
    }

    #[test]
    fn confirms_one_by_one_and_up_to_a_tag() {
        let mut window = window(6);
        assert_eq!((window.room(), window.n_outstanding()), (4, 6));
        assert_eq!(settle(&mut window, 1, false), [(1, 100)]);
        assert_eq!(settle(&mut window, 3, true), [(2, 200), (3, 300)]);
        assert_eq!(settle(&mut window, 0, true), [(4, 400), (5, 500), (6, 600)]);
        assert_eq!(window.room(), 10);
    }

    #[test]
    fn confirms_out_of_order_count_once() {
        let mut window = window(5);
        assert_eq!(settle(&mut window, 3, false), [(3, 300)]);
        assert_eq!(settle(&mut window, 3, false), []);
        assert_eq!(settle(&mut window, 1, false), [(1, 100)]);
        assert_eq!(settle(&mut window, 4, true), [(2, 200), (4, 400)]);
        assert_eq!(settle(&mut window, 5, false), [(5, 500)]);
        assert_eq!(window.n_outstanding(), 0);
        window.publish(7);
        assert_eq!(settle(&mut window, 6, false), [(6, 7)]);
    }

    #[test]
    fn a_new_channel_counts_from_the_start() {
        let mut window = window(3);
        window.reset();
        assert_eq!((window.room(), window.n_outstanding()), (10, 0));
        window.publish(7);
        assert_eq!(settle(&mut window, 1, false), [(1, 7)]);
    }

    #[test]
    fn confirms_of_nothing_are_ignored() {
        let mut window = window(2);
        assert_eq!(settle(&mut window, 9, false), []);
        assert_eq!(settle(&mut window, 0, false), []);
        assert_eq!(settle(&mut window, 9, true).len(), 2);
        assert_eq!(settle(&mut window, 9, true), []);
    }
}
