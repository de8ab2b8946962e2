//! An exchange: its rules, its bindings, and the index its kind routes by.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::binding::{Binding, BySource};
use crate::choice::Choices;
use crate::destination::Destination;
use crate::exchange_kind::{ExchangeKind, ExchangeRules, HashOn};
use crate::headers_index::HeadersIndex;
use crate::message::Message;
use crate::name::{Name, RoutingKey};
use crate::selector::Steps;
use crate::targets::{Group, Targets};
use crate::topic::Trie;
use crate::topic_rules::TopicRules;

/// The parts of a message that decide where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DecidedBy {
    /// Exchange and keys.
    Key,
    /// Exchange, keys and headers.
    Headers,
    /// The message itself: exchange, keys and headers do not say where it goes.
    Message,
}

#[derive(Clone, Debug)]
enum Index {
    Direct(OrdMap<RoutingKey, Targets>),
    Fanout(Targets),
    Topic(Trie),
    Headers(HeadersIndex),
    Choice(Choices),
    Rules(TopicRules),
}

#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) name: Name,
    pub(crate) kind: ExchangeKind,
    pub(crate) rules: ExchangeRules,
    bindings: OrdSet<BySource>,
    index: Index,
}

impl Exchange {
    pub(crate) fn new(name: Name, kind: ExchangeKind, rules: ExchangeRules) -> Self {
        let index = match kind {
            ExchangeKind::Direct => Index::Direct(OrdMap::new()),
            ExchangeKind::Fanout
            | ExchangeKind::RecentHistory
            | ExchangeKind::Deduplication
            | ExchangeKind::Delayed
            | ExchangeKind::FederationUpstream => Index::Fanout(Targets::default()),
            ExchangeKind::Topic => Index::Topic(Trie::default()),
            ExchangeKind::Headers => Index::Headers(HeadersIndex::default()),
            ExchangeKind::ConsistentHash
            | ExchangeKind::ModulusHash
            | ExchangeKind::Random
            | ExchangeKind::LocalRandom => Index::Choice(Choices::default()),
            ExchangeKind::JmsTopic => Index::Rules(TopicRules::default()),
        };
        Self { name, kind, rules, bindings: OrdSet::new(), index }
    }

    /// The parts of a message with these keys that decide where this exchange routes it.
    pub(crate) fn decided_by(&self, keys: &[&[u8]]) -> DecidedBy {
        match self.kind {
            _ if self.rules.watched => DecidedBy::Message,
            ExchangeKind::Direct
            | ExchangeKind::Fanout
            | ExchangeKind::Topic
            | ExchangeKind::ModulusHash
            | ExchangeKind::RecentHistory
            | ExchangeKind::Deduplication
            | ExchangeKind::Delayed => DecidedBy::Key,
            ExchangeKind::Headers | ExchangeKind::FederationUpstream => DecidedBy::Headers,
            ExchangeKind::ConsistentHash => match self.rules.hash_on {
                HashOn::RoutingKey => DecidedBy::Key,
                HashOn::Header(_) => DecidedBy::Headers,
                HashOn::MessageId | HashOn::CorrelationId | HashOn::Timestamp => DecidedBy::Message,
            },
            ExchangeKind::JmsTopic
                if let Index::Rules(rules) = &self.index
                    && rules.are_of_keys(keys) =>
            {
                DecidedBy::Key
            }
            ExchangeKind::Random | ExchangeKind::LocalRandom | ExchangeKind::JmsTopic => {
                DecidedBy::Message
            }
        }
    }

    pub(crate) fn n_bindings(&self) -> usize {
        self.bindings.len()
    }

    pub(crate) fn bindings(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.bindings.iter().map(|BySource(binding)| binding)
    }

