//! Clusters of several processes: what they share, and what is left when some of them are killed.

mod forming;
mod listings;
mod member;
mod remote_queues;

use crate::support::{bystander, wait_until};
use amqp091::method::QueueDeclare;
use member::{Member, exchange, exclusive};
use std::net::TcpStream;
use std::process::Stdio;

/// Three nodes of one cluster; each has joined by the one before.
fn three(settings: &'static [&'static str]) -> [Member; 3] {
    let nodes = [1, 2, 3].map(|n| Member::start_with(n, "SECRET", settings));
    let [first, second, third] = &nodes;
    second.join(first);
    third.join(second);
    await_all(&nodes);
    nodes
}

/// Waits until each node sees all of them run.
fn await_all(nodes: &[Member]) {
    let all: Vec<_> = nodes.iter().map(|it| it.name.clone()).collect();
    for node in nodes {
        wait_until("all members run", || node.members() == all && node.running() == all);
    }
}

#[test]
fn definitions_of_one_node_are_those_of_all() {
    let [a, b, c] = three(&[]);
    a.client().ask(1, exchange("news"));
    assert!(c.list(&["list_exchanges", "name"]).contains(&"news".to_owned()));
    a.done(&["add_vhost", "hutch"]);
    a.done(&["add_user", "hare", "hare"]);
    a.done(&["set_permissions", "-p", "hutch", "hare", ".*", ".*", ".*"]);
    a.done(&["set_policy", "-p", "hutch", "short", ".*", r#"{"max-length":1}"#]);
    let mut hare = c.client_of("hare", "hutch");
    hare.declare("burrow");
    hare.put_publish("burrow", true, b"first");
    hare.put_publish("burrow", true, b"second");
    assert_eq!(hare.get("burrow").unwrap().body, b"second", "the policy holds");
    let policies = b.list(&["list_policies", "-p", "hutch"]);
    assert!(policies.iter().any(|it| it.contains("short")), "{policies:?}");
}

/// Waits until a node knows no queue of that name.
fn await_gone(node: &Member, queue: &str) {
    let names = || node.list(&["list_queues", "name"]);
    wait_until(&format!("{queue} is gone"), || !names().iter().any(|it| it == queue));
}

#[test]
fn an_exclusive_queue_is_locked_on_all_nodes_until_its_connection_or_node_ends() {
    let [mut a, b, c] = three(&[]);
    let mut owner = a.client();
    assert_eq!(owner.ask(1, exclusive("own")), "queue.declare-ok");
    let told = b.client().ask(1, exclusive("own"));
    let text = "channel.close 405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'own' in \
                vhost '/'";
    assert!(told.starts_with(text), "{told}");
    owner.close();
    await_gone(&b, "own");
    let mut owner = a.client();
    assert_eq!(owner.ask(1, exclusive("own")), "queue.declare-ok");
    a.kill();
    a.start_again();
    [&a, &b, &c].into_iter().for_each(|node| await_gone(node, "own"));
    assert_eq!(b.client().ask(1, exclusive("own")), "queue.declare-ok");
}

/// Declares a durable queue and publishes a message to it, which is confirmed.
fn keep(node: &Member, queue: &str) {
    node.client().declare(queue);
    keep_in(node, queue);
}

/// As [`keep`], of a queue that is there.
fn keep_in(node: &Member, queue: &str) {
    let mut client = node.client();
    client.select_confirms();
    client.put_publish(queue, true, queue.as_bytes());
    client.wait_for_confirms();
    client.close();
}

/// The message of [`keep`] is there.
fn expect_kept(node: &Member, queue: &str) {
    let message = node.client().get(queue).expect("the message");
    assert_eq!(message.body, queue.as_bytes());
}

#[test]
fn another_node_leads_once_the_first_one_is_killed() {
    // A change that takes longer is refused.
    let [mut a, b, c] = three(&["metadata_store.khepri.default_timeout=5000"]);
    keep(&a, "kept");
    a.kill();
    assert_eq!(b.client().ask(1, exchange("meanwhile")), "exchange.declare-ok");
    c.client().declare("at c");
    a.start_again();
    assert!(a.list(&["list_exchanges", "name"]).contains(&"meanwhile".to_owned()));
    assert_eq!(a.list(&["list_queues", "name"]), ["at c", "kept"]);
    expect_kept(&a, "kept");
    await_all(&[a, b, c]);
}

#[test]
fn a_minority_changes_nothing_and_serves_its_queues() {
    let [mut a, mut b, c] = three(&["metadata_store.khepri.default_timeout=2000"]);
    c.client().declare("near");
    a.kill();
    b.kill();
    let told = c
        .client()
        .ask(1, QueueDeclare { queue: b"late", durable: true, ..QueueDeclare::default() });
    let text = format!(
        "connection.close 541 INTERNAL_ERROR - Could not declare queue 'late' in vhost '/' on node '{}' \
         because the metadata store operation timed out",
        c.name
    );
    assert_eq!(told, text);
    keep(&c, "near");
    expect_kept(&c, "near");
    a.begin();
    b.begin();
    a.await_ready();
    b.await_ready();
    c.client().declare("on");
    assert!(a.list(&["list_queues", "name"]).contains(&"on".to_owned()));
}

#[test]
fn all_is_there_when_all_nodes_are_killed_and_start_in_another_order() {
    let mut nodes = three(&[]);
    nodes.iter().zip(["at a", "at b", "at c"]).for_each(|(node, queue)| keep(node, queue));
    nodes[1].done(&["add_vhost", "hutch"]);
    nodes.iter_mut().for_each(Member::kill);
    nodes.iter_mut().rev().for_each(Member::begin);
    nodes.iter_mut().for_each(Member::await_ready);
    for (node, queue) in nodes.iter().zip(["at a", "at b", "at c"]) {
        assert_eq!(node.list(&["list_queues", "name"]), ["at a", "at b", "at c"]);
        assert!(node.list(&["list_vhosts", "name"]).contains(&"hutch".to_owned()));
        expect_kept(node, queue);
    }
    await_all(&nodes);
}

#[test]
fn a_member_that_is_reset_is_fresh_and_joins_again() {
    let nodes = three(&[]);
    let [a, b, c] = &nodes;
    a.done(&["add_vhost", "hutch"]);
    c.done(&["reset"]);
    for node in [a, b] {
        wait_until("the node has left", || node.members().len() == 2);
    }
    assert!(!c.list(&["list_vhosts", "name"]).contains(&"hutch".to_owned()));
    assert!(!c.done(&["cluster_status"]).contains(&a.name));
    c.join(b);
    assert!(c.list(&["list_vhosts", "name"]).contains(&"hutch".to_owned()));
    // The node that leads leaves as well.
    a.done(&["reset"]);
    wait_until("the node has left", || b.members().len() == 2);
    a.join(b);
    b.done(&["add_vhost", "warren"]);
    assert!(a.list(&["list_vhosts", "name"]).contains(&"warren".to_owned()));
    await_all(&nodes);
}

#[test]
fn a_node_that_was_forgotten_is_refused() {
    let [a, mut b, c] = three(&[]);
    b.kill();
    a.done(&["forget_cluster_node", &b.name]);
    assert_eq!(c.members().len(), 2);
    b.begin();
    wait_until("it is told", || b.log().contains("was removed from the cluster of"));
    let told = b.refused(&["add_vhost", "hutch"]);
    assert!(told.contains("this node waits for a majority of its cluster"), "{told}");
    b.done(&["force_reset"]);
    b.join(&c);
    await_all(&[a, b, c]);
}

#[test]
fn a_member_that_waits_for_a_majority_is_operated_and_serves_nobody() {
    let [mut a, mut b, mut c] = three(&[]);
    [&mut a, &mut b, &mut c].into_iter().for_each(Member::kill);
    c.begin();
    wait_until("it waits", || c.log().contains("waiting for a majority of the cluster"));
    assert_eq!(c.running(), [c.name.as_str()]);
    assert!(c.done(&["status"]).contains(&c.name));
    let told = c.refused(&["list_queues"]);
    let text =
        format!("this node waits for a majority of its cluster: {}, {} are down", a.name, b.name);
    assert!(told.contains(&text), "{told}");
    assert!(TcpStream::connect(c.address()).is_err());
    a.begin();
    a.await_ready();
    c.await_ready();
    c.client().declare("on");
}

#[test]
fn the_last_member_goes_on_without_the_others_if_it_is_told_to() {
    let [mut a, mut b, mut c] = three(&[]);
    [(&a, "at a"), (&c, "at c")].into_iter().for_each(|(node, queue)| keep(node, queue));
    let told = c.refused(&["force_boot", "--discard-others"]);
    assert!(told.contains("a majority of the cluster runs"), "{told}");
    [&mut a, &mut b, &mut c].into_iter().for_each(Member::kill);
    c.begin();
    wait_until("it answers", || c.ctl(&["status"]).is_ok());
    let told = c.refused(&["force_boot"]);
    assert!(told.contains("confirm it with --discard-others"), "{told}");
    c.done(&["force_boot", "--discard-others"]);
    assert_eq!(c.members(), [c.name.as_str()]);
    assert_eq!(c.list(&["list_queues", "name"]), ["at c"]);
    expect_kept(&c, "at c");
    c.client().ask(1, exchange("alone"));
    c.kill();
    c.start_again();
    assert!(c.list(&["list_exchanges", "name"]).contains(&"alone".to_owned()));
    a.begin();
    wait_until("it is refused", || a.log().contains("was left behind when"));
    a.done(&["force_reset"]);
    a.join(&c);
    c.client().declare("together");
    assert!(a.list(&["list_queues", "name"]).contains(&"together".to_owned()));
    await_all(&[a, c]);
}

#[test]
fn a_member_that_is_killed_while_it_goes_on_alone_does_so_by_the_same_command() {
    for n_polls in (0..6).map(|n| n * 5) {
        let [mut a, mut b, mut c] = three(&[]);
        keep(&c, "kept");
        [&mut a, &mut b, &mut c].into_iter().for_each(Member::kill);
        c.begin();
        wait_until("it answers", || c.ctl(&["status"]).is_ok());
        let mut forcing = c.ctl_command(&["force_boot", "--discard-others"]);
        let mut forcing = forcing.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..n_polls {
            bystander::pause();
        }
        c.kill();
        forcing.kill().unwrap();
        forcing.wait().unwrap();
        c.begin();
        let is_ready = || c.ctl(&["await_startup", "--timeout", "1"]).is_ok();
        wait_until("it is alone", || {
            is_ready() || c.ctl(&["force_boot", "--discard-others"]).is_ok()
        });
        assert_eq!(c.members(), [c.name.as_str()], "after {n_polls} polls");
        expect_kept(&c, "kept");
    }
}

#[test]
fn a_member_serves_without_a_majority_if_it_is_to() {
    let mut nodes =
        three(&["cluster.serve_without_quorum=true", "metadata_store.khepri.default_timeout=1000"]);
    keep(&nodes[2], "near");
    nodes.iter_mut().for_each(Member::kill);
    nodes[2].start_again();
    expect_kept(&nodes[2], "near");
    keep_in(&nodes[2], "near");
    expect_kept(&nodes[2], "near");
    assert!(nodes[2].log().contains("serving without a majority of the cluster"));
    nodes[..2].iter_mut().for_each(Member::start_again);
    await_all(&nodes);
    nodes[2].client().declare("later");
}

#[test]
fn a_node_that_is_killed_while_it_joins_joins_by_the_same_command() {
    let (a, mut b) = (Member::start(1), Member::start(2));
    let both = [&a, &b].map(|node| node.name.clone());
    for n_polls in (0..8).map(|n| n * 12) {
        let mut joining = b.ctl_command(&["join_cluster", &a.contact()]);
        let mut joining = joining.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut n_polled = 0;
        while joining.try_wait().unwrap().is_none() && n_polled < n_polls {
            bystander::pause();
            n_polled += 1;
        }
        b.kill();
        joining.kill().unwrap();
        joining.wait().unwrap();
        b.start_again();
        // The other one leads again only when it hears this one, which it may have given a vote.
        wait_until("the node to join", || b.ctl(&["join_cluster", &a.contact()]).is_ok());
        for node in [&a, &b] {
            wait_until("the members to be told", || node.members() == both);
        }
        wait_until("the node to leave", || b.ctl(&["reset"]).is_ok());
        assert_eq!(a.members(), both[..1], "after {n_polls} polls");
    }
}

#[test]
fn a_node_with_another_cookie_does_not_join() {
    let (a, b) = (Member::start(1), Member::start_with(2, "OTHER", &[]));
    let told = b.refused(&["join_cluster", &a.contact()]);
    assert!(told.contains("cookie"), "{told}");
    // The listeners that were closed for it are open again.
    wait_until("clients connect", || TcpStream::connect(b.address()).is_ok());
    b.client().declare("still alone");
}

#[test]
fn a_node_with_messages_joins_by_force_only() {
    let (a, b) = (Member::start(1), Member::start(2));
    keep(&b, "kept");
    let told = b.refused(&["join_cluster", &a.contact()]);
    assert!(told.contains("durable queues of this node hold messages"), "{told}");
    wait_until("clients connect", || TcpStream::connect(b.address()).is_ok());
    expect_kept(&b, "kept");
    keep(&b, "kept");
    b.done(&["join_cluster", "--force", &a.contact()]);
    assert_eq!(b.list(&["list_queues", "name"]), [""; 0]);
    await_all(&[a, b]);
}

#[test]
fn a_member_that_starts_again_and_again_without_a_majority_keeps_its_queues() {
    let mut nodes = three(&[]);
    keep(&nodes[2], "kept");
    nodes.iter_mut().for_each(Member::kill);
    for _ in 0..3 {
        nodes[2].begin();
        wait_until("it answers", || nodes[2].ctl(&["status"]).is_ok());
        nodes[2].kill();
    }
    nodes.iter_mut().for_each(Member::begin);
    nodes.iter_mut().for_each(Member::await_ready);
    expect_kept(&nodes[2], "kept");
}

#[test]
fn the_only_member_that_is_left_starts_again() {
    let (mut a, b) = (Member::start(1), Member::start(2));
    b.join(&a);
    b.done(&["reset"]);
    wait_until("the node has left", || a.members().len() == 1);
    a.kill();
    a.start_again();
    a.client().declare("on");
}
