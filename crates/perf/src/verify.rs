//! The ledger of `--verify`: which messages were confirmed, which came to which queue, and what was
//! wrong about them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The number of findings told in words; all are counted.
const EXAMPLES_MAX: usize = 10;

/// A growing set of message numbers.
#[derive(Debug, Default)]
struct Numbers(Vec<u64>);

impl Numbers {
    /// Adds a number; whether it is new.
    fn insert(&mut self, number: u64) -> bool {
        let at = usize::try_from(number / 64).unwrap_or(usize::MAX);
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        let bit = 1 << (number % 64);
        let Some(word) = self.0.get_mut(at) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// The numbers of this set that are in none of the others.
    fn n_missing(&self, found: &Self, excused: &Self) -> u64 {
        let missing = |(at, word): (usize, &u64)| word & !found.word(at) & !excused.word(at);
        self.0.iter().enumerate().map(missing).map(|word| u64::from(word.count_ones())).sum()
    }
}

#[derive(Debug, Default)]
struct Published {
    /// Confirmed, or sent where nothing is confirmed.
    promised: Numbers,
    returned: Numbers,
}

/// The messages that came out of a queue.
#[derive(Debug, Default)]
struct Received {
    by_publisher: Vec<Numbers>,
    /// All of it, also what came more than once.
    n: u64,
}

/// How often a message may come out of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// Once, in order, unless it is marked as redelivered.
    #[default]
    Once,
    /// As often as its publisher published it: repetitions are counted, and no fault.
    AtLeastOnce,
}

/// The findings of a run.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) guarantee: Guarantee,
    pub(crate) lost: u64,
    pub(crate) duplicates: u64,
    pub(crate) out_of_order: u64,
    pub(crate) damaged: u64,
    /// Whether it was possible to say what has to arrive where.
    pub(crate) is_loss_known: bool,
    pub(crate) examples: Vec<String>,
}

impl Verdict {
    /// Nothing is wrong.
    pub(crate) fn is_good(&self) -> bool {
        let is_once = self.duplicates == 0 || self.guarantee == Guarantee::AtLeastOnce;
        is_once && self.lost + self.out_of_order + self.damaged == 0
    }
}

/// The record of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    guarantee: Guarantee,
    publishers: Vec<Mutex<Published>>,
    /// The messages that came out of each queue.
    received: Vec<Mutex<Received>>,
    duplicates: AtomicU64,
    out_of_order: AtomicU64,
    damaged: AtomicU64,
    /// Messages may have been lost through nobody's fault.
    is_loss_unknown: AtomicBool,
    examples: Mutex<Vec<String>>,
}

impl Ledger {
    pub(crate) fn new(n_publishers: usize, n_queues: usize, guarantee: Guarantee) -> Self {
        let numbers = || (0..n_publishers).map(|_| Numbers::default()).collect();
        let received = || Mutex::new(Received { by_publisher: numbers(), n: 0 });
        Self {
            guarantee,
            publishers: (0..n_publishers).map(|_| Mutex::default()).collect(),
            received: (0..n_queues).map(|_| received()).collect(),
            duplicates: AtomicU64::new(0),
            out_of_order: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            is_loss_unknown: AtomicBool::new(false),
            examples: Mutex::default(),
        }
    }

    /// The broker took responsibility for a message (or was given it, without confirms).
    pub(crate) fn confirmed(&self, publisher: u32, number: u64) {
        self.published(publisher, |published| published.promised.insert(number));
    }

    /// A message came back: no queue has it.
    pub(crate) fn returned(&self, publisher: u32, number: u64) {
        self.published(publisher, |published| published.returned.insert(number));
    }

    fn published(&self, publisher: u32, change: impl FnOnce(&mut Published) -> bool) {
        let at = usize::try_from(publisher).unwrap_or(usize::MAX);
        if let Some(published) = self.publishers.get(at) {
            change(&mut stdx::lock(published));
        }
    }

    /// A message came, out of `queue`. `last` is the number of the last one of its publisher at
    /// this consumer. Gives back whether it is a copy that was counted.
    pub(crate) fn received(
        &self,
        queue: usize,
        mark: crate::template::Mark,
        last: Option<u64>,
        is_redelivered: bool,
    ) -> bool {
        let publisher = usize::try_from(mark.publisher).unwrap_or(usize::MAX);
        let is_new = self.received.get(queue).and_then(|received| {
            let mut received = stdx::lock(received);
            received.n += 1;
            Some(received.by_publisher.get_mut(publisher)?.insert(mark.number))
        });
        let Some(is_new) = is_new else {
            self.damaged("from an unknown publisher");
            return false;
        };
        let is_copy = !is_new && self.guarantee == Guarantee::AtLeastOnce;
        if is_copy {
            self.duplicates.fetch_add(1, Ordering::Relaxed);
        } else if self.guarantee == Guarantee::Once && !is_redelivered {
            self.check_once(mark, is_new, last);
        }
        is_copy
    }

    /// A message came that is not marked as redelivered.
    fn check_once(&self, mark: crate::template::Mark, is_new: bool, last: Option<u64>) {
        let what = || format!("message {} of publisher {}", mark.number, mark.publisher);
        if !is_new {
            self.duplicates.fetch_add(1, Ordering::Relaxed);
            self.example(|| format!("{} came twice, not marked as redelivered", what()));
        } else if last.is_some_and(|last| mark.number < last) {
            self.out_of_order.fetch_add(1, Ordering::Relaxed);
            self.example(|| format!("{} came after {}", what(), last.unwrap_or_default()));
        }
    }

