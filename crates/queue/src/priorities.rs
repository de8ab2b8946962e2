use crate::positions::{PositionRange, PositionSet};

/// The messages of one priority.
#[derive(Clone, Debug, Default)]
struct Lane {
    ready: PositionSet,
    /// Messages that are neither ready nor gone: with a consumer, or waiting to be tried again.
    away: PositionSet,
}

/// Places of messages: by priority, and by position within one. A message that is away keeps its place.
///
/// A queue without priorities has one lane, and its backlog costs nothing. Where priorities take
/// turns, a message costs about a bit per priority in use (see [`PositionSet`]). Finding the lane of
/// a message that is away asks every lane that has any.
#[derive(Clone, Debug)]
pub(crate) struct Priorities {
    /// Indexed by priority, as far up as one was seen.
    lanes: Vec<Lane>,
    priority_max: u8,
    n_ready: u64,
    /// No higher lane has a ready message.
    top: usize,
}

impl Priorities {
    /// Lanes for the priorities 0 to `priority_max`.
    pub(crate) fn new(priority_max: u8) -> Self {
        Self { lanes: vec![Lane::default()], priority_max, n_ready: 0, top: 0 }
    }

    pub(crate) const fn n_ready(&self) -> u64 {
        self.n_ready
    }

    pub(crate) const fn priority_max(&self) -> u8 {
        self.priority_max
    }

    #[inline]
    fn lane_mut(&mut self, priority: usize) -> &mut Lane {
        if self.lanes.len() <= priority {
            self.lanes.resize_with(priority + 1, Lane::default);
        }
        self.lanes.get_mut(priority).expect("it was made")
    }

    /// Puts `range` in, above every position there is. A priority above the highest counts as that.
    pub(crate) fn push_back(&mut self, range: PositionRange, priority: u8) {
        let priority = usize::from(priority.min(self.priority_max));
        self.top = self.top.max(priority);
        self.n_ready += range.len();
        self.lane_mut(priority).ready.push_back(range.start, range.len());
    }

    /// Says that `position`, which is not known here, is away.
    pub(crate) fn add_away(&mut self, position: u64, priority: u8) {
        let priority = usize::from(priority.min(self.priority_max));
        self.lane_mut(priority).away.insert(position);
    }

    /// The next message: the oldest of the highest priority.
    pub(crate) fn head(&self) -> Option<u64> {
        self.lanes.iter().rev().find_map(|lane| lane.ready.first())
    }

    /// Takes the next message out: the oldest of the highest priority.
    pub(crate) fn pop_next(&mut self) -> Option<u64> {
        self.seek_next()?.ready.pop_first().inspect(|_| self.n_ready -= 1)
    }

    /// Takes out the next message as [`Priorities::pop_next`] does; the message is away from now on.
    pub(crate) fn send_next(&mut self) -> Option<u64> {
        let lane = self.seek_next()?;
        let position = lane.ready.pop_first()?;
        let was_here = lane.away.insert(position);
        debug_assert!(was_here && self.n_ready > 0, "a ready message is counted, and not away");
        self.n_ready -= 1;
        Some(position)
    }

    fn seek_next(&mut self) -> Option<&mut Lane> {
        while self.top > 0 && self.lanes.get(self.top)?.ready.is_empty() {
            self.top -= 1;
        }
        self.lanes.get_mut(self.top)
    }

    /// Takes out the message that is missed least: the oldest of the lowest priority.
    pub(crate) fn pop_least(&mut self) -> Option<u64> {
        let lane = self.lanes.iter_mut().find(|lane| !lane.ready.is_empty())?;
        lane.ready.pop_first().inspect(|_| self.n_ready -= 1)
    }

    /// The message that is away is ready again, at its place; false when it was not away.
    pub(crate) fn come_back(&mut self, position: u64) -> bool {
        let Some(priority) = self.forget_away(position) else { return false };
        let was_away = self.lane_mut(priority).ready.insert(position);
        assert!(was_away, "a message is ready or away");
        self.top = self.top.max(priority);
        self.n_ready += 1;
        true
    }

    /// Forgets a message that was away, and tells its priority.
    pub(crate) fn forget_away(&mut self, position: u64) -> Option<usize> {
        self.lanes.iter_mut().position(|lane| lane.away.remove(position))
    }

    pub(crate) fn is_ready(&self, position: u64) -> bool {
        self.lanes.iter().any(|lane| lane.ready.contains(position))
    }

    pub(crate) fn is_away(&self, position: u64) -> bool {
        self.lanes.iter().any(|lane| lane.away.contains(position))
    }

