//! All exchanges, queue names and bindings of one virtual host.

use std::collections::BTreeSet;
use std::sync::Arc;

use amqp091::{Table, TableRef};
use imbl::{OrdMap, OrdSet};
use smallvec::SmallVec;

use crate::binding::{Binding, ByDestination};
use crate::destination::Destination;
use crate::exchange::{DecidedBy, Exchange};
use crate::exchange_kind::{ExchangeKind, ExchangeRules};
use crate::message::Message;
use crate::name::{Name, QueueId, RoutingKey};
use crate::selector::Steps;
use crate::targets::{Group, Targets};

/// The outcome of routing; the queues themselves are in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteOutcome {
    /// The exchange does not exist.
    NoSuchExchange,
    /// The exchange is internal: clients may not publish to it.
    Internal,
    /// The output holds the queues, perhaps none. Any message with these keys goes there.
    Routed,
    /// The message is routed as by `Routed`, but an exchange was met that looks at headers: a message with
    /// these keys and other headers may go elsewhere.
    RoutedByHeaders,
    /// The output holds for this message alone: the next one may go elsewhere.
    RoutedByMessage,
}

/// The outcome of routing a message, and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed {
    /// The outcome.
    pub outcome: RouteOutcome,
    /// The steps that selectors took.
    pub n_steps: usize,
    /// Whether selectors took more steps than they may for one message: those that were left do not match.
    pub is_cut_short: bool,
    /// Whether the message had one key and only the first exchange has routed it.
    pub is_by_first: bool,
}

/// An exchange with its rules and bindings as of some moment; the same one as long as none of them changes.
#[derive(Clone, Debug)]
pub struct ExchangeVersion(Arc<Exchange>);

