//! Messages that were received in AMQP 1.0: their index, and how they go to clients of either protocol.

use crate::round_trip::{properties, text};
use crate::{DeliveryAttempt, delivered, published, short, stored, table};
use amqp10::{DecodeError, Group, Header, Section, ValueRef};
use amqp091::{Properties, PropertiesRef, ShortString, Value};
use conversion::{ReceiveError, ReceivedBody, receive, to_amqp10, to_amqp091};
use message::{Annotations, Body, BodyForm, MessageRef};
use proptest::collection::vec;
use proptest::prelude::*;

/// A message as the broker keeps it.
struct Kept {
    index: Vec<u8>,
    sections: Vec<u8>,
    persistent: bool,
}

impl Kept {
    fn of(sections: &[u8]) -> Self {
        let mut index = b"before".to_vec();
        let received = receive(sections, &mut index).expect("well formed sections");
        let sections = match received.body {
            ReceivedBody::From(at) => sections.split_at(at).1.to_vec(),
            ReceivedBody::Rewritten(sections) => sections,
        };
        Self { index: index.split_off(6), sections, persistent: received.persistent }
    }

    fn message(&self) -> MessageRef<'_> {
        MessageRef {
            exchange: b"orders",
            routing_key: b"eu.de",
            properties: &self.index,
            body: Body::Borrowed(&self.sections),
            persistent: self.persistent,
            annotations: Annotations::NONE,
            form: BodyForm::Amqp10,
        }
    }

    fn index(&self) -> Properties {
        owned(&self.index)
    }
}

/// Properties and body over AMQP 0-9-1.
fn converted(message: &MessageRef<'_>) -> (Properties, Vec<u8>) {
    let mut out = b"of the last one".to_vec();
    let message = to_amqp091(message, &mut out);
    assert!(message.form.is_plain());
    (owned(message.properties), message.body.bytes().to_vec())
}

fn owned(properties: &[u8]) -> Properties {
    let properties = PropertiesRef::parse(properties).expect("well formed properties");
    properties.to_owned().expect("well formed headers")
}

fn sent(message: &MessageRef<'_>, attempt: DeliveryAttempt) -> Vec<u8> {
    let mut out = Vec::new();
    to_amqp10(message, attempt, &mut out);
    out
}

/// The sections behind the annotations.
fn bare() -> Vec<u8> {
    let mut out = Vec::new();
    let properties = amqp10::Properties {
        message_id: Some(ValueRef::Uuid([7; 16])),
        user_id: Some(b"guest"),
        reply_to: Some(ValueRef::Str("/queues/q%20q")),
        content_type: Some("text/plain"),
        creation_time_ms: Some(5_000),
        group: Group { id: Some("app"), ..Group::default() },
        ..amqp10::Properties::default()
    };
    Section::Properties(properties).encode(&mut out);
    amqp10::put_application_properties(&mut out, |items| {
        items.put(ValueRef::Str("color"));
        items.put(ValueRef::Str("red"));
    });
    Section::Data(b"one").encode(&mut out);
    Section::Data(b"two").encode(&mut out);
    Section::Footer(amqp10::MapRef::EMPTY).encode(&mut out);
    out
}

fn put_annotated(out: &mut Vec<u8>) {
    amqp10::put_message_annotations(out, |items| {
        items.put_symbol("x-mine", ValueRef::U8(7));
        items.put(ValueRef::Symbol("x-cc"));
        items.put_list(|list| list.put(ValueRef::Str("copy")));
        items.put_symbol("x-delay", ValueRef::U32(90));
    });
}

fn header() -> Header {
    Header { durable: Some(true), priority: Some(5), ttl_ms: Some(60), ..Header::default() }
}

fn whole() -> Vec<u8> {
    let mut out = Vec::new();
    Section::Header(header()).encode(&mut out);
    Section::DeliveryAnnotations(amqp10::MapRef::EMPTY).encode(&mut out);
    put_annotated(&mut out);
    out.extend_from_slice(&bare());
    out
}

