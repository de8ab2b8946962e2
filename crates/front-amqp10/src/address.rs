//! Addresses of nodes, as RabbitMQ's version 2 has them. Names in them are percent-encoded.
//!
//! ```text
//! source  = "/queues/" queue | "/management" | dynamic | topic
//! target  = "/queues/" queue | "/exchanges/" exchange ["/" key] | "/management" | null | dynamic | topic
//! to      = "/queues/" queue | "/exchanges/" exchange ["/" key] | topic    of a message to a null target
//! ```
//!
//! Version 1 is refused, with the address of version 2 that says the same, unless the operator permits it:
//!
//! ```text
//! source  = "/exchange/" exchange ["/" key] | "/topic/" key | "/queue/" queue | queue | "/amq/queue/" queue
//! target  = source | "/queue"
//! ```

mod version1;

use self::version1::{AddressV1, name_of};
use crate::fault::ProtocolFault;
use crate::management_links::MANAGEMENT;
use crate::topics::{TEMPORARY_TOPIC, topic_of};
use amqp10::{
    Condition, LinkTarget, SourceTerminus, ValueRef, percent_decoded, put_percent_decoded,
    put_percent_encoded,
};
use session::ShortString;
use std::borrow::Cow;

const QUEUES: &str = "/queues/";
const EXCHANGES: &str = "/exchanges/";
/// The most of a bad address that is told back.
const TOLD_BYTES_MAX: usize = 255;
/// The capability of a source that asks for a queue which is never stored.
pub(crate) const VOLATILE_QUEUE: &str = "rabbitmq:volatile-queue";
/// The capability of a source of JMS that is a queue.
pub(crate) const QUEUE: &str = "queue";
/// The capability of a source or target that asks for a queue which goes with its link.
pub(crate) const TEMPORARY_QUEUE: &str = "temporary-queue";
/// COMPAT: RabbitMQ's words for the deprecated feature `amqp_address_v1` that is not permitted.
const VERSION_1: &str = "RabbitMQ AMQP address version 1 is unsupported. \
                         Clients must use RabbitMQ AMQP address version 2.";

/// Nodes of other brokers that clients' libraries attach to on their own: the ends of their addresses, and
/// what is said of them.
const FOREIGN_NODES: [(&str, &str); 2] = [
    ("$cbs", "tokens are put to '/management', or given with the SASL login"),
    ("$management", "the management node is '/management'"),
];

/// A name of a queue or an exchange, or a routing key: at most 255 bytes.
type NodeName<'a> = Cow<'a, [u8]>;

