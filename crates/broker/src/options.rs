//! The settings a broker has for its whole life.

mod interceptors;

pub use interceptors::{Interceptors, Overwrite};

use content::StorageOptions;
use control::QueueHomes;
use meta::{NodeLimits, VhostDefaults};
use stream::StreamOptions;
use undo::UndoOptions;

/// The settings of a broker.
#[derive(Clone, Debug, Default)]
pub struct BrokerOptions {
    /// How messages are stored.
    pub storage: StorageOptions,
    /// How streams are stored.
    pub streams: StreamOptions,
    /// Limits of clients and definitions.
    pub limits: Limits,
    /// Headers that are written into each message.
    pub interceptors: Interceptors,
    /// The definitions each new virtual host gets.
    pub vhost_defaults: VhostDefaults,
    /// How messages are kept that operators take away.
    pub undo: UndoOptions,
    /// The homes of queues.
    pub homes: QueueHomes,
}

impl From<StorageOptions> for BrokerOptions {
    fn from(storage: StorageOptions) -> Self {
        Self { storage, ..Self::default() }
    }
}

/// Limits of this node; `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The limits of definitions.
    pub definitions: NodeLimits,
    /// Channels of all connections.
    pub channels: Option<u64>,
    /// Consumers of one channel.
    pub consumers_per_channel: Option<u64>,
    /// Partitions of a super stream that a client of streams creates.
    pub super_stream_partitions: Option<u64>,
    /// Unacknowledged deliveries of a consumer whose channel has set no limit; 0 is no limit.
    pub default_prefetch: u16,
    /// `basic.qos` with `global` limits what all consumers of a channel hold together, as it did before
    /// RabbitMQ 4.3; otherwise it limits each.
    pub channel_prefetch: bool,
    /// With `channel_prefetch`: a new channel is limited to `default_prefetch` as a whole, too.
    pub channel_has_default_prefetch: bool,
    /// How long a message of a classic queue may wait for its acknowledgement, in milliseconds.
    pub consumer_timeout_ms: Option<u64>,
    /// How long a message of a quorum queue may wait for its acknowledgement, in milliseconds.
    pub quorum_timeout_ms: Option<u64>,
    /// The node's name in texts.
    pub node: String,
}