impl PartialEq for ExchangeVersion {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ExchangeVersion {}

impl RouteOutcome {
    const fn at_once(self) -> Routed {
        Routed { outcome: self, n_steps: 0, is_cut_short: false, is_by_first: false }
    }
}

/// The host's answer about a message at a watched exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The exchange routes it.
    Open,
    /// The message goes no further here, and counts as routed.
    Closed,
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
            if exchange.rules != rules {
                Arc::make_mut(exchange).rules = rules;
            }
        } else {
            self.exchanges.insert(name.clone(), Arc::new(Exchange::new(name, kind, rules)));
        }
    }

    fn exchange(&self, name: &[u8]) -> Option<&Exchange> {
        self.exchanges.get(std::str::from_utf8(name).ok()?).map(|exchange| &**exchange)
    }

    /// An exchange as it is now; none for the default exchange.
    #[must_use]
    pub fn version(&self, exchange: &[u8]) -> Option<ExchangeVersion> {
        let exchange = self.exchanges.get(std::str::from_utf8(exchange).ok()?)?;
        Some(ExchangeVersion(Arc::clone(exchange)))
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
        let Some(exchange) = self.exchanges.get_mut(&binding.source) else { return false };
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

    /// Removes a binding that was found here; gives it back if it is still there.
    pub fn remove_binding(&mut self, probe: &Arc<Binding>) -> Option<Arc<Binding>> {
        let exchange = self.exchanges.get_mut(&probe.source)?;
        let binding = Arc::make_mut(exchange).remove(probe)?;
        self.by_destination.remove(&ByDestination(Arc::clone(&binding)));
        Some(binding)
    }

    /// The number of bindings with this exchange as their source.
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
            .take_while(move |binding| binding.destination == *destination)
    }

    /// All bindings, ordered by destination; without the implied ones of the default exchange.
    pub fn bindings(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.by_destination.iter().map(|ByDestination(binding)| binding)
    }

    /// The number of bindings, without the implied ones of the default exchange.
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
        let message = Message::new(keys, headers);
        self.route_message(exchange, &message, |_| Passage::Open, out).outcome
    }

    /// Routes a message of which all is known as [`route`](Self::route) does. `watch` is asked about the
    /// message with the name of each watched exchange on its way.
    pub fn route_message(
        &self,
        exchange: &[u8],
        message: &Message<'_>,
        watch: impl FnMut(&Name) -> Passage,
        out: &mut Vec<QueueId>,
    ) -> Routed {
        match self.exchange(exchange) {
            Some(first) if first.rules.internal => {
                out.clear();
                RouteOutcome::Internal.at_once()
            }
            first => self.walk(exchange, first, message, watch, out),
        }
    }

    /// Routes a message that the broker itself sends as [`route_message`](Self::route_message) does: internal
    /// exchanges are open.
    pub fn route_from_broker(
        &self,
        exchange: &[u8],
        message: &Message<'_>,
        watch: impl FnMut(&Name) -> Passage,
        out: &mut Vec<QueueId>,
    ) -> Routed {
        self.walk(exchange, self.exchange(exchange), message, watch, out)
    }

    /// Routes as [`route_message`](Self::route_message) does, and tells the way: each exchange that the
    /// message comes to, in order.
    #[must_use]
    pub fn trace(
        &self,
        exchange: &[u8],
        message: &Message<'_>,
        watch: impl FnMut(&Name) -> Passage,
    ) -> Trace {
        let mut queues = Vec::new();
        let mut way = Way { steps: Vec::new(), watch };
        let routed = match self.exchange(exchange) {
            Some(first) if first.rules.internal => RouteOutcome::Internal.at_once(),
            first => self.walk(exchange, first, message, &mut way, &mut queues),
        };
        Trace { routed, steps: way.steps, queues }
    }

    /// Leads a message on from its first exchange, which was looked up by its name.
    fn walk<'r>(
        &'r self,
        name: &[u8],
        first: Option<&'r Exchange>,
        message: &Message<'_>,
        watch: impl Follow<'r>,
        out: &mut Vec<QueueId>,
    ) -> Routed {
        out.clear();
        let mut walk = Walk {
            routes: self,
            message,
            watch,
            out,
            n_groups: 0,
            decided_by: DecidedBy::Key,
            pending: SmallVec::new(),
            seen: BTreeSet::new(),
        };
        let mut steps = Steps::default();
        if name.is_empty() {
            walk.default_exchange();
        } else {
            let Some(first) = first else { return RouteOutcome::NoSuchExchange.at_once() };
            walk.visit(first, &mut steps);
            while let Some(exchange) = walk.pending.pop() {
                walk.visit(exchange, &mut steps);
            }
        }
        let outcome = match walk.decided_by {
            DecidedBy::Key => RouteOutcome::Routed,
            DecidedBy::Headers => RouteOutcome::RoutedByHeaders,
            DecidedBy::Message => RouteOutcome::RoutedByMessage,
        };
        walk.finish();
        let is_by_first = message.keys.len() == 1 && walk.seen.is_empty();
        let (n_steps, is_cut_short) = (steps.n_taken(), steps.ran_out());
        Routed { outcome, n_steps, is_cut_short, is_by_first }
    }
}

/// The way of a message.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The outcome.
    pub routed: Routed,
    /// The exchanges that it came to.
    pub steps: Vec<TraceStep>,
    /// The queues that it goes to, each once.
    pub queues: Vec<QueueId>,
}

/// An exchange on the way of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceStep {
    /// The exchange; empty for the default exchange.
    pub exchange: Name,
    /// The destinations to which the exchange's bindings lead the message.
    pub destinations: Vec<Destination>,
    /// The alternate exchange, if no binding led the message on.
    pub alternate: Option<Name>,
}

/// An observer of a message's way through the exchanges.
trait Follow<'r> {
    /// Asks whether a watched exchange routes the message.
    fn passage(&mut self, exchange: &Name) -> Passage;

    /// Notes that the message is at an exchange; `None` for the default exchange.
    fn visits(&mut self, _: Option<&'r Name>) {}

    /// Notes that the exchange visited last leads the message to a destination.
    fn reaches(&mut self, _: &Destination) {}

    /// Notes that the exchange visited last leads the message to its alternate exchange alone.
    fn falls_back(&mut self, _: &'r Name) {}
}

impl<W: FnMut(&Name) -> Passage> Follow<'_> for W {
    #[inline]
    fn passage(&mut self, exchange: &Name) -> Passage {
        self(exchange)
    }
}