fn copies() -> Value {
    Value::Array(vec![Value::from("copy")])
}

#[test]
fn a_message_is_kept_as_it_came_with_an_index_of_what_the_broker_must_know() {
    let (sections, mut expected) = (whole(), Vec::new());
    put_annotated(&mut expected);
    expected.extend_from_slice(&bare());
    let mut index = Vec::new();
    let received = receive(&sections, &mut index).unwrap();
    assert_eq!(received.body, ReceivedBody::From(sections.len() - expected.len()));
    assert!(received.inspect && received.persistent && received.to.is_none());
    let kept = Kept::of(&sections);
    assert_eq!(kept.sections, expected);
    let headers = table([("CC", copies()), ("x-delay", Value::U32(90))]);
    assert_eq!(
        kept.index(),
        Properties {
            headers: Some(headers),
            delivery_mode: Some(2),
            priority: Some(5),
            expiration: Some(short("60")),
            timestamp: Some(5),
            user_id: Some(short("guest")),
            ..Properties::default()
        }
    );
}

#[test]
fn a_body_alone_has_an_empty_index() {
    let mut index = Vec::new();
    let received = receive(b"\x00\x53\x75\xa0\x05hello", &mut index).unwrap();
    assert_eq!((received.body, received.persistent), (ReceivedBody::From(0), false));
    assert_eq!((received.inspect, &index[..]), (false, &[0, 0][..]));
    let cut = receive(b"\x00\x53\x75\xa0\x05hell", &mut index).unwrap_err();
    assert_eq!(cut, ReceiveError::Malformed(DecodeError::Truncated));
}

#[test]
fn messages_that_are_none_are_refused() {
    let annotated = |put: fn(&mut amqp10::Items<'_>)| {
        let mut out = Vec::new();
        amqp10::put_message_annotations(&mut out, put);
        Section::Data(b"body").encode(&mut out);
        out
    };
    let (mut bodiless, mut disordered) = (Vec::new(), Vec::new());
    put_annotated(&mut bodiless);
    disordered.extend_from_slice(&bare());
    Section::Header(header()).encode(&mut disordered);
    let reserved = annotated(|items| items.put_symbol("y-mine", ValueRef::U8(7)));
    let numbered = annotated(|items| [1, 2].iter().for_each(|n| items.put(ValueRef::U64(*n))));
    let one_key = annotated(|items| items.put_symbol("x-cc", ValueRef::Str("copy")));
    let no_keys = annotated(|items| {
        items.put(ValueRef::Symbol("x-cc"));
        items.put_list(|list| list.put(ValueRef::U8(7)));
    });
    for (sections, error) in [
        (vec![], ReceiveError::NoBody),
        (bodiless, ReceiveError::NoBody),
        (disordered, ReceiveError::Malformed(DecodeError::Section)),
        (reserved, ReceiveError::ReservedAnnotation),
        (numbered, ReceiveError::ReservedAnnotation),
        (one_key, ReceiveError::Copies),
        (no_keys, ReceiveError::Copies),
    ] {
        assert_eq!(receive(&sections, &mut Vec::new()).unwrap_err(), error);
    }
    // Annotations of the hop may have any names.
    let mut hop = b"\x00\x53\x71\xc1\x05\x02\xa3\x01y\x41".to_vec();
    Section::Data(b"").encode(&mut hop);
    assert!(receive(&hop, &mut Vec::new()).is_ok());
}

