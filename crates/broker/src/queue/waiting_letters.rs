//! Who is at the dead letters. While the disk is short of space they wait where they are, neither ready nor unacked.

use super::Queue;
use super::state::QueueState;
use queue::PositionRange;

/// What the keeper of rules does about messages that depart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Keeper {
    /// It was not asked to come.
    #[default]
    Away,
    /// It is to come: the first of them stays in memory.
    DurabilityToken,
    /// It is at it.
    AtIt,
    /// It comes when there is space for them.
    WaitsForSpace,
}

impl Queue {
    /// The dead letters wait until the keeper asks for them again: they need not be in memory.
    pub(crate) fn let_letters_wait(&self) {
        self.with(|local, _| {
            if let Some(ruling) = &mut local.ruling {
                ruling.keeper = Keeper::WaitsForSpace;
            }
        });
    }
}

impl QueueState {
    pub(super) fn keeper(&self) -> Keeper {
        self.ruling.as_deref().map(|ruling| ruling.keeper).unwrap_or_default()
    }

    /// Whether dead letters wait for space.
    pub(super) fn are_letters_waiting(&self) -> bool {
        self.keeper() == Keeper::WaitsForSpace
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
