//! Round trips: a frame that is decoded and encoded again is the same, and one that is cut short is
//! noticed.

use amqp091::content::{ContentHeader, encode_content};
use amqp091::{FrameKind, Method, MethodId, PropertiesRef, TableRef, decode_frame};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::strategy::{frame_of, method_payload, properties, table};

const FRAME_MAX: u32 = 131_072;

/// Runs `check` on random payloads of every method.
fn for_every_method(check: impl Fn(MethodId, &[u8]) -> Result<(), TestCaseError>) {
    for &id in MethodId::ALL {
        let mut runner =
            TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&method_payload(id, |_| false), |payload| check(id, &payload));
        assert_eq!(outcome, Ok(()), "{id}");
    }
}

#[test]
fn every_method_survives_decoding_and_encoding() {
    for_every_method(|id, payload| {
        let method =
            Method::decode(payload).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(method.id(), id);
        let mut out = b"before".to_vec();
        method.encode_frame(258, &mut out);
        prop_assert_eq!(out.strip_prefix(b"before"), Some(&frame_of(1, 258, payload)[..]));
        Ok(())
    });
}

#[test]
fn every_method_cut_short_or_prolonged_is_an_error() {
    for_every_method(|_, payload| {
        for cut in 0..payload.len() {
            prop_assert!(Method::decode(payload.get(..cut).unwrap_or_default()).is_err());
        }
        prop_assert!(Method::decode(&[payload, &[0]].concat()).is_err());
        Ok(())
    });
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn tables_survive(table in table()) {
        let bytes = table.to_bytes();
        let view = TableRef::parse(&bytes)?;
        prop_assert_eq!(view.iter().count(), table.len());
        for (name, value) in &table {
            let found = view.get(name).map(|value| value.to_owned());
            prop_assert_eq!(found, Some(Ok(value.clone())));
        }
        prop_assert_eq!(view.to_owned()?, table);
    }

    #[test]
    fn a_table_cut_anywhere_never_panics(table in table()) {
        let bytes = table.to_bytes();
        for cut in 0..bytes.len() {
            let cut = bytes.get(..cut).unwrap_or_default();
            let n_seen = TableRef::trusted(cut).iter().count();
            prop_assert!(n_seen <= table.len());
            if TableRef::parse(cut).is_ok() {
                prop_assert!(n_seen < table.len());
            }
        }
    }

    #[test]
    fn properties_survive(properties in properties()) {
        let raw = properties.to_bytes();
        let view = PropertiesRef::parse(&raw)?;
        prop_assert_eq!(view.as_bytes(), &raw[..]);
        prop_assert_eq!(view.delivery_mode(), properties.delivery_mode);
        prop_assert_eq!(view.priority(), properties.priority);
        prop_assert_eq!(view.to_owned()?, properties);
        for cut in 0..raw.len() {
            prop_assert!(PropertiesRef::parse(raw.get(..cut).unwrap_or_default()).is_err());
        }
    }

    #[test]
    fn headers_are_exchanged_without_touching_other_values(
        properties in properties(), headers in table(),
    ) {
        let raw = properties.to_bytes();
        let wire = headers.to_bytes();
        let mut out = Vec::new();
        PropertiesRef::parse(&raw)?.encode_with_headers(Some(TableRef::parse(&wire)?), &mut out);
        let mut expected = properties;
        expected.headers = Some(headers);
        prop_assert_eq!(out, expected.to_bytes());
    }

    #[test]
    fn content_survives_any_frame_max(
        properties in properties(), body in proptest::collection::vec(any::<u8>(), 0..5000),
        body_frame_max in 9_u32..6000,
    ) {
        let raw = properties.to_bytes();
        let mut out = Vec::new();
        encode_content(9, PropertiesRef::parse(&raw)?, &body, body_frame_max, &mut out);
        let mut rest = &out[..];
        let mut received = Vec::new();
        let mut n_frames = 0;
        while let Some((frame, used)) = decode_frame(rest, FRAME_MAX)? {
            prop_assert_eq!(frame.channel, 9);
            if n_frames == 0 {
                let header = ContentHeader::decode(frame.payload)?;
                prop_assert_eq!(usize::try_from(header.body_size), Ok(body.len()));
                prop_assert_eq!(header.properties.as_bytes(), &raw[..]);
            } else {
                prop_assert_eq!(frame.kind, FrameKind::Body);
                prop_assert!(u32::try_from(used).is_ok_and(|used| used <= body_frame_max));
                received.extend_from_slice(frame.payload);
            }
            n_frames += 1;
            rest = rest.get(used..).unwrap_or_default();
        }
        prop_assert!(rest.is_empty());
        prop_assert_eq!(received, body);
    }

    #[test]
    fn a_frame_cut_anywhere_is_not_complete(
        kind in 1_u8..=3, channel: u16, payload in proptest::collection::vec(any::<u8>(), 0..300),
        behind in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let whole = frame_of(kind, channel, &payload);
        for cut in 0..whole.len() {
            prop_assert_eq!(decode_frame(whole.get(..cut).unwrap_or_default(), FRAME_MAX), Ok(None));
        }
        let input = [&whole[..], &behind].concat();
        let (frame, used) = decode_frame(&input, FRAME_MAX)?.expect("the frame is complete");
        prop_assert_eq!((frame.kind.octet(), frame.channel, used), (kind, channel, whole.len()));
        prop_assert_eq!(frame.payload, &payload[..]);
    }
}
