//! Figures of two of a channel, an exchange and a queue over time.

use super::series::{History, Moments, Ranges, SHORT};
use super::{
    ACKED, ChannelKey, OF_PUBLISHERS, OF_QUEUES, OTHER_BYTES_MAX, OpenChannel, Stats, of_counts,
};
use broker::{ExchangeCounts, PublishedTo};
use meta::QueueId;
use queue_type::Counts;
use serde_json::Value;
use std::collections::BTreeMap;

/// A channel and an exchange, a channel and a queue, an exchange and a queue.
pub(crate) type PublishesKey = (ChannelKey, Box<[u8]>);
pub(crate) type DeliveriesKey = (ChannelKey, QueueId);
pub(crate) type RouteKey = (Box<[u8]>, QueueId);

/// The pairs that there were messages of.
#[derive(Debug)]
pub(super) struct Pairs {
    publishes: History<PublishesKey, 4>,
    deliveries: History<DeliveriesKey, 8>,
    routes: History<RouteKey, 1>,
}

impl Default for Pairs {
    fn default() -> Self {
        Self {
            publishes: History::new(SHORT, OTHER_BYTES_MAX),
            deliveries: History::new(SHORT, OTHER_BYTES_MAX),
            routes: History::new(SHORT, OTHER_BYTES_MAX),
        }
    }
}

impl Pairs {
    pub(super) fn look_at_channel(&mut self, channel: OpenChannel<'_>, moments: &Moments) {
        let key = channel.key();
        for (queue, counts) in channel.counters.deliveries.by_queue() {
            self.deliveries.look((key, queue), of_counts(&counts), moments);
        }
        for publishes in channel.publishes() {
            let figures = of_publishes(&publishes);
            self.publishes.look((key, publishes.exchange), figures, moments);
        }
    }

    pub(super) fn look_at_routes(&mut self, routes: BTreeMap<RouteKey, u64>, moments: &Moments) {
        routes.into_iter().for_each(|(key, n)| self.routes.look(key, [n], moments));
    }

    pub(super) fn end_look(&mut self, moments: &Moments) {
        self.publishes.end_look(moments);
        self.deliveries.end_look(moments);
        self.routes.end_look(moments);
    }
}

/// Counts of publishes in the order of [`OF_PUBLISHERS`].
fn of_publishes(publishes: &PublishedTo) -> [u64; 4] {
    let ExchangeCounts { n_published, n_returned, n_dropped, .. } = publishes.counts;
    [n_published, publishes.n_confirmed.unwrap_or_default(), n_returned, n_dropped]
}

impl Stats {
    /// How long a channel was given nothing from a queue and has acknowledged nothing of it, milliseconds.
    pub(crate) fn idle_ms(&self, key: &DeliveriesKey) -> Option<u64> {
        stdx::lock(&self.looks).pairs.deliveries.unchanged_ms(key, 0..OF_QUEUES.len())
    }

    /// How long a channel has acknowledged nothing of a queue, milliseconds.
    pub(crate) fn unsettled_ms(&self, key: &DeliveriesKey) -> Option<u64> {
        stdx::lock(&self.looks).pairs.deliveries.unchanged_ms(key, ACKED..OF_QUEUES.len())
    }

    /// Messages that a channel has published to an exchange; without the confirms where they are not known.
    pub(crate) fn of_publishes(
        &self,
        channel: ChannelKey,
        publishes: PublishedTo,
        ranges: &Ranges,
    ) -> Value {
        let (now, is_confirmed) = (of_publishes(&publishes), publishes.n_confirmed.is_some());
        let key = (channel, publishes.exchange);
        let looks = stdx::lock(&self.looks);
        let mut past = looks.pairs.publishes.past(&key, &looks.slow, ranges.msg_rates);
        past.put_all(OF_PUBLISHERS.into_iter().zip(now), 0);
        if !is_confirmed {
            past.object.remove("confirm");
            past.object.remove("confirm_details");
        }
        past.object.into()
    }

    /// Messages that a channel was given from a queue.
    pub(crate) fn of_deliveries(
        &self,
        key: &DeliveriesKey,
        counts: &Counts,
        ranges: &Ranges,
    ) -> Value {
        let looks = stdx::lock(&self.looks);
        let mut past = looks.pairs.deliveries.past(key, &looks.slow, ranges.msg_rates);
        past.put_deliveries(&of_counts(counts), 1);
        past.object.into()
    }

    /// The messages that went from an exchange to a queue.
    pub(crate) fn of_route(&self, key: &RouteKey, n: u64, ranges: &Ranges) -> Value {
        let looks = stdx::lock(&self.looks);
        let mut past = looks.pairs.routes.past(key, &looks.slow, ranges.msg_rates);
        past.put("publish", n, 0..1);
        past.object.into()
    }
}
