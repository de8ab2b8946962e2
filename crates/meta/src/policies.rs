//! The policies of a virtual host: which of them apply to a queue or an exchange.

use std::cmp::Reverse;
use std::sync::Arc;

use imbl::OrdMap;
use routing::{ExchangeRules, Name};
use serde_json::{Map, Value};

use crate::error::MetaError;
use crate::exchange::{ALTERNATE, ExchangeDef};
use crate::exchange_settings::ExchangeSettings;
use crate::policy::{self, ALL_POLICIES_STEPS_MAX, POLICY_STEPS_MAX, Policy, PolicyScope, Target};
use crate::queue::QueueDef;
use crate::queue_settings::QueueSettings;
use crate::queue_type::QueueKind;
use crate::sharding::{Sharded, Sharding};
use crate::stream_settings::StreamSettings;

/// The policies of a virtual host by name, those of users and those of operators apart.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    by_users: OrdMap<Name, Arc<Policy>>,
    by_operators: OrdMap<Name, Arc<Policy>>,
    /// The exchanges that these give shards.
    sharded: Sharded,
}

impl Policies {
    const fn of(&self, scope: PolicyScope) -> &OrdMap<Name, Arc<Policy>> {
        match scope {
            PolicyScope::User => &self.by_users,
            PolicyScope::Operator => &self.by_operators,
        }
    }

    const fn of_mut(&mut self, scope: PolicyScope) -> &mut OrdMap<Name, Arc<Policy>> {
        match scope {
            PolicyScope::User => &mut self.by_users,
            PolicyScope::Operator => &mut self.by_operators,
        }
    }

    /// Policies by name.
    pub fn iter(&self, scope: PolicyScope) -> impl ExactSizeIterator<Item = &Arc<Policy>> {
        self.of(scope).values()
    }

    /// A policy.
    pub fn get(&self, scope: PolicyScope, name: &str) -> Option<&Arc<Policy>> {
        self.of(scope).get(name)
    }

    /// Refuses a policy whose expression, or that of all with it, would take too long for each name.
    pub(crate) fn check_room(&self, scope: PolicyScope, policy: &Policy) -> Result<(), MetaError> {
        let too_dear = |what: &str| Err(MetaError::Invalid(format!("{what} too long for a name")));
        let of_one = policy.steps();
        if of_one > POLICY_STEPS_MAX {
            return too_dear("the pattern may take");
        }
        let replaced = self.get(scope, &policy.spec.name).map_or(0, |it| it.steps());
        let all = self.by_users.values().chain(self.by_operators.values());
        let of_all = all.map(|it| it.steps()).sum::<usize>().saturating_sub(replaced) + of_one;
        if of_all > ALL_POLICIES_STEPS_MAX && of_one > replaced {
            return too_dear("the patterns of all policies of the virtual host may take");
        }
        Ok(())
    }

    pub(crate) fn set(&mut self, scope: PolicyScope, name: &Name, policy: Arc<Policy>) {
        self.of_mut(scope).insert(name.clone(), policy);
    }

    pub(crate) fn clear(&mut self, scope: PolicyScope, name: &Name) -> Result<(), MetaError> {
        let removed = self.of_mut(scope).remove(name);
        removed.map(|_| ()).ok_or_else(|| MetaError::ItemNotFound(format!("Policy '{name}'")))
    }

    /// The policy in force for a queue: of those that match, the one with the highest priority (the
    /// first by name among equals).
    pub fn of_queue(&self, scope: PolicyScope, queue: &QueueDef) -> Option<&Arc<Policy>> {
        if queue.is_internal() {
            return None;
        }
        self.effective(scope, Target::Queue(queue.kind), &queue.name)
    }

    /// The policy in force for an exchange.
    pub fn of_exchange(&self, scope: PolicyScope, exchange: &str) -> Option<&Arc<Policy>> {
        self.effective(scope, Target::Exchange, exchange)
    }

    /// The policies that match a queue, the one in force first.
    #[must_use]
    pub fn matching_queue(&self, scope: PolicyScope, queue: &QueueDef) -> Vec<&Arc<Policy>> {
        self.matching(scope, Target::Queue(queue.kind), &queue.name)
    }

    /// The policies that match an exchange, the one in force first.
    #[must_use]
    pub fn matching_exchange(&self, scope: PolicyScope, exchange: &str) -> Vec<&Arc<Policy>> {
        self.matching(scope, Target::Exchange, exchange)
    }

