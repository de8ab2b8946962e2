//! Lists of a cluster: each node shows what all have, and which of them did not answer.

use super::member::Member;
use super::three;
use crate::http_api::{Answer, HTTP, ask};
use crate::support::wait_until;
use amqp091::method::BasicConsume;
use serde_json::Value;
use std::net::SocketAddr;
use std::process::Output;
use std::time::{Duration, Instant};
use testing::client::Client;

/// A list answers in less, whatever the other nodes do.
const ANSWER_MAX: Duration = Duration::from_millis(2_500);
const QUEUES: [&str; 3] = ["at 1", "at 2", "at 3"];

/// A queue on each node, with one message more than on the node before, and a consumer of each that takes
/// nothing; the connections are those of the consumers.
fn populate(nodes: &[Member; 3]) -> Vec<Client> {
    let populate = |(n, (node, queue)): (usize, (&Member, &str))| {
        let mut client = node.client();
        client.declare(queue);
        client.select_confirms();
        (0..=n).for_each(|_| client.put_publish(queue, true, b"message"));
        client.wait_for_confirms();
        let consume = BasicConsume { queue: b"idle", ..BasicConsume::default() };
        let idle = format!("idle {queue}");
        client.declare(&idle);
        assert_eq!(
            client.ask(1, BasicConsume { queue: idle.as_bytes(), ..consume }),
            "basic.consume-ok"
        );
        client
    };
    nodes.iter().zip(QUEUES).enumerate().map(populate).collect()
}

