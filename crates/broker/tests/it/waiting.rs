//! Requests that wait for a queue: nobody but their own session waits.

use crate::client::{Client, Kind, control, short, start};
use broker::{Broker, BrokerOptions, Steppers};
use log::WalOptions;
use meta::Command;
use session::{Attachment, Op, QueueDeclaration, ReadInput, Request, Table, Value};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use testing::{CrashOutcome, MemoryDisk};

/// A node that has started and does not know yet which messages are in `q`.
pub(crate) fn node() -> (Arc<Broker>, Steppers) {
    let disk = MemoryDisk::new();
    let broker = start(&Arc::new(disk.clone()));
    let mut client = Client::connect(&broker);
    client.declare("other", true);
    client.declare_with("q", true, &[("x-queue-version", Value::I32(1))]);
    client.publish("q", &["a"], Kind::Persistent);
    client.disconnect();
    broker.stop().unwrap();
    let disk = Arc::new(disk.survive(CrashOutcome::Everything));
    let (broker, steppers) =
        Broker::open_stepped(disk, WalOptions::default(), BrokerOptions::default()).unwrap();
    assert!(broker.queue("/", "q").unwrap().is_loading());
    (broker, steppers)
}

fn consume(queue: &str) -> Request {
    control(Op::Attach(Attachment {
        queue: short(queue),
        consumer_tag: short("tag"),
        no_ack: false,
        source: None,
        exclusive: true,
        arguments: Table::default(),
    }))
}

pub(crate) fn declare(queue: &str) -> Request {
    control(Op::DeclareQueue(QueueDeclaration {
        queue: short(queue),
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: Table::default(),
    }))
}

fn is_ready(future: &mut (impl Future + Unpin)) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Does the node's work until the future is ready.
pub(crate) fn finish(mut future: impl Future + Unpin, steppers: &mut Steppers) {
    while !is_ready(&mut future) {
        assert!(steppers.v1.step() | steppers.log.step(), "waits for nothing");
    }
}

#[test]
fn waiting_request_keeps_other_sessions_going() {
    let (broker, mut steppers) = node();
    let (mut client, mut other) = (Client::connect(&broker), Client::connect(&broker));
    let mut requests = vec![consume("q"), declare("next")];
    let mut submit = Box::pin(client.session().submit(&ReadInput::NONE, &mut requests));
    assert!(!is_ready(&mut submit));
    assert_eq!(other.get("other"), ["get empty"]);
    assert_eq!(other.consume("other", false), ["consuming"]);
    assert!(!is_ready(&mut submit));
    assert!(broker.queue("/", "next").is_none(), "the next request was begun");
    finish(submit, &mut steppers);
    assert_eq!(client.heard(), ["consuming", "deliver a", "declared 0 0"]);
}

#[test]
fn session_that_ends_while_it_waits_leaves_nothing() {
    let (broker, mut steppers) = node();
    let (mut client, mut other) = (Client::connect(&broker), Client::connect(&broker));
    let mut requests = vec![consume("q")];
    let mut submit = Box::pin(client.session().submit(&ReadInput::NONE, &mut requests));
    assert!(!is_ready(&mut submit));
    drop(submit);
    client.disconnect();
    let mut requests = vec![consume("q")];
    finish(Box::pin(other.session().submit(&ReadInput::NONE, &mut requests)), &mut steppers);
    assert_eq!(other.heard(), ["consuming", "deliver a"]);
    assert_eq!(broker.queue("/", "q").unwrap().local_stat().n_consumers, 1);
}

#[test]
fn queue_deleted_while_a_request_waits_is_not_found() {
    let (broker, mut steppers) = node();
    let mut client = Client::connect(&broker);
    let mut requests = vec![control(Op::PurgeQueue { queue: short("q") })];
    let mut submit = Box::pin(client.session().submit(&ReadInput::NONE, &mut requests));
    assert!(!is_ready(&mut submit));
    let id = broker.queue("/", "q").unwrap().id();
    let mut deletion = Box::pin(broker.apply_definition(Command::DeleteQueueById { id }));
    while !is_ready(&mut deletion) {
        assert!(steppers.log.step());
    }
    finish(submit, &mut steppers);
    assert_eq!(client.heard(), ["channel failed NotFound: no queue 'q' in vhost '/'"]);
}
