//! A message that depends on nobody else's memory.

use bytes::Bytes;
use message::{Body, MessageRef};

/// A message, copied.
#[derive(Clone, Debug)]
pub(crate) struct OwnedMessage {
    head: Bytes,
    body: Bytes,
}

impl OwnedMessage {
    pub(crate) fn new(message: &MessageRef<'_>) -> Self {
        let mut head = Vec::with_capacity(message::head_len(message));
        message::put_head(&mut head, message);
        let body = match message.body {
            Body::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
            Body::Shared(bytes) => bytes.clone(),
        };
        Self { head: Bytes::from(head), body }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.head.len() + self.body.len()
    }

    pub(crate) fn message(&self) -> Option<MessageRef<'_>> {
        message::parse_record(&self.head, Some(&self.body)).ok()
    }
}
