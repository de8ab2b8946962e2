//! A consumer as its queue knows it beside the core: the channel and outbox it belongs to. Never what it
//! holds.

use super::global_prefetch::ChannelLimit;
use meta::ConnectionId;
use queue::Checkout;
use session::{ChannelId, LinkId, Outbox, ShortString, Table};
use std::sync::Arc;

/// A consumer outside the core.
pub(super) struct ConsumerChannel {
    pub(super) connection: ConnectionId,
    pub(super) channel: ChannelId,
    pub(super) link: LinkId,
    pub(super) outbox: Arc<dyn Outbox>,
    pub(super) consumer_tag: ShortString,
    pub(super) checkout: Checkout,
    pub(super) exclusive: bool,
    pub(super) arguments: Table,
    /// Bytes its outbox takes, as of its last word.
    pub(super) room_bytes: i64,
    /// Paused by us because `room_bytes` ran out; its outbox was not asked yet.
    pub(super) held_back: bool,
    /// The limit it shares with the other consumers of its channel.
    pub(super) limit: Option<Arc<ChannelLimit>>,
}

impl ConsumerChannel {
    /// Takes note of the room in its outbox. It is given one delivery at least, so that it can say that it is
    /// full.
    pub(super) fn set_room(&mut self, bytes: usize) {
        self.room_bytes = i64::try_from(bytes).unwrap_or(i64::MAX).max(1);
    }
}