    /// Adds a binding; false if it was there.
    pub(crate) fn add(&mut self, binding: &Arc<Binding>) -> bool {
        let entry = BySource(Arc::clone(binding));
        if self.bindings.contains(&entry) {
            return false;
        }
        self.bindings.insert(entry);
        let (key, destination) = (&binding.key, &binding.destination);
        match &mut self.index {
            Index::Direct(keys) => {
                if let Some(targets) = keys.get_mut(key) {
                    targets.add(destination);
                } else {
                    let mut targets = Targets::default();
                    targets.add(destination);
                    keys.insert(key.clone(), targets);
                }
            }
            Index::Fanout(targets) => targets.add(destination),
            Index::Topic(trie) => trie.add(key, destination),
            Index::Headers(index) => index.add(binding),
            Index::Choice(choices) => choices.add(binding),
            Index::Rules(rules) => rules.add(binding),
        }
        true
    }

    /// Removes the binding of the probe's identity and gives it back.
    pub(crate) fn remove(&mut self, probe: &Arc<Binding>) -> Option<Arc<Binding>> {
        let BySource(binding) = self.bindings.remove(&BySource(Arc::clone(probe)))?;
        let (key, destination) = (&binding.key, &binding.destination);
        match &mut self.index {
            Index::Direct(keys) => {
                if let Some(targets) = keys.get_mut(key) {
                    targets.remove(destination);
                    if targets.is_empty() {
                        keys.remove(key);
                    }
                }
            }
            Index::Fanout(targets) => targets.remove(destination),
            Index::Topic(trie) => trie.remove(key, destination),
            Index::Headers(index) => index.remove(&binding),
            Index::Choice(choices) => choices.remove(&binding),
            Index::Rules(rules) => rules.remove(&binding),
        }
        Some(binding)
    }

    /// Finds the destinations of a message, in groups: no group is empty, and within a group each destination
    /// comes once and in order. Selectors are evaluated while `steps` are left.
    pub(crate) fn find<'e>(
        &'e self,
        message: &Message<'_>,
        steps: &mut Steps,
        mut found: impl FnMut(Group<'e>),
    ) {
        let keys = message.keys;
        match &self.index {
            Index::Direct(map) => {
                for targets in keys.iter().filter_map(|key| map.get(*key)) {
                    found(Group::Targets(targets));
                }
            }
            Index::Fanout(targets) if targets.is_empty() || !self.lets_by(message, steps) => {}
            Index::Fanout(targets) => found(Group::Targets(targets)),
            Index::Topic(trie) => {
                for key in keys {
                    trie.find(key, |targets| found(Group::Targets(targets)));
                }
            }
            Index::Headers(index) => {
                let found = |destination| found(Group::One(destination));
                steps.note_compared(index.find(message.headers, found));
            }
            Index::Choice(choices) => {
                if let Some(destination) = self.choose(choices, message) {
                    found(Group::One(destination));
                }
            }
            Index::Rules(rules) => rules.find(message, steps, found),
        }
    }

    fn lets_by(&self, message: &Message<'_>, steps: &mut Steps) -> bool {
        let downstream = self.rules.downstream.as_ref();
        downstream.is_none_or(|downstream| downstream.takes(message.headers, steps))
    }

    fn choose<'e>(&self, choices: &'e Choices, message: &Message<'_>) -> Option<&'e Destination> {
        match self.kind {
            ExchangeKind::ConsistentHash => choices.by_lot(message.hash(&self.rules.hash_on)),
            ExchangeKind::ModulusHash => choices.by_modulus(message.hash(&HashOn::RoutingKey)),
            ExchangeKind::Random | ExchangeKind::LocalRandom => choices.by_modulus(message.chance),
            ExchangeKind::Direct
            | ExchangeKind::Fanout
            | ExchangeKind::Topic
            | ExchangeKind::Headers
            | ExchangeKind::RecentHistory
            | ExchangeKind::JmsTopic
            | ExchangeKind::Deduplication
            | ExchangeKind::Delayed
            | ExchangeKind::FederationUpstream => None,
        }
    }
}
