//! Commands to a quorum queue: one command after the other, each an entry of its log.

use super::items::{Item, Items};
use super::settings::Settings;
use crate::{LinkCredit, Return};
use stdx::UnixMs;
use stdx::record::{Reader, RecordError, put_u8, put_u32, put_u64};

/// A command to a quorum queue. Its written form has no bodies: the host stores the records of a
/// [`Put`] behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Enqueues messages.
    Put(Put<'a>),
    /// Attaches a consumer, or changes its terms: a consumer that was cancelled gets deliveries again.
    Attach(Attach),
    /// Sets the number of messages a consumer may hold from now on.
    Prefetch {
        /// The consumer.
        consumer: u64,
        /// Prefetch limit as in [`Attach::prefetch`].
        prefetch: u32,
    },
    /// Takes a consumer's link credit as its client sees it, and gives the consumer what it allows; answered
    /// by [`Answer::Flowed`](super::Answer::Flowed).
    Flow {
        /// The consumer.
        consumer: u64,
        /// Credit, from the deliveries on that the client has seen.
        seen: LinkCredit,
        /// Whether credit that is left is used up.
        drain: bool,
    },
    /// Ends a consumer's deliveries; messages that the consumer holds stay with it.
    Cancel {
        /// The consumer.
        consumer: u64,
    },
    /// Detaches a consumer; messages that the consumer holds come back.
    Detach {
        /// The consumer.
        consumer: u64,
        /// Whether its deliveries count as failed.
        how: Return,
    },
    /// Settles deliveries of a consumer. Numbers that the consumer does not hold are passed over.
    Settle {
        /// The consumer.
        consumer: u64,
        /// The fate of the messages.
        outcome: Outcome,
        /// Numbers of deliveries, in the order they are settled in.
        numbers: Items<'a, NumberRange>,
    },
    /// Settles deliveries of a consumer, and changes their messages.
    Modify(Modify<'a>),
    /// Takes one message (`basic.get`).
    Get(Get),
    /// Removes all messages that no consumer holds, also those that depart.
    Purge {
        /// Names the answer.
        request: u64,
    },
    /// Removes messages as far as they are ready, for an operator.
    Remove {
        /// Names the answer.
        request: u64,
        /// Positions of the messages.
        positions: Items<'a, NumberRange>,
    },
    /// Changes the time until which messages wait to be tried again, for an operator.
    Reschedule {
        /// Time until which the messages wait; a past time is at once.
        until_ms: UnixMs,
        /// Positions of the messages.
        positions: Items<'a, NumberRange>,
    },
    /// Lets time pass: [`Effects::deadline_ms`](super::Effects) has come.
    Tick,
    /// Notes that the queue is declared again: `x-expires` begins anew.
    Declared,
    /// Notes that a node cannot be reached, or can be again.
    Node {
        /// Number of the node, as in [`Attach::node`].
        node: u32,
        /// Whether the node can be reached.
        is_up: bool,
    },
    /// Takes new settings, by a policy.
    Settings(Settings),
    /// Notes that messages have departed, named by [`Departing::first_number`](super::Departing) on.
    Departed {
        /// Numbers of the messages.
        numbers: Items<'a, NumberRange>,
    },
    /// Forgets publishers that are gone; messages they have put stay.
    PublishersGone {
        /// Publishers, as in [`Put::publisher`].
        publishers: Items<'a, u64>,
    },
    /// Closes the queue, which is about to be deleted: it takes in nothing any more.
    Close {
        /// Names the answer.
        request: u64,
        /// Whether to close only a queue without consumers.
        if_unused: bool,
        /// Whether to close only a queue without messages.
        if_empty: bool,
    },
    /// Opens the queue again, which is not deleted after all.
    Reopen,
}

/// Messages of one publisher, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put<'a> {
    /// The publisher: a number that the host gives to no other.
    pub publisher: u64,
    /// The number of the first message; each publisher numbers its messages without a gap.
    pub first: u64,
    /// Whether the publisher waits for confirms.
    pub confirms: bool,
    /// Whether limits on length refuse none of the messages, since nobody would hear of it.
    pub ignores_length: bool,
    /// The name that the client gave its publisher, if any, and its own number of the first message.
    pub named: Option<Named<'a>>,
    /// The messages.
    pub arrivals: Items<'a, Arrival>,
}

