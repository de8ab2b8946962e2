//! Commands of a session at a queue of another node, which have no answer, and what its consumers are told.

use bytes::Bytes;
use meta::{ConnectionId, QueueId};
use queue::Return;
use queue_type::AckTimeout;
use session::{
    ChannelId, ConsumerCredit, CreditRequest, LinkId, MessageChanges, Outcome, Position,
};
use stdx::UnixMs;
use stdx::record::{
    Reader, RecordError, put_bool, put_bytes, put_str, put_u8, put_u16, put_u32, put_u64,
};

const OUTCOMES: [Outcome; 4] =
    [Outcome::Accepted, Outcome::Modified, Outcome::Released, Outcome::Rejected];

/// A command for the node that has the queue. Links have numbers that their client's node gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionCommand {
    /// Settle messages that were delivered over a link.
    Settle {
        /// The link.
        link: u64,
        /// The outcome of all.
        outcome: Outcome,
        /// The messages.
        positions: Vec<Position>,
        /// The changes that the queue may keep, if there are any.
        changes: Option<MessageChanges>,
    },
    /// Deliver so many bytes more over a link.
    Credit {
        /// The link.
        link: u64,
        /// The bytes.
        bytes: u32,
    },
    /// Take a link's credit as its client sees it.
    Flow {
        /// The link.
        link: u64,
        /// The credit; its channel and link are the client's.
        credit: CreditRequest,
    },
    /// Change a link's prefetch limit; none if it has no limit any more.
    Prefetch {
        /// The link.
        link: u64,
        /// The limit.
        prefetch: Option<u32>,
    },
    /// Detach links of one channel at one queue, and give back what they hold.
    Detach {
        /// The links.
        links: Vec<u64>,
        /// How it comes back.
        how: Return,
    },
    /// Give back what a link holds and its client's node has got, but for some messages.
    Recover {
        /// The link.
        link: u64,
        /// The number of the newest delivery that the client's node has got: later ones stay.
        upto: u64,
        /// The positions of those that it keeps.
        kept: Vec<u64>,
    },
    /// Note that a queue is in use.
    Touch(QueueId),
    /// Give a direct reply to the consumer of a token.
    Reply {
        /// The token.
        token: String,
        /// The record of the message.
        record: Vec<u8>,
    },
    /// Close a channel of the receiving node's client, which holds a message for too long.
    Overdue(AckTimeout),
}

impl SessionCommand {
    /// Appends the command.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Settle { link, outcome, positions, changes } => {
                put_u8(out, 0);
                put_u64(out, *link);
                put_u8(out, place_of(*outcome));
                put_changes(out, changes.as_ref());
                positions.iter().for_each(|position| put_u64(out, position.0));
            }
            Self::Credit { link, bytes } => {
                put_u8(out, 1);
                put_u64(out, *link);
                put_u32(out, *bytes);
            }
            Self::Flow { link, credit } => {
                put_u8(out, 2);
                put_u64(out, *link);
                put_u32(out, credit.delivery_count);
                put_u32(out, credit.credit);
                put_bool(out, credit.drain);
                put_bool(out, credit.echo);
            }
            Self::Prefetch { link, prefetch } => {
                put_u8(out, 3);
                put_u64(out, *link);
                put_bool(out, prefetch.is_some());
                put_u32(out, prefetch.unwrap_or(0));
            }
            Self::Detach { links, how } => {
                put_u8(out, 4);
                put_bool(out, *how == Return::Failed);
                links.iter().for_each(|link| put_u64(out, *link));
            }
            Self::Recover { link, upto, kept } => {
                put_u8(out, 5);
                put_u64(out, *link);
                put_u64(out, *upto);
                kept.iter().for_each(|position| put_u64(out, *position));
            }
            Self::Touch(queue) => {
                put_u8(out, 6);
                put_u64(out, queue.0);
            }
            Self::Reply { token, record } => {
                put_u8(out, 7);
                put_str(out, token);
                out.extend_from_slice(record);
            }
            Self::Overdue(AckTimeout { connection, channel, timeout_ms }) => {
                put_u8(out, 8);
                put_u64(out, connection.0);
                put_u16(out, channel.0);
                put_u64(out, *timeout_ms);
            }
        }
    }

    /// Reads the body of a frame.
    ///
    /// # Errors
    /// The body is not one of its kind.
    pub fn decode(body: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(body);
        let kind = reader.u8()?;
        if kind == 4 {
            let how = if reader.bool()? { Return::Failed } else { Return::Released };
            return Ok(Self::Detach { links: numbers(reader)?, how });
        }
        if kind == 7 {
            let token = reader.str()?.to_owned();
            return Ok(Self::Reply { token, record: reader.rest().to_vec() });
        }
        let link = reader.u64()?;
        Ok(match kind {
            0 => {
                let outcome = OUTCOMES.get(usize::from(reader.u8()?));
                let outcome = *outcome.ok_or(RecordError::Invalid)?;
                let changes = read_changes(&mut reader)?;
                Self::Settle { link, outcome, positions: positions(reader)?, changes }
            }
            1 => Self::Credit { link, bytes: reader.u32()? },
            2 => {
                let credit = CreditRequest {
                    channel: ChannelId(0),
                    link: LinkId(link),
                    delivery_count: reader.u32()?,
                    credit: reader.u32()?,
                    drain: reader.bool()?,
                    echo: reader.bool()?,
                };
                Self::Flow { link, credit }
            }
            3 => {
                let (is_limited, limit) = (reader.bool()?, reader.u32()?);
                Self::Prefetch { link, prefetch: is_limited.then_some(limit) }
            }
            5 => Self::Recover { link, upto: reader.u64()?, kept: numbers(reader)? },
            6 => Self::Touch(QueueId(link)),
            8 => Self::Overdue(AckTimeout {
                connection: ConnectionId(link),
                channel: ChannelId(reader.u16()?),
                timeout_ms: reader.u64()?,
            }),
            _ => return Err(RecordError::Invalid),
        })
    }
}

