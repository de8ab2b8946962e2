//! A consumer as its queue knows it beside the core: the channel and outbox it belongs to. Never the messages
//! it holds.

use meta::ConnectionId;
use queue::Checkout;
use queue_type::{ChannelLimit, Tally, WaitsFor};
use session::{ChannelId, LinkId, Outbox, Room, ShortString, Table};
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
    pub(super) room: OutboxRoom,
    /// The limit that the consumer shares with the others of its channel.
    pub(super) limit: Option<Arc<ChannelLimit>>,
    /// Counts of the messages that the consumer was given.
    pub(super) tally: Arc<Tally>,
}

impl ConsumerChannel {
    /// Credit of the consumer at the core: what its prefetch limit allows, but none while its outbox has no
    /// room.
    pub(super) fn credit(&self) -> u32 {
        if self.room.giving == Giving::Yes { self.checkout.credit() } else { 0 }
    }

    /// The reason that the consumer gets no more, beside its own prefetch limit.
    pub(super) fn waits_for(&self) -> Option<WaitsFor> {
        let is_limited = self.limit.as_ref().is_some_and(|limit| !limit.has_room());
        match self.room.giving {
            _ if is_limited => Some(WaitsFor::SharedLimit),
            Giving::No => Some(WaitsFor::Client),
            Giving::Yes | Giving::UsedUp => None,
        }
    }
}

/// The room for deliveries in a consumer's outbox, as far as its queue knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutboxRoom {
    /// Bytes that the outbox takes, as it said last, less the messages given since.
    bytes: i64,
    giving: Giving,
}

/// Whether a consumer is given anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Giving {
    Yes,
    /// No delivery until the outbox was asked, which is about to happen: the room it had is used up.
    UsedUp,
    /// No delivery until the consumer's connection, or the limit that it shares, has room again.
    No,
}

impl OutboxRoom {
    /// The room of so many bytes. One delivery at least is given, so that the outbox can say that it is full.
    pub(super) fn of(bytes: usize) -> Self {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).max(1);
        Self { bytes, giving: Giving::Yes }
    }

    /// Takes what a message needs. True if nothing is left.
    #[inline]
    pub(super) const fn take(&mut self, n_bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_sub_unsigned(n_bytes);
        if self.bytes <= 0 {
            self.giving = Giving::UsedUp;
        }
        self.bytes <= 0
    }

    /// Takes the outbox's word on its room.
    pub(super) fn note(&mut self, room: Room) {
        *self = match room {
            Room::Bytes(bytes) if self.giving == Giving::No => {
                Self { giving: Giving::No, ..Self::of(bytes) }
            }
            Room::Bytes(bytes) => Self::of(bytes),
            Room::Full => Self { bytes: 0, giving: Giving::No },
        };
    }

    /// Stops giving messages to the consumer for now.
    pub(super) const fn close(&mut self) {
        self.giving = Giving::No;
    }

    /// Resumes giving after the shared limit has room again. The outbox may still be full, and says so then.
    pub(super) fn reopen(&mut self) {
        if self.giving == Giving::No {
            self.giving = Giving::Yes;
        }
    }
}
