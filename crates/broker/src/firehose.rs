//! The firehose: copies of what is published and delivered go to an exchange, for whoever looks for a
//! fault (<https://www.rabbitmq.com/docs/firehose>).
//!
//! While nobody has asked for it, it costs one look at a flag for each batch. Copies are made where the
//! messages are at hand, and published by the thread of rules; those that are too many are dropped.

use crate::broker::Broker;
use crate::connections::Connection;
use crate::owned_message::OwnedMessage;
use crate::rules::{InternalMessage, QueueTimers};
use amqp091::{Properties, PropertiesRef, ShortString, Table, Value};
use message::MessageRef;
use meta::{ConnectionId, Name, QueueDef};
use session::ChannelId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The exchange that copies go to.
const EXCHANGE: &str = "amq.rabbitmq.trace";

/// Whose messages are traced.
#[derive(Clone, Debug)]
enum Who {
    Everybody,
    These(BTreeSet<Name>),
}

/// What is traced now. A restart of the node ends it all.
#[derive(Debug, Default)]
pub(crate) struct Tracing {
    is_any: AtomicBool,
    by_vhost: Mutex<BTreeMap<Name, Arc<Who>>>,
}

impl Who {
    fn covers(&self, user: &str) -> bool {
        match self {
            Self::Everybody => true,
            Self::These(users) => users.contains(user),
        }
    }
}

impl Tracing {
    /// Whether anything is traced: cheap to ask.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// Whose messages are traced in a virtual host.
    fn of(&self, vhost: &str) -> Option<Arc<Who>> {
        if !self.is_any() {
            return None;
        }
        stdx::lock(&self.by_vhost).get(vhost).cloned()
    }

    fn covers(&self, vhost: &str, user: &str) -> bool {
        self.of(vhost).is_some_and(|who| who.covers(user))
    }

    fn start(&self, vhost: Name, user: Option<Name>) {
        let mut by_vhost = stdx::lock(&self.by_vhost);
        match (by_vhost.get_mut(&vhost).map(Arc::make_mut), user) {
            (Some(Who::These(users)), Some(user)) => {
                users.insert(user);
            }
            (None, Some(user)) => {
                by_vhost.insert(vhost, Arc::new(Who::These(BTreeSet::from([user]))));
            }
            (Some(Who::Everybody), Some(_)) => {}
            (_, None) => {
                by_vhost.insert(vhost, Arc::new(Who::Everybody));
            }
        }
        self.is_any.store(true, Ordering::Relaxed);
    }

    pub(crate) fn stop(&self, vhost: &str, user: Option<&str>) {
        let mut by_vhost = stdx::lock(&self.by_vhost);
        let is_over = match (by_vhost.get_mut(vhost).map(Arc::make_mut), user) {
            (Some(Who::These(users)), Some(user)) => {
                users.remove(user);
                users.is_empty()
            }
            (_, Some(_)) => false,
            (_, None) => true,
        };
        if is_over {
            by_vhost.remove(vhost);
        }
        self.is_any.store(!by_vhost.is_empty(), Ordering::Relaxed);
    }
}

/// A message that was given to somebody.
#[derive(Debug)]
pub(crate) struct Delivered {
    queue: Arc<QueueDef>,
    connection: ConnectionId,
    channel: ChannelId,
    redelivered: bool,
    message: OwnedMessage,
    /// Whose messages were traced then.
    traced: Arc<Who>,
}

impl Delivered {
    pub(crate) fn size_bytes(&self) -> usize {
        self.message.size_bytes() + size_of::<Self>()
    }

    /// What is told of it; none if it is not to be, or nobody knows any more who got it.
    pub(crate) fn notice(&self, broker: &Broker) -> Option<InternalMessage> {
        let connection = broker.connections.get(self.connection)?;
        let Self { queue, channel, redelivered, .. } = self;
        if !self.traced.covers(&connection.identity.user) {
            return None;
        }
        let told = [("redelivered", Value::I32(i32::from(*redelivered)))];
        let by = (&*connection, *channel);
        let key = format!("deliver.{}", queue.name);
        let message = self.message.message()?;
        Some(copy(broker, by, key.into_bytes(), &message, &told))
    }
}

impl QueueTimers {
    /// Takes a copy of a message that a queue has just given to a channel, if deliveries of its
    /// virtual host are traced.
    #[cold]
    pub(crate) fn trace_delivery(
        &self,
        queue: &Arc<QueueDef>,
        (connection, channel): (ConnectionId, ChannelId),
        redelivered: bool,
        message: &MessageRef<'_>,
    ) {
        let traced = self.tracing().of(&queue.vhost);
        if let Some(traced) = traced.filter(|_| message.exchange != EXCHANGE.as_bytes()) {
            let (queue, message) = (Arc::clone(queue), OwnedMessage::new(message));
            let delivered = Delivered { queue, connection, channel, redelivered, message, traced };
            self.post(InternalMessage::Delivered(Box::new(delivered)));
        }
    }
}

impl Broker {
    /// Traces a virtual host: all of it, or what one user publishes and gets. False if there is no such
    /// virtual host.
    #[must_use]
    pub fn trace_on(&self, vhost: &str, user: Option<&str>) -> bool {
        let is_there = self.view().meta.vhost(vhost).is_some();
        if is_there {
            self.storage.rules.tracing().start(Name::from(vhost), user.map(Name::from));
        }
        is_there
    }

