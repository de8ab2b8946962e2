//! Definitions that several brokers share.

use crate::cluster_world::{Answer, World};
use meta::{
    BindingSpec, Command, ConnectionId, DestinationName, Done, ErrorKind, ExchangeDeclare,
    ExchangeKind, MetaError, Name, NamedBy, QueueDeclare, QueueHome, RoutingKey, VhostMetadata,
};
use session::Table;

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
