//! The page that lists the figures.

use crate::objects::QUEUES;
use crate::table::{BY_PROTOCOL, BY_QUEUE_TYPE, CERTIFICATES, NODE};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");

const HEAD: &str = "\
# Metrics

Generated from the tables in `crates/metrics/src`. Prometheus scrapes `http://HOST:15692/metrics`; the names are
those of RabbitMQ's plugin, so that its dashboards and rules find them, and begin with `rabbitmq_` (those of
`/metrics/detailed` with `rabbitmq_detailed_`), Leveret's own with `leveret_`.

- `/metrics`: figures of the node; no queue, channel or connection is named.
- `/metrics/per-object`: the same, and those of each object. `prometheus.return_per_object_metrics = true` makes
  `/metrics` answer so.
- `/metrics/detailed?family=NAME&family=...`: only these families, of the virtual hosts in `vhost=`, and of the
  queues that the regular expression in `queue=` matches.
- `/metrics/memory-breakdown`: memory by its use, as far as that is known.

Each scrape has one `rabbitmq_identity_info` and one `rabbitmq_build_info`, which dashboards join with. A figure
that nothing here stands behind is left out rather than made up: all that is Erlang's, sizes of messages, errors
of the stream protocol, figures of exchanges, of Raft, and of attempts to log in. Messages of the stream protocol
are not among `rabbitmq_global_messages_received_total` yet. Counters never go down while a node runs.

| key of the configuration | default | |
|---|---|---|
| `prometheus.enabled` | `true` | whether there is such a listener |
| `prometheus.tcp.port` | 15692 | in use, it keeps a node only from starting where it was asked for |
| `prometheus.tcp.ip` | all addresses | |
| `prometheus.return_per_object_metrics` | `false` | |
";

fn page() -> String {
    let mut page = String::from(HEAD);
    let mut section = |title: &str, rows: Vec<(&str, &str, &str)>| {
        page.push_str(&format!("\n## {title}\n\n| name | type | |\n|---|---|---|\n"));
        for (name, kind, help) in rows {
            page.push_str(&format!("| `{name}` | {kind} | {help} |\n"));
        }
    };
    let row = |(name, kind, _, help): &crate::table::Row| (*name, kind.as_str(), *help);
    section("The node", NODE.iter().map(row).collect());
    section("By protocol", BY_PROTOCOL.iter().map(row).collect());
    let rows = BY_QUEUE_TYPE.iter().map(|(name, kind, _, help)| (*name, kind.as_str(), *help));
    section("By protocol and type of queue", rows.collect());
    section("Certificates, by file", vec![(CERTIFICATES.0, "gauge", CERTIFICATES.1)]);
    for (family, rows) in QUEUES {
        let rows = rows.iter().map(|(name, kind, _, help)| (*name, kind.as_str(), *help));
        section(&format!("Queues: `{family}`"), rows.collect());
    }
    page
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a page of the repository")]
fn the_page_is_up_to_date() {
    if std::env::var_os("LEVERET_WRITE_DOCS").is_some() {
        std::fs::write(PAGE, page()).unwrap();
    }
    let committed = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(committed == page(), "docs/metrics.md is stale: run `cargo xtask docs`");
}
