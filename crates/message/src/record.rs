//! The stored record of a message, the same in memory pages and in the log.
//!
//! ```text
//! 0        1            2       3       4              8             12
//! +--------+------------+-------+-------+--------------+-------------+----------+-----+-------+------+
//! | version| exchange n | key n | flags | properties n | body n      | exchange | key | props | body |
//! +--------+------------+-------+-------+--------------+-------------+----------+-----+-------+------+
//!   u8       u8           u8      u8      u32 LE         u32 LE
//! ```
//!
//! `flags` bit 0: persistent; bit 1: the properties are kept apart, in front of the body, and a
//! [`StandIn`] stands where they would (only in heads). Version 1 is a plain body without annotations; in
//! version 2 [`StoredAnnotations`] stand between properties and body. The *head* is everything before the
//! body; a body kept in shared memory is stored beside its head instead of behind it.

use crate::{ANNOTATIONS_BYTES, AnnotationsPart, Body, MessageRef, StandIn, StoredAnnotations};
use bytes::Bytes;

/// Bytes of a record before its first variable field.
pub const RECORD_FIXED_BYTES: usize = 12;
const VERSION: u8 = 1;
const VERSION_ANNOTATED: u8 = 2;
const FLAG_PERSISTENT: u8 = 1;
const FLAG_PROPERTIES_APART: u8 = 2;

/// A stored record that cannot be read: truncated, or of an unknown version or form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordError;

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a stored message record is truncated or of an unknown version")
    }
}

impl std::error::Error for RecordError {}

/// Bytes of the record's head: everything but the body.
#[must_use]
pub fn head_len(message: &MessageRef<'_>) -> usize {
    RECORD_FIXED_BYTES
        + message.exchange.len()
        + message.routing_key.len()
        + message.properties.len()
        + if message.stored_annotations().is_none() { 0 } else { ANNOTATIONS_BYTES }
}

/// The bytes between the properties and the body.
#[must_use]
pub fn annotations_part(message: &MessageRef<'_>) -> AnnotationsPart {
    message.stored_annotations().part()
}

/// The fixed part of a record: what stands before the exchange name. Panics when a name is over
/// 255 bytes or a part over 4 GiB: fronts enforce far lower limits.
#[must_use]
pub fn fixed_part(message: &MessageRef<'_>) -> [u8; RECORD_FIXED_BYTES] {
    let body_bytes = u32::try_from(message.body.len()).expect("bodies are < 4 GiB");
    fixed_part_without_body(message, body_bytes)
}

/// The fixed part for a message whose body of `body_bytes` is not at hand. Panics as [`fixed_part`] does.
#[must_use]
pub fn fixed_part_without_body(
    message: &MessageRef<'_>,
    body_bytes: u32,
) -> [u8; RECORD_FIXED_BYTES] {
    let exchange_len = u8::try_from(message.exchange.len()).expect("exchange names are <= 255 B");
    let key_len = u8::try_from(message.routing_key.len()).expect("routing keys are <= 255 B");
    let properties_len = u32::try_from(message.properties.len()).expect("properties are < 4 GiB");
    let mut fixed = [0_u8; RECORD_FIXED_BYTES];
    fixed[0] = if message.stored_annotations().is_none() { VERSION } else { VERSION_ANNOTATED };
    fixed[1] = exchange_len;
    fixed[2] = key_len;
    fixed[3] = if message.persistent { FLAG_PERSISTENT } else { 0 };
    fixed[4..8].copy_from_slice(&properties_len.to_le_bytes());
    fixed[8..12].copy_from_slice(&body_bytes.to_le_bytes());
    fixed
}

/// The fixed part for a message whose properties are kept apart too: `message` shows the encoded stand-in.
/// Panics as [`fixed_part`] does.
#[must_use]
pub fn fixed_part_without_content(
    message: &MessageRef<'_>,
    body_bytes: u32,
) -> [u8; RECORD_FIXED_BYTES] {
    let mut fixed = fixed_part_without_body(message, body_bytes);
    fixed[3] |= FLAG_PROPERTIES_APART;
    fixed
}

/// Appends the record's head. Panics as [`fixed_part`] does.
pub fn put_head(out: &mut Vec<u8>, message: &MessageRef<'_>) {
    put_parts(out, message, &fixed_part(message));
}

/// Appends the head of a message whose body is kept elsewhere and has `body_bytes`, whatever body `message`
/// shows. Panics as [`fixed_part`] does.
pub fn put_head_without_body(out: &mut Vec<u8>, message: &MessageRef<'_>, body_bytes: u32) {
    put_parts(out, message, &fixed_part_without_body(message, body_bytes));
}

