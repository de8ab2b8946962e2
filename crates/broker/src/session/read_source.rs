//! The publishes of a client's read, or of its transaction, as messages.

use super::channels::Channels;
use crate::publish::{PendingPublish, Source};
use confirm::Publisher;
use message::{Body, MessageRef};
use session::{Content, HeadPlace, Publish, ReadInput, Request};
use std::sync::Arc;

/// Requests, the input their spans lie in, and the channels they came on.
pub(super) struct ReadSource<'a> {
    pub(super) input: ReadInput<'a>,
    pub(super) requests: &'a [Request],
    pub(super) channels: &'a Channels,
}

impl Source for ReadSource<'_> {
    #[inline]
    fn message(&self, index: u32) -> MessageRef<'_> {
        match self.requests.get(index as usize) {
            Some(Request::Publish(publish)) => message_of(publish, self.input),
            Some(_) | None => unreachable!("only publishes are gathered"),
        }
    }

    #[inline]
    fn publisher(&self, publish: &PendingPublish) -> Option<&Arc<Publisher>> {
        self.channels.get(publish.channel)?.publisher.as_ref()
    }
}

/// The exchange and routing key of a publish request.
#[inline]
pub(super) fn address_of<'a>(publish: &'a Publish, input: ReadInput<'a>) -> (&'a [u8], &'a [u8]) {
    let head = head_of(publish, input);
    (publish.exchange.of(head), publish.routing_key.of(head))
}

#[inline]
fn head_of<'a>(publish: &'a Publish, input: ReadInput<'a>) -> &'a [u8] {
    match (publish.head, &publish.content) {
        (HeadPlace::Scratch, _) => input.scratch,
        (HeadPlace::Content, Content::Inline(_)) => input.bytes,
        (HeadPlace::Content, Content::Owned(owned)) => &owned.head,
    }
}

/// The message a publish request stands for.
#[inline]
pub(super) fn message_of<'a>(publish: &'a Publish, input: ReadInput<'a>) -> MessageRef<'a> {
    let head = head_of(publish, input);
    let body = match &publish.content {
        Content::Inline(span) => Body::Borrowed(span.of(input.bytes)),
        Content::Owned(owned) => Body::Shared(&owned.body),
    };
    MessageRef {
        exchange: publish.exchange.of(head),
        routing_key: publish.routing_key.of(head),
        properties: publish.properties.of(head),
        body,
        persistent: publish.persistent,
        annotations: message::Annotations::NONE,
        form: publish.form,
    }
}
