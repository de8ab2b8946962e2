//! The consumers of a connection as its outbox knows them.

use amqp091::frame::{FrameKind, frame_header};
use amqp091::method::BasicDeliver;
use amqp091::spec::FRAME_HEADER_BYTES;
use session::{LinkId, ShortString};

/// The consumers of a connection, sorted by id. One that goes is marked, and all marked ones are dropped once
/// they are most: one is removed in constant time.
#[derive(Debug, Default)]
pub(super) struct Links {
    list: Vec<Link>,
    n_gone: usize,
}

impl Links {
    fn find(&self, id: LinkId) -> Option<usize> {
        self.list.binary_search_by_key(&id, |link| link.id).ok()
    }

    /// A consumer that is not gone.
    #[inline]
    pub(super) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        let index = self.find(id)?;
        self.list.get_mut(index).filter(|link| !link.is_gone)
    }

    /// The channel of a consumer that may be gone; `None` once it is forgotten.
    pub(super) fn channel_of(&self, id: LinkId) -> Option<u16> {
        self.list.get(self.find(id)?).map(|link| link.channel)
    }

    pub(super) fn add(&mut self, link: Link) {
        let index = self.list.partition_point(|other| other.id < link.id);
        self.list.insert(index, link);
    }

    pub(super) fn remove(&mut self, id: LinkId) {
        let Some(link) = self.get_mut(id) else { return };
        link.is_gone = true;
        self.n_gone += 1;
        if self.n_gone * 2 > self.list.len() {
            self.list.retain(|link| !link.is_gone);
            self.n_gone = 0;
        }
    }

    pub(super) fn remove_channel(&mut self, channel: u16) {
        self.list.retain(|link| link.channel != channel && !link.is_gone);
        self.n_gone = 0;
    }

    /// Notes that no link waits for room any more.
    pub(super) fn resume(&mut self) {
        for link in &mut self.list {
            link.paused = false;
        }
    }

    /// Gives back memory that is not in use.
    pub(super) fn trim(&mut self) {
        self.list.shrink_to_fit();
    }
}

/// A consumer that deliveries come for.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) channel: u16,
    pub(super) no_ack: bool,
    pub(super) paused: bool,
    /// Whether the link's consumer has gone: nothing is delivered any more.
    is_gone: bool,
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
