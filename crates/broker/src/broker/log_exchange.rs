//! Lines of the node's log, for whoever binds to the exchange `amq.rabbitmq.log`
//! (<https://www.rabbitmq.com/docs/logging>).
//!
//! A line is published by the thread that brings it, which must not be one that logs: publishing takes the
//! locks of queues, and may have something to log itself.

use super::Broker;
use crate::publish::publish_internally;
use amqp091::{ShortString, Table, Value};
use message::{Annotations, Body, BodyForm, MessageRef, Properties};
use meta::{LOG_EXCHANGE, MetaError, Name};

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How grave it is, in RabbitMQ's words: the routing key.
    pub level: &'static str,
    /// The line as it stands in files: the body.
    pub text: Vec<u8>,
    /// When it was logged, in seconds since 1970.
    pub unix_s: u64,
}

impl Broker {
    /// Makes the exchange for lines of the log in this virtual host.
    ///
    /// # Errors
    /// There is no such virtual host.
    pub async fn declare_log_exchange(&self, vhost: &str) -> Result<(), MetaError> {
        self.changes().declare_own_exchange(Name::from(vhost), LOG_EXCHANGE).await
    }

    /// Publishes a line, if anybody listens. It is not persistent, and a full queue goes without.
    pub fn publish_log_line(&self, vhost: &str, line: &LogLine) {
        let view = self.view();
        let is_watched = self.timers.tracing.taps().is_some();
        if !is_watched && !view.has_listeners(vhost, LOG_EXCHANGE) {
            return;
        }
        let mut headers = Table::new();
        let node = self.limits().node.as_bytes().to_vec();
        headers.push(ShortString::from_static("node"), Value::LongString(node));
        let properties = Properties {
            content_type: Some(ShortString::from_static("text/plain")),
            timestamp: Some(line.unix_s),
            headers: Some(headers),
            ..Properties::default()
        };
        let message = MessageRef {
            exchange: LOG_EXCHANGE.as_bytes(),
            routing_key: line.level.as_bytes(),
            properties: &properties.to_bytes(),
            body: Body::Borrowed(&line.text),
            persistent: false,
            annotations: Annotations::NONE,
            form: BodyForm::Plain,
        };
        publish_internally(&view, &self.timers.tracing, vhost, &message);
    }
}
