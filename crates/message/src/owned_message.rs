//! A message that depends on nobody else's memory.

use bytes::Bytes;

use crate::{MessageRef, head_len, parse_record, put_head};

/// A message, copied: the head of its record, and its body.
#[derive(Clone, Debug)]
pub struct OwnedMessage {
    head: Bytes,
    body: Bytes,
}

impl OwnedMessage {
    /// A copy; a shared body stays shared.
    #[must_use]
    pub fn new(message: &MessageRef<'_>) -> Self {
        let mut head = Vec::with_capacity(head_len(message));
        put_head(&mut head, message);
        let body = message.body.to_shared();
        Self { head: Bytes::from(head), body }
    }

    /// Bytes it takes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> MessageRef<'_> {
        parse_record(&self.head, Some(&self.body)).expect("the head was written by `new`")
    }
}