#[test]
fn a_message_of_jms_needs_no_body() {
    let mut sections = Vec::new();
    amqp10::put_message_annotations(&mut sections, |items| {
        items.put_symbol("x-opt-jms-msg-type", ValueRef::I8(0));
    });
    amqp10::put_application_properties(&mut sections, |items| {
        items.put(ValueRef::Str("n"));
        items.put(ValueRef::U32(5));
    });
    let kept = Kept::of(&sections);
    let mut converted = Vec::new();
    let plain = to_amqp091(&kept.message(), &mut converted);
    assert_eq!(plain.body.bytes(), b"");
    assert!(plain.index().headers().is_some_and(|headers| headers.get(b"n").is_some()));
    let attempt = DeliveryAttempt { first_acquirer: true, delivery_count: 0 };
    let out = sent(&kept.message(), attempt);
    assert!(out.ends_with(b"\xa1\x01n\x52\x05"), "nothing comes behind its properties");
}

#[test]
fn amqp_1_0_clients_get_what_came_behind_the_brokers_annotations() {
    let kept = Kept::of(&whole());
    let attempt = DeliveryAttempt { first_acquirer: false, delivery_count: 3 };
    let out = sent(&kept.message(), attempt);
    assert!(out.ends_with(&bare()));
    let parsed = amqp10::MessageRef::parse(&out).unwrap();
    let expected = Header { first_acquirer: false, delivery_count: 3, ..header() };
    assert_eq!(parsed.header, Some(expected));
    let names: Vec<_> = parsed.message_annotations.iter().map(|(name, _)| name).collect();
    let all = ["x-exchange", "x-routing-key", "x-mine", "x-cc", "x-delay"].map(ValueRef::Symbol);
    assert_eq!(names, all);
    assert_eq!(parsed.message_annotations.get("x-routing-key"), Some(ValueRef::Str("eu.de")));
    assert_eq!(parsed.message_annotations.get("x-mine"), Some(ValueRef::U8(7)));
}

#[test]
fn amqp_0_9_1_clients_get_it_by_rabbitmqs_tables() {
    let (properties, body) = converted(&Kept::of(&whole()).message());
    assert_eq!(body, b"onetwo");
    let headers = [
        ("color", Value::from("red")),
        ("x-mine", Value::U8(7)),
        ("CC", copies()),
        ("x-delay", Value::U32(90)),
    ];
    assert_eq!(
        properties,
        Properties {
            content_type: Some(short("text/plain")),
            headers: Some(table(headers)),
            delivery_mode: Some(2),
            priority: Some(5),
            reply_to: Some(short("q q")),
            expiration: Some(short("60")),
            message_id: Some(short("urn:uuid:07070707-0707-0707-0707-070707070707")),
            timestamp: Some(5),
            user_id: Some(short("guest")),
            app_id: Some(short("app")),
            ..Properties::default()
        }
    );
}

#[test]
fn bodies_that_are_not_opaque_go_as_sections() {
    let mut value = Vec::new();
    Section::Value(ValueRef::Str("text")).encode(&mut value);
    let (properties, body) = converted(&Kept::of(&value).message());
    assert_eq!((properties.kind, body), (Some(short("amqp-1.0")), value));
    assert_eq!(properties.headers, None);
}

/// Of annotations for properties of AMQP 0-9-1 the type alone is a publisher's to give.
#[test]
fn annotations_are_no_other_properties_than_the_type() {
    let mut sections = Vec::new();
    amqp10::put_message_annotations(&mut sections, |items| {
        items.put_symbol("x-basic-type", ValueRef::Str("order"));
        items.put_symbol("x-basic-delivery-mode", ValueRef::U8(2));
        items.put_symbol("x-basic-priority", ValueRef::U8(9));
        items.put_symbol("x-basic-expiration", ValueRef::Str("1"));
    });
    Section::Data(b"m").encode(&mut sections);
    let kind = Some(short("order"));
    let (properties, _) = converted(&Kept::of(&sections).message());
    assert_eq!(properties, Properties { kind: kind.clone(), ..Properties::default() });
    let of_stream = delivered(&sections).properties;
    assert_eq!((of_stream.kind, of_stream.delivery_mode, of_stream.priority), (kind, None, None));
}

