//! Frames come out as they were put in, however they are cut, and nothing hostile is believed.

use crate::links::{ROWS, take_all};
use peer::{
    ConnectionNumber, FrameBody, FrameDecoder, FrameError, FrameKind, KindRow, LinkClass,
    LinkLimits, PeerLink, Vocabulary, put_frame,
};
use proptest::prelude::*;

const SMALL: FrameKind = FrameKind(40);

fn decoder() -> FrameDecoder {
    FrameDecoder::new(Vocabulary::new(1, &[ROWS]))
}

/// The frames of a stream that comes in these pieces.
pub(crate) fn decode(
    decoder: &mut FrameDecoder,
    pieces: &[&[u8]],
) -> Result<Vec<(FrameKind, Vec<u8>)>, FrameError> {
    let mut frames = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(frame) = decoder.next(&mut input)? {
            frames.push((frame.kind, frame.body.to_vec()));
        }
        assert!(input.is_empty(), "all of an input is taken");
    }
    Ok(frames)
}

#[test]
fn lends_bodies_that_lie_within_the_input_and_copies_others_once() {
    let mut bytes = Vec::new();
    put_frame(&mut bytes, SMALL, b"whole");
    put_frame(&mut bytes, SMALL, b"cut");
    let (first, second) = bytes.split_at(bytes.len() - 1);
    let (mut decoder, mut input) = (decoder(), first);
    let frame = decoder.next(&mut input).unwrap().unwrap();
    assert!(matches!(frame.body, FrameBody::Within(b"whole")));
    assert_eq!(decoder.next(&mut input), Ok(None));
    let mut input = second;
    let frame = decoder.next(&mut input).unwrap().unwrap();
    assert!(matches!(&frame.body, FrameBody::Whole(bytes) if &**bytes == b"cut"));
    assert_eq!(frame.body.into_bytes(), "cut");
}

#[test]
fn refuses_unknown_kinds_and_those_of_newer_levels_with_a_text() {
    const NEWER: KindRow = KindRow { kind: FrameKind(50), level: 2, bytes_max: 9 };
    let mut bytes = Vec::new();
    put_frame(&mut bytes, NEWER.kind, b"new");
    for (level, is_known) in [(1, false), (2, true)] {
        let mut decoder = FrameDecoder::new(Vocabulary::new(level, &[ROWS, &[NEWER]]));
        let decoded = decode(&mut decoder, &[&bytes]);
        assert_eq!(decoded.is_ok(), is_known);
        if let Err(error) = decoded {
            assert!(error.to_string().contains("versions of both nodes"), "{error}");
        }
    }
}

#[test]
fn checks_announced_lengths_before_anything_is_kept() {
    let begin = |class: u8, kind: u8, n_bytes: u32| {
        let mut bytes = vec![6, 0, 0, 1, class, kind];
        bytes.extend(n_bytes.to_le_bytes());
        bytes
    };
    let large_max = ROWS[1].bytes_max;
    let piece = |class: u8, n: u32| {
        let mut bytes = n.to_le_bytes().to_vec();
        bytes[3] = 2 + class;
        bytes.extend(vec![7; n as usize]);
        bytes
    };
    let bad: [&[Vec<u8>]; 9] = [
        &[begin(0, 41, large_max + 1)],
        &[begin(3, 41, 9)],
        &[begin(0, 99, 9)],
        &[begin(0, 41, 0)],
        &[begin(0, 41, 9), begin(0, 41, 9)],
        &[piece(1, 5)],
        &[begin(1, 41, 4), piece(1, 5)],
        &[begin(1, 41, 4), piece(2, 4)],
        &[begin(1, 41, 200_000), piece(1, 64 * 1024 + 1)],
    ];
    for (n, pieces) in bad.iter().enumerate() {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let mut decoder = decoder();
        let error = decode(&mut decoder, &pieces).expect_err(&format!("case {n}"));
        assert!(!error.to_string().is_empty());
        assert_eq!(decoder.held_bytes(), 0, "case {n}");
    }
    let mut decoder = decoder();
    assert_eq!(decode(&mut decoder, &[&begin(1, 41, large_max)]), Ok(Vec::new()));
    assert_eq!(decoder.held_bytes(), 0, "an announcement takes no memory");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    /// Frames come out as they were put in, in the order of their class.
    #[test]
    fn links_and_decoders_agree_however_streams_are_cut(
        frames in prop::collection::vec((0..3_usize, 0..300_000_usize, 0..300_usize, any::<u8>()), 1..12),
        cuts in prop::collection::vec(1..100_000_usize, 1..8),
    ) {
        let link = PeerLink::new(LinkLimits { room_bytes: 1 << 30, bytes_max: 1 << 30 });
        let connection = ConnectionNumber(1);
        assert!(link.open(connection));
        let body = |(_, n_payload, n_head, byte): &(usize, usize, usize, u8)| {
            [vec![*byte; *n_head], vec![!*byte; *n_payload]].concat()
        };
        for frame in &frames {
            let (class, n_payload, n_head, byte) = *frame;
            drop(link.put(|out| {
                let payloads = [vec![!byte; n_payload / 2], vec![!byte; n_payload - n_payload / 2]];
                let head = vec![byte; n_head];
                let fill = |out: &mut Vec<u8>| out.extend_from_slice(&head);
                out.push(LinkClass::ALL[class], FrameKind(41 + u8::try_from(class).unwrap()), fill,
                    &payloads.map(bytes::Bytes::from));
            }));
        }
        let bytes = take_all(&link, connection);
        let (mut decoder, mut decoded, mut rest) = (decoder(), Vec::new(), bytes.as_slice());
        for cut in cuts.iter().cycle() {
            let (piece, next) = rest.split_at((*cut).min(rest.len()));
            decoded.extend(decode(&mut decoder, &[piece]).unwrap());
            rest = next;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(decoder.held_bytes(), 0);
        for class in 0..3 {
            let kind = FrameKind(41 + u8::try_from(class).unwrap());
            let sent = frames.iter().filter(|frame| frame.0 == class).map(body);
            let got = decoded.iter().filter(|frame| frame.0 == kind).map(|frame| frame.1.clone());
            prop_assert!(sent.eq(got), "class {class}");
        }
    }
}
