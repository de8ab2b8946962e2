//! The page that lists the figures, and what is made of them.

mod monitoring;

use crate::objects::{CHANNELS, CONNECTIONS, SEGMENTS, STREAMS};
use crate::pairs::*;
use crate::queues::{QUEUE_SUMS, QUEUES, QueueRow};
use crate::scrapes::SCRAPES;
use crate::table::*;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");

const HEAD: &str = "\
# Metrics

Generated from the tables in `crates/metrics/src`. Prometheus scrapes `http://HOST:15692/metrics`. Names are those
of RabbitMQ's plugin, so that its dashboards and rules work: they begin with `rabbitmq_` (`rabbitmq_detailed_` in
`/metrics/detailed`), Leveret's own with `leveret_`.

- `/metrics`: metrics of the node, without any per queue, channel or connection.
- `/metrics/per-object`: also those of each object. `prometheus.return_per_object_metrics = true` serves them at
  `/metrics`.
- `/metrics/detailed?family=NAME&family=...`: only these families, of the virtual hosts in `vhost=` and the queues
  that match the regular expression `queue=`. The node's own are `connection_churn_metrics`,
  `node_coarse_metrics`, `node_metrics`, `node_persister_metrics` and `auth_attempt_metrics`.
- `/metrics/memory-breakdown`: memory by category.

Each scrape has one `rabbitmq_identity_info` and one `rabbitmq_build_info`, which dashboards join with. Counters
never decrease while a node runs. Metrics without a source in Leveret are left out:

| left out | reason |
|---|---|
| Erlang's: `erlang_*`, `*_reductions_total` | Leveret does not run on Erlang; only the uptime is given |
| `raft_*`, except those below | quorum queues have one member and share the node's log: `leveret_wal_*` |
| `schema_db_*`, `queue_index_*`, `msg_store_*`, `io_*_ops_total`, `io_*_time_seconds_total` | other file formats: `leveret_wal_*`, `leveret_page_*`, `leveret_message_store_*` |
| `queue_messages_ram*`, `queue_messages_*_ram`, `queue_messages_persistent*`, `queue_messages_ready_bytes`, `queue_messages_unacked_bytes`, `queue_disk_*` | not counted by queues |
| `queue_head_message_timestamp`, `channel_messages_unacked` of each channel | would lock queues; the HTTP API has them |
| `queue_consumer_capacity`, `queue_consumer_utilisation`, `queue_process_memory_bytes` | not measured |
| `exchange_messages_confirmed_total` of each exchange, `channel_messages_confirmed_total` of channels that publish to several exchanges | confirms are not counted by exchange |
| `channel_prefetch` | included in `consumer_prefetch` |
| `connection_pending_packets` | pending output is counted in bytes: `memory_client_connection_other_bytes` |
| `memory_*`, except those below | included in `memory_other_system_bytes` |
| `shovel_*`, `federation_links` | shovels and federation are not supported yet |

| configuration key | default | |
|---|---|---|
| `prometheus.enabled` | `true` | enables the listener |
| `prometheus.tcp.port` | 15692 | a port in use stops the node from starting only if it is set here |
| `prometheus.tcp.ip` | all addresses | |
| `prometheus.return_per_object_metrics` | `false` | |
";

/// Name, type and meaning of each row.
macro_rules! all {
    ($rows:expr) => {
        $rows.iter().map(|(name, kind, _, help)| (*name, kind.as_str(), *help)).collect()
    };
}

