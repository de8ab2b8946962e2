//! The table of settings, in the order in which the arguments of a redeclaration are compared.

use super::argument::ArgumentRule as Argument;
use super::policy::PolicyRule;
use super::policy::PolicyValues::{self, AtLeast, Between, Flag, Integer, Numbers, Text, Words};
use super::{ConfirmOn, DeadLetterStrategy, Overflow, WithoutConsumer};
use super::{OfQuorum, Precedence, Setting};
use crate::queue_type::{CLASSIC, QUORUM, QueueType, STREAM};

/// The argument that chooses the queue type.
pub(crate) const QUEUE_TYPE_ARGUMENT: &str = "x-queue-type";
/// The argument without which a dead letter routing key is refused.
pub(crate) const DEAD_LETTER_EXCHANGE_ARGUMENT: &str = "x-dead-letter-exchange";
pub(crate) const RETRY_TYPE_KEY: &str = "delayed-retry-type";
pub(crate) const RETRY_MIN_KEY: &str = "delayed-retry-min";
pub(crate) const RETRY_MAX_KEY: &str = "delayed-retry-max";
pub(crate) const SHARDS_KEY: &str = "shards-per-node";
pub(crate) const SHARDS_ROUTING_KEY: &str = "routing-key";

/// The most shards of one exchange. RabbitMQ has no such limit; here all are made in one step.
pub(crate) const SHARDS_PER_NODE_MAX: i64 = 1_000;

/// The highest number of priorities above zero.
const PRIORITY_MAX: i64 = 255;
/// The largest segment of a stream, bytes.
const STREAM_SEGMENT_BYTES_MAX: i64 = 3_000_000_000;

const QUEUE_MODES: &[&str] = &["default", "lazy"];
/// The versions of queues: version 1, which RabbitMQ dropped, is served here.
const VERSIONS: &[i64] = &[1, 2];
const RETRY_TYPES: &[&str] = &["all", "failed", "returned", "disabled"];
/// Quorum queues always have a record of what consumers hold; `ack-direct` of a policy is as `ack`.
static CONFIRM_ON_OF_QUORUM: Argument = Argument::Words(
    &["enqueue", "ack"],
    "\"quorum queues confirm on enqueue or ack, not on '{}'\"",
);
const LOCATORS: &[&str] = &["client-local", "balanced", "random", "least-leaders"];
const ARGUMENT_LOCATORS: &[&str] =
    &["client-local", "balanced", "random", "least-leaders", "min-masters"];

const STREAM_SEGMENT_REFUSAL: &str = "Exceeded max value for x-stream-max-segment-size-bytes";
/// Bytes of the filter of a stream's chunk.
const STREAM_FILTER_BYTES: (i64, i64) = (16, 255);
/// The offset of a stream's first message. COMPAT: RabbitMQ 4.4's limit, as its clients check it.
const STREAM_INITIAL_OFFSET_MAX: i64 = (1 << 62) - 1;
const STREAM_INITIAL_OFFSET_REFUSAL: &str = "Invalid value for x-stream-initial-offset";
const STREAM_FILTER_REFUSAL: &str = "Invalid value for x-stream-filter-size-bytes";

const CLASSIC_ALONE: &[&QueueType] = &[&CLASSIC];
const QUORUM_ALONE: &[&QueueType] = &[&QUORUM];
const STREAM_ALONE: &[&QueueType] = &[&STREAM];
/// All queue types but streams.
pub(crate) const QUEUES: &[&QueueType] = &[&CLASSIC, &QUORUM];
/// Every type of queue.
const ALL: &[&QueueType] = &[&CLASSIC, &QUORUM, &STREAM];

/// An argument of classic and quorum queues, unless [other types](Setting::of) are named.
const fn argument(name: &'static str, rule: Argument) -> Setting {
    Setting {
        argument: Some((name, rule)),
        policy: None,
        with_policy: Precedence::Argument,
        types: QUEUES,
        of_quorum: OfQuorum::Usual,
    }
}

const fn policy(key: &'static str, rule: PolicyRule) -> Setting {
    Setting {
        argument: None,
        policy: Some((key, rule)),
        with_policy: Precedence::Policy,
        types: ALL,
        of_quorum: OfQuorum::Usual,
    }
}

/// A key of users' policies.
const fn users(values: PolicyValues, meaning: &'static str) -> PolicyRule {
    PolicyRule::new(values, meaning)
}

/// A key of users' and operators' policies.
const fn operators(values: PolicyValues, meaning: &'static str) -> PolicyRule {
    users(values, meaning).for_operators()
}

/// An argument, and the policies' key that sets the same: `x-` stands before the argument alone.
macro_rules! both {
    ($key:literal, $argument:expr, $policy:expr) => {
        argument(concat!("x-", $key), $argument).and_policy($key, $policy)
    };
}

impl Setting {
    /// Adds the key by which policies set it too.
    const fn and_policy(self, key: &'static str, rule: PolicyRule) -> Self {
        Self { policy: Some((key, rule)), ..self }
    }

