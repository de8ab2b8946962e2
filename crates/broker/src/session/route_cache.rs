//! What a session remembers of routing: for each exchange and key it used lately, the queues.

use crate::queue::Queue;
use session::Error;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Routes kept per session; past this the memory is cleared and fills anew.
const ROUTES_MAX: usize = 1_024;

/// Where messages with one exchange and routing key go, as long as definitions do not change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Route {
    /// The queues; empty when there are none.
    pub(crate) queues: SmallVec<[Arc<Queue>; 1]>,
    /// How many of them are durable: those log a persistent message.
    pub(crate) n_durable: usize,
    /// It holds for messages without headers: with them it may be another.
    pub(crate) by_headers: bool,
    /// An exchange on the way has kept the message, or dropped it as one of before: it is not
    /// unroutable, even without a queue.
    pub(crate) absorbed: bool,
    /// What stands against remembering it.
    pub(crate) special: Option<Uncacheable>,
}

/// Why messages with one exchange and routing key have no route in common.
#[derive(Debug, Clone)]
pub(crate) enum Uncacheable {
    /// Publishing is refused altogether.
    Refused(Error),
    /// Publishing is allowed, but each message has a route of its own.
    ByMessage,
}

/// A remembered route, and where its queues stand in the batch being gathered.
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) route: Route,
    /// The batch that `groups` is about.
    pub(crate) batch: u64,
    /// For each queue its group in that batch.
    pub(crate) groups: SmallVec<[u32; 2]>,
}

/// Remembered routes by exchange and key.
#[derive(Debug, Default)]
pub(crate) struct RouteCache {
    epoch: u64,
    by_name: HashMap<Box<[u8]>, usize>,
    entries: Vec<Remembered>,
    last: Option<usize>,
    last_exchange: Vec<u8>,
    last_key: Vec<u8>,
    scratch: Vec<u8>,
}

impl RouteCache {
    /// Forgets everything when definitions have changed since.
    pub(crate) fn enter_epoch(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.clear();
            self.epoch = epoch;
        }
    }

    fn clear(&mut self) {
        self.by_name.clear();
        self.entries.clear();
        self.last = None;
    }

    /// The index of a remembered route.
    pub(crate) fn find(&mut self, exchange: &[u8], key: &[u8]) -> Option<usize> {
        if self.last.is_some() && same(&self.last_key, key) && same(&self.last_exchange, exchange) {
            return self.last;
        }
        self.name(exchange, key);
        let found = self.by_name.get(self.scratch.as_slice()).copied()?;
        self.note_last(found, exchange, key);
        Some(found)
    }

    /// Remembers a route and returns its index.
    pub(crate) fn remember(&mut self, exchange: &[u8], key: &[u8], route: Route) -> usize {
        if self.entries.len() >= ROUTES_MAX {
            self.clear();
        }
        let index = self.entries.len();
        self.entries.push(Remembered { route, batch: 0, groups: SmallVec::new() });
        self.name(exchange, key);
        self.by_name.insert(self.scratch.as_slice().into(), index);
        self.note_last(index, exchange, key);
        index
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Remembered> {
        self.entries.get_mut(index)
    }

    fn note_last(&mut self, index: usize, exchange: &[u8], key: &[u8]) {
        self.last = Some(index);
        self.last_exchange.clear();
        self.last_exchange.extend_from_slice(exchange);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    /// Exchange names are at most 255 bytes, so one length byte keeps the two apart.
    fn name(&mut self, exchange: &[u8], key: &[u8]) {
        self.scratch.clear();
        self.scratch.push(u8::try_from(exchange.len()).unwrap_or(u8::MAX));
        self.scratch.extend_from_slice(exchange);
        self.scratch.extend_from_slice(key);
    }
}

/// Whether two names are equal. Two empty ones, the default exchange's, are not worth a call: with
/// AVX-512 the C library's comparison of no bytes at a dangling address costs a suppressed fault,
/// as much as everything else in this path together.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && (a.is_empty() || a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_found_until_definitions_change() {
        let mut memory = RouteCache::default();
        memory.enter_epoch(1);
        let first = memory.remember(b"x", b"a", Route::default());
        let second = memory.remember(b"x", b"b", Route::default());
        assert_eq!(memory.find(b"x", b"a"), Some(first));
        assert_eq!(memory.find(b"x", b"b"), Some(second));
        assert_eq!(memory.find(b"xb", b""), None);
        memory.enter_epoch(2);
        assert_eq!(memory.find(b"x", b"a"), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut memory = RouteCache::default();
        for n in 0..10 * ROUTES_MAX {
            memory.remember(b"x", n.to_string().as_bytes(), Route::default());
            assert!(memory.entries.len() <= ROUTES_MAX);
            assert_eq!(memory.entries.len(), memory.by_name.len());
        }
    }
}
