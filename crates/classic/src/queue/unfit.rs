//! Messages whose properties are more than a client takes at once. Whoever would be given one loses its
//! connection, and the message stays where it is. Must never know how large a frame is.

use message::MessageRef;

/// The sizes of the first ready message.
pub(super) struct Next {
    pub(super) size_bytes: usize,
    pub(super) properties_bytes: usize,
}

impl Next {
    #[inline]
    pub(super) fn of(message: &MessageRef<'_>) -> Self {
        Self { size_bytes: message.size_bytes(), properties_bytes: message.properties.len() }
    }
}
