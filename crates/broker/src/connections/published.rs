//! Counts of what connections have published, by exchange.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use stdx::count;

/// Exchanges of one connection whose messages are counted, and those of connections that are gone.
const EXCHANGES_MAX: usize = 10_000;

/// Messages that came to exchanges, by virtual host and name, and copies of them that went to queues.
pub type ByExchange = BTreeMap<(String, Box<[u8]>), [u64; 2]>;

/// Counts of one connection and exchange: only the connection's own task writes them.
#[derive(Debug, Default)]
pub(crate) struct ExchangeTally {
    n_in: AtomicU64,
    n_out: AtomicU64,
}

impl ExchangeTally {
    /// Counts a message that goes to so many queues.
    #[inline]
    pub(crate) fn note(&self, n_queues: usize) {
        count(&self.n_in, 1);
        count(&self.n_out, n_queues as u64);
    }
}

/// Counts of one connection.
#[derive(Debug, Default)]
pub(crate) struct Exchanges(Mutex<BTreeMap<Box<[u8]>, Arc<ExchangeTally>>>);

impl Exchanges {
    /// Those of an exchange, if there are not too many already.
    pub(crate) fn tally(&self, exchange: &[u8]) -> Option<Arc<ExchangeTally>> {
        let mut exchanges = stdx::lock(&self.0);
        if exchanges.len() >= EXCHANGES_MAX && !exchanges.contains_key(exchange) {
            return None;
        }
        Some(Arc::clone(exchanges.entry(exchange.into()).or_default()))
    }

    /// Adds them to others.
    pub(crate) fn add_to(&self, sums: &mut ByExchange, vhost: &str) {
        for (exchange, tally) in stdx::lock(&self.0).iter() {
            let key = (vhost.to_owned(), exchange.clone());
            if sums.len() < EXCHANGES_MAX || sums.contains_key(&key) {
                let both = [&tally.n_in, &tally.n_out].map(|n| n.load(Ordering::Relaxed));
                let sum = sums.entry(key).or_default();
                sum.iter_mut().zip(both).for_each(|(sum, more)| *sum += more);
            }
        }
    }
}
