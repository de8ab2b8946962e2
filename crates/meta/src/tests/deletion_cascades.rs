//! Deletions that take other objects along.

use super::*;
use crate::definitions::{self, Origin};

/// Exchanges that only the node makes come back with their bindings, from a snapshot and from a
/// document.
#[test]
fn what_is_bound_to_the_nodes_own_exchanges_comes_back() {
    let s = &mut state();
    declare(s, QueueDeclare { durable: true, ..queue("q") });
    for name in NODE_EXCHANGES {
        let exchange = node_exchange(V.into(), name);
        apply(s, Command::DeclareExchange(exchange)).unwrap();
        apply(s, Command::Bind(to_queue(name, "q", "#"))).unwrap();
    }
    let restored = State::restore(&durable(s)).unwrap();
    assert_eq!(durable(&restored), durable(s));

    let origin = Origin { rabbitmq_version: "4.3.6", product_version: "1", cluster_name: "c" };
    let document = serde_json::to_vec(&definitions::export(s, origin)).unwrap();
    let mut copy = State::new();
    let import = definitions::import(&copy, &document, Default::default(), &mut || [0; 4]);
    for step in import.unwrap().steps {
        apply(&mut copy, step.command).unwrap();
    }
    for name in NODE_EXCHANGES {
        assert!(restored.exchange(V, name).unwrap().internal, "{name}");
        assert!(copy.exchange(V, name).unwrap().internal, "{name}");
        assert_eq!(restored.vhost(V).unwrap().routes.n_bindings_from(name), 1, "{name}");
        assert_eq!(copy.vhost(V).unwrap().routes.n_bindings_from(name), 1, "{name}");
    }
}

/// Snapshots that were taken before those exchanges were part of them can be read.
#[test]
fn a_snapshot_may_lack_the_nodes_own_exchanges() {
    let s = &mut state();
    declare(s, QueueDeclare { durable: true, ..queue("q") });
    let mut record = durable(s);
    for name in NODE_EXCHANGES {
        let mut command = Vec::new();
        Command::Bind(to_queue(name, "q", "#")).encode(&mut command);
        stdx::record::put_bytes(&mut record, &command);
    }
    let restored = State::restore(&record).unwrap();
    for name in NODE_EXCHANGES {
        assert_eq!(restored.vhost(V).unwrap().routes.n_bindings_from(name), 1, "{name}");
    }
}

fn auto_delete(exchange_name: &str) -> Command {
    Command::DeclareExchange(ExchangeDeclare {
        auto_delete: true,
        ..exchange(exchange_name, ExchangeKind::Fanout)
    })
}

