//! A virtual host: its exchanges, queues, bindings, policies and parameters.

use std::sync::Arc;

use amqp091::Table;
use imbl::OrdMap;
use routing::{Binding, Destination, Name, Routes, RoutingKey};

use crate::command::DestinationName;
use crate::error::MetaError;
use crate::exchange::{ExchangeDef, PREDECLARED};
use crate::limit::limit_reached;
use crate::parameters::Parameters;
use crate::policies::Policies;
use crate::policy::{Policy, PolicyScope, Target};
use crate::queue::QueueDef;
use crate::queue_name::{DELAYED_PREFIX, is_internal_name};
use crate::resource::Resource;
use crate::vhost_metadata::{VhostLimits, VhostMetadata};

/// A virtual host that exists. A clone is O(1).
#[derive(Clone, Debug)]
pub struct Vhost {
    /// The name.
    pub name: Name,
    /// The metadata that operators give.
    pub metadata: VhostMetadata,
    /// Limits.
    pub limits: VhostLimits,
    /// The routing table.
    pub routes: Routes,
    exchanges: OrdMap<Name, Arc<ExchangeDef>>,
    queues: OrdMap<Name, Arc<QueueDef>>,
    /// The policies.
    pub policies: Policies,
    /// The parameters.
    pub parameters: Parameters,
}

/// A binding as it is listed: destinations by name, those of the default exchange included.
#[derive(Clone, Debug, PartialEq)]
pub struct BindingView {
    /// The exchange that routes; empty for the default exchange.
    pub source: Name,
    /// The destination.
    pub destination: DestinationName,
    /// The binding key.
    pub key: RoutingKey,
    /// The arguments as given when the binding was made.
    pub arguments: Table,
}

impl BindingView {
    /// The binding of the default exchange by which a queue is reached under its name.
    pub(crate) fn implied(queue: &Name) -> Self {
        Self {
            source: Name::default(),
            destination: DestinationName::Queue(queue.clone()),
            key: RoutingKey::from(queue.as_str()),
            arguments: Table::new(),
        }
    }
}

impl Vhost {
    /// A virtual host with the exchanges that each has.
    pub(crate) fn new(name: &Name, metadata: &VhostMetadata) -> Self {
        let mut vhost = Self {
            name: name.clone(),
            metadata: metadata.clone(),
            limits: VhostLimits::default(),
            routes: Routes::new(),
            exchanges: OrdMap::new(),
            queues: OrdMap::new(),
            policies: Policies::default(),
            parameters: Parameters::default(),
        };
        for (exchange, kind, internal) in PREDECLARED {
            vhost.insert_exchange(Arc::new(ExchangeDef {
                name: Name::from(exchange),
                kind,
                durable: true,
                auto_delete: false,
                internal,
                arguments: Table::new(),
            }));
        }
        vhost
    }

    /// An exchange; the default exchange has the empty name.
    pub fn exchange(&self, name: &str) -> Option<&Arc<ExchangeDef>> {
        self.exchanges.get(name)
    }

    /// An exchange that must exist.
    ///
    /// # Errors
    /// `no exchange '...' in vhost '...'`.
    pub fn require_exchange(&self, name: &str) -> Result<&Arc<ExchangeDef>, MetaError> {
        let missing = || Resource::exchange(&self.name, &Name::from(name));
        self.exchange(name).ok_or_else(|| MetaError::NotFound(missing()))
    }

    /// All exchanges by name, the default one included.
    pub fn exchanges(&self) -> impl ExactSizeIterator<Item = &Arc<ExchangeDef>> {
        self.exchanges.values()
    }

    /// A queue.
    pub fn queue(&self, name: &str) -> Option<&Arc<QueueDef>> {
        self.queues.get(name)
    }

    /// A queue that must exist.
    ///
    /// # Errors
    /// `no queue '...' in vhost '...'`.
    pub fn require_queue(&self, name: &str) -> Result<&Arc<QueueDef>, MetaError> {
        let missing = || Resource::queue(&self.name, &Name::from(name));
        self.queue(name).ok_or_else(|| MetaError::NotFound(missing()))
    }

