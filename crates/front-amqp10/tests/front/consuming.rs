//! Links on which the client consumes.

use crate::harness::{Talk, begin, consumer, disposition, flow, id, key, open};
use amqp10::{
    Attach, Begin, DeliveryOutcome, DeliveryState, Detach, Disposition, Flow, MapRef, Modified,
    Open, PassingState, Performative, ReceiverSettleMode, Rejected, Role, SenderSettleMode,
    SourceTerminus, Symbol, TransactionalState, ValueRef, put_map,
};
use front_amqp10::{AttachedLink, ConnectionSettings, SentMessage, release_overdue};
use session::{ConsumerCredit, LinkId, Position};

fn attached() -> Talk {
    attached_with(consumer(0), begin())
}

fn attached_with(attach: Attach<'_>, begin: Begin<'_>) -> Talk {
    let mut talk = Talk::begun_with(ConnectionSettings::default(), open(), begin);
    talk.says(&Performative::Attach(Box::new(attach)));
    talk.hears();
    talk.takes_asked();
    talk
}

fn deliver(talk: &mut Talk, position: u64, message: &[u8]) {
    talk.front.deliver(
        key(0),
        SentMessage::in_sections(Position(position), message),
        &mut Vec::new(),
    );
}

#[test]
fn an_attach_is_answered_with_the_source_in_place() {
    let mut talk = Talk::begun();
    let attach = Attach { max_message_size: Some(5), ..consumer(0) };
    talk.says(&Performative::Attach(Box::new(attach)));
    let mut n_attaches = 0;
    talk.hears_each(|_, performative, _| {
        let Performative::Attach(it) = performative else { panic!("{performative:?}") };
        assert_eq!((it.role, it.snd_settle_mode), (Role::Sender, SenderSettleMode::Unsettled));
        assert_eq!((it.initial_delivery_count, it.max_message_size), (Some(id(0)), Some(5)));
        assert_eq!(it.source.unwrap().default_outcome, Some(DeliveryState::RELEASED));
        n_attaches += 1;
    });
    assert_eq!(n_attaches, 1);
}

#[test]
fn an_answer_has_the_filters_in_place_of_those_asked_for() {
    let encoded = |names: &[&str]| {
        let mut out = Vec::new();
        put_map(&mut out, |items| names.iter().for_each(|it| items.put_symbol(it, ValueRef::Null)));
        out
    };
    let (asked, in_place) = (encoded(&["a", "b"]), encoded(&["b"]));
    let map = |bytes| match ValueRef::decode(bytes) {
        Ok((ValueRef::Map(map), _)) => map,
        _ => MapRef::EMPTY,
    };
    let mut attach = consumer(0);
    for (asked, in_place, answer) in [
        (Some(map(&asked)), Some(map(&in_place)), Some(map(&in_place))),
        (Some(map(&asked)), None, Some(MapRef::EMPTY)),
        (None, Some(MapRef::EMPTY), None),
    ] {
        attach.source = attach.source.map(|it| SourceTerminus { filter: asked, ..it });
        let attached =
            AttachedLink { link: LinkId(1), source: None, target: None, filters: in_place };
        let mut talk = Talk::begun();
        talk.attaches = false;
        talk.says(&Performative::Attach(Box::new(attach)));
        talk.front.attached(key(0), Ok(attached), &mut Vec::new());
        talk.hears_each(|_, performative, _| {
            let Performative::Attach(it) = performative else { panic!("{performative:?}") };
            let source = it.source.unwrap();
            assert_eq!(source.filter, answer);
            let mode = if in_place.is_some() { "copy" } else { "move" };
            assert_eq!(source.distribution_mode, Some(Symbol(mode)));
            assert_eq!(it.offered_capabilities.iter().count(), if mode == "copy" { 2 } else { 0 });
        });
    }
}