    /// A message came that is not as it was sent.
    pub(crate) fn damaged(&self, how: &str) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
        self.example(|| format!("a message came damaged: {how}"));
    }

    /// From now on it cannot be told what has to arrive.
    pub(crate) fn doubt_loss(&self) {
        self.is_loss_unknown.store(true, Ordering::Relaxed);
    }

    fn example(&self, text: impl FnOnce() -> String) {
        let mut examples = stdx::lock(&self.examples);
        if examples.len() < EXAMPLES_MAX {
            examples.push(text());
        }
    }

    /// The number of promised messages that have not come. `expected` says whether what a publisher
    /// publishes is to come out of a queue.
    pub(crate) fn n_missing(&self, expected: &[(usize, usize)]) -> u64 {
        let missing = |&(queue, publisher): &(usize, usize)| {
            let published = self.publishers.get(publisher)?;
            let published = stdx::lock(published);
            let received = self.received.get(queue)?;
            let received = stdx::lock(received);
            let received = received.by_publisher.get(publisher)?;
            Some(published.promised.n_missing(received, &published.returned))
        };
        expected.iter().filter_map(missing).sum()
    }

    /// The number of messages that came out of a queue.
    pub(crate) fn n_received(&self, queue: usize) -> u64 {
        self.received.get(queue).map_or(0, |received| stdx::lock(received).n)
    }

    /// The end of it. Without `expected` loss cannot be told.
    pub(crate) fn verdict(&self, expected: Option<&[(usize, usize)]>) -> Verdict {
        let expected = expected.filter(|_| !self.is_loss_unknown.load(Ordering::Relaxed));
        let examples = stdx::lock(&self.examples);
        Verdict {
            guarantee: self.guarantee,
            lost: expected.map_or(0, |expected| self.n_missing(expected)),
            duplicates: self.duplicates.load(Ordering::Relaxed),
            out_of_order: self.out_of_order.load(Ordering::Relaxed),
            damaged: self.damaged.load(Ordering::Relaxed),
            is_loss_known: expected.is_some(),
            examples: examples.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Mark;

    fn mark(number: u64) -> Mark {
        Mark { number, stamp: 0, publisher: 0 }
    }

    #[test]
    fn a_good_run_is_good() {
        let ledger = Ledger::new(1, 2, Guarantee::Once);
        for number in 0..200 {
            ledger.confirmed(0, number);
            ledger.received(0, mark(number), number.checked_sub(1), false);
            ledger.received(1, mark(number), number.checked_sub(1), false);
        }
        assert!(ledger.verdict(Some(&[(0, 0), (1, 0)])).is_good());
        assert_eq!([0, 1, 2].map(|queue| ledger.n_received(queue)), [200, 200, 0]);
    }

    #[test]
    fn loss_is_what_was_promised_and_neither_came_nor_returned() {
        let ledger = Ledger::new(1, 1, Guarantee::Once);
        (0..100).for_each(|number| ledger.confirmed(0, number));
        ledger.returned(0, 70);
        (0..98).filter(|&n| n != 70).for_each(|n| {
            ledger.received(0, mark(n), None, false);
        });
        assert_eq!(ledger.n_missing(&[(0, 0)]), 2);
        assert_eq!(ledger.verdict(Some(&[(0, 0)])).lost, 2);
        ledger.doubt_loss();
        assert!(ledger.verdict(Some(&[(0, 0)])).is_good());
        let unknown = ledger.verdict(None);
        assert!(unknown.is_good() && !unknown.is_loss_known);
    }

    #[test]
    fn duplicates_and_order_count_unless_redelivered() {
        let ledger = Ledger::new(1, 1, Guarantee::Once);
        ledger.received(0, mark(5), None, false);
        ledger.received(0, mark(5), Some(5), true);
        assert!(ledger.verdict(None).is_good());
        ledger.received(0, mark(5), Some(5), false);
        ledger.received(0, mark(3), Some(5), false);
        ledger.received(0, Mark { publisher: 9, ..mark(0) }, None, false);
        let verdict = ledger.verdict(None);
        assert_eq!((verdict.duplicates, verdict.out_of_order, verdict.damaged), (1, 1, 1));
        assert_eq!(verdict.examples[1], "message 3 of publisher 0 came after 5");
    }

    #[test]
    fn what_is_sent_again_may_come_again_and_late() {
        let ledger = Ledger::new(1, 1, Guarantee::AtLeastOnce);
        (0..3).for_each(|number| ledger.confirmed(0, number));
        assert!(!ledger.received(0, mark(1), None, false));
        assert!(!ledger.received(0, mark(0), Some(1), false));
        assert!(ledger.received(0, mark(1), Some(1), false));
        assert!(ledger.received(0, mark(1), Some(1), true));
        let verdict = ledger.verdict(Some(&[(0, 0)]));
        assert_eq!((verdict.duplicates, verdict.out_of_order, verdict.lost), (2, 0, 1));
        assert!(!verdict.is_good());
        ledger.received(0, mark(2), Some(1), false);
        assert!(ledger.verdict(Some(&[(0, 0)])).is_good());
    }
}
