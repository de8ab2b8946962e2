//! Publishers that wait until their messages have been consumed (`x-confirm-on`).

use super::command::Named;
use super::effects::{Effects, Kind, Promise};
use super::publishers::{Publishers, Waiter};
use super::settings::PendingLimits;
use crate::PositionRange;
use message::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use stdx::UnixMs;

/// The publishes of a queue that are answered later, by position.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    by_position: BTreeMap<u64, Waiter>,
    bytes: u64,
    /// The positions of those of named publishers, by their ids.
    of_named: BTreeMap<Vec<u8>, BTreeMap<u64, u64>>,
    /// Held messages whose publishers waited for too long: nobody else is given them.
    pub(super) given_up: BTreeSet<u64>,
}

/// A publish, named as its answer names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishNumber {
    pub(super) publisher: u64,
    pub(super) number: u64,
}

impl Waiting {
    pub(super) fn len(&self) -> u64 {
        self.by_position.len() as u64
    }

    /// Whether one more may wait.
    pub(super) fn has_room(&self, bytes: u64, limits: &PendingLimits) -> bool {
        self.len() < limits.messages_max && self.bytes.saturating_add(bytes) <= limits.bytes_max
    }

    /// Adds one; false if one waits there already.
    pub(super) fn insert(&mut self, position: u64, waiter: Waiter) -> bool {
        self.bytes += u64::from(waiter.bytes);
        if let Some((name, id)) = waiter.named.as_deref() {
            self.of_named.entry(name.clone()).or_default().insert(*id, position);
        }
        self.by_position.insert(position, waiter).is_none()
    }

    fn remove(&mut self, position: u64) -> Option<Waiter> {
        let waiter = self.by_position.remove(&position)?;
        assert!(self.bytes >= u64::from(waiter.bytes), "bytes that wait are counted");
        self.bytes -= u64::from(waiter.bytes);
        if let Some((name, id)) = waiter.named.as_deref()
            && let Some(of_name) = self.of_named.get_mut(name)
        {
            of_name.remove(id);
            if of_name.is_empty() {
                self.of_named.remove(name);
            }
        }
        Some(waiter)
    }

    /// A message of a named publisher comes again: if the first one waits still, the answer goes to who put
    /// it now, and who put it before is refused. False if it does not wait.
    pub(super) fn take_over(
        &mut self,
        named: Named<'_>,
        to: PublishNumber,
        effects: &mut Effects,
    ) -> bool {
        let position = self.of_named.get(named.name).and_then(|ids| ids.get(&named.first));
        let Some(waiter) = position.and_then(|at| self.by_position.get_mut(at)) else {
            return false;
        };
        if let Some(before) = waiter.publisher.replace(to.publisher) {
            effects.promise(Kind::Refused(Refusal::Unavailable), before, waiter.number);
        }
        waiter.number = to.number;
        true
    }

    /// Publishers are gone: nobody is to be answered. What they named waits on, as it may come again.
    pub(super) fn publishers_gone(&mut self, is_gone: impl Fn(u64) -> bool) {
        let mut unnamed = Vec::new();
        for (position, waiter) in &mut self.by_position {
            if waiter.publisher.is_some_and(&is_gone) {
                waiter.publisher = None;
                unnamed.extend(waiter.named.is_none().then_some(*position));
            }
        }
        for position in unnamed {
            self.remove(position);
        }
    }

    /// Messages depart as the letters from `first_letter` on: who sends them answers. They may be put again.
    pub(super) fn hand_on(
        &mut self,
        range: PositionRange,
        first_letter: u64,
        publishers: &mut Publishers,
        effects: &mut Effects,
    ) {
        while !self.by_position.is_empty()
            && let Some((&position, _)) = self.by_position.range(range.start..range.end).next()
            && let Some(waiter) = self.remove(position)
        {
            if let Some(publisher) = waiter.publisher {
                let letter = first_letter + (position - range.start);
                let number = waiter.number;
                effects.promises.push(Promise::Departs { publisher, number, letter });
            }
            publishers.refuse(&waiter);
        }
    }

    /// Answers those whose messages are gone. What is refused may be put again.
    #[inline]
    pub(super) fn answer(
        &mut self,
        range: PositionRange,
        kind: Kind,
        publishers: &mut Publishers,
        effects: &mut Effects,
    ) {
        if !self.given_up.is_empty() {
            self.given_up.remove(&range.start);
        }
        while !self.by_position.is_empty()
            && let Some((&position, _)) = self.by_position.range(range.start..range.end).next()
            && let Some(waiter) = self.remove(position)
        {
            if let Some(publisher) = waiter.publisher {
                effects.promise(kind, publisher, waiter.number);
            }
            if matches!(kind, Kind::Refused(_)) {
                publishers.refuse(&waiter);
            }
        }
    }

    /// Sizes of their messages together.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time when the oldest publish has waited for too long.
    pub(super) fn next_ms(&self, limits: Option<&PendingLimits>) -> Option<UnixMs> {
        let (_, oldest) = self.by_position.first_key_value()?;
        Some(oldest.came_ms.plus(limits?.timeout_ms?))
    }

    /// The position of the oldest.
    pub(super) fn first(&self) -> Option<u64> {
        self.by_position.first_key_value().map(|(position, _)| *position)
    }

    pub(super) fn at(&self, position: u64) -> Option<&Waiter> {
        self.by_position.get(&position)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&u64, &Waiter)> {
        self.by_position.iter()
    }
}
