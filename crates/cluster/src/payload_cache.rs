//! Payloads of a group's entries in memory: of those that the log cannot give back yet, and of the last ones.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use log::Lsn;

use crate::entry::Payload;
use crate::sparse::Empty;

/// Bytes of payloads that a group keeps in memory though it could read them from the log.
pub const CACHE_BYTES_MAX: usize = 1 << 20;

/// Bytes of payloads that all groups of a node keep so.
pub const NODE_CACHE_BYTES_MAX: usize = 64 << 20;

/// The bytes of payloads in memory, of all groups of a node.
#[derive(Debug, Default)]
pub struct CacheBudget {
    used_bytes: AtomicUsize,
}

impl CacheBudget {
    /// The bytes of payloads that groups had in memory when they were last stepped.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

/// A group's bytes of the budget, given back when it is dropped.
#[derive(Debug)]
struct CacheShare {
    budget: Arc<CacheBudget>,
    bytes: usize,
}

impl CacheShare {
    fn set(&mut self, bytes: usize) {
        let used = &self.budget.used_bytes;
        if bytes > self.bytes {
            used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for CacheShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The payloads of the last entries, and of entries that have been appended again.
#[derive(Debug, Default)]
pub(crate) struct PayloadCache {
    tail: VecDeque<Payload>,
    tail_bytes: usize,
    moved: BTreeMap<u64, Payload>,
    moved_upto: Lsn,
    /// None while nothing is in memory.
    share: Option<CacheShare>,
}

impl Empty for PayloadCache {
    const EMPTY: &'static Self = &Self {
        tail: VecDeque::new(),
        tail_bytes: 0,
        moved: BTreeMap::new(),
        moved_upto: Lsn(0),
        share: None,
    };
}

impl PayloadCache {
    /// Whether nothing is in memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.moved.is_empty()
    }

    /// How many of the last entries are in memory.
    pub(crate) fn len(&self) -> usize {
        self.tail.len()
    }

    pub(crate) fn push(&mut self, payload: Payload) {
        self.tail_bytes += payload.bytes.len();
        self.tail.push_back(payload);
    }

    /// Keeps the payload of an entry that was appended again, until that is durable.
    pub(crate) fn push_moved(&mut self, index: u64, payload: Payload, upto: Lsn) {
        self.moved.insert(index, payload);
        self.moved_upto = upto;
    }

    /// The payload of the nth of the last entries.
    pub(crate) fn nth(&self, nth: usize) -> Option<Payload> {
        self.tail.get(nth).cloned()
    }

    pub(crate) fn moved(&self, index: u64) -> Option<Payload> {
        self.moved.get(&index).cloned()
    }

    /// Forgets the last entry, which is at `index`.
    pub(crate) fn cut(&mut self, index: u64) {
        self.moved.remove(&index);
        if let Some(payload) = self.tail.pop_back() {
            self.tail_bytes -= payload.bytes.len();
        }
    }

    /// Forgets the first `n` entries.
    pub(crate) fn drop_first(&mut self, n: usize) {
        let bytes = self.tail.drain(..n).map(|payload| payload.bytes.len()).sum::<usize>();
        self.tail_bytes -= bytes;
    }

    /// Forgets the first `n` entries, and of the next so many as exceed the limit of the group or the node's,
    /// up to `n_max`.
    pub(crate) fn trim(&mut self, n: usize, n_max: usize, budget: &Arc<CacheBudget>) {
        self.drop_first(n.min(n_max));
        self.count(budget);
        let over_node = budget.used_bytes().saturating_sub(NODE_CACHE_BYTES_MAX);
        let limit = CACHE_BYTES_MAX.min(self.tail_bytes.saturating_sub(over_node));
        for _ in n..n_max {
            if self.tail_bytes > limit {
                self.drop_first(1);
            }
        }
        if self.tail.is_empty() {
            self.tail = VecDeque::new();
        }
    }

    /// Counts what is in memory against the node's budget.
    pub(crate) fn count(&mut self, budget: &Arc<CacheBudget>) {
        let moved = self.moved.values().map(|payload| payload.bytes.len());
        let bytes = self.tail_bytes + moved.sum::<usize>();
        if bytes == 0 {
            self.share = None;
            return;
        }
        let none = || CacheShare { budget: Arc::clone(budget), bytes: 0 };
        self.share.get_or_insert_with(none).set(bytes);
    }

    /// Forgets entries that were appended again and are durable.
    pub(crate) fn durable(&mut self, upto: Lsn) {
        if self.moved_upto <= upto {
            self.moved.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryType;
    use bytes::Bytes;

    #[test]
    fn a_group_forgets_when_the_node_holds_too_much() {
        const N: usize = NODE_CACHE_BYTES_MAX / CACHE_BYTES_MAX;
        let budget = Arc::default();
        let bytes = Bytes::from(vec![0; CACHE_BYTES_MAX / 4]);
        let mut caches: Vec<_> = (0..=N).map(|_| PayloadCache::default()).collect();
        for (nth, cache) in caches.iter_mut().enumerate() {
            for _ in 0..5 {
                cache.push(Payload { entry_type: EntryType::Commands, bytes: bytes.clone() });
            }
            cache.trim(0, 4, &budget);
            cache.count(&budget);
            // The last one finds the node full, and may not forget its last entry.
            assert_eq!(cache.len(), if nth < N { 4 } else { 1 }, "{nth}");
        }
        let over = CACHE_BYTES_MAX / 4;
        assert_eq!(budget.used_bytes(), NODE_CACHE_BYTES_MAX + over);
        caches.truncate(N - 1);
        assert_eq!(budget.used_bytes(), NODE_CACHE_BYTES_MAX - CACHE_BYTES_MAX);
        caches.clear();
        assert_eq!(budget.used_bytes(), 0);
    }
}
