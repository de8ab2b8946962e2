//! The routes a session remembers: for each exchange and key it used lately, the queues.

use crate::connections::RouteTally;
use crate::publish::BatchGroups;
use queues::QueueRef;
use routing::ExchangeVersion;
use session::Error;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Routes kept per session; past this the memory is cleared and fills anew.
const ROUTES_MAX: usize = 1_024;

/// Half the changes of definitions between two clean-ups; each forgets the routes not used since the last.
const UNUSED_EPOCHS_MAX: u64 = 1_024;

/// Channels whose counts a route has at hand.
const TALLIES_MAX: usize = 32;

/// The definitions that a route was worked out from, which tell whether it holds after a change of others.
#[derive(Debug, Clone, Default)]
pub(crate) enum RouteBasis {
    /// More than is kept in mind: the route is worked out again after each change.
    #[default]
    Epoch,
    /// The queue of the key's name: the route is the default exchange's.
    QueueName,
    /// A single exchange, in this version.
    Exchange(ExchangeVersion),
}

/// The queues of messages with one exchange and routing key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Route {
    /// The queues; empty when there are none.
    pub(crate) queues: SmallVec<[QueueRef; 1]>,
    /// How many of them are durable: those log a persistent message.
    pub(crate) n_durable: usize,
    /// Whether headers count: the route holds for messages without headers, and with them may be another.
    pub(crate) by_headers: bool,
    /// Whether an exchange on the way has kept the message, or dropped it as seen before, or a topic without
    /// subscribers takes it: the message is not unroutable then, even without a queue.
    pub(crate) absorbed: bool,
    pub(crate) basis: RouteBasis,
    /// Counts of the route's messages, by the serial number of their channel.
    tallies: Vec<(u64, Arc<RouteTally>)>,
    /// The reason against remembering the route, if there is one.
    pub(crate) special: Option<Uncacheable>,
}

impl Route {
    /// The counts of a channel's messages on this route; `open` finds them the first time.
    #[inline]
    pub(crate) fn tally(
        &mut self,
        serial: u64,
        open: impl FnOnce(&[QueueRef]) -> Arc<RouteTally>,
    ) -> Option<&RouteTally> {
        let known = self.tallies.iter().position(|(of, _)| *of == serial);
        let at = known.unwrap_or_else(|| {
            if self.tallies.len() >= TALLIES_MAX {
                self.tallies.clear();
            }
            self.tallies.push((serial, open(&self.queues)));
            self.tallies.len() - 1
        });
        self.tallies.get(at).map(|(_, tally)| &**tally)
    }
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
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    pub(crate) route: Route,
    /// The newest epoch of definitions that the route is known to hold for.
    epoch: u64,
    pub(crate) groups: BatchGroups,
}

/// Remembered routes by exchange and key.
#[derive(Debug, Default)]
pub(crate) struct RouteCache {
    epoch: u64,
    /// The epoch of definitions since which a route must have been used to outlive the next clean-up.
    unused_since: u64,
    by_name: HashMap<Box<[u8]>, usize>,
    entries: Vec<Remembered>,
    last: Option<usize>,
    last_exchange: Vec<u8>,
    last_key: Vec<u8>,
    scratch: Vec<u8>,
}

impl RouteCache {
    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Notes a change of definitions: routes are to be confirmed or replaced before they are used again.
    pub(crate) fn enter_epoch(&mut self, epoch: u64) {
        if epoch >= self.unused_since + 2 * UNUSED_EPOCHS_MAX {
            self.forget_unused();
        }
        self.epoch = epoch;
        self.last = None;
    }

    /// Forgets routes that were not used for long: they keep their queues in memory.
    fn forget_unused(&mut self) {
        let since = self.unused_since;
        let mut entries = std::mem::take(&mut self.entries);
        self.by_name.retain(|_, index| {
            let used = entries.get_mut(*index).filter(|one| one.epoch >= since);
            used.is_some_and(|one| {
                *index = self.entries.len();
                self.entries.push(std::mem::take(one));
                true
            })
        });
        self.unused_since = self.epoch;
    }

