//! The index of the bindings of an `x-jms-topic` exchange: those whose key counts by it, and the others.

use crate::binding::{Binding, BySource};
use crate::message::Message;
use crate::name::RoutingKey;
use crate::selector::Steps;
use crate::targets::{Group, Targets};
use imbl::{OrdMap, OrdSet};
use std::sync::Arc;

/// The bindings of an exchange, by what is to be looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopicRules {
    by_key: OrdMap<RoutingKey, RulesOfKey>,
    /// Bindings whose selector is evaluated for each message.
    others: OrdSet<BySource>,
}

/// The bindings with one key, which counts.
#[derive(Clone, Debug, Default)]
struct RulesOfKey {
    /// The destinations of all messages with the key.
    all: Targets,
    /// Bindings that lead on some of the messages.
    some: OrdSet<BySource>,
    /// The number of these that have a selector.
    n_selectors: usize,
}

impl TopicRules {
    pub(crate) fn add(&mut self, binding: &Arc<Binding>) {
        let Some(rule) = binding.topic_rule().filter(|rule| rule.matches_key) else {
            self.others.insert(BySource(Arc::clone(binding)));
            return;
        };
        let rules = self.by_key.entry(binding.key.clone()).or_default();
        if rule.is_of_key_alone() {
            rules.all.add(&binding.destination);
        } else {
            rules.n_selectors += usize::from(rule.selector.is_some());
            rules.some.insert(BySource(Arc::clone(binding)));
        }
    }

    pub(crate) fn remove(&mut self, binding: &Arc<Binding>) {
        let Some(rule) = binding.topic_rule().filter(|rule| rule.matches_key) else {
            self.others.remove(&BySource(Arc::clone(binding)));
            return;
        };
        let Some(rules) = self.by_key.get_mut(&binding.key) else { return };
        if rule.is_of_key_alone() {
            rules.all.remove(&binding.destination);
        } else {
            rules.n_selectors -= usize::from(rule.selector.is_some());
            rules.some.remove(&BySource(Arc::clone(binding)));
        }
        if rules.all.is_empty() && rules.some.is_empty() {
            self.by_key.remove(&binding.key);
        }
    }

    /// Whether all messages with these keys go to the same destinations. Who publishes them does not count:
    /// routes are remembered for each connection by itself.
    pub(crate) fn are_of_keys(&self, keys: &[&[u8]]) -> bool {
        let has_selectors =
            |key: &&[u8]| self.by_key.get(*key).is_some_and(|it| it.n_selectors > 0);
        self.others.is_empty() && !keys.iter().any(has_selectors)
    }

    /// Finds the destinations of a message while `steps` are left.
    pub(crate) fn find<'e>(
        &'e self,
        message: &Message<'_>,
        steps: &mut Steps,
        mut found: impl FnMut(Group<'e>),
    ) {
        let of_keys = || message.keys.iter().filter_map(|key| self.by_key.get(*key));
        for rules in of_keys().filter(|rules| !rules.all.is_empty()) {
            found(Group::Targets(&rules.all));
        }
        for BySource(binding) in of_keys().flat_map(|rules| &rules.some).chain(&self.others) {
            if binding.topic_rule().is_some_and(|rule| rule.selects(message, steps)) {
                found(Group::One(&binding.destination));
            } else if steps.ran_out() {
                break;
            }
        }
    }
}
