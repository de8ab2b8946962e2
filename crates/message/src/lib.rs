//! A message as the broker keeps it: its envelope, its original bytes, and views of them.
//! Knows bytes and lengths. Never sockets, queues, files; decodes no property by itself.
//! Start reading at [`MessageRef`].

mod annotations;
mod record;
mod stand_in;

pub use annotations::{ANNOTATIONS_BYTES, Annotations, AnnotationsPart};
pub use record::{
    Head, RECORD_FIXED_BYTES, RecordError, annotations_part, fixed_part, fixed_part_without_body,
    fixed_part_without_content, head_len, parse_head, parse_record, put_head,
    put_head_without_body,
};
pub use stand_in::StandIn;

use bytes::Bytes;

/// A borrowed message: what a publisher sent, in the publisher's own encoding.
#[derive(Clone, Copy, Debug)]
pub struct MessageRef<'a> {
    /// The exchange it was published to; empty for the default exchange. At most 255 bytes.
    pub exchange: &'a [u8],
    /// The routing key it was published with. At most 255 bytes.
    pub routing_key: &'a [u8],
    /// AMQP 0-9-1 content properties exactly as received: property flags, then values
    /// (specification 4.2.6.1). Other protocols convert to this form on the way in.
    pub properties: &'a [u8],
    /// The body.
    pub body: Body<'a>,
    /// Delivery mode 2: it is to survive a restart in a durable queue.
    pub persistent: bool,
    /// The broker's notes about the message, beyond what its publisher sent.
    pub annotations: Annotations,
}

/// A message body, wherever it is.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// In somebody's buffer: whoever wants to keep it copies it.
    Borrowed(&'a [u8]),
    /// In shared memory: whoever wants to keep it clones the handle.
    Shared(&'a Bytes),
}

impl<'a> Body<'a> {
    /// The bytes, wherever they are.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.bytes().len()
    }

    /// Whether there is no body.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl MessageRef<'_> {
    /// Bytes the message stands for in limits and buffers: envelope, properties and body.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.exchange.len() + self.routing_key.len() + self.properties.len() + self.body.len()
    }
}
