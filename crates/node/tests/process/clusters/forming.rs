//! Fresh nodes that form a cluster by themselves.

use super::member::{Member, exchange};
use super::{await_all, wait_until};
use crate::support::bystander;
use std::net::TcpStream;

const QUICK: &[&str] = &[
    "cluster_formation.discovery_retry_interval=100",
    "cluster_formation.target_cluster_size_hint=3",
];

/// All nodes are members of one cluster, and share definitions.
fn expect_one(nodes: &mut [Member]) {
    nodes.iter_mut().for_each(Member::await_ready);
    await_all(nodes);
    for node in &*nodes {
        let name = format!("of {}", node.name);
        node.client().ask(1, exchange(&name));
        for other in &*nodes {
            assert!(other.list(&["list_exchanges", "name"]).contains(&name), "{}", other.name);
        }
    }
}

#[test]
fn fresh_nodes_form_one_cluster_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut nodes = Member::three_fresh(QUICK);
        order.into_iter().for_each(|at| nodes[at].begin());
        expect_one(&mut nodes);
        nodes[0].done(&["has_reached_target_cluster_size"]);
        let peers = nodes[0].done(&["discover_peers"]);
        assert!(nodes.iter().all(|node| peers.contains(&node.name)), "{peers}");
        // Members ignore the names.
        nodes.iter_mut().for_each(Member::kill);
        nodes.iter_mut().for_each(Member::begin);
        expect_one(&mut nodes);
    }
}

#[test]
fn a_node_that_finds_itself_alone_in_dns_is_a_cluster() {
    let node = Member::start_with(
        1,
        "SECRET",
        &[
            "cluster_formation.peer_discovery_backend=rabbit_peer_discovery_dns",
            "cluster_formation.dns.hostname=127.0.0.1",
            "cluster_formation.discovery_retry_interval=100",
        ],
    );
    assert!(node.log().contains("it forms a cluster of rabbit1@127.0.0.1, the nodes at 127.0.0.1"));
    assert_eq!(node.members(), [node.name.as_str()]);
    node.client().declare("on");
}

#[test]
fn a_node_that_is_killed_while_a_cluster_forms_is_one_of_it() {
    for n_polls in (0..9).map(|n| n * 6) {
        let mut nodes = Member::three_fresh(QUICK);
        nodes.iter_mut().for_each(Member::begin);
        for _ in 0..n_polls {
            bystander::pause();
        }
        let killed = &mut nodes[n_polls / 6 % 3];
        killed.kill();
        killed.begin();
        expect_one(&mut nodes);
    }
}

#[test]
fn a_minority_waits_and_tells_for_whom() {
    let mut nodes = Member::three_fresh(QUICK);
    nodes[2].begin();
    let told = format!(
        "waiting for 2 of 3 nodes to form a cluster; no answer from {}, {}",
        nodes[0].name, nodes[1].name
    );
    wait_until("it tells for whom it waits", || nodes[2].log().contains(&told));
    // The control socket is there, clients are not let in.
    assert!(nodes[2].done(&["status"]).contains(&nodes[2].name));
    let told = nodes[2].refused(&["list_vhosts"]);
    assert!(told.contains("this node waits for others to form a cluster"), "{told}");
    assert!(TcpStream::connect(nodes[2].address()).is_err());
    nodes[1].begin();
    nodes[1..].iter_mut().for_each(Member::await_ready);
    await_all(&nodes[1..]);
    nodes[0].begin();
    expect_one(&mut nodes);
}
