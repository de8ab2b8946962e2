//! Turns of consumers: those that can take a message, by priority, and in turn among equals. Whatever their
//! number and their priorities, a consumer comes or goes in O(log n) of the priorities.

use crate::key::ConsumerKey;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Key that no consumer has.
const NOBODY: ConsumerKey = ConsumerKey(u32::MAX);

/// Consumers of one priority in line: each knows who stands before and after it.
#[derive(Clone, Copy, Debug)]
struct Line {
    first: ConsumerKey,
    last: ConsumerKey,
}

impl Line {
    const EMPTY: Self = Self { first: NOBODY, last: NOBODY };

    fn is_empty(self) -> bool {
        self.first == NOBODY
    }
}

/// Neighbours of a consumer in its line.
#[derive(Clone, Copy, Debug)]
struct Place {
    before: ConsumerKey,
    after: ConsumerKey,
}

/// The lines of a queue's consumers.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    /// The highest priority with a consumer in line.
    top_priority: i64,
    /// Line of the highest priority: empty only if nobody is in line at all.
    top: Line,
    /// Lines of lower priorities, the highest first; none is empty.
    lower: BTreeMap<Reverse<i64>, Line>,
    /// Neighbours by consumer key; only entries of consumers in line are read.
    places: Vec<Place>,
}

impl Default for Turns {
    fn default() -> Self {
        let (top, lower) = (Line::EMPTY, BTreeMap::new());
        Self { top_priority: 0, top, lower, places: Vec::new() }
    }
}

impl Turns {
    /// The consumer whose turn it is: the first in line of the highest priority.
    #[inline]
    pub(crate) fn first(&self) -> Option<ConsumerKey> {
        (!self.top.is_empty()).then_some(self.top.first)
    }

    /// Puts a consumer that is in no line at the end of its priority's.
    #[inline]
    pub(crate) fn enter(&mut self, key: ConsumerKey, priority: i64) {
        let slot = key.0 as usize;
        if self.places.len() <= slot {
            self.places.resize(slot + 1, Place { before: NOBODY, after: NOBODY });
        }
        if self.top.is_empty() {
            self.top_priority = priority;
        } else if priority > self.top_priority {
            let top = std::mem::replace(&mut self.top, Line::EMPTY);
            self.lower.insert(Reverse(self.top_priority), top);
            self.top_priority = priority;
        }
        let line = if priority == self.top_priority {
            &mut self.top
        } else {
            self.lower.entry(Reverse(priority)).or_insert(Line::EMPTY)
        };
        push_back(&mut self.places, line, key);
    }

    /// Takes a consumer out of the line of its priority, where it stands.
    pub(crate) fn leave(&mut self, key: ConsumerKey, priority: i64) {
        if priority == self.top_priority {
            unlink(&mut self.places, &mut self.top, key);
            self.lift();
        } else if let Some(line) = self.lower.get_mut(&Reverse(priority)) {
            unlink(&mut self.places, line, key);
            if line.is_empty() {
                self.lower.remove(&Reverse(priority));
            }
        }
    }

    /// The first in line was given something: it stands at the end of its line now, or in none.
    #[inline(always)]
    pub(crate) fn served(&mut self, stays: bool) {
        if stays && self.top.first == self.top.last {
            return;
        }
        let key = self.top.first;
        unlink(&mut self.places, &mut self.top, key);
        if stays {
            push_back(&mut self.places, &mut self.top, key);
        } else {
            self.lift();
        }
    }

    /// The next line is the top one if that is empty.
    #[inline]
    fn lift(&mut self) {
        if self.top.is_empty()
            && let Some((Reverse(priority), line)) = self.lower.pop_first()
        {
            (self.top_priority, self.top) = (priority, line);
        }
    }
}

#[inline]
fn push_back(places: &mut [Place], line: &mut Line, key: ConsumerKey) {
    let before = line.last;
    if let Some(place) = places.get_mut(key.0 as usize) {
        *place = Place { before, after: NOBODY };
    }
    match places.get_mut(before.0 as usize) {
        Some(last) => last.after = key,
        None => line.first = key,
    }
    line.last = key;
}

#[inline]
fn unlink(places: &mut [Place], line: &mut Line, key: ConsumerKey) {
    let Some(&Place { before, after }) = places.get(key.0 as usize) else { return };
    match places.get_mut(before.0 as usize) {
        Some(place) => place.after = after,
        None => line.first = after,
    }
    match places.get_mut(after.0 as usize) {
        Some(place) => place.before = before,
        None => line.last = before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Clone, Debug)]
    enum Step {
        Enter(u32),
        Leave(u32),
        Serve(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..12_u32).prop_map(Step::Enter),
            2 => (0..12_u32).prop_map(Step::Leave),
            4 => any::<bool>().prop_map(Step::Serve),
        ]
    }

    proptest! {
        #[test]
        fn turns_are_those_of_lines_by_priority(steps in prop::collection::vec(step(), 0..200)) {
            let (mut turns, mut model) = (Turns::default(), BTreeMap::new());
            let priority = |key: u32| i64::from(key % 3) - 1;
            for step in steps {
                let waits = |model: &BTreeMap<_, VecDeque<u32>>, key| {
                    model.values().any(|line| line.contains(&key))
                };
                match step {
                    Step::Enter(key) if !waits(&model, key) => {
                        turns.enter(ConsumerKey(key), priority(key));
                        model.entry(Reverse(priority(key))).or_default().push_back(key);
                    }
                    Step::Leave(key) if waits(&model, key) => {
                        turns.leave(ConsumerKey(key), priority(key));
                        model.values_mut().for_each(|line| line.retain(|other| *other != key));
                    }
                    Step::Serve(stays) if turns.first().is_some() => {
                        turns.served(stays);
                        let mut lines = model.values_mut();
                        let line = lines.find(|line| !line.is_empty()).unwrap();
                        let key = line.pop_front().unwrap();
                        line.extend(stays.then_some(key));
                    }
                    Step::Enter(_) | Step::Leave(_) | Step::Serve(_) => {}
                }
                let first = model.values().find_map(|line| line.front().copied());
                prop_assert_eq!(turns.first(), first.map(ConsumerKey));
                prop_assert!(turns.lower.values().all(|line| !line.is_empty()));
            }
        }
    }
}
