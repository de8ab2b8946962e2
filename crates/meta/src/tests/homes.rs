//! Homes of queues.

use super::*;

const AWAY: QueueHome = QueueHome { node: 2, boot: 7 };

fn home_of(state: &State, queue: &str) -> QueueHome {
    state.queue(V, queue).unwrap().home
}

fn encoded(declare: QueueDeclare) -> Vec<u8> {
    let mut out = Vec::new();
    Command::DeclareQueue(declare).encode(&mut out);
    out
}

#[test]
fn a_queue_stays_where_it_was_declared_first() {
    let s = &mut state();
    declare(s, QueueDeclare { home: AWAY, ..exclusive("mine", 1) });
    declare(s, QueueDeclare { home: AWAY, durable: false, ..queue("transient") });
    declare(s, QueueDeclare { home: AWAY, ..queue("durable") });
    assert_eq!(home_of(s, "mine"), AWAY);
    assert_eq!(home_of(s, "transient"), AWAY);
    assert_eq!(home_of(s, "durable"), QueueHome { boot: 0, ..AWAY }, "it outlives the start");
    let again = [exclusive("mine", 1), queue("durable")];
    for declare in again {
        let outcome = apply(s, Command::DeclareQueue(declare)).unwrap();
        assert!(matches!(outcome.done, Done::QueueExists(_)) && outcome.facts.is_empty());
    }
    let another = Command::DeclareQueue(QueueDeclare { home: AWAY, ..exclusive("mine", 2) });
    assert_eq!(refused(s, another).0, ErrorKind::ResourceLocked);
    let restored = State::restore(&everything(s)).unwrap();
    for name in ["mine", "transient", "durable"] {
        assert_eq!(home_of(&restored, name), home_of(s, name));
    }
}

#[test]
fn queues_of_a_node_that_begins_a_cluster_stay_through_its_first_word() {
    let s = &mut state();
    for declare_it in [exclusive("mine", 1), queue("durable")] {
        declare(s, declare_it);
    }
    settle_homes(s, QueueHome { node: 1, boot: 7 });
    assert_eq!(home_of(s, "mine"), QueueHome { node: 1, boot: 7 });
    assert_eq!(home_of(s, "durable"), QueueHome { node: 1, boot: 0 });
    let address = ClusterAddress { host: Name::from("a"), port: 1 };
    let name = Name::from("rabbit@a");
    apply(s, Command::NodeJoined { no: Some(1), name, address, token: 0 }).unwrap();
    let removed = apply(s, Command::NodeBooted { no: 1, boot: 7 }).unwrap().removed;
    assert!(removed.is_empty(), "{removed:?}");
    let removed = apply(s, Command::NodeBooted { no: 1, boot: 8 }).unwrap().removed;
    assert!(matches!(&*removed, [Removed::Queue(def)] if def.name == *"mine"), "{removed:?}");
}

#[test]
fn the_home_of_a_lone_node_is_not_written() {
    let plain = encoded(queue("q"));
    assert_eq!(plain[..2], [1, 22], "as versions wrote it that knew no homes");
    let mut with_home = vec![1, 29];
    with_home.extend([2, 0, 7, 0, 0, 0]);
    with_home.extend(&plain[2..]);
    assert_eq!(encoded(QueueDeclare { home: AWAY, ..queue("q") }), with_home);
}
