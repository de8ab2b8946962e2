//! The settings of a queue by its arguments and the policies in force, as values.

use routing::Name;
use serde_json::{Map, Value as Json};

use crate::confirm_on::ConfirmSettings;
use crate::queue::QueueDef;
use crate::queue_type::QueueVersion;
use crate::setting::{self, Given};
pub use crate::setting::{DeadLetterStrategy, Overflow, RetryType};

/// Delayed retry: how long messages that come back wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedRetry {
    /// `x-delayed-retry-type`: the messages that wait; without it none does.
    pub on: RetryType,
    /// `x-delayed-retry-min`, in milliseconds, times the number of failed deliveries.
    pub min_ms: u64,
    /// `x-delayed-retry-max`: no longer than this.
    pub max_ms: u64,
}

impl DelayedRetry {
    /// COMPAT: without the shortest delay there is none, and without the longest that is it.
    fn of(on: Option<&str>, min_ms: Option<u64>, max_ms: Option<u64>) -> Option<Self> {
        let on = RetryType::of_name(on?)?;
        let min_ms = min_ms.filter(|min_ms| *min_ms > 0)?;
        let max_ms = max_ms.filter(|max_ms| *max_ms > 0).unwrap_or(min_ms);
        Some(Self { on, min_ms, max_ms })
    }
}

/// The longest a queue may get. Only ready messages count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthLimits {
    /// `x-max-length`: ready messages.
    pub messages_max: Option<u64>,
    /// `x-max-length-bytes`: bytes of the bodies of ready messages.
    pub bytes_max: Option<u64>,
    /// `x-overflow`.
    pub overflow: Overflow,
}

impl LengthLimits {
    /// Whether any limit is set.
    pub const fn any(&self) -> bool {
        self.messages_max.is_some() || self.bytes_max.is_some()
    }
}

/// The destination of dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterSettings {
    /// `x-dead-letter-exchange`; without it there are no dead letters.
    pub exchange: Option<Name>,
    /// `x-dead-letter-routing-key`; without it messages keep their keys.
    pub routing_key: Option<Vec<u8>>,
    /// `x-dead-letter-strategy`, of quorum queues.
    pub strategy: DeadLetterStrategy,
}

/// The settings that a queue's arguments give, together with those of policies where these were asked
/// for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// `x-message-ttl`, in milliseconds.
    pub message_ttl_ms: Option<u64>,
    /// `x-expires`: time without use after which the queue is deleted, in milliseconds.
    pub expires_ms: Option<u64>,
    /// The length limits.
    pub length: LengthLimits,
    /// Where messages go that are refused, expire or are too many.
    pub dead_letter: DeadLetterSettings,
    /// `x-max-priority`: the highest priority told apart; 0 without priorities.
    pub max_priority: u8,
    /// `x-single-active-consumer`.
    pub single_active_consumer: bool,
    /// `x-delivery-limit`: failed deliveries after which a message is gone.
    pub delivery_limit: Option<u32>,
    /// Delayed retry.
    pub delayed_retry: Option<DelayedRetry>,
    /// `x-queue-version`, if it is asked for.
    pub version: Option<QueueVersion>,
    /// `x-consumer-timeout`: how long a message may wait for its acknowledgement, in milliseconds; 0 is
    /// for ever. Without it the node says.
    pub consumer_timeout_ms: Option<u64>,
    /// Whether the queue holds messages back for a delaying exchange, each for as long as the message
    /// says.
    pub holds_back: bool,
    /// `x-confirm-on` and what belongs to it.
    pub confirm: ConfirmSettings,
}

impl QueueDef {
    /// The settings that the queue's own arguments give; with policies see
    /// [`Policies::queue_settings`](crate::Policies::queue_settings).
    #[must_use]
    pub fn settings(&self) -> QueueSettings {
        QueueSettings::of(self, &Map::new())
    }
}

impl QueueSettings {
    /// Reads arguments that passed the checks of a declaration, and the settings of policies; what is
    /// out of its domain counts as missing.
    pub(crate) fn of(queue: &QueueDef, policy: &Map<String, Json>) -> Self {
        let given =
            Given { queues: queue.kind.capabilities(), arguments: &queue.arguments, policy };
        let default_limit = queue.kind.capabilities().delivery_limit_default;
        Self {
            message_ttl_ms: given.number(&setting::MESSAGE_TTL),
            expires_ms: given.number(&setting::EXPIRES),
            length: LengthLimits {
                messages_max: given.number(&setting::MAX_LENGTH),
                bytes_max: given.number(&setting::MAX_LENGTH_BYTES),
                overflow: given.value(&setting::OVERFLOW, Overflow::of_name),
            },
            dead_letter: DeadLetterSettings {
                exchange: given.text(&setting::DEAD_LETTER_EXCHANGE).map(Name::from),
                routing_key: (given.bytes(&setting::DEAD_LETTER_ROUTING_KEY)).map(<[u8]>::to_vec),
                strategy: given.value(&setting::DEAD_LETTER_STRATEGY, DeadLetterStrategy::of_name),
            },
            max_priority: (given.number(&setting::MAX_PRIORITY))
                .and_then(|n| u8::try_from(n).ok())
                .unwrap_or_default(),
            single_active_consumer: given.is_set(&setting::SINGLE_ACTIVE_CONSUMER),
            delivery_limit: given.limit(&setting::DELIVERY_LIMIT, default_limit),
            delayed_retry: DelayedRetry::of(
                given.text(&setting::DELAYED_RETRY_TYPE),
                given.number(&setting::DELAYED_RETRY_MIN),
                given.number(&setting::DELAYED_RETRY_MAX),
            ),
            version: given.number(&setting::QUEUE_VERSION).and_then(QueueVersion::of_number),
            consumer_timeout_ms: given.number(&setting::CONSUMER_TIMEOUT),
            holds_back: queue.is_internal(),
            confirm: ConfirmSettings::of(given),
        }
    }
}
