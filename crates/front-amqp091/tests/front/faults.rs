use crate::harness::{Talk, later, publish};
use amqp091::PropertiesRef;
use amqp091::content::{encode_body, encode_content_header};
use amqp091::frame::HEARTBEAT;
use amqp091::method::{BasicAck, BasicPublish, ChannelOpen, ConnectionCloseOk, QueueDeclareOk};
use edge::{Step, Tick};
use front_amqp091::Settings;
use proptest::prelude::*;

fn closed_by(bytes: &[u8]) -> Vec<String> {
    let mut talk = Talk::open(Settings::default(), &[1]);
    talk.gets(bytes);
    talk.hears()
}

fn frame(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes
}

#[test]
fn content_where_it_does_not_belong() {
    let publish_then = |more: &dyn Fn(&mut Vec<u8>)| {
        frame(|out| {
            BasicPublish::default().encode_frame(1, out);
            more(out);
        })
    };
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (
            frame(|out| encode_body(1, b"x", 0, out)),
            "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead (60,40)",
        ),
        (
            publish_then(&|out| encode_body(1, b"x", 0, out)),
            "505 UNEXPECTED_FRAME - expected content header for class 60, got non content header \
             frame instead (60,40)",
        ),
        (
            publish_then(&|out| {
                encode_content_header(1, PropertiesRef::EMPTY, 5, out);
                BasicAck::default().encode_frame(1, out);
            }),
            "505 UNEXPECTED_FRAME - expected content body, got non content body frame instead \
             (60,40)",
        ),
        (
            publish_then(&|out| {
                encode_content_header(1, PropertiesRef::EMPTY, 5, out);
                encode_body(1, b"123456", 0, out);
            }),
            "501 FRAME_ERROR - the body is larger than the 5 bytes its header announced (60,40)",
        ),
        (
            publish_then(&|out| {
                out.extend_from_slice(b"\x02\0\x01\0\0\0\x0e\0\x32\0\0\0\0\0\0\0\0\0\0\0\0\xCE")
            }),
            "505 UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 \
             instead (60,40)",
        ),
    ];
    for (bytes, close) in cases {
        assert_eq!(closed_by(&bytes), [format!("0 connection.close {close}")]);
    }
}

#[test]
fn frames_where_they_do_not_belong() {
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (
            frame(|out| encode_body(3, b"x", 0, out)),
            "504 CHANNEL_ERROR - expected 'channel.open' (0,0)",
        ),
        (
            frame(|out| BasicAck::default().encode_frame(3, out)),
            "504 CHANNEL_ERROR - expected 'channel.open' (60,80)",
        ),
        (
            frame(|out| BasicAck::default().encode_frame(0, out)),
            "504 CHANNEL_ERROR - unexpected method in connection state running (60,80)",
        ),
        (
            frame(|out| QueueDeclareOk::default().encode_frame(1, out)),
            "503 COMMAND_INVALID - unimplemented method (50,11)",
        ),
        (b"\x08\0\x01\0\0\0\0\xCE".to_vec(), "505 UNEXPECTED_FRAME - heartbeat on channel 1 (0,0)"),
        (
            b"\x01\0\x01\0\0\0\x04\0\x3c\0\x63\xCE".to_vec(),
            "540 NOT_IMPLEMENTED - unknown method {60,99} (60,99)",
        ),
        (
            b"\x01\0\x01\0\0\0\x0d\0\x32\0\x32\0\0\0\0\0\0\0\0\x03\x01kZ\xCE".to_vec(),
            "501 FRAME_ERROR - type 1: {invalid_frame_end_marker,1} (0,0)",
        ),
        (
            b"\x01\0\x01\0\0\0\x10\0\x32\0\x32\0\0\0\0\0\0\0\0\x03\x01kZ\xCE".to_vec(),
            "502 SYNTAX_ERROR - cannot decode queue.unbind: unknown field type 0x5a (50,50)",
        ),
        (
            b"\x03\0\x01\0\x02\0\x01".to_vec(),
            "501 FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064} (0,0)",
        ),
    ];
    for (bytes, close) in cases {
        assert_eq!(closed_by(&bytes), [format!("0 connection.close {close}")]);
    }
}

#[test]
fn heartbeats_have_no_effect() {
    assert_eq!(closed_by(&HEARTBEAT), [""; 0]);
}

#[test]
fn too_many_channels() {
    let mut talk = Talk::new(Settings { channel_max: 2, ..Settings::default() });
    talk.gets(&amqp091::ProtocolHeader::encode_amqp([0, 0, 9, 1]));
    talk.says(
        0,
        amqp091::method::ConnectionStartOk {
            mechanism: b"PLAIN",
            response: b"\0a\0b",
            ..amqp091::method::ConnectionStartOk::default()
        },
    );
    talk.front.authenticated(Ok(()));
    let tune_ok =
        amqp091::method::ConnectionTuneOk { channel_max: 2, frame_max: 8192, heartbeat: 0 };
    talk.says(0, tune_ok);
    talk.says(0, amqp091::method::ConnectionOpen::default());
    talk.front.opened(talk.now, Ok(()));
    talk.bytes();
    for channel in [7, 9, 1] {
        talk.says(channel, ChannelOpen::default());
    }
    assert_eq!(
        talk.hears(),
        [
            "7 channel.open-ok",
            "9 channel.open-ok",
            "0 connection.close 530 NOT_ALLOWED - number of channels opened (2) has reached the \
             negotiated channel_max (2) (20,10)",
        ]
    );
}

#[test]
fn after_losing_the_frame_borders_nothing_is_understood_any_more() {
    let mut talk = Talk::open(Settings::default(), &[1]);
    talk.gets(b"\x09\0\0\0\0\0\0\xCE");
    assert_eq!(talk.hears().len(), 1);
    assert!(matches!(talk.says(0, ConnectionCloseOk {}), Step::More));
    assert_eq!(talk.input, b"");
    talk.now = later(talk.now, 3000);
    assert!(matches!(talk.front.tick(talk.now), Tick::Dead(_)));
}

#[test]
fn unfinished_messages_are_limited_over_all_channels() {
    let settings = Settings { unfinished_bytes_max: 1_000_000, ..Settings::default() };
    let mut talk = Talk::open(settings, &[1, 2, 3]);
    for channel in 1..=3 {
        let bytes = publish(channel, "k", b"\0\0", &vec![0; 500_000], 131_072);
        // Three of its four body frames.
        talk.gets(&bytes[..bytes.len() - (500_000 - 3 * 131_064 + 8)]);
    }
    let hears = talk.hears();
    assert_eq!(hears.len(), 1);
    assert!(hears[0].starts_with("0 connection.close 506 RESOURCE_ERROR"), "{hears:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_survived_and_nothing_is_kept(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
        kinds in prop::collection::vec(0..10_u8, 0..20),
    ) {
        let mut fresh = Talk::new(Settings::default());
        let mut open = Talk::open(Settings::default(), &[0x0101, 1]);
        for (chunk, kind) in chunks.iter().zip(kinds.iter().chain(std::iter::repeat(&0))) {
            fresh.gets(chunk);
            fresh.bytes();
            let size = u8::try_from(chunk.len()).unwrap();
            let mut framed = vec![*kind, 0, 1, 0, 0, 0, size];
            framed.extend_from_slice(chunk);
            framed.push(0xCE);
            open.gets(&framed);
            open.bytes();
            prop_assert!(fresh.input.len() <= 8192 + 8);
            prop_assert!(open.input.len() <= 131_072 + 8);
        }
    }
}
