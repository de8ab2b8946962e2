//! Nodes of the cluster, and the queues that end with them.

use super::*;

fn join(name: &str, token: u64) -> Command {
    let (no, name) = (None, Name::from(name));
    let address = ClusterAddress { host: name.clone(), port: 25672 };
    Command::NodeJoined { no, name, address, token }
}

fn boot(no: u16, boot: u32) -> Command {
    Command::NodeBooted { no, boot }
}

fn forget(no: u16) -> Command {
    Command::NodeForgotten { no }
}

/// A state with the nodes 1 and 2, both at their third start.
fn cluster() -> State {
    let mut state = state();
    for (no, name) in [(1, "a"), (2, "b")] {
        assert_eq!(apply(&mut state, join(name, 7)).unwrap().done, Done::NodeJoined(no));
        apply(&mut state, boot(no, 3)).unwrap();
    }
    state
}

fn at(node: u16, boot: u32, declare: QueueDeclare) -> QueueDeclare {
    QueueDeclare { home: QueueHome { node, boot }, ..declare }
}

fn transient(name: &str) -> QueueDeclare {
    QueueDeclare { durable: false, ..queue(name) }
}

fn typed(name: &str, kind: &'static str) -> QueueDeclare {
    QueueDeclare { arguments: table(&[("x-queue-type", kind.into())]), ..queue(name) }
}

fn queues(state: &State) -> Vec<String> {
    state.queues().iter().map(|queue| queue.name.to_string()).collect()
}

/// A state that has replayed the facts of an outcome on the state before.
fn replayed(before: &State, outcome: &Outcome) -> State {
    let mut follower = before.clone();
    for fact in &outcome.facts {
        follower.replay(&fact.command).unwrap();
    }
    follower
}

#[test]
fn a_node_that_joins_again_by_its_token_keeps_its_number() {
    let s = &mut cluster();
    let again = apply(s, join("b", 7)).unwrap();
    assert_eq!(again.done, Done::NodeExists(2));
    assert!(again.facts.is_empty());
    let (kind, text) = refused(s, join("b", 8));
    assert_eq!(kind, ErrorKind::AlreadyExists);
    assert!(text.starts_with("node 'b' is in the cluster already"), "{text}");
}

#[test]
fn the_number_of_a_node_is_never_used_again() {
    let s = &mut cluster();
    apply(s, forget(2)).unwrap();
    for mut s in [s.clone(), State::restore(&durable(s)).unwrap()] {
        let Command::NodeJoined { name, address, token, .. } = join("c", 1) else { return };
        let second = Command::NodeJoined { no: Some(2), name, address, token };
        assert_eq!(refused(&mut s, second).1, "no new node is 2");
        assert_eq!(s.nodes().next_number(), Some(3));
        assert_eq!(apply(&mut s, join("b", 8)).unwrap().done, Done::NodeJoined(3));
        assert_eq!(s.nodes().named("b").unwrap().boot, 0);
    }
}

#[test]
fn no_node_joins_after_the_last_number() {
    let s = &mut cluster();
    let Command::NodeJoined { name, address, token, .. } = join("c", 1) else { return };
    let last = Command::NodeJoined { no: Some(u16::MAX), name, address, token };
    assert_eq!(apply(s, last).unwrap().done, Done::NodeJoined(u16::MAX));
    assert_eq!(s.nodes().next_number(), None);
    assert_eq!(refused(s, join("d", 1)).1, "no new node is 65535");
}

#[test]
fn a_later_start_ends_the_transient_queues_of_earlier_ones() {
    let s = &mut cluster();
    let fanout = exchange("gone", ExchangeKind::Fanout);
    let fanout = ExchangeDeclare { auto_delete: true, ..fanout };
    apply(s, Command::DeclareExchange(fanout)).unwrap();
    for declare in [exclusive("mine", 1), transient("t"), queue("durable")] {
        declare_at(s, 2, declare);
    }
    declare(s, at(2, 4, transient("early")));
    declare_at(s, 1, transient("elsewhere"));
    apply(s, Command::Bind(to_queue("gone", "t", "k"))).unwrap();
    assert!(apply(s, boot(2, 3)).unwrap().facts.is_empty(), "that start is known");
    let before = s.clone();
    let outcome = apply(s, boot(2, 4)).unwrap();
    assert_eq!(outcome.done, Done::Changed);
    let removed = gone(&outcome);
    assert_eq!(removed[0], "queue mine");
    assert!(removed[1].starts_with("binding from gone"), "{removed:?}");
    assert_eq!(removed[2..], ["queue t", "exchange gone"]);
    assert_eq!(queues(s), ["durable", "early", "elsewhere"]);
    assert_eq!(outcome.facts.len(), 2, "the start, and the exchange that lost its last binding");
    assert_eq!(everything(&replayed(&before, &outcome)), everything(s));
    assert_eq!(refused(s, boot(2, 3)).1, "node 2 has started again since its start 3");
}

