//! The publishes of a client's read, or of its transaction, as messages.

use super::channels::Channels;
use crate::publish::{PendingPublish, Source};
use confirm::Publisher;
use message::{Body, MessageRef};
use session::{Content, Publish, Request};
use std::sync::Arc;

/// Requests, the input their spans lie in, and the channels they came on.
pub(super) struct ReadSource<'a> {
    pub(super) input: &'a [u8],
    pub(super) requests: &'a [Request],
    pub(super) channels: &'a Channels,
}

impl Source for ReadSource<'_> {
    #[inline]
    fn message(&self, index: u32) -> MessageRef<'_> {
        match self.requests.get(index as usize) {
            Some(Request::Publish(publish)) => message_of(publish, self.input),
            Some(
                Request::Settle(_) | Request::Append(_) | Request::Credit(_) | Request::Control(_),
            )
            | None => unreachable!("only publishes are gathered"),
        }
    }

    #[inline]
    fn publisher(&self, publish: &PendingPublish) -> Option<&Arc<Publisher>> {
        self.channels.get(publish.channel)?.publisher.as_ref()
    }
}

/// The exchange and routing key of a publish request.
#[inline]
pub(super) fn address_of<'a>(publish: &'a Publish, input: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let base = match &publish.content {
        Content::Inline(_) => input,
        Content::Owned(owned) => owned.head.as_ref(),
    };
    (publish.exchange.of(base), publish.routing_key.of(base))
}

/// The message a publish request stands for.
#[inline]
pub(super) fn message_of<'a>(publish: &'a Publish, input: &'a [u8]) -> MessageRef<'a> {
    let (base, body) = match &publish.content {
        Content::Inline(span) => (input, Body::Borrowed(span.of(input))),
        Content::Owned(owned) => (owned.head.as_ref(), Body::Shared(&owned.body)),
    };
    MessageRef {
        exchange: publish.exchange.of(base),
        routing_key: publish.routing_key.of(base),
        properties: publish.properties.of(base),
        body,
        persistent: publish.persistent,
        annotations: message::Annotations::NONE,
        form: message::BodyForm::Plain,
    }
}
