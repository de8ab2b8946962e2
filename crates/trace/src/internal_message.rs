//! Messages of the broker's own, which tell those who want to know what happens. It is worth less than
//! what clients send: when there is more of it than can be published, it is dropped.

use crate::tracing::Delivered;
use message::{Annotations, Body, BodyForm, MessageRef, OwnedMessage, Properties};
use meta::{EVENT_EXCHANGE, Name};

/// Bytes of the longest routing key.
const KEY_BYTES_MAX: usize = 255;

/// A message of the broker's own.
#[derive(Debug)]
pub enum InternalMessage {
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
    pub fn publish(
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
            form: BodyForm::Plain,
        };
        Self::Publish { vhost: Name::from(vhost), message: OwnedMessage::new(&message) }
    }

    /// Whether the message tells of an event, instead of being the copy of a message.
    #[must_use]
    pub fn is_event(&self) -> bool {
        let Self::Publish { message, .. } = self else { return false };
        message.message().exchange == EVENT_EXCHANGE.as_bytes()
    }

    /// Bytes of memory that the message takes.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Publish { message, .. } => message.size_bytes() + size_of::<Self>(),
            Self::Delivered(delivered) => delivered.size_bytes(),
        }
    }
}
