//! The messages of the firehose: copies of what is published and delivered.

use crate::internal_message::InternalMessage;
use crate::tracing::{Delivered, EXCHANGE};
use amqp091::{ShortString, Table, Value};
use message::{MessageRef, Properties};
use meta::Name;
use session::ChannelId;

/// The client that published or got a traced message.
#[derive(Clone, Copy, Debug)]
pub struct TracedClient<'c> {
    /// The node's name.
    pub node: &'c str,
    /// The virtual host.
    pub vhost: &'c str,
    /// The connection's name.
    pub connection: &'c str,
    /// The user.
    pub user: &'c str,
    /// The channel.
    pub channel: ChannelId,
}

impl TracedClient<'_> {
    /// The copy of a message that the client published and that was put into these queues; `None` of a copy.
    #[must_use]
    pub fn published(&self, message: &MessageRef<'_>, queues: &[Name]) -> Option<InternalMessage> {
        if message.exchange == EXCHANGE.as_bytes() {
            return None;
        }
        let exchange = String::from_utf8_lossy(message.exchange);
        let key = format!("publish.{exchange}");
        let queues = queues.iter().map(|queue| text(queue.as_bytes())).collect();
        Some(copy(self, key.into_bytes(), message, "routed_queues", Value::Array(queues)))
    }

    /// The copy of a message that was delivered to the client.
    #[must_use]
    pub fn delivered(&self, delivered: &Delivered) -> InternalMessage {
        let redelivered = Value::I32(i32::from(delivered.redelivered));
        let key = format!("deliver.{}", delivered.queue.name);
        copy(self, key.into_bytes(), &delivered.message.message(), "redelivered", redelivered)
    }
}

fn text(bytes: &[u8]) -> Value {
    Value::LongString(bytes.to_vec())
}

/// The message that tells of `message`, with its body, and of one thing more by name.
fn copy(
    client: &TracedClient<'_>,
    routing_key: Vec<u8>,
    message: &MessageRef<'_>,
    name: &'static str,
    value: Value,
) -> InternalMessage {
    let mut converted = Vec::new();
    let message = &conversion::to_amqp091(message, &mut converted);
    let properties = message.index().to_properties().unwrap_or_default();
    let mut keys = vec![text(message.routing_key)];
    if let Some(headers) = &properties.headers {
        keys.extend(headers.get(b"CC").and_then(Value::as_array).unwrap_or_default().to_vec());
    }
    let mut headers = Table::new();
    let mut put = |name: &'static str, value| headers.push(ShortString::from_static(name), value);
    put("exchange_name", text(message.exchange));
    put("routing_keys", Value::Array(keys));
    put("properties", Value::Table(table(properties)));
    put("node", text(client.node.as_bytes()));
    put("vhost", text(client.vhost.as_bytes()));
    put("connection", text(client.connection.as_bytes()));
    put("channel", Value::I32(i32::from(client.channel.0)));
    put("user", text(client.user.as_bytes()));
    put(name, value);
    let properties = Properties { headers: Some(headers), ..Properties::default() };
    InternalMessage::publish(client.vhost, EXCHANGE, routing_key, &properties, &message.body)
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
