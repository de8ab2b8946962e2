//! Figures and rates. Counters say what was done since the node started; a sampler looks at them every few
//! seconds, and the difference of the last two looks is a rate. Queues that are empty and unused take no
//! memory.

use broker::{Broker, ChannelCounters, Count, Counts, PublishTotals, QueueStat};
use meta::{ConnectionId, QueueId};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use stdx::Now;

/// Names of what is counted, as RabbitMQ's message_stats have them.
const OF_QUEUES: [(&str, Count); 8] = [
    ("publish", Count::Published),
    ("deliver", Count::Delivered),
    ("deliver_no_ack", Count::DeliveredAuto),
    ("get", Count::Got),
    ("get_no_ack", Count::GotAuto),
    ("get_empty", Count::GotEmpty),
    ("redeliver", Count::Redelivered),
    ("ack", Count::Acked),
];

/// Names of what comes and goes.
const CHURN: [&str; 7] = [
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_created",
    "queue_declared",
    "queue_deleted",
];

/// Counts of what has come and gone since the node started, in the order of [`CHURN`].
fn churn(broker: &Broker) -> [u64; CHURN.len()] {
    let (n_connections, n_channels) = broker.connections.n_opened();
    let list = broker.connections.list();
    let n_open: usize = list.iter().map(|one| one.n_channels()).sum();
    let [n_created, n_declared, n_deleted] = broker.figures().queue_churn();
    let closed = |opened: u64, now: usize| opened.saturating_sub(now as u64);
    [
        n_connections,
        closed(n_connections, list.len()),
        n_channels,
        closed(n_channels, n_open),
        n_created,
        n_declared,
        n_deleted,
    ]
}

/// A figure of several.
type Of<T> = fn(&T) -> u64;

/// Two looks at a figure.
#[derive(Clone, Copy, Debug, Default)]
struct Twice<T> {
    now: T,
    before: T,
}

impl<T> Twice<T> {
    fn look(&mut self, value: T) {
        self.before = std::mem::replace(&mut self.now, value);
    }
}

/// A queue at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct QueueLook {
    counts: Counts,
    n_ready: u64,
    n_unacked: u64,
}

impl QueueLook {
    const fn of(stat: &QueueStat) -> Self {
        Self { counts: stat.counts, n_ready: stat.n_ready, n_unacked: stat.n_unacked }
    }
}

/// A virtual host at one look.
#[derive(Clone, Copy, Debug, Default)]
struct VhostLook {
    queues: QueueLook,
    published: PublishTotals,
    received_bytes: u64,
    sent_bytes: u64,
}

/// Everything at the last two looks.
#[derive(Debug, Default)]
struct Looks {
    /// Milliseconds between them.
    span_ms: u64,
    at_ms: u64,
    queues: HashMap<QueueId, Twice<QueueLook>>,
    vhosts: BTreeMap<String, Twice<VhostLook>>,
    churn: Twice<[u64; CHURN.len()]>,
    /// Bytes received and sent.
    connections: HashMap<ConnectionId, (Twice<u64>, Twice<u64>)>,
}

impl Looks {
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with a digit behind the point")]
    fn rate(&self, now: u64, before: u64) -> f64 {
        if self.span_ms == 0 {
            return 0.0;
        }
        let (now, before) = (now as f64, before as f64);
        ((now - before) * 10_000.0 / self.span_ms as f64).round() / 10.0
    }

    fn put(&self, object: &mut Map<String, Value>, name: &str, value: u64, twice: (u64, u64)) {
        object.insert(name.to_owned(), json!(value));
        let rate = self.rate(twice.0, twice.1);
        object.insert(format!("{name}_details"), json!({"rate": rate}));
    }

    /// The `message_stats` of what went through queues.
    fn put_counts(&self, object: &mut Map<String, Value>, counts: &Counts, looks: Twice<Counts>) {
        for (name, what) in OF_QUEUES {
            self.put(object, name, counts.of(what), (looks.now.of(what), looks.before.of(what)));
        }
        let all = [&looks.now, &looks.before].map(Counts::n_delivered);
        self.put(object, "deliver_get", counts.n_delivered(), (all[0], all[1]));
    }