/// The address of a node's HTTP API.
fn http(node: &Member) -> SocketAddr {
    let told = node.done(&["listeners", "--formatter", "json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let mut listeners = told["listeners"].as_array().unwrap().iter();
    let http = listeners.find(|it| it["protocol"] == "http").unwrap();
    let port = u16::try_from(http["port"].as_u64().unwrap()).unwrap();
    (std::net::Ipv4Addr::LOCALHOST, port).into()
}

fn get(node: &Member, path: &str) -> Answer {
    let answer = ask(http(node), "guest:guest", &format!("GET {path}"), "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    answer
}

/// The texts of a column.
fn column(list: &Value, path: &str) -> Vec<String> {
    let text = |row: &Value| row.pointer(path).and_then(Value::as_str).unwrap_or("-").to_owned();
    list.as_array().unwrap().iter().map(text).collect()
}

fn names(nodes: &[Member; 3]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

#[test]
fn the_tool_lists_what_all_nodes_have() {
    let nodes = three(&[]);
    let clients = populate(&nodes);
    let first = &nodes[0];
    for verb in [
        &["list_queues", "name", "messages", "pid", "state"][..],
        &["list_connections", "name", "pid"],
        &["list_channels", "name", "pid"],
        &["list_consumers"],
    ] {
        let lines = first.list(verb);
        for node in &nodes {
            assert_eq!(node.list(verb), lines, "{verb:?}");
            assert!(lines.iter().any(|line| line.contains(&*node.name)), "{verb:?}: {lines:?}");
        }
    }
    assert_eq!(first.list(&["list_connections", "name"]).len(), clients.len());
    let counted = ["at 1\t1\trunning", "at 2\t2\trunning", "at 3\t3\trunning"];
    let listed = nodes[2].list(&["list_queues", "name", "messages", "state"]);
    assert_eq!(listed[..3], counted);
    assert_eq!(nodes[1].list(&["list_queues", "--local", "name"]), ["at 2", "idle at 2"]);
    for verb in ["list_connections", "list_channels", "list_consumers"] {
        let own = nodes[1].list(&[verb, "--local"]);
        assert_eq!(own.len(), 1, "{verb}: {own:?}");
    }
    assert_eq!(first.list(&["list_queues", "--online", "name"]).len(), 6);
    assert_eq!(first.list(&["list_queues", "--offline", "name"]), [""; 0]);
}

#[test]
fn the_api_lists_what_all_nodes_have_in_one_order() {
    let nodes = three(&HTTP);
    let _clients = populate(&nodes);
    for node in &nodes {
        let queues = get(node, "/queues/%2F?columns=name,node,messages").body;
        let idle = QUEUES.map(|it| format!("idle {it}"));
        let all: Vec<&str> = QUEUES.into_iter().chain(idle.iter().map(String::as_str)).collect();
        assert_eq!(column(&queues, "/name"), all);
        assert_eq!(column(&queues, "/node"), [names(&nodes), names(&nodes)].concat());
        let page =
            "/queues?page=2&page_size=2&sort=messages&sort_reverse=true&columns=name&name=at";
        let page = get(node, page).body;
        assert_eq!(column(&page["items"], "/name"), ["at 1", "idle at 1"]);
        let counts = ["total_count", "filtered_count", "item_count", "page_count"];
        assert_eq!(counts.map(|it| page[it].as_u64().unwrap()), [6, 6, 2, 3]);
        let few = get(node, "/queues?page=1&columns=node&where=messages%3E1").body;
        assert_eq!(column(&few["items"], "/node"), names(&nodes)[1..]);
        for path in ["/connections", "/channels", "/stream/connections"] {
            let rows = get(node, path).body;
            let of_each = if path.starts_with("/stream") { Vec::new() } else { names(&nodes) };
            assert_eq!(column(&rows, "/node"), of_each, "{path}");
        }
        let consumers = get(node, "/consumers").body;
        assert_eq!(column(&consumers, "/channel_details/node"), names(&nodes));
        let own = get(node, "/connections?local=true").body;
        assert_eq!(column(&own, "/node"), [&*node.name]);
    }
    for (node, other) in [(0, 2), (2, 1), (1, 0)] {
        let [node, of] = [node, other].map(|it| &nodes[it]);
        let queue = get(node, &format!("/queues/%2F/at%20{}", other + 1)).body;
        assert_eq!(
            (queue["node"].as_str(), queue["messages"].as_u64()),
            (Some(&*of.name), Some(other as u64 + 1))
        );
        let name = column(&get(of, "/connections?local=true").body, "/name").remove(0);
        let name = name.replace(' ', "%20").replace('>', "%3E");
        let connection = get(node, &format!("/connections/{name}")).body;
        assert_eq!(connection["node"].as_str(), Some(&*of.name));
        let channels = get(node, &format!("/connections/{name}/channels")).body;
        assert_eq!(column(&channels, "/node"), [&*of.name]);
    }
    for node in &nodes {
        let members = get(node, "/nodes").body;
        assert_eq!(column(&members, "/name"), names(&nodes));
        assert!(members.as_array().unwrap().iter().all(|it| it["mem_used"].is_u64()), "{members}");
        let last = get(node, &format!("/nodes/{}", nodes[2].name)).body;
        assert!(last["mem_used"].is_u64(), "{last}");
        let overview = get(node, "/overview").body;
        let totals = &overview["object_totals"];
        let counts = ["connections", "channels", "consumers", "queues"];
        assert_eq!(counts.map(|it| totals[it].as_u64().unwrap()), [3, 3, 3, 6]);
        let listeners = column(&overview["listeners"], "/node");
        assert!(names(&nodes).iter().all(|name| listeners.contains(name)), "{listeners:?}");
    }
    wait_until("the figures are looked at", || {
        get(&nodes[0], "/overview").body["queue_totals"]["messages"] == 6
    });
    let missing = ask(http(&nodes[0]), "guest:guest", "GET /connections/none", "");
    assert_eq!(missing.status, 404);
}

#[test]
fn a_user_sees_on_each_node_what_the_user_may_see() {
    let nodes = three(&HTTP);
    let [a, b, c] = &nodes;
    a.done(&["add_vhost", "hutch"]);
    a.done(&["add_user", "hare", "hare"]);
    a.done(&["set_user_tags", "hare", "management"]);
    a.done(&["set_permissions", "-p", "hutch", "hare", ".*", ".*", ".*"]);
    let _guest = populate(&nodes);
    let mut hare = b.client_of("hare", "hutch");
    hare.declare("burrow");
    let ask = |path: &str| ask(http(c), "hare:hare", &format!("GET {path}"), "");
    assert_eq!(column(&ask("/queues").body, "/name"), ["burrow"]);
    assert_eq!(column(&ask("/connections").body, "/user"), ["hare"]);
    assert_eq!(column(&ask("/connections").body, "/node"), [&*b.name]);
    assert_eq!(ask("/queues/%2F/at%201").status, 401);
    assert_eq!(ask("/queues/hutch/burrow").body["state"], "running");
}

/// The tool's list, and its warnings.
fn listed(node: &Member, args: &[&str]) -> (String, String) {
    let began = Instant::now();
    let Output { stdout, stderr, .. } = node.ctl_command(args).output().unwrap();
    let took = began.elapsed();
    assert!(took < ANSWER_MAX, "{args:?} took {took:?}");
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn expect_missing(node: &Member, missing: &Member) {
    let name = &*missing.name;
    let (queues, warning) =
        listed(node, &["list_queues", "name", "state", "messages", "pid", "-q"]);
    let down = format!("at 3\tdown\t\t<{name}.");
    assert!(queues.contains("at 1\trunning\t1\t") && queues.contains(&down), "{queues}");
    assert!(warning.contains(&format!("Warning: node {name} did not answer")), "{warning}");
    let (connections, warning) = listed(node, &["list_connections", "pid", "-q"]);
    assert!(connections.contains(&*node.name) && !connections.contains(name), "{connections}");
    assert!(warning.contains(name), "{warning}");
    let (queues, _) =
        listed(node, &["list_queues", "--offline", "name", "-q", "--no-table-headers"]);
    assert_eq!(queues.lines().collect::<Vec<_>>(), ["at 3", "idle at 3"]);
}

#[test]
fn lists_wait_for_no_node_that_is_killed_or_stands_still() {
    let mut nodes = three(&HTTP);
    let _clients = populate(&nodes);
    let [a, b, c] = &mut nodes;
    c.freeze();
    for node in [&*a, b] {
        expect_missing(node, c);
    }
    c.kill();
    for node in [&*a, b] {
        expect_missing(node, c);
        let answer = get(node, "/queues");
        assert!(
            answer.head.contains(&format!("leveret-unanswered: {}\r\n", c.name)),
            "{}",
            answer.head
        );
        assert_eq!(get(node, "/queues/%2F/at%203").body["state"], "down");
    }
}

#[test]
fn a_node_is_critical_once_the_others_are_no_majority() {
    let mut nodes = three(&HTTP);
    let [a, b, c] = &mut nodes;
    let health = "/health/checks/node-is-quorum-critical";
    for node in [&*a, b, c] {
        let told = node.done(&["check_if_node_is_quorum_critical", "-q"]);
        assert!(told.contains("reported no quorum queues with minimum quorum"), "{told}");
        node.done(&["await_online_quorum_plus_one"]);
        assert_eq!(get(node, health).body["status"], "ok");
    }
    c.kill();
    wait_until("the node is missed", || !a.running().contains(&c.name));
    let told = a.refused(&["check_if_node_is_quorum_critical", "-q"]);
    assert!(told.contains("rabbitmq_metadata would lose quorum if node"), "{told}");
    let failed = ask(http(a), "guest:guest", &format!("GET {health}"), "");
    assert_eq!(
        (failed.status, &failed.body["queues"][0]["name"]),
        (503, &"rabbitmq_metadata".into())
    );
    assert!(a.refused(&["await_online_quorum_plus_one", "-t", "1"]).contains("time is up"));
    c.start_again();
    a.done(&["await_online_quorum_plus_one"]);
}
