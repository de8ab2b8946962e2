//! Bytes that no client should send.

use crate::harness::{PORT, START, Talk};
use front_stream::{Connection, Settings};
use proptest::prelude::*;
use std::sync::Arc;
use streamproto::command::{Create, DeclarePublisher, Open, PeerProperties, Property, Subscribe};
use streamproto::list::Trailing;
use streamproto::{Command as _, List, OffsetSpec, ResponseCode};

/// The close that the broker is asked for, as it says it to the client.
fn closed_with(talk: &mut Talk) -> String {
    let asked = talk.asked.pop().unwrap_or_default();
    assert!(asked.contains("FailConnection"), "{asked}");
    let kind = match asked.contains("FrameError") {
        true => session::ErrorKind::FrameError,
        false => session::ErrorKind::CommandInvalid,
    };
    let error = session::Error::new(kind, "why");
    talk.event(session::Event::ConnectionFailed { channel: None, error, origin: None });
    talk.hears().concat()
}

#[test]
fn unknown_commands_versions_and_directions_are_answered_by_a_close() {
    let response = |key: u16| key | 0x8000;
    for (key, version) in [(99, 1), (1, 2), (8, 1), (response(1), 1), (17, 1), (20, 1), (21, 9)] {
        let mut talk = Talk::open(Settings::default());
        let mut bytes = 8_u32.to_be_bytes().to_vec();
        bytes.extend(u16::to_be_bytes(key));
        bytes.extend(u16::to_be_bytes(version));
        bytes.extend([0; 4]);
        talk.sends(&bytes);
        let close = closed_with(&mut talk);
        assert!(close.contains("code: ResponseCode(13)"), "{key} {version}: {close}");
    }
}

#[test]
fn what_may_come_before_a_virtual_host_is_open_may_not_come_behind_it() {
    let mut talk = Talk::open(Settings::default());
    talk.says(&Open { correlation_id: 4, virtual_host: "/" });
    assert!(closed_with(&mut talk).contains("code: ResponseCode(13)"));
    let mut talk = Talk::open(Settings::default());
    talk.says(&PeerProperties::default());
    assert!(closed_with(&mut talk).contains("code: ResponseCode(13)"));
}

#[test]
fn a_frame_that_is_too_large_is_answered_by_a_close_before_it_is_read() {
    let mut talk = Talk::open(Settings::default());
    talk.sends(&4097_u32.to_be_bytes());
    let close = closed_with(&mut talk);
    assert!(close.contains(&format!("code: {:?}", ResponseCode::FRAME_TOO_LARGE)), "{close}");
    talk.sends(&[0xFF; 100]);
    assert!(talk.asked.is_empty() && talk.hears().is_empty());
}

#[test]
fn a_request_that_lists_too_much_is_refused_before_it_is_looked_at() {
    let mut talk = Talk::open(Settings { frame_max: 0, ..Settings::default() });
    let property = |value| Property { key: "filter.a", value };
    let long = "v".repeat(30_000);
    for properties in [vec![property("v"); 1_025], vec![property(&long); 3]] {
        let properties = List::of(&properties);
        let stream = "s";
        talk.says(&Subscribe {
            correlation_id: 7,
            subscription_id: 1,
            stream,
            offset: OffsetSpec::First,
            credit: 1,
            properties: Trailing(properties),
        });
        talk.says(&Create { correlation_id: 8, stream, arguments: properties });
        let heard = talk.hears();
        assert!(heard.len() == 2, "{heard:?}");
        assert!(heard.iter().all(|it| it.contains("code: ResponseCode(17)")), "{heard:?}");
        assert!(talk.asked.is_empty(), "{:?}", talk.asked);
    }
}

#[test]
fn no_limit_is_a_limit_all_the_same() {
    let mut talk = Talk::new(Settings { frame_max: 0, ..Settings::default() });
    talk.begin();
    let data = b"\0me\0pw";
    let mechanism = "PLAIN";
    talk.says(&streamproto::command::SaslAuthenticate { correlation_id: 3, mechanism, data });
    talk.says(&streamproto::command::Tune { frame_max: 0, heartbeat_secs: 0 });
    talk.says(&Open { correlation_id: 4, virtual_host: "/" });
    talk.hears();
    talk.sends(&[0x7F, 0, 0, 0]);
    assert!(closed_with(&mut talk).contains("code: ResponseCode(14)"));
}

/// Nothing that is read makes the front panic, consume what is not there, or wait for what is not needed.
fn holds(input: &[u8], is_open: bool) {
    let mut talk = match is_open {
        true => Talk::open(Settings::default()),
        false => Talk::new(Settings::default()),
    };
    talk.sends(input);
    let mut front = Connection::new(Arc::new(Settings::default()), PORT, START);
    let mut requests = Vec::new();
    let progress = front.read(START, input, &mut requests);
    assert!(progress.consumed <= input.len());
    assert!(progress.wanted <= 8192 + 4);
}

proptest! {
    #[test]
    fn random_bytes_hold(input in prop::collection::vec(any::<u8>(), 0..200), is_open in any::<bool>()) {
        holds(&input, is_open);
    }

    #[test]
    fn random_fields_hold(
        key in 0..34_u16, version in 1..3_u16, answer in any::<bool>(),
        fields in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..80),
    ) {
        let size = u32::try_from(fields.len()).unwrap() + 4;
        let mut input = size.to_be_bytes().to_vec();
        input.extend((key | if answer { 0x8000 } else { 0 }).to_be_bytes());
        input.extend(version.to_be_bytes());
        input.extend(fields);
        for is_open in [true, false] {
            holds(&input, is_open);
        }
    }

    #[test]
    fn commands_with_a_byte_changed_hold(at in 0..40_usize, to in any::<u8>()) {
        let mut input = Vec::new();
        let (reference, stream) = ("reference", "stream");
        DeclarePublisher { correlation_id: 1, publisher_id: 1, reference, stream }
            .encode_frame(&mut input);
        let at = at % input.len();
        input[at] = to;
        holds(&input, true);
    }
}
