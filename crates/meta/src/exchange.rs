//! Exchanges: what one is, and when a redeclaration means the same.

use std::sync::Arc;

use amqp091::{Table, Value};
use routing::{Downstream, ExchangeKind, ExchangeRules, HashOn, Name};

use crate::checks::{check_argument, check_field, check_names_exchange};
use crate::command::ExchangeDeclare;
use crate::error::MetaError;
use crate::exchange_settings::{self, ExchangeSettings};
use crate::resource::Resource;

/// The argument that names the exchange for messages that find no binding.
pub(crate) const ALTERNATE: &str = "alternate-exchange";
/// The arguments of an exchange that hashes a header, or a property, instead of the routing key.
const HASH_HEADER: &str = "hash-header";
const HASH_PROPERTY: &str = "hash-property";
/// The arguments of an exchange that federates: the most brokers that a message goes on to, and who takes its
/// messages.
const MAX_HOPS: &str = "x-max-hops";
const DOWNSTREAM_NAME: &str = "x-downstream-name";
const DOWNSTREAM_VHOST: &str = "x-downstream-vhost";

/// The exchange that events go to, where a node is asked to tell of them.
pub const EVENT_EXCHANGE: &str = "amq.rabbitmq.event";
/// The exchange that lines of the log go to, where a node is asked to publish them.
pub const LOG_EXCHANGE: &str = "amq.rabbitmq.log";
/// Exchanges that nobody but the node itself creates, and only if its configuration says so.
pub const NODE_EXCHANGES: [&str; 2] = [EVENT_EXCHANGE, LOG_EXCHANGE];

/// The exchanges every virtual host has from the start: name, kind, internal.
pub(crate) const PREDECLARED: [(&str, ExchangeKind, bool); 7] = [
    ("", ExchangeKind::Direct, false),
    ("amq.direct", ExchangeKind::Direct, false),
    ("amq.fanout", ExchangeKind::Fanout, false),
    ("amq.headers", ExchangeKind::Headers, false),
    ("amq.match", ExchangeKind::Headers, false),
    ("amq.rabbitmq.trace", ExchangeKind::Topic, true),
    ("amq.topic", ExchangeKind::Topic, false),
];

/// An exchange that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeDef {
    /// Its name; empty for the default exchange.
    pub name: Name,
    /// The exchange's type: the way it chooses bindings.
    pub kind: ExchangeKind,
    /// Whether the exchange survives a restart.
    pub durable: bool,
    /// Whether the exchange is deleted when its last binding (as the source) goes.
    pub auto_delete: bool,
    /// Whether clients may not publish to the exchange.
    pub internal: bool,
    /// The arguments as given when the exchange was declared.
    pub arguments: Table,
}

impl ExchangeDef {
    /// The exchange of its argument `alternate-exchange`, if it has one.
    pub fn alternate(&self) -> Option<&str> {
        self.arguments.get(ALTERNATE.as_bytes()).and_then(Value::as_str)
    }

    /// Whether the exchange is the node's own and cannot be deleted.
    pub fn is_predeclared(&self) -> bool {
        self.name.is_empty() || is_reserved(&self.name)
    }

    /// Whether every new virtual host has the exchange.
    pub(crate) fn comes_with_vhosts(&self) -> bool {
        PREDECLARED.iter().any(|(name, ..)| *name == self.name.as_str())
    }

    /// The type by which the exchange chooses bindings: that of a delaying exchange is named by an argument.
    #[must_use]
    pub fn routes_as(&self) -> ExchangeKind {
        routes_as(self.kind, &self.arguments)
    }

    /// The routing rules that the exchange's own arguments give.
    pub(crate) fn rules(&self) -> ExchangeRules {
        ExchangeRules {
            internal: self.internal,
            alternate: self.alternate().map(Name::from),
            hash_on: hash_on(&self.arguments).unwrap_or_default(),
            downstream: downstream(self.routes_as(), &self.arguments).map(Arc::new),
            watched: false,
        }
    }

    /// The settings beyond routing that the exchange's own arguments give.
    pub(crate) fn settings(&self) -> ExchangeSettings {
        ExchangeSettings::new(self.kind, &self.arguments)
    }

    /// Refuses a redeclaration that differs, with the first difference.
    pub(crate) fn check_equivalent(
        &self,
        vhost: &Name,
        declare: &ExchangeDeclare,
    ) -> Result<(), MetaError> {
        let resource = || Resource::exchange(vhost, &self.name);
        check_field("type", self.kind.as_str(), declare.kind.as_str(), resource)?;
        check_field("durable", self.durable, declare.durable, resource)?;
        check_field("auto_delete", self.auto_delete, declare.auto_delete, resource)?;
        check_field("internal", self.internal, declare.internal, resource)?;
        let federates = self.kind == ExchangeKind::FederationUpstream;
        for key in federates.then_some(MAX_HOPS).into_iter().chain([ALTERNATE]) {
            let [current, received] = [&self.arguments, &declare.arguments]
                .map(|arguments| arguments.get(key.as_bytes()));
            check_argument(key, current, received, resource)?;
        }
        Ok(())
    }
}