#[test]
fn a_consumer_is_told_that_it_is_the_active_one() {
    let mut talk = attached();
    let mut told = Vec::new();
    for is_active in [true, false] {
        let credit = ConsumerCredit {
            delivery_count: 2,
            credit: 7,
            available: 3,
            drain: false,
            is_active: Some(is_active),
        };
        talk.front.flowed(key(0), credit);
        talk.hears_each(|_, performative, _| {
            let Performative::Flow(flow) = performative else { panic!("{performative:?}") };
            assert_eq!((flow.handle, flow.link_credit), (Some(0), Some(7)));
            let active = flow.properties.get("rabbitmq:active");
            told.push(active == Some(ValueRef::Bool(is_active)));
        });
    }
    assert_eq!(told, [true, true]);
}

#[test]
fn credit_is_told_to_the_broker_and_back() {
    let mut talk = attached();
    let link = Flow { handle: Some(0), link_credit: Some(10), ..flow(0, 0) };
    talk.says(&Performative::Flow(link));
    talk.says(&Performative::Flow(Flow {
        delivery_count: Some(id(3)),
        drain: true,
        echo: true,
        ..link
    }));
    assert_eq!(
        talk.takes_asked(),
        ["credit 100 0+10 drain false echo false", "credit 100 3+10 drain true echo true"]
    );
    let credit = ConsumerCredit {
        delivery_count: 13,
        credit: 0,
        available: 2,
        drain: true,
        is_active: None,
    };
    talk.front.flowed(key(0), credit);
    assert_eq!(talk.hears(), ["flow 0+400 link 0 13+0 drain"]);
}

/// Many clients give credit before they have seen the answer to their attach.
#[test]
fn credit_before_the_answer_is_not_lost() {
    let mut talk = Talk::begun();
    talk.attaches = false;
    talk.says(&Performative::Attach(Box::new(consumer(0))));
    talk.says(&Performative::Flow(Flow { handle: Some(0), link_credit: Some(7), ..flow(0, 0) }));
    assert_eq!(talk.takes_asked(), ["attach 0 link Receiver"]);
    talk.attach(key(0));
    assert_eq!(talk.takes_asked(), ["credit 100 0+7 drain false echo false"]);
}

#[test]
fn deliveries_are_settled_by_range() {
    let mut talk = attached();
    (0..6).for_each(|n| deliver(&mut talk, 40 + n, b"message"));
    let heard = talk.hears();
    assert_eq!((heard.len(), &*heard[5]), (6, "transfer 0 5 7"));
    talk.says(&disposition(1, 2, Some(DeliveryState::ACCEPTED)));
    talk.says(&disposition(0, 0x7fff_ffff, Some(DeliveryState::rejected(None))));
    talk.says(&disposition(0, 5, Some(DeliveryState::ACCEPTED)));
    assert_eq!(
        talk.takes_asked(),
        [
            "settle 100 41 Accepted",
            "settle 100 42 Accepted",
            "settle 100 40 Rejected",
            "settle 100 43 Rejected",
            "settle 100 44 Rejected",
            "settle 100 45 Rejected"
        ]
    );
    assert_eq!(talk.hears(), [""; 0]);
}

/// A map of one annotation, encoded.
fn annotation(key: ValueRef<'_>, value: ValueRef<'_>) -> Vec<u8> {
    let mut encoded = Vec::new();
    put_map(&mut encoded, |items| {
        items.put(key);
        items.put(value);
    });
    encoded
}

fn modified(
    [delivery_failed, undeliverable_here]: [bool; 2],
    annotations: &[u8],
) -> Option<DeliveryState<'_>> {
    let message_annotations = match ValueRef::decode(annotations) {
        Ok((ValueRef::Map(map), _)) => map,
        _ => MapRef::EMPTY,
    };
    Some(DeliveryState::Outcome(DeliveryOutcome::Modified(Modified {
        delivery_failed,
        undeliverable_here,
        message_annotations,
    })))
}

