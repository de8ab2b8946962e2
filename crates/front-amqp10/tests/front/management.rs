//! Pairs of links to the management node.

use crate::harness::{self, Talk, consumer, flow, id, key, publisher, whole};
use amqp10::{
    Attach, Detach, Flow, LinkTarget, MapRef, Performative, SenderSettleMode, SourceTerminus,
    Transfer, ValueRef,
};
use front_amqp10::{ConnectionSettings, LINK_PAIR, SentMessage};
use session::Position;

const ADDRESS: Option<ValueRef<'_>> = Some(ValueRef::Str("/management"));
const REQUESTS: u32 = 0;
const RESPONSES: u32 = 1;

fn paired() -> MapRef<'static> {
    match ValueRef::decode(b"\xc1\x0a\x02\xa3\x06paired\x41") {
        Ok((ValueRef::Map(map), _)) => map,
        other => panic!("{other:?}"),
    }
}

fn begun() -> Talk {
    Talk::begun_with(with_management(), harness::open(), harness::begin())
}

pub(crate) fn with_management() -> ConnectionSettings {
    ConnectionSettings { capabilities: vec![LINK_PAIR], ..ConnectionSettings::default() }
}

pub(crate) fn requests(handle: u32) -> Attach<'static> {
    let mut attach = publisher(handle);
    if let Some(LinkTarget::Terminus(target)) = &mut attach.target {
        target.address = ADDRESS;
    }
    let snd_settle_mode = SenderSettleMode::Settled;
    Attach { name: "pair", properties: paired(), snd_settle_mode, ..attach }
}

pub(crate) fn responses(handle: u32) -> Attach<'static> {
    let source = SourceTerminus { address: ADDRESS, ..SourceTerminus::default() };
    let properties = paired();
    Attach { name: "pair", source: Some(source), properties, ..consumer(handle) }
}

fn attaches(talk: &mut Talk, attach: Attach<'_>) -> Vec<String> {
    talk.says(&Performative::Attach(Box::new(attach)));
    talk.hears()
}

fn attached(credit: u32) -> Talk {
    let mut talk = begun();
    attaches(&mut talk, requests(REQUESTS));
    attaches(&mut talk, responses(RESPONSES));
    gives_credit(&mut talk, credit);
    assert!(talk.hears().is_empty() && talk.takes_asked().is_empty(), "no broker is asked");
    talk
}

fn gives_credit(talk: &mut Talk, credit: u32) {
    let flow = Flow { handle: Some(RESPONSES), link_credit: Some(credit), ..flow(0, 0) };
    talk.says(&Performative::Flow(flow));
}

fn asks(talk: &mut Talk, n: u32) {
    talk.transfers(Transfer { settled: Some(true), ..whole(REQUESTS, n) }, b"request");
}

fn responds(talk: &mut Talk, sections: &[u8]) {
    let response = SentMessage::in_sections(Position(0), sections);
    talk.front.deliver(key(RESPONSES), response, &mut Vec::new());
}

#[test]
fn requests_go_to_the_broker_and_responses_to_the_client() {
    let mut talk = begun();
    assert_eq!(
        attaches(&mut talk, requests(REQUESTS)),
        ["attach 0 Receiver source true target true", "flow 0+400 link 0 0+8"]
    );
    assert_eq!(
        attaches(&mut talk, responses(RESPONSES)),
        ["attach 1 Sender source true target false"]
    );
    gives_credit(&mut talk, 100);
    for n in 0..4 {
        asks(&mut talk, n);
    }
    assert_eq!(talk.takes_asked(), ["manage 1 7"; 4]);
    assert_eq!(talk.hears(), ["flow 4+396 link 0 4+8"]);
    responds(&mut talk, b"response");
    assert_eq!(talk.hears(), ["transfer 1 0 settled 8"]);
}

#[test]
fn requests_are_taken_in_parts_and_unsettled() {
    let mut talk = attached(100);
    talk.transfers(Transfer { more: true, ..whole(REQUESTS, 0) }, b"req");
    let rest = Transfer { delivery_id: None, delivery_tag: None, ..whole(REQUESTS, 0) };
    assert_eq!(talk.takes_asked(), [""; 0]);
    talk.transfers(rest, b"uest");
    // The client has asked for settled requests, and sends others.
    assert_eq!(talk.hears().len(), 1);
    let mut talk = begun();
    let attach = Attach { snd_settle_mode: SenderSettleMode::Mixed, ..requests(REQUESTS) };
    attaches(&mut talk, attach);
    attaches(&mut talk, responses(RESPONSES));
    gives_credit(&mut talk, 1);
    talk.transfers(Transfer { more: true, ..whole(REQUESTS, 0) }, b"req");
    talk.transfers(rest, b"uest");
    assert_eq!(talk.takes_asked(), ["manage 1 7"]);
    assert_eq!(talk.hears(), ["disposition Receiver 0..=0 true Accepted"]);
}