/// A publisher that keeps its name over reconnects, and numbers its messages in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// The name (`x-publisher-id`).
    pub name: &'a [u8],
    /// The publishing id of the first message (`x-publishing-id`); those of the others follow.
    pub first: u64,
}

/// A message that comes in, as far as the core is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Priority of the message, 0 to 31; above that it counts as 31. Messages without one have
    /// [`PRIORITY_DEFAULT`](super::PRIORITY_DEFAULT).
    pub priority: u8,
    /// Expiration of the message in milliseconds; below `u64::MAX`.
    pub ttl_ms: Option<u64>,
    /// Size of the body.
    pub bytes: u32,
}

/// A consumer's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// A number that the host gives to no other consumer.
    pub consumer: u64,
    /// The node that the consumer's client is connected to.
    pub node: u32,
    /// Messages the consumer may hold; 0 for [`PREFETCH_UNLIMITED`](super::PREFETCH_UNLIMITED), or with link
    /// credit for [`LINK_UNSETTLED_MAX`](super::LINK_UNSETTLED_MAX).
    pub prefetch: u32,
    /// Whether deliveries are limited by [flows](Command::Flow) too; there are none before the first.
    pub has_link_credit: bool,
    /// Consumers of a higher priority are served first (`x-priority`).
    pub priority: i64,
    /// Time for which the consumer may hold a message, in milliseconds (`x-consumer-timeout`), at least one.
    pub timeout_ms: Option<u64>,
}

/// The settlement of deliveries of a consumer, with changes to their messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modify<'a> {
    /// The consumer.
    pub consumer: u64,
    /// The fate of the messages.
    pub outcome: Outcome,
    /// Time until which messages that come back wait, whatever [`Settings::retry`] says; that holds if the
    /// time has passed.
    pub until_ms: Option<UnixMs>,
    /// Notes that stand beside each message from now on, in place of those before; empty to leave those.
    pub notes: &'a [u8],
    /// Numbers of deliveries, as in [`Command::Settle`].
    pub numbers: Items<'a, NumberRange>,
}

/// A request to take one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// Names the answer.
    pub request: u64,
    /// Whether the message is gone from the queue when it is taken.
    pub settles: bool,
    /// Holder of the message otherwise: attached or not, and forgotten when it holds no messages any more.
    pub consumer: u64,
    /// Node of the client as in [`Attach::node`], if the consumer is not known.
    pub node: u32,
    /// Time-out as in [`Attach::timeout_ms`], if the consumer is not known.
    pub timeout_ms: Option<u64>,
}

/// The fate of a message that a consumer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The message is done.
    Accepted,
    /// The message comes back.
    Returned(Return),
    /// The message is to be given to nobody any more; the value says whether its delivery counts as failed.
    Rejected(Return),
    /// The message was not sent after all: it comes back as the next one, and does not count on its link.
    Unsent,
}

/// Numbers `start..end`, end excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// First number.
    pub start: u64,
    /// Number after the last.
    pub end: u64,
}

impl NumberRange {
    /// The range of one number.
    #[must_use]
    pub const fn one(number: u64) -> Self {
        Self { start: number, end: number.saturating_add(1) }
    }
}

/// Stands for "none" where a number of milliseconds is written.
const NO_TIME: u64 = u64::MAX;

impl Item for Arrival {
    const BYTES: usize = 13;

    fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let (priority, ttl_ms, bytes) = (reader.u8()?, reader.u64()?, reader.u32()?);
        Ok(Self { priority, ttl_ms: (ttl_ms != NO_TIME).then_some(ttl_ms), bytes })
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_u8(out, self.priority);
        put_u64(out, self.ttl_ms.unwrap_or(NO_TIME));
        put_u32(out, self.bytes);
    }
}

impl Item for NumberRange {
    const BYTES: usize = 16;

    fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        Ok(Self { start: reader.u64()?, end: reader.u64()? })
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.start);
        put_u64(out, self.end);
    }
}

impl Item for u64 {
    const BYTES: usize = 8;

    fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        reader.u64()
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, *self);
    }
}
