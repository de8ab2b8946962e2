//! Figures of what went between channels, exchanges and queues, by two of them, and of each exchange.

use crate::rows::rows;
use crate::selection::Selection;
use crate::table::DELIVERED_ROWS;
use crate::text::{Kind, Writer};
use broker::{ChannelCounters, Connection, ExchangeCounts};
use meta::QueueDef;
use mgmt::Management;
use queue_type::Counts;
use session::ChannelId;
use std::sync::Arc;

/// Names of the families of exchanges, and of pairs of channels, queues and exchanges.
pub(crate) const CHANNEL_EXCHANGES: &str = "channel_exchange_metrics";
pub(crate) const CHANNEL_QUEUES: &str = "channel_queue_metrics";
pub(crate) const QUEUE_EXCHANGES: &str = "queue_exchange_metrics";
pub(crate) const CHANNEL_QUEUE_EXCHANGES: &str = "channel_queue_exchange_metrics";
pub(crate) const EXCHANGES: &str = "exchange_metrics";

/// Counts of the messages published to an exchange, and the number of confirmed ones where that is known.
type Came = (ExchangeCounts, Option<u64>);

/// Row of exchanges' figures: name, type, value, meaning.
pub(crate) type ExchangeRow = (&'static str, Kind, fn(&Came) -> Option<u64>, &'static str);

/// Messages that channels have published to each exchange.
pub(crate) const PUBLISHED_ROWS: &[ExchangeRow] = rows! {
    Counter channel_messages_published_total |it| Some(it.0.n_published) => "Messages published";
    Counter channel_messages_confirmed_total |it| it.1 => "Messages confirmed to publishers";
    Counter channel_messages_unroutable_returned_total |it| Some(it.0.n_returned) => "Messages returned as unroutable";
    Counter channel_messages_unroutable_dropped_total |it| Some(it.0.n_dropped) => "Messages dropped as unroutable";
};

/// Messages that came to each exchange.
pub(crate) const EXCHANGE_ROWS: &[ExchangeRow] = rows! {
    Counter exchange_messages_published_total |it| Some(it.0.n_published) => "Messages published to an exchange";
    Counter exchange_messages_unroutable_returned_total |it| Some(it.0.n_returned) => "Messages returned as unroutable";
    Counter exchange_messages_unroutable_dropped_total |it| Some(it.0.n_dropped) => "Messages dropped as unroutable";
};

/// The figure of messages routed from exchanges to queues: name and meaning.
pub(crate) const QUEUE_EXCHANGE: (&str, &str) =
    ("queue_exchange_messages_published_total", "Messages routed from an exchange to a queue");
/// The figure of messages routed from exchanges to queues, by channel: name and meaning.
pub(crate) const CHANNEL_QUEUE_EXCHANGE: (&str, &str) = (
    "queue_messages_published_total",
    "Messages a channel published to a queue through an exchange",
);

/// Whether a figure of exchanges or of pairs has the name.
pub(crate) fn have(name: &str) -> bool {
    let of_exchanges = PUBLISHED_ROWS.iter().chain(EXCHANGE_ROWS).map(|row| row.0);
    let names = of_exchanges.chain(DELIVERED_ROWS.iter().map(|row| row.0));
    names.chain([QUEUE_EXCHANGE.0, CHANNEL_QUEUE_EXCHANGE.0]).any(|it| it == name)
}

/// Channel whose figures are written: its connection, id and counters.
type OfChannel<'a> = (&'a Connection, ChannelId, &'a ChannelCounters);

