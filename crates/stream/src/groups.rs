//! The consumer groups of a stream: of the single active consumers of a name one is given messages. A state
//! machine: what its operations return is to be told to clients. Never clients, readers or clocks.
//!
//! ```text
//!           chosen                 another is to be chosen             has answered, or is gone
//! waiting ----------> active ------------------------------> deactivating ----------------------> waiting
//!           update: active          update: not active                      the next is chosen
//! ```
//!
//! The first of a group is chosen, or, in a group that consumes the partition `p` of a super stream, the one
//! at `p` modulo their number, in the order in which they came: so the partitions of a super stream spread
//! over consumers that all have them all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use stdx::MonotonicMs;

/// Groups of one stream.
pub(crate) const GROUPS_PER_STREAM_MAX: usize = 65_536;
/// Consumers of one group.
pub(crate) const CONSUMERS_PER_GROUP_MAX: usize = 4_096;

/// A consumer's number, which no other of the stream has or had.
pub(crate) type Member = u64;

/// The place of a partition in its super stream; `None` for a stream that is consumed by itself.
pub(crate) type Partition = Option<u64>;

/// The form of the next update: its number, which its answer has to name, and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    pub(crate) update: u32,
    /// The time of the update.
    pub(crate) now_ms: MonotonicMs,
}

/// An update that a consumer is to be told. It may be given messages only after its answer, and until it is
/// told that it is not active any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change<C> {
    pub(crate) consumer: C,
    pub(crate) update: u32,
    pub(crate) active: bool,
}

/// The refusal of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinRefused {
    /// The others of its group consume another partition.
    OtherPartition,
    /// No more groups, or consumers in the group, are allowed.
    Full,
}

impl fmt::Display for JoinRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherPartition => "the group consumes another partition",
            Self::Full => "the group is full, or there are too many groups",
        })
    }
}

/// A group in listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Its name.
    pub name: Arc<str>,
    /// The place of the stream in its super stream, if it is consumed as a part of one.
    pub partition: Option<u64>,
    /// How many consumers it has.
    pub n_consumers: usize,
}

/// The error of a group that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchGroup;

/// The state of a consumer in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRole {
    /// The consumer is given messages.
    Active,
    /// Another consumer of the group is active.
    Waiting,
    /// The consumer was told that another is to be active, and has not answered.
    Deactivating,
}

/// The groups of a stream. `C` is what they hand out for a consumer.
#[derive(Debug)]
pub(crate) struct Groups<C> {
    by_name: BTreeMap<Arc<str>, Group>,
    members: BTreeMap<Member, GroupMember<C>>,
    /// Updates that are not answered: when the first was told, and whom.
    unanswered: BTreeSet<(MonotonicMs, Member)>,
}

/// A member that becomes active, or is to be so no longer.
#[derive(Clone, Copy, Debug)]
struct ActiveChange {
    member: Member,
    active: bool,
}

/// A group; it has members.
#[derive(Debug)]
struct Group {
    name: Arc<str>,
    partition: Partition,
    /// The members in the order in which they came.
    members: Vec<Member>,
    active: Member,
    /// Whether the active member was told that it is active no longer.
    is_stepping_down: bool,
}

#[derive(Debug)]
struct GroupMember<C> {
    group: Arc<str>,
    consumer: C,
    asked: Option<Asked>,
}

/// The newest update that a consumer was told, as long as it is not answered.
#[derive(Clone, Copy, Debug)]
struct Asked {
    update: u32,
    active: bool,
    /// When the first was told that was not answered.
    since_ms: MonotonicMs,
}

impl Group {
    fn of(name: &str, partition: Partition, first: Member) -> Self {
        let (name, members) = (Arc::from(name), vec![first]);
        Self { name, partition, members, active: first, is_stepping_down: false }
    }

    fn chosen(&self) -> Option<Member> {
        let n = self.members.len() as u64;
        let at = self.partition.unwrap_or(0).checked_rem(n)?;
        self.members.get(usize::try_from(at).ok()?).copied()
    }

    /// Makes the chosen member active, whoever was active before.
    fn choose(&mut self) -> Option<ActiveChange> {
        self.active = self.chosen()?;
        self.is_stepping_down = false;
        Some(ActiveChange { member: self.active, active: true })
    }

    /// Has the active member step down if another is chosen.
    fn review(&mut self) -> Option<ActiveChange> {
        if self.is_stepping_down || self.chosen() == Some(self.active) {
            return None;
        }
        self.is_stepping_down = true;
        Some(ActiveChange { member: self.active, active: false })
    }

    fn role(&self, member: Member) -> GroupRole {
        match (member == self.active, self.is_stepping_down) {
            (false, _) => GroupRole::Waiting,
            (true, false) => GroupRole::Active,
            (true, true) => GroupRole::Deactivating,
        }
    }
}

impl<C> Default for Groups<C> {
    fn default() -> Self {
        let (by_name, members) = (BTreeMap::new(), BTreeMap::new());
        Self { by_name, members, unanswered: BTreeSet::new() }
    }
}

