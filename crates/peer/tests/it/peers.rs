//! The set of peers: who is refused, who dials, and which connection takes the place of which.

use crate::handshakes::hello;
use log::{ClusterId, NodeNumber};
use peer::{
    ConnectionKind, ConnectionNumber, HandshakeRole, PeerAddress, PeerDial, PeerEstablished,
    PeerHello, PeerRefusalReason, PeerSet,
};
use stdx::MonotonicMs;

const START: MonotonicMs = MonotonicMs::from_raw(1_000);

fn address(node: u16) -> PeerAddress {
    PeerAddress { host: format!("host{node}"), port: 25_672 }
}

/// The set of node 2 in a cluster of nodes 1 to 4, of which 4 has been removed.
fn set() -> PeerSet {
    let mut set = PeerSet::new(hello(2, 7, 0).identity);
    for node in 1..=4 {
        set.set_member((NodeNumber(node), 5), &format!("rabbit@{node}"), address(node), START);
    }
    assert_eq!(set.forget(NodeNumber(4)), []);
    set
}

fn established(hello: PeerHello) -> PeerEstablished {
    let is_higher = hello.identity.number > NodeNumber(2);
    let role = if is_higher { HandshakeRole::Dialler } else { HandshakeRole::Acceptor };
    PeerEstablished { peer: hello, role, version: 1, level: 3 }
}

fn of_kind(node: u16, boot: u32, kind: ConnectionKind) -> PeerHello {
    PeerHello { kind, ..hello(node, boot, 9) }
}

#[test]
fn refusals_name_both_nodes_and_say_what_to_do() {
    let changed = |node, change: fn(&mut PeerHello)| {
        let mut hello = hello(node, 5, 1);
        change(&mut hello);
        hello
    };
    let cases = [
        (
            changed(1, |it| it.identity.cluster = ClusterId(1)),
            "forget_cluster_node rabbit@1",
            "reset",
        ),
        (
            changed(1, |it| it.identity.number = NodeNumber(0)),
            "forget_cluster_node rabbit@1",
            "reset",
        ),
        (
            changed(9, |it| it.identity.cluster = ClusterId(1)),
            "join it to the other",
            "other_cluster",
        ),
        (changed(1, |it| it.identity.epoch = 0), "reset rabbit@1", "other_epoch"),
        (changed(1, |it| it.identity.epoch = 2), "reset rabbit@2", "other_epoch"),
        (hello(4, 5, 1), "removed from the cluster", "forgotten"),
        (hello(9, 5, 1), "join_cluster rabbit@2", "not_member"),
        (changed(9, |it| it.identity.name = "rabbit@1".to_owned()), "another name", "same_name"),
        (changed(1, |it| it.identity.name = "rabbit@2".to_owned()), "another name", "same_name"),
        (hello(2, 9, 1), "is a copy", "same_name"),
        (hello(1, 4, 1), "an older process still runs", "older_boot"),
        (hello(3, 5, 1), "lower number dials", "wrong_dialler"),
    ];
    for (hello, says, reason) in cases {
        let refusal = set().judge(&hello, None).expect_err(reason);
        assert_eq!(refusal.reason.as_str(), reason, "{refusal}");
        assert!(refusal.text.contains(says), "{refusal}");
        assert!(
            refusal.text.contains("rabbit@2") && refusal.text.contains(&hello.identity.name),
            "{refusal}"
        );
    }
    let dialled = Some(NodeNumber(3));
    assert_eq!(set().judge(&hello(3, 5, 1), dialled), Ok(()));
    assert_eq!(set().judge(&hello(1, 5, 1), None), Ok(()));
    let other = set().judge(&hello(1, 5, 1), dialled).unwrap_err();
    assert_eq!(other.reason, PeerRefusalReason::OtherNode);
}

#[test]
fn a_tunnel_of_the_command_line_tool_needs_the_cookie_alone() {
    let mut tool = of_kind(0, 0, ConnectionKind::Ctl);
    tool.identity.cluster = ClusterId(0);
    let mut set = set();
    assert_eq!(set.judge(&tool, None), Ok(()));
    let admitted = set.admit(&established(tool), START).unwrap();
    assert_eq!(admitted.ended, []);
}

