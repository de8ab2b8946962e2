//! Publishers that are attached as links: their channels, and what was made for them. Knows no queue.

use meta::QueueId;
use session::{ChannelId, LinkId, Publish};
use std::collections::BTreeMap;

/// Bytes of messages that a client may publish during alarms, which close its windows; further ones are left
/// in its socket, with all that comes behind them, until the alarms have cleared.
const FORGIVEN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The publishers of a client whose links are requests of their own. They are told of refused publishes.
#[derive(Debug, Default)]
pub(super) struct PublisherLinks {
    pub(super) attached: BTreeMap<LinkId, PublisherLink>,
    /// Bytes of messages that came since alarms have closed the client's windows.
    forgiven_bytes: u64,
}

/// A publisher that is attached.
#[derive(Debug)]
pub(super) struct PublisherLink {
    pub(super) channel: ChannelId,
    /// The queue that was made for the link, or that stands for the topic which was, and goes with it.
    pub(super) made: Option<QueueId>,
}

impl PublisherLinks {
    /// Whether a message is taken during an alarm: it may have been on its way when windows were closed.
    pub(super) fn forgives(&mut self, publish: &Publish) -> bool {
        self.forgiven_bytes += publish.content.n_bytes();
        self.forgiven_bytes <= FORGIVEN_BYTES_MAX
    }

    /// Notes that there are no alarms.
    pub(super) const fn forget_forgiven(&mut self) {
        self.forgiven_bytes = 0;
    }
}
