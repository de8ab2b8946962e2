//! The sections in front of the body of the message that was converted last, with what they became. The
//! messages of a stream are alike as a rule: the same sections are not taken apart again.

use message::{Annotations, Body, BodyForm, MessageRef};

/// More bytes are not remembered.
const HEAD_BYTES_MAX: usize = 1024;

/// The place where a stored message stands.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The name of the stream: the routing key of a message that does not say its own.
    pub stream: &'a [u8],
    /// The message's offset, for the header `x-stream-offset`.
    pub offset: u64,
}

/// The sections, and all of their message but for body and offset.
#[derive(Debug, Default)]
pub(crate) struct LastHead {
    is_known: bool,
    stored: Vec<u8>,
    /// The exchange, and the routing key if there is one.
    names: Vec<u8>,
    exchange_bytes: usize,
    has_routing_key: bool,
    /// The place of the offset in the properties.
    offset_at: usize,
    persistent: bool,
    /// The bytes of the sections that do not go to clients of AMQP 1.0.
    pub(crate) skipped: usize,
}

/// A message but for its body.
pub(crate) struct ConvertedHead<'a> {
    pub(crate) exchange: &'a [u8],
    pub(crate) routing_key: Option<&'a [u8]>,
    /// The place of the offset in the properties.
    pub(crate) offset_at: usize,
    pub(crate) persistent: bool,
}

impl LastHead {
    /// Remembers what a message became, and its sections if they are given.
    pub(crate) fn remember(&mut self, stored: Option<&[u8]>, became: ConvertedHead<'_>) {
        let ConvertedHead { exchange, routing_key, offset_at, persistent } = became;
        let stored = stored.filter(|stored| stored.len() <= HEAD_BYTES_MAX);
        self.is_known = stored.is_some();
        self.stored.clear();
        self.stored.extend_from_slice(stored.unwrap_or_default());
        self.names.clear();
        self.names.extend_from_slice(exchange);
        self.names.extend_from_slice(routing_key.unwrap_or_default());
        self.exchange_bytes = exchange.len();
        self.has_routing_key = routing_key.is_some();
        self.offset_at = offset_at;
        self.persistent = persistent;
    }

    /// Whether these are the sections that were remembered.
    #[inline]
    pub(crate) fn is_of(&self, stored: &[u8]) -> bool {
        self.is_known && *self.stored == *stored
    }

    /// The body of a message that has the same sections in front of it, and none behind.
    #[inline]
    pub(crate) fn body_behind<'a>(&self, stored: &'a [u8]) -> Option<&'a [u8]> {
        if !self.is_known {
            return None;
        }
        amqp10::sole_data(stored.strip_prefix(&*self.stored)?)
    }

    /// The message with another body and offset; `properties` are those of the last one.
    #[inline]
    pub(crate) fn message<'a>(
        &'a self,
        body: &'a [u8],
        origin: Origin<'a>,
        properties: &'a mut Vec<u8>,
    ) -> MessageRef<'a> {
        if let Some(at) = properties.get_mut(self.offset_at..).and_then(<[u8]>::first_chunk_mut) {
            *at = origin.offset.to_be_bytes();
        }
        let (exchange, routing_key) = self.names.split_at(self.exchange_bytes);
        MessageRef {
            exchange,
            routing_key: if self.has_routing_key { routing_key } else { origin.stream },
            properties,
            body: Body::Borrowed(body),
            persistent: self.persistent,
            annotations: Annotations::NONE,
            form: BodyForm::Plain,
        }
    }
}
