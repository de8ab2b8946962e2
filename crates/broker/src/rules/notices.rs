//! What the broker publishes itself, to tell those who want to know what happens. It is worth less than
//! what clients send: when there is more of it than can be published, it is dropped.

use super::{QueueTimers, Shared};
use crate::broker::Broker;
use crate::exchanges::put_in;
use crate::firehose::{Delivered, Tracing};
use crate::owned_message::OwnedMessage;
use crate::queue::{Wakes, wake_all};
use amqp091::Properties;
use message::{Annotations, Body, MessageRef};
use meta::{EVENT_EXCHANGE, Name};
use std::sync::atomic::Ordering;

/// Notices that wait to be published take at most this.
const NOTICE_BYTES_MAX: usize = 8 << 20;
/// Bytes of the longest routing key.
const KEY_BYTES_MAX: usize = 255;

/// What is to be told.
#[derive(Debug)]
pub(crate) enum InternalMessage {
    /// A message for the exchange it names.
    Publish {
        /// The virtual host.
        vhost: Name,
        /// With its exchange.
        message: OwnedMessage,
    },
    /// A message was given to somebody: what is told of it is yet to be found out.
    Delivered(Box<Delivered>),
}

impl InternalMessage {
    /// A message to be published, persistent if its properties say so. Routing keys that are too long
    /// are cut off.
    pub(crate) fn publish(
        vhost: &str,
        exchange: &str,
        mut routing_key: Vec<u8>,
        properties: &Properties,
        body: &Body<'_>,
    ) -> Self {
        routing_key.truncate(KEY_BYTES_MAX);
        let message = MessageRef {
            exchange: exchange.as_bytes(),
            routing_key: &routing_key,
            properties: &properties.to_bytes(),
            body: *body,
            persistent: properties.delivery_mode == Some(2),
            annotations: Annotations::NONE,
        };
        Self::Publish { vhost: Name::from(vhost), message: OwnedMessage::new(&message) }
    }

    /// Whether it tells of an event, and not of a message, whose copy it would be.
    pub(super) fn is_event(&self) -> bool {
        let Self::Publish { message, .. } = self else { return false };
        message.message().is_some_and(|message| message.exchange == EVENT_EXCHANGE.as_bytes())
    }

    fn size_bytes(&self) -> usize {
        match self {
            Self::Publish { message, .. } => message.size_bytes() + size_of::<Self>(),
            Self::Delivered(delivered) => delivered.size_bytes(),
        }
    }

    /// Publishes it.
    pub(super) fn carry_out(self, broker: &Broker) {
        match self {
            Self::Publish { vhost, message } => {
                if let Some(message) = message.message() {
                    publish(broker, &vhost, &message);
                }
            }
            Self::Delivered(delivered) => {
                if let Some(notice) = delivered.notice(broker) {
                    notice.carry_out(broker);
                }
            }
        }
    }
}

/// Publishes a message of the broker's own, on this very thread, to whoever has room for it.
pub(crate) fn publish(broker: &Broker, vhost: &str, message: &MessageRef<'_>) {
    let exchange = String::from_utf8_lossy(message.exchange);
    let mut wakes = Wakes::new();
    for queue in broker.view().route(vhost, &exchange, message) {
        put_in(&queue, message, &mut wakes);
    }
    wake_all(&mut wakes);
}

impl QueueTimers {
    /// What is traced.
    pub(crate) fn tracing(&self) -> &Tracing {
        &self.shared.tracing
    }

    /// Publishes it soon, or drops it if too much waits already.
    pub(crate) fn post(&self, notice: InternalMessage) {
        let bytes = notice.size_bytes();
        let before = self.shared.notice_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > NOTICE_BYTES_MAX {
            self.shared.notice_bytes.fetch_sub(bytes, Ordering::Relaxed);
            if self.shared.n_notices_dropped.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!("traces or events are dropped: there are too many");
            }
            return;
        }
        self.shared.add(|state| state.notices.push_back(notice));
    }
}

impl Shared {
    /// A notice has been published.
    pub(super) fn told(&self, notice: InternalMessage, broker: &Broker) {
        let bytes = notice.size_bytes();
        notice.carry_out(broker);
        let left = self.notice_bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        if left == 0 {
            let n_dropped = self.n_notices_dropped.swap(0, Ordering::Relaxed);
            if n_dropped > 0 {
                tracing::warn!("{n_dropped} traces or events were dropped");
            }
        }
    }
}