/// Appends the head of a message whose body and properties are kept elsewhere: `message` shows the encoded
/// stand-in. Panics as [`fixed_part`] does.
pub fn put_head_without_content(out: &mut Vec<u8>, message: &MessageRef<'_>, body_bytes: u32) {
    put_parts(out, message, &fixed_part_without_content(message, body_bytes));
}

fn put_parts(out: &mut Vec<u8>, message: &MessageRef<'_>, fixed: &[u8]) {
    out.reserve(head_len(message));
    out.extend_from_slice(fixed);
    out.extend_from_slice(message.exchange);
    out.extend_from_slice(message.routing_key);
    out.extend_from_slice(message.properties);
    if !message.stored_annotations().is_none() {
        out.extend_from_slice(message.stored_annotations().part().as_bytes());
    }
}

/// Reads a record. `shared` is the body when it is kept apart; otherwise the body follows the head.
pub fn parse_record<'a>(
    record: &'a [u8],
    shared: Option<&'a Bytes>,
) -> Result<MessageRef<'a>, RecordError> {
    let (Head { message: head, body_bytes, properties_bytes }, rest) = split_head(record)?;
    if properties_bytes > 0 {
        return Err(RecordError);
    }
    let body_bytes = body_bytes as usize;
    let body = match shared {
        Some(bytes) if bytes.len() == body_bytes => Body::Shared(bytes),
        Some(_) => return Err(RecordError),
        None => Body::Borrowed(rest.get(..body_bytes).ok_or(RecordError)?),
    };
    Ok(MessageRef { body, ..head })
}

/// A record's head as it is read.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The message with an empty body; where its properties are kept apart, with brief ones.
    pub message: MessageRef<'a>,
    /// Length of the body it has.
    pub body_bytes: u32,
    /// Length of its properties, if they are kept apart in front of the body; else 0.
    pub properties_bytes: u32,
}

/// Reads a record's head.
pub fn parse_head(record: &[u8]) -> Result<Head<'_>, RecordError> {
    split_head(record).map(|(head, _)| head)
}

