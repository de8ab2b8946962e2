//! A message as the broker keeps it: its envelope, its original bytes, and views of them.
//! Knows bytes, lengths and how properties are encoded, which nobody else needs to. Never sockets, queues,
//! files.
//! Start reading at [`MessageRef`], then [`View`].

mod annotations;
mod body_form;
mod owned_message;
mod record;
mod refusal;
mod stand_in;
mod view;

pub use annotations::{ANNOTATIONS_BYTES, Annotations, AnnotationsPart, StoredAnnotations};
pub use body_form::BodyForm;
pub use owned_message::OwnedMessage;
pub use record::{
    Head, RECORD_FIXED_BYTES, RecordError, annotations_part, fixed_part, fixed_part_without_body,
    fixed_part_without_content, head_len, parse_head, parse_record, put_head,
    put_head_without_body, put_head_without_content,
};
pub use refusal::Refusal;
pub use stand_in::StandIn;
pub use view::View;

/// A message's properties as values, for messages the broker makes or changes; encoded by
/// [`to_bytes`](Properties::to_bytes).
pub use amqp091::Properties;

use bytes::Bytes;

/// A borrowed message: an index, and the body as its publisher sent it.
#[derive(Clone, Copy, Debug)]
pub struct MessageRef<'a> {
    /// The exchange it was published to; empty for the default exchange. At most 255 bytes.
    pub exchange: &'a [u8],
    /// The routing key it was published with. At most 255 bytes.
    pub routing_key: &'a [u8],
    /// The publisher's properties exactly as received, checked by the front; read through
    /// [`MessageRef::index`]. They are AMQP 0-9-1 content properties: property flags, then values
    /// (specification 4.2.6.1).
    pub properties: &'a [u8],
    /// The body.
    pub body: Body<'a>,
    /// Delivery mode 2: it is to survive a restart in a durable queue.
    pub persistent: bool,
    /// The broker's notes about the message, beyond what its publisher sent.
    pub annotations: Annotations,
    /// The form of the body.
    pub form: BodyForm,
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

    /// The bytes to keep: a copy unless they are shared.
    #[must_use]
    pub fn to_shared(self) -> Bytes {
        match self {
            Self::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
            Self::Shared(bytes) => bytes.clone(),
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

impl<'a> MessageRef<'a> {
    /// The broker's index of the message: of a plain body all that its publisher stated, of another what the
    /// broker must know and has added. The crate `conversion` makes the whole of it.
    #[must_use]
    #[inline]
    pub fn index(&self) -> View<'a> {
        View::of(self.properties)
    }

    /// The sections of a message of AMQP 1.0.
    #[must_use]
    pub fn sections(&self) -> Option<&'a [u8]> {
        match self.form {
            BodyForm::Plain => None,
            BodyForm::Amqp10 => Some(self.body.bytes()),
        }
    }

    /// The annotations as they are stored.
    #[must_use]
    #[inline]
    pub const fn stored_annotations(&self) -> StoredAnnotations {
        StoredAnnotations { annotations: self.annotations, form: self.form }
    }

    /// Bytes the message stands for in limits and buffers: envelope, properties and body.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.exchange.len() + self.routing_key.len() + self.properties.len() + self.body.len()
    }
}