#[test]
fn a_new_virtual_host_has_the_predeclared_exchanges() {
    let s = state();
    let vhost = s.vhost(V).unwrap();
    let names: Vec<_> = vhost.exchanges().map(|x| (&*x.name, x.kind, x.internal)).collect();
    assert_eq!(
        names,
        [
            ("", ExchangeKind::Direct, false),
            ("amq.direct", ExchangeKind::Direct, false),
            ("amq.fanout", ExchangeKind::Fanout, false),
            ("amq.headers", ExchangeKind::Headers, false),
            ("amq.match", ExchangeKind::Headers, false),
            ("amq.rabbitmq.trace", ExchangeKind::Topic, true),
            ("amq.topic", ExchangeKind::Topic, false),
        ]
    );
    assert!(vhost.exchanges().all(|x| x.durable && !x.auto_delete && x.is_predeclared()));
    let mut out = Vec::new();
    let outcome = vhost.routes.route(b"amq.fanout", &[b""], None, &mut out);
    assert_eq!(outcome, RouteOutcome::Routed);
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_source_binding() {
    let s = &mut state();
    for x in ["a", "b"] {
        apply(s, auto_delete(x)).unwrap();
    }
    declare(s, queue("q"));
    // One that never had a binding stays, and bindings to it do not count.
    apply(s, Command::Bind(to_exchange("a", "b", ""))).unwrap();
    apply(s, Command::Bind(to_queue("a", "q", "1"))).unwrap();
    apply(s, Command::Bind(to_queue("b", "q", "2"))).unwrap();
    assert_eq!(
        gone(&apply(s, Command::Unbind(to_queue("a", "q", "1"))).unwrap()),
        ["binding from a by \"1\""]
    );
    let outcome = apply(s, delete_queue("q")).unwrap();
    assert_eq!(
        gone(&outcome),
        [
            "binding from b by \"2\"",
            "queue q",
            "binding from a by \"\"",
            "exchange b",
            "exchange a"
        ]
    );
    assert_eq!(outcome.facts.len(), 3);
}

#[test]
fn transient_things_may_keep_durable_exchanges_alive() {
    let s = &mut state();
    apply(s, auto_delete("x")).unwrap();
    declare(s, queue("kept"));
    declare(s, exclusive("mine", 7));
    apply(s, Command::Bind(to_queue("x", "kept", ""))).unwrap();
    let outcome = apply(s, Command::Bind(to_queue("x", "mine", ""))).unwrap();
    assert_eq!(outcome.durable().count(), 0);
    let base = durable(s);
    let outcome = apply(s, Command::Unbind(to_queue("x", "kept", ""))).unwrap();
    let unbind = Command::Unbind(to_queue("x", "kept", ""));
    assert_eq!(outcome.facts, [Fact { class: FactClass::Durable, command: unbind.clone() }]);
    // After a restart the exchange is there still, as here; it goes only when it is said to go.
    let mut restarted = State::restore(&base).unwrap();
    restarted.replay(&unbind).unwrap();
    assert_eq!(durable(&restarted), durable(s));
    let outcome = apply(s, Command::DeleteExclusiveQueues { owner: ConnectionId(7) }).unwrap();
    assert_eq!(gone(&outcome), ["binding from x by \"\"", "queue mine", "exchange x"]);
    assert_eq!(outcome.durable().collect::<Vec<_>>(), [&delete_exchange("x")]);
    restarted.replay(&delete_exchange("x")).unwrap();
    assert_eq!(durable(&restarted), durable(s));
}

#[test]
fn exclusive_queues_go_with_their_connection() {
    let s = &mut state();
    let a = declare(s, exclusive("a", 1));
    let b = declare(s, exclusive("b", 2));
    let c = declare(s, exclusive("c", 1));
    assert!(!QueueDef::is_durable_id(a));
    let outcome = apply(s, Command::DeleteExclusiveQueues { owner: ConnectionId(1) }).unwrap();
    assert_eq!(gone(&outcome), ["queue a", "queue c"]);
    assert!(s.queue_by_id(a).is_none() && s.queue_by_id(c).is_none());
    assert_eq!(s.queue_by_id(b).unwrap().name, "b");
    let again = apply(s, Command::DeleteExclusiveQueues { owner: ConnectionId(1) }).unwrap();
    assert_eq!(again.done, Done::Nothing);
}

#[test]
fn ids_are_never_used_again() {
    let s = &mut state();
    let first = declare(s, queue("q"));
    assert_eq!(declare(s, queue("q")), first);
    apply(s, delete_queue("q")).unwrap();
    let second = declare(s, queue("q"));
    assert_ne!(first, second);
    apply(s, Command::DeleteQueueById { id: first }).unwrap();
    assert_eq!(s.queue(V, "q").unwrap().id, second);
    apply(s, Command::DeleteQueueById { id: second }).unwrap();
    let mut restarted = State::restore(&durable(s)).unwrap();
    let third = declare(&mut restarted, queue("q"));
    assert!(third > second && QueueDef::is_durable_id(third));
}

#[test]
fn a_virtual_host_goes_with_everything_in_it() {
    let s = &mut state();
    let vhost = || name("v");
    let metadata = VhostMetadata::default();
    apply(s, Command::CreateVhost { vhost: vhost(), metadata }).unwrap();
    let id = declare(s, QueueDeclare { vhost: vhost(), ..queue("q") });
    let other = declare(s, queue("q"));
    let (user, password) = (name("u"), PasswordHash::default());
    apply(s, Command::CreateUser { user: user.clone(), password, tags: Vec::new() }).unwrap();
    let all = || ".*".to_owned();
    apply(
        s,
        Command::SetPermissions {
            user: user.clone(),
            vhost: vhost(),
            configure: all(),
            write: all(),
            read: all(),
        },
    )
    .unwrap();
    assert!(s.users().may_enter("u", "v"));
    let outcome = apply(s, Command::DeleteVhost { vhost: vhost() }).unwrap();
    assert_eq!(gone(&outcome).first().unwrap(), "queue q");
    assert_eq!(gone(&outcome).last().unwrap(), "vhost v");
    assert!(s.queue_by_id(id).is_none() && s.vhost("v").is_none());
    assert!(!s.users().may_enter("u", "v"));
    assert!(s.queue_by_id(other).is_some());
}

/// An object with many bindings loses them so many at a time; objects that go with its last binding
/// wait.
#[test]
fn bindings_go_in_slices_before_what_they_lead_to() {
    let s = &mut state();
    apply(s, auto_delete("x")).unwrap();
    let id = declare(s, queue("q"));
    for key in ["a", "b", "c", "d"] {
        apply(s, Command::Bind(to_queue("x", "q", key))).unwrap();
        apply(s, Command::Bind(to_queue("amq.direct", "q", key))).unwrap();
    }
    let delete = Command::DeleteQueueById { id };
    let n_left = |s: &State| s.routes(V).unwrap().n_bindings();
    assert!(s.clone().unbind_some(&delete, 9).is_empty(), "there are not so many");
    assert_eq!(s.clone().unbind_some(&delete, 4).len(), 4);
    let mut lefts = Vec::new();
    while !s.unbind_some(&delete, 3).is_empty() {
        lefts.push(n_left(s));
    }
    assert_eq!(lefts, [5, 2]);
    assert!(s.exchange(V, "x").is_some() && s.queue(V, "q").is_some());
    let outcome = apply(s, delete).unwrap();
    assert_eq!(outcome.removed.len(), 2 + 2);
    assert!(s.exchange(V, "x").is_none() && s.queue(V, "q").is_none());
    assert_eq!(n_left(s), 0);
}

#[test]
fn what_may_not_be_deleted_loses_no_binding() {
    let s = &mut state();
    declare(s, exclusive("mine", 7));
    let direct = exchange("x", ExchangeKind::Direct);
    apply(s, Command::DeclareExchange(direct)).unwrap();
    for source in ["x", "amq.direct"] {
        let by = Some(ConnectionId(7));
        apply(s, Command::Bind(BindingSpec { by, ..to_queue(source, "mine", "a") })).unwrap();
    }
    let by_another =
        Command::DeleteQueue { vhost: V.into(), name: name("mine"), by: Some(ConnectionId(8)) };
    let in_use = Command::DeleteExchange { vhost: V.into(), name: name("x"), if_unused: true };
    for command in [by_another, in_use, delete_exchange("amq.direct")] {
        assert!(s.unbind_some(&command, 1).is_empty(), "{command:?}");
    }
    assert_eq!(s.unbind_some(&delete_exchange("x"), 1).len(), 1);
}

#[test]
fn very_many_exclusive_queues_go_in_slices() {
    let s = &mut state();
    for n in 0..150 {
        declare(s, exclusive(&format!("q{n}"), 1));
    }
    let delete = Command::DeleteExclusiveQueues { owner: ConnectionId(1) };
    let mut slices = Vec::new();
    while !s.queues().is_empty() {
        slices.push(apply(s, delete.clone()).unwrap().removed.len());
    }
    assert_eq!(slices, [64, 64, 22]);
    assert_eq!(apply(s, delete).unwrap().done, Done::Nothing);
}
