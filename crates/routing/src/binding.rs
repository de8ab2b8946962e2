//! A binding and what makes two bindings the same one.

use std::cmp::Ordering;
use std::sync::Arc;

use amqp091::Table;

use crate::destination::Destination;
use crate::digest::Digest;
use crate::erlang;
use crate::error::BindingError;
use crate::exchange_kind::ExchangeKind;
use crate::headers::Matcher;
use crate::name::{Name, RoutingKey};
use crate::topic;
use crate::topic_rule::TopicRule;

/// A rule that leads messages from an exchange to a queue or to another exchange.
/// Source, destination, key and arguments together identify it; the order in which the arguments
/// were written does not matter.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The exchange whose messages the binding leads on.
    pub source: Name,
    /// The binding's destination.
    pub destination: Destination,
    /// The binding key.
    pub key: RoutingKey,
    /// The arguments as given when the binding was made.
    pub arguments: Table,
    /// The arguments sorted by name and encoded; empty for none.
    canonical: Box<[u8]>,
    matcher: Option<Box<Matcher>>,
    topic_rule: Option<Box<TopicRule>>,
    /// The destination as a number, for exchanges that choose one.
    pub(crate) seed: u64,
    /// The destination's share of the messages, for exchanges that share out by weight.
    pub(crate) weight: u32,
}

impl Binding {
    /// Creates a binding of an exchange of that kind.
    ///
    /// # Errors
    /// A topic key or headers arguments the exchange kind does not allow.
    pub fn new(
        source: Name,
        kind: ExchangeKind,
        destination: Destination,
        key: RoutingKey,
        arguments: Table,
    ) -> Result<Self, BindingError> {
        let (mut matcher, mut topic_rule, mut weight) = (None, None, 1);
        match kind {
            ExchangeKind::Direct
            | ExchangeKind::Fanout
            | ExchangeKind::RecentHistory
            | ExchangeKind::Deduplication
            | ExchangeKind::Delayed
            | ExchangeKind::FederationUpstream
            | ExchangeKind::ModulusHash
            | ExchangeKind::Random => {}
            ExchangeKind::Topic => topic::check_key(&key)?,
            ExchangeKind::Headers => matcher = Some(Box::new(Matcher::new(&arguments)?)),
            ExchangeKind::ConsistentHash => weight = parse_weight(&key)?,
            ExchangeKind::LocalRandom => check_local(&destination, &key)?,
            ExchangeKind::JmsTopic => topic_rule = TopicRule::read(&arguments)?,
        }
        let seed = match &destination {
            Destination::Queue(id) => id.0,
            Destination::Exchange(name) => Digest::of_name(name.as_bytes()).number(),
        };
        let canonical = canonical(&arguments);
        Ok(Self {
            source,
            destination,
            key,
            arguments,
            canonical,
            matcher,
            topic_rule,
            seed,
            weight,
        })
    }

    /// Sets the name of the destination, so that exchanges which choose by hash choose alike for queues of
    /// the same names.
    #[must_use]
    pub fn to_destination_named(self, name: &str) -> Self {
        Self { seed: Digest::of_name(name.as_bytes()).number(), ..self }
    }

    pub(crate) fn matcher(&self) -> Option<&Matcher> {
        self.matcher.as_deref()
    }

    /// The rule of a binding of an `x-jms-topic` exchange, unless it leads nothing on.
    pub(crate) fn topic_rule(&self) -> Option<&TopicRule> {
        self.topic_rule.as_deref()
    }

    /// Creates a probe that orders as the first of all bindings to `destination` would.
    pub(crate) fn first_to(destination: Destination) -> Self {
        Self {
            source: Name::default(),
            destination,
            key: RoutingKey::default(),
            arguments: Table::new(),
            canonical: Box::default(),
            matcher: None,
            topic_rule: None,
            seed: 0,
            weight: 1,
        }
    }

    /// Something that orders as the binding of this identity does, without being a usable one.
    pub(crate) fn probe(
        source: Name,
        destination: Destination,
        key: RoutingKey,
        arguments: &Table,
    ) -> Self {
        let canonical = canonical(arguments);
        Self { source, key, canonical, ..Self::first_to(destination) }
    }

    fn rest_of_identity(&self) -> (&RoutingKey, &[u8]) {
        (&self.key, &self.canonical)
    }
}

/// COMPAT: signs and leading zeros are allowed, as in Erlang.
fn parse_weight(key: &RoutingKey) -> Result<u32, BindingError> {
    let text = std::str::from_utf8(key).unwrap_or_default();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BindingError::WeightNoInteger(erlang::binary(key)));
    }
    if text.starts_with('-') || digits.bytes().all(|byte| byte == b'0') {
        return Err(BindingError::WeightNotPositive);
    }
    digits.parse().map_err(|_| BindingError::WeightTooLarge)
}

fn check_local(destination: &Destination, key: &RoutingKey) -> Result<(), BindingError> {
    if !key.is_empty() {
        return Err(BindingError::KeyNotEmpty(key.to_text().into_owned()));
    }
    match destination {
        Destination::Queue(_) => Ok(()),
        Destination::Exchange(_) => Err(BindingError::NotToExchanges),
    }
}

fn canonical(arguments: &Table) -> Box<[u8]> {
    if arguments.is_empty() {
        return Box::default();
    }
    let mut entries: Vec<_> = arguments.iter().cloned().collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries.into_iter().collect::<Table>().to_bytes().into()
}

/// Orders bindings of one exchange: destination, key, arguments.
#[derive(Clone, Debug)]
pub(crate) struct BySource(pub(crate) Arc<Binding>);

impl Ord for BySource {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&self.0, &other.0);
        (a.destination.cmp(&b.destination))
            .then_with(|| a.rest_of_identity().cmp(&b.rest_of_identity()))
    }
}

/// Orders bindings of a virtual host: destination, source, key, arguments.
#[derive(Clone, Debug)]
pub(crate) struct ByDestination(pub(crate) Arc<Binding>);

impl Ord for ByDestination {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&self.0, &other.0);
        (a.destination.cmp(&b.destination))
            .then_with(|| a.source.cmp(&b.source))
            .then_with(|| a.rest_of_identity().cmp(&b.rest_of_identity()))
    }
}

impl PartialOrd for BySource {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for BySource {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for BySource {}

impl PartialOrd for ByDestination {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByDestination {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByDestination {}
