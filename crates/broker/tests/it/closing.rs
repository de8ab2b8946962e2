//! Connections that end together: whatever they leave behind, others wait for little of it.

use crate::client::{Client, control, short, start};
use broker::Broker;
use session::{Flag, Op, QueueDeclaration, ReadInput, Table};
use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use testing::MemoryDisk;
use tokio::task::{JoinSet, yield_now};

const CLIENTS: usize = 40;
const QUEUES: usize = 40;
/// Queues that may go while a bystander waits to be run on the same thread: 64 for each of eight connections,
/// and as many for those that follow.
const AT_ONCE_MAX: usize = 2 * 8 * 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queues {
    /// They go with their connection.
    Exclusive,
    /// They go with their consumers.
    Consumed,
    /// As `Consumed`: the channel is closed, and the connection stays.
    ConsumedByChannel,
}

/// A client with many queues.
fn client(broker: &Arc<Broker>, n: usize, queues: Queues) -> Client {
    let mut client = Client::connect(broker);
    for i in 0..QUEUES {
        let name = format!("q-{n}-{i}");
        client.ask(Op::DeclareQueue(QueueDeclaration {
            queue: short(&name),
            passive: false,
            durable: false,
            exclusive: queues == Queues::Exclusive,
            auto_delete: queues != Queues::Exclusive,
            arguments: Table::new(),
        }));
        if queues != Queues::Exclusive {
            client.consume_with(&name, &name, false, &[]);
        }
    }
    client
}

fn n_queues(broker: &Broker) -> usize {
    broker.view().meta.queues().len()
}

#[test]
fn bystander_waits_for_few_queues_when_many_connections_end() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for queues in [Queues::Exclusive, Queues::Consumed, Queues::ConsumedByChannel] {
        let broker = start(&Arc::new(MemoryDisk::new()));
        let clients = (0..CLIENTS).map(|n| client(&broker, n, queues));
        let clients: Vec<Client> = clients.collect();
        assert_eq!(n_queues(&broker), CLIENTS * QUEUES);
        let bystander = Client::connect(&broker);
        runtime.block_on(async {
            let mut closing = JoinSet::new();
            for client in clients {
                let mut session = client.into_session();
                closing.spawn(async move {
                    if queues == Queues::ConsumedByChannel {
                        let mut close = vec![control(Op::CloseChannel)];
                        session.submit(&ReadInput::NONE, &mut close).await.unwrap();
                    }
                    session.close().await;
                });
            }
            yield_now().await;
            let gone = pin!(bystander.into_session().close());
            let at_once = gone.poll(&mut Context::from_waker(Waker::noop()));
            assert!(at_once.is_ready(), "who holds little waits for no turn");
            while !closing.is_empty() {
                let before = n_queues(&broker);
                yield_now().await;
                let gone = before - n_queues(&broker);
                assert!(gone <= AT_ONCE_MAX, "{gone} {queues:?} queues went at once");
                while closing.try_join_next().is_some() {}
            }
        });
        assert_eq!(n_queues(&broker), 0);
    }
}

#[test]
fn bystander_waits_for_few_changes_when_many_clients_delete_queues() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let broker = start(&Arc::new(MemoryDisk::new()));
    let clients: Vec<Client> =
        (0..CLIENTS).map(|n| client(&broker, n, Queues::Exclusive)).collect();
    runtime.block_on(async {
        let mut deleting = JoinSet::new();
        for (n, client) in clients.into_iter().enumerate() {
            let mut session = client.into_session();
            deleting.spawn(async move {
                let delete = |i| {
                    let queue = short(&format!("q-{n}-{i}"));
                    control(Op::DeleteQueue { queue, if_unused: Flag::No, if_empty: Flag::No })
                };
                let mut deletions = (0..QUEUES).map(delete).collect();
                session.submit(&ReadInput::NONE, &mut deletions).await.unwrap();
                session.close().await;
            });
        }
        while !deleting.is_empty() {
            let before = n_queues(&broker);
            yield_now().await;
            let gone = before - n_queues(&broker);
            assert!(gone <= CLIENTS * 4, "{gone} queues went at once");
            while deleting.try_join_next().is_some() {}
        }
    });
    assert_eq!(n_queues(&broker), 0);
}
