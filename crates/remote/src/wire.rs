//! Bytes of sessions at queues of other nodes, as both ends write and read them.
//!
//! ```text
//! put        queue u64, first u64, items...     the messages are numbered from `first` on
//!   item     length u32, then: named u8 [publisher bytes, id u64], record of the message
//! answers    taken u64, slowed u64, runs...     bytes of puts that are done with, for flow control
//!   run      first u64, last u64, code u8 [why u8]
//! deliver    link u64, asks for credit u8, items...
//!   item     length u32, then: position u64, flags u8, n_failed u32, record of the message
//! ```
//!
//! Commands, requests, responses and events begin with a byte that says which of them they are.

use bytes::Bytes;
use message::{MessageRef, Refusal};
use meta::QueueId;
use queue_type::Named;
use session::{Delivery, Position};
use stdx::record::{Reader, RecordError, put_bool, put_bytes, put_u8, put_u32, put_u64};

/// Bytes of items of deliveries that come over a link before its client's node must give credit again.
pub const LINK_CREDIT_BYTES: u32 = 512 * 1024;

/// Begins a frame with messages for a queue, of which the first has this number.
pub fn begin_put(out: &mut Vec<u8>, queue: QueueId, first: u64) {
    put_u64(out, queue.0);
    put_u64(out, first);
}

/// Appends a message to a frame that was begun with [`begin_put`].
pub fn put_message(out: &mut Vec<u8>, message: &MessageRef<'_>, named: Option<&Named>) {
    put_item(out, |out| {
        put_bool(out, named.is_some());
        if let Some(Named { publisher, id }) = named {
            put_bytes(out, publisher);
            put_u64(out, *id);
        }
        put_record(out, message);
    });
}

/// Messages for a queue.
#[derive(Clone, Debug)]
pub struct PutFrame {
    /// The queue.
    pub queue: QueueId,
    /// The number of the first message.
    pub first: u64,
    items: Bytes,
}

/// A message for a queue.
#[derive(Clone, Debug)]
pub struct PutItem<'a> {
    /// The message.
    pub message: MessageRef<'a>,
    /// Its place among those of a publisher that names itself.
    pub named: Option<Named>,
}

impl PutFrame {
    /// Reads the body of a frame.
    ///
    /// # Errors
    /// The body is not one of its kind.
    pub fn decode(body: &Bytes) -> Result<Self, RecordError> {
        let mut reader = Reader::new(body);
        let (queue, first) = (QueueId(reader.u64()?), reader.u64()?);
        let frame = Self { queue, first, items: body.slice_ref(reader.rest()) };
        frame.items().try_for_each(|item| item.map(|_| ()))?;
        Ok(frame)
    }

    /// The messages, in order.
    pub fn items(&self) -> impl Iterator<Item = Result<PutItem<'_>, RecordError>> {
        items(&self.items, |mut reader| {
            let named = if reader.bool()? {
                Some(Named { publisher: reader.bytes()?.into(), id: reader.u64()? })
            } else {
                None
            };
            Ok(PutItem { message: record(reader)?, named })
        })
    }

    /// The bytes that the messages take.
    #[must_use]
    pub const fn n_bytes(&self) -> usize {
        self.items.len()
    }
}

/// The answer to messages that were put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnsweredPuts {
    /// The number of the first message.
    pub first: u64,
    /// The number of the last message.
    pub last: u64,
    /// The reason of the refusal; none if the queue has the messages.
    pub refused: Option<Refusal>,
}

/// The progress of puts, for their senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenPuts {
    /// Bytes of puts that were taken since the last time.
    pub n_bytes: u64,
    /// A queue whose publishers should let its consumers have their turn.
    pub slowed: Option<QueueId>,
}

/// Appends what was taken, and answers.
pub fn put_answers(out: &mut Vec<u8>, taken: TakenPuts, answers: &[AnsweredPuts]) {
    put_u64(out, taken.n_bytes);
    put_u64(out, taken.slowed.map_or(0, |queue| queue.0));
    for AnsweredPuts { first, last, refused } in answers {
        put_u64(out, *first);
        put_u64(out, *last);
        put_u8(out, refused.map_or(0, |why| why as u8 + 1));
    }
}

/// Reads what was taken, and answers.
///
/// # Errors
/// The body is not one of its kind.
pub fn read_answers(body: &[u8]) -> Result<(TakenPuts, Vec<AnsweredPuts>), RecordError> {
    let mut reader = Reader::new(body);
    let (n_bytes, slowed) = (reader.u64()?, QueueId(reader.u64()?));
    let taken = TakenPuts { n_bytes, slowed: (slowed.0 > 0).then_some(slowed) };
    let mut answers = Vec::new();
    while !reader.is_empty() {
        let (first, last) = (reader.u64()?, reader.u64()?);
        let refused = match reader.u8()? {
            0 => None,
            why => Some(*Refusal::ALL.get(usize::from(why) - 1).ok_or(RecordError::Invalid)?),
        };
        if last < first {
            return Err(RecordError::Invalid);
        }
        answers.push(AnsweredPuts { first, last, refused });
    }
    Ok((taken, answers))
}

