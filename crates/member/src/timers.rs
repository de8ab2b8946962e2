//! When each group of a node is to be stepped again: one queue for all, no timer of a group's own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use cluster::GroupRequest;
use log::Owner;
use stdx::{MonotonicMs, lock};

/// A replica campaigns after at least so long, and a random time of up to as long again.
const CAMPAIGN_AFTER_MS: u64 = 1_000;
/// A group is ticked after so long.
const TICK_AFTER_MS: u64 = 1_000;
/// Campaigns that wait are spread over so much time that about so many come in a second.
const CAMPAIGNS_PER_S: u64 = 2_000;

/// Work of a group that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupWork {
    /// An image of the machine is to be taken.
    Image,
    /// [`GroupStep::Tick`](cluster::GroupStep::Tick).
    Tick,
    /// [`GroupStep::Campaign`](cluster::GroupStep::Campaign).
    Campaign,
}

/// The work of all groups of a node that is due later. Whoever holds a group's lock may use it.
#[derive(Debug, Default)]
pub struct GroupTimers(Mutex<DueWork>);

#[derive(Debug, Default)]
struct DueWork {
    by_time: BTreeSet<(MonotonicMs, GroupWork, Owner)>,
    by_group: BTreeMap<(Owner, GroupWork), MonotonicMs>,
    n_campaigns: u64,
}

impl GroupTimers {
    /// Takes a group's request to be stepped later; `random` spreads campaigns. True if it is the first that
    /// is due. [`GroupRequest::Stopped`] and [`GroupRequest::Gone`] are for the group's host alone.
    pub fn request(
        &self,
        group: Owner,
        request: GroupRequest,
        now: MonotonicMs,
        random: u64,
    ) -> bool {
        let mut due = lock(&self.0);
        let (work, after_ms) = match request {
            GroupRequest::Image => (GroupWork::Image, 0),
            GroupRequest::TickLater => (GroupWork::Tick, TICK_AFTER_MS),
            GroupRequest::CampaignLater => {
                let spread_ms = CAMPAIGN_AFTER_MS.max(due.n_campaigns * 1_000 / CAMPAIGNS_PER_S);
                (GroupWork::Campaign, CAMPAIGN_AFTER_MS + random % spread_ms)
            }
            GroupRequest::Stopped | GroupRequest::Gone => return false,
        };
        if due.by_group.contains_key(&(group, work)) {
            return false;
        }
        let at = now.plus(after_ms);
        due.n_campaigns += u64::from(work == GroupWork::Campaign);
        due.by_group.insert((group, work), at);
        due.by_time.insert((at, work, group));
        due.by_time.first() == Some(&(at, work, group))
    }

    /// Drops the work of a group that is gone.
    pub fn remove(&self, group: Owner) {
        let mut due = lock(&self.0);
        for work in [GroupWork::Image, GroupWork::Tick, GroupWork::Campaign] {
            due.take(group, work);
        }
    }

    /// Takes work that is due.
    pub fn next(&self, now: MonotonicMs) -> Option<(Owner, GroupWork)> {
        let mut due = lock(&self.0);
        let &(_, work, group) = due.by_time.first().filter(|(at, ..)| *at <= now)?;
        due.take(group, work);
        Some((group, work))
    }

    /// The time at which the next work is due.
    #[must_use]
    pub fn due(&self) -> MonotonicMs {
        lock(&self.0).by_time.first().map_or(MonotonicMs::NEVER, |(at, ..)| *at)
    }
}

impl DueWork {
    fn take(&mut self, group: Owner, work: GroupWork) {
        if let Some(at) = self.by_group.remove(&(group, work)) {
            self.by_time.remove(&(at, work, group));
            self.n_campaigns -= u64::from(work == GroupWork::Campaign);
        }
    }
}