    /// Names the queue types that know the setting.
    const fn of(self, types: &'static [&'static QueueType]) -> Self {
        Self { types, ..self }
    }

    const fn smaller_counts(self) -> Self {
        Self { with_policy: Precedence::Smaller, ..self }
    }

    const fn policy_counts(self) -> Self {
        Self { with_policy: Precedence::Policy, ..self }
    }

    const fn in_quorum(self, of_quorum: OfQuorum) -> Self {
        Self { of_quorum, ..self }
    }
}

/// Names the rows, and lists them.
macro_rules! settings {
    ($($name:ident = $row:expr;)*) => {
        $(pub(crate) static $name: Setting = $row;)*
        /// Every setting.
        pub(crate) static SETTINGS: &[&Setting] = &[$(&$name),*];
    };
}

settings! {
    EXPIRES = both!("expires", Argument::PositiveMilliseconds, operators(AtLeast(1), "queue expiry"))
        .smaller_counts();
    MESSAGE_TTL = both!("message-ttl", Argument::Milliseconds, operators(AtLeast(0), "message TTL"))
        .smaller_counts();
    DEAD_LETTER_EXCHANGE =
        both!("dead-letter-exchange", Argument::Any, users(Text, "dead letter exchange name"));
    DEAD_LETTER_ROUTING_KEY = both!(
        "dead-letter-routing-key", Argument::DeadLetterRoutingKey, users(Text, "dead letter routing key")
    );
    MAX_LENGTH = both!("max-length", Argument::NotNegative, operators(AtLeast(0), "maximum length"))
        .smaller_counts();
    MAX_LENGTH_BYTES = both!(
        "max-length-bytes", Argument::NotNegative, operators(AtLeast(0), "maximum length in bytes")
    ).of(ALL).smaller_counts();
    MAX_PRIORITY = argument("x-max-priority", Argument::UpTo(PRIORITY_MAX)).of(CLASSIC_ALONE);
    OVERFLOW = both!(
        "overflow",
        Argument::Words(&Overflow::NAMES, "invalid_overflow"),
        operators(Words(&Overflow::NAMES), "overflow value")
    ).in_quorum(OfQuorum::PolicyCounts);
    QUEUE_MODE = both!(
        "queue-mode",
        Argument::Words(QUEUE_MODES, "\"unsupported queue mode '{}'\""),
        users(Words(QUEUE_MODES), "queue-mode value")
    ).of(CLASSIC_ALONE);
    QUEUE_VERSION = both!(
        "queue-version",
        Argument::Numbers(VERSIONS, "\"unsupported queue version '{}'\""),
        operators(Numbers(VERSIONS), "queue-version value").operators_count().suits_all_types()
    ).of(CLASSIC_ALONE);
    SINGLE_ACTIVE_CONSUMER = argument("x-single-active-consumer", Argument::Flag);
    QUEUE_TYPE = argument(QUEUE_TYPE_ARGUMENT, Argument::Any).of(ALL);
    MASTER_LOCATOR =
        both!("queue-master-locator", Argument::Any, users(Text, "queue-master-locator value"))
        .of(CLASSIC_ALONE);
    LEADER_LOCATOR = both!(
        "queue-leader-locator",
        Argument::Words(ARGUMENT_LOCATORS, "invalid_queue_locator_arg"),
        users(Words(LOCATORS), "queue leader locator value")
    ).of(ALL);
    DELIVERY_LIMIT = both!(
        "delivery-limit",
        Argument::Integer,
        operators(Integer, "delivery limit").smaller_limit_counts()
    ).smaller_counts().in_quorum(OfQuorum::AnyValue);
    // COMPAT: here the policy goes before the argument.
    DELAYED_RETRY_TYPE = both!(
        "delayed-retry-type",
        Argument::Words(RETRY_TYPES, "invalid_delayed_retry_type"),
        operators(Words(RETRY_TYPES), "delayed retry type. Must be one of: all, failed, returned, disabled")
            .suits_all_types()
    ).policy_counts().in_quorum(OfQuorum::AnyValue);
    DELAYED_RETRY_MIN = both!(
        "delayed-retry-min",
        Argument::NotNegative,
        operators(AtLeast(1), "delayed retry minimum delay. Must be a positive integer")
            .larger_counts().suits_all_types()
    ).smaller_counts().in_quorum(OfQuorum::AnyValue);
    DELAYED_RETRY_MAX = both!(
        "delayed-retry-max",
        Argument::NotNegative,
        operators(AtLeast(1), "delayed retry maximum delay. Must be a positive integer").suits_all_types()
    ).smaller_counts().in_quorum(OfQuorum::AnyValue);
    CONSUMER_TIMEOUT = both!(
        "consumer-timeout", Argument::NotNegative, users(AtLeast(0), "consumer timeout").suits_all_types()
    ).smaller_counts();
    CONFIRM_ON_MODE = both!(
        "confirm-on",
        Argument::Words(&ConfirmOn::NAMES, "invalid_confirm_on"),
        users(Words(&ConfirmOn::NAMES), "confirm-on value")
    ).in_quorum(OfQuorum::Rule(&CONFIRM_ON_OF_QUORUM));
    CONFIRM_ON_MAX_PENDING = both!(
        "confirm-on-max-pending", Argument::Positive, operators(AtLeast(1), "maximum of pending confirms")
    ).smaller_counts();
    CONFIRM_ON_MAX_PENDING_BYTES = both!(
        "confirm-on-max-pending-bytes",
        Argument::Positive,
        operators(AtLeast(1), "maximum of pending confirms in bytes")
    ).smaller_counts();
    CONFIRM_ON_NO_CONSUMER = both!(
        "confirm-on-no-consumer",
        Argument::Words(&WithoutConsumer::NAMES, "invalid_confirm_on_no_consumer"),
        users(Words(&WithoutConsumer::NAMES), "confirm-on-no-consumer value")
    );
    CONFIRM_TIMEOUT = both!(
        "confirm-timeout", Argument::PositiveMilliseconds, operators(AtLeast(1), "confirm timeout")
    ).smaller_counts();

    // Exchanges.
    ALTERNATE_EXCHANGE = policy("alternate-exchange", users(Text, "alternate exchange name"));
    DELAYED_EXCHANGE = policy("x-delayed-exchange", users(Flag, "delayed exchange"));
    DEDUPLICATION = policy("x-message-deduplication", users(Flag, "message deduplication"));
    CACHE_SIZE = policy("x-cache-size", users(AtLeast(1), "deduplication cache size"));
    CACHE_TTL = policy("x-cache-ttl", users(AtLeast(1), "deduplication cache time to live"));
    DEDUPLICATION_HEADER = policy("x-deduplication-header", users(Text, "deduplication header name"));
    SHARDS_PER_NODE = policy(SHARDS_KEY, users(Between(0, SHARDS_PER_NODE_MAX), "number of shards"));
    ROUTING_KEY_OF_SHARDS = policy(SHARDS_ROUTING_KEY, users(Text, "routing key of shards"));

    // Quorum queues.
    DEAD_LETTER_STRATEGY = both!(
        "dead-letter-strategy",
        Argument::Words(&DeadLetterStrategy::NAMES, "invalid_dlx_strategy"),
        users(Words(&DeadLetterStrategy::NAMES), "dead letter strategy")
    ).of(QUORUM_ALONE);
    INITIAL_GROUP_SIZE = argument("x-quorum-initial-group-size", Argument::Positive).of(QUORUM_ALONE);
    TARGET_GROUP_SIZE = argument("x-quorum-target-group-size", Argument::Any)
        .and_policy("target-group-size", operators(AtLeast(1), "target group size").larger_counts())
        .of(QUORUM_ALONE);
    MAX_IN_MEMORY_LENGTH = both!(
        "max-in-memory-length", Argument::NotNegative, operators(AtLeast(0), "maximum memory in bytes")
    ).of(QUORUM_ALONE);
    MAX_IN_MEMORY_BYTES = both!(
        "max-in-memory-bytes", Argument::NotNegative, operators(AtLeast(0), "maximum memory in bytes")
    ).of(QUORUM_ALONE);
    MAX_PUBLISHERS = both!(
        "max-publishers", Argument::Positive, operators(AtLeast(1), "maximum of named publishers")
    ).of(QUORUM_ALONE).smaller_counts();
    CONSUMER_DISCONNECTED_TIMEOUT = both!(
        "consumer-disconnected-timeout",
        Argument::NotNegative,
        users(AtLeast(0), "consumer disconnected timeout").suits_all_types()
    ).of(QUORUM_ALONE).smaller_counts();

    // Streams.
    MAX_AGE = both!("max-age", Argument::Age, users(PolicyValues::Age, "max age")).of(STREAM_ALONE);
    MAX_SEGMENT_BYTES = both!(
        "stream-max-segment-size-bytes",
        Argument::Within(0, STREAM_SEGMENT_BYTES_MAX, STREAM_SEGMENT_REFUSAL),
        users(Between(0, STREAM_SEGMENT_BYTES_MAX), "segment size")
    ).of(STREAM_ALONE);
    FILTER_BYTES = both!(
        "stream-filter-size-bytes",
        Argument::Within(STREAM_FILTER_BYTES.0, STREAM_FILTER_BYTES.1, STREAM_FILTER_REFUSAL),
        users(Between(STREAM_FILTER_BYTES.0, STREAM_FILTER_BYTES.1), "filter size. Valid range is 16-255")
            .suits_all_types()
    ).of(STREAM_ALONE);
    INITIAL_OFFSET = argument(
        "x-stream-initial-offset",
        Argument::Within(0, STREAM_INITIAL_OFFSET_MAX, STREAM_INITIAL_OFFSET_REFUSAL)
    ).of(STREAM_ALONE);
    INITIAL_CLUSTER_SIZE = both!(
        "initial-cluster-size", Argument::Positive, users(AtLeast(0), "cluster size")
    ).of(STREAM_ALONE);
}
