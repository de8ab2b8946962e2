//! The broker's part in exchanges that remember: their queues, and what newly bound destinations have missed.

use crate::control_plane::View;
use crate::exchanges::Forecast;
use crate::publish::publish_to;
use crate::queue_ref::QueueRef;
use crate::timers::Tracing;
use ::routing::{Message, Passage};
use amqp091::{ShortString, Table};
use message::MessageRef;
use meta::{BindingSpec, Command, DestinationName, ExchangeDef, Name, NamedBy, QueueDeclare};
use queue_type::{Wakes, wake_all};

/// Gives what a newly bound destination has missed. COMPAT: only when the binding is new.
pub(super) fn give_history(view: &View, tracing: &Tracing, spec: &BindingSpec) {
    let source = view.exchanges.get(&spec.vhost, &spec.source);
    let Some(history) = source.and_then(|source| source.history()) else { return };
    let mut wakes = Wakes::new();
    for remembered in history {
        let message = remembered.message();
        let queues = missed_by(view, spec, &message);
        publish_to(tracing, (None, queues), &message, &mut wakes);
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
    })
}

/// The queues behind a new binding that a message of before goes to.
fn missed_by(view: &View, spec: &BindingSpec, message: &MessageRef<'_>) -> Vec<QueueRef> {
    match &spec.destination {
        DestinationName::Queue(name) => view.queue(&spec.vhost, name).into_iter().collect(),
        DestinationName::Exchange(name) => view.route(&spec.vhost, name, message),
    }
}

impl View {
    /// The fate that a client's message would have at an exchange. Nothing comes of it.
    #[must_use]
    pub fn forecast(
        &self,
        (vhost, exchange): (&str, &Name),
        message: &Message<'_>,
        now_ms: u64,
    ) -> Forecast {
        match self.exchanges.get(vhost, exchange).map(|it| (it, it.forecast(message, now_ms))) {
            // A policy that has just come has no queue yet.
            Some((it, Forecast::Delayed { .. }))
                if self.queue(vhost, &it.delayed_queue).is_none() =>
            {
                Forecast::GoesOn
            }
            Some((_, forecast)) => forecast,
            None => Forecast::GoesOn,
        }
    }

    /// Whether anybody would get what is published to an exchange.
    pub(crate) fn has_listeners(&self, vhost: &str, exchange: &str) -> bool {
        self.meta.routes(vhost).is_some_and(|routes| routes.n_bindings_from(exchange) > 0)
    }

    /// The queues a message of the broker's own goes to from an exchange.
    pub(crate) fn route(
        &self,
        vhost: &str,
        exchange: &str,
        message: &MessageRef<'_>,
    ) -> Vec<QueueRef> {
        let properties = message.view();
        let keys = [message.routing_key];
        let seen =
            Message { properties: Some(properties), ..Message::new(&keys, properties.headers()) };
        let mut ids = Vec::new();
        if let Some(routes) = self.meta.routes(vhost) {
            let pass = |_: &Name| Passage::Open;
            routes.route_from_broker(exchange.as_bytes(), &seen, pass, &mut ids);
        }
        ids.iter().filter_map(|id| self.queue_by_id(*id)).collect()
    }
}
