//! Letters that are to arrive at least once, and that some of their queues have yet to take. Never their
//! content.

use meta::QueueId;
use queue::machine::NumberRange;
use queue_type::{AwaitedLetters, LostAt, TriedLetter};
use std::collections::BTreeMap;
use stdx::UnixMs;

/// Maximum number of a queue's letters that are on their way or wait to be tried again; RabbitMQ's number.
pub(super) const AWAITED_MAX: usize = 32;
/// The time after which letters that lead nowhere are tried again, in milliseconds; RabbitMQ's.
const RETRY_MS: u64 = 180_000;
/// The time after which full queues are first looked at for room, in milliseconds; it doubles while no
/// letter arrives.
const LOOK_MS: u64 = 500;
/// Maximum time between two looks at full queues, in milliseconds.
const LOOK_MS_MAX: u64 = 4_000;

/// Letters that were tried and did not arrive everywhere.
#[derive(Debug, Default)]
pub(crate) struct Undelivered {
    /// Letters by number.
    letters: BTreeMap<u64, Letter>,
    /// Queues that refused a letter: others wait behind it.
    refused_by: Vec<QueueId>,
    /// Queues that had refused a letter before letters were tried again.
    full: Vec<QueueId>,
    retry_at_ms: Option<UnixMs>,
    /// Milliseconds from the last look at full queues to the next; 0 before the first.
    look_ms: u64,
    /// Whether the operator was told why some letters go nowhere.
    is_told: bool,
}

#[derive(Debug)]
struct Letter {
    taken_by: Vec<QueueId>,
    is_due: bool,
}

impl Undelivered {
    /// Time when letters are tried again.
    pub(super) const fn retry_at_ms(&self) -> Option<UnixMs> {
        self.retry_at_ms
    }

    /// Has all letters tried again at once; letters that depart no more are forgotten.
    pub(super) fn retry(&mut self, departs: impl Fn(u64) -> bool) {
        self.letters.retain(|number, _| departs(*number));
        self.letters.values_mut().for_each(|letter| letter.is_due = true);
        self.full = std::mem::take(&mut self.refused_by);
        self.retry_at_ms = None;
    }

    /// Number of letters that wait.
    pub(super) fn n_waiting(&self) -> usize {
        self.letters.values().filter(|letter| !letter.is_due).count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    pub(super) fn may_be_sent(&self, number: u64) -> bool {
        self.letters.get(&number).is_none_or(|letter| letter.is_due)
    }

    /// The letters with these numbers, as they are to be tried.
    pub(super) fn awaited(&self, numbers: &[u64]) -> AwaitedLetters {
        let taken_by = |number| self.letters.get(number).map(|letter| letter.taken_by.clone());
        let letters = numbers.iter().map(|number| (*number, taken_by(number).unwrap_or_default()));
        let (refused_by, full) = (self.refused_by.clone(), self.full.clone());
        AwaitedLetters { letters: letters.collect(), refused_by, full }
    }

    /// Notes letters that were tried. Returns those that arrived, and why others go nowhere, if that is news.
    pub(super) fn note(
        &mut self,
        tried: Vec<TriedLetter>,
        now_ms: UnixMs,
    ) -> (Vec<NumberRange>, Option<LostAt>) {
        let (mut arrived, mut lost_at) = (Vec::new(), None);
        self.look_ms = match tried.iter().any(TriedLetter::has_arrived) {
            true => LOOK_MS,
            false => (self.look_ms * 2).clamp(LOOK_MS, LOOK_MS_MAX),
        };
        debug_assert!(tried.len() <= AWAITED_MAX, "no more letters are on their way than may be");
        for letter in tried {
            if letter.has_arrived() {
                self.letters.remove(&letter.number);
                arrived.push(NumberRange::one(letter.number));
                continue;
            }
            lost_at = lost_at.or(letter.lost_at);
            let wait_ms = if letter.refused_by.is_empty() { RETRY_MS } else { self.look_ms };
            self.refused_by.extend(letter.refused_by);
            self.letters.insert(letter.number, Letter { taken_by: letter.taken_by, is_due: false });
            let retry_at_ms = now_ms.plus(wait_ms);
            self.retry_at_ms = Some(self.retry_at_ms.map_or(retry_at_ms, |it| it.min(retry_at_ms)));
        }
        self.refused_by.sort_unstable();
        self.refused_by.dedup();
        let news = lost_at.filter(|_| !self.is_told);
        self.is_told |= news.is_some();
        (arrived, news)
    }

    /// Has the operator told anew, since letters go elsewhere.
    pub(super) const fn tell_anew(&mut self) {
        self.is_told = false;
    }
}