fn routes_as(kind: ExchangeKind, arguments: &Table) -> ExchangeKind {
    if kind != ExchangeKind::Delayed {
        return kind;
    }
    exchange_settings::delayed_type(arguments).unwrap_or(kind)
}

/// The declaration of one of [`NODE_EXCHANGES`] by the node.
#[must_use]
pub fn node_exchange(vhost: Name, name: &str) -> ExchangeDeclare {
    ExchangeDeclare {
        vhost,
        name: Name::from(name),
        kind: ExchangeKind::Topic,
        durable: true,
        auto_delete: false,
        internal: true,
        arguments: Table::new(),
    }
}

/// Whether this is one of [`NODE_EXCHANGES`] as the broker itself declares it.
pub(crate) fn is_the_nodes(declare: &ExchangeDeclare) -> bool {
    let ExchangeDeclare { name, kind, durable, auto_delete, internal, .. } = declare;
    NODE_EXCHANGES.contains(&name.as_str())
        && *kind == ExchangeKind::Topic
        && *durable
        && *internal
        && !auto_delete
}

/// Whether clients may not create things of this name.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with("amq.")
}

/// Refuses arguments a new exchange cannot have.
pub(crate) fn check_arguments(vhost: &Name, declare: &ExchangeDeclare) -> Result<(), MetaError> {
    let resource = || Resource::exchange(vhost, &declare.name);
    check_names_exchange(ALTERNATE, &declare.arguments, resource)?;
    exchange_settings::check(declare.kind, &declare.name, &declare.arguments)?;
    match routes_as(declare.kind, &declare.arguments) {
        ExchangeKind::ConsistentHash => {
            for key in [HASH_HEADER, HASH_PROPERTY] {
                check_names_exchange(key, &declare.arguments, resource)?;
            }
            hash_on(&declare.arguments).map(|_| ())
        }
        ExchangeKind::FederationUpstream => check_max_hops(&declare.arguments),
        ExchangeKind::Direct
        | ExchangeKind::Fanout
        | ExchangeKind::Topic
        | ExchangeKind::Headers
        | ExchangeKind::ModulusHash
        | ExchangeKind::Random
        | ExchangeKind::LocalRandom
        | ExchangeKind::RecentHistory
        | ExchangeKind::JmsTopic
        | ExchangeKind::Deduplication
        | ExchangeKind::Delayed => Ok(()),
    }
}

/// COMPAT: integers of other widths are refused.
fn check_max_hops(arguments: &Table) -> Result<(), MetaError> {
    let refused = |text: String| Err(MetaError::ExchangeArguments(text));
    match arguments.get(MAX_HOPS.as_bytes()) {
        Some(Value::I64(_)) => Ok(()),
        Some(_) => refused(format!("Argument {MAX_HOPS} must be of type long")),
        None => refused(format!("Argument {MAX_HOPS} missing")),
    }
}

fn downstream(kind: ExchangeKind, arguments: &Table) -> Option<Downstream> {
    let text = |key: &str| arguments.get(key.as_bytes()).and_then(Value::as_str).map(Box::from);
    let hops_max = arguments.get(MAX_HOPS.as_bytes()).and_then(Value::as_i64);
    (kind == ExchangeKind::FederationUpstream).then(|| Downstream {
        hops_max: hops_max.unwrap_or_default(),
        cluster: text(DOWNSTREAM_NAME),
        vhost: text(DOWNSTREAM_VHOST),
    })
}

fn hash_on(arguments: &Table) -> Result<HashOn, MetaError> {
    let text = |key: &str| arguments.get(key.as_bytes()).and_then(Value::as_bytes);
    match (text(HASH_HEADER), text(HASH_PROPERTY)) {
        (None, None) => Ok(HashOn::RoutingKey),
        (Some(header), None) => Ok(HashOn::Header(header.into())),
        (None, Some(b"message_id")) => Ok(HashOn::MessageId),
        (None, Some(b"correlation_id")) => Ok(HashOn::CorrelationId),
        (None, Some(b"timestamp")) => Ok(HashOn::Timestamp),
        (None, Some(other)) => {
            let property = String::from_utf8_lossy(other);
            Err(MetaError::ExchangeArguments(format!("Unsupported property: {property}")))
        }
        (Some(_), Some(_)) => {
            let text = "hash-header and hash-property are mutually exclusive";
            Err(MetaError::ExchangeArguments(text.to_owned()))
        }
    }
}
