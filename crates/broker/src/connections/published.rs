//! Counts of what channels have published, by exchange and queue. A channel's session counts the messages of
//! each route that it remembers; the route's exchange and queues stand beside the counts.

use super::ChannelCounters;
use meta::QueueId;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use stdx::count;

/// Exchanges, and as many pairs of exchange and queue, that stay counted for one channel although it
/// remembers no route with them.
const GONE_MAX: usize = 512;
/// Exchanges, and as many pairs, that stay counted for a virtual host after their channels are closed.
pub(super) const ENDED_MAX: usize = 10_000;
/// Routes of a channel that are kept, whether they are in use or not.
const UNUSED_MAX: usize = 64;

/// Counts of one channel's messages on one route. Only the channel's own session writes them.
#[derive(Debug, Default)]
pub(crate) struct RouteTally {
    n_published: AtomicU64,
    n_returned: AtomicU64,
    n_dropped: AtomicU64,
    /// Copies of messages with a route of their own.
    n_copies: AtomicU64,
}

impl RouteTally {
    /// Counts a message; `lost` says of a message that went to no queue whether it was returned.
    #[inline]
    pub(crate) fn note(&self, lost: Option<bool>) {
        count(&self.n_published, 1);
        if let Some(is_returned) = lost {
            count(if is_returned { &self.n_returned } else { &self.n_dropped }, 1);
        }
    }

    /// Counts a message with a route of its own, which went to so many queues.
    pub(crate) fn note_alone(&self, n_queues: usize, lost: Option<bool>) {
        self.note(lost);
        count(&self.n_copies, n_queues as u64);
    }
}

/// Messages that came to an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeCounts {
    /// Messages published to the exchange.
    pub n_published: u64,
    /// Messages that were returned because no queue took them.
    pub n_returned: u64,
    /// Messages that no queue took, and that were not mandatory.
    pub n_dropped: u64,
    /// Copies that went to queues.
    pub n_copies: u64,
}

impl ExchangeCounts {
    fn of(tally: &RouteTally, n_queues: usize) -> Self {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (n_published, n_own) = (of(&tally.n_published), of(&tally.n_copies));
        let n_copies = n_published * n_queues as u64 + n_own;
        let (n_returned, n_dropped) = (of(&tally.n_returned), of(&tally.n_dropped));
        Self { n_published, n_returned, n_dropped, n_copies }
    }

    const fn add(&mut self, other: &Self) {
        self.n_published += other.n_published;
        self.n_returned += other.n_returned;
        self.n_dropped += other.n_dropped;
        self.n_copies += other.n_copies;
    }
}

/// Messages published, by exchange, and by exchange and queue. Messages with a route of their own, as their
/// headers have them, are in no pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Counts by the name of the exchange.
    pub exchanges: BTreeMap<Box<[u8]>, ExchangeCounts>,
    /// Messages that went from an exchange to a queue.
    pub pairs: BTreeMap<(Box<[u8]>, QueueId), u64>,
}

impl Published {
    /// Adds other counts, for up to `max` exchanges and as many pairs.
    pub fn add(&mut self, other: &Self, max: usize) {
        for (exchange, counts) in &other.exchanges {
            if let Some(sum) = entry(&mut self.exchanges, exchange, max) {
                sum.add(counts);
            }
        }
        for (pair, n) in &other.pairs {
            if let Some(sum) = entry(&mut self.pairs, pair, max) {
                *sum += n;
            }
        }
    }

    /// Forgets exchanges, and pairs of exchange and queue, that do not exist any more.
    pub(super) fn retain(&mut self, is_there: impl Fn(&[u8], Option<QueueId>) -> bool) {
        self.exchanges.retain(|exchange, _| is_there(exchange, None));
        self.pairs.retain(|(exchange, queue), _| is_there(exchange, Some(*queue)));
    }

    fn add_route(&mut self, (exchange, queues): &Target, tally: &RouteTally, max: usize) {
        let counts = ExchangeCounts::of(tally, queues.len());
        if let Some(sum) = entry(&mut self.exchanges, exchange, max) {
            sum.add(&counts);
        }
        for queue in queues {
            if let Some(sum) = entry(&mut self.pairs, &(exchange.clone(), *queue), max) {
                *sum += counts.n_published;
            }
        }
    }
}

/// Publishes of a channel to an exchange.
#[derive(Debug)]
pub struct PublishedTo {
    /// Name of the exchange.
    pub exchange: Box<[u8]>,
    /// Counts of the publishes.
    pub counts: ExchangeCounts,
    /// Number of confirmed publishes, which is known only if all went to one exchange.
    pub n_confirmed: Option<u64>,
}