/// A figure: name, type, meaning.
type Shown = (&'static str, &'static str, &'static str);

/// The figures of `/metrics`, by section.
fn sections() -> Vec<(&'static str, Vec<Shown>)> {
    let of = |(name, help): (&'static str, &'static str), kind| (name, kind, help);
    let errors = STREAM_ERRORS.iter().map(|(name, _)| (*name, "counter", STREAM_ERROR));
    let deaths = DEATHS.iter().map(|(name, _, help)| (*name, "counter", *help));
    let confirmed = of(DEATHS_CONFIRMED, "counter");
    let mut quorum: Vec<_> = all!(QUORUM_LOG);
    quorum.push(of(COMMIT_LATENCY, "gauge"));
    vec![
        ("The node", all!(NODE)),
        ("The node, further metrics", vec![of(SYNC_TIME, "histogram"), of(OLDEST, "gauge")]),
        ("Scrapes, by endpoint", SCRAPES.map(|it| of(it, "summary")).to_vec()),
        ("Queues together", QUEUE_SUMS.iter().flat_map(|rows| of_rows(rows)).collect()),
        ("By protocol", all!(BY_PROTOCOL)),
        ("By protocol, not of streams", vec![of(MESSAGE_SIZE, "histogram")]),
        ("By protocol, of streams", errors.collect()),
        ("Logins, by protocol", all!(LOGINS)),
        (
            "Logins by source, with `track_auth_attempt_source`: `auth_attempt_detailed_metrics`",
            all!(LOGIN_SOURCES),
        ),
        ("By protocol and type of queue", all!(BY_QUEUE_TYPE)),
        ("By type of queue", vec![of(PUBLISHED, "counter")]),
        ("By type of queue and strategy of dead letters", deaths.chain([confirmed]).collect()),
        ("Channels together, and each by queue: `channel_queue_metrics`", all!(DELIVERED_ROWS)),
        ("Certificates, by file", vec![of(CERTIFICATES, "gauge")]),
        ("Quorum queues together, and each with `ra_metrics`", quorum),
    ]
}

fn of_rows(rows: &[QueueRow]) -> Vec<Shown> {
    all!(rows)
}

fn all_rows() -> Vec<Shown> {
    sections().into_iter().flat_map(|(_, rows)| rows).collect()
}

fn page() -> String {
    let mut page = String::from(HEAD);
    let mut section = |title: &str, rows: Vec<Shown>| {
        page.push_str(&format!("\n## {title}\n\n| name | type | |\n|---|---|---|\n"));
        for (name, kind, help) in rows {
            page.push_str(&format!("| `{name}` | {kind} | {help} |\n"));
        }
    };
    sections().into_iter().for_each(|(title, rows)| section(title, rows));
    for (family, rows) in QUEUES {
        section(&format!("Queues: `{family}`"), all!(rows));
    }
    section("Queues: `leveret_queue_age`", vec![(OLDEST.0, "gauge", OLDEST.1)]);
    section("Streams: `queue_metrics`", vec![(SEGMENTS.0, "gauge", SEGMENTS.1)]);
    section("Streams: `stream_consumer_metrics`", vec![(STREAMS.0, "gauge", STREAMS.1)]);
    section("Exchanges: `exchange_metrics`", all!(EXCHANGE_ROWS));
    section(
        "By exchange and queue: `queue_exchange_metrics`",
        vec![(QUEUE_EXCHANGE.0, "counter", QUEUE_EXCHANGE.1)],
    );
    section("Channels by exchange: `channel_exchange_metrics`", all!(PUBLISHED_ROWS));
    section(
        "Channels by queue and exchange: `channel_queue_exchange_metrics`",
        vec![(CHANNEL_QUEUE_EXCHANGE.0, "counter", CHANNEL_QUEUE_EXCHANGE.1)],
    );
    for (family, rows) in CONNECTIONS {
        section(&format!("Connections: `{family}`"), all!(rows));
    }
    section("Channels: `channel_metrics`", all!(CHANNELS));
    section("`/metrics/memory-breakdown`", all!(MEMORY));
    page
}

/// A file of the repository is as it is generated.
#[expect(clippy::disallowed_methods, reason = "a file of the repository")]
fn committed(path: &str, generated: &str) {
    if std::env::var_os("LEVERET_WRITE_DOCS").is_some() {
        std::fs::write(path, generated).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == generated, "{path} is stale: run `cargo xtask docs`");
}

#[test]
fn the_page_is_up_to_date() {
    committed(PAGE, &page());
}
