//! Queues that were used lately, so that a reader of figures need not look at all queues.

use meta::QueueId;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of queues noted before a look.
const QUEUES_MAX: usize = 1_000_000;

/// Queues that were used since the last look at figures, noted from the first look on.
#[derive(Debug, Default)]
pub struct UsedQueues {
    is_wanted: AtomicBool,
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    since: Vec<QueueId>,
    before: Vec<QueueId>,
}

impl UsedQueues {
    /// Takes the queues used since the last look, and those of the look before: changes at that moment may
    /// not have been seen. None at the first look. The mark of each queue is to be cleared before its figures
    /// are read.
    pub fn take(&self) -> Option<Vec<QueueId>> {
        if !self.is_wanted.swap(true, Ordering::Relaxed) {
            return None;
        }
        let mut lists = stdx::lock(&self.lists);
        let since = std::mem::take(&mut lists.since);
        let before = std::mem::replace(&mut lists.before, since.clone());
        Some([before, since].concat())
    }
}

/// Mark of a queue that is noted as used.
#[derive(Debug, Default)]
pub struct UsedMark(AtomicBool);

impl UsedMark {
    /// Notes that the queue was used. To be called after each change of its figures.
    #[inline]
    pub fn note(&self, used: &UsedQueues, id: QueueId) {
        if !self.0.load(Ordering::Relaxed) && used.is_wanted.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
            let mut lists = stdx::lock(&used.lists);
            if lists.since.len() < QUEUES_MAX {
                lists.since.push(id);
            } else {
                // The next look is at all queues.
                used.is_wanted.store(false, Ordering::Relaxed);
                *lists = Lists::default();
            }
        }
    }

    /// Clears the mark, since the queue's figures are about to be read.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_named_once_and_at_the_next_look_again() {
        let (used, mark) = (UsedQueues::default(), UsedMark::default());
        mark.note(&used, QueueId(1));
        assert_eq!(used.take(), None, "nobody has wanted to know");
        (0..3).for_each(|_| mark.note(&used, QueueId(1)));
        assert_eq!(used.take(), Some(vec![QueueId(1)]));
        mark.clear();
        assert_eq!(used.take(), Some(vec![QueueId(1)]), "once more");
        assert_eq!(used.take(), Some(vec![]));
        mark.note(&used, QueueId(1));
        assert_eq!(used.take(), Some(vec![QueueId(1)]));
    }
}
