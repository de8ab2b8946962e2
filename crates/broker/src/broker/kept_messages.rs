//! The broker's part in exchanges that keep messages: their queues, and what newly bound destinations have
//! missed.

use crate::publish::publish_to;
use amqp091::{ShortString, Table};
use control::View;
use message::MessageRef;
use meta::{
    BindingSpec, Command, DestinationName, ExchangeDef, Name, NamedBy, QueueDeclare, QueueHome,
};
use queue_type::{Wakes, wake_all};
use queues::QueueRef;
use trace::Tracing;

/// Gives what a newly bound destination has missed. COMPAT: only when the binding is new.
pub(super) fn give_history(view: &View, tracing: &Tracing, spec: &BindingSpec) {
    let source = view.exchanges.get(&spec.vhost, &spec.source);
    let Some(history) = source.and_then(|source| source.history()) else { return };
    let mut wakes = Wakes::new();
    for remembered in history {
        let message = remembered.message();
        let queues = missed_by(view, spec, &message);
        publish_to(tracing, None, queues, &message, &mut wakes);
    }
    wake_all(&mut wakes);
}

/// Makes the queue that holds messages back for an exchange: what is over goes on there.
pub(super) fn declaration_of(vhost: &Name, queue: Name, exchange: &ExchangeDef) -> Command {
    let mut arguments = Table::new();
    let exchange_name: &str = &exchange.name;
    arguments.push(ShortString::from_static("x-dead-letter-exchange"), exchange_name);
    arguments.push(ShortString::from_static("x-queue-type"), "classic");
    Command::DeclareQueue(QueueDeclare {
        vhost: vhost.clone(),
        name: queue,
        named_by: NamedBy::Server,
        durable: exchange.durable,
        auto_delete: false,
        exclusive_owner: None,
        arguments,
        id: None,
        home: QueueHome::default(),
    })
}

/// The queues behind a new binding that a message of before goes to.
fn missed_by(view: &View, spec: &BindingSpec, message: &MessageRef<'_>) -> Vec<QueueRef> {
    match &spec.destination {
        DestinationName::Queue(name) => view.queue(&spec.vhost, name).into_iter().collect(),
        DestinationName::Exchange(name) => view.route(&spec.vhost, name, message),
    }
}
