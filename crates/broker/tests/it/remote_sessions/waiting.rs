//! Frames that wait: for a queue that is still being read, and for room.

use super::{Peer, runtime};
use crate::client::{Client, Kind, start, wait_until};
use crate::waiting::{declare, finish, node};
use broker::{Broker, BrokerOptions, Steppers};
use log::WalOptions;
use meta::QueueId;
use queue::CreditMode;
use remote::requests::SessionRequest;
use session::ReadInput;
use std::sync::Arc;
use testing::{MemoryDisk, first_user};

/// A node that has started and does not know yet which messages are in `q`; it knows the one in `other`.
fn loading() -> (Arc<Broker>, Steppers) {
    let (broker, steppers) = node();
    Client::connect(&broker).publish("other", &["x"], Kind::Persistent);
    (broker, steppers)
}

/// Does the node's work until `q` is loaded.
fn load(broker: &Broker, steppers: &mut Steppers) {
    while broker.queue("/", "q").unwrap().is_loading() {
        assert!(steppers.v1.step() | steppers.log.step(), "there is nothing to do");
    }
}

#[test]
fn frames_wait_until_their_queue_is_loaded_but_not_for_others() {
    let (broker, mut steppers) = loading();
    let runtime = runtime();
    let mut peer = Peer::first(&broker, &runtime);
    assert!(peer.put("q", &["b"], false, 0).is_empty());
    peer.request(&SessionRequest::Stat(peer.queue("q")));
    assert!(peer.taken == 0 && peer.heard().is_empty());
    assert_eq!(peer.put("other", &["y"], false, 1), ["ack 2..=2"]);
    load(&broker, &mut steppers);
    assert_eq!(peer.wait_for(2), ["ack 1..=1", "2 ready 0 consumers"]);
    assert_eq!(broker.queue("/", "other").unwrap().local_stat().n_ready, 2);
}

#[test]
fn a_connection_that_ends_while_a_queue_is_loaded_leaves_nothing() {
    let (broker, mut steppers) = loading();
    let runtime = runtime();
    let mut peer = Peer::first(&broker, &runtime);
    peer.attach("other", 1, CreditMode::Unlimited, 3);
    peer.attach("q", 2, CreditMode::Unlimited, 0);
    peer.put("q", &["b"], false, 0);
    peer.end();
    let other = broker.queue("/", "other").unwrap();
    wait_until("the message is back", || other.local_stat().n_ready == 1);
    load(&broker, &mut steppers);
    let stat = broker.queue("/", "q").unwrap().local_stat();
    assert_eq!((stat.n_ready, stat.n_consumers), (1, 0));
}

#[test]
fn bytes_are_withheld_while_the_log_has_no_room() {
    let disk = Arc::new(MemoryDisk::new());
    let options = WalOptions { unsynced_bytes_max: 64, ..WalOptions::default() };
    let opened = Broker::open_stepped(disk, options, BrokerOptions::default());
    let (broker, mut steppers) = opened.unwrap();
    for command in first_user() {
        finish(Box::pin(broker.apply_definition(command)), &mut steppers);
    }
    let runtime = runtime();
    let mut peer = Peer::first(&broker, &runtime);
    let mut client = Client::connect(&broker);
    let mut requests = vec![declare("q")];
    let submit = Box::pin(client.session().submit(&ReadInput::NONE, &mut requests));
    finish(submit, &mut steppers);
    let n_bytes = peer.put_in(peer.queue("q"), &["a"; 100], true);
    let more_bytes = peer.put_in(peer.queue("q"), &["b"], false);
    assert_eq!(peer.wait_for(1), ["ack 101..=101"]);
    assert_eq!(peer.taken, 0, "nothing is told before the log has room");
    steppers.log.step();
    assert_eq!(peer.wait_for(1), ["ack 1..=100"]);
    wait_until("the bytes are told", || {
        peer.heard();
        peer.taken == n_bytes + more_bytes
    });
}

#[test]
fn frames_wait_for_a_queue_that_this_node_does_not_know_yet() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let runtime = runtime();
    let (mut peer, mut client) = (Peer::first(&broker, &runtime), Client::connect(&broker));
    client.declare("first", true);
    let next = QueueId(peer.queue("first").0 + 1);
    peer.put_in(next, &["a"], false);
    peer.put_in(QueueId(next.0 + 1), &["b"], false);
    assert_eq!(peer.put("first", &["c"], false, 1), ["ack 3..=3"]);
    client.declare("next", true);
    assert_eq!(peer.wait_for(1), ["ack 1..=1"]);
    assert_eq!(client.get("next"), ["got a left 0"]);
    peer.end();
}
