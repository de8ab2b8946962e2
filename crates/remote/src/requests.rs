//! Requests of a session to a queue of another node, and their answers, which repeat the number that the
//! sender has given the request.

use crate::wire::{RemoteDelivery, put_one_delivery, read_delivery};
use bytes::Bytes;
use meta::{ConnectionId, QueueId};
use queue::{AckMode, Checkout, CreditMode};
use queue_type::{AttachRefused, DeleteConditions, QueueRefused, QueueStat};
use session::{Attachment, ChannelId, Delivery, LinkSource, ShortString, Table, TableRef};
use stdx::record::{
    Reader, RecordError, put_bool, put_bytes, put_i64, put_str, put_u8, put_u16, put_u32, put_u64,
};

/// The terms on which a link is attached to a queue.
#[derive(Clone, Debug)]
pub struct LinkTerms {
    /// The queue.
    pub queue: QueueId,
    /// The number that the client's node gives the link.
    pub link: u64,
    /// The connection of the client.
    pub connection: ConnectionId,
    /// The channel of the client.
    pub channel: ChannelId,
    /// The time for which the client's node lets a message be held, in milliseconds.
    pub node_timeout_ms: Option<u64>,
}

/// A request to the node that has a queue.
#[derive(Clone, Debug)]
pub enum SessionRequest {
    /// Attach a consumer.
    Attach {
        /// The terms of the link.
        terms: LinkTerms,
        /// The terms for the queue's core.
        checkout: Checkout,
        /// The consumer as its client asks for it.
        asked: Attachment,
    },
    /// Attach a link that gets only the messages it asks for.
    AttachPassive {
        /// The terms of the link.
        terms: LinkTerms,
        /// The settlement of its messages.
        settling: AckMode,
    },
    /// Give the link the next message.
    Get(u64),
    /// End the link's deliveries.
    Cancel(u64),
    /// Drop every ready message.
    Purge(QueueId),
    /// Begin to delete the queue if the conditions hold.
    BeginDelete(QueueId, DeleteConditions),
    /// Tell the queue's figures.
    Stat(QueueId),
}

impl SessionRequest {
    /// Appends the request with its number.
    pub fn encode(&self, number: u64, out: &mut Vec<u8>) {
        put_u64(out, number);
        match self {
            Self::Attach { terms, checkout, asked } => {
                put_u8(out, 0);
                put_terms(out, terms);
                put_mode(out, checkout.settling);
                let (mode, prefetch) = match checkout.credit_mode {
                    CreditMode::Unlimited => (0, 0),
                    CreditMode::Prefetch(prefetch) => (1, prefetch),
                    CreditMode::Link => (2, 0),
                };
                put_u8(out, mode);
                put_u32(out, prefetch);
                put_i64(out, checkout.priority);
                put_asked(out, asked);
            }
            Self::AttachPassive { terms, settling } => {
                put_u8(out, 1);
                put_terms(out, terms);
                put_mode(out, *settling);
            }
            Self::Get(link) => put_number(out, 2, *link),
            Self::Cancel(link) => put_number(out, 3, *link),
            Self::Purge(queue) => put_number(out, 4, queue.0),
            Self::BeginDelete(queue, DeleteConditions { if_unused, if_empty }) => {
                put_number(out, 5, queue.0);
                put_bool(out, *if_unused);
                put_bool(out, *if_empty);
            }
            Self::Stat(queue) => put_number(out, 6, queue.0),
        }
    }

