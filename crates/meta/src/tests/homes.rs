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
fn the_home_of_a_lone_node_is_not_written() {
    let plain = encoded(queue("q"));
    assert_eq!(plain[..2], [1, 22], "as versions wrote it that knew no homes");
    let mut with_home = vec![1, 29];
    with_home.extend([2, 0, 7, 0, 0, 0]);
    with_home.extend(&plain[2..]);
    assert_eq!(encoded(QueueDeclare { home: AWAY, ..queue("q") }), with_home);
}
