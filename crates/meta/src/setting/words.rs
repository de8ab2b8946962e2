//! The words that settings take.

stdx::named! {
    /// The overflow behaviour of a full queue.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Overflow {
        /// The oldest ready message makes room.
        #[default]
        DropHead = "drop-head",
        /// The new message is refused.
        RejectPublish = "reject-publish",
        /// The new message is refused and dead-lettered.
        RejectPublishDeadLetter = "reject-publish-dlx",
    }
}

stdx::named! {
    /// The returned messages that wait before they are ready again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RetryType {
        /// All returned messages.
        All = "all",
        /// Messages whose delivery failed.
        Failed = "failed",
        /// Messages that were given back without having been tried.
        Returned = "returned",
    }
}

stdx::named! {
    /// The guarantee for dead letters on their way.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum DeadLetterStrategy {
        /// Dead letters may be lost.
        #[default]
        AtMostOnce = "at-most-once",
        /// Dead letters stay in their queue until all target queues have them.
        AtLeastOnce = "at-least-once",
    }
}

stdx::named! {
    /// `x-confirm-on`: what a queue's publishes are confirmed upon.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ConfirmOn {
        /// The queue has the message, on disk if it is persistent.
        #[default]
        Enqueue = "enqueue",
        /// A consumer has acknowledged the message.
        Ack = "ack",
        /// A consumer has acknowledged the message, and the queue keeps no record of unacked messages.
        AckDirect = "ack-direct",
    }
}

impl ConfirmOn {
    /// Whether confirms wait for consumers.
    pub const fn waits_for_consumers(self) -> bool {
        !matches!(self, Self::Enqueue)
    }
}

stdx::named! {
    /// `x-confirm-on-no-consumer`: what becomes of a confirmed publish while nobody consumes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum WithoutConsumer {
        /// The confirm waits for a consumer.
        #[default]
        Wait = "wait",
        /// The message is refused.
        Nack = "nack",
    }
}