/// The node that messages of a link come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceAddress<'a> {
    /// A queue.
    Queue(NodeName<'a>),
    /// The responses of the management node.
    Management,
    /// A queue of the link's own that the broker names.
    Temporary,
    /// A topic.
    Topic {
        /// The topic's name.
        name: NodeName<'a>,
        /// Whether it must be one that was made for a link.
        is_temporary: bool,
    },
    /// A topic of the link's own that the broker names.
    TemporaryTopic,
    /// Direct replies, by a queue of the link's own that the broker names.
    Replies,
    /// A queue that is declared unless it is there (version 1).
    Declared(NodeName<'a>),
    /// A queue that is declared and bound to an exchange (version 1).
    Bound {
        /// The exchange's name.
        exchange: NodeName<'a>,
        /// The routing key; empty by default.
        routing_key: NodeName<'a>,
    },
}

/// The node that messages of a link go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetAddress<'a> {
    /// A queue that must exist, by the default exchange.
    Queue(NodeName<'a>),
    /// An exchange, with one key for all messages.
    Exchange {
        /// The exchange's name.
        exchange: NodeName<'a>,
        /// The routing key; none for each message's subject (version 1).
        routing_key: Option<NodeName<'a>>,
    },
    /// A queue that is declared unless it is there, by the default exchange (version 1).
    Declared(NodeName<'a>),
    /// Each message says where it goes to, in `to`.
    Anonymous,
    /// The management node.
    Management,
    /// A queue of the link's own that the broker names.
    Temporary,
    /// A topic.
    Topic {
        /// The topic's name.
        name: NodeName<'a>,
        /// Whether it must be one that was made for a link.
        is_temporary: bool,
    },
    /// A topic of the link's own that the broker names.
    TemporaryTopic,
}

impl<'a> SourceAddress<'a> {
    /// The node of a source that a client attaches; `version_1` says whether that version is permitted.
    ///
    /// # Errors
    /// The fault that refuses the link.
    pub fn of_source(source: &SourceTerminus<'a>, version_1: bool) -> Result<Self, ProtocolFault> {
        if source.dynamic {
            let asked = |name| source.capabilities.iter().any(|it| it == name);
            return match (asked(VOLATILE_QUEUE), asked(TEMPORARY_QUEUE)) {
                (true, _) => Ok(Self::Replies),
                (false, true) => Ok(Self::Temporary),
                (false, false) if asked(TEMPORARY_TOPIC) => Ok(Self::TemporaryTopic),
                (false, false) => Err(not_dynamic("source")),
            };
        }
        if let Some((name, is_temporary)) = topic_of(source.address, source.capabilities) {
            return Ok(Self::Topic { name: topic_name(name)?, is_temporary });
        }
        match source.address {
            Some(ValueRef::Str(MANAGEMENT)) => Ok(Self::Management),
            Some(ValueRef::Str(address)) => match address.strip_prefix(QUEUES) {
                Some(quoted) => {
                    queue_named(quoted).map(Self::Queue).ok_or_else(|| refused_as_bad(address))
                }
                None => {
                    check_foreign(address).and_then(|()| Self::of_version_1(address, version_1))
                }
            },
            Some(_) => Err(invalid("Attach refused: the source's address is not a string")),
            None => Err(invalid("Attach refused: the source has no address")),
        }
    }

    fn of_version_1(address: &'a str, is_permitted: bool) -> Result<Self, ProtocolFault> {
        if address.starts_with(EXCHANGES) {
            let address = told(address);
            return Err(invalid(format!(
                "Attach refused: bad address '{address}': sources are queues, '/queues/QUEUE'"
            )));
        }
        let old = AddressV1::parse(address).ok_or_else(|| refused_as_bad(address))?;
        if !is_permitted {
            return Err(refused_version_1(address, &instead_of_source(old)));
        }
        let node = match old {
            AddressV1::Declared(queue) => short_name(queue).map(Self::Declared),
            AddressV1::Queue(queue) => short_name(queue).map(Self::Queue),
            AddressV1::Exchange("", _) => None,
            AddressV1::Exchange(exchange, key) => short_name(exchange)
                .zip(short_name(key.unwrap_or_default()))
                .map(|(exchange, routing_key)| Self::Bound { exchange, routing_key }),
        };
        node.ok_or_else(|| refused_as_bad(address))
    }
}

impl<'a> TargetAddress<'a> {
    /// The node of a target that a client attaches; `version_1` says whether that version is permitted.
    ///
    /// # Errors
    /// The fault that refuses the link.
    pub fn of_target(target: &LinkTarget<'a>, version_1: bool) -> Result<Self, ProtocolFault> {
        let LinkTarget::Terminus(target) = target else {
            return Err(invalid("Attach refused: the target is a coordinator"));
        };
        if target.dynamic {
            return match target.capabilities {
                asked if asked.contains(TEMPORARY_QUEUE) => Ok(Self::Temporary),
                asked if asked.contains(TEMPORARY_TOPIC) => Ok(Self::TemporaryTopic),
                _ => Err(not_dynamic("target")),
            };
        }
        if let Some((name, is_temporary)) = topic_of(target.address, target.capabilities) {
            return Ok(Self::Topic { name: topic_name(name)?, is_temporary });
        }
        match target.address {
            None => Ok(Self::Anonymous),
            Some(ValueRef::Str(MANAGEMENT)) => Ok(Self::Management),
            Some(ValueRef::Str(address)) => match Self::parse(address) {
                Some(node) => Ok(node),
                None => {
                    check_foreign(address).and_then(|()| Self::of_version_1(address, version_1))
                }
            },
            Some(_) => Err(invalid("Attach refused: the target's address is not a string")),
        }
    }

    fn parse(address: &'a str) -> Option<Self> {
        Some(match QuotedTarget::parse(address)? {
            QuotedTarget { exchange: "", routing_key } => Self::Queue(name(routing_key)?),
            QuotedTarget { exchange, routing_key } => {
                Self::Exchange { exchange: name(exchange)?, routing_key: Some(name(routing_key)?) }
            }
        })
    }

    fn of_version_1(address: &'a str, is_permitted: bool) -> Result<Self, ProtocolFault> {
        let old = AddressV1::parse(address).ok_or_else(|| refused_as_bad(address))?;
        if !is_permitted {
            return Err(refused_version_1(address, &instead_of_target(old)));
        }
        let node = match old {
            AddressV1::Declared(queue) => short_name(queue).map(Self::Declared),
            AddressV1::Queue(queue) => short_name(queue).map(Self::Queue),
            AddressV1::Exchange(exchange, None) => {
                short_name(exchange).map(|exchange| Self::Exchange { exchange, routing_key: None })
            }
            AddressV1::Exchange(exchange, Some(key)) => short_name(exchange)
                .zip(short_name(key))
                .map(|(exchange, key)| Self::Exchange { exchange, routing_key: Some(key) }),
        };
        node.ok_or_else(|| refused_as_bad(address))
    }
}

/// The exchange and the key of a target as they stand in it; no exchange, and a queue's name as key.
struct QuotedTarget<'a> {
    exchange: &'a str,
    routing_key: &'a str,
}

impl<'a> QuotedTarget<'a> {
    fn parse(address: &'a str) -> Option<Self> {
        if let Some(routing_key) = address.strip_prefix(QUEUES) {
            return Some(Self { exchange: "", routing_key }).filter(|_| !routing_key.is_empty());
        }
        let exchange = address.strip_prefix(EXCHANGES)?;
        let (exchange, routing_key) = exchange.split_once('/').unwrap_or((exchange, ""));
        // COMPAT: the default exchange is reached by queues' addresses only.
        let is_named = !matches!(exchange, "" | "amq.default") && !routing_key.contains('/');
        is_named.then_some(Self { exchange, routing_key })
    }

    /// Appends exchange and key; returns the number of bytes of the exchange.
    fn put(&self, out: &mut Vec<u8>) -> Option<usize> {
        let mut put = |quoted: &str| {
            let begin = out.len();
            put_percent_decoded(quoted, out)?;
            Some(out.len() - begin).filter(|n_bytes| *n_bytes <= ShortString::LEN_MAX)
        };
        let exchange_bytes = put(self.exchange)?;
        put(self.routing_key)?;
        Some(exchange_bytes)
    }
}

/// Appends the exchange and the key that a message's `to` names, for a link whose target is anonymous;
/// returns the number of bytes of the exchange.
///
/// # Errors
/// The reason why the message is rejected or, if it is settled, its link detached; a part of the names may
/// have been appended.
pub(crate) fn put_target_of_message(
    to: Option<ValueRef<'_>>,
    out: &mut Vec<u8>,
) -> Result<usize, ProtocolFault> {
    let unmet = |text| Err(ProtocolFault::link(Condition::PreconditionFailed, text));
    // COMPAT: RabbitMQ's texts.
    match to {
        Some(ValueRef::Str(to)) => QuotedTarget::parse(to)
            .and_then(|target| target.put(out))
            .map_or_else(|| unmet(format!("bad 'to' address string: {}", told(to))), Ok),
        Some(_) => unmet("bad 'to' address: not a string".to_owned()),
        None => unmet("anonymous terminus requires 'to' address to be set".to_owned()),
    }
}

/// The words that say what to write instead of an address of version 1, in a target.
fn instead_of_target(old: AddressV1<'_>) -> String {
    match old {
        AddressV1::Declared(queue) | AddressV1::Queue(queue) => quoted_address(QUEUES, &[queue]),
        AddressV1::Exchange("", _) => {
            "no address, and '/queues/QUEUE' in each message's property 'to'".to_owned()
        }
        AddressV1::Exchange(exchange, None) => quoted_address(EXCHANGES, &[exchange]),
        AddressV1::Exchange(exchange, Some(key)) => quoted_address(EXCHANGES, &[exchange, key]),
    }
}

/// The words that say what to write instead of an address of version 1, in a source.
fn instead_of_source(old: AddressV1<'_>) -> String {
    match old {
        AddressV1::Declared(queue) | AddressV1::Queue(queue) => quoted_address(QUEUES, &[queue]),
        AddressV1::Exchange("", _) => "'/queues/QUEUE'".to_owned(),
        AddressV1::Exchange(exchange, _) => {
            format!("'/queues/QUEUE', with a queue that is bound to exchange '{exchange}'")
        }
    }
}

fn refused_version_1(address: &str, instead: &str) -> ProtocolFault {
    let (address, instead) = (told(address), told(instead));
    invalid(format!("Attach refused: {VERSION_1} Instead of '{address}' write {instead}."))
}

/// The address of a queue.
pub(crate) fn queue_address(queue: &[u8]) -> String {
    let mut address = QUEUES.to_owned();
    put_percent_encoded(queue, &mut address);
    address
}

fn quoted_address(prefix: &str, names: &[&str]) -> String {
    let mut address = format!("'{prefix}");
    for (n, name) in names.iter().enumerate() {
        address.push_str(if n > 0 { "/" } else { "" });
        put_percent_encoded(&name_of(name), &mut address);
    }
    address.push('\'');
    address
}

fn queue_named(quoted: &str) -> Option<NodeName<'_>> {
    name(quoted).filter(|queue| !queue.is_empty())
}