/// An event of a consumer, for the node of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkTold {
    /// The consumer is attached, with these filters.
    Attached(Option<Bytes>),
    /// The consumer's queue has ended it.
    Cancelled,
    /// The consumer has held these messages for too long, which are back in their queue.
    TimedOut(Vec<Position>),
    /// The credit of the link.
    Flowed(ConsumerCredit),
}

impl LinkTold {
    /// Appends the event of a link.
    pub fn encode(&self, link: u64, out: &mut Vec<u8>) {
        put_u64(out, link);
        match self {
            Self::Attached(filters) => {
                put_u8(out, 0);
                put_bool(out, filters.is_some());
                put_bytes(out, filters.as_deref().unwrap_or_default());
            }
            Self::Cancelled => put_u8(out, 1),
            Self::TimedOut(positions) => {
                put_u8(out, 2);
                positions.iter().for_each(|position| put_u64(out, position.0));
            }
            Self::Flowed(credit) => {
                put_u8(out, 3);
                put_u32(out, credit.delivery_count);
                put_u32(out, credit.credit);
                put_u32(out, credit.available);
                put_bool(out, credit.drain);
                put_u8(out, credit.is_active.map_or(2, u8::from));
            }
        }
    }

    /// Reads the number of a link, and its event.
    ///
    /// # Errors
    /// The body is not one of its kind.
    pub fn decode(body: &[u8]) -> Result<(u64, Self), RecordError> {
        let mut reader = Reader::new(body);
        let link = reader.u64()?;
        let told = match reader.u8()? {
            0 => {
                let (has_filters, filters) = (reader.bool()?, reader.bytes()?);
                Self::Attached(has_filters.then(|| Bytes::copy_from_slice(filters)))
            }
            1 => Self::Cancelled,
            2 => Self::TimedOut(positions(reader)?),
            3 => Self::Flowed(ConsumerCredit {
                delivery_count: reader.u32()?,
                credit: reader.u32()?,
                available: reader.u32()?,
                drain: reader.bool()?,
                is_active: match reader.u8()? {
                    0 => Some(false),
                    1 => Some(true),
                    _ => None,
                },
            }),
            _ => return Err(RecordError::Invalid),
        };
        Ok((link, told))
    }
}

fn put_changes(out: &mut Vec<u8>, changes: Option<&MessageChanges>) {
    put_bool(out, changes.is_some());
    if let Some(MessageChanges { annotations, until_ms }) = changes {
        put_bytes(out, annotations);
        put_bool(out, until_ms.is_some());
        put_u64(out, until_ms.map_or(0, UnixMs::get));
    }
}

fn read_changes(reader: &mut Reader<'_>) -> Result<Option<MessageChanges>, RecordError> {
    if !reader.bool()? {
        return Ok(None);
    }
    let annotations = Bytes::copy_from_slice(reader.bytes()?);
    let (waits, until_ms) = (reader.bool()?, UnixMs::from_raw(reader.u64()?));
    Ok(Some(MessageChanges { annotations, until_ms: waits.then_some(until_ms) }))
}

fn place_of(outcome: Outcome) -> u8 {
    OUTCOMES.iter().zip(0..).find(|(it, _)| **it == outcome).map_or(0, |(_, place)| place)
}

fn numbers(mut reader: Reader<'_>) -> Result<Vec<u64>, RecordError> {
    let mut numbers = Vec::with_capacity(reader.rest().len() / 8);
    while !reader.is_empty() {
        numbers.push(reader.u64()?);
    }
    Ok(numbers)
}

fn positions(reader: Reader<'_>) -> Result<Vec<Position>, RecordError> {
    Ok(numbers(reader)?.into_iter().map(Position).collect())
}
