//! The figures of queues, each a row: of each of them by RabbitMQ's families, and of all together.

use crate::rows::rows;
use crate::text::Kind;
use queue_type::{Count, QueueStat};

/// A figure of a queue.
type OfQueue = fn(&QueueStat) -> u64;

/// Row of queues' figures: name, type, value, meaning.
pub(crate) type QueueRow = (&'static str, Kind, OfQueue, &'static str);

const QUEUE_COARSE: &[QueueRow] = rows! {
    Gauge queue_messages_ready |it| it.n_ready => "Messages ready for consumers";
    Gauge queue_messages_unacked |it| it.n_unacked => "Messages unacknowledged";
    Gauge queue_messages |it| it.n_ready + it.n_unacked => "Messages";
};

const QUEUE_CONSUMERS: &[QueueRow] = rows! {
    Gauge queue_consumers |it| it.n_consumers => "Consumers";
};

const QUEUE_BYTES: &[QueueRow] = rows! {
    Gauge queue_consumers |it| it.n_consumers => "Consumers";
    Gauge queue_messages_bytes |it| it.message_bytes => "Bytes of messages";
};

const QUEUE_DELIVERY: &[QueueRow] = rows! {
    Counter queue_messages_delivered_ack_total |it| it.counts.of(Count::Delivered) => "Messages delivered to consumers with manual acknowledgement";
    Counter queue_messages_delivered_total |it| it.counts.of(Count::DeliveredAuto) => "Messages delivered to consumers with automatic acknowledgement";
    Counter queue_get_ack_total |it| it.counts.of(Count::Got) => "Messages fetched with manual acknowledgement";
    Counter queue_get_total |it| it.counts.of(Count::GotAuto) => "Messages fetched with automatic acknowledgement";
    Counter queue_get_empty_total |it| it.counts.of(Count::GotEmpty) => "Fetches from empty queues";
    Counter queue_messages_redelivered_total |it| it.counts.of(Count::Redelivered) => "Messages redelivered";
    Counter queue_messages_acked_total |it| it.counts.of(Count::Acked) => "Messages acknowledged";
    Counter leveret_queue_messages_passed_over_total |it| it.counts.of(Count::PassedOver) => "Messages passed over by consumers' filters";
};

/// Messages enqueued by queue. For all queues together this figure is written by queue type instead.
const QUEUE_PUBLISHED: &[QueueRow] = rows! {
    Counter leveret_queue_messages_published_total |it| it.counts.of(Count::Published) => "Messages enqueued";
};

/// The rows of each family.
pub(crate) const QUEUES: &[(&str, &[QueueRow])] = &[
    ("queue_coarse_metrics", QUEUE_COARSE),
    ("queue_consumer_count", QUEUE_CONSUMERS),
    ("queue_metrics", QUEUE_BYTES),
    ("queue_delivery_metrics", QUEUE_DELIVERY),
    ("queue_delivery_metrics", QUEUE_PUBLISHED),
];

/// The rows that all queues together have as well.
pub(crate) const QUEUE_SUMS: [&[QueueRow]; 3] = [QUEUE_COARSE, QUEUE_BYTES, QUEUE_DELIVERY];
