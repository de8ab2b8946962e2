//! Definitions that several brokers share.

use crate::client::{Client, Kind, policy};
use crate::cluster_world::{Answer, World};
use meta::{
    BindingSpec, Command, ConnectionId, DestinationName, Done, ErrorKind, ExchangeDeclare,
    ExchangeKind, MetaError, Name, NamedBy, PolicyScope, QueueDeclare, QueueHome, RoutingKey,
    VhostMetadata,
};
use session::Table;
use std::collections::BTreeSet;
use testing::first_user;

const SEEDS: std::ops::Range<u64> = 0..5;

fn vhost() -> Command {
    Command::CreateVhost { vhost: Name::from("/"), metadata: VhostMetadata::default() }
}

fn queue(name: &str) -> QueueDeclare {
    QueueDeclare {
        vhost: Name::from("/"),
        name: Name::from(name),
        named_by: NamedBy::Client,
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Table::new(),
        id: None,
        home: QueueHome::default(),
    }
}

fn declare(name: &str) -> Command {
    Command::DeclareQueue(queue(name))
}

fn cluster(seed: u64) -> World {
    let mut world = World::new(seed, 3);
    world.apply(1, vhost()).unwrap();
    world
}

fn is_created(answer: &Answer) -> bool {
    matches!(answer, Ok(Done::QueueCreated(_)))
}

#[test]
fn what_is_declared_on_one_node_is_there_on_all() {
    for seed in SEEDS {
        let mut world = cluster(seed);
        assert!(is_created(&world.apply(1, declare("q"))));
        for node in 1..=3 {
            assert!(world.broker(node).view().queue("/", "q").is_some(), "node {node}");
        }
        let exists = world.apply(3, declare("q"));
        assert!(matches!(exists, Ok(Done::QueueExists(_))), "{exists:?}");
        let exchange = ExchangeDeclare {
            vhost: Name::from("/"),
            name: Name::from("x"),
            kind: ExchangeKind::Fanout,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Table::new(),
        };
        world.apply(2, Command::DeclareExchange(exchange)).unwrap();
        let bind = BindingSpec {
            vhost: Name::from("/"),
            source: Name::from("x"),
            destination: DestinationName::Queue(Name::from("q")),
            key: RoutingKey::from(""),
            arguments: Table::new(),
            by: None,
        };
        assert_eq!(world.apply(3, Command::Bind(bind)).unwrap(), Done::Changed);
        for node in 1..=3 {
            assert!(world.broker(node).view().has_listeners("/", "x"), "node {node}");
        }
        world.settle();
    }
}

