//! Exchanges that do more with a message than route it, and what they keep for that.
//!
//! Most exchanges are not here: routing asks for a [`WatchedExchange`] only where definitions say so.

mod history;

use crate::broker::{Broker, View};
use crate::queue::{Incoming, Publishes, Queue, Wakes, wake_all};
use ::routing::{Message, Passage};
use amqp091::PropertiesRef;
use history::{History, Remembered};
use message::MessageRef;
use meta::{
    BindingSpec, Command, DestinationName, Done, ExchangeDef, ExchangeSettings, Name, Outcome,
    Removed, State,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// An exchange that is asked about each message that comes to it.
#[derive(Debug)]
pub(crate) struct WatchedExchange {
    settings: ExchangeSettings,
    history: Arc<Mutex<History>>,
}

impl WatchedExchange {
    fn new(settings: ExchangeSettings) -> Self {
        Self { settings, history: Arc::default() }
    }

    /// The same with other settings.
    fn with(&self, settings: ExchangeSettings) -> Self {
        Self { settings, history: Arc::clone(&self.history) }
    }

    /// Whether it remembers this message once it is routed.
    pub(crate) fn remembers(&self, message: &Message<'_>) -> bool {
        self.settings.history.is_some() && !history::is_excluded(message.headers)
    }

    /// Keeps a message for those who are bound later.
    pub(crate) fn remember(&self, message: &MessageRef<'_>) {
        let Some(length) = self.settings.history else { return };
        stdx::lock(&self.history).add(message, length);
    }

    /// Whether a message goes on from here.
    #[expect(clippy::unused_self, reason = "types to come look at messages")]
    pub(crate) const fn passage(&self, _message: &Message<'_>) -> Passage {
        Passage::Open
    }

    fn remembered(&self) -> Vec<Remembered> {
        stdx::lock(&self.history).all()
    }
}

type OfVhost = HashMap<Name, Arc<WatchedExchange>>;

/// All watched exchanges as of some moment, by virtual host and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched(HashMap<Name, OfVhost>);

impl Watched {
    pub(crate) fn get(&self, vhost: &str, exchange: &str) -> Option<&Arc<WatchedExchange>> {
        self.0.get(vhost)?.get(exchange)
    }
}

/// The watched exchanges as definitions change.
#[derive(Debug, Default)]
pub(crate) struct Exchanges(Mutex<Arc<Watched>>);

impl Exchanges {
    /// Those of these definitions.
    pub(crate) fn of(meta: &State) -> Self {
        let exchanges = Self::default();
        exchanges.review(meta);
        exchanges
    }

    pub(crate) fn now(&self) -> Arc<Watched> {
        Arc::clone(&stdx::lock(&self.0))
    }

    /// Makes them what the definitions say. What exchanges keep, they keep.
    pub(crate) fn review(&self, meta: &State) {
        let mut now = stdx::lock(&self.0);
        let mut watched = Watched::default();
        for vhost in meta.vhosts() {
            for exchange in vhost.exchanges() {
                let settings = vhost.exchange_settings(exchange);
                if settings.any() {
                    let before = now.get(vhost.name(), &exchange.name);
                    let after = match before {
                        Some(before) if before.settings == settings => Arc::clone(before),
                        Some(before) => Arc::new(before.with(settings)),
                        None => Arc::new(WatchedExchange::new(settings)),
                    };
                    let of_vhost = watched.0.entry(vhost.name().clone()).or_default();
                    of_vhost.insert(exchange.name.clone(), after);
                }
            }
        }
        *now = Arc::new(watched);
    }

    /// Follows a change of definitions.
    pub(crate) fn follow(&self, meta: &State, command: &Command, outcome: &Outcome) {
        let is_watched = |vhost: &str, exchange: &ExchangeDef| {
            meta.vhost(vhost).is_some_and(|vhost| vhost.exchange_settings(exchange).any())
        };
        let is_created = match (command, &outcome.done) {
            (Command::DeclareExchange(declare), Done::ExchangeCreated(exchange)) => {
                is_watched(&declare.vhost, exchange)
            }
            _ => false,
        };
        let is_removed = outcome.removed.iter().any(|removed| match removed {
            Removed::Exchange { vhost, exchange } => {
                self.now().get(vhost, &exchange.name).is_some()
            }
            Removed::Binding { .. } | Removed::Queue(_) | Removed::Vhost(_) | Removed::User(_) => {
                false
            }
        });
        let is_policy = matches!(command, Command::SetPolicy { .. } | Command::ClearPolicy { .. });
        if is_created || is_removed || is_policy {
            self.review(meta);
        }
    }
}

impl Broker {
    /// Gives what a newly bound destination has missed. COMPAT: only when the binding is new.
    pub(crate) fn give_history(&self, spec: &BindingSpec) {
        let view = self.view();
        let source = view.exchanges.get(&spec.vhost, &spec.source);
        let Some(source) = source.filter(|source| source.settings.history.is_some()) else {
            return;
        };
        let mut wakes = Wakes::new();
        for remembered in source.remembered() {
            let Some(message) = remembered.message() else { continue };
            for queue in missed_by(&view, spec, &message) {
                put_in(&queue, &message, &mut wakes);
            }
        }
        wake_all(&mut wakes);
    }
}

/// The queues behind a new binding that a message of before goes to.
fn missed_by(view: &View, spec: &BindingSpec, message: &MessageRef<'_>) -> Vec<Arc<Queue>> {
    match &spec.destination {
        DestinationName::Queue(name) => view.queue(&spec.vhost, name).into_iter().collect(),
        DestinationName::Exchange(name) => view.route(&spec.vhost, name, message),
    }
}

impl View {
    /// The queues a message of the broker's own goes to from an exchange.
    pub(crate) fn route(
        &self,
        vhost: &str,
        exchange: &str,
        message: &MessageRef<'_>,
    ) -> Vec<Arc<Queue>> {
        let properties = PropertiesRef::trusted(message.properties);
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

/// Puts one message of the broker's own into a queue; one that is being read after a start takes
/// none.
fn put_in(queue: &Queue, message: &MessageRef<'_>, wakes: &mut Wakes) {
    if queue.is_loading() {
        return;
    }
    let resolve = |_: u32| Incoming { message: *message, home: None, confirm: false };
    let batch = Publishes {
        items: &[0],
        resolve: &resolve,
        any_logged: message.persistent,
        any_stored: false,
    };
    queue.publish(&batch, wakes);
}
