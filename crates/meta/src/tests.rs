//! Tests of the whole state machine.

mod access;
mod answers;
mod delayed_exchange;
mod deletion_cascades;
mod error_texts;
mod explain;
mod facts;
mod homes;
mod nodes;
mod policies;
mod properties;
mod quorum;
mod scale;
mod sharding;
mod streams;

use amqp091::{ShortString, Table, Value};
use stdx::Now;

use crate::*;

const V: &str = "/";

fn name(text: &str) -> Name {
    Name::from(text)
}

fn apply(state: &mut State, command: Command) -> Result<Outcome, MetaError> {
    state.apply(Now::default(), &command)
}

/// The text of a refusal, which must leave the state as it was.
fn refused(state: &mut State, command: Command) -> (ErrorKind, String) {
    let before = everything(state);
    let error = apply(state, command).unwrap_err();
    assert_eq!(everything(state), before);
    (error.kind(), error.to_string())
}

fn everything(state: &State) -> Vec<u8> {
    let mut out = Vec::new();
    state.snapshot(SnapshotOf::Everything, &mut out);
    out
}

fn durable(state: &State) -> Vec<u8> {
    let mut out = Vec::new();
    state.snapshot(SnapshotOf::Durable, &mut out);
    out
}

/// A state with the virtual host `/`.
fn state() -> State {
    let mut state = State::new();
    let metadata = VhostMetadata::default();
    apply(&mut state, Command::CreateVhost { vhost: name(V), metadata }).unwrap();
    state
}

fn table(entries: &[(&'static str, Value)]) -> Table {
    (entries.iter()).map(|(key, value)| (ShortString::from_static(key), value.clone())).collect()
}

fn exchange(exchange: &str, kind: ExchangeKind) -> ExchangeDeclare {
    ExchangeDeclare {
        vhost: name(V),
        name: name(exchange),
        kind,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Table::new(),
    }
}

fn queue(queue: &str) -> QueueDeclare {
    QueueDeclare {
        vhost: name(V),
        name: name(queue),
        named_by: NamedBy::Client,
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Table::new(),
        id: None,
        home: QueueHome::default(),
    }
}

fn exclusive(name: &str, owner: u64) -> QueueDeclare {
    QueueDeclare { exclusive_owner: Some(ConnectionId(owner)), ..queue(name) }
}

fn queue_with(name: &str, arguments: &[(&'static str, Value)]) -> Command {
    Command::DeclareQueue(QueueDeclare { arguments: table(arguments), ..queue(name) })
}

fn declare(state: &mut State, declare: QueueDeclare) -> QueueId {
    match apply(state, Command::DeclareQueue(declare)).unwrap().done {
        Done::QueueCreated(queue) | Done::QueueExists(queue) => queue.id,
        other @ (Done::Nothing
        | Done::Changed
        | Done::ExchangeCreated(_)
        | Done::ExchangeExists(_)
        | Done::NodeJoined(_)
        | Done::NodeExists(_)) => {
            panic!("{other:?}")
        }
    }
}

fn to_queue(source: &str, destination: &str, key: &str) -> BindingSpec {
    BindingSpec {
        vhost: name(V),
        source: name(source),
        destination: DestinationName::Queue(name(destination)),
        key: RoutingKey::from(key),
        arguments: Table::new(),
        by: None,
    }
}

fn to_exchange(source: &str, destination: &str, key: &str) -> BindingSpec {
    let destination = DestinationName::Exchange(name(destination));
    BindingSpec { destination, ..to_queue(source, "", key) }
}

fn delete_exchange(exchange: &str) -> Command {
    Command::DeleteExchange { vhost: name(V), name: name(exchange), if_unused: false }
}

fn delete_queue(queue: &str) -> Command {
    Command::DeleteQueue { vhost: name(V), name: name(queue), by: None }
}

/// The removed objects, in words.
fn gone(outcome: &Outcome) -> Vec<String> {
    (outcome.removed.iter())
        .map(|removed| match removed {
            Removed::Binding { binding, .. } => {
                format!("binding from {} by {:?}", binding.source, binding.key)
            }
            Removed::Queue(queue) => format!("queue {}", queue.name),
            Removed::Exchange { exchange, .. } => format!("exchange {}", exchange.name),
            Removed::Vhost(vhost) => format!("vhost {vhost}"),
            Removed::User(user) => format!("user {user}"),
        })
        .collect()
}
