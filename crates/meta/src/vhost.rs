//! One virtual host and what is in it.

use std::sync::Arc;

use amqp091::Table;
use imbl::OrdMap;
use routing::{Binding, Destination, ExchangeRules, Name, Routes, RoutingKey};
use serde_json::{Map, Value};

use crate::command::DestinationName;
use crate::error::MetaError;
use crate::exchange::{ALTERNATE, ExchangeDef};
use crate::exchange_settings::ExchangeSettings;
use crate::limit::limit_reached;
use crate::parameter::Json;
use crate::policy::{self, Policy, PolicyScope, Target};
use crate::queue::QueueDef;
use crate::queue_name::{DELAYED_PREFIX, is_internal_name};
use crate::queue_settings::QueueSettings;
use crate::resource::Resource;
use crate::vhost_metadata::{VhostLimits, VhostMetadata};

/// A virtual host that exists. A clone is O(1).
#[derive(Clone, Debug)]
pub struct Vhost {
    pub(crate) name: Name,
    pub(crate) metadata: VhostMetadata,
    pub(crate) limits: VhostLimits,
    pub(crate) routes: Routes,
    pub(crate) exchanges: OrdMap<Name, Arc<ExchangeDef>>,
    pub(crate) queues: OrdMap<Name, Arc<QueueDef>>,
    pub(crate) policies: OrdMap<Name, Arc<Policy>>,
    pub(crate) operator_policies: OrdMap<Name, Arc<Policy>>,
    /// By component, then name.
    pub(crate) parameters: OrdMap<Name, OrdMap<Name, Json>>,
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
    /// As given when it was made.
    pub arguments: Table,
}

impl Vhost {
    /// The name.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// Description and the like.
    #[must_use]
    pub const fn metadata(&self) -> &VhostMetadata {
        &self.metadata
    }

    /// Limits.
    #[must_use]
    pub const fn limits(&self) -> VhostLimits {
        self.limits
    }

    /// The routing table.
    #[must_use]
    pub const fn routes(&self) -> &Routes {
        &self.routes
    }

    /// An exchange; the default exchange has the empty name.
    #[must_use]
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
    #[must_use]
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

    /// The bindings of the default exchange: every queue by its name.
    pub(crate) fn implied_bindings(&self) -> impl Iterator<Item = BindingView> {
        let queues = self.queues.values().filter(|queue| !queue.is_internal());
        queues.map(|queue| &queue.name).map(|queue| BindingView {
            source: Name::default(),
            destination: DestinationName::Queue(queue.clone()),
            key: RoutingKey::from(queue.as_str()),
            arguments: Table::new(),
        })
    }

    /// Policies by name.
    pub fn policies(&self, scope: PolicyScope) -> impl ExactSizeIterator<Item = &Arc<Policy>> {
        self.policy_map(scope).values()
    }

    /// A policy.
    #[must_use]
    pub fn policy(&self, scope: PolicyScope, name: &str) -> Option<&Arc<Policy>> {
        self.policy_map(scope).get(name)
    }

    pub(crate) const fn policy_map(&self, scope: PolicyScope) -> &OrdMap<Name, Arc<Policy>> {
        match scope {
            PolicyScope::User => &self.policies,
            PolicyScope::Operator => &self.operator_policies,
        }
    }

    pub(crate) const fn policy_map_mut(
        &mut self,
        scope: PolicyScope,
    ) -> &mut OrdMap<Name, Arc<Policy>> {
        match scope {
            PolicyScope::User => &mut self.policies,
            PolicyScope::Operator => &mut self.operator_policies,
        }
    }

    /// The policy in force for a queue: of those that match, the one with the highest priority (the
    /// first by name among equals).
    #[must_use]
    pub fn queue_policy(&self, scope: PolicyScope, queue: &QueueDef) -> Option<&Arc<Policy>> {
        if queue.is_internal() {
            return None;
        }
        self.effective_policy(scope, Target::Queue(queue.kind), &queue.name)
    }

    /// The settings of the policies in force for a queue, a user's and an operator's as one.
    #[must_use]
    pub fn queue_policy_settings(&self, queue: &QueueDef) -> Map<String, Value> {
        let policy = |scope| self.queue_policy(scope, queue).map(|policy| &**policy);
        policy::in_force(policy(PolicyScope::User), policy(PolicyScope::Operator))
    }

    /// The settings of a queue: its arguments, and the policies in force.
    #[must_use]
    pub fn queue_settings(&self, queue: &QueueDef) -> QueueSettings {
        QueueSettings::of(queue, &self.queue_policy_settings(queue))
    }