#[test]
fn annotations_that_the_broker_writes_are_not_kept() {
    let mut sections = Vec::new();
    amqp10::put_message_annotations(&mut sections, |items| {
        items.put_symbol("x-exchange", ValueRef::Str("forged"));
        items.put_symbol("x-mine", ValueRef::U8(7));
    });
    sections.extend_from_slice(&bare());
    let out = sent(&Kept::of(&sections).message(), DeliveryAttempt::FIRST);
    assert!(out.ends_with(&bare()));
    let parsed = amqp10::MessageRef::parse(&out).unwrap();
    assert_eq!(parsed.message_annotations.len(), 3);
    assert_eq!(parsed.message_annotations.get("x-exchange"), Some(ValueRef::Str("orders")));
}

#[test]
fn what_the_broker_adds_to_the_index_comes_first_and_replaces_what_came() {
    let mut kept = Kept::of(&whole());
    let mut index = kept.index();
    let mut headers = index.headers.take().unwrap();
    headers.remove(b"CC");
    let death = table([("queue", Value::from("q")), ("count", Value::I64(2))]);
    headers.push(short("x-death"), Value::Array(vec![Value::Table(death)]));
    headers.push(short("x-mine"), Value::I64(8));
    headers.push(short("timestamp_in_ms"), Value::I64(9_000));
    index.headers = Some(headers.clone());
    kept.index = index.to_bytes();
    let annotations = Annotations { dead_lettered: true, ..Annotations::NONE };
    let message = MessageRef { annotations, ..kept.message() };
    let out = sent(&message, DeliveryAttempt::FIRST);
    let annotations = amqp10::MessageRef::parse(&out).unwrap().message_annotations;
    assert!(matches!(annotations.get("x-opt-deaths"), Some(ValueRef::Array(_))));
    assert_eq!(annotations.get("x-mine"), Some(ValueRef::I64(8)));
    let received = annotations.get("x-opt-rabbitmq-received-time");
    assert_eq!(received, Some(ValueRef::Timestamp(9_000)));
    assert_eq!(annotations.len(), 2 + 3 + 2);
    let (properties, _) = converted(&message);
    let mut expected = table([("color", Value::from("red"))]);
    headers.into_iter().for_each(|(name, value)| expected.push(name, value));
    assert_eq!(properties.headers, Some(expected), "CC went with the index");
}

#[test]
fn streams_keep_it_and_deliver_it_as_queues_do() {
    let kept = Kept::of(&whole());
    let back = delivered(&stored(&kept.message()));
    let (properties, body) = converted(&kept.message());
    assert_eq!(
        (back.body, &back.exchange[..], &back.routing_key[..]),
        (body, &b"orders"[..], &b"eu.de"[..])
    );
    let expected = Properties { headers: None, ..properties };
    assert_eq!(Properties { headers: None, ..back.properties }, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever was published over AMQP 0-9-1, sent on as AMQP 1.0 and received, is what it was.
    #[test]
    fn a_message_that_went_through_amqp_1_0_comes_back(
        properties in properties(),
        body in vec(any::<u8>(), 0..600),
        exchange in text(),
        key in text(),
    ) {
        let wire = properties.to_bytes();
        let (exchange, routing_key) = (&exchange[..], &key[..]);
        let sections = stored(&MessageRef { exchange, routing_key, ..published(&wire, &body) });
        let kept = Kept::of(&sections);
        let message = MessageRef { exchange, routing_key, ..kept.message() };
        prop_assert_eq!(sent(&message, DeliveryAttempt::FIRST), sections);
        let (back, back_body) = converted(&message);
        prop_assert_eq!(back_body, body);
        let expiration: Option<ShortString> = properties.expiration.clone();
        let is_ttl = |text: &ShortString| str::from_utf8(text).unwrap().parse::<u32>().is_ok();
        let expected = Properties {
            headers: properties.headers.clone().filter(|headers| !headers.is_empty()),
            expiration: expiration.filter(is_ttl),
            ..properties
        };
        prop_assert_eq!(back.to_bytes(), expected.to_bytes());
    }
}