impl ChannelCounters {
    /// Messages that the channel has published, by exchange, while `n_unconfirmed` publishes wait for
    /// confirms.
    #[must_use]
    pub fn by_exchange(&self, n_unconfirmed: u64) -> Vec<PublishedTo> {
        let exchanges = self.by_route.published().exchanges;
        let n_confirmed = (exchanges.len() == 1).then(|| self.totals(n_unconfirmed).n_answered);
        let of_exchange = |(exchange, counts)| PublishedTo { exchange, counts, n_confirmed };
        exchanges.into_iter().map(of_exchange).collect()
    }
}

/// The value of a key, if there are not too many others.
fn entry<'m, K: Clone + Ord, V: Default>(
    map: &'m mut BTreeMap<K, V>,
    key: &K,
    max: usize,
) -> Option<&'m mut V> {
    (map.len() < max || map.contains_key(key)).then(|| map.entry(key.clone()).or_default())
}

/// An exchange, and the queues that messages go to from there.
type Target = (Box<[u8]>, SmallVec<[QueueId; 1]>);

/// Messages that one channel has published.
#[derive(Debug, Default)]
pub struct ByRoute(Mutex<Routes>);

#[derive(Debug, Default)]
struct Routes {
    known: BTreeMap<Target, Arc<RouteTally>>,
    /// Counts of routes that the session remembers no more.
    gone: Published,
    /// Routes that were in use at the last look.
    n_used: usize,
}

impl ByRoute {
    /// The counts of the messages that go from an exchange to these queues.
    pub(crate) fn tally(&self, exchange: &[u8], queues: SmallVec<[QueueId; 1]>) -> Arc<RouteTally> {
        let mut routes = stdx::lock(&self.0);
        let Routes { known, gone, n_used } = &mut *routes;
        if known.len() >= 2 * (*n_used).max(UNUSED_MAX / 2) {
            known.retain(|target, tally| {
                let is_used = Arc::strong_count(tally) > 1;
                if !is_used {
                    gone.add_route(target, tally, GONE_MAX);
                }
                is_used
            });
            *n_used = known.len();
        }
        Arc::clone(known.entry((exchange.into(), queues)).or_default())
    }

    /// The figures as of now.
    #[must_use]
    pub fn published(&self) -> Published {
        let routes = stdx::lock(&self.0);
        let mut sums = routes.gone.clone();
        for (target, tally) in &routes.known {
            sums.add_route(target, tally, usize::MAX);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_counted_by_routes_that_come_and_go_is_all_there(
            steps in prop::collection::vec((0..4u8, 0..90u64, any::<bool>(), 0..3usize), 1..400),
        ) {
            let (counts, mut kept) = (ByRoute::default(), Vec::new());
            let mut model = Published::default();
            for (exchange, queue, is_lost, n_kept) in steps {
                let queues: SmallVec<[QueueId; 1]> =
                    if is_lost { SmallVec::new() } else { (0..=queue % 3).map(|n| QueueId(queue + n)).collect() };
                let tally = counts.tally(&[exchange], queues.clone());
                tally.note(is_lost.then_some(queue % 2 == 0));
                let of = model.exchanges.entry([exchange].into()).or_default();
                of.add(&ExchangeCounts {
                    n_published: 1,
                    n_returned: u64::from(is_lost && queue % 2 == 0),
                    n_dropped: u64::from(is_lost && queue % 2 == 1),
                    n_copies: queues.len() as u64,
                });
                for queue in queues {
                    *model.pairs.entry(([exchange].into(), queue)).or_default() += 1;
                }
                kept.push(tally);
                kept.drain(..kept.len().saturating_sub(n_kept));
                prop_assert!(stdx::lock(&counts.0).known.len() <= UNUSED_MAX + 2 * 3);
            }
            prop_assert_eq!(counts.published(), model);
        }
    }

    #[test]
    fn pairs_beyond_the_bound_are_not_kept() {
        let (counts, n) = (ByRoute::default(), GONE_MAX as u64 + 100);
        for queue in 0..n {
            counts.tally(b"x", SmallVec::from([QueueId(queue)])).note(None);
        }
        let published = counts.published();
        let total = ExchangeCounts { n_published: n, n_copies: n, ..ExchangeCounts::default() };
        assert_eq!(published.exchanges.get(b"x".as_slice()), Some(&total));
        assert!(published.pairs.len() <= GONE_MAX + UNUSED_MAX, "{}", published.pairs.len());
    }
}
