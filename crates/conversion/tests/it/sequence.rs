//! Messages one after the other in one buffer: each is converted as if it were alone.

use crate::{STREAM, delivered_after, published, short, stored};
use amqp10::{MapRef, Section, ValueRef};
use amqp091::Properties;
use conversion::{DecodeBuffer, DeliveryAttempt, Origin, take_amqp10, to_amqp10};
use message::MessageRef;
use proptest::collection::vec;
use proptest::prelude::*;

fn sections(sections: &[Section<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    sections.iter().for_each(|section| section.encode(&mut out));
    out
}

/// Messages of which some have the same sections in front of their bodies, and others only begin with them.
fn messages() -> Vec<Vec<u8>> {
    let with_id = |id| {
        let properties = Properties {
            message_id: Some(short(id)),
            app_id: Some(short("after the headers")),
            delivery_mode: Some(2),
            ..Properties::default()
        };
        properties.to_bytes()
    };
    let (one, two, none) = (with_id("1"), with_id("2"), Properties::default().to_bytes());
    let long = with_id("an id that makes the properties longer than those before");
    let large = vec![b'x'; 300];
    let mut all: Vec<Vec<u8>> = [&one, &two, &none, &long]
        .into_iter()
        .flat_map(|properties| {
            [&b""[..], b"body", b"another body", &large].map(|body| (properties, body))
        })
        .map(|(properties, body)| stored(&published(properties, body)))
        .collect();
    let elsewhere = MessageRef { exchange: b"", routing_key: b"queue", ..published(&one, b"body") };
    all.push(stored(&elsewhere));
    let data = Section::Data;
    let footer = Section::Footer(MapRef::EMPTY);
    all.extend([
        sections(&[data(b"alone")]),
        sections(&[data(b"alone, too")]),
        sections(&[data(b"in"), data(b" parts")]),
        sections(&[data(b"with a footer"), footer]),
        sections(&[Section::Value(ValueRef::Str("value"))]),
        sections(&[footer]),
        b"\x00\x53\x75\xa0\x07cut off".split_at(8).0.to_vec(),
        b"no message of AMQP 1.0".to_vec(),
        Vec::new(),
    ]);
    let with_more =
        |more: &[Section<'_>]| [stored(&published(&one, b"body")), sections(more)].concat();
    all.extend([with_more(&[footer]), with_more(&[data(b"more")]), with_more(&[]), b"\0".to_vec()]);
    all
}

/// The sections of a stored message as a client of AMQP 1.0 gets them.
fn taken_after(buffer: &mut DecodeBuffer, stored: &[u8], offset: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let message = take_amqp10(stored, Origin { stream: STREAM, offset }, buffer);
    to_amqp10(&message, DeliveryAttempt::FIRST, &mut out);
    out
}

/// A message's sections from its properties on, and its annotations.
fn behind_annotations(message: &[u8]) -> (Vec<(ValueRef<'_>, ValueRef<'_>)>, &[u8]) {
    let (mut left, mut annotations) = (amqp10::Sections::new(message), Vec::new());
    loop {
        let here = left.rest();
        match left.next().map(|section| section.expect("well formed sections")) {
            Some(Section::Header(_)) => {}
            Some(Section::MessageAnnotations(map)) => annotations = map.iter().collect(),
            _ => return (annotations, here),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_message_is_converted_as_if_it_were_alone(picks in vec((any::<prop::sample::Index>(), 1..4_u8), 1..40)) {
        let (messages, mut buffer, mut offset) = (messages(), DecodeBuffer::default(), 0);
        for (pick, n_times) in picks {
            let message = pick.get(&messages);
            for _ in 0..n_times {
                offset += 1;
                let alone = delivered_after(&mut DecodeBuffer::default(), message, offset);
                prop_assert_eq!(delivered_after(&mut buffer, message, offset), alone);
            }
        }
    }

    #[test]
    fn a_message_is_taken_as_if_it_were_alone(picks in vec((any::<prop::sample::Index>(), 1..4_u8), 1..40)) {
        let (messages, mut buffer, mut offset) = (messages(), DecodeBuffer::default(), 120);
        for (pick, n_times) in picks {
            let message = pick.get(&messages);
            for _ in 0..n_times {
                offset += 1;
                let alone = taken_after(&mut DecodeBuffer::default(), message, offset);
                prop_assert_eq!(taken_after(&mut buffer, message, offset), alone);
            }
        }
    }
}

/// Sections that take more memory than a consumer is to keep are converted each time.
#[test]
fn long_sections_are_converted_as_short_ones_are() {
    let long = short("x").repeat(255);
    let headers = (0..6).map(|n| {
        let name = amqp091::ShortString::truncated(&format!("name-{n}"));
        (name, amqp091::Value::LongString(long.clone()))
    });
    let properties = Properties { headers: Some(headers.collect()), ..Properties::default() };
    let message = stored(&published(&properties.to_bytes(), b"body"));
    let mut buffer = DecodeBuffer::default();
    let first = delivered_after(&mut buffer, &message, 1);
    assert_eq!(delivered_after(&mut buffer, &message, 1), first);
    assert_eq!(first.body, b"body");
}

/// Annotations of the broker stand beside those of the publisher; the bare message stays as it is stored.
#[test]
fn a_message_of_a_stream_goes_on_with_its_offset_and_its_own_bytes() {
    let mut buffer = DecodeBuffer::default();
    for (n, offset) in [(7, 5), (8, 300), (9, 1 << 40)] {
        for is_annotated in [false, true, true, false] {
            let mut bare = Vec::new();
            amqp10::put_application_properties(&mut bare, |items| {
                items.put(ValueRef::Str("n"));
                items.put(ValueRef::U8(n));
            });
            Section::Data(&[n; 400]).encode(&mut bare);
            Section::Footer(MapRef::EMPTY).encode(&mut bare);
            let mut message = Vec::new();
            amqp10::Header { durable: Some(true), ..amqp10::Header::default() }
                .encode(&mut message);
            amqp10::put_message_annotations(&mut message, |items| {
                items.put_symbol("x-exchange", ValueRef::Str("orders"));
                items.put_symbol("x-routing-key", ValueRef::Str("eu"));
                if is_annotated {
                    items.put_symbol("x-mine", ValueRef::U8(n));
                }
            });
            message.extend_from_slice(&bare);
            let taken = taken_after(&mut buffer, &message, offset);
            let (annotations, behind) = behind_annotations(&taken);
            let mut expected = vec![
                (ValueRef::Symbol("x-exchange"), ValueRef::Str("orders")),
                (ValueRef::Symbol("x-routing-key"), ValueRef::Str("eu")),
                (ValueRef::Symbol("x-stream-offset"), ValueRef::I64(offset.cast_signed())),
            ];
            if is_annotated {
                expected.push((ValueRef::Symbol("x-mine"), ValueRef::U8(n)));
            }
            assert_eq!(annotations, expected);
            assert_eq!(behind, bare);
        }
    }
}
