use super::*;
use crate::verify::{Guarantee, Ledger};
use amqp091::method::BasicDeliver;
use amqp091::{FrameKind, PropertiesRef, decode_frame};

fn plan(settle: Settle) -> Plan {
    Plan {
        channel: 2,
        queues: vec![(0, "q".to_owned())],
        settle,
        limit: 5,
        gate: None,
        stamps: Stamps { are_in_headers: false, are_millis: false },
        is_verified: false,
        start_at: 0,
        settles_rest: false,
        arguments: Vec::new(),
        n_publishers: 1,
    }
}

/// Hands over a delivery, as `--verify` makes it, the way a connection does.
fn deliver(consumer: &mut Consumer, tag: u64, ledger: Option<&Ledger>) -> (Sample, Vec<u8>) {
    let mut wire = Vec::new();
    let deliver = BasicDeliver { consumer_tag: b"0", delivery_tag: tag, ..Default::default() };
    deliver.encode_frame(2, &mut wire);
    let mut body = template::stamped_body(32, true);
    body[11] = 40;
    amqp091::content::encode_content(2, PropertiesRef::EMPTY, &body, 8192, &mut wire);
    let (mut sample, mut out, mut rest) = (Sample::new(), Vec::new(), wire.as_slice());
    let time = TurnTime { now: 100, start: 0 };
    while let Some((frame, used)) = decode_frame(rest, 8192).unwrap() {
        let mut seen = Seen { sample: &mut sample, ledger };
        match frame.kind {
            FrameKind::Method => consumer.on_deliver(&frame.payload[4..]).unwrap(),
            FrameKind::Header => {
                consumer.on_header(frame.payload, time, &mut out, &mut seen).unwrap();
            }
            FrameKind::Body => {
                consumer.on_body(frame.payload, time, &mut out, &mut seen).unwrap();
            }
            FrameKind::Heartbeat => panic!("no heartbeat was sent"),
        }
        rest = &rest[used..];
    }
    consumer.flush(&mut sample);
    (sample, out)
}

fn acks(out: &[u8]) -> Vec<(u64, bool)> {
    let (mut rest, mut acks) = (out, Vec::new());
    while let Some((frame, used)) = decode_frame(rest, 8192).unwrap() {
        let Ok(Method::BasicAck(ack)) = Method::decode(frame.payload) else { panic!() };
        acks.push((ack.delivery_tag, ack.multiple));
        rest = &rest[used..];
    }
    acks
}

#[test]
fn counts_times_and_acknowledges() {
    let mut consumer = Consumer::new(plan(Settle::Ack { every: 1 }));
    let (sample, out) = deliver(&mut consumer, 1, None);
    assert_eq!((sample.counts.received, sample.counts.received_bytes), (1, 32));
    assert_eq!((sample.latency.len(), sample.latency.max()), (1, 60));
    assert_eq!(acks(&out), [(1, false)]);
}

#[test]
fn several_at_once_and_the_rest_at_the_limit() {
    let mut consumer = Consumer::new(plan(Settle::Ack { every: 3 }));
    let mut sent = Vec::new();
    (1..=6).for_each(|tag| sent.extend(acks(&deliver(&mut consumer, tag, None).1)));
    assert_eq!(sent, [(3, true), (5, true)]);
    assert!(consumer.is_done());
    let mut automatic = Consumer::new(plan(Settle::Automatic));
    assert_eq!(acks(&deliver(&mut automatic, 1, None).1), []);
}

#[test]
fn what_is_left_is_settled_at_the_end_if_it_is_to_be() {
    for (settles_rest, expected) in [(true, vec![(5, true)]), (false, vec![])] {
        let plan = Plan { settles_rest, limit: u64::MAX, ..plan(Settle::Ack { every: 3 }) };
        let (mut consumer, mut out) = (Consumer::new(plan), Vec::new());
        (1..=5).for_each(|tag| drop(deliver(&mut consumer, tag, None)));
        consumer.end(&mut out);
        assert_eq!(acks(&out), expected);
        out.clear();
        consumer.end(&mut out);
        assert!(out.is_empty(), "nothing is settled twice");
    }
}

#[test]
fn deliveries_allocate_nothing() {
    let mut consumer = Consumer::new(Plan { limit: u64::MAX, ..plan(Settle::Ack { every: 1 }) });
    let mut wire = Vec::new();
    let deliver = BasicDeliver { consumer_tag: b"0", delivery_tag: 1, ..Default::default() };
    deliver.encode_frame(2, &mut wire);
    let body = template::stamped_body(12, false);
    amqp091::content::encode_content(2, PropertiesRef::EMPTY, &body, 8192, &mut wire);
    let (mut sample, mut out) = (Sample::new(), Vec::with_capacity(1024));
    let before = counting::in_thread();
    for now in 0..1000 {
        let (mut rest, time) = (wire.as_slice(), TurnTime { now, start: 0 });
        let mut seen = Seen { sample: &mut sample, ledger: None };
        while let Some((frame, used)) = decode_frame(rest, 8192).unwrap() {
            let payload = frame.payload;
            match frame.kind {
                FrameKind::Header => consumer.on_header(payload, time, &mut out, &mut seen),
                FrameKind::Body => consumer.on_body(payload, time, &mut out, &mut seen),
                FrameKind::Method | FrameKind::Heartbeat => consumer.on_deliver(&payload[4..]),
            }
            .unwrap();
            rest = &rest[used..];
        }
        consumer.flush(&mut sample);
        out.clear();
    }
    assert_eq!(counting::in_thread().since(before).n_allocations, 0);
    assert_eq!(sample.counts.received, 1000);
}

#[test]
fn a_damaged_body_is_noticed() {
    let ledger = Ledger::new(1, 1, Guarantee::Once);
    let mut consumer = Consumer::new(Plan { is_verified: true, ..plan(Settle::Automatic) });
    deliver(&mut consumer, 1, Some(&ledger));
    assert_eq!(ledger.verdict(None).damaged, 1);
}

#[test]
fn malformed_deliveries_are_refused() {
    let mut consumer = Consumer::new(plan(Settle::Automatic));
    assert!(consumer.on_deliver(b"").is_err());
    assert!(consumer.on_deliver(b"\x01x\0\0\0\0\0\0\0\0\0").is_err());
    assert!(consumer.on_deliver(b"\x010\0\0\0\0\0\0\0\x01").is_err());
}