    /// Ends what [`Broker::trace_on`] began. False if there is no such virtual host.
    #[must_use]
    pub fn trace_off(&self, vhost: &str, user: Option<&str>) -> bool {
        self.storage.rules.tracing().stop(vhost, user);
        self.view().meta.vhost(vhost).is_some()
    }

    /// Whether anything of a virtual host is traced.
    #[must_use]
    pub fn is_traced(&self, vhost: &str) -> bool {
        self.storage.rules.tracing().of(vhost).is_some()
    }

    /// Whether what this connection publishes is traced.
    pub(crate) fn traces(&self, connection: &Connection) -> bool {
        let identity = &connection.identity;
        self.storage.rules.tracing().covers(&identity.vhost, &identity.user)
    }

    /// Takes a copy of a message that was published and put into these queues.
    pub(crate) fn trace_publish(
        &self,
        by: (&Connection, ChannelId),
        message: &MessageRef<'_>,
        queues: &[Name],
    ) {
        if message.exchange == EXCHANGE.as_bytes() {
            return;
        }
        let exchange = String::from_utf8_lossy(message.exchange);
        let key = format!("publish.{exchange}");
        let queues = queues.iter().map(|queue| text(queue.as_bytes())).collect();
        let told = [("routed_queues", Value::Array(queues))];
        self.storage.rules.post(copy(self, by, key.into_bytes(), message, &told));
    }
}

fn text(bytes: &[u8]) -> Value {
    Value::LongString(bytes.to_vec())
}

/// The message that tells of `message`, with its body.
fn copy(
    broker: &Broker,
    (connection, channel): (&Connection, ChannelId),
    routing_key: Vec<u8>,
    message: &MessageRef<'_>,
    told: &[(&'static str, Value)],
) -> InternalMessage {
    let identity = &connection.identity;
    let properties = PropertiesRef::trusted(message.properties).to_owned().unwrap_or_default();
    let mut keys = vec![text(message.routing_key)];
    if let Some(headers) = &properties.headers {
        keys.extend(headers.get(b"CC").and_then(Value::as_array).unwrap_or_default().to_vec());
    }
    let mut headers = Table::new();
    let mut put = |name: &'static str, value| headers.push(ShortString::from_static(name), value);
    put("exchange_name", text(message.exchange));
    put("routing_keys", Value::Array(keys));
    put("properties", Value::Table(table(properties)));
    put("node", text(broker.limits().node.as_bytes()));
    put("vhost", text(identity.vhost.as_bytes()));
    put("connection", text(identity.name.as_bytes()));
    put("channel", Value::I32(i32::from(channel.0)));
    put("user", text(identity.user.as_bytes()));
    for (name, value) in told {
        put(name, value.clone());
    }
    let properties = Properties { headers: Some(headers), ..Properties::default() };
    InternalMessage::publish(&identity.vhost, EXCHANGE, routing_key, &properties, &message.body)
}

/// Properties by RabbitMQ's names.
fn table(properties: Properties) -> Table {
    let Properties {
        content_type,
        content_encoding,
        headers,
        delivery_mode,
        priority,
        correlation_id,
        reply_to,
        expiration,
        message_id,
        timestamp,
        kind,
        user_id,
        app_id,
        cluster_id,
    } = properties;
    let short = |value: Option<ShortString>| value.map(|value| text(value.as_bytes()));
    let byte = |value: Option<u8>| value.map(|value| Value::I32(i32::from(value)));
    let seconds = timestamp.and_then(|seconds| i64::try_from(seconds).ok()).map(Value::I64);
    let fields = [
        ("content_type", short(content_type)),
        ("content_encoding", short(content_encoding)),
        ("headers", headers.map(Value::Table)),
        ("delivery_mode", byte(delivery_mode)),
        ("priority", byte(priority)),
        ("correlation_id", short(correlation_id)),
        ("reply_to", short(reply_to)),
        ("expiration", short(expiration)),
        ("message_id", short(message_id)),
        ("timestamp", seconds),
        ("type", short(kind)),
        ("user_id", short(user_id)),
        ("app_id", short(app_id)),
        ("cluster_id", short(cluster_id)),
    ];
    let there = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    there.map(|(name, value)| (ShortString::from_static(name), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_virtual_hosts_are_traced_on_their_own() {
        let tracing = Tracing::default();
        assert!(!tracing.is_any() && tracing.of("a").is_none() && !tracing.covers("a", "x"));
        tracing.start("a".into(), Some("x".into()));
        assert!(tracing.of("a").is_some() && tracing.covers("a", "x") && !tracing.covers("a", "y"));
        tracing.start("b".into(), None);
        tracing.start("b".into(), Some("x".into()));
        assert!(tracing.covers("b", "y"), "all stay all");
        tracing.stop("a", Some("y"));
        assert!(tracing.covers("a", "x"));
        tracing.stop("a", Some("x"));
        assert!(tracing.of("a").is_none() && tracing.is_any());
        tracing.stop("b", None);
        assert!(!tracing.is_any());
    }
}