impl<C: Clone> Groups<C> {
    /// Adds a consumer to the group of that name.
    pub(crate) fn join(
        &mut self,
        name: &str,
        partition: Partition,
        member: Member,
        consumer: C,
        asking: Asking,
    ) -> Result<Option<Change<C>>, JoinRefused> {
        let is_full = self.by_name.len() >= GROUPS_PER_STREAM_MAX;
        let (group, change) = match self.by_name.get_mut(name) {
            Some(group) if group.partition != partition => return Err(JoinRefused::OtherPartition),
            Some(group) if group.members.len() >= CONSUMERS_PER_GROUP_MAX => {
                return Err(JoinRefused::Full);
            }
            None if is_full => return Err(JoinRefused::Full),
            Some(group) => {
                group.members.push(member);
                (Arc::clone(&group.name), group.review())
            }
            None => {
                let first = Group::of(name, partition, member);
                let name = Arc::clone(&first.name);
                self.by_name.insert(Arc::clone(&name), first);
                (name, Some(ActiveChange { member, active: true }))
            }
        };
        self.members.insert(member, GroupMember { group, consumer, asked: None });
        Ok(self.ask(change, asking))
    }

    /// Takes a consumer away, at once, whatever it was told.
    pub(crate) fn leave(&mut self, member: Member, asking: Asking) -> Option<Change<C>> {
        let gone = self.members.remove(&member)?;
        if let Some(asked) = gone.asked {
            self.unanswered.remove(&(asked.since_ms, member));
        }
        let group = self.by_name.get_mut(&gone.group)?;
        group.members.retain(|other| *other != member);
        if group.members.is_empty() {
            self.by_name.remove(&gone.group);
            return None;
        }
        let change = if group.active == member { group.choose() } else { group.review() };
        self.ask(change, asking)
    }

    /// Whether the update that a consumer was told last, and has not answered, is this one; if it is, whether
    /// it has made it active.
    pub(crate) fn asked(&self, member: Member, update: u32) -> Option<bool> {
        let asked = self.members.get(&member)?.asked.filter(|asked| asked.update == update)?;
        Some(asked.active)
    }

    /// A consumer has answered an update. An answer to any other but [`Groups::asked`] means nothing.
    pub(crate) fn answered(
        &mut self,
        member: Member,
        update: u32,
        asking: Asking,
    ) -> Option<Change<C>> {
        let membership = self.members.get_mut(&member)?;
        let asked = membership.asked.take_if(|asked| asked.update == update)?;
        self.unanswered.remove(&(asked.since_ms, member));
        let group = self.by_name.get_mut(&membership.group)?;
        let has_stepped_down = group.role(member) == GroupRole::Deactivating;
        let change = if has_stepped_down { group.choose() } else { None };
        self.ask(change, asking)
    }

    /// Chooses the active member again without waiting for the answer of one that steps down.
    ///
    /// # Errors
    /// No group has that name.
    pub(crate) fn activate(
        &mut self,
        name: &str,
        asking: Asking,
    ) -> Result<Option<Change<C>>, NoSuchGroup> {
        let group = self.by_name.get_mut(name).ok_or(NoSuchGroup)?;
        let change = if group.is_stepping_down { group.choose() } else { group.review() };
        Ok(self.ask(change, asking))
    }

    /// Removes all groups; nobody is told.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The members that have not answered an update for at least `timeout_ms`.
    pub(crate) fn overdue(&self, now_ms: MonotonicMs, timeout_ms: u64) -> impl Iterator<Item = &C> {
        let unanswered = self.unanswered.iter();
        let overdue =
            unanswered.take_while(move |(since_ms, _)| since_ms.plus(timeout_ms) <= now_ms);
        overdue.filter_map(|(_, member)| self.members.get(member)).map(|it| &it.consumer)
    }

    /// The groups, by name.
    pub(crate) fn list(&self) -> impl Iterator<Item = GroupView> {
        self.by_name.values().map(|group| GroupView {
            name: Arc::clone(&group.name),
            partition: group.partition,
            n_consumers: group.members.len(),
        })
    }

    /// The consumers of a group, in the order in which they came.
    pub(crate) fn consumers(
        &self,
        name: &str,
    ) -> Result<impl Iterator<Item = (&C, GroupRole)>, NoSuchGroup> {
        let group = self.by_name.get(name).ok_or(NoSuchGroup)?;
        let listed = group.members.iter().filter_map(|member| {
            let membership = self.members.get(member)?;
            Some((&membership.consumer, group.role(*member)))
        });
        Ok(listed)
    }

    fn ask(&mut self, change: Option<ActiveChange>, asking: Asking) -> Option<Change<C>> {
        let ActiveChange { member, active } = change?;
        let membership = self.members.get_mut(&member)?;
        let Asking { update, now_ms } = asking;
        let since_ms = membership.asked.map_or(now_ms, |asked| asked.since_ms);
        membership.asked = Some(Asked { update, active, since_ms });
        self.unanswered.insert((since_ms, member));
        Some(Change { consumer: membership.consumer.clone(), update, active })
    }
}

#[cfg(test)]
mod tests;