/// The way of a message, as [`TraceStep`]s.
struct Way<W> {
    steps: Vec<TraceStep>,
    watch: W,
}

impl<'r, W: FnMut(&Name) -> Passage> Follow<'r> for &mut Way<W> {
    fn passage(&mut self, exchange: &Name) -> Passage {
        (self.watch)(exchange)
    }

    fn visits(&mut self, exchange: Option<&'r Name>) {
        let exchange = exchange.cloned().unwrap_or_default();
        self.steps.push(TraceStep { exchange, ..TraceStep::default() });
    }

    fn reaches(&mut self, destination: &Destination) {
        if let Some(step) = self.steps.last_mut() {
            step.destinations.push(destination.clone());
        }
    }

    fn falls_back(&mut self, alternate: &'r Name) {
        if let Some(step) = self.steps.last_mut() {
            step.alternate = Some(alternate.clone());
        }
    }
}

/// A message on its way through the exchanges.
struct Walk<'r, 'm, W> {
    routes: &'r Routes,
    message: &'m Message<'m>,
    watch: W,
    out: &'m mut Vec<QueueId>,
    /// The number of sorted groups found, none of them empty: with more than one, queues may repeat.
    n_groups: usize,
    /// The parts of the message that decided its way so far.
    decided_by: DecidedBy,
    pending: SmallVec<[&'r Exchange; 4]>,
    /// Exchanges and keys that are done with; empty for a message of one key until it leaves its first
    /// exchange.
    seen: BTreeSet<Seen<'r>>,
}

/// Something a message came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen<'r> {
    /// An exchange visited or pending.
    Exchange(&'r Name),
    /// Destinations that one of several keys has led to.
    Targets(*const Targets),
}

impl<'r, W: Follow<'r>> Walk<'r, '_, W> {
    /// Selectors look at the message while there are `steps` left.
    fn visit(&mut self, exchange: &'r Exchange, steps: &mut Steps) {
        let (message, n_groups_before) = (self.message, self.n_groups);
        self.decided_by = self.decided_by.max(exchange.decided_by(message.keys));
        self.watch.visits(Some(&exchange.name));
        if exchange.rules.watched && self.watch.passage(&exchange.name) == Passage::Closed {
            return;
        }
        exchange.find(message, steps, |group| match group {
            Group::Targets(targets) => {
                if message.keys.len() > 1 && !self.seen.insert(Seen::Targets(targets)) {
                    return;
                }
                self.n_groups += 1;
                for destination in targets.iter() {
                    self.reach(exchange, destination);
                }
            }
            Group::One(destination) => {
                self.n_groups += 1;
                self.reach(exchange, destination);
            }
        });
        if let Some(alternate) = &exchange.rules.alternate
            && self.n_groups == n_groups_before
        {
            self.watch.falls_back(alternate);
            self.enter(exchange, alternate);
        }
    }

    fn reach(&mut self, from: &'r Exchange, destination: &'r Destination) {
        self.watch.reaches(destination);
        match destination {
            Destination::Queue(id) => self.out.push(*id),
            Destination::Exchange(name) => self.enter(from, name),
        }
    }

    /// Goes on at another exchange, once. A missing one swallows the message.
    fn enter(&mut self, from: &'r Exchange, name: &'r Name) {
        self.seen.insert(Seen::Exchange(&from.name));
        if !self.seen.insert(Seen::Exchange(name)) {
            return;
        }
        if name.is_empty() {
            self.default_exchange();
        } else if let Some(exchange) = self.routes.exchanges.get(name) {
            self.pending.push(exchange);
        }
    }

    fn default_exchange(&mut self) {
        let keys = self.message.keys;
        self.n_groups += keys.len();
        self.watch.visits(None);
        for queue in keys.iter().filter_map(|key| self.routes.queue(key)) {
            self.watch.reaches(&Destination::Queue(queue));
            self.out.push(queue);
        }
    }

    fn finish(&mut self) {
        if self.n_groups > 1 {
            self.out.sort_unstable();
            self.out.dedup();
        }
    }
}

#[cfg(test)]
mod tests;
