//! Effects of commands, for the host to carry out.

use crate::{DeliveryCounts, LinkCredit, PositionRange, Reason};
use message::Refusal;
use stdx::UnixMs;

/// The effects of one command or several, in the order the host carries it out: `stored` first, then
/// `assigned` and `answers`, `timed_out` and `active`, `departing`, `released`. Only `promises` wait until
/// the commands are durable, where the queue has one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Messages that are in the queue now, with their positions.
    pub stored: Vec<Stored>,
    /// Messages for consumers.
    pub assigned: Vec<Assigned>,
    /// Answers that are true as soon as the command is committed.
    pub answers: Vec<Answer>,
    /// Deliveries that consumers held for too long; the messages are back in the queue.
    pub timed_out: Vec<TimedOut>,
    /// Consumers that are the single active one now, or not any more.
    pub active: Vec<Activity>,
    /// Messages to be dead-lettered. Their content stays until they have
    /// [departed](super::Command::Departed).
    pub departing: Vec<Departing>,
    /// Messages that died, dead-lettered or not: how many in the order of [`Reason::ALL`].
    pub n_died: [u64; Reason::ALL.len()],
    /// Messages that are gone: their content is needed no more, once `assigned` messages have been read.
    pub released: Vec<PositionRange>,
    /// Answers that are true as soon as the commands are durable.
    pub promises: Vec<Promise>,
    /// Publishes that are refused because they have waited for consumers for too long.
    pub n_confirms_overdue: u64,
    /// Messages whose new notes are not kept, since there is no room for them.
    pub n_unnoted: u64,
    /// Time to apply the next [`Tick`](super::Command::Tick); may be in the past.
    pub deadline_ms: Option<UnixMs>,
}

/// Messages of a publisher that were put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The publisher.
    pub publisher: u64,
    /// Number of the first message, by its publisher.
    pub first: u64,
    /// Positions of the first and the following messages.
    pub positions: PositionRange,
}

/// A message for a consumer, which holds it from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// Consumer that gets the message.
    pub consumer: u64,
    /// The delivery's number, by which it is settled; no other delivery of the queue has it.
    pub number: u64,
    /// Position of the message.
    pub position: u64,
    /// Counts of how often the message came back; a message that did is redelivered.
    pub counts: DeliveryCounts,
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The consumer is attached.
    Attached {
        /// The consumer.
        consumer: u64,
    },
    /// The consumer is not attached: the queue is closed, or has [`CONSUMERS_MAX`](super::CONSUMERS_MAX).
    NotAttached {
        /// The consumer.
        consumer: u64,
    },
    /// A message taken with [`Get`](super::Command::Get).
    Got {
        /// The request.
        request: u64,
        /// The message; nobody holds it if the request settles it.
        assigned: Assigned,
        /// Ready messages that are left.
        n_ready: u64,
    },
    /// The queue has no ready message to take.
    Empty {
        /// The request.
        request: u64,
    },
    /// A consumer's link credit, behind the deliveries that it allowed.
    Flowed {
        /// The consumer.
        consumer: u64,
        /// Credit that is left.
        credit: LinkCredit,
        /// Ready messages that are left.
        n_ready: u64,
    },
    /// Messages of a queue with a single active consumer are not taken.
    SingleActive {
        /// The request.
        request: u64,
    },
}

/// A delivery that a consumer held for too long. The consumer gets nothing until it has settled all such
/// deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut {
    /// The consumer.
    pub consumer: u64,
    /// The delivery's number.
    pub number: u64,
}

/// A consumer begins or ceases to be the single active one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The consumer; it is attached.
    pub consumer: u64,
    /// Whether it is active now.
    pub is_active: bool,
}

/// Messages to be dead-lettered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departing {
    /// The number of the first, by which it is told that it has [departed](super::Command::Departed).
    pub first_number: u64,
    /// Positions of the messages.
    pub positions: PositionRange,
    /// Reason that the messages died.
    pub reason: Reason,
}

