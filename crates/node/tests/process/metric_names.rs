//! The figures that RabbitMQ tells Prometheus: all of them are here too, or the page says why not.

use super::http_api::scrape;
use super::support::node::Node;
use super::support::wait_until;
use std::collections::{BTreeMap, BTreeSet};
use testing::client::Client;

/// The names of RabbitMQ's figures by address, as it told them.
const NAMES: &str = include_str!("metric_names.txt");
/// The page with what is left out.
const PAGE: &str = include_str!("../../../../docs/metrics.md");

const SCRAPED: [&str; 3] =
    ["prometheus.enabled=true", "prometheus.tcp.ip=127.0.0.1", "prometheus.tcp.port=0"];

fn plain(name: &str) -> &str {
    let detailed = name.strip_prefix("rabbitmq_detailed_");
    detailed.or_else(|| name.strip_prefix("rabbitmq_")).unwrap_or(name)
}

/// Whether a pattern with stars stands for a name.
fn stands_for(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let rest = name.strip_prefix(before);
    rest.is_some_and(|rest| (0..=rest.len()).any(|at| stands_for(after, &rest[at..])))
}

/// The names in the first column of the table of what is left out.
fn left_out() -> Vec<&'static str> {
    let rows = PAGE.lines().skip_while(|line| *line != "| left out | reason |").skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let first = rows.map(|row| row.split('|').nth(1).unwrap());
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// Each name that RabbitMQ has and this node has not is one that the page says why of, and none of these is
/// missing without need: a name is there, or it is left out.
#[test]
fn every_figure_of_rabbitmq_is_there_or_left_out_for_a_reason() {
    let node = Node::start(&SCRAPED);
    let left_out = left_out();
    assert!(left_out.len() > 15, "{left_out:?}");
    let (mut wanted, mut address) = (BTreeMap::<&str, BTreeSet<&str>>::new(), "");
    for line in NAMES.lines().filter(|line| !line.starts_with('#')) {
        match line.starts_with('/') {
            true => address = line,
            false => assert!(wanted.entry(address).or_default().insert(line), "{line}"),
        }
    }
    let plain_names = wanted["/metrics"].clone();
    wanted.get_mut("/metrics/per-object").unwrap().extend(plain_names);
    assert!(wanted.values().map(BTreeSet::len).sum::<usize>() > 700);
    let mut n_there = 0;
    for (address, names) in wanted {
        let (_, body) = scrape(&node, address);
        let types = body.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let there: BTreeSet<&str> = types.filter_map(|line| line.split(' ').next()).collect();
        for name in names {
            let is_left_out = left_out.iter().any(|it| stands_for(it, plain(name)));
            assert!(there.contains(name) || is_left_out, "{address}: {name}");
            n_there += usize::from(there.contains(name));
        }
    }
    assert!(n_there > 200, "{n_there}");
    node.stop();
}

/// The value of a figure without labels, or the first of those with them.
fn value(body: &str, name: &str) -> f64 {
    let of = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let is_whole = rest.starts_with(' ') || rest.starts_with('{');
        is_whole.then(|| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    body.lines().find_map(of).unwrap_or_else(|| panic!("{name} is not in {body}"))
}

/// Who scrapes the node alone is told what all queues, channels and connections have together, and what is
/// counted does not fall when a client goes.
#[test]
fn the_node_tells_the_sums_of_its_objects() {
    let node = Node::start(&SCRAPED);
    let mut client = Client::guest(node.address());
    client.declare("q");
    client.consume("q", false);
    for body in [b"one", b"two"] {
        client.put_publish("q", true, body);
    }
    client.flush();
    let tags = [client.message(), client.message()].map(|message| message.unwrap().tag);
    assert!(tags[0] < tags[1]);
    let mut body = String::new();
    let read = |body: &str, name: &str| value(body, &format!("rabbitmq_{name}"));
    wait_until("the deliveries are counted", || {
        body = scrape(&node, "/metrics").1;
        read(&body, "queue_messages_delivered_ack_total") >= 2.0
    });
    for (name, n) in [
        ("queue_consumers", 1.0),
        ("queue_messages", 2.0),
        ("queue_messages_unacked", 2.0),
        ("queue_messages_published_total", 2.0),
        ("queue_exchange_messages_published_total", 2.0),
        ("exchange_messages_published_total", 2.0),
        ("exchange_messages_unroutable_dropped_total", 0.0),
        ("queue_messages_acked_total", 0.0),
        ("channel_consumers", 1.0),
        ("channel_messages_unacked", 2.0),
        ("channel_messages_uncommitted", 0.0),
        ("connection_channels", 1.0),
        ("stream_segments", 0.0),
    ] {
        assert!((read(&body, name) - n).abs() < 0.1, "{name}: {}", read(&body, name));
    }
    let bytes = read(&body, "connection_incoming_bytes_total");
    assert!(bytes > 100.0 && read(&body, "queue_messages_bytes") >= 6.0, "{bytes}");
    let detailed = scrape(
        &node,
        "/metrics/detailed?family=connection_churn_metrics&family=node_metrics\
         &family=node_coarse_metrics&family=auth_attempt_metrics",
    );
    let of = |name: &str| value(&detailed.1, &format!("rabbitmq_detailed_{name}"));
    assert!(of("connections_opened_total") >= 1.0 && of("queues_created_total") >= 1.0);
    assert!(of("process_open_fds") > 1.0 && of("process_max_fds") > 1.0);
    assert!(of("auth_attempts_succeeded_total") >= 1.0);
    assert!(!detailed.1.contains("rabbitmq_detailed_queues "), "{}", detailed.1);
    client.close();
    wait_until("the client is gone", || {
        body = scrape(&node, "/metrics").1;
        read(&body, "connections") < 1.0
    });
    assert!(read(&body, "connection_incoming_bytes_total") >= bytes);
    assert!(read(&body, "connection_incoming_packets_total") >= 1.0);
    assert!(read(&body, "connection_channels") < 1.0 && read(&body, "channel_consumers") < 1.0);
    // The scrapes before this one.
    let scrapes = value(&body, "telemetry_scrape_duration_seconds_count");
    assert!(scrapes >= 1.0 && value(&body, "telemetry_scrape_size_bytes_sum") > 10_000.0);
    let again = scrape(&node, "/metrics").1;
    assert!(value(&again, "telemetry_scrape_duration_seconds_count") > scrapes);
    assert!(value(&again, "process_start_time_seconds") > 1.7e9);
    node.stop();
}
