//! Rules that hold for any bytes of a peer: in a handshake, and in frames. Shared by the fuzz targets and by
//! an ordinary test of the crate, which needs no fuzzer.

use log::{ClusterId, NodeIdentity, NodeNumber};
use peer::{
    ConnectionKind, FrameDecoder, FrameKind, HANDSHAKE_BYTES_MAX, HandshakeError, HandshakeRole,
    KindRow, PEER_VERSIONS, PeerCookie, PeerHandshake, PeerHello, PeerRefusal, SpokenRange,
    Vocabulary, put_frame,
};
use stdx::MonotonicMs;

const BYTES_MAX: u32 = 1 << 20;

/// The hello of the node that is under test.
pub(crate) fn hello() -> PeerHello {
    PeerHello {
        versions: PEER_VERSIONS,
        levels: SpokenRange { min: 1, max: 2 },
        kind: ConnectionKind::Raft,
        identity: NodeIdentity {
            cluster: ClusterId(7),
            epoch: 0,
            number: NodeNumber(1),
            boot: 3,
            name: "rabbit@a".to_owned(),
        },
        nonce: 5,
    }
}

/// Bytes of who has no cookie, in pieces of the first byte's size: both sides take no more than a handshake
/// may have, send little, and end without a connection.
pub(crate) fn handshake(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else { return };
    for role in [HandshakeRole::Dialler, HandshakeRole::Acceptor] {
        let cookie = PeerCookie::new(b"unknown to the fuzzer").expect("not empty");
        let mut handshake = PeerHandshake::new(role, hello(), cookie, MonotonicMs::from_raw(5));
        let (mut out, mut n_taken) = (Vec::new(), 0);
        for piece in bytes.chunks(usize::from(*size) + 1) {
            let mut rest = piece;
            let outcome = handshake.receive(&mut rest, |_| Ok(()), &mut out);
            n_taken += piece.len() - rest.len();
            match outcome {
                Ok(established) => assert_eq!(established, None),
                Err(HandshakeError::Refused(refusal) | HandshakeError::RefusedByPeer(refusal)) => {
                    assert!(!refusal.text.chars().any(char::is_control));
                    break;
                }
                Err(HandshakeError::Stranger) => break,
            }
            assert!(rest.is_empty(), "a handshake that goes on takes all");
        }
        assert!(n_taken <= HANDSHAKE_BYTES_MAX);
        assert!(out.len() <= 2_048, "an answer of {} bytes", out.len());
    }
}

/// Frames in pieces of the first byte's size: memory has a limit, and what is decoded encodes to what decodes
/// to the same.
pub(crate) fn frames(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else { return };
    let (whole, is_good) = decode(bytes, usize::MAX);
    assert_eq!(decode(bytes, usize::from(*size) + 1), (whole.clone(), is_good));
    let mut again = Vec::new();
    whole.iter().for_each(|(kind, body)| put_frame(&mut again, *kind, body));
    assert_eq!(decode(&again, usize::MAX), (whole, true));
}

/// The frames that come, and whether no rule was violated.
fn decode(bytes: &[u8], size: usize) -> (Vec<(FrameKind, Vec<u8>)>, bool) {
    let row = |kind| KindRow { kind: FrameKind(kind), level: 1, bytes_max: BYTES_MAX };
    let rows: Vec<KindRow> = (32..64).map(row).collect();
    let mut decoder = FrameDecoder::new(Vocabulary::new(1, &[&rows]));
    let mut frames = Vec::new();
    for piece in bytes.chunks(size) {
        let mut rest = piece;
        loop {
            match decoder.next(&mut rest) {
                Ok(Some(frame)) => {
                    if frame.kind == FrameKind::REFUSED {
                        let refusal = PeerRefusal::decode(&frame.body);
                        assert!(!refusal.text.chars().any(char::is_control));
                    }
                    frames.push((frame.kind, frame.body.to_vec()));
                }
                Ok(None) => break,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    return (frames, false);
                }
            }
        }
        assert!(rest.is_empty());
        assert!(decoder.held_bytes() <= 4 * BYTES_MAX as usize);
    }
    (frames, true)
}