/// An answer that is given only when it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Messages are the queue's, or with `x-confirm-on=ack` have been consumed.
    Confirmed(Run),
    /// Messages came before: they are dropped, and confirmed if the first ones are.
    Duplicate(Run),
    /// Messages are certainly not in the queue, or nobody will consume them.
    Refused(Run, Refusal),
    /// A message that waits to be consumed departs: whoever sends the dead letter answers for it.
    Departs {
        /// The publisher.
        publisher: u64,
        /// Number of the message, by its publisher.
        number: u64,
        /// The number of the letter, as in [`Departing`].
        letter: u64,
    },
    /// Messages were passed over: some are missing before them.
    Gap {
        /// The publisher.
        publisher: u64,
        /// Number that the publisher is to go on with.
        expected: u64,
    },
    /// The queue is purged of as many messages.
    Purged {
        /// The request.
        request: u64,
        /// Number of messages that are gone.
        n_messages: u64,
    },
    /// The queue is closed.
    Closed {
        /// The request.
        request: u64,
        /// Ready messages.
        n_ready: u64,
    },
    /// The queue is not closed: it has consumers.
    InUse {
        /// The request.
        request: u64,
    },
    /// The queue is not closed: it has messages.
    NotEmpty {
        /// The request.
        request: u64,
    },
    /// Nobody has used the queue for as long as `x-expires` says; told by a [`Tick`](super::Command::Tick)
    /// alone, where the host looks for it.
    Unused,
}

/// Messages of a publisher that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The publisher.
    pub publisher: u64,
    /// Number of the first message.
    pub first: u64,
    /// Number of messages in the run.
    pub n: u64,
}

/// The kind of answer to a publisher.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Confirmed,
    Duplicate,
    Refused(Refusal),
}

impl Effects {
    /// Forgets everything; keeps the memory.
    pub fn clear(&mut self) {
        self.stored.clear();
        self.assigned.clear();
        self.answers.clear();
        self.timed_out.clear();
        self.active.clear();
        self.departing.clear();
        self.n_died = <[u64; _]>::default();
        self.released.clear();
        self.promises.clear();
        self.n_confirms_overdue = 0;
        self.n_unnoted = 0;
        self.deadline_ms = None;
    }

    /// Messages are gone.
    #[inline]
    pub(super) fn release_range(&mut self, range: PositionRange) {
        match self.released.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            Some(_) | None => self.released.push(range),
        }
    }

    /// Answers one message of a publisher.
    #[inline]
    pub(super) fn promise(&mut self, kind: Kind, publisher: u64, number: u64) {
        let last = match (self.promises.last_mut(), kind) {
            (Some(Promise::Confirmed(run)), Kind::Confirmed)
            | (Some(Promise::Duplicate(run)), Kind::Duplicate) => Some(run),
            (Some(Promise::Refused(run, before)), Kind::Refused(why)) if *before == why => {
                Some(run)
            }
            (_, Kind::Confirmed | Kind::Duplicate | Kind::Refused(_)) => None,
        };
        match last {
            Some(run) if run.publisher == publisher && run.first.wrapping_add(run.n) == number => {
                run.n += 1;
            }
            Some(_) | None => {
                let run = Run { publisher, first: number, n: 1 };
                self.promises.push(match kind {
                    Kind::Confirmed => Promise::Confirmed(run),
                    Kind::Duplicate => Promise::Duplicate(run),
                    Kind::Refused(why) => Promise::Refused(run, why),
                });
            }
        }
    }

    pub(super) fn depart(&mut self, first_number: u64, positions: PositionRange, reason: Reason) {
        match self.departing.last_mut() {
            Some(last)
                if last.reason == reason
                    && last.positions.end == positions.start
                    && last.first_number + last.positions.len() == first_number =>
            {
                last.positions.end = positions.end;
            }
            Some(_) | None => self.departing.push(Departing { first_number, positions, reason }),
        }
    }

    pub(super) fn store(&mut self, publisher: u64, number: u64, position: u64) {
        match self.stored.last_mut() {
            Some(last)
                if last.positions.end == position
                    && last.publisher == publisher
                    && last.first.wrapping_add(last.positions.len()) == number =>
            {
                last.positions.end += 1;
            }
            Some(_) | None => {
                let positions = PositionRange::one(position);
                self.stored.push(Stored { publisher, first: number, positions });
            }
        }
    }
}
