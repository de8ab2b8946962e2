//! Why a queue does not take a message, or will have no consumer for it.

stdx::named! {
    /// The reason why a publish is refused. Names are those that AMQP 1.0 clients are told as `reason`; the
    /// first two are RabbitMQ's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Refusal {
        /// The queue has as many messages, or bytes, as it may have.
        MaxLen = "maxlen",
        /// The queue can take nothing now, or cannot tell what became of the message.
        Unavailable = "unavailable",
        /// A consumer rejected the message.
        Rejected = "rejected",
        /// The message's time was over before a consumer had it.
        Expired = "expired",
        /// The delivery of the message failed too often.
        DeliveryLimit = "delivery_limit",
        /// The message was purged, or taken out by an operator.
        Purged = "purged",
        /// The message is damaged.
        Damaged = "damaged",
        /// The queue was deleted.
        Deleted = "deleted",
        /// The queue takes nothing without a consumer (`x-confirm-on-no-consumer`).
        NoConsumer = "no-consumer",
        /// The limit of publishes that wait for the queue's consumers is reached.
        MaxPending = "max-pending",
        /// No consumer had the message in the time that its publisher may wait.
        Timeout = "timeout",
    }
}
