//! Counts of the messages delivered to channels, by queue.

use meta::{QueueId, QueueKind};
use queue_type::{Counts, Tally};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Queues that one channel keeps counts of though it has neither consumers nor messages there.
const UNUSED_MAX: usize = 512;

/// Counts of the messages that one channel is given and acknowledges.
#[derive(Debug, Default)]
pub struct Deliveries(Mutex<ByQueue>);

/// A queue and its type.
type Source = (QueueId, QueueKind);

#[derive(Debug, Default)]
struct ByQueue {
    /// Counts by queue, and those of direct replies without a queue.
    known: BTreeMap<Option<Source>, Arc<Tally>>,
    /// Counts of queues that are not kept any more, by type.
    gone: BTreeMap<Option<QueueKind>, Counts>,
    /// Queues that were in use at the last look.
    n_used: usize,
}

impl Deliveries {
    /// The counts of the deliveries from a queue, or without one of direct replies.
    pub(crate) fn tally(&self, queue: Option<Source>) -> Arc<Tally> {
        let mut by_queue = stdx::lock(&self.0);
        let ByQueue { known, gone, n_used } = &mut *by_queue;
        if known.len() >= 2 * (*n_used).max(UNUSED_MAX / 2) {
            known.retain(|queue, tally| {
                let is_used = Arc::strong_count(tally) > 1;
                if !is_used {
                    gone.entry(queue.map(|(_, kind)| kind)).or_default().add(&tally.counts());
                }
                is_used
            });
            *n_used = known.len();
        }
        Arc::clone(known.entry(queue).or_default())
    }

    /// The counts of all deliveries.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.by_type().values().for_each(|counts| sum.add(counts));
        sum
    }

    /// The counts of all deliveries by the type of their queue; direct replies have none.
    #[must_use]
    pub fn by_type(&self) -> BTreeMap<Option<QueueKind>, Counts> {
        let by_queue = stdx::lock(&self.0);
        let mut sums = by_queue.gone.clone();
        for (queue, tally) in &by_queue.known {
            sums.entry(queue.map(|(_, kind)| kind)).or_default().add(&tally.counts());
        }
        sums
    }

    /// The counts by queue; some of the queues may be deleted by now.
    #[must_use]
    pub fn by_queue(&self) -> Vec<(QueueId, Counts)> {
        let by_queue = stdx::lock(&self.0);
        let known = by_queue.known.iter();
        known.filter_map(|(queue, tally)| Some((queue.as_ref()?.0, tally.counts()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use queue_type::Count;

    #[test]
    fn what_came_from_many_queues_is_all_counted_and_few_are_kept() {
        let (deliveries, n) = (Deliveries::default(), 4 * UNUSED_MAX as u64);
        let used = deliveries.tally(Some((QueueId(0), QueueKind::Quorum)));
        for queue in 1..n {
            deliveries.tally(Some((QueueId(queue), QueueKind::Classic))).add(Count::Got, 1);
            used.add(Count::Delivered, 1);
        }
        let all = Counts::from_iter([(Count::Got, n - 1), (Count::Delivered, n - 1)]);
        assert_eq!(deliveries.counts(), all);
        let of_classic = deliveries.by_type().get(&Some(QueueKind::Classic)).copied();
        assert_eq!(of_classic, Some(Counts::from_iter([(Count::Got, n - 1)])));
        let kept = deliveries.by_queue();
        assert!(kept.len() <= UNUSED_MAX + 2, "{}", kept.len());
        assert_eq!(kept[0], (QueueId(0), Counts::from_iter([(Count::Delivered, n - 1)])));
    }
}