    /// Reads the number of a request, and the request.
    ///
    /// # Errors
    /// The body is not one of its kind.
    pub fn decode(body: &[u8]) -> Result<(u64, Self), RecordError> {
        let mut reader = Reader::new(body);
        let number = reader.u64()?;
        let request = match reader.u8()? {
            0 => {
                let terms = read_terms(&mut reader)?;
                let settling = read_mode(&mut reader)?;
                let (mode, prefetch) = (reader.u8()?, reader.u32()?);
                let credit_mode = match mode {
                    0 => CreditMode::Unlimited,
                    1 => CreditMode::Prefetch(prefetch),
                    2 => CreditMode::Link,
                    _ => return Err(RecordError::Invalid),
                };
                let checkout = Checkout { settling, credit_mode, priority: reader.i64()? };
                Self::Attach { terms, checkout, asked: read_asked(&mut reader, settling)? }
            }
            1 => {
                let terms = read_terms(&mut reader)?;
                Self::AttachPassive { terms, settling: read_mode(&mut reader)? }
            }
            2 => Self::Get(reader.u64()?),
            3 => Self::Cancel(reader.u64()?),
            4 => Self::Purge(QueueId(reader.u64()?)),
            5 => {
                let queue = QueueId(reader.u64()?);
                let (if_unused, if_empty) = (reader.bool()?, reader.bool()?);
                Self::BeginDelete(queue, DeleteConditions { if_unused, if_empty })
            }
            6 => Self::Stat(QueueId(reader.u64()?)),
            _ => return Err(RecordError::Invalid),
        };
        Ok((number, request))
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum SessionResponse {
    /// The request is carried out.
    Done,
    /// The request is carried out, for so many messages.
    Count(u64),
    /// The queue's figures: those of messages and consumers.
    Stat(QueueStat),
    /// A message, which [`SessionResponse::got`] reads, and the number of those that are left.
    Got {
        /// The encoded delivery.
        delivery: Bytes,
        /// Ready messages that are left.
        n_ready: u64,
    },
    /// The queue has no message ready.
    Nothing,
    /// The link is refused.
    AttachRefused(AttachRefused),
    /// The request is refused.
    Refused(QueueRefused),
}

impl SessionResponse {
    /// The response that gives a message.
    #[must_use]
    pub fn of_delivery(delivery: &Delivery<'_>, n_ready: u64) -> Self {
        let mut encoded = Vec::new();
        put_one_delivery(&mut encoded, delivery);
        Self::Got { delivery: encoded.into(), n_ready }
    }

    /// Reads the message of a response.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn got(delivery: &Bytes) -> Result<RemoteDelivery<'_>, RecordError> {
        read_delivery(Reader::new(delivery))
    }

    /// Appends the response to the request of that number.
    pub fn encode(&self, number: u64, out: &mut Vec<u8>) {
        put_u64(out, number);
        match self {
            Self::Done => put_u8(out, 0),
            Self::Count(n) => put_number(out, 1, *n),
            Self::Stat(stat) => {
                put_number(out, 2, stat.n_ready);
                put_u64(out, stat.n_unacked);
                put_u64(out, stat.n_consumers);
                put_u64(out, stat.message_bytes);
            }
            Self::Got { delivery, n_ready } => {
                put_number(out, 3, *n_ready);
                out.extend_from_slice(delivery);
            }
            Self::Nothing => put_u8(out, 4),
            Self::AttachRefused(refused) => {
                let (why, text) = match refused {
                    AttachRefused::Gone => (0, ""),
                    AttachRefused::ExclusiveUse => (1, ""),
                    AttachRefused::Unfit(text) => (2, &**text),
                    AttachRefused::NotImplemented(text) => (3, &**text),
                    AttachRefused::Locked(text) => (4, &**text),
                    AttachRefused::HomeDown(text) => (5, &**text),
                };
                put_u8(out, 5);
                put_u8(out, why);
                put_str(out, text);
            }
            Self::Refused(refused) => {
                let (why, text) = match refused {
                    QueueRefused::NotFound => (0, ""),
                    QueueRefused::InUse => (1, ""),
                    QueueRefused::NotEmpty => (2, ""),
                    QueueRefused::NotImplemented(text) => (3, &**text),
                    QueueRefused::HomeDown(text) => (4, &**text),
                };
                put_u8(out, 6);
                put_u8(out, why);
                put_str(out, text);
            }
        }
    }

    /// Reads the number of a request, and its response.
    ///
    /// # Errors
    /// The body is not one of its kind.
    pub fn decode(body: &Bytes) -> Result<(u64, Self), RecordError> {
        let mut reader = Reader::new(body);
        let number = reader.u64()?;
        let response = match reader.u8()? {
            0 => Self::Done,
            1 => Self::Count(reader.u64()?),
            2 => Self::Stat(QueueStat {
                n_ready: reader.u64()?,
                n_unacked: reader.u64()?,
                n_consumers: reader.u64()?,
                message_bytes: reader.u64()?,
                ..QueueStat::default()
            }),
            3 => {
                let n_ready = reader.u64()?;
                Self::Got { delivery: body.slice_ref(reader.rest()), n_ready }
            }
            4 => Self::Nothing,
            5 => {
                let (why, text) = (reader.u8()?, reader.str()?.to_owned());
                Self::AttachRefused(match why {
                    0 => AttachRefused::Gone,
                    1 => AttachRefused::ExclusiveUse,
                    2 => AttachRefused::Unfit(text),
                    3 => AttachRefused::NotImplemented(text),
                    4 => AttachRefused::Locked(text),
                    _ => AttachRefused::HomeDown(text),
                })
            }
            6 => {
                let (why, text) = (reader.u8()?, reader.str()?.to_owned());
                Self::Refused(match why {
                    0 => QueueRefused::NotFound,
                    1 => QueueRefused::InUse,
                    2 => QueueRefused::NotEmpty,
                    3 => QueueRefused::NotImplemented(text),
                    _ => QueueRefused::HomeDown(text),
                })
            }
            _ => return Err(RecordError::Invalid),
        };
        Ok((number, response))
    }
}

fn put_number(out: &mut Vec<u8>, kind: u8, number: u64) {
    put_u8(out, kind);
    put_u64(out, number);
}

fn put_mode(out: &mut Vec<u8>, settling: AckMode) {
    put_bool(out, settling == AckMode::Auto);
}

fn read_mode(reader: &mut Reader<'_>) -> Result<AckMode, RecordError> {
    Ok(if reader.bool()? { AckMode::Auto } else { AckMode::Manual })
}

fn put_terms(out: &mut Vec<u8>, terms: &LinkTerms) {
    let LinkTerms { queue, link, connection, channel, node_timeout_ms } = terms;
    [queue.0, *link, connection.0].into_iter().for_each(|it| put_u64(out, it));
    put_u16(out, channel.0);
    put_bool(out, node_timeout_ms.is_some());
    put_u64(out, node_timeout_ms.unwrap_or(0));
}

fn read_terms(reader: &mut Reader<'_>) -> Result<LinkTerms, RecordError> {
    let (queue, link) = (QueueId(reader.u64()?), reader.u64()?);
    let (connection, channel) = (ConnectionId(reader.u64()?), ChannelId(reader.u16()?));
    let (is_limited, limit_ms) = (reader.bool()?, reader.u64()?);
    let node_timeout_ms = is_limited.then_some(limit_ms);
    Ok(LinkTerms { queue, link, connection, channel, node_timeout_ms })
}

fn put_asked(out: &mut Vec<u8>, asked: &Attachment) {
    put_bytes(out, asked.queue.as_bytes());
    put_bytes(out, asked.consumer_tag.as_bytes());
    put_bool(out, asked.exclusive);
    put_bytes(out, &asked.arguments.to_bytes());
    put_bool(out, asked.source.is_some());
    if let Some(LinkSource { filters, browses }) = &asked.source {
        put_bytes(out, filters);
        put_bool(out, *browses);
    }
}

fn read_asked(reader: &mut Reader<'_>, settling: AckMode) -> Result<Attachment, RecordError> {
    Ok(Attachment {
        queue: short(reader)?,
        consumer_tag: short(reader)?,
        no_ack: settling == AckMode::Auto,
        exclusive: reader.bool()?,
        arguments: table(reader)?,
        source: if reader.bool()? {
            Some(LinkSource { filters: reader.bytes()?.to_vec(), browses: reader.bool()? })
        } else {
            None
        },
    })
}

fn short(reader: &mut Reader<'_>) -> Result<ShortString, RecordError> {
    ShortString::new(reader.bytes()?).map_err(|_| RecordError::Invalid)
}

fn table(reader: &mut Reader<'_>) -> Result<Table, RecordError> {
    let table = TableRef::parse(reader.bytes()?).and_then(|table| table.to_owned());
    table.map_err(|_| RecordError::Invalid)
}
