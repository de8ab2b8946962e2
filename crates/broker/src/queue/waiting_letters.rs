//! Dead letters while the disk is short of space: they wait where they are, neither ready nor unacked.

use super::Queue;
use super::local::Local;
use queue::PositionRange;

impl Queue {
    /// The dead letters wait until the keeper asks for them again: they need not be in memory.
    pub(crate) fn let_letters_wait(&self) {
        self.with(|local, _| {
            if let Some(ruling) = &mut local.ruling {
                ruling.is_awaited = false;
                ruling.are_letters_waiting = true;
            }
        });
    }
}

impl Local {
    /// Whether dead letters wait for space.
    pub(super) fn are_letters_waiting(&self) -> bool {
        self.ruling.as_deref().is_some_and(|ruling| ruling.are_letters_waiting)
    }

    /// Drops the dead letters that wait for space, as who purges or deletes the queue wants it. How many there
    /// were.
    pub(super) fn purge_waiting_letters(&mut self, queue: &Queue) -> u64 {
        if !self.are_letters_waiting() {
            return 0;
        }
        let Some(ruling) = self.ruling.as_deref_mut() else { return 0 };
        let mut gone: Vec<PositionRange> = ruling.take_departing();
        gone.sort_unstable_by_key(|range| range.start);
        self.drop_ranges(queue, &gone);
        gone.iter().map(|range| range.len()).sum()
    }
}
