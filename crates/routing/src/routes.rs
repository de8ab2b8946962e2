//! All exchanges, queue names and bindings of one virtual host.

use std::collections::BTreeSet;
use std::sync::Arc;

use amqp091::{Table, TableRef};
use imbl::{OrdMap, OrdSet};
use smallvec::SmallVec;

use crate::binding::{Binding, ByDestination, Destination};
use crate::exchange::{Exchange, ExchangeKind, ExchangeRules, Group};
use crate::name::{Name, QueueId, RoutingKey};

/// What routing found out; the queues themselves are in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteOutcome {
    /// There is no exchange of that name.
    NoSuchExchange,
    /// The exchange is internal: clients may not publish to it.
    Internal,
    /// The output holds the queues, perhaps none. Any message with these keys goes there.
    Routed,
    /// As `Routed`, but a headers exchange was met: another message with these keys may go elsewhere.
    RoutedByHeaders,
}

/// The routing table of one virtual host. A clone is an O(1) snapshot, a change is O(log n).
/// The default exchange (the empty name) is always there: it routes to the queue of the key's name.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    exchanges: OrdMap<Name, Arc<Exchange>>,
    queues: OrdMap<Name, QueueId>,
    by_destination: OrdSet<ByDestination>,
}

impl Routes {
    /// A table with nothing but the default exchange.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an exchange, or gives an existing one other rules. An existing one keeps its kind.
    pub fn put_exchange(&mut self, name: Name, kind: ExchangeKind, rules: ExchangeRules) {
        if let Some(exchange) = self.exchanges.get_mut(&name) {
            Arc::make_mut(exchange).rules = rules;
        } else {
            self.exchanges.insert(name.clone(), Arc::new(Exchange::new(name, kind, rules)));
        }
    }

    fn exchange(&self, name: &[u8]) -> Option<&Exchange> {
        self.exchanges.get(std::str::from_utf8(name).ok()?).map(|exchange| &**exchange)
    }

    /// The kind of an exchange.
    #[must_use]
    pub fn kind(&self, exchange: &str) -> Option<ExchangeKind> {
        self.exchanges.get(exchange).map(|exchange| exchange.kind)
    }

    /// Removes an exchange with the bindings from and to it; gives these back, those from it first.
    pub fn remove_exchange(&mut self, name: &str) -> Vec<Arc<Binding>> {
        let Some((name, exchange)) = self.exchanges.remove_with_key(name) else {
            return Vec::new();
        };
        let mut gone: Vec<_> = exchange.bindings().cloned().collect();
        for binding in &gone {
            self.by_destination.remove(&ByDestination(Arc::clone(binding)));
        }
        gone.extend(self.remove_to(Destination::Exchange(name)));
        gone
    }

    /// Gives a queue its name: the default exchange reaches it from now on.
    pub fn put_queue(&mut self, name: Name, id: QueueId) {
        self.queues.insert(name, id);
    }

    /// The queue of that name.
    #[must_use]
    pub fn queue(&self, name: &[u8]) -> Option<QueueId> {
        self.queues.get(std::str::from_utf8(name).ok()?).copied()
    }

    /// Removes a queue with the bindings to it; gives these back.
    pub fn remove_queue(&mut self, name: &str) -> Vec<Arc<Binding>> {
        let id = self.queues.remove(name);
        id.map(|id| self.remove_to(Destination::Queue(id))).unwrap_or_default()
    }

    fn remove_to(&mut self, destination: Destination) -> Vec<Arc<Binding>> {
        let gone: Vec<_> = self.bindings_to(&destination).cloned().collect();
        for binding in &gone {
            self.remove_binding(binding);
        }
        gone
    }

    /// Adds a binding; false if it was there already or its source is missing.
    pub fn bind(&mut self, binding: Binding) -> bool {
        let binding = Arc::new(binding);
        let Some(exchange) = self.exchanges.get_mut(binding.source()) else { return false };
        let is_new = Arc::make_mut(exchange).add(&binding);
        if is_new {
            self.by_destination.insert(ByDestination(binding));
        }
        is_new
    }

    /// Removes a binding; gives it back if it was there.
    pub fn unbind(
        &mut self,
        source: &Name,
        destination: Destination,
        key: &RoutingKey,
        arguments: &Table,
    ) -> Option<Arc<Binding>> {
        let probe = Binding::probe(source.clone(), destination, key.clone(), arguments);
        self.remove_binding(&Arc::new(probe))
    }

    fn remove_binding(&mut self, probe: &Arc<Binding>) -> Option<Arc<Binding>> {
        let exchange = self.exchanges.get_mut(probe.source())?;
        let binding = Arc::make_mut(exchange).remove(probe)?;
        self.by_destination.remove(&ByDestination(Arc::clone(&binding)));
        Some(binding)
    }

    /// How many bindings have this exchange as their source.
    #[must_use]
    pub fn n_bindings_from(&self, exchange: &str) -> usize {
        self.exchanges.get(exchange).map_or(0, |exchange| exchange.n_bindings())
    }