    fn put_published(
        &self,
        object: &mut Map<String, Value>,
        totals: &PublishTotals,
        looks: Twice<PublishTotals>,
    ) {
        let figures: [(&str, Of<PublishTotals>); 4] = [
            ("publish", |it| it.n_published),
            ("confirm", |it| it.n_answered),
            ("return_unroutable", |it| it.n_returned),
            ("drop_unroutable", |it| it.n_dropped),
        ];
        for (name, of) in figures {
            self.put(object, name, of(totals), (of(&looks.now), of(&looks.before)));
        }
    }
}

/// The node's figures over time.
#[derive(Debug, Default)]
pub(crate) struct Stats(Mutex<Looks>);

impl Stats {
    /// Looks at everything.
    pub(crate) fn look(&self, broker: &Broker, now: Now) {
        let view = broker.view();
        let mut vhosts: BTreeMap<String, VhostLook> = BTreeMap::new();
        let mut queues = Vec::new();
        for queue in view.queues().filter(|queue| !queue.def().is_internal()) {
            let stat = queue.stat();
            let of_vhost = vhosts.entry(queue.def().vhost.to_string()).or_default();
            of_vhost.queues.n_ready += stat.n_ready;
            of_vhost.queues.n_unacked += stat.n_unacked;
            let look = QueueLook::of(&stat);
            if look != QueueLook::default() {
                queues.push((queue.id(), look));
            }
        }
        for ((vhost, _), counts) in broker.figures().counts() {
            vhosts.entry(vhost).or_default().queues.counts.add(&counts);
        }
        for (vhost, totals) in broker.connections.published() {
            vhosts.entry(vhost).or_default().published = totals;
        }
        let churn = churn(broker);
        let mut looks = stdx::lock(&self.0);
        looks.churn.look(churn);
        looks.span_ms = now.monotonic_ms.saturating_sub(looks.at_ms);
        looks.at_ms = now.monotonic_ms;
        let (last, is_first) = (std::mem::take(&mut looks.queues), looks.vhosts.is_empty());
        let twice = |(id, now): (QueueId, QueueLook)| {
            // What was there at the start did not come since.
            let unseen = if is_first { now } else { QueueLook::default() };
            (id, Twice { now, before: last.get(&id).map_or(unseen, |twice| twice.now) })
        };
        looks.queues = queues.into_iter().map(twice).collect();
        let connections = std::mem::take(&mut looks.connections);
        for connection in broker.connections.list() {
            let bytes = [&connection.received, &connection.sent]
                .map(|it| it.bytes.load(std::sync::atomic::Ordering::Relaxed));
            let of_vhost = vhosts.entry(connection.identity.vhost.clone()).or_default();
            of_vhost.received_bytes += bytes[0];
            of_vhost.sent_bytes += bytes[1];
            let mut twice = connections.get(&connection.id).copied().unwrap_or_default();
            twice.0.look(bytes[0]);
            twice.1.look(bytes[1]);
            looks.connections.insert(connection.id, twice);
        }
        for (vhost, look) in vhosts {
            let unseen = if is_first { look } else { VhostLook::default() };
            let twice = looks.vhosts.entry(vhost).or_insert(Twice { now: unseen, before: unseen });
            twice.look(look);
        }
    }

    pub(crate) fn rate_of_queue(&self, queue: QueueId, column: &str) -> f64 {
        let looks = stdx::lock(&self.0);
        let Some(Twice { now, before }) = looks.queues.get(&queue) else { return 0.0 };
        let of = |look: &QueueLook| match column {
            "messages_ready_details" => look.n_ready,
            "messages_unacknowledged_details" => look.n_unacked,
            _ => look.n_ready + look.n_unacked,
        };
        looks.rate(of(now), of(before))
    }

    /// None for a queue that nothing was done to.
    pub(crate) fn of_queue(&self, queue: QueueId, stat: &QueueStat) -> Option<Value> {
        if stat.counts == Counts::default() {
            return None;
        }
        let looks = stdx::lock(&self.0);
        let twice = looks.queues.get(&queue).map(|it| (it.now.counts, it.before.counts));
        let (now, before) = twice.unwrap_or_default();
        let mut object = Map::new();
        looks.put_counts(&mut object, &stat.counts, Twice { now, before });
        Some(Value::Object(object))
    }

