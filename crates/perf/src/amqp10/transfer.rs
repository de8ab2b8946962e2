//! Messages as transfers: one template for all that are alike, and the body of one that came.
//!
//! ```text
//! frame header  transfer {handle 0, delivery-id, delivery-tag}  header  application-properties  data
//!                                   '---- the number ----'                                      '-- body
//! frame header  transfer {handle 0}                             more of the body
//! ```

use amqp10::{
    DeliveryTag, FRAME_HEADER_BYTES, FrameType, Header, Section, SerialNumber, Transfer, ValueRef,
    head_bytes, put_application_properties, put_frame, sole_data,
};
use amqp091::{Properties, Value};

use crate::template::{Marking, Template};

/// The placeholder of a delivery's number, found by its bytes and written over.
const NUMBER_MARK: u32 = 0x5AA5_1E0E;

/// The placeholder of its tag: the same.
const TAG_MARK: [u8; 4] = NUMBER_MARK.to_be_bytes();

/// The only link of a session.
pub(crate) const HANDLE: u32 = 0;

/// A message with these properties, of which it has durability, priority and headers, in as many frames of
/// at most `frame_max` bytes as it needs.
pub(crate) fn template(
    frame_max: u32,
    is_settled: bool,
    properties: &Properties,
    body: &[u8],
    marking: Marking,
) -> Template {
    let sections = sections(properties, body);
    let room = usize::try_from(frame_max.saturating_sub(FRAME_HEADER_BYTES)).unwrap_or_default();
    let (mut bytes, mut pieces, mut number_at) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = body;
    loop {
        let is_first = pieces.is_empty();
        let sections = if is_first { sections.as_slice() } else { &[] };
        let mut transfer = Transfer { more: true, ..first(is_settled) };
        if !is_first {
            (transfer.delivery_id, transfer.delivery_tag) = (None, None);
            transfer.message_format = None;
        }
        let longest = head(transfer);
        let room = room - longest.len() - sections.len();
        let (piece, behind) = rest.split_at_checked(room).unwrap_or((rest, &[]));
        let head = head(Transfer { more: !behind.is_empty(), ..transfer });
        if is_first {
            let words = head.windows(4).enumerate();
            let marks = words.filter(|(_, word)| **word == TAG_MARK);
            let header = usize::try_from(FRAME_HEADER_BYTES).unwrap_or_default();
            number_at = marks.map(|(at, _)| header + at).collect();
        }
        put_frame(&mut bytes, FrameType::Amqp, 0, |out| {
            out.extend_from_slice(&head);
            out.extend_from_slice(sections);
            out.extend_from_slice(piece);
        });
        pieces.push(bytes.len() - piece.len()..bytes.len());
        rest = behind;
        if rest.is_empty() {
            return Template::of_parts(bytes, marking, pieces, number_at);
        }
    }
}

/// The first transfer of a message; those behind it do not name the delivery again.
const fn first(is_settled: bool) -> Transfer<'static> {
    Transfer {
        delivery_id: Some(SerialNumber::new(NUMBER_MARK)),
        delivery_tag: Some(DeliveryTag(&TAG_MARK)),
        message_format: Some(0),
        settled: if is_settled { Some(true) } else { None },
        ..Transfer::on(HANDLE)
    }
}

fn head(transfer: Transfer<'_>) -> Vec<u8> {
    let mut head = Vec::new();
    transfer.encode(&mut head);
    head
}

/// A message up to the first byte of its body.
fn sections(properties: &Properties, body: &[u8]) -> Vec<u8> {
    let is_durable = properties.delivery_mode == Some(amqp091::spec::DELIVERY_MODE_PERSISTENT);
    let (durable, priority) = (is_durable.then_some(true), properties.priority);
    let mut out = Vec::new();
    if durable.is_some() || priority.is_some() {
        Section::Header(Header { durable, priority, ..Header::default() }).encode(&mut out);
    }
    if let Some(headers) = &properties.headers {
        put_application_properties(&mut out, |items| {
            for (name, value) in headers.iter() {
                items.put(ValueRef::Str(&name.to_text()));
                items.put(value_ref(value));
            }
        });
    }
    Section::Data(body).encode(&mut out);
    out.truncate(out.len() - body.len());
    out
}

/// A value of the command line: a number, a truth value or a text.
pub(super) fn value_ref(value: &Value) -> ValueRef<'_> {
    match (value.as_i64(), value.as_bool()) {
        (Some(number), _) => ValueRef::I64(number),
        (None, Some(is_true)) => ValueRef::Bool(is_true),
        (None, None) => ValueRef::Str(value.as_str().unwrap_or_default()),
    }
}

/// The body of a message that came: the bytes of its data, or what else it has behind its head.
#[inline]
pub(super) fn body_of(message: &[u8]) -> &[u8] {
    let body = message.get(head_bytes(message)..).unwrap_or_default();
    sole_data(body).unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use amqp10::{MessageRef, Performative, decode_frame};
    use amqp091::{ShortString, Table};

    use super::*;
    use crate::template::{Mark, stamp_of, stamped_body, verified};

    #[test]
    fn messages_of_one_frame_and_of_many_are_read_as_they_were_written() {
        let mut headers = Table::new();
        headers.insert(ShortString::from_static("n"), 7_i64);
        headers.insert(ShortString::from_static("tier"), "gold");
        let properties =
            Properties { delivery_mode: Some(2), headers: Some(headers), ..Properties::default() };
        let mark = Mark { number: 0x1_0000_0102, stamp: 99, publisher: 5 };
        for (size, n_frames) in [(32, 1), (300, 1), (3_000, 7)] {
            let body = stamped_body(size, true);
            let template = template(512, false, &properties, &body, Marking::Verified);
            assert_eq!((template.n_frames(), template.body_len()), (n_frames, size));
            let mut bytes = template.bytes().to_vec();
            template.mark(&mut bytes, mark);
            let (mut rest, mut message, mut more) = (bytes.as_slice(), Vec::new(), true);
            while let Some((frame, used)) = decode_frame(rest, FrameType::Amqp, 512).unwrap() {
                let (Performative::Transfer(transfer), payload) =
                    Performative::decode(frame.body).unwrap()
                else {
                    panic!()
                };
                let first = message.is_empty();
                let id = first.then_some(SerialNumber::new(0x102));
                assert_eq!((transfer.delivery_id, transfer.settled), (id, None));
                assert_eq!(transfer.delivery_tag.is_some_and(|tag| tag.0 == [0, 0, 1, 2]), first);
                message.extend_from_slice(payload);
                rest = &rest[used..];
                more = transfer.more;
            }
            assert!(!more && rest.is_empty());
            assert_eq!(verified(body_of(&message)), Some(mark));
            assert_eq!(stamp_of(body_of(&message)), Some(99));
            let message = MessageRef::parse(&message).unwrap();
            assert_eq!(message.header.unwrap().durable, Some(true));
            let properties: Vec<_> = message.application_properties.iter().collect();
            assert_eq!(properties[0], (ValueRef::Str("n"), ValueRef::I64(7)));
            assert_eq!(properties[1], (ValueRef::Str("tier"), ValueRef::Str("gold")));
        }
    }
}