    /// The bindings with this exchange as their source.
    pub fn bindings_from(&self, exchange: &str) -> impl Iterator<Item = &Arc<Binding>> {
        self.exchanges.get(exchange).into_iter().flat_map(|exchange| exchange.bindings())
    }

    /// The bindings that lead to this destination.
    pub fn bindings_to<'a>(
        &'a self,
        destination: &'a Destination,
    ) -> impl Iterator<Item = &'a Arc<Binding>> {
        let first = ByDestination(Arc::new(Binding::first_to(destination.clone())));
        (self.by_destination.range(first..))
            .map(|ByDestination(binding)| binding)
            .take_while(move |binding| binding.destination() == destination)
    }

    /// All bindings, ordered by destination; without the implied ones of the default exchange.
    pub fn bindings(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.by_destination.iter().map(|ByDestination(binding)| binding)
    }

    /// The number of bindings, without the implied ones of the default exchange.
    #[must_use]
    pub fn n_bindings(&self) -> usize {
        self.by_destination.len()
    }

    /// Replaces the content of `out` by the queues a client's message goes to, each once, in order
    /// of their ids. `keys` are the routing key and those of CC and BCC. Headers are looked at by
    /// headers exchanges only.
    pub fn route(
        &self,
        exchange: &[u8],
        keys: &[&[u8]],
        headers: Option<TableRef<'_>>,
        out: &mut Vec<QueueId>,
    ) -> RouteOutcome {
        if self.exchange(exchange).is_some_and(|exchange| exchange.rules.internal) {
            out.clear();
            return RouteOutcome::Internal;
        }
        self.route_from_broker(exchange, keys, headers, out)
    }

    /// As [`route`](Self::route), for what the broker itself sends: internal exchanges are open.
    pub fn route_from_broker(
        &self,
        exchange: &[u8],
        keys: &[&[u8]],
        headers: Option<TableRef<'_>>,
        out: &mut Vec<QueueId>,
    ) -> RouteOutcome {
        out.clear();
        let mut walk = Walk {
            routes: self,
            keys,
            out,
            n_groups: 0,
            met_headers: false,
            pending: SmallVec::new(),
            seen: BTreeSet::new(),
        };
        if exchange.is_empty() {
            walk.default_exchange();
        } else {
            let Some(first) = self.exchange(exchange) else {
                return RouteOutcome::NoSuchExchange;
            };
            walk.pending.push(first);
            while let Some(exchange) = walk.pending.pop() {
                walk.visit(exchange, headers);
            }
        }
        let outcome =
            if walk.met_headers { RouteOutcome::RoutedByHeaders } else { RouteOutcome::Routed };
        walk.finish();
        outcome
    }
}

/// One message on its way through the exchanges.
struct Walk<'r, 'm> {
    routes: &'r Routes,
    keys: &'m [&'m [u8]],
    out: &'m mut Vec<QueueId>,
    /// How many sorted groups were appended: with more than one, queues may repeat.
    n_groups: usize,
    /// Whether a headers exchange was visited.
    met_headers: bool,
    pending: SmallVec<[&'r Exchange; 4]>,
    /// Exchanges visited or pending; empty until a message leaves its first exchange.
    seen: BTreeSet<&'r Name>,
}

impl<'r> Walk<'r, '_> {
    fn visit(&mut self, exchange: &'r Exchange, headers: Option<TableRef<'_>>) {
        let mut is_unrouted = true;
        let keys = self.keys;
        self.met_headers |= exchange.kind == ExchangeKind::Headers;
        exchange.find(keys, headers, |group| match group {
            Group::Targets(targets) => {
                self.n_groups += 1;
                for destination in targets.iter() {
                    is_unrouted = false;
                    self.reach(exchange, destination);
                }
            }
            Group::One(destination) => {
                self.n_groups += 1;
                is_unrouted = false;
                self.reach(exchange, destination);
            }
        });
        if let Some(alternate) = exchange.rules.alternate.as_ref().filter(|_| is_unrouted) {
            self.enter(exchange, alternate);
        }
    }

    fn reach(&mut self, from: &'r Exchange, destination: &'r Destination) {
        match destination {
            Destination::Queue(id) => self.out.push(*id),
            Destination::Exchange(name) => self.enter(from, name),
        }
    }

    /// Goes on at another exchange, once. A missing one swallows the message.
    fn enter(&mut self, from: &'r Exchange, name: &'r Name) {
        self.seen.insert(&from.name);
        if !self.seen.insert(name) {
            return;
        }
        if name.is_empty() {
            self.default_exchange();
        } else if let Some(exchange) = self.routes.exchanges.get(name) {
            self.pending.push(exchange);
        }
    }

    fn default_exchange(&mut self) {
        self.n_groups += self.keys.len();
        self.out.extend(self.keys.iter().filter_map(|key| self.routes.queue(key)));
    }

    fn finish(self) {
        if self.n_groups > 1 {
            self.out.sort_unstable();
            self.out.dedup();
        }
    }
}

#[cfg(test)]
mod tests;