fn name(quoted: &str) -> Option<NodeName<'_>> {
    percent_decoded(quoted).filter(|name| name.len() <= ShortString::LEN_MAX)
}

/// Refuses the nodes of Azure's brokers, which are no queues.
fn check_foreign(address: &str) -> Result<(), ProtocolFault> {
    let found = FOREIGN_NODES.iter().find(|(node, _)| {
        address.strip_suffix(node).is_some_and(|entity| entity.is_empty() || entity.ends_with('/'))
    });
    found.map_or(Ok(()), |(node, instead)| {
        let text = format!("Attach refused: '{node}' is not supported: {instead}");
        Err(ProtocolFault::link(Condition::NotImplemented, text))
    })
}

/// The name that stands in an address of version 1.
fn short_name(quoted: &str) -> Option<NodeName<'_>> {
    Some(name_of(quoted)).filter(|name| name.len() <= ShortString::LEN_MAX)
}

fn topic_name(name: &str) -> Result<NodeName<'_>, ProtocolFault> {
    let fits = (1..=ShortString::LEN_MAX).contains(&name.len());
    fits.then_some(Cow::Borrowed(name.as_bytes())).ok_or_else(|| refused_as_bad(name))
}

fn refused_as_bad(address: &str) -> ProtocolFault {
    invalid(format!("Attach refused: bad address '{}'", told(address)))
}

/// The beginning of an address, as long as it is told.
fn told(address: &str) -> &str {
    address.get(..address.floor_char_boundary(TOLD_BYTES_MAX)).unwrap_or_default()
}

fn not_dynamic(terminus: &str) -> ProtocolFault {
    let text =
        format!("Dynamic {terminus} not supported without the capability '{TEMPORARY_QUEUE}'");
    ProtocolFault::link(Condition::NotImplemented, text)
}

fn invalid(text: impl Into<Cow<'static, str>>) -> ProtocolFault {
    ProtocolFault::link(Condition::InvalidField, text)
}

#[cfg(test)]
mod tests;