#[test]
fn each_outcome_is_told_to_the_broker() {
    let opt = annotation(ValueRef::Symbol("x-opt"), ValueRef::U32(1));
    let at = |value| annotation(ValueRef::Symbol("x-opt-delivery-time"), value);
    let (at_time, at_number) = (at(ValueRef::Timestamp(7)), at(ValueRef::U64(8)));
    let (at_none, before) = (at(ValueRef::Str("9")), at(ValueRef::I64(-1)));
    let cases = [
        (Some(DeliveryState::RELEASED), "settle 100 1 Released"),
        (modified([true, false], &[]), "settle 100 1 Modified"),
        (modified([false, false], &[]), "settle 100 1 Released"),
        (modified([true, true], &[]), "settle 100 1 Rejected"),
        (modified([false, true], &opt), "modify 100 [1] Rejected 12 until None"),
        (modified([true, false], &opt), "modify 100 [1] Modified 12 until None"),
        (modified([false, false], &at_time), "modify 100 [1] Released 33 until Some(7)"),
        (modified([false, false], &at_number), "modify 100 [1] Released 26 until Some(8)"),
        (modified([false, false], &at_none), "modify 100 [1] Released 27 until None"),
        (modified([false, false], &before), "modify 100 [1] Released 26 until None"),
        // Without an outcome that of the source holds.
        (None, "settle 100 1 Released"),
    ];
    for (state, asked) in cases {
        let mut talk = attached();
        deliver(&mut talk, 1, b"m");
        talk.says(&disposition(0, 0, state));
        assert_eq!(talk.takes_asked(), [asked]);
    }
}

/// A range is as many requests as links, whatever is unsettled on them.
#[test]
fn changes_of_a_range_are_told_once_for_each_link() {
    let mut talk = attached();
    talk.says(&Performative::Attach(Box::new(consumer(1))));
    talk.takes_asked();
    for (handle, position) in [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3)] {
        let key = front_amqp10::LinkHandle { handle, ..key(0) };
        let message = SentMessage::in_sections(Position(position), b"m");
        talk.front.deliver(key, message, &mut Vec::new());
    }
    let opt = annotation(ValueRef::Symbol("x-opt"), ValueRef::Null);
    talk.says(&disposition(1, 0x7fff_ffff, modified([false, false], &opt)));
    assert_eq!(
        talk.takes_asked(),
        ["modify 100 [2, 3] Released 11 until None", "modify 101 [1, 2] Released 11 until None"]
    );
}

#[test]
fn annotations_with_reserved_keys_detach_the_link() {
    let keys = [ValueRef::Symbol("opt"), ValueRef::Str("x-opt"), ValueRef::U64(1)];
    for key in keys {
        let mut talk = attached();
        deliver(&mut talk, 1, b"m");
        talk.hears();
        let reserved = annotation(key, ValueRef::Null);
        talk.says(&disposition(0, 0, modified([true, false], &reserved)));
        let text =
            "bad value for 'message-annotations' of modified: keys are symbols that begin with x-";
        assert_eq!(talk.hears(), [format!("detach 0 amqp:invalid-field '{text}'")]);
        assert_eq!(talk.takes_asked(), ["detach 100"], "what it holds is given back");
    }
}

#[test]
fn unsettled_dispositions_are_answered_settled() {
    let attach = Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..consumer(0) };
    let mut talk = attached_with(attach, begin());
    (0..3).for_each(|n| deliver(&mut talk, n, b"m"));
    talk.hears();
    let unsettled = |state| {
        Performative::Disposition(Disposition {
            role: Role::Receiver,
            first: id(0),
            last: Some(id(2)),
            settled: false,
            state,
            batchable: false,
        })
    };
    talk.says(&unsettled(None));
    talk.says(&unsettled(Some(DeliveryState::Passing(PassingState::Received(amqp10::Received {
        section_number: 0,
        section_offset: 0,
    })))));
    assert_eq!((talk.takes_asked().len(), talk.hears().len()), (0, 0));
    talk.says(&unsettled(Some(DeliveryState::ACCEPTED)));
    assert_eq!(talk.takes_asked().len(), 3);
    assert_eq!(talk.hears(), ["disposition Sender 0..=2 true Accepted"]);
    // Nothing is unsettled any more: there is nothing to answer.
    talk.says(&unsettled(Some(DeliveryState::ACCEPTED)));
    talk.says(&disposition(
        0,
        2,
        Some(DeliveryState::Outcome(DeliveryOutcome::Rejected(Rejected { error: None }))),
    ));
    assert_eq!((talk.takes_asked().len(), talk.hears().len()), (0, 0));
}

