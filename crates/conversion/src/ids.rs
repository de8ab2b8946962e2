//! Message ids, correlation ids and addresses for replies.

use crate::annotations::{short, text};
use amqp10::{ValueRef, percent_decoded, put_percent_encoded};
use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;

const URN_PREFIX: &[u8] = b"urn:uuid:";
const URN_BYTES: usize = 45;
const QUEUES: &str = "/queues/";

/// Room for an id that becomes text.
pub(crate) type IdText = [u8; URN_BYTES];

/// Room that holds nothing yet.
pub(crate) const NO_TEXT: IdText = [0; URN_BYTES];

/// An id of AMQP 0-9-1 as AMQP 1.0 has it, if it is text: a UUID's name becomes the UUID.
pub(crate) fn id_of(text: &[u8]) -> Option<ValueRef<'_>> {
    uuid_of(text).map(ValueRef::Uuid).or_else(|| std::str::from_utf8(text).ok().map(ValueRef::Str))
}

fn uuid_of(urn: &[u8]) -> Option<[u8; 16]> {
    let text = urn.strip_prefix(URN_PREFIX).filter(|text| text.len() == 36)?;
    let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let mut digits = text.iter().enumerate().filter(|(at, _)| !is_dash(*at)).map(|(_, c)| *c);
    if !text.iter().enumerate().all(|(at, c)| is_dash(at) == (*c == b'-')) {
        return None;
    }
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        *byte = hex(digits.next()?)? << 4 | hex(digits.next()?)?;
    }
    Some(uuid)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// A UUID's name.
pub(crate) fn urn_of(uuid: [u8; 16]) -> IdText {
    let mut text = [b'-'; URN_BYTES];
    let (prefix, rest) = text.split_at_mut(URN_PREFIX.len());
    prefix.copy_from_slice(URN_PREFIX);
    let is_dash = |at: &usize| matches!(at, 8 | 13 | 18 | 23);
    let digits = uuid.into_iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
    let places = rest.iter_mut().enumerate().filter(|(at, _)| !is_dash(at));
    for ((_, place), digit) in places.zip(digits) {
        *place = char::from_digit(u32::from(digit), 16).map_or(b'0', |c| c as u8);
    }
    text
}

/// An id of AMQP 1.0 as a property of AMQP 0-9-1, if it becomes one.
pub(crate) fn id_text<'b>(id: Option<ValueRef<'b>>, room: &'b mut IdText) -> Option<&'b [u8]> {
    let id = id?;
    if let ValueRef::Uuid(uuid) = id {
        *room = urn_of(uuid);
        Some(room)
    } else if let ValueRef::U64(n) = id {
        Some(decimal(n, room))
    } else if let ValueRef::I64(n) = id {
        Some(written(n, room))
    } else {
        text(id).and_then(|_| short(id))
    }
}

/// An id of AMQP 1.0 that becomes a header of AMQP 0-9-1: bytes, and text that is too long.
pub(crate) fn id_header(id: Option<ValueRef<'_>>) -> Option<amqp091::ValueRef<'_>> {
    let id = id?;
    if let ValueRef::Binary(bytes) = id {
        Some(amqp091::ValueRef::Bytes(bytes))
    } else if let ValueRef::Str(text) = id
        && short(id).is_none()
    {
        Some(amqp091::ValueRef::LongString(text.as_bytes()))
    } else {
        None
    }
}

/// A number as text.
pub(crate) fn decimal(n: u64, room: &mut IdText) -> &[u8] {
    written(n, room)
}

fn written(n: impl Display, room: &mut IdText) -> &[u8] {
    let mut rest = &mut room[..];
    let written = write!(rest, "{n}").is_ok();
    let n_left = rest.len();
    if written { room.get(..URN_BYTES - n_left).unwrap_or_default() } else { &[] }
}

/// The address of a queue for replies.
pub(crate) fn reply_address(queue: &[u8]) -> String {
    let mut address = String::with_capacity(QUEUES.len() + queue.len());
    address.push_str(QUEUES);
    put_percent_encoded(queue, &mut address);
    address
}

/// The queue for replies to an address: that of `/queues/QUEUE`, or the address as it is. `None` for one
/// that is not well encoded, or too long.
pub(crate) fn reply_queue(address: Option<ValueRef<'_>>) -> Option<Cow<'_, [u8]>> {
    let Some(ValueRef::Str(address)) = address else { return None };
    let queue: Cow<'_, [u8]> = match address.strip_prefix(QUEUES) {
        Some(quoted) => percent_decoded(quoted)?,
        None => address.as_bytes().into(),
    };
    (queue.len() <= amqp091::ShortString::LEN_MAX).then_some(queue)
}
