//! Messages whose properties are more than a client takes at once. Whoever would be given one loses its
//! connection, and the message stays where it is. Must never know how large a frame is.

use conversion::properties_bytes_max;
use message::MessageRef;

/// The sizes of the first ready message.
pub(super) struct Next {
    pub(super) size_bytes: usize,
    /// Bytes of its properties, at most, as clients of AMQP 0-9-1 get them.
    pub(super) properties_bytes: usize,
}

impl Next {
    #[inline]
    pub(super) fn of(message: &MessageRef<'_>) -> Self {
        Self { size_bytes: message.size_bytes(), properties_bytes: properties_bytes_max(message) }
    }
}

/// The header of the first ready message, before somebody is given it.
#[derive(Clone, Copy)]
pub(super) struct NextHeader<'m> {
    /// As [`Next::properties_bytes`].
    pub(super) properties_bytes: usize,
    /// The message, if it is not in the backlog yet.
    pub(super) incoming: Option<&'m MessageRef<'m>>,
}

impl<'m> NextHeader<'m> {
    #[inline]
    pub(super) fn incoming(message: &'m MessageRef<'m>) -> Self {
        Self { properties_bytes: properties_bytes_max(message), incoming: Some(message) }
    }

    #[inline]
    pub(super) const fn kept(properties_bytes: usize) -> Self {
        Self { properties_bytes, incoming: None }
    }
}
