//! Publishes of a session that the broker has not answered, in runs: those of one link that came one after
//! the other. A range of numbers costs by the runs in it.

use amqp10::SerialNumber;
use session::LinkId;
use std::collections::VecDeque;

/// The most publishes of a run: each has a bit.
const RUN_MAX: u32 = u64::BITS;

/// Below this many runs answered ones in the middle are left alone.
const COMPACT_FROM: usize = 64;

/// The link of publishes, and what they are called by their client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PublishOrigin {
    /// The handle of the link.
    pub(crate) handle: u32,
    /// The link, of which the handle may have been another's before.
    pub(crate) link: LinkId,
    /// The delivery's id; none if the client wants no answer.
    pub(crate) id: Option<SerialNumber>,
}

/// Publishes of a link, of which some are answered.
#[derive(Debug)]
struct PublishRun {
    /// The number of the first.
    first: u64,
    origin: PublishOrigin,
    n_publishes: u32,
    /// The unanswered publishes, by bits.
    unanswered: u64,
}

/// The unanswered publishes of a session, by rising number.
#[derive(Debug, Default)]
pub(crate) struct UnansweredPublishes {
    runs: VecDeque<PublishRun>,
    /// Runs whose publishes are all answered.
    n_done: usize,
}

impl UnansweredPublishes {
    /// Adds the publish with the number that follows the last one's.
    #[inline]
    pub(crate) fn push(&mut self, number: u64, origin: PublishOrigin) {
        if let Some(last) = self.runs.back_mut()
            && last.n_publishes < RUN_MAX
            && last.origin.shifted(last.n_publishes) == origin
            && last.first + u64::from(last.n_publishes) == number
        {
            self.n_done -= usize::from(last.unanswered == 0);
            last.unanswered |= 1 << last.n_publishes;
            last.n_publishes += 1;
        } else {
            self.runs.push_back(PublishRun {
                first: number,
                origin,
                n_publishes: 1,
                unanswered: 1,
            });
        }
    }

    /// Takes the publishes from `first` to `last`, in order; `each` gets the first of some that follow each
    /// other, and how many they are.
    #[inline]
    pub(crate) fn take_range(
        &mut self,
        first: u64,
        last: u64,
        mut each: impl FnMut(PublishOrigin, u32),
    ) {
        // Answers mostly begin with the oldest.
        let begins_at_front = self.runs.front().is_none_or(|run| first <= run.last());
        let at =
            if begins_at_front { 0 } else { self.runs.partition_point(|run| run.last() < first) };
        for run in self.runs.range_mut(at..).take_while(|run| run.first <= last) {
            let mut taken = run.unanswered & run.bits(first, last);
            run.unanswered &= !taken;
            self.n_done += usize::from(taken != 0 && run.unanswered == 0);
            while taken != 0 {
                let n_before = taken.trailing_zeros();
                let n = (taken >> n_before).trailing_ones();
                each(run.origin.shifted(n_before), n);
                taken &= !(ones(n) << n_before);
            }
        }
        self.drop_done();
    }

    fn drop_done(&mut self) {
        while self.runs.front().is_some_and(|run| run.unanswered == 0) {
            self.runs.pop_front();
            self.n_done -= 1;
        }
        if self.runs.len() >= COMPACT_FROM && self.n_done * 2 > self.runs.len() {
            self.runs.retain(|run| run.unanswered != 0);
            self.n_done = 0;
        }
    }
}

impl PublishOrigin {
    /// The origin of the publish so many behind this one.
    const fn shifted(self, n: u32) -> Self {
        let id = match self.id {
            Some(id) => Some(id.plus(n)),
            None => None,
        };
        Self { id, ..self }
    }
}

impl PublishRun {
    fn last(&self) -> u64 {
        self.first + u64::from(self.n_publishes) - 1
    }

    /// The bits of the publishes from `first` to `last`.
    fn bits(&self, first: u64, last: u64) -> u64 {
        let skipped = first.saturating_sub(self.first);
        let end = (last - self.first + 1).min(RUN_MAX.into());
        let narrow = |n: u64| u32::try_from(n).unwrap_or(RUN_MAX);
        ones(narrow(end)) & !ones(narrow(skipped))
    }
}

/// The lowest `n` bits.
fn ones(n: u32) -> u64 {
    if n >= u64::BITS { u64::MAX } else { (1 << n) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Publish { handle: u32, is_settled: bool, skips_id: bool },
        Answer { back: u64, n: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..2_u32, prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(
                |(handle, is_settled, skips_id)| Step::Publish { handle, is_settled, skips_id }
            ),
            1 => (0..200_u64, 0..100_u64).prop_map(|(back, n)| Step::Answer { back, n }),
        ]
    }

    proptest! {
        /// The runs answer as single publishes do.
        #[test]
        fn runs_are_single_publishes(steps in prop::collection::vec(step(), 0..600), id: u32) {
            let mut runs = UnansweredPublishes::default();
            let mut naive = BTreeMap::new();
            let (mut number, mut id) = (0_u64, SerialNumber::new(id));
            for step in steps {
                match step {
                    Step::Publish { handle, is_settled, skips_id } => {
                        number += 1;
                        id = id.plus(1 + u32::from(skips_id));
                        let id = (!is_settled).then_some(id);
                        let origin = PublishOrigin { handle, link: LinkId(handle.into()), id };
                        runs.push(number, origin);
                        naive.insert(number, origin);
                    }
                    Step::Answer { back, n } => {
                        let first = number.saturating_sub(back).max(1);
                        let (mut taken, mut left) = (Vec::new(), naive.split_off(&first));
                        let rest = left.split_off(&(first + n + 1));
                        naive.extend(rest);
                        runs.take_range(first, first + n, |origin, n| {
                            taken.extend((0..n).map(|n| origin.shifted(n)));
                        });
                        prop_assert_eq!(taken, left.into_values().collect::<Vec<_>>());
                    }
                }
            }
            let n_left: u32 = runs.runs.iter().map(|run| run.unanswered.count_ones()).sum();
            prop_assert_eq!(n_left as usize, naive.len());
            prop_assert_eq!(runs.n_done, runs.runs.iter().filter(|run| run.unanswered == 0).count());
        }
    }
}