#[test]
fn an_outcome_that_is_not_known_detaches_the_link() {
    let mut talk = attached();
    deliver(&mut talk, 1, b"m");
    talk.hears();
    let state = PassingState::Transactional(TransactionalState { txn_id: b"t", outcome: None });
    talk.says(&disposition(0, 0, Some(DeliveryState::Passing(state))));
    let unknown = "detach 0 amqp:transaction:unknown-id 'no open transaction has this id'";
    assert_eq!(talk.hears(), [unknown]);
    assert_eq!(talk.takes_asked(), ["detach 100"]);
}

#[test]
fn deliveries_held_for_too_long_are_released_and_stay_to_be_settled() {
    let mut talk = attached();
    [3, 4, 5, 6, 9].into_iter().for_each(|n| deliver(&mut talk, n, b"m"));
    talk.says(&disposition(1, 1, Some(DeliveryState::ACCEPTED)));
    talk.hears();
    talk.takes_asked();
    let positions = [3, 4, 5, 6].map(Position);
    assert!(release_overdue(&mut talk.front, key(0), &positions));
    let released =
        ["disposition Sender 0..=0 false Released", "disposition Sender 2..=3 false Released"];
    assert_eq!(talk.hears(), released);
    talk.says(&disposition(0, 4, Some(DeliveryState::RELEASED)));
    assert_eq!(talk.takes_asked().len(), 4);
}

#[test]
fn settled_links_remember_nothing() {
    let attach = Attach { snd_settle_mode: SenderSettleMode::Settled, ..consumer(0) };
    let mut talk = attached_with(attach, begin());
    deliver(&mut talk, 1, b"m");
    assert_eq!(talk.hears(), ["transfer 0 0 settled 1"]);
    talk.says(&disposition(0, 0, Some(DeliveryState::ACCEPTED)));
    assert_eq!(talk.takes_asked(), [""; 0]);
    assert!(!release_overdue(&mut talk.front, key(0), &[Position(1)]), "it settles nothing");
}

#[test]
fn a_closed_window_holds_back_its_session_in_order() {
    let mut talk = attached_with(consumer(0), Begin { incoming_window: 1, ..begin() });
    deliver(&mut talk, 0, b"first");
    deliver(&mut talk, 1, b"second");
    let credit =
        ConsumerCredit { delivery_count: 2, credit: 0, available: 0, drain: true, is_active: None };
    talk.front.flowed(key(0), credit);
    deliver(&mut talk, 2, b"third");
    assert_eq!(talk.hears(), ["transfer 0 0 5"]);
    assert_eq!(talk.front.n_waiting_bytes(), 11);
    // Another session goes on.
    talk.says_on(1, &Performative::Begin(Box::new(begin())));
    talk.says_on(1, &Performative::Attach(Box::new(consumer(0))));
    talk.hears();
    let other = front_amqp10::LinkHandle { channel: session::ChannelId(1), handle: 0 };
    talk.front.deliver(other, SentMessage::in_sections(Position(9), b"other"), &mut Vec::new());
    assert_eq!(talk.hears(), ["transfer 0 0 5 on 1"]);
    talk.says(&Performative::Flow(Flow { incoming_window: 1, ..flow(1, 0) }));
    assert_eq!(talk.hears(), ["transfer 0 1 6", "flow 0+400 link 0 2+0 drain"]);
    talk.says(&Performative::Flow(Flow { incoming_window: 1, ..flow(2, 0) }));
    assert_eq!(talk.hears(), ["transfer 0 2 5"]);
    assert_eq!(talk.front.n_waiting_bytes(), 0);
}

#[test]
fn a_release_waits_behind_its_transfer() {
    let mut talk = attached_with(consumer(0), Begin { incoming_window: 2, ..begin() });
    (0..5).for_each(|n| deliver(&mut talk, n, b"m"));
    assert_eq!(talk.hears(), ["transfer 0 0 1", "transfer 0 1 1"]);
    assert!(release_overdue(&mut talk.front, key(0), &[0, 2, 3].map(Position)));
    assert_eq!(talk.hears(), ["disposition Sender 0..=0 false Released"]);
    talk.says(&Performative::Flow(Flow { incoming_window: 2, ..flow(2, 0) }));
    assert_eq!(talk.hears(), ["transfer 0 2 1", "transfer 0 3 1"]);
    talk.says(&Performative::Flow(Flow { incoming_window: 2, ..flow(4, 0) }));
    assert_eq!(talk.hears(), ["transfer 0 4 1", "disposition Sender 2..=3 false Released"]);
}

