//! Publishes that wait until they are committed, in the order they came. Never how they get there.

use crate::listed::{IdRun, Registered};
use confirm::JournalSynced;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

/// A waiter for publishes of a stream to be committed.
pub(crate) enum Waiter {
    /// A publisher in a protocol of its own, which waits for a number of a journal.
    Journal(Box<dyn JournalSynced>),
    /// A publisher of the stream itself.
    Publisher(PublishedIds),
}

/// Publishes of one publisher, by its own numbers.
pub(crate) struct PublishedIds {
    /// The publisher.
    pub(crate) publisher: Arc<Registered>,
    /// The ids.
    pub(crate) runs: SmallVec<[IdRun; 1]>,
}

impl PublishedIds {
    /// Tells the publisher.
    pub(crate) fn confirm(self) -> Option<Waker> {
        self.publisher.answer(&self.runs, Ok(()))
    }
}

impl Waiter {
    /// Tells the waiter that its publishes are committed.
    pub(crate) fn committed(self) -> Option<Waker> {
        match self {
            Self::Journal(waiter) => waiter.synced(),
            Self::Publisher(published) => published.confirm(),
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Journal(_) => "Journal",
            Self::Publisher(_) => "Publisher",
        })
    }
}

/// The waiters in order, each until so many entries are committed.
#[derive(Debug, Default)]
pub(crate) struct Confirms {
    waiting: VecDeque<(u64, Waiter)>,
}

impl Confirms {
    /// Has `waiter` told once `upto` entries are committed; nobody before it waits for more.
    pub(crate) fn push(&mut self, upto: u64, waiter: Waiter) {
        debug_assert!(self.waiting.back().is_none_or(|(last, _)| *last <= upto), "in order");
        self.waiting.push_back((upto, waiter));
    }

    /// Adds a waiter as [`Confirms::push`] does, at its place among the others.
    pub(crate) fn insert(&mut self, upto: u64, waiter: Waiter) {
        let at = self.waiting.partition_point(|(known, _)| *known <= upto);
        self.waiting.insert(at, (upto, waiter));
    }

    /// Takes those who wait for no more than is committed.
    pub(crate) fn take(&mut self, n_committed: u64) -> VecDeque<(u64, Waiter)> {
        let n = self.waiting.partition_point(|(upto, _)| *upto <= n_committed);
        if n == 0 {
            return VecDeque::new();
        }
        if n == self.waiting.len() {
            return std::mem::take(&mut self.waiting);
        }
        let left = self.waiting.split_off(n);
        std::mem::replace(&mut self.waiting, left)
    }
}
