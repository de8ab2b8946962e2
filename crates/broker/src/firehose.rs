//! The firehose: copies of what is published and delivered go to an exchange, for whoever looks for a
//! fault (<https://www.rabbitmq.com/docs/firehose>).
//!
//! While nobody has asked for it, it costs one look at a flag for each batch. Copies are made where the
//! messages are at hand, and published by the thread of rules; those that are too many are dropped.

use crate::broker::Broker;
use crate::connections::Connection;
use crate::spans::{ClockNs, Spans};
use crate::taps::{Flow, Tapped};
use crate::timers::{Delivered, InternalMessage, QueueTimers, TRACE_EXCHANGE as EXCHANGE};
use amqp091::{ShortString, Table, Value};
use message::{MessageRef, OwnedMessage, Properties};
use meta::Name;
use session::ChannelId;
use std::sync::Arc;

/// The copy of a message that was given to somebody; none if it is not to be told, or nobody knows any more
/// who got it.
pub(crate) fn notice_of(broker: &Broker, delivered: &Delivered) -> Option<InternalMessage> {
    let (connection, channel) = delivered.to();
    let connection = broker.connections.get(connection)?;
    if !delivered.covers(&connection.identity.user) {
        return None;
    }
    let (message, redelivered) = delivered.message();
    let told = [("redelivered", Value::I32(i32::from(redelivered)))];
    let key = format!("deliver.{}", delivered.queue.name);
    Some(copy(broker, (&connection, channel), key.into_bytes(), &message, &told))
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
    let properties = message.view().to_properties().unwrap_or_default();
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

/// The firehose, for those who turn it on and those whose messages go by.
#[derive(Clone, Copy, Debug)]
pub struct Firehose<'b>(&'b Broker);

impl Broker {
    /// The firehose.
    pub const fn firehose(&self) -> Firehose<'_> {
        Firehose(self)
    }
}

impl<'b> Firehose<'b> {
    /// Makes spans of messages that belong to a sampled trace from now on.
    #[must_use]
    pub fn start_spans(&self, now_ns: ClockNs) -> Arc<Spans> {
        self.0.timers.tracing.start_spans(Spans::new(now_ns, self.0.names.random_u64()))
    }

    /// The spans that wait, if there are to be any.
    pub fn spans(&self) -> Option<&'b Arc<Spans>> {
        self.0.timers.tracing.spans()
    }

    /// Traces a virtual host: all of it, or what one user publishes and gets. False if there is no such
    /// virtual host.
    #[must_use]
    pub fn start(&self, vhost: &str, user: Option<&str>) -> bool {
        let is_there = self.0.view().meta.vhost(vhost).is_some();
        if is_there {
            self.0.timers.tracing.start(Name::from(vhost), user.map(Name::from));
        }
        is_there
    }

    /// Ends what [`Firehose::start`] began. False if there is no such virtual host.
    #[must_use]
    pub fn stop(&self, vhost: &str, user: Option<&str>) -> bool {
        self.0.timers.tracing.stop(vhost, user);
        self.0.view().meta.vhost(vhost).is_some()
    }

    /// Watches what comes there from now on.
    #[must_use]
    pub fn tap(&self, of: Tapped) -> Tap {
        let (flow, timers) = (Arc::new(Flow::new(of)), Arc::clone(&self.0.timers));
        timers.tracing.change_taps(|taps| taps.push(Arc::clone(&flow)));
        Tap { flow, timers }
    }

    /// Whether anything of a virtual host is traced.
    pub fn is_on(&self, vhost: &str) -> bool {
        self.0.timers.tracing.of(vhost).is_some()
    }

    /// Whether what this connection publishes is traced.
    pub(crate) fn covers(&self, connection: &Connection) -> bool {
        let identity = &connection.identity;
        self.0.timers.tracing.covers(&identity.vhost, &identity.user)
    }

    /// Takes a copy of a message that was published and put into these queues.
    pub(crate) fn published(
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
        self.0.timers.post(copy(self.0, by, key.into_bytes(), message, &told));
    }
}

/// A tap, until it is dropped.
#[derive(Debug)]
pub struct Tap {
    flow: Arc<Flow>,
    timers: Arc<QueueTimers>,
}

impl Tap {
    /// Takes the messages that have come since, and how many beside them were left out.
    #[must_use]
    pub fn take(&self) -> (Vec<OwnedMessage>, u64) {
        self.flow.take()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let is_other = |flow: &Arc<Flow>| !Arc::ptr_eq(flow, &self.flow);
        self.timers.tracing.change_taps(|taps| taps.retain(is_other));
    }
}
