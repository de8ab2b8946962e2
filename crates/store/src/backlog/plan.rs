//! Which pages are in memory: what is to be written, loaded or let go of, and in which order.
//!
//! The *window* stays: the page of the head and as many after it as fit half the allowance, at least
//! one more if the allowance takes it. Beyond the allowance other pages go, those needed last first:
//! between window and tail from the tail backwards, then those before the head, whose messages
//! consumers hold.

use super::pages::Pages;
use super::paging::{Paging, page_bytes};
use super::slot::{Busy, Slot};
use std::ops::{Range, RangeInclusive};

/// Pages before the head that are expected to be settled soon: as many as fit half the allowance, within
/// these limits.
const SETTLING_PAGES: RangeInclusive<usize> = 2..=32;

/// The next thing to be done, by index of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageStep {
    Evict(usize),
    Write(usize),
    Load(usize),
}

/// The pages that stay in memory.
struct PageWindow {
    slots: Range<usize>,
    /// The size in bytes below which the tail page is still filled, and stays.
    page_bytes: usize,
}

/// A look at a backlog to find what is to be done next.
pub(super) struct Planner<'a> {
    pub(super) pages: &'a Pages,
    pub(super) paging: &'a Paging,
}

impl Planner<'_> {
    pub(super) fn next_step(&self, head: u64, allowance_bytes: usize) -> Option<PageStep> {
        let window = self.window(head, allowance_bytes);
        if let Some(step) = self.next_without_bodies(&window) {
            return Some(step);
        }
        let taken = self.paging.resident_bytes + self.paging.loading_bytes;
        let missing = |at: &usize| {
            self.pages
                .slots()
                .get(*at)
                .is_some_and(|slot| slot.cold().is_some() && slot.busy == Busy::Idle)
        };
        let cost = |at: usize| self.pages.slots().get(at).map_or(0, Slot::cost_bytes);
        let wanted = window.slots.clone().find(missing);
        // Consumers wait for the head: it is loaded at once, also beyond the allowance.
        if let Some(at) = wanted.filter(|at| *at == window.slots.start)
            && (self.paging.loading_bytes == 0 || taken + cost(at) <= allowance_bytes)
        {
            return Some(PageStep::Load(at));
        }
        let needed = taken - self.paging.writing_bytes + wanted.map_or(0, cost);
        if let Some(excess) = needed.checked_sub(allowance_bytes).filter(|excess| *excess > 0)
            && let Some(step) = self.make_room(&window, excess)
        {
            return Some(step);
        }
        if let Some(at) = wanted.filter(|at| taken + cost(*at) <= allowance_bytes) {
            return Some(PageStep::Load(at));
        }
        self.next_rewrite(&window, allowance_bytes)
    }

    /// The slots that are to be in memory for those who take messages from `head` on.
    fn window(&self, head: u64, allowance_bytes: usize) -> PageWindow {
        let start = match self.pages.slots().front() {
            Some(slot) if slot.end() > head => 0,
            _ => self.pages.slots().partition_point(|slot| slot.end() <= head),
        };
        let mut end = start;
        let mut bytes = 0;
        for slot in self.pages.slots().range(start..) {
            bytes += slot.cost_bytes() + slot.missing_bytes();
            let fits = match end - start {
                0 => true,
                1 => bytes <= allowance_bytes,
                _ => bytes <= allowance_bytes / 2,
            };
            if !fits {
                break;
            }
            end += 1;
        }
        PageWindow { slots: start..end, page_bytes: page_bytes(allowance_bytes) }
    }

    /// A page in the window that lacks stored bodies is written, let go of and loaded with them.
    fn next_without_bodies(&self, window: &PageWindow) -> Option<PageStep> {
        if !self.paging.may_lack_bodies {
            return None;
        }
        let slots = window.slots.clone().filter_map(|at| Some((at, self.pages.slots().get(at)?)));
        let mut lacking = slots.filter(|(_, slot)| slot.lacks_bodies() && slot.busy == Busy::Idle);
        let (at, slot) = lacking.next()?;
        // Without them nobody can be given its messages: it is written also if that is to be avoided.
        Some(if slot.is_clean() { PageStep::Evict(at) } else { PageStep::Write(at) })
    }

    /// How to need `excess` bytes less without touching the window.
    fn make_room(&self, window: &PageWindow, excess: usize) -> Option<PageStep> {
        let clean = self.victims(window).find(|(_, slot)| slot.is_clean());
        if let Some((at, _)) = clean {
            return Some(PageStep::Evict(at));
        }
        if self.paging.only_reads {
            return None;
        }
        // Of those that must go all the same, the oldest first: what is read in order later is
        // written in order.
        let mut bytes = 0;
        let mut oldest = None;
        for (at, slot) in self.victims(window).filter(|(_, slot)| slot.busy == Busy::Idle) {
            bytes += slot.cost_bytes();
            oldest = Some(oldest.map_or(at, |oldest: usize| oldest.min(at)));
            if bytes >= excess {
                break;
            }
        }
        oldest.map(PageStep::Write)
    }

    /// Pages in memory that may go, first the one that is needed last.
    fn victims<'a>(
        &'a self,
        window: &'a PageWindow,
    ) -> impl Iterator<Item = (usize, &'a Slot)> + 'a {
        let last = self.pages.slots().len().saturating_sub(1);
        let start = self.pages.slots().get(window.slots.start).map_or(u64::MAX, |slot| slot.first);
        let n_before = self.pages.here().partition_point(|first| *first < start);
        let after = self.pages.here().range(n_before..).rev();
        let before = self.pages.here().range(..n_before);
        let indexed = after.chain(before).filter_map(|first| {
            let at = self.pages.slots().binary_search_by_key(first, |slot| slot.first).ok()?;
            Some((at, self.pages.slots().get(at)?))
        });
        indexed.filter(move |(at, slot)| {
            let stays = *at == last && !slot.is_closed && slot.cost_bytes() < window.page_bytes;
            !window.slots.contains(at) && !stays && slot.n_live > 0
        })
    }

    /// The first of the pages before the window whose messages consumers are expected to settle soon.
    fn settling_start(&self, window: &PageWindow, allowance_bytes: usize) -> usize {
        let mut bytes = 0;
        let before =
            self.pages.slots().range(..window.slots.start).rev().take(*SETTLING_PAGES.end());
        let fitting = before.take_while(|slot| {
            bytes += slot.cost_bytes();
            bytes <= allowance_bytes / 2
        });
        window.slots.start.saturating_sub(fitting.count().max(*SETTLING_PAGES.start()))
    }

    /// A page whose sparse image can be replaced now. One that consumers are just working off goes
    /// soon: those in the window and shortly before it are left alone.
    fn next_rewrite(&self, window: &PageWindow, allowance_bytes: usize) -> Option<PageStep> {
        if self.paging.only_reads {
            return None;
        }
        let worked_off = self.settling_start(window, allowance_bytes)..window.slots.end;
        for key in self.pages.sparse() {
            let Some(at) = self.pages.index_of_key(*key) else { continue };
            let slot = self.pages.slots().get(at)?;
            if slot.busy != Busy::Idle || worked_off.contains(&at) {
                continue;
            }
            if slot.page().is_some() {
                return Some(PageStep::Write(at));
            }
            let free = allowance_bytes.saturating_sub(self.paging.resident_bytes);
            if self.paging.loading_bytes == 0
                && (slot.cost_bytes() <= free || self.paging.writing_bytes == 0)
            {
                return Some(PageStep::Load(at));
            }
        }
        None
    }
}
