//! The parts of a message that routing looks at.

use amqp091::TableRef;

use crate::comparable::Comparable;
use crate::digest::Digest;
use crate::exchange_kind::HashOn;

/// A message as exchanges see it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    /// The routing key, then those of CC and BCC.
    pub keys: &'m [&'m [u8]],
    /// The message's headers.
    pub headers: Option<TableRef<'m>>,
    /// The message's properties; none where nothing but headers and keys is known.
    pub properties: Option<message::View<'m>>,
    /// The sections of a message of AMQP 1.0, from its annotations on.
    pub sections: Option<&'m [u8]>,
    /// The container of AMQP 1.0 whose client publishes the message.
    pub container: Option<&'m [u8]>,
    /// A number that is another for each message: what is left to chance follows from it.
    pub chance: u64,
}

impl<'m> Message<'m> {
    /// A message of which nothing else is known.
    #[must_use]
    pub const fn new(keys: &'m [&'m [u8]], headers: Option<TableRef<'m>>) -> Self {
        Self { keys, headers, properties: None, sections: None, container: None, chance: 0 }
    }

    /// The number by which an exchange chooses. COMPAT: messages without what is hashed go together,
    /// and of several routing keys the first counts.
    pub(crate) fn hash(&self, on: &HashOn) -> u64 {
        let nothing = Digest::of_name(b"");
        let of_bytes = |bytes: Option<&[u8]>| bytes.map_or(nothing, Digest::of_name);
        let properties = self.properties.as_ref();
        let digest = match on {
            HashOn::RoutingKey => of_bytes(self.keys.first().copied()),
            HashOn::Header(name) => {
                let value = self.headers.as_ref().and_then(|headers| headers.get(name));
                value.map_or(nothing, |value| nothing.with_value(Comparable::of_header(value)))
            }
            HashOn::MessageId => of_bytes(properties.and_then(message::View::message_id)),
            HashOn::CorrelationId => of_bytes(properties.and_then(message::View::correlation_id)),
            HashOn::Timestamp => {
                let timestamp = properties.and_then(message::View::timestamp);
                timestamp.map_or(nothing, |seconds| nothing.with(seconds))
            }
        };
        digest.number()
    }
}
