//! Retention of streams while nobody publishes to them.

use super::http_api::Api;
use crate::support::node::Node;
use crate::support::stream_client::{Client, code};
use crate::support::wait_until;
use streamproto::command::{Create, Property, Publish, PublishedMessage};
use streamproto::{Entry, Key, List, ResponseCode};

/// Messages of a stream, two to a segment.
const N: u64 = 20;
const BODY: [u8; 9_000] = [b'z'; 9_000];
const SEGMENT_BYTES: &str = "10000";

/// Makes a stream with messages; each is a chunk.
fn fill(client: &mut Client, stream: &str, more: &[(&str, &str)]) {
    let segment = [("stream-max-segment-size-bytes", SEGMENT_BYTES)];
    let arguments = segment.iter().chain(more).map(|&(key, value)| Property { key, value });
    let arguments: Vec<_> = arguments.collect();
    client.says(&Create { correlation_id: 5, stream, arguments: List::of(&arguments) });
    assert_eq!(client.hears(), code(Key::Create, 5, ResponseCode::OK));
    client.declare_publisher(1, stream);
    add(client, N);
    client.says(&streamproto::command::DeletePublisher { correlation_id: 8, publisher_id: 1 });
    assert_eq!(client.hears(), code(Key::DeletePublisher, 8, ResponseCode::OK));
}

fn add(client: &mut Client, n: u64) {
    for publishing_id in 1..=n {
        let messages = [PublishedMessage { publishing_id, entry: Entry::Message(&BODY) }];
        client.says(&Publish { publisher_id: 1, messages: List::of(&messages) });
        assert!(client.hears().contains("PublishConfirm"));
    }
}

/// Messages of each stream, by its name.
fn kept(node: &Node) -> Vec<(String, u64)> {
    let listed = node.ctl(&["list_queues", "-s", "name", "messages"]);
    let row = |line: &str| {
        let (name, n) = line.split_once('\t').unwrap();
        (name.to_owned(), n.parse().unwrap())
    };
    listed.lines().map(row).collect()
}

fn wait_for_less(node: &Node, stream: &str) {
    wait_until(&format!("{stream} keeps less"), || {
        kept(node).iter().any(|(name, n)| name == stream && *n < N / 2)
    });
}

/// Sets a policy of that name, for the streams of that name.
type Way<'w> = dyn Fn(&str) + 'w;

#[test]
fn what_a_policy_does_not_keep_goes_though_nobody_publishes() {
    let api = Api::start();
    let node = &api.0;
    let mut client = Client::open(node.stream_address(), "/");
    let sized = r#"{"max-length-bytes": 40000}"#;
    let ways: [(&str, &Way<'_>); 5] = [
        ("by ctl", &|it| drop(node.ctl(&["set_policy", it, it, sized, "--apply-to", "streams"]))),
        ("by an operator's policy", &|it| {
            node.ctl(&["set_operator_policy", it, it, sized, "--apply-to", "queues"]);
        }),
        ("by HTTP", &|it| {
            let policy = format!(r#"{{"pattern": "{it}", "definition": {sized}}}"#);
            api.expect(201, &format!("PUT /policies/%2F/{}", it.replace(' ', "%20")), &policy);
        }),
        ("by import", &|it| {
            let policy = format!(r#""vhost": "/", "name": "{it}", "pattern": "{it}""#);
            let policy = format!(r#"{{{policy}, "definition": {sized}, "apply-to": "all"}}"#);
            api.expect(204, "POST /definitions", &format!(r#"{{"policies": [{policy}]}}"#));
        }),
        ("by age", &|it| drop(node.ctl(&["set_policy", it, it, r#"{"max-age": "1s"}"#]))),
    ];
    fill(&mut client, "untouched", &[]);
    for (way, change) in ways {
        fill(&mut client, way, &[]);
        change(way);
        wait_for_less(node, way);
    }
    assert!(kept(node).contains(&("untouched".to_owned(), N)));
    api.0.stop();
}

#[test]
fn messages_grow_too_old_though_nobody_publishes() {
    let mut node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    fill(&mut client, "old", &[("max-age", "1s")]);
    wait_for_less(&node, "old");
    let left = kept(&node);
    assert!(left[0].1 > 0, "the last segment stays: {left:?}");
    // Also what a node finds at its start.
    node.ctl(&["set_policy", "p", ".*", r#"{"max-age": "1Y"}"#]);
    fill(&mut client, "found", &[]);
    node.ctl(&["set_policy", "p", ".*", r#"{"max-age": "2s"}"#]);
    drop(client);
    node.kill_and_start();
    wait_for_less(&node, "found");
    node.stop();
}

#[test]
fn a_policy_that_is_gone_takes_nothing_more() {
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    fill(&mut client, "s", &[]);
    node.ctl(&["set_policy", "p", "s", r#"{"max-length-bytes": 40000}"#]);
    wait_for_less(&node, "s");
    node.ctl(&["clear_policy", "p"]);
    let before = kept(&node)[0].1;
    client.declare_publisher(1, "s");
    add(&mut client, N);
    assert_eq!(kept(&node), [("s".to_owned(), before + N)]);
    node.stop();
}

#[test]
fn a_policy_of_many_streams_works_on_each() {
    const N_STREAMS: usize = 100;
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    for n in 0..N_STREAMS {
        fill(&mut client, &format!("s{n}"), &[]);
    }
    node.ctl(&["set_policy", "p", ".*", r#"{"max-length-bytes": 40000}"#]);
    wait_until("each keeps less", || {
        let kept = kept(&node);
        assert_eq!(kept.len(), N_STREAMS);
        kept.iter().all(|(_, n)| *n < N / 2)
    });
    node.stop();
}
