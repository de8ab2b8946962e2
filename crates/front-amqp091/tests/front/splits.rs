//! However the input is cut into reads, requests and output are the same.

use crate::harness::{Talk, publish};
use amqp091::content::{encode_body, encode_content_header};
use amqp091::method::{
    BasicAck, BasicPublish, ChannelClose, ChannelFlow, ChannelOpen, ConfirmSelect, QueueDeclare,
};
use amqp091::{Method, PropertiesRef};
use front_amqp091::Settings;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Piece {
    Publish {
        channel: u16,
        len: usize,
        frame_max: u32,
    },
    /// Two publishes whose frames alternate.
    Mixed {
        len: usize,
    },
    Method(Method<'static>, u16),
    Heartbeat,
}

fn piece() -> impl Strategy<Value = Piece> {
    let method = prop_oneof![
        Just(Method::from(BasicAck { delivery_tag: 0, multiple: true })),
        Just(Method::from(ConfirmSelect { no_wait: false })),
        Just(Method::from(ChannelFlow { active: true })),
        Just(Method::from(QueueDeclare { queue: b"q", no_wait: true, ..QueueDeclare::default() })),
        Just(Method::from(BasicAck { delivery_tag: 77, multiple: false })),
        Just(Method::from(ChannelClose::default())),
        Just(Method::from(ChannelOpen::default())),
    ];
    prop_oneof![
        4 => (1..4_u16, prop_oneof![0..40_usize, 0..40_000_usize], prop_oneof![Just(64_u32), Just(8192), Just(131_072)])
            .prop_map(|(channel, len, frame_max)| Piece::Publish { channel, len, frame_max }),
        1 => (2..5_000_usize).prop_map(|len| Piece::Mixed { len }),
        2 => (method, 1..4_u16).prop_map(|(method, channel)| Piece::Method(method, channel)),
        1 => Just(Piece::Heartbeat),
    ]
}

fn encode(pieces: &[Piece]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Publish { channel, len, frame_max } => {
                let body: Vec<u8> = (0..=255).cycle().take(*len).collect();
                // Small frames make many pieces, but the limit is for those that are not tiny.
                let frame_max = if *len > 4000 { (*frame_max).max(8192) } else { *frame_max };
                out.extend(publish(*channel, "key", b"\x10\0\x02", &body, frame_max));
            }
            Piece::Mixed { len } => {
                let body = vec![b'm'; *len];
                let (first, second) = body.split_at(len / 2);
                for channel in [1, 2] {
                    BasicPublish::default().encode_frame(channel, &mut out);
                }
                for channel in [1, 2] {
                    encode_content_header(channel, PropertiesRef::EMPTY, *len, &mut out);
                }
                for half in [first, second] {
                    for channel in [1, 2] {
                        encode_body(channel, half, 0, &mut out);
                    }
                }
            }
            Piece::Method(method, channel) => method.encode_frame(*channel, &mut out),
            Piece::Heartbeat => out.extend_from_slice(&amqp091::frame::HEARTBEAT),
        }
    }
    out
}

fn talk() -> Talk {
    Talk::open(Settings { message_bytes_max: 30_000, ..Settings::default() }, &[1, 2, 3])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn cuts_make_no_difference(
        pieces in prop::collection::vec(piece(), 0..12),
        cuts in prop::collection::vec(1..9_000_usize, 1..40),
    ) {
        let bytes = encode(&pieces);
        let mut whole = talk();
        whole.gets(&bytes);
        let mut cut = talk();
        let mut rest = &bytes[..];
        for n in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let (now, later) = rest.split_at((*n).min(rest.len()));
            cut.gets(now);
            prop_assert!(cut.input.len() <= 131_072 + 8);
            rest = later;
        }
        prop_assert_eq!(&whole.asked, &cut.asked);
        prop_assert_eq!(whole.hears(), cut.hears());
    }
}

#[test]
fn every_single_cut_and_every_byte_alone() {
    let bytes = encode(&[
        Piece::Publish { channel: 1, len: 5, frame_max: 8192 },
        Piece::Method(BasicAck { delivery_tag: 0, multiple: true }.into(), 1),
        Piece::Mixed { len: 9 },
        Piece::Heartbeat,
        Piece::Publish { channel: 2, len: 100, frame_max: 64 },
        Piece::Method(BasicAck { delivery_tag: 1, multiple: false }.into(), 3),
        Piece::Publish { channel: 3, len: 0, frame_max: 64 },
    ]);
    let mut whole = talk();
    whole.gets(&bytes);
    let hears = whole.hears();
    assert_eq!(whole.asked.len(), 5);
    for cut in 0..bytes.len() {
        let mut talk = talk();
        talk.gets(&bytes[..cut]);
        talk.gets(&bytes[cut..]);
        assert_eq!(talk.hears(), hears, "cut at {cut}");
        assert_eq!(talk.asked, whole.asked, "cut at {cut}");
    }
    let mut bytewise = talk();
    for byte in &bytes {
        bytewise.gets(&[*byte]);
    }
    assert_eq!(bytewise.hears(), hears);
    assert_eq!(bytewise.asked, whole.asked);
}
