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
    /// Counts of messages that have gone through the queue.
    pub counts: Counts,
    /// Version of the queue's files.
    pub version: QueueVersion,
    /// Version that the files are being converted to, and the progress of that in thousandths.
    pub conversion: Option<(QueueVersion, u64)>,
}

/// A message with its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Position of the message.
    pub position: u64,
    /// Channel that holds the message.
    pub owner: Owner,
    /// Tag of the consumer; none if it is cancelled, or the holder never was a consumer.
    pub consumer_tag: Option<ShortString>,
    /// Time for which the message has been held, at least, in milliseconds.
    pub held_ms: u64,
}

/// Publishes of a queue that wait for its consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingConfirms {
    /// Number of publishes.
    pub n: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Time for which the oldest has waited, in milliseconds; none if none waits.
    pub oldest_ms: Option<u64>,
}

/// A consumer as listings show it.
#[derive(Clone, Debug)]
pub struct ConsumerView {
    /// Connection of the consumer.
    pub connection: ConnectionId,
    /// Channel of the consumer.
    pub channel: ChannelId,
    /// Tag of the consumer.
    pub consumer_tag: ShortString,
    /// Whether the consumer settles the messages it gets.
    pub ack_required: bool,
    /// Unsettled deliveries allowed at a time; 0 for no limit.
    pub prefetch_count: u32,
    /// Whether the consumer is the only one allowed.
    pub exclusive: bool,
    /// Arguments of the consumer.
    pub arguments: Table,
    /// Whether the consumer gets deliveries.
    pub activity: Activity,
    /// Reason that the consumer gets no more for now, beside its own prefetch limit.
    pub waits_for: Option<WaitsFor>,
}

/// A reason that a consumer gets no more for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The consumer's client does not read the messages it was sent.
    Client,
    /// The shared prefetch limit of the channel's consumers has no room until messages are settled.
    SharedLimit,
}

stdx::named! {
    /// Whether a consumer gets deliveries.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Activity {
        /// The consumer gets deliveries, as others may.
        Up = "up",
        /// The consumer gets deliveries, as the only one.
        SingleActive = "single_active",
        /// The consumer waits to be the only one that gets deliveries.
        Waiting = "waiting",
    }
}

impl Activity {
    /// The activity of a consumer that is the single active one of its queue, or not; none if all are active.
    #[must_use]
    pub const fn of(is_single_active: Option<bool>) -> Self {
        match is_single_active {
            Some(true) => Self::SingleActive,
            Some(false) => Self::Waiting,
            None => Self::Up,
        }
    }
}