#[test]
fn a_large_message_goes_out_in_frames_that_the_client_takes() {
    let open = Open { max_frame_size: 512, ..open() };
    let mut talk = Talk::begun_with(ConnectionSettings::default(), open, begin());
    talk.says(&Performative::Attach(Box::new(consumer(0))));
    talk.hears();
    let message: Vec<u8> = (0..=255).cycle().take(2000).collect();
    deliver(&mut talk, 0, &message);
    let bytes = talk.bytes();
    let mut rest = &bytes[..];
    let mut sizes = Vec::new();
    while let Some(size) = amqp10::frame_size(rest) {
        sizes.push(size);
        rest = &rest[size..];
    }
    assert_eq!((sizes.len(), sizes[0], sizes[3]), (5, 512, 512));
    deliver(&mut talk, 1, &message);
    let (mut whole, mut n_last) = (Vec::new(), 0);
    talk.hears_each(|_, performative, payload| {
        let Performative::Transfer(it) = performative else { panic!("{performative:?}") };
        assert_eq!(it.delivery_id.is_some(), whole.is_empty());
        n_last += u32::from(!it.more);
        whole.extend_from_slice(payload);
    });
    assert_eq!((whole, n_last), (message, 1));
}

/// A message whose transfer just fits is not cut.
#[test]
fn frames_are_filled_to_the_last_byte() {
    for n_bytes in 440..520 {
        let open = Open { max_frame_size: 512, ..open() };
        let mut talk = Talk::begun_with(ConnectionSettings::default(), open, begin());
        talk.says(&Performative::Attach(Box::new(consumer(0))));
        talk.hears();
        deliver(&mut talk, 0, &vec![1; n_bytes]);
        let bytes = talk.bytes();
        let first = amqp10::frame_size(&bytes).unwrap();
        assert!(first <= 512);
        assert!(first == bytes.len() || first == 512, "{n_bytes}");
    }
}

#[test]
fn a_message_that_the_client_does_not_take_ends_its_session() {
    let attach = Attach { max_message_size: Some(100), ..consumer(0) };
    let mut talk = attached_with(attach, begin());
    let mut requests = Vec::new();
    talk.front.deliver(key(0), SentMessage::in_sections(Position(0), &[0; 368]), &mut requests);
    assert_eq!(
        talk.hears(),
        ["end amqp:link:message-size-exceeded \
             'message size (368 bytes) > maximum message size (100 bytes)'"]
    );
    assert_eq!(requests.len(), 1);
}

#[test]
fn a_detached_link_forgets_what_is_unsettled_and_waits() {
    let mut talk = attached_with(consumer(0), Begin { incoming_window: 1, ..begin() });
    deliver(&mut talk, 0, b"first");
    deliver(&mut talk, 1, b"second");
    talk.hears();
    talk.says(&Performative::Detach(Detach { handle: 0, closed: true, error: None }));
    assert_eq!(talk.hears(), ["detach 0"]);
    assert_eq!(talk.takes_asked(), ["detach 100"]);
    assert_eq!(talk.front.n_waiting_bytes(), 0);
    talk.says(&disposition(0, 1, Some(DeliveryState::ACCEPTED)));
    talk.says(&Performative::Flow(flow(1, 0)));
    assert_eq!((talk.takes_asked().len(), talk.hears().len()), (0, 0));
}

#[test]
fn flows_of_links_that_are_not_there_end_the_session() {
    let mut talk = attached();
    talk.says(&Performative::Flow(Flow { handle: Some(7), ..flow(0, 0) }));
    assert_eq!(talk.hears(), ["end amqp:session:unattached-handle 'Unattached link handle: 7'"]);
    assert_eq!(talk.takes_asked(), ["end 0"]);
}