#[test]
fn a_newer_connection_replaces_those_of_its_kind_and_a_newer_life_all() {
    let mut set = set();
    let numbers = ConnectionKind::HELD
        .map(|kind| set.admit(&established(of_kind(1, 5, kind)), START).unwrap().number);
    let again = set.admit(&established(of_kind(1, 5, ConnectionKind::Raft)), START).unwrap();
    assert!(again.number > numbers[2]);
    assert_eq!(again.ended, [(ConnectionKind::Raft, numbers[1])]);
    let old = (ConnectionKind::Raft, numbers[1]);
    assert!(!set.closed(NodeNumber(1), old, START, 0), "another has taken its place");
    let newer = set.admit(&established(of_kind(1, 6, ConnectionKind::Raft)), START).unwrap();
    let [pulse, _, work] = numbers;
    let all = [
        (ConnectionKind::Pulse, pulse),
        (ConnectionKind::Raft, again.number),
        (ConnectionKind::Work, work),
    ];
    assert_eq!(newer.ended, all);
    let late = set.admit(&established(of_kind(1, 5, ConnectionKind::Work)), START).unwrap_err();
    assert_eq!(late.reason, PeerRefusalReason::OlderBoot);
    assert_eq!(set.forget(NodeNumber(1)), [(ConnectionKind::Raft, newer.number)]);
    let gone = set.admit(&established(of_kind(1, 6, ConnectionKind::Work)), START).unwrap_err();
    assert_eq!(gone.reason, PeerRefusalReason::Forgotten);
}

/// The attempts that are due.
fn dials(set: &mut PeerSet, now: MonotonicMs) -> Vec<PeerDial> {
    let mut dials = Vec::new();
    set.dials(now, &mut dials);
    dials
}

#[test]
fn the_lower_number_dials_each_kind_once() {
    let mut set = set();
    let due = dials(&mut set, START);
    assert_eq!(due.iter().map(|it| it.kind).collect::<Vec<_>>(), ConnectionKind::HELD);
    assert!(due.iter().all(|it| it.node == NodeNumber(3) && it.address == address(3)));
    assert_eq!(dials(&mut set, START.plus(100)), []);
    // An attempt of which the host tells nothing is made again, late.
    assert_eq!(dials(&mut set, due[0].deadline.plus(10_000)).len(), 3);
    for kind in ConnectionKind::HELD {
        assert!(set.admit(&established(of_kind(3, 5, kind)), START).is_ok());
    }
    assert_eq!(dials(&mut set, START.plus(1_000_000)), []);
    assert_eq!(set.dials(START, &mut Vec::new()), MonotonicMs::NEVER);
}

#[test]
fn attempts_are_made_at_once_then_less_and_less_often_with_the_newest_address() {
    let mut set = set();
    let raft = of_kind(3, 5, ConnectionKind::Raft);
    let mut now = START;
    let first =
        dials(&mut set, now).into_iter().find(|it| it.kind == ConnectionKind::Raft).unwrap();
    let number = set.admit(&established(raft.clone()), now).unwrap().number;
    set.dial_failed(&first, None, now, 0);
    now = now.plus(10_000);
    assert!(set.closed(NodeNumber(3), (ConnectionKind::Raft, number), now, 0));
    set.set_member((NodeNumber(3), 5), "rabbit@3", address(33), now);
    let mut waits = Vec::new();
    for attempt in 0..40_u64 {
        let mut due = Vec::new();
        let mut waited = 0;
        while due.is_empty() {
            due = dials(&mut set, now.plus(waited));
            due.retain(|it| it.kind == ConnectionKind::Raft);
            waited += 1;
        }
        now = now.plus(waited - 1);
        waits.push(waited - 1);
        assert_eq!(due[0].address, address(33));
        set.dial_failed(&due[0], None, now, attempt * 0x9e37_79b9);
    }
    assert_eq!(waits[0], 0, "a connection that has lasted is made again at once");
    assert!((10..=20).contains(&waits[1]) && waits[1..4].iter().sum::<u64>() < 150, "{waits:?}");
    assert!(waits[20..].iter().all(|wait| (1_500..=3_000).contains(wait)), "{waits:?}");
    assert!(waits[20..].windows(2).any(|two| two[0] != two[1]), "{waits:?}");
}

#[test]
fn refused_attempts_and_connections_that_do_not_last_are_not_made_again_at_once() {
    let mut set = set();
    let due = dials(&mut set, START);
    set.dial_failed(&due[1], Some(PeerRefusalReason::NoCommonLevel), START, 0);
    assert!(!dials(&mut set, START.plus(4_999)).iter().any(|it| it.kind == ConnectionKind::Raft));
    assert!(dials(&mut set, START.plus(5_000)).iter().any(|it| it.kind == ConnectionKind::Raft));
    let ConnectionNumber(first) =
        set.admit(&established(of_kind(3, 5, ConnectionKind::Work)), START).unwrap().number;
    for n in 0..10 {
        let work = (ConnectionKind::Work, ConnectionNumber(first + n));
        assert!(set.closed(NodeNumber(3), work, START, 0));
        set.admit(&established(of_kind(3, 5, ConnectionKind::Work)), START).unwrap();
    }
    assert!(set.closed(
        NodeNumber(3),
        (ConnectionKind::Work, ConnectionNumber(first + 10)),
        START,
        0
    ));
    assert_eq!(
        dials(&mut set, START.plus(1_000))
            .iter()
            .filter(|it| it.kind == ConnectionKind::Work)
            .count(),
        0
    );
}