    /// The lowest position that is ready or away.
    #[inline]
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.lanes.iter().flat_map(|lane| [lane.ready.first(), lane.away.first()]).flatten().min()
    }

    /// Takes out what is ready in `range`; `taken` gets it, in order within each priority.
    pub(crate) fn take_ready(&mut self, range: PositionRange, taken: &mut Vec<PositionRange>) {
        for lane in &mut self.lanes {
            self.n_ready -= lane.ready.take_range(range, taken);
        }
    }

    /// The positions in `range` that are away, in no particular order of priorities.
    pub(crate) fn away_in(&self, range: PositionRange) -> impl Iterator<Item = u64> + '_ {
        self.lanes.iter().flat_map(move |lane| {
            let runs = lane.away.ranges_from(range.start);
            runs.flat_map(|run| run.start..run.end).take_while(move |at| *at < range.end)
        })
    }

    /// Takes everything out that is ready; `taken` gets it.
    pub(crate) fn clear_ready(&mut self, taken: &mut Vec<PositionRange>) {
        for lane in &mut self.lanes {
            taken.extend(lane.ready.ranges());
            lane.ready.clear();
        }
        self.n_ready = 0;
        self.top = 0;
    }

    /// The ready positions of each priority that has any.
    pub(crate) fn ready(&self) -> impl Iterator<Item = (u8, &PositionSet)> + '_ {
        let lanes = (0..=u8::MAX).zip(&self.lanes);
        lanes.map(|(priority, lane)| (priority, &lane.ready)).filter(|(_, set)| !set.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum State {
        Ready,
        Away,
    }

    fn of(model: &BTreeMap<u64, (u8, State)>, state: State) -> Vec<u64> {
        model.iter().filter(|(_, (_, is))| *is == state).map(|(at, _)| *at).collect()
    }

    proptest! {
        #[test]
        fn lanes_keep_order_within_priorities(
            ops in prop::collection::vec((0..6_u8, any::<u8>(), 0..50_u64), 0..300),
        ) {
            let mut lanes = Priorities::new(9);
            let mut model: BTreeMap<u64, (u8, State)> = BTreeMap::new();
            let mut next = 0;
            for (op, priority, n) in ops {
                let ready = of(&model, State::Ready);
                let first = ready.iter().copied().min_by_key(|at| (255 - model[at].0, *at));
                let least = ready.iter().copied().min_by_key(|at| (model[at].0, *at));
                prop_assert_eq!(lanes.head(), first);
                match op {
                    0 | 1 => {
                        let range = PositionRange { start: next, end: next + n % 4 + 1 };
                        lanes.push_back(range, priority % 14);
                        let priority = (priority % 14).min(9);
                        model.extend((next..range.end).map(|at| (at, (priority, State::Ready))));
                        next = range.end;
                    }
                    2 => {
                        prop_assert_eq!(lanes.send_next(), first);
                        if let Some(at) = first {
                            model.get_mut(&at).unwrap().1 = State::Away;
                        }
                    }
                    3 => {
                        let away = model.get(&n).is_some_and(|(_, is)| *is == State::Away);
                        prop_assert_eq!(lanes.come_back(n), away);
                        if away {
                            model.get_mut(&n).unwrap().1 = State::Ready;
                        }
                    }
                    4 => {
                        prop_assert_eq!(lanes.pop_least(), least);
                        model.retain(|at, _| Some(*at) != least);
                    }
                    _ => {
                        let range = PositionRange { start: n, end: n + 7 };
                        let away: Vec<u64> = of(&model, State::Away);
                        let mut listed: Vec<u64> = lanes.away_in(range).collect();
                        listed.sort_unstable();
                        prop_assert!(listed.iter().eq(away.iter().filter(|at| range.contains(**at))));
                        let mut taken = Vec::new();
                        lanes.take_ready(range, &mut taken);
                        let mut taken: Vec<u64> = taken.iter().flat_map(|r| r.start..r.end).collect();
                        taken.sort_unstable();
                        prop_assert!(taken.iter().eq(ready.iter().filter(|at| range.contains(**at))));
                        model.retain(|at, (_, is)| *is == State::Away || !range.contains(*at));
                    }
                }
                prop_assert_eq!(lanes.n_ready(), of(&model, State::Ready).len() as u64);
                prop_assert_eq!(lanes.lowest(), model.keys().next().copied());
                prop_assert_eq!(lanes.is_ready(n), of(&model, State::Ready).contains(&n));
                prop_assert_eq!(lanes.is_away(n), of(&model, State::Away).contains(&n));
            }
        }
    }

    #[test]
    fn ten_priorities_in_turn_cost_little_over_two_bytes_a_message() {
        let mut lanes = Priorities::new(9);
        for at in 0..100_000_u64 {
            lanes.push_back(PositionRange::one(at), (at * 7 % 10) as u8);
        }
        let n_blocks: usize = lanes.ready().map(|(_, set)| set.n_blocks()).sum();
        assert!(n_blocks * 64 < 100_000 * 26 / 10, "{n_blocks} blocks");
    }
}