#[test]
fn a_client_has_eight_requests_at_a_time() {
    let mut talk = attached(100);
    for n in 0..12 {
        asks(&mut talk, n);
    }
    assert_eq!(talk.takes_asked().len(), 12, "four and the eight that were renewed");
    asks(&mut talk, 12);
    let heard = talk.hears();
    assert!(heard.iter().any(|it| it == "detach 0 amqp:link:transfer-limit-exceeded"), "{heard:?}");
    let mut talk = attached(100);
    for n in 0..10 {
        asks(&mut talk, n);
    }
    talk.hears();
    for _ in 0..10 {
        responds(&mut talk, b"r");
    }
    let heard = talk.hears();
    assert_eq!(heard.iter().filter(|it| it.starts_with("flow")).count(), 1, "{heard:?}");
}

#[test]
fn what_is_no_pair_is_refused() {
    let mut talk = Talk::begun();
    let heard = attaches(&mut talk, requests(REQUESTS));
    assert_eq!(heard[1], "detach 0 amqp:not-implemented '/management not supported'");
    let mut talk = begun();
    let heard = attaches(&mut talk, Attach { properties: MapRef::EMPTY, ..requests(REQUESTS) });
    let text = "Link property 'paired' is not set to boolean value 'true'";
    assert_eq!(heard[1], format!("detach 0 amqp:invalid-field '{text}'"));
    let mut talk = attached(1);
    let twice = requests(2);
    let text = "management link pair 'pair' is attached already";
    assert_eq!(
        attaches(&mut talk, twice)[1],
        format!("detach 2 amqp:precondition-failed '{text}'")
    );
}

#[test]
fn requests_without_a_link_or_credit_for_their_response_end_the_session() {
    let mut talk = begun();
    attaches(&mut talk, requests(REQUESTS));
    asks(&mut talk, 0);
    let text = "received transfer on half open management link pair";
    assert_eq!(talk.hears(), [format!("end amqp:precondition-failed '{text}'")]);
    let mut talk = attached(1);
    asks(&mut talk, 0);
    asks(&mut talk, 1);
    let text = "insufficient credit (0) for management link from RabbitMQ to client";
    assert_eq!(talk.hears(), [format!("end amqp:precondition-failed '{text}'")]);
}

#[test]
fn the_credit_of_responses_is_counted_and_drained() {
    let mut talk = attached(2);
    asks(&mut talk, 0);
    responds(&mut talk, b"r");
    talk.hears();
    let flow = Flow {
        handle: Some(RESPONSES),
        delivery_count: Some(id(0)),
        link_credit: Some(5),
        echo: true,
        ..flow(1, 1)
    };
    talk.says(&Performative::Flow(flow));
    assert_eq!(talk.hears(), ["flow 1+399 link 1 1+4"]);
    talk.says(&Performative::Flow(Flow { drain: true, ..flow }));
    assert_eq!(talk.hears(), ["flow 1+399 link 1 5+0 drain"]);
}

#[test]
fn a_pair_is_detached_and_attached_anew() {
    let mut talk = attached(1);
    for handle in [REQUESTS, RESPONSES] {
        talk.says(&Performative::Detach(Detach { handle, closed: true, error: None }));
    }
    assert_eq!(talk.hears(), ["detach 0", "detach 1"]);
    responds(&mut talk, b"late");
    assert!(talk.hears().is_empty());
    assert_eq!(talk.takes_asked(), ["end responses 1"]);
    assert_eq!(attaches(&mut talk, requests(REQUESTS)).len(), 2);
}

#[test]
fn a_response_that_is_too_large_ends_the_session() {
    let mut talk = begun();
    attaches(&mut talk, requests(REQUESTS));
    attaches(&mut talk, Attach { max_message_size: Some(3), ..responses(RESPONSES) });
    responds(&mut talk, b"long");
    let text = "message size (4 bytes) > maximum message size (3 bytes)";
    assert_eq!(talk.hears(), [format!("end amqp:link:message-size-exceeded '{text}'")]);
}
