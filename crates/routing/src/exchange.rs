//! One exchange: its rules, its bindings, and the index its kind routes by.

use std::sync::Arc;

use amqp091::TableRef;
use imbl::{OrdMap, OrdSet};

use crate::binding::{Binding, BySource, Destination};
use crate::headers_index::HeadersIndex;
use crate::name::{Name, RoutingKey};
use crate::targets::Targets;
use crate::topic::Trie;

/// How an exchange chooses among its bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExchangeKind {
    /// The binding key equals the routing key.
    Direct,
    /// All bindings.
    Fanout,
    /// The binding key is a pattern over the words of the routing key.
    Topic,
    /// The arguments of the binding match the headers of the message.
    Headers,
}

impl ExchangeKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Fanout, Self::Topic, Self::Headers];

    /// The name used on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What an exchange does apart from choosing bindings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExchangeRules {
    /// Clients may not publish to it; bindings and dead-lettering may.
    pub internal: bool,
    /// The exchange that gets what finds no binding here.
    pub alternate: Option<Name>,
}

#[derive(Clone, Debug)]
enum Index {
    Direct(OrdMap<RoutingKey, Targets>),
    Fanout(Targets),
    Topic(Trie),
    Headers(HeadersIndex),
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
            ExchangeKind::Fanout => Index::Fanout(Targets::default()),
            ExchangeKind::Topic => Index::Topic(Trie::default()),
            ExchangeKind::Headers => Index::Headers(HeadersIndex::default()),
        };
        Self { name, kind, rules, bindings: OrdSet::new(), index }
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
        let (key, destination) = (binding.key(), binding.destination());
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
        }
        true
    }

    /// Removes the binding of the probe's identity and gives it back.
    pub(crate) fn remove(&mut self, probe: &Arc<Binding>) -> Option<Arc<Binding>> {
        let BySource(binding) = self.bindings.remove(&BySource(Arc::clone(probe)))?;
        let (key, destination) = (binding.key(), binding.destination());
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
        }
        Some(binding)
    }

    /// Hands over groups of destinations: within a group each comes once and in order.
    pub(crate) fn find<'e>(
        &'e self,
        keys: &[&[u8]],
        headers: Option<TableRef<'_>>,
        mut found: impl FnMut(Group<'e>),
    ) {
        match &self.index {
            Index::Direct(map) => {
                for targets in keys.iter().filter_map(|key| map.get(*key)) {
                    found(Group::Targets(targets));
                }
            }
            Index::Fanout(targets) => found(Group::Targets(targets)),
            Index::Topic(trie) => {
                for key in keys {
                    trie.find(key, |targets| found(Group::Targets(targets)));
                }
            }
            Index::Headers(index) => {
                index.find(headers, |destination| found(Group::One(destination)));
            }
        }
    }
}

/// Destinations found together.
pub(crate) enum Group<'e> {
    Targets(&'e Targets),
    One(&'e Destination),
}
