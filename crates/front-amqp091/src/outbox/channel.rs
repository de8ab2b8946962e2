//! One channel and one link as the outbox knows them.

use super::confirms::Confirms;
use super::tags::Tags;
use amqp091::frame::{FrameKind, frame_header};
use amqp091::method::BasicDeliver;
use amqp091::spec::FRAME_HEADER_BYTES;
use session::{LinkId, ShortString};

/// The outgoing half of a channel.
#[derive(Debug)]
pub(super) struct ChannelOut {
    pub(super) id: u16,
    pub(super) tags: Tags,
    pub(super) confirms: Confirms,
    /// Whether some are to be told.
    pub(super) has_confirms: bool,
    /// Its client is done with it, or the connection is: what is delivered goes back to its queue.
    pub(super) is_closing: bool,
}

impl ChannelOut {
    pub(super) fn new(id: u16) -> Self {
        Self {
            id,
            tags: Tags::default(),
            confirms: Confirms::default(),
            has_confirms: false,
            is_closing: false,
        }
    }

    pub(super) fn trim(&mut self) {
        self.tags.trim();
        self.confirms.trim();
    }
}

/// A consumer that deliveries come for.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) channel: u16,
    pub(super) no_ack: bool,
    pub(super) paused: bool,
    /// Its consumer has gone: nothing is delivered any more.
    pub(super) is_gone: bool,
    /// A `basic.deliver` frame up to the consumer's tag, its size still open.
    pub(super) prefix: Box<[u8]>,
}

/// Octets of the prefix in front of the consumer's tag: frame header, method, the tag's length.
const PREFIX_FIXED_BYTES: usize = FRAME_HEADER_BYTES + 4 + 1;

impl Link {
    pub(super) fn new(id: LinkId, channel: u16, consumer_tag: &ShortString, no_ack: bool) -> Self {
        let mut prefix = Vec::with_capacity(PREFIX_FIXED_BYTES + consumer_tag.len());
        prefix.extend_from_slice(&frame_header(FrameKind::Method, channel, 0));
        prefix.extend_from_slice(&BasicDeliver::ID.class.to_be_bytes());
        prefix.extend_from_slice(&BasicDeliver::ID.method.to_be_bytes());
        prefix.push(u8::try_from(consumer_tag.len()).unwrap_or(u8::MAX));
        prefix.extend_from_slice(consumer_tag);
        Self { id, channel, no_ack, paused: false, is_gone: false, prefix: prefix.into() }
    }
}
