//! Counts of what clients of the stream protocol have done and were told since the node started. The counts
//! of a connection that ends stay counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The end of the response codes that are counted.
const CODES: usize = 0x13;

/// The figures of a connection, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Messages and sub-batches received.
    pub n_received: u64,
    /// Messages and sub-batches confirmed.
    pub n_confirmed: u64,
    /// Messages and sub-batches delivered.
    pub n_delivered: u64,
    /// Errors told to clients, by response code.
    refused: [u64; CODES],
}

impl StreamCounts {
    /// The number of errors told with this response code.
    pub fn n_refused(&self, code: u16) -> u64 {
        self.refused.get(usize::from(code)).copied().unwrap_or_default()
    }

    fn add(&mut self, counters: &Counters) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.n_received += of(&counters.n_received);
        self.n_confirmed += of(&counters.n_confirmed);
        self.n_delivered += of(&counters.n_delivered);
        self.refused.iter_mut().zip(&counters.refused).for_each(|(sum, it)| *sum += of(it));
    }
}

#[derive(Debug, Default)]
struct Counters {
    n_received: AtomicU64,
    n_confirmed: AtomicU64,
    n_delivered: AtomicU64,
    refused: [AtomicU64; CODES],
}

/// The counters of one connection. Each is written by one thread at a time: what was received by the
/// connection's task, the others under the lock of its outbox.
#[derive(Debug)]
pub struct StreamCounter {
    id: u64,
    counters: Arc<Counters>,
    all: Arc<StreamTotals>,
}

impl StreamCounter {
    /// Counts messages and sub-batches that came.
    pub fn note_received(&self, n: u64) {
        stdx::count(&self.counters.n_received, n);
    }

    /// Counts confirmed messages and sub-batches.
    pub fn note_confirmed(&self, n: u64) {
        stdx::count(&self.counters.n_confirmed, n);
    }

    /// Counts delivered messages and sub-batches.
    pub fn note_delivered(&self, n: u64) {
        stdx::count(&self.counters.n_delivered, n);
    }

    /// Counts an error that was told `n` times.
    pub fn note_refused(&self, code: u16, n: u64) {
        if let Some(counter) = self.counters.refused.get(usize::from(code)) {
            stdx::count(counter, n);
        }
    }
}

impl Drop for StreamCounter {
    fn drop(&mut self) {
        let mut all = stdx::lock(&self.all.0);
        all.connected.remove(&self.id);
        all.ended.add(&self.counters);
    }
}

/// The counts of all connections.
#[derive(Debug, Default)]
pub struct StreamTotals(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    last_id: u64,
    connected: BTreeMap<u64, Arc<Counters>>,
    ended: StreamCounts,
}

impl StreamTotals {
    /// Creates the counters of a connection that begins.
    #[must_use]
    pub fn open(self: &Arc<Self>) -> StreamCounter {
        let counters = Arc::<Counters>::default();
        let mut all = stdx::lock(&self.0);
        all.last_id += 1;
        let id = all.last_id;
        all.connected.insert(id, Arc::clone(&counters));
        drop(all);
        StreamCounter { id, counters, all: Arc::clone(self) }
    }

    /// The counts of all connections since the start.
    #[must_use]
    pub fn counts(&self) -> StreamCounts {
        let all = stdx::lock(&self.0);
        let mut sum = all.ended;
        all.connected.values().for_each(|counters| sum.add(counters));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_has_counted_stays_when_it_ends() {
        let all = Arc::<StreamTotals>::default();
        let (one, other) = (all.open(), all.open());
        one.note_received(3);
        other.note_received(4);
        other.note_refused(2, 1);
        other.note_refused(0xffff, 1);
        let counts = all.counts();
        assert_eq!((counts.n_received, counts.n_refused(2), counts.n_refused(0xffff)), (7, 1, 0));
        drop(other);
        assert_eq!(all.counts(), counts);
        one.note_received(1);
        assert_eq!(all.counts().n_received, 8);
    }
}
