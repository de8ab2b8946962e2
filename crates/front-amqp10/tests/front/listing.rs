//! Sessions and links as listings show them.

use crate::harness::{Talk, begin, consumer, disposition, flow, id, key, publisher, whole};
use amqp10::{
    Attach, Begin, DeliveryState, Detach, Flow, MapRef, Performative, SenderSettleMode, ValueRef,
};
use front_amqp10::{AttachedLink, SentMessage, listed_session};
use session::{
    ChannelId, Confirmation, ConsumerCredit, LinkId, ListedLink, ListedSession, Position,
};

fn listed(talk: &Talk) -> ListedSession {
    listed_session(&talk.front, ChannelId(0)).unwrap()
}

fn figures(link: &ListedLink) -> (u32, u32, u32) {
    (link.delivery_count, link.credit, link.n_unanswered)
}

#[test]
fn sessions_are_found_one_after_the_other() {
    let mut talk = Talk::begun();
    for channel in [3, 7] {
        let begin = Begin { incoming_window: 5, outgoing_window: 9, ..begin() };
        talk.says_on(channel, &Performative::Begin(Box::new(begin)));
    }
    let channels = [0, 1, 4, 8]
        .map(|from| listed_session(&talk.front, ChannelId(from)).map(|session| session.channel.0));
    assert_eq!(channels, [Some(0), Some(3), Some(7), None]);
    let windows = listed_session(&talk.front, ChannelId(7)).unwrap().windows;
    assert_eq!((windows.incoming, windows.next_incoming_id), (400, 0));
    assert_eq!((windows.remote_incoming, windows.remote_outgoing), (5, 9));
    talk.says_on(3, &Performative::End(amqp10::End { error: None }));
    assert_eq!(listed_session(&talk.front, ChannelId(1)).unwrap().channel, ChannelId(7));
}

#[test]
fn a_publishing_link_is_listed_with_its_credit() {
    let mut talk = Talk::begun();
    talk.says(&Performative::Attach(Box::new(publisher(2))));
    for n in 0..3 {
        talk.transfers(whole(2, n), b"\0\x53\x75\xa0\x01m");
    }
    let session = listed(&talk);
    assert_eq!((session.windows.incoming, session.windows.remote_outgoing), (397, 997));
    assert!(session.outgoing.is_empty(), "{session:?}");
    let [link] = &session.incoming[..] else { panic!("{session:?}") };
    assert_eq!((link.handle, &*link.name, link.settle_mode), (2, "link", "mixed"));
    assert_eq!(link.address.as_deref(), Some("/queues/q"));
    assert_eq!(figures(link), (3, 167, 3));
    talk.front.answer(ChannelId(0), 1, 2, Confirmation::Accepted);
    assert_eq!(figures(&listed(&talk).incoming[0]), (3, 167, 1));
    talk.says(&Performative::Detach(Detach { handle: 2, closed: true, error: None }));
    assert!(listed(&talk).incoming.is_empty());
}

#[test]
fn a_consuming_link_is_listed_with_its_queue_and_its_credit() {
    let mut talk = Talk::begun();
    let mut filter = Vec::new();
    amqp10::put_map(&mut filter, |items| items.put_symbol("f", ValueRef::U8(1)));
    let Ok((ValueRef::Map(map), _)) = ValueRef::decode(&filter) else { panic!("a map") };
    let plain = consumer(0);
    let source = plain.source.map(|source| amqp10::SourceTerminus {
        address: Some(ValueRef::Str("/queues/a%20b")),
        filter: Some(map),
        ..source
    });
    talk.attaches = false;
    talk.says(&Performative::Attach(Box::new(Attach { source, ..plain })));
    let in_place = AttachedLink { link: LinkId(1), source: None, target: None, filters: Some(map) };
    talk.front.attached(key(0), Ok(in_place), &mut Vec::new());
    talk.says(&Performative::Flow(Flow {
        handle: Some(0),
        delivery_count: Some(id(0)),
        link_credit: Some(u32::MAX),
        ..flow(0, 0)
    }));
    let deliver = |talk: &mut Talk, position| {
        let message = SentMessage::in_sections(Position(position), b"m");
        talk.front.deliver(key(0), message, &mut Vec::new());
    };
    deliver(&mut talk, 1);
    deliver(&mut talk, 2);
    let session = listed(&talk);
    assert_eq!((session.n_unsettled, session.windows.next_outgoing_id), (2, 2));
    let [link] = &session.outgoing[..] else { panic!("{session:?}") };
    assert_eq!(link.queue.as_deref(), Some("a b"));
    assert_eq!((link.settle_mode, link.message_bytes_max), ("unsettled", None));
    assert_eq!((figures(link), &link.filter), ((2, u32::MAX - 2, 0), &filter));
    talk.says(&disposition(0, 1, Some(DeliveryState::ACCEPTED)));
    let credit = ConsumerCredit {
        delivery_count: 12,
        credit: 0,
        available: 0,
        drain: true,
        is_active: None,
    };
    talk.front.flowed(key(0), credit);
    assert_eq!(listed(&talk).n_unsettled, 0);
    assert_eq!(figures(&listed(&talk).outgoing[0]), (12, 0, 0));
}

#[test]
fn names_and_filters_are_kept_within_bounds() {
    let mut talk = Talk::begun();
    let name = "n".repeat(1_000);
    let mut filter = Vec::new();
    amqp10::put_map(&mut filter, |items| items.put_symbol("f", ValueRef::Str(&"x".repeat(5_000))));
    let Ok((ValueRef::Map(map), _)) = ValueRef::decode(&filter) else { panic!("a map") };
    let plain = consumer(0);
    let source = plain.source.map(|source| amqp10::SourceTerminus { filter: Some(map), ..source });
    let snd_settle_mode = SenderSettleMode::Settled;
    let attach = Attach { name: &name, source, snd_settle_mode, ..plain };
    talk.says(&Performative::Attach(Box::new(attach)));
    let link = listed(&talk).outgoing.remove(0);
    assert_eq!((link.name.len(), link.filter.len(), link.settle_mode), (255, 0, "settled"));
    assert_ne!(map, MapRef::EMPTY);
}