    /// Whether a policy may say in which form messages are stored.
    #[must_use]
    pub fn any_version_policy(&self) -> bool {
        let says = |policy: &Arc<Policy>| policy.settings().contains_key("queue-version");
        [PolicyScope::User, PolicyScope::Operator]
            .into_iter()
            .any(|scope| self.policies(scope).any(says))
    }

    /// An exchange's settings beyond routing: its arguments, and the policies in force.
    #[must_use]
    pub fn exchange_settings(&self, exchange: &ExchangeDef) -> ExchangeSettings {
        let mut settings = exchange.settings();
        if !exchange.name.is_empty() {
            settings.add_policy(&exchange.name, &self.exchange_policy_settings(&exchange.name));
        }
        settings
    }

    /// The settings of the policies in force for an exchange.
    fn exchange_policy_settings(&self, exchange: &str) -> Map<String, Value> {
        if self.policies.is_empty() && self.operator_policies.is_empty() {
            return Map::new();
        }
        let policy = |scope| self.exchange_policy(scope, exchange).map(|policy| &**policy);
        policy::in_force(policy(PolicyScope::User), policy(PolicyScope::Operator))
    }

    /// An exchange's routing rules, by its arguments or the policies in force.
    pub(crate) fn exchange_rules(&self, exchange: &ExchangeDef) -> ExchangeRules {
        let mut rules = exchange.rules();
        rules.watched = self.exchange_settings(exchange).any();
        if rules.alternate.is_none() {
            let settings = self.exchange_policy_settings(&exchange.name);
            rules.alternate = settings.get(ALTERNATE).and_then(Value::as_str).map(Name::from);
        }
        rules
    }

    /// The policy in force for an exchange.
    #[must_use]
    pub fn exchange_policy(&self, scope: PolicyScope, exchange: &str) -> Option<&Arc<Policy>> {
        self.effective_policy(scope, Target::Exchange, exchange)
    }

    /// The policies that match a queue, the one in force first.
    #[must_use]
    pub fn queue_policies(&self, scope: PolicyScope, queue: &QueueDef) -> Vec<&Arc<Policy>> {
        self.matching_policies(scope, Target::Queue(queue.kind), &queue.name)
    }

    /// The policies that match an exchange, the one in force first.
    #[must_use]
    pub fn exchange_policies(&self, scope: PolicyScope, exchange: &str) -> Vec<&Arc<Policy>> {
        self.matching_policies(scope, Target::Exchange, exchange)
    }

    fn matching_policies(
        &self,
        scope: PolicyScope,
        target: Target,
        name: &str,
    ) -> Vec<&Arc<Policy>> {
        let mut matching: Vec<_> =
            self.policies(scope).filter(|policy| policy.applies(target, name)).collect();
        matching.sort_by_key(|policy| std::cmp::Reverse(policy.spec().priority));
        matching
    }

    fn effective_policy(
        &self,
        scope: PolicyScope,
        target: Target,
        name: &str,
    ) -> Option<&Arc<Policy>> {
        let mut best: Option<&Arc<Policy>> = None;
        for policy in self.policies(scope) {
            // Patterns cost more than priorities.
            if best.is_none_or(|best| best.spec().priority < policy.spec().priority)
                && policy.applies(target, name)
            {
                best = Some(policy);
            }
        }
        best
    }

    /// Parameters: component, name, value.
    pub fn parameters(&self) -> impl Iterator<Item = (&Name, &Name, &Json)> {
        (self.parameters.iter()).flat_map(|(component, parameters)| {
            parameters.iter().map(move |(name, value)| (component, name, value))
        })
    }

    /// A parameter.
    #[must_use]
    pub fn parameter(&self, component: &str, name: &str) -> Option<&Json> {
        self.parameters.get(component)?.get(name)
    }

    /// Whether another queue would be one too many; then the limit.
    pub(crate) fn queue_limit_reached(&self) -> Option<i64> {
        limit_reached(self.limits.max_queues, || {
            let from = Name::from(DELAYED_PREFIX);
            let own = self.queues.range(from..).take_while(|(name, _)| is_internal_name(name));
            self.queues.len() - own.count()
        })
    }

    /// Whether an end of a binding survives a restart.
    pub(crate) fn is_durable(&self, binding: &Binding, is_durable_queue: bool) -> bool {
        let exchange = |name: &str| self.exchange(name).is_some_and(|exchange| exchange.durable);
        let destination = match binding.destination() {
            Destination::Queue(_) => is_durable_queue,
            Destination::Exchange(name) => exchange(name),
        };
        exchange(binding.source()) && destination
    }
}
