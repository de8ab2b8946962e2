//! A queue and its consumers as listings show them.

use crate::{Counts, Owner};
use meta::{ConnectionId, QueueVersion};
use session::{ChannelId, ShortString, Table};

/// A queue's figures at one moment, for listings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStat {
    /// Messages ready for delivery.
    pub n_ready: u64,
    /// Messages delivered and not settled.
    pub n_unacked: u64,
    /// Attached consumers.
    pub n_consumers: u64,
    /// Bytes of ready and unacked messages, envelopes included.
    pub message_bytes: u64,
    /// Publishes that are to be confirmed once they are consumed.
    pub n_pending_confirms: u64,
    /// Publishes that were refused since the node started because they waited for consumers for too long.
    pub n_confirm_timeouts: u64,
    /// Messages that are gone and still to be dead-lettered.
    pub n_departing: u64,
    /// Messages that have gone through it.
    pub counts: Counts,
    /// The version its files have.
    pub version: QueueVersion,
    /// The version that its files are being converted to, and how far that has come, in thousandths.
    pub conversion: Option<(QueueVersion, u64)>,
}

/// Who holds a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The message's position.
    pub position: u64,
    /// The channel.
    pub owner: Owner,
    /// The consumer's tag; none of one that is cancelled, or never was a consumer.
    pub consumer_tag: Option<ShortString>,
    /// How long it has held the message, at least, in milliseconds.
    pub held_ms: u64,
}

/// Publishes of a queue that wait for its consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingConfirms {
    /// Publishes.
    pub n: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// How long the oldest has waited, in milliseconds; none if none waits.
    pub oldest_ms: Option<u64>,
}

/// A consumer as listings show it.
#[derive(Clone, Debug)]
pub struct ConsumerView {
    /// The connection it belongs to.
    pub connection: ConnectionId,
    /// The channel it belongs to.
    pub channel: ChannelId,
    /// Its tag.
    pub consumer_tag: ShortString,
    /// Whether it settles what it gets.
    pub ack_required: bool,
    /// Unsettled deliveries allowed at a time; 0 for no limit.
    pub prefetch_count: u32,
    /// Whether it is the only one allowed.
    pub exclusive: bool,
    /// Its arguments.
    pub arguments: Table,
    /// Whether it gets deliveries.
    pub activity: Activity,
    /// The reason that it gets no more for now, beside its own prefetch limit.
    pub waits_for: Option<WaitsFor>,
}

/// A reason that a consumer gets no more for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Its client, which does not read what it was sent.
    Client,
    /// Acknowledgements: the consumers of its channel share a prefetch limit.
    SharedLimit,
}

stdx::named! {
    /// Whether a consumer gets deliveries.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Activity {
        /// It does, as others may.
        Up = "up",
        /// It does, as the only one.
        SingleActive = "single_active",
        /// It waits to be the only one that does.
        Waiting = "waiting",
    }
}