    pub(crate) fn rate_of_connection(&self, connection: ConnectionId, column: &str) -> f64 {
        let looks = stdx::lock(&self.0);
        let Some((received, sent)) = looks.connections.get(&connection) else { return 0.0 };
        let twice = if column == "recv_oct_details" { received } else { sent };
        looks.rate(twice.now, twice.before)
    }

    /// None for a channel that has published nothing.
    pub(crate) fn of_channel(counters: &ChannelCounters, n_unconfirmed: u64) -> Option<Value> {
        let totals = counters.totals(n_unconfirmed);
        (totals != PublishTotals::default()).then(|| {
            json!({
                "publish": totals.n_published, "confirm": totals.n_answered,
                "return_unroutable": totals.n_returned, "drop_unroutable": totals.n_dropped,
            })
        })
    }

    /// The figures of a virtual host as fields of its object.
    pub(crate) fn of_vhost(&self, vhost: &str) -> Map<String, Value> {
        let looks = stdx::lock(&self.0);
        let twice = looks.vhosts.get(vhost).copied().unwrap_or_default();
        let mut object = Map::new();
        looks.put_messages(&mut object, &twice);
        let Twice { now, before } = twice;
        let bytes = (now.received_bytes, before.received_bytes);
        looks.put(&mut object, "recv_oct", now.received_bytes, bytes);
        let bytes = (now.sent_bytes, before.sent_bytes);
        looks.put(&mut object, "send_oct", now.sent_bytes, bytes);
        object.insert("message_stats".to_owned(), looks.message_stats(&twice));
        object
    }

    /// Connections, channels and queues that come and go, as fields.
    pub(crate) fn churn(&self, broker: &Broker) -> Map<String, Value> {
        let (now, looks) = (churn(broker), stdx::lock(&self.0));
        let mut object = Map::new();
        let both = looks.churn.now.iter().zip(&looks.churn.before);
        for ((name, value), (last, before)) in CHURN.iter().zip(now).zip(both) {
            looks.put(&mut object, name, value, (*last, *before));
        }
        object
    }

    /// Those of all virtual hosts together that are wanted.
    pub(crate) fn overview(&self, wanted: impl Fn(&str) -> bool) -> Map<String, Value> {
        let looks = stdx::lock(&self.0);
        let mut all = Twice::<VhostLook>::default();
        for (_, twice) in looks.vhosts.iter().filter(|(vhost, _)| wanted(vhost)) {
            add(&mut all.now, &twice.now);
            add(&mut all.before, &twice.before);
        }
        let (mut object, mut totals) = (Map::new(), Map::new());
        looks.put_messages(&mut totals, &all);
        object.insert("queue_totals".to_owned(), Value::Object(totals));
        object.insert("message_stats".to_owned(), looks.message_stats(&all));
        object
    }
}

impl Looks {
    fn put_messages(&self, object: &mut Map<String, Value>, twice: &Twice<VhostLook>) {
        let figures: [(&str, Of<QueueLook>); 3] = [
            ("messages", |it| it.n_ready + it.n_unacked),
            ("messages_ready", |it| it.n_ready),
            ("messages_unacknowledged", |it| it.n_unacked),
        ];
        for (name, of) in figures {
            let (now, before) = (of(&twice.now.queues), of(&twice.before.queues));
            self.put(object, name, now, (now, before));
        }
    }

    fn message_stats(&self, twice: &Twice<VhostLook>) -> Value {
        let mut stats = Map::new();
        let counts = Twice { now: twice.now.queues.counts, before: twice.before.queues.counts };
        self.put_counts(&mut stats, &counts.now, counts);
        // What clients published, rather than what came to queues.
        let published = Twice { now: twice.now.published, before: twice.before.published };
        self.put_published(&mut stats, &published.now, published);
        Value::Object(stats)
    }
}

fn add(all: &mut VhostLook, one: &VhostLook) {
    all.queues.counts.add(&one.queues.counts);
    all.queues.n_ready += one.queues.n_ready;
    all.queues.n_unacked += one.queues.n_unacked;
    all.published.add(&one.published);
}