    pub(crate) fn clear(&mut self) {
        self.by_name.clear();
        self.entries.clear();
        self.last = None;
    }

    /// The index of the route that was used last, if it is of this exchange and key.
    #[inline]
    pub(crate) fn find_last(&self, exchange: &[u8], key: &[u8]) -> Option<usize> {
        self.last.filter(|_| same(&self.last_key, key) && same(&self.last_exchange, exchange))
    }

    /// The index of a remembered route, if `holds` confirms it after a change of definitions.
    pub(crate) fn find(
        &mut self,
        exchange: &[u8],
        key: &[u8],
        holds: impl FnOnce(&Route) -> bool,
    ) -> Option<usize> {
        self.name(exchange, key);
        let found = self.by_name.get(self.scratch.as_slice()).copied()?;
        let one = self.entries.get_mut(found)?;
        if one.epoch != self.epoch {
            if !holds(&one.route) {
                return None;
            }
            one.epoch = self.epoch;
        }
        self.note_last(found, exchange, key);
        Some(found)
    }

    /// Remembers a route, in place of an older one perhaps, and returns its index.
    pub(crate) fn remember(&mut self, exchange: &[u8], key: &[u8], route: Route) -> usize {
        let remembered = Remembered { route, epoch: self.epoch, groups: BatchGroups::default() };
        self.name(exchange, key);
        let known = self.by_name.get(self.scratch.as_slice()).copied();
        let index = if let Some((index, known)) =
            known.and_then(|index| Some((index, self.entries.get_mut(index)?)))
        {
            *known = remembered;
            index
        } else {
            if self.entries.len() >= ROUTES_MAX {
                self.clear();
            }
            self.entries.push(remembered);
            self.by_name.insert(self.scratch.as_slice().into(), self.entries.len() - 1);
            self.entries.len() - 1
        };
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

    /// Writes exchange and key to `scratch`; the length of the exchange's name, at most 255, keeps them
    /// apart.
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

    fn find(memory: &mut RouteCache, key: &[u8], holds: bool) -> Option<usize> {
        memory.find(b"x", key, |_| holds)
    }

    #[test]
    fn routes_are_found_until_definitions_change_that_they_depend_on() {
        let mut memory = RouteCache::default();
        memory.enter_epoch(1);
        let first = memory.remember(b"x", b"a", Route::default());
        let second = memory.remember(b"x", b"b", Route::default());
        assert_eq!(find(&mut memory, b"a", false), Some(first));
        assert_eq!(memory.find_last(b"x", b"a"), Some(first));
        assert_eq!(find(&mut memory, b"b", false), Some(second));
        assert_eq!(memory.find(b"xb", b"", |_| true), None);
        memory.enter_epoch(2);
        assert_eq!(memory.find_last(b"x", b"b"), None);
        assert_eq!(find(&mut memory, b"a", true), Some(first));
        assert_eq!(find(&mut memory, b"a", false), Some(first), "it was confirmed");
        assert_eq!(find(&mut memory, b"b", false), None);
        assert_eq!(memory.remember(b"x", b"b", Route::default()), second, "in its place");
    }

    #[test]
    fn routes_that_are_not_used_are_forgotten() {
        let mut memory = RouteCache::default();
        memory.enter_epoch(1);
        memory.remember(b"x", b"unused", Route::default());
        memory.remember(b"x", b"used", Route::default());
        for epoch in 2..5 * UNUSED_EPOCHS_MAX {
            memory.enter_epoch(epoch);
            assert!(find(&mut memory, b"used", true).is_some());
        }
        assert_eq!((memory.entries.len(), memory.by_name.len()), (1, 1));
        assert!(find(&mut memory, b"unused", true).is_none());
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