    /// The settings of the policies in force for a queue, a user's and an operator's as one.
    #[must_use]
    pub fn settings_of_queue(&self, queue: &QueueDef) -> Map<String, Value> {
        self.in_force(|scope| self.of_queue(scope, queue))
    }

    /// The settings of the policies that are going to be in force for a queue that is not declared yet.
    pub(crate) fn settings_of_new_queue(&self, kind: QueueKind, name: &str) -> Map<String, Value> {
        self.in_force(|scope| self.effective(scope, Target::Queue(kind), name))
    }

    /// The settings of a queue: its arguments, and the policies in force.
    #[must_use]
    pub fn queue_settings(&self, queue: &QueueDef) -> QueueSettings {
        QueueSettings::of(queue, &self.settings_of_queue(queue))
    }

    /// The settings of a stream: its arguments, and the policies in force.
    #[must_use]
    pub fn stream_settings(&self, stream: &QueueDef) -> StreamSettings {
        StreamSettings::of(stream, &self.settings_of_queue(stream))
    }

    /// Whether a policy may say in which form messages are stored.
    #[must_use]
    pub fn any_version_policy(&self) -> bool {
        let says = |policy: &Arc<Policy>| policy.settings.contains_key("queue-version");
        [PolicyScope::User, PolicyScope::Operator]
            .into_iter()
            .any(|scope| self.iter(scope).any(says))
    }

    /// An exchange's settings beyond routing: its arguments, and the policies in force.
    #[must_use]
    pub fn exchange_settings(&self, exchange: &ExchangeDef) -> ExchangeSettings {
        let mut settings = exchange.settings();
        if !exchange.name.is_empty() {
            settings.add_policy(&exchange.name, &self.settings_of_exchange(&exchange.name));
        }
        settings
    }

    /// An exchange's routing rules, by its arguments or the policies in force.
    pub(crate) fn exchange_rules(&self, exchange: &ExchangeDef) -> ExchangeRules {
        let mut rules = exchange.rules();
        rules.watched = self.exchange_settings(exchange).any();
        if rules.alternate.is_none() {
            let settings = self.settings_of_exchange(&exchange.name);
            rules.alternate = settings.get(ALTERNATE).and_then(Value::as_str).map(Name::from);
        }
        rules
    }

    /// The sharded exchanges by name.
    pub const fn sharded(&self) -> &Sharded {
        &self.sharded
    }

    /// Notes whether policies give an exchange shards; the default exchange never has any.
    pub(crate) fn shard(&mut self, exchange: &Name) {
        let settings = self.settings_of_exchange(exchange);
        match Sharding::of(&settings).filter(|_| !exchange.is_empty()) {
            Some(sharding) => drop(self.sharded.insert(exchange.clone(), sharding)),
            None => self.forget_exchange(exchange),
        }
    }

    /// Forgets an exchange that is gone.
    pub(crate) fn forget_exchange(&mut self, exchange: &Name) {
        self.sharded.remove(exchange);
    }

    /// The settings of the policies in force for an exchange.
    pub(crate) fn settings_of_exchange(&self, exchange: &str) -> Map<String, Value> {
        if self.by_users.is_empty() && self.by_operators.is_empty() {
            return Map::new();
        }
        self.in_force(|scope| self.of_exchange(scope, exchange))
    }

    fn in_force<'a>(
        &'a self,
        policy: impl Fn(PolicyScope) -> Option<&'a Arc<Policy>>,
    ) -> Map<String, Value> {
        let policy = |scope| policy(scope).map(|policy| &**policy);
        policy::in_force(policy(PolicyScope::User), policy(PolicyScope::Operator))
    }

    fn matching(&self, scope: PolicyScope, target: Target, name: &str) -> Vec<&Arc<Policy>> {
        let matching = self.iter(scope).filter(|policy| policy.applies(target, name));
        let mut matching: Vec<_> = matching.collect();
        matching.sort_by_key(|policy| Reverse(policy.spec.priority));
        matching
    }

    fn effective(&self, scope: PolicyScope, target: Target, name: &str) -> Option<&Arc<Policy>> {
        let mut best: Option<&Arc<Policy>> = None;
        for policy in self.iter(scope) {
            // Patterns cost more than priorities.
            if best.is_none_or(|best| best.spec.priority < policy.spec.priority)
                && policy.applies(target, name)
            {
                best = Some(policy);
            }
        }
        best
    }
}
