//! Clients that mean no good: what they cost is bounded.

use crate::harness::{M, Talk, begin, consumer, disposition, flow, key, message, publisher, whole};
use amqp10::{
    Attach, Begin, DeliveryState, Detach, Flow, FrameType, Performative, SerialNumber, Transfer,
    put_frame,
};
use front_amqp10::{ConnectionSettings, SentMessage, UNFINISHED_BYTES_MAX};
use session::{ConsumerCredit, Position};

/// Dispositions over the whole number space, of a consumer that holds a few deliveries.
#[test]
fn dispositions_cost_by_what_is_unsettled() {
    let mut talk = Talk::begun();
    talk.says(&Performative::Attach(Box::new(consumer(0))));
    (0..3).for_each(|n| {
        talk.front.deliver(key(0), SentMessage::in_sections(Position(n), b"m"), &mut Vec::new());
    });
    talk.takes_asked();
    for n in 0..20_000_u32 {
        talk.says(&disposition(n + 3, n.wrapping_add(0x7fff_ffff), Some(DeliveryState::ACCEPTED)));
    }
    assert_eq!(talk.takes_asked(), [""; 0]);
    talk.says(&disposition(0x8000_0001, 0, Some(DeliveryState::ACCEPTED)));
    assert_eq!(talk.takes_asked(), ["settle 100 0 Accepted"]);
    talk.says(&disposition(0, u32::MAX, Some(DeliveryState::ACCEPTED)));
    assert_eq!(talk.takes_asked(), [""; 0]);
}

/// A message in transfers of one byte each, in a window that is opened again and again.
#[test]
fn a_message_comes_byte_by_byte() {
    let mut talk = Talk::begun();
    talk.says(&Performative::Attach(Box::new(publisher(0))));
    let message = message(&[b'b'; 20_000]);
    for (n, byte) in (1..).zip(&message) {
        let transfer = Transfer { more: n < message.len(), ..whole(0, 0) };
        talk.transfers(transfer, &[*byte]);
        talk.hears();
    }
    assert_eq!(talk.published, [message]);
}

/// Unfinished deliveries on all links together are taken up to a limit, which costs the newest its link.
#[test]
fn unfinished_deliveries_are_bounded() {
    let settings = ConnectionSettings {
        message_bytes_max: 64 * 1024 * 1024,
        frame_bytes_max: 32 * 1024 * 1024,
        ..ConnectionSettings::default()
    };
    let mut talk = Talk::begun_with(settings, crate::harness::open(), begin());
    let part = message(&vec![0; 16 * 1024 * 1024 - 9]);
    for handle in 0..5 {
        talk.says(&Performative::Attach(Box::new(publisher(handle))));
        talk.hears();
        talk.transfers(Transfer { more: true, ..whole(handle, handle) }, &part);
    }
    assert_eq!(
        talk.hears(),
        [format!(
            "detach 4 amqp:resource-limit-exceeded \
             'unfinished deliveries of the connection > {UNFINISHED_BYTES_MAX} bytes'"
        )]
    );
    assert!(talk.front.unfinished_bytes() <= UNFINISHED_BYTES_MAX);
    // The others go on.
    talk.transfers(Transfer { delivery_id: None, ..whole(0, 0) }, b"");
    assert_eq!(talk.published.len(), 1);
    talk.says(&Performative::Detach(Detach { handle: 1, closed: true, error: None }));
    assert_eq!(talk.front.unfinished_bytes(), 2 * part.len());
    talk.says(&Performative::End(amqp10::End { error: None }));
    assert_eq!(talk.front.unfinished_bytes(), 0);
}

#[test]
fn credit_of_the_whole_number_space_is_handed_on_as_it_is() {
    let mut talk = Talk::begun();
    talk.says(&Performative::Attach(Box::new(consumer(0))));
    talk.hears();
    talk.takes_asked();
    let flow = Flow {
        handle: Some(0),
        delivery_count: Some(SerialNumber::new(u32::MAX)),
        link_credit: Some(u32::MAX),
        incoming_window: u32::MAX,
        ..flow(0, 0)
    };
    (0..1000).for_each(|_| talk.says(&Performative::Flow(flow)));
    assert_eq!(talk.takes_asked().len(), 1000);
    assert_eq!(talk.hears(), [""; 0]);
}

/// Flows that are to be answered, from a client whose window lets nothing out.
#[test]
fn flows_that_wait_for_a_window_are_bounded() {
    let begin = Begin { incoming_window: 0, ..begin() };
    let mut talk = Talk::begun_with(ConnectionSettings::default(), crate::harness::open(), begin);
    for handle in [0, 1] {
        talk.says(&Performative::Attach(Box::new(consumer(handle))));
        talk.front.deliver(
            key(handle),
            SentMessage::in_sections(Position(0), b"m"),
            &mut Vec::new(),
        );
    }
    talk.hears();
    for n in 0..50_000_u32 {
        let credit = ConsumerCredit {
            delivery_count: n,
            credit: 0,
            available: 0,
            drain: true,
            is_active: None,
        };
        talk.front.flowed(key(n % 2), credit);
    }
    assert_eq!(talk.hears(), [""; 0]);
    talk.says(&Performative::Flow(flow(0, 0)));
    let heard = talk.hears();
    assert!(heard.len() < 1_100);
    assert_eq!(heard[..2], ["transfer 0 0 1", "transfer 1 1 1"]);
    assert_eq!(
        heard[heard.len() - 2..],
        ["flow 0+400 link 0 49998+0 drain", "flow 0+400 link 1 49999+0 drain"]
    );
}

#[test]
fn floods_of_attaches_and_detaches_leave_nothing_behind() {
    let mut talk = Talk::begun();
    for _ in 0..2000 {
        talk.says(&Performative::Attach(Box::new(publisher(255))));
        talk.says(&Performative::Detach(Detach { handle: 255, closed: true, error: None }));
        assert_eq!(talk.hears().len(), 3);
        assert_eq!(talk.takes_asked().len(), 2);
    }
}

/// Refused links of a client that never answers do not use up its handles.
#[test]
fn refused_links_may_be_attached_again() {
    let mut talk = Talk::begun();
    for _ in 0..1000 {
        let attach = Attach { target: None, ..publisher(0) };
        talk.says(&Performative::Attach(Box::new(attach)));
        assert_eq!(talk.hears().len(), 2);
    }
    talk.says(&Performative::Attach(Box::new(publisher(0))));
    assert_eq!(talk.takes_asked(), ["attach 0 link Sender"]);
}

/// More requests in one read than are made in one go.
#[test]
fn a_read_is_worked_off_in_portions() {
    let mut talk = Talk::begun();
    let begin = Begin { next_outgoing_id: SerialNumber::new(u32::MAX - 100), ..begin() };
    talk.says_on(2, &Performative::Begin(Box::new(begin)));
    talk.says_on(2, &Performative::Attach(Box::new(publisher(0))));
    talk.hears();
    let mut bytes = Vec::new();
    for n in 0..200_u32 {
        let transfer = Transfer { settled: Some(true), ..whole(0, n) };
        put_frame(&mut bytes, FrameType::Amqp, 2, |out| {
            transfer.encode(out);
            out.extend_from_slice(M);
        });
    }
    talk.sends(&bytes);
    assert_eq!(talk.published.len(), 200);
    assert_eq!(
        talk.hears()[1..],
        ["flow 99+400 on 2"],
        "the window opens at half, behind the ids' turn"
    );
}
