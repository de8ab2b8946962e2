//! Pulses and messages of nodes, there and back.

use crate::links::take_all;
use bytes::Bytes;
use log::Owner;
use peer::{
    ConnectionNumber, FrameDecoder, FrameError, FrameKind, LinkLimits, NODE_ROWS, NodeMessage,
    PULSE_ROWS, PeerLink, Pulse, PulseAlarms, Vocabulary, put_frame,
};
use stdx::UnixMs;
use stdx::record::RecordError;

#[test]
fn pulses_are_read_as_they_were_written() {
    for (memory, disk) in [(false, false), (true, false), (false, true), (true, true)] {
        let pulse = Pulse {
            boot: 3,
            sequence: 3 << 32 | 9,
            heard: 8,
            received: [1 << 40, 7],
            alarms: PulseAlarms { memory, disk },
            unsynced_age_ms: 1_999,
            clock: UnixMs::from_raw(1_800_000_000_000),
            level: 4,
            load: 100_000,
        };
        let mut body = Vec::new();
        pulse.encode(&mut body);
        let mut bytes = Vec::new();
        put_frame(&mut bytes, FrameKind::PULSE, &body);
        let mut decoder = FrameDecoder::new(Vocabulary::new(1, &[PULSE_ROWS]));
        let frame = decoder.next(&mut bytes.as_slice()).unwrap().unwrap();
        assert_eq!(Pulse::decode(&frame.body), Ok(pulse));
        (0..body.len()).for_each(|cut| assert!(Pulse::decode(&body[..cut]).is_err()));
        body.extend(b"fields of newer levels");
        assert_eq!(Pulse::decode(&body), Ok(pulse));
    }
}

#[test]
fn messages_are_read_as_they_were_put() {
    let body = |n: usize| Bytes::from(vec![7; n]);
    let messages = [
        NodeMessage::Ask(1, body(20)),
        NodeMessage::Answer(1, body(200_000)),
        NodeMessage::Question(u64::MAX, body(0)),
        NodeMessage::Reply { request: 2, is_last: false, part: body(60_000) },
        NodeMessage::Reply { request: 2, is_last: true, part: body(1) },
        NodeMessage::Gone(Owner(12)),
        NodeMessage::Applied(99),
    ];
    for message in messages {
        let link = PeerLink::new(LinkLimits { room_bytes: 1 << 20, bytes_max: 1 << 20 });
        assert!(link.open(ConnectionNumber(1)));
        drop(link.put(|out| message.put(out)));
        let bytes = take_all(&link, ConnectionNumber(1));
        let mut decoder = FrameDecoder::new(Vocabulary::new(1, &[NODE_ROWS]));
        let frame = decoder.next(&mut bytes.as_slice()).unwrap().unwrap();
        let body = frame.body.into_bytes();
        assert_eq!(NodeMessage::decode(frame.kind, &body), Ok(Some(message)));
        let cut = body.slice(..7);
        assert_eq!(NodeMessage::decode(frame.kind, &cut), Err(RecordError::Truncated));
    }
    assert_eq!(NodeMessage::decode(FrameKind(77), &body(9)), Ok(None));
}

#[test]
fn messages_have_limits_by_kind() {
    let question = FrameKind(19);
    let mut bytes = Vec::new();
    put_frame(&mut bytes, question, &[0; 65 * 1024]);
    let mut decoder = FrameDecoder::new(Vocabulary::new(1, &[NODE_ROWS]));
    let error = decoder.next(&mut bytes.as_slice()).unwrap_err();
    assert_eq!(error, FrameError::TooLong { kind: 19, n_bytes: 65 * 1024, bytes_max: 64 * 1024 });
}