/// Begins a frame with deliveries over a link.
pub fn begin_deliver(out: &mut Vec<u8>, link: u64) {
    put_u64(out, link);
    put_bool(out, false);
}

/// Has a frame that was begun with [`begin_deliver`] ask for credit: the home has none left.
pub fn ask_for_credit(out: &mut [u8]) {
    if let Some(asks) = out.get_mut(size_of::<u64>()) {
        *asks = 1;
    }
}

/// Appends a delivery to a frame that was begun with [`begin_deliver`].
pub fn put_delivery(out: &mut Vec<u8>, delivery: &Delivery<'_>) {
    put_item(out, |out| put_one_delivery(out, delivery));
}

/// Deliveries to a consumer.
#[derive(Clone, Debug)]
pub struct DeliverFrame {
    /// The number of the consumer's link.
    pub link: u64,
    /// Whether the home has no credit left.
    pub asks_for_credit: bool,
    items: Bytes,
}

/// A delivery that has come.
#[derive(Clone, Copy, Debug)]
pub struct RemoteDelivery<'a> {
    position: Position,
    redelivered: bool,
    n_failed: u32,
    settled_by_write: bool,
    message: MessageRef<'a>,
}

impl RemoteDelivery<'_> {
    /// The delivery, as an outbox takes it.
    #[must_use]
    pub const fn as_ref(&self) -> Delivery<'_> {
        Delivery {
            position: self.position,
            redelivered: self.redelivered,
            n_failed: self.n_failed,
            settled_by_write: self.settled_by_write,
            message: &self.message,
        }
    }
}

impl DeliverFrame {
    /// Reads the body of a frame.
    ///
    /// # Errors
    /// The body is not one of its kind.
    pub fn decode(body: &Bytes) -> Result<Self, RecordError> {
        let mut reader = Reader::new(body);
        let (link, asks_for_credit) = (reader.u64()?, reader.bool()?);
        Ok(Self { link, asks_for_credit, items: body.slice_ref(reader.rest()) })
    }

    /// The bytes that count for the link's credit.
    #[must_use]
    pub const fn n_bytes(&self) -> usize {
        self.items.len()
    }

    /// The deliveries, in order, up to one that cannot be read.
    pub fn items(&self) -> impl Iterator<Item = Result<RemoteDelivery<'_>, RecordError>> {
        items(&self.items, read_delivery)
    }
}

/// Appends a delivery that stands alone.
pub(crate) fn put_one_delivery(out: &mut Vec<u8>, delivery: &Delivery<'_>) {
    put_u64(out, delivery.position.0);
    let (redelivered, by_write) = (delivery.redelivered, delivery.settled_by_write);
    put_u8(out, u8::from(redelivered) | u8::from(by_write) << 1);
    put_u32(out, delivery.n_failed);
    put_record(out, delivery.message);
}

/// Reads a delivery that stands alone.
pub(crate) fn read_delivery(mut reader: Reader<'_>) -> Result<RemoteDelivery<'_>, RecordError> {
    let (position, flags, n_failed) = (Position(reader.u64()?), reader.u8()?, reader.u32()?);
    Ok(RemoteDelivery {
        position,
        redelivered: flags & 1 != 0,
        n_failed,
        settled_by_write: flags & 2 != 0,
        message: record(reader)?,
    })
}

/// Appends the record of a message, with its body.
pub(crate) fn put_record(out: &mut Vec<u8>, message: &MessageRef<'_>) {
    message::put_head(out, message);
    out.extend_from_slice(message.body.bytes());
}

fn record(reader: Reader<'_>) -> Result<MessageRef<'_>, RecordError> {
    read_record(reader.rest())
}

/// Reads the record of a message.
///
/// # Errors
/// It is not one.
pub fn read_record(record: &[u8]) -> Result<MessageRef<'_>, RecordError> {
    message::parse_record(record, None).map_err(|_| RecordError::Invalid)
}

/// Appends an item with its length in front.
fn put_item(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    put_u32(out, 0);
    let begins = out.len();
    fill(out);
    let n = u32::try_from(out.len() - begins).expect("messages are shorter than 4 GiB");
    out.iter_mut().skip(at).zip(n.to_le_bytes()).for_each(|(to, from)| *to = from);
}

/// Reads items that have their lengths in front.
fn items<'a, T>(
    bytes: &'a [u8],
    read: impl Fn(Reader<'a>) -> Result<T, RecordError>,
) -> impl Iterator<Item = Result<T, RecordError>> {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(move || {
        (!reader.is_empty()).then(|| reader.bytes().and_then(|item| read(Reader::new(item))))
    })
}
