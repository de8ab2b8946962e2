//! Topics of JMS: publishes that need no subscribers, and what attaches of subscribers ask for.

use crate::harness::{M, Talk, key, whole};
use amqp10::{
    Attach, Detach, LinkTarget, Performative, Section, Symbols, TargetTerminus, Transfer, ValueRef,
    put_message_annotations,
};
use front_amqp10::AttachedLink;
use session::{ChannelId, Confirmation, LinkId};
use testing::amqp10_client::{
    controller, declare, message_to, publisher, publisher_to, transactional,
};

const SESSION: ChannelId = ChannelId(0);
const TOPIC: Symbols<'static> = Symbols::One("topic");

fn to_topic(handle: u32) -> Attach<'static> {
    let attach = publisher(handle, "news");
    let Some(LinkTarget::Terminus(target)) = attach.target else { unreachable!("it has one") };
    let target = TargetTerminus { capabilities: TOPIC, ..target };
    Attach { target: Some(LinkTarget::Terminus(target)), ..attach }
}

fn attached(attach: Attach<'_>) -> Talk {
    let mut talk = Talk::begun();
    talk.says(&Performative::Attach(Box::new(attach)));
    talk.takes_asked();
    talk.hears();
    talk
}

/// A message that names a node of this kind, and that kind in its annotations.
fn message_of_kind(to: &str, kind: i8) -> Vec<u8> {
    let mut message = Vec::new();
    put_message_annotations(&mut message, |items| {
        items.put_symbol("x-opt-jms-dest", ValueRef::I8(kind));
    });
    message.extend_from_slice(&message_to(to, b"m"));
    message
}

#[test]
fn a_topic_needs_no_subscribers() {
    let mut talk = attached(to_topic(0));
    talk.transfers(whole(0, 0), M);
    talk.transfers(whole(0, 1), M);
    assert!(talk.takes_asked()[0].starts_with("publish 'jms.topic' 'news' "));
    talk.front.answer(SESSION, 1, 2, Confirmation::Unroutable);
    assert_eq!(talk.hears(), ["disposition Receiver 0..=1 true Accepted"]);
}

#[test]
fn without_the_capability_a_name_is_no_topic() {
    let mut talk = Talk::begun();
    for attach in [publisher(0, "news"), publisher(1, "/exchanges/jms.topic/news")] {
        talk.says(&Performative::Attach(Box::new(attach)));
    }
    let heard = talk.hears();
    assert!(heard[1].starts_with("detach 0 amqp:invalid-field"), "{heard:?}");
    talk.transfers(whole(1, 0), M);
    talk.front.answer(SESSION, 1, 1, Confirmation::Unroutable);
    assert_eq!(talk.hears(), ["disposition Receiver 0..=0 true Released"]);
}

#[test]
fn a_message_without_a_link_to_a_topic_says_so_itself() {
    let mut talk = attached(publisher_to(0, None));
    for (n, to, kind) in
        [(0, "/queues/q", 0), (1, "news", 1), (2, "/queues/q", 0), (3, "made", 3), (4, "news", 1)]
    {
        talk.transfers(whole(0, n), &message_of_kind(to, kind));
    }
    let asked: Vec<String> = talk.takes_asked();
    let asked: Vec<&str> = asked.iter().map(|it| it.split(" inline").next().unwrap()).collect();
    assert_eq!(
        asked,
        [
            "publish '' 'q'",
            "need topics 0",
            "publish 'jms.topic' 'news'",
            "publish '' 'q'",
            "publish 'jms.topic' 'made'",
            "publish 'jms.topic' 'news'",
        ]
    );
    talk.front.answer(SESSION, 1, 4, Confirmation::Unroutable);
    talk.front.answer(SESSION, 5, 5, Confirmation::Accepted);
    assert_eq!(
        talk.hears(),
        [
            "disposition Receiver 0..=0 true Released",
            "disposition Receiver 1..=1 true Accepted",
            "disposition Receiver 2..=3 true Released",
            "disposition Receiver 4..=4 true Accepted",
        ]
    );
    // A name alone, or one that is a queue's, is no topic.
    talk.transfers(whole(0, 5), &message_of_kind("news", 0));
    assert_eq!(talk.takes_asked(), [""; 0]);
}

#[test]
fn in_a_transaction_a_topic_needs_none_either() {
    let mut talk = Talk::begun();
    for attach in [controller(2), to_topic(0), publisher(1, "/queues/q")] {
        talk.says(&Performative::Attach(Box::new(attach)));
    }
    talk.transfers(whole(2, 0), &declare());
    let state = Some(transactional(&[0, 0, 0, 0, 0, 1], None));
    for (handle, n) in [(0, 1), (1, 2)] {
        talk.transfers(Transfer { state, ..whole(handle, n) }, M);
    }
    assert_eq!(talk.mandatory, [false, true]);
}

#[test]
fn a_topic_that_was_made_for_a_link_ends_with_it() {
    let mut talk = Talk::begun();
    talk.attaches = false;
    let target = TargetTerminus {
        expiry_policy: amqp10::Symbol("link-detach"),
        dynamic: true,
        capabilities: Symbols::One("temporary-topic"),
        ..TargetTerminus::default()
    };
    let asked = Some(LinkTarget::Terminus(target));
    talk.says(&Performative::Attach(Box::new(Attach { target: asked, ..publisher(0, "") })));
    let address = Some(ValueRef::Str("jms.temp-1"));
    let target = Some(LinkTarget::Terminus(TargetTerminus { address, ..target }));
    let attached = AttachedLink { link: LinkId(1), source: None, target, filters: None };
    talk.front.attached(key(0), Ok(attached), &mut Vec::new());
    talk.hears();
    talk.transfers(whole(0, 0), M);
    // Nothing stands for it any more.
    talk.front.answer(SESSION, 1, 1, Confirmation::Unroutable);
    assert_eq!(talk.hears(), ["disposition Receiver 0..=0 true Released"]);
    talk.says(&Performative::Detach(Detach { handle: 0, closed: true, error: None }));
    let asked = talk.takes_asked();
    assert!(asked[1].starts_with("publish 'jms.topic' 'jms.temp-1'"), "{asked:?}");
    assert_eq!(asked[2..], ["detach 1"]);
}

#[test]
fn a_message_of_jms_needs_no_body() {
    let mut talk = attached(to_topic(0));
    let mut message = Vec::new();
    put_message_annotations(&mut message, |items| {
        items.put_symbol("x-opt-jms-msg-type", ValueRef::I8(0));
    });
    talk.transfers(whole(0, 0), &message);
    assert_eq!(talk.takes_asked().len(), 1);
    let mut header = Vec::new();
    Section::Header(amqp10::Header::default()).encode(&mut header);
    talk.transfers(whole(0, 1), &header);
    assert!(talk.hears()[0].contains("it has no body"));
}
