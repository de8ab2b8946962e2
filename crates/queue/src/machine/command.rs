//! Commands to a quorum queue: one command after the other, each an entry of its log.

use super::items::{Item, Items};
use super::settings::Settings;
use crate::Return;
use stdx::record::{Reader, RecordError, put_u8, put_u32, put_u64};

/// A command to a quorum queue. Its written form has no bodies: the host stores the records of a
/// [`Put`] behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Messages come in.
    Put(Put<'a>),
    /// A consumer comes, or changes: one that is known is told its new terms, and gets deliveries again if it
    /// was cancelled.
    Attach(Attach),
    /// A consumer may hold as many messages from now on.
    Prefetch {
        /// The consumer.
        consumer: u64,
        /// As in [`Attach::prefetch`].
        prefetch: u32,
    },
    /// A consumer gets nothing any more; what it holds stays with it.
    Cancel {
        /// The consumer.
        consumer: u64,
    },
    /// A consumer is gone; what it holds comes back.
    Detach {
        /// The consumer.
        consumer: u64,
        /// Whether its deliveries count as failed.
        how: Return,
    },
    /// A consumer settles deliveries. Numbers that it does not hold are passed over.
    Settle {
        /// The consumer.
        consumer: u64,
        /// The fate of the messages.
        outcome: Outcome,
        /// Numbers of deliveries, in the order they are settled in.
        numbers: Items<'a, NumberRange>,
    },
    /// Somebody takes one message (`basic.get`).
    Get(Get),
    /// All messages go that no consumer holds, also those that depart.
    Purge {
        /// Names the answer.
        request: u64,
    },
    /// An operator takes messages out, as far as they are ready.
    Remove {
        /// Names the answer.
        request: u64,
        /// Their positions.
        positions: Items<'a, NumberRange>,
    },
    /// An operator has messages wait until another time that wait to be tried again.
    Reschedule {
        /// Until then, in Unix milliseconds; what is past is at once.
        until_ms: u64,
        /// Their positions.
        positions: Items<'a, NumberRange>,
    },
    /// Time has passed: [`Effects::deadline_ms`](super::Effects) has come.
    Tick,
    /// The queue is used by being declared again: `x-expires` begins anew.
    Declared,
    /// A node cannot be reached, or can be again.
    Node {
        /// Its number, as in [`Attach::node`].
        node: u32,
        /// Whether it can be reached.
        is_up: bool,
    },
    /// New settings, by a policy.
    Settings(Settings),
    /// Messages have departed, named by [`Departing::first_number`](super::Departing) on.
    Departed {
        /// Their numbers.
        numbers: Items<'a, NumberRange>,
    },
    /// Publishers are gone; what they have put stays.
    PublishersGone {
        /// As in [`Put::publisher`].
        publishers: Items<'a, u64>,
    },
    /// Nothing is taken in any more: the queue is about to be deleted.
    Close {
        /// Names the answer.
        request: u64,
        /// Only if it has no consumers.
        if_unused: bool,
        /// Only if it has no messages.
        if_empty: bool,
    },
    /// It is not deleted after all.
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
    /// Limits on length refuse none of them: nobody would hear of it.
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
    /// Its priority, 0 to 31; above that it counts as 31. Messages without one have
    /// [`PRIORITY_DEFAULT`](super::PRIORITY_DEFAULT).
    pub priority: u8,
    /// Its `expiration` in milliseconds; below `u64::MAX`.
    pub ttl_ms: Option<u64>,
    /// Size of its body.
    pub bytes: u32,
}

/// A consumer's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// A number that the host gives to no other consumer.
    pub consumer: u64,
    /// The node that its client is connected to.
    pub node: u32,
    /// Messages it may hold; 0 for [`PREFETCH_UNLIMITED`](super::PREFETCH_UNLIMITED).
    pub prefetch: u32,
    /// Higher ones are served first (`x-priority`).
    pub priority: i64,
    /// How long it may hold a message, in milliseconds (`x-consumer-timeout`), at least one.
    pub timeout_ms: Option<u64>,
}

/// One message is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// Names the answer.
    pub request: u64,
    /// Whether the message is gone from the queue by this.
    pub settles: bool,
    /// Who holds it otherwise: attached or not, and forgotten when nothing is held any more.
    pub consumer: u64,
    /// As in [`Attach::node`], if the consumer is not known.
    pub node: u32,
    /// As in [`Attach::timeout_ms`], if the consumer is not known.
    pub timeout_ms: Option<u64>,
}

/// The fate of a message that a consumer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Accepted,
    /// It comes back.
    Returned(Return),
    /// It is to be given to nobody any more; whether its delivery counts as failed.
    Rejected(Return),
}

/// Numbers `start..end`, end excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// First number.
    pub start: u64,
    /// One past the last.
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