/// The head, and what follows it.
fn split_head(record: &[u8]) -> Result<(Head<'_>, &[u8]), RecordError> {
    let (fixed, rest) = record.split_first_chunk::<RECORD_FIXED_BYTES>().ok_or(RecordError)?;
    let [version, exchange_len, key_len, flags, p0, p1, p2, p3, b0, b1, b2, b3] = *fixed;
    if version != VERSION && version != VERSION_ANNOTATED {
        return Err(RecordError);
    }
    let properties_len = u32::from_le_bytes([p0, p1, p2, p3]) as usize;
    let body_bytes = u32::from_le_bytes([b0, b1, b2, b3]);
    let (exchange, rest) = rest.split_at_checked(usize::from(exchange_len)).ok_or(RecordError)?;
    let (routing_key, rest) = rest.split_at_checked(usize::from(key_len)).ok_or(RecordError)?;
    let (properties, rest) = rest.split_at_checked(properties_len).ok_or(RecordError)?;
    let (StoredAnnotations { annotations, form }, rest) = if version == VERSION_ANNOTATED {
        let (annotations, rest) = rest.split_first_chunk().ok_or(RecordError)?;
        (StoredAnnotations::parse(annotations).ok_or(RecordError)?, rest)
    } else {
        (StoredAnnotations::NONE, rest)
    };
    let (properties, properties_bytes) = match flags & !FLAG_PERSISTENT {
        0 => (properties, 0),
        FLAG_PROPERTIES_APART => {
            let stand_in = StandIn::parse(properties).ok_or(RecordError)?;
            (stand_in.brief, stand_in.properties_bytes)
        }
        // Flags of a later version.
        _ => return Err(RecordError),
    };
    let persistent = flags & FLAG_PERSISTENT != 0;
    let body = Body::Borrowed(&[]);
    let message =
        MessageRef { exchange, routing_key, properties, body, persistent, annotations, form };
    Ok((Head { message, body_bytes, properties_bytes }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Annotations, BodyForm};
    use std::num::NonZeroU64;

    fn sample(body: Body<'_>) -> MessageRef<'_> {
        MessageRef {
            exchange: b"orders",
            routing_key: b"eu.de",
            properties: &[0x10, 0, 2],
            body,
            persistent: true,
            annotations: Annotations::default(),
            form: BodyForm::Plain,
        }
    }

    fn annotated(body: Body<'_>) -> MessageRef<'_> {
        let annotations =
            Annotations { deadline_ms: NonZeroU64::new(1 << 40), dead_lettered: true };
        MessageRef { annotations, form: BodyForm::Amqp10, ..sample(body) }
    }

    fn record_of(message: &MessageRef<'_>) -> Vec<u8> {
        let mut record = Vec::new();
        put_head(&mut record, message);
        assert_eq!(record.len(), head_len(message));
        record.extend_from_slice(message.body.bytes());
        record
    }

    #[test]
    fn a_record_reads_back_as_it_was_put() {
        let record = record_of(&sample(Body::Borrowed(b"hello")));
        let read = parse_record(&record, None).unwrap();
        assert_eq!(read.exchange, b"orders");
        assert_eq!(read.routing_key, b"eu.de");
        assert_eq!(read.properties, &[0x10, 0, 2]);
        assert_eq!(read.body.bytes(), b"hello");
        assert!(read.persistent);
    }

    #[test]
    fn bodies_of_an_unknown_form_are_not_read() {
        let message = MessageRef { form: BodyForm::Amqp10, ..sample(Body::Borrowed(b"hello")) };
        let mut record = record_of(&message);
        let read = parse_record(&record, None).unwrap();
        assert_eq!(read.stored_annotations(), message.stored_annotations());
        let flags = record.len() - b"hello".len() - ANNOTATIONS_BYTES;
        for form in 2..16 {
            record[flags] = form << 4;
            assert_eq!(parse_record(&record, None).unwrap_err(), RecordError);
        }
    }

    #[test]
    fn unknown_flags_are_not_read() {
        let mut record = record_of(&sample(Body::Borrowed(b"hello")));
        for flags in [4, 8, 16, 128] {
            record[3] = flags | FLAG_PERSISTENT;
            assert_eq!(parse_record(&record, None).unwrap_err(), RecordError);
        }
    }

    #[test]
    fn a_shared_body_is_found_beside_its_head() {
        let body = Bytes::from_static(b"large");
        let mut head = Vec::new();
        put_head(&mut head, &sample(Body::Shared(&body)));
        let read = parse_record(&head, Some(&body)).unwrap();
        assert!(matches!(read.body, Body::Shared(shared) if shared == &body));
        let other = Bytes::from_static(b"of another length");
        assert_eq!(parse_record(&head, Some(&other)).unwrap_err(), RecordError);
    }

    #[test]
    fn every_cut_of_a_record_is_an_error() {
        for message in [sample(Body::Borrowed(b"hello")), annotated(Body::Borrowed(b"hello"))] {
            let record = record_of(&message);
            for cut in 0..record.len() {
                assert!(parse_record(&record[..cut], None).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn annotations_read_back_and_cost_nothing_where_there_are_none() {
        let message = annotated(Body::Borrowed(b"hello"));
        let record = record_of(&message);
        let read = parse_record(&record, None).unwrap();
        assert_eq!((read.annotations, read.body.bytes()), (message.annotations, &b"hello"[..]));
        let plain = record_of(&sample(Body::Borrowed(b"hello")));
        assert_eq!(record.len() - plain.len(), annotations_part(&message).as_bytes().len());
        assert!(parse_record(&plain, None).unwrap().annotations.is_none());
    }

    #[test]
    fn a_head_is_written_and_read_without_the_body() {
        let mut head = Vec::new();
        put_head_without_body(&mut head, &sample(Body::Borrowed(&[])), 7);
        let Head { message: read, body_bytes, properties_bytes } = parse_head(&head).unwrap();
        assert_eq!((read.routing_key, read.body.len()), (&b"eu.de"[..], 0));
        assert_eq!((body_bytes, properties_bytes), (7, 0));
        let body = Bytes::from_static(b"7 bytes");
        assert_eq!(parse_record(&head, Some(&body)).unwrap().body.bytes(), b"7 bytes");
        assert!(parse_record(&head, None).is_err());
    }

    #[test]
    fn a_head_is_read_whose_properties_are_kept_apart() {
        for message in [sample(Body::Borrowed(&[])), annotated(Body::Borrowed(&[]))] {
            let stand_in =
                StandIn { properties_bytes: 70_000, brief: message.properties }.to_bytes();
            let shown = MessageRef { properties: &stand_in, ..message };
            let mut head = Vec::new();
            put_parts(&mut head, &shown, &fixed_part_without_content(&shown, 7));
            let read = parse_head(&head).unwrap();
            assert_eq!((read.body_bytes, read.properties_bytes), (7, 70_000));
            assert_eq!(read.message.properties, message.properties);
            assert_eq!(read.message.annotations, message.annotations);
            assert!(read.message.persistent);
            assert!(parse_record(&head, Some(&Bytes::from_static(b"7 bytes"))).is_err());
            assert!((0..head.len()).all(|cut| parse_head(&head[..cut]).is_err()));
            if message.stored_annotations().is_none() {
                let fixed = [1, 6, 5, 3, 7, 0, 0, 0, 7, 0, 0, 0];
                let stand_in = [0x70, 0x11, 1, 0, 0x10, 0, 2];
                assert_eq!(head, [&fixed[..], b"orderseu.de", &stand_in].concat());
            }
        }
    }
}