fn each_channel(management: &Management, mut each: impl FnMut(&str, OfChannel<'_>)) {
    for connection in management.broker.connections.list() {
        for (id, counters) in stdx::lock(&connection.channels).iter() {
            let name = format!("{} ({})", connection.identity.name, id.0);
            each(&name, (&connection, *id, counters));
        }
    }
}

impl Selection<'_> {
    pub(crate) fn write_pairs(&self, writer: &mut Writer<'_>, management: &Management) {
        if self.wants(CHANNEL_EXCHANGES) {
            self.write_channel_exchanges(writer, management);
        }
        if self.wants(CHANNEL_QUEUES) {
            self.write_channel_queues(writer, management);
        }
        if self.wants(EXCHANGES) || self.wants(QUEUE_EXCHANGES) {
            self.write_published(writer, management);
        }
        if self.wants(CHANNEL_QUEUE_EXCHANGES) {
            self.write_routes(writer, management);
        }
    }

    fn write_channel_exchanges(&self, writer: &mut Writer<'_>, management: &Management) {
        let mut found: Vec<([String; 3], Came)> = Vec::new();
        each_channel(management, |name, (connection, id, counters)| {
            let vhost = &connection.identity.vhost;
            if self.wants_vhost(vhost) {
                for published in counters.by_exchange(connection.n_unconfirmed(id)) {
                    let labels = [name.to_owned(), vhost.clone(), text(&published.exchange)];
                    found.push((labels, (published.counts, published.n_confirmed)));
                }
            }
        });
        write(writer, PUBLISHED_ROWS, ["channel", "vhost", "exchange"], &found);
    }

    fn write_published(&self, writer: &mut Writer<'_>, management: &Management) {
        let (view, published) = (management.broker.view(), management.broker.figures().published());
        let published = || published.iter().filter(|(vhost, _)| self.wants_vhost(vhost));
        if self.wants(EXCHANGES) {
            let mut found: Vec<([String; 2], Came)> = Vec::new();
            for (vhost, of_vhost) in published() {
                for (exchange, counts) in &of_vhost.exchanges {
                    found.push(([vhost.clone(), text(exchange)], (*counts, None)));
                }
            }
            write(writer, EXCHANGE_ROWS, ["vhost", "exchange"], &found);
        }
        if self.wants(QUEUE_EXCHANGES) {
            let mut metric = writer.begin(QUEUE_EXCHANGE.0, Kind::Counter, QUEUE_EXCHANGE.1);
            for (vhost, of_vhost) in published() {
                for ((exchange, queue), n) in &of_vhost.pairs {
                    let def = view.queue_by_id(*queue).map(|queue| Arc::clone(queue.def()));
                    if let Some(def) = def.filter(|def| self.wants_queue(def)) {
                        let (exchange, queue) = (&text(exchange), def.name.as_str());
                        let labels =
                            [("vhost", &**vhost), ("exchange", exchange), ("queue", queue)];
                        metric.value(&labels, n);
                    }
                }
            }
        }
    }

    fn write_channel_queues(&self, writer: &mut Writer<'_>, management: &Management) {
        let view = management.broker.view();
        let mut found: Vec<(String, Arc<QueueDef>, Counts)> = Vec::new();
        each_channel(management, |name, (_, _, counters)| {
            for (queue, counts) in counters.deliveries.by_queue() {
                let def = view.queue_by_id(queue).map(|queue| Arc::clone(queue.def()));
                if let Some(def) = def.filter(|def| self.wants_queue(def)) {
                    found.push((name.to_owned(), def, counts));
                }
            }
        });
        for (name, kind, of, help) in DELIVERED_ROWS {
            let mut metric = writer.begin(name, *kind, help);
            for (channel, def, counts) in &found {
                let (vhost, queue) = (def.vhost.as_str(), def.name.as_str());
                let labels = [("channel", &**channel), ("vhost", vhost), ("queue", queue)];
                metric.value(&labels, of(counts));
            }
        }
    }

    fn write_routes(&self, writer: &mut Writer<'_>, management: &Management) {
        let view = management.broker.view();
        let (name, help) = CHANNEL_QUEUE_EXCHANGE;
        let mut metric = writer.begin(name, Kind::Counter, help);
        each_channel(management, |channel, (connection, _, counters)| {
            let exchange_vhost = ("exchange_vhost", &*connection.identity.vhost);
            for ((exchange, queue), n) in counters.by_route.published().pairs {
                let def = view.queue_by_id(queue).map(|queue| Arc::clone(queue.def()));
                let Some(def) = def.filter(|def| self.wants_queue(def)) else { continue };
                let (channel, exchange) = (("channel", channel), ("exchange", &*text(&exchange)));
                let queue_vhost = ("queue_vhost", def.vhost.as_str());
                let queue = ("queue", def.name.as_str());
                metric.value(&[channel, queue_vhost, queue, exchange_vhost, exchange], n);
            }
        });
    }
}

fn write<const N: usize>(
    writer: &mut Writer<'_>,
    rows: &[ExchangeRow],
    names: [&'static str; N],
    found: &[([String; N], Came)],
) {
    for (name, kind, of, help) in rows {
        let mut metric = writer.begin(name, *kind, help);
        for (values, came) in found {
            let mut labels = [("", ""); N];
            let named = names.iter().zip(values);
            for (label, (name, value)) in labels.iter_mut().zip(named) {
                *label = (name, value);
            }
            of(came).into_iter().for_each(|n| metric.value(&labels, n));
        }
    }
}

fn text(exchange: &[u8]) -> String {
    String::from_utf8_lossy(exchange).into_owned()
}
