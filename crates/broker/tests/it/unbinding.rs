//! Exchanges and queues with very many bindings are deleted in slices, and come back whole if the node ends
//! in between.

use crate::client::{block_on, start};
use broker::Broker;
use meta::{
    BindingSpec, Command, DestinationName, ExchangeDeclare, ExchangeKind, Name, NamedBy,
    QueueDeclare, QueueHome, RoutingKey,
};
use session::Table;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use testing::{CrashOutcome, MemoryDisk};

const BINDINGS: usize = 2_000;

/// An exchange `x` and a queue `q`, and very many bindings between them.
fn commands() -> Vec<Command> {
    let vhost = Name::from("/");
    let exchange = Command::DeclareExchange(ExchangeDeclare {
        vhost: vhost.clone(),
        name: Name::from("x"),
        kind: ExchangeKind::Direct,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Table::new(),
    });
    let queue = Command::DeclareQueue(QueueDeclare {
        vhost: vhost.clone(),
        name: Name::from("q"),
        named_by: NamedBy::Client,
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Table::new(),
        id: None,
        home: QueueHome::default(),
    });
    let bind = |key: usize| {
        Command::Bind(BindingSpec {
            vhost: vhost.clone(),
            source: Name::from("x"),
            destination: DestinationName::Queue(Name::from("q")),
            key: RoutingKey::from(key.to_string().as_bytes()),
            arguments: Table::new(),
            by: None,
        })
    };
    [exchange, queue].into_iter().chain((0..BINDINGS).map(bind)).collect()
}

fn n_bindings(broker: &Broker) -> usize {
    broker.view().meta.routes("/").unwrap().n_bindings()
}

#[test]
fn a_deletion_in_slices_is_done_as_a_whole_or_not_at_all() {
    let vhost = Name::from("/");
    let deletions = [
        Command::DeleteQueue { vhost: vhost.clone(), name: Name::from("q"), by: None },
        Command::DeleteExchange { vhost, name: Name::from("x"), if_unused: false },
    ];
    for deletion in deletions {
        let disk = Arc::new(MemoryDisk::new());
        let broker = start(&disk);
        block_on(broker.changes().apply_all(commands().iter())).unwrap();
        {
            let mut deleting = pin!(broker.apply_definition(deletion.clone()));
            let mut context = Context::from_waker(Waker::noop());
            assert!(deleting.as_mut().poll(&mut context).is_pending());
            let n_left = n_bindings(&broker);
            assert!(0 < n_left && n_left < BINDINGS, "{n_left}");
            broker.snapshot_definitions().unwrap();
            let again = start(&Arc::new(disk.survive(CrashOutcome::OnlySynced)));
            assert_eq!(n_bindings(&again), BINDINGS, "a crash undoes what was not done");
            block_on(deleting).unwrap();
        }
        assert_eq!(n_bindings(&broker), 0);
        broker.snapshot_definitions().unwrap();
        let again = start(&Arc::new(disk.survive(CrashOutcome::OnlySynced)));
        assert_eq!(n_bindings(&again), 0);
    }
}