fn declare_at(state: &mut State, node: u16, queue: QueueDeclare) {
    declare(state, at(node, 3, queue));
}

#[test]
fn a_forgotten_node_takes_along_what_only_it_had() {
    let s = &mut cluster();
    let all = [queue("classic"), typed("stream", "stream"), typed("quorum", "quorum")];
    for declare in all.into_iter().chain([transient("t"), exclusive("mine", 1)]) {
        declare_at(s, 2, declare);
    }
    declare_at(s, 1, queue("elsewhere"));
    let before = s.clone();
    let outcome = apply(s, forget(2)).unwrap();
    assert_eq!(queues(s), ["quorum", "elsewhere"]);
    assert_eq!(outcome.facts.len(), 1, "however many queues go");
    assert_eq!(everything(&replayed(&before, &outcome)), everything(s));
    let mut restarted = State::restore(&durable(&before)).unwrap();
    outcome.durable().for_each(|command| drop(restarted.replay(command).unwrap()));
    assert_eq!(durable(&restarted), durable(s));
    assert_eq!(refused(s, forget(2)).1, "node 2 is not in the cluster");
    assert_eq!(refused(s, boot(2, 9)).0, ErrorKind::NotFound);
    let (kind, text) = refused(s, forget(1));
    assert_eq!(kind, ErrorKind::NotAllowed);
    assert_eq!(text, "node 1 is the last one in the cluster and cannot be forgotten");
}

#[test]
fn a_queue_needs_a_node_that_is_there_at_that_start() {
    let s = &mut cluster();
    let refusal = |s: &mut State, node, boot, declare| {
        refused(s, Command::DeclareQueue(at(node, boot, declare))).1
    };
    assert_eq!(refusal(s, 3, 0, queue("q")), "node 3 is not in the cluster");
    let ended = "node 2 has started again since its start 2";
    assert_eq!(refusal(s, 2, 2, transient("q")), ended);
    assert_eq!(refusal(s, 2, 2, exclusive("q", 1)), ended);
    declare(s, at(2, 2, queue("q")));
}

#[test]
fn maintenance_and_level_are_kept() {
    let s = &mut cluster();
    let drain = |on| Command::NodeDrained { no: 2, on };
    assert_eq!(apply(s, drain(false)).unwrap().done, Done::Nothing);
    assert_eq!(apply(s, drain(true)).unwrap().done, Done::Changed);
    assert_eq!(s.nodes().level(), 0);
    assert_eq!(apply(s, Command::Level { n: 2 }).unwrap().done, Done::Changed);
    assert_eq!(apply(s, Command::Level { n: 2 }).unwrap().done, Done::Nothing);
    assert_eq!(refused(s, Command::Level { n: 1 }).1, "level 1 is below the cluster's level 2");
    let restored = State::restore(&durable(s)).unwrap();
    assert!(restored.nodes().iter().eq(s.nodes().iter()));
    assert!(restored.nodes().get(2).unwrap().is_drained);
    assert_eq!(restored.nodes().level(), 2);
}

#[test]
fn a_state_without_nodes_is_written_as_by_versions_that_knew_none() {
    let mut expected = vec![1];
    stdx::record::put_u64(&mut expected, 1);
    stdx::record::put_u64(&mut expected, 0);
    let (mut first, metadata) = (Vec::new(), VhostMetadata::default());
    Command::CreateVhost { vhost: name(V), metadata }.encode(&mut first);
    stdx::record::put_bytes(&mut expected, &first);
    assert_eq!(durable(&state()), expected);
}