    /// All queues by name.
    pub fn queues(&self) -> impl ExactSizeIterator<Item = &Arc<QueueDef>> {
        self.queues.values()
    }

    /// The queues whose names are not below `from`, by name.
    pub(crate) fn queues_from(&self, from: Name) -> impl Iterator<Item = &Arc<QueueDef>> {
        self.queues.range(from..).map(|(_, queue)| queue)
    }

    /// The limit of queues, if `n` more would exceed it.
    pub(crate) fn queue_limit_exceeded_by(&self, n: usize) -> Option<i64> {
        let before_last = n.checked_sub(1)?;
        limit_reached(self.limits.max_queues, || {
            let from = Name::from(DELAYED_PREFIX);
            let own = self.queues.range(from..).take_while(|(name, _)| is_internal_name(name));
            self.queues.len() - own.count() + before_last
        })
    }

    /// Whether an end of a binding survives a restart.
    pub(crate) fn is_durable(&self, binding: &Binding, is_durable_queue: bool) -> bool {
        let exchange = |name: &str| self.exchange(name).is_some_and(|exchange| exchange.durable);
        let destination = match &binding.destination {
            Destination::Queue(_) => is_durable_queue,
            Destination::Exchange(name) => exchange(name),
        };
        exchange(&binding.source) && destination
    }

    /// Changes policies, and makes the exchanges follow those that are in force then. Exchanges that no
    /// changed policy matches, before or after, stay as they are.
    pub(crate) fn change_policies<T>(
        &mut self,
        scope: PolicyScope,
        name: &Name,
        change: impl FnOnce(&mut Policies) -> T,
    ) -> T {
        let before = self.policies.clone();
        let changed = change(&mut self.policies);
        let policies = [before.get(scope, name), self.policies.get(scope, name)];
        let policies: Vec<_> = policies.into_iter().flatten().cloned().collect();
        let is_concerned = |exchange: &&Arc<ExchangeDef>| {
            let applies = |it: &Arc<Policy>| it.applies(Target::Exchange, &exchange.name);
            !exchange.name.is_empty() && policies.iter().any(applies)
        };
        for exchange in self.exchanges.values().filter(is_concerned) {
            self.policies.shard(&exchange.name);
            let rules = self.policies.exchange_rules(exchange);
            if rules != before.exchange_rules(exchange) {
                self.routes.put_exchange(exchange.name.clone(), exchange.routes_as(), rules);
            }
        }
        changed
    }

    /// Adds an exchange. The default exchange has no place in the routing table.
    pub(crate) fn insert_exchange(&mut self, exchange: Arc<ExchangeDef>) {
        if !exchange.name.is_empty() {
            self.policies.shard(&exchange.name);
            let rules = self.policies.exchange_rules(&exchange);
            self.routes.put_exchange(exchange.name.clone(), exchange.routes_as(), rules);
        }
        self.exchanges.insert(exchange.name.clone(), exchange);
    }

    /// Removes an exchange, with its bindings.
    pub(crate) fn take_exchange(
        &mut self,
        name: &Name,
    ) -> Option<(Arc<ExchangeDef>, Vec<Arc<Binding>>)> {
        let exchange = self.exchanges.remove(name)?;
        self.policies.forget_exchange(name);
        Some((exchange, self.routes.remove_exchange(name)))
    }

    /// Adds a queue. A queue that clients may not see has no place in the routing table.
    pub(crate) fn insert_queue(&mut self, queue: Arc<QueueDef>) {
        assert!(!self.queues.contains_key(&queue.name), "a name is that of one queue");
        if !queue.is_internal() {
            self.routes.put_queue(queue.name.clone(), queue.id);
        }
        self.queues.insert(queue.name.clone(), queue);
    }

    /// Replaces the definition of a queue of the same name.
    pub(crate) fn set_queue(&mut self, queue: Arc<QueueDef>) {
        self.queues.insert(queue.name.clone(), queue);
    }

    /// Removes a queue and returns its bindings.
    pub(crate) fn take_queue(&mut self, name: &Name) -> Vec<Arc<Binding>> {
        self.queues.remove(name);
        self.routes.remove_queue(name)
    }
}
