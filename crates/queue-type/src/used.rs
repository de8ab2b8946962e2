//! Queues that were used lately, so that whoever looks at their figures need not look at all.

use meta::QueueId;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Queues that are noted, with nobody looking.
const QUEUES_MAX: usize = 1_000_000;

/// Queues that were used since somebody looked, as soon as somebody does.
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
    /// Those of since the last look, and of the one before: what was done at that moment may not have been
    /// seen. The first time nobody knows. The mark of each is to be cleared before its figures are read.
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

/// The mark of a queue that is among them.
#[derive(Debug, Default)]
pub struct UsedMark(AtomicBool);

impl UsedMark {
    /// The queue was used. To be said behind each change of its figures.
    #[inline]
    pub fn note(&self, used: &UsedQueues, id: QueueId) {
        if !self.0.load(Ordering::Relaxed) && used.is_wanted.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
            let mut lists = stdx::lock(&used.lists);
            if lists.since.len() < QUEUES_MAX {
                lists.since.push(id);
            } else {
                // Whoever looks again looks at all of them.
                used.is_wanted.store(false, Ordering::Relaxed);
                *lists = Lists::default();
            }
        }
    }

    /// Its figures are about to be read.
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