#[test]
fn of_declarations_at_once_one_makes_the_queue() {
    for seed in SEEDS {
        let mut world = cluster(seed);
        let mut other = queue("q");
        other.auto_delete = true;
        let clients = [
            world.ask(1, declare("q")),
            world.ask(2, declare("q")),
            world.ask(3, Command::DeclareQueue(other)),
        ];
        let answers = clients.map(|client| world.answer(client));
        assert_eq!(answers.iter().filter(|answer| is_created(answer)).count(), 1, "{answers:?}");
        world.settle();
        let def = world.broker(1).view().queue("/", "q").unwrap().def().clone();
        for (answer, auto_delete) in answers.iter().zip([false, false, true]) {
            match answer {
                Ok(Done::QueueCreated(it) | Done::QueueExists(it)) => assert_eq!(it.id, def.id),
                Err(MetaError::Inequivalent { .. }) => assert_ne!(def.auto_delete, auto_delete),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn an_exclusive_queue_is_refused_to_others_on_all_nodes() {
    let mut world = cluster(1);
    let mut mine = queue("mine");
    (mine.exclusive_owner, mine.durable) = (Some(ConnectionId(7)), false);
    assert!(is_created(&world.apply(1, Command::DeclareQueue(mine.clone()))));
    for (node, owner) in [(2, None), (3, Some(ConnectionId(8)))] {
        let theirs = QueueDeclare { exclusive_owner: owner, ..mine.clone() };
        let refused = world.apply(node, Command::DeclareQueue(theirs)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ResourceLocked);
    }
    let deletion = Command::DeleteExclusiveQueues { owner: ConnectionId(7) };
    assert_eq!(world.apply(1, deletion).unwrap(), Done::Changed);
    assert!(is_created(&world.apply(3, declare("mine"))));
}

#[test]
fn a_deletion_on_another_node_ends_the_queue() {
    let mut world = cluster(2);
    world.apply(1, declare("q")).unwrap();
    let queues = [1, 2, 3].map(|node| world.broker(node).view().queue("/", "q").unwrap());
    let (vhost, name) = (Name::from("/"), Name::from("q"));
    let deletion = Command::DeleteQueue { vhost, name, by: None };
    assert_eq!(world.apply(2, deletion).unwrap(), Done::Changed);
    for (node, queue) in (1..=3).zip(queues) {
        assert!(world.broker(node).view().queue("/", "q").is_none(), "node {node}");
        world.until(|_| queue.is_deleted().then_some(()));
    }
}

#[test]
fn a_minority_refuses_changes_in_rabbitmqs_words() {
    let mut world = cluster(3);
    world.apply(1, declare("q")).unwrap();
    world.cut_off(3);
    let exists = world.apply(3, declare("q"));
    assert!(matches!(exists, Ok(Done::QueueExists(_))), "{exists:?}");
    let client = world.ask(3, declare("new"));
    assert!(is_created(&world.apply(1, declare("other"))));
    let error = world.answer(client).unwrap_err();
    let node = BROKER_NAME;
    let text = format!(
        "Could not declare queue 'new' in vhost '/' on node '{node}' because the metadata store operation timed out"
    );
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::InternalError, text));
    world.mend_all(3);
    assert!(is_created(&world.apply(3, declare("new"))));
    world.settle();
}

/// The name of brokers without settings.
const BROKER_NAME: &str = "";

/// The messages of a node's queue.
fn n_ready(world: &World, node: u16, name: &str) -> u64 {
    world.broker(node).view().queue("/", name).unwrap().local_stat().n_ready
}

/// Has a client of a node publish messages to a queue, durably.
fn publish(world: &mut World, node: u16, name: &str, bodies: &[&str]) {
    let mut client = Client::connect(&world.broker(node));
    client.publish(name, bodies, Kind::Persistent);
    world.steps(100);
    // The session must not end with the client: a node that has crashed keeps it.
    std::mem::forget(client);
}

fn cluster_with_user(seed: u64) -> World {
    let mut world = World::new(seed, 3);
    for command in first_user() {
        world.apply(1, command).unwrap();
    }
    world
}

#[test]
fn a_policy_that_is_set_on_one_node_holds_for_queues_of_others() {
    let mut world = cluster_with_user(4);
    world.apply(1, declare("q")).unwrap();
    publish(&mut world, 1, "q", &["a", "b", "c"]);
    assert_eq!(n_ready(&world, 1, "q"), 3);
    let limit = policy(PolicyScope::User, "^q$", r#"{"max-length": 2}"#);
    world.apply(3, limit).unwrap();
    world.until(|world| (n_ready(world, 1, "q") == 2).then_some(()));
}

#[test]
fn all_nodes_find_definitions_and_contents_again_after_a_crash_of_all() {
    for seed in SEEDS {
        let mut world = cluster_with_user(seed);
        world.apply(2, declare("q")).unwrap();
        publish(&mut world, 1, "q", &["a", "b", "c"]);
        world.apply(3, declare("gone")).unwrap();
        let id = world.broker(1).view().queue("/", "gone").unwrap().id();
        world.apply(1, Command::DeleteQueueById { id }).unwrap();
        let before = world.settle();
        (1..=3).for_each(|node| world.crash(node));
        (1..=3).for_each(|node| world.restart(node));
        world.until(|world| world.leader());
        assert_eq!(world.settle(), before, "seed {seed}");
        assert_eq!(n_ready(&world, 1, "q"), 3, "seed {seed}");
        assert!(is_created(&world.apply(2, declare("new"))), "seed {seed}");
        assert!(world.broker(3).view().queue("/", "gone").is_none());
    }
}

#[test]
fn a_change_under_way_when_its_leader_dies_is_made_once_or_not_at_all() {
    for seed in 0..20 {
        let mut world = cluster(seed);
        let leader = world.until(|world| world.leader());
        let asker = 1 + leader % 3;
        let client = world.ask(asker, declare("q"));
        let n = world.below(12);
        world.steps(n);
        world.crash(leader);
        let answer = world.answer(client);
        world.restart(leader);
        world.settle();
        let is_there = world.broker(leader).view().queue("/", "q").is_some();
        match answer {
            Ok(Done::QueueCreated(_)) => assert!(is_there, "seed {seed}"),
            Err(MetaError::TimedOut(_)) => {}
            other => panic!("seed {seed}: {other:?}"),
        }
        let again = world.apply(asker, declare("q"));
        assert!(matches!(again, Ok(Done::QueueExists(_))) == is_there, "seed {seed}: {again:?}");
    }
}

#[test]
fn a_log_that_is_full_of_changes_gives_way_to_images() {
    let mut world = cluster(5);
    for round in 0..40 {
        let names: Vec<_> = (0..20).map(|n| format!("{}-{n}", "q".repeat(150))).collect();
        let ask = |world: &mut World, command| world.ask(2, command);
        let commands = names.iter().map(|name| match round % 2 {
            0 => declare(name),
            _ => Command::DeleteQueue {
                vhost: Name::from("/"),
                name: Name::from(name.as_str()),
                by: None,
            },
        });
        let clients: Vec<_> = commands.map(|command| ask(&mut world, command)).collect();
        clients.into_iter().for_each(|client| drop(world.answer(client).unwrap()));
    }
    let image = |world: &World| world.progress(1).image;
    world.until(|world| (image(world) > 100).then_some(()));
    world.apply(3, declare("last")).unwrap();
    let before = world.settle();
    (1..=3).for_each(|node| world.crash(node));
    (1..=3).for_each(|node| world.restart(node));
    assert_eq!(world.settle(), before);
    world.add(4);
    assert_eq!(world.settle(), before);
    assert!(world.broker(4).view().queue("/", "last").is_some());
}

/// A client's declaration or deletion, and its answer if there is one.
struct Asked {
    name: usize,
    is_deletion: bool,
    client: usize,
}

/// Nodes crash and are cut off while clients of all declare and delete queues of a few names.
fn random_faults(seed: u64) {
    let mut world = cluster(seed);
    let names = ["a", "b", "c", "d"];
    let mut all: Vec<Asked> = Vec::new();
    for _ in 0..40 {
        let (node, other) = (world.any_node(), world.any_node());
        match world.below(10) {
            0 if world.is_running(node) => world.crash(node),
            1 | 2 if !world.is_running(node) => world.restart(node),
            3 if node != other => world.cut(node, other),
            4 | 5 if node != other && world.is_running(node) && world.is_running(other) => {
                world.mend(node, other);
            }
            6.. if world.is_running(node) => {
                let (name, is_deletion) = (world.below(names.len()), world.below(3) == 0);
                let (vhost, queue) = (Name::from("/"), Name::from(names[name]));
                let client = world.ask(
                    node,
                    if is_deletion {
                        Command::DeleteQueue { vhost, name: queue, by: None }
                    } else {
                        declare(names[name])
                    },
                );
                all.push(Asked { name, is_deletion, client });
            }
            _ => {}
        }
        let n = world.below(30);
        world.steps(n);
    }
    for node in 1..=3 {
        if !world.is_running(node) {
            world.start(node);
        }
    }
    (1..=3).for_each(|node| world.mend_all(node));
    // What was committed before is known to be so once this is.
    world.apply(1, declare("last")).unwrap();
    world.settle();
    let (mut made, view) = (BTreeSet::new(), world.broker(1).view());
    for asked in &all {
        let Some(Ok(Done::QueueCreated(def))) = world.answer_now(asked.client) else { continue };
        assert!(made.insert(def.id), "seed {seed}: {def:?} is made twice");
        let is_deleted = all.iter().any(|it| it.is_deletion && it.name == asked.name);
        assert!(is_deleted || view.queue_by_id(def.id).is_some(), "seed {seed}: {def:?} is lost");
    }
    for node in 1..=3 {
        let here = world.broker(node).view();
        assert_eq!(here.queues().count(), here.meta.queues().len(), "seed {seed}, node {node}");
        assert!(here.queues().all(|queue| !queue.is_deleted()), "seed {seed}, node {node}");
    }
}

#[test]
fn clients_are_told_the_truth_whatever_breaks() {
    let seeds = std::env::var("DEFINITIONS_SEEDS").ok().and_then(|n| n.parse().ok());
    (0..seeds.unwrap_or(20)).for_each(random_faults);
}

#[test]
fn a_change_too_large_for_any_leader_is_refused_where_it_is_asked_for() {
    let mut world = cluster(1);
    let description = "x".repeat(definitions::ASK_BYTES_MAX);
    let metadata = VhostMetadata { description, ..VhostMetadata::default() };
    let large = Command::CreateVhost { vhost: Name::from("large"), metadata };
    for node in 1..=3 {
        let error = world.apply(node, large.clone()).unwrap_err();
        assert_eq!(error.to_string(), definitions::Refusal::TooLarge.to_string(), "node {node}");
    }
}
