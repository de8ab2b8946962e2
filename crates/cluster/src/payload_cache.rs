//! Payloads of a group's entries in memory: of those that the log cannot give back yet, and of the last ones.

use std::collections::{BTreeMap, VecDeque};

use log::Lsn;

use crate::entry::Payload;

/// Bytes of payloads that a group keeps in memory though it could read them from the log.
pub const CACHE_BYTES_MAX: usize = 1 << 20;

/// The payloads of the last entries, and of entries that have been appended again.
#[derive(Debug, Default)]
pub(crate) struct PayloadCache {
    tail: VecDeque<Payload>,
    tail_bytes: usize,
    moved: BTreeMap<u64, Payload>,
    moved_upto: Lsn,
}

impl PayloadCache {
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

    /// Forgets the first `n` entries, and of the next so many as exceed the limit, up to `n_max`.
    pub(crate) fn trim(&mut self, n: usize, n_max: usize) {
        self.drop_first(n.min(n_max));
        for _ in n..n_max {
            if self.tail_bytes > CACHE_BYTES_MAX {
                self.drop_first(1);
            }
        }
        if self.tail.is_empty() {
            self.tail = VecDeque::new();
        }
    }

    /// Forgets entries that were appended again and are durable.
    pub(crate) fn durable(&mut self, upto: Lsn) {
        if self.moved_upto <= upto {
            self.moved.clear();
        }
    }
}
