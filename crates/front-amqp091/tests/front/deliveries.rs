use crate::harness::Talk;
use amqp091::method::{ChannelClose, ChannelOpen, ConfirmSelect};
use bytes::Bytes;
use edge::{OUTBOX_HIGH_WATER_BYTES, OUTBOX_STUCK_BYTES, TaskOutbox as _, WriteBatch};
use front_amqp091::Settings;
use message::{Body, MessageRef, Refusal};
use session::{
    ChannelId, Confirmation, Delivery, Event, Flag, LinkId, Outbox, Position, RefusedBy,
    ReturnReason, Room, ShortString,
};
use std::task::{Context, Waker};

fn message(body: &[u8]) -> MessageRef<'_> {
    MessageRef {
        exchange: b"ex",
        routing_key: b"key",
        properties: b"\0\0",
        body: Body::Borrowed(body),
        persistent: false,
        annotations: Default::default(),
        form: message::BodyForm::Plain,
    }
}

/// Sections of AMQP 1.0 are converted as they are handed over.
#[test]
fn messages_of_amqp_1_0_are_delivered_as_those_of_this_protocol() {
    let mut talk = Talk::open(Settings::default(), &[1]);
    talk.consume(1, 1, "a", Flag::No);
    let sections = message(b"\x00\x53\x75\xa0\x02hi");
    let message = MessageRef { form: message::BodyForm::Amqp10, ..sections };
    let delivery = Delivery {
        position: Position(1),
        redelivered: false,
        n_failed: 0,
        settled_by_write: false,
        message: &message,
    };
    for _ in 0..2 {
        talk.batch(|sink| assert_ne!(sink.deliver(LinkId(1), delivery), Room::Full));
    }
    let (channel, link, no_ack, n_ready) = (ChannelId(1), LinkId(2), false, 0);
    talk.event(Event::Got { channel, link, delivery, no_ack, n_ready });
    assert_eq!(
        talk.hears(),
        [
            "1 basic.deliver a 1 ex/key",
            "1 header 2",
            "1 body hi",
            "1 basic.deliver a 2 ex/key",
            "1 header 2",
            "1 body hi",
            "1 basic.get-ok 3 left 0",
            "1 header 2",
            "1 body hi",
        ]
    );
}

#[test]
fn deliveries_are_numbered_per_channel_and_anew_after_reopening() {
    let mut talk = Talk::open(Settings::default(), &[1, 2]);
    talk.consume(1, 1, "a", Flag::No);
    talk.consume(1, 2, "b", Flag::Yes);
    talk.consume(2, 3, "c", Flag::No);
    for link in [1, 2, 3, 1] {
        talk.deliver(link, 0, Body::Borrowed(b"hi"));
    }
    let got = Delivery {
        position: Position(9),
        redelivered: true,
        n_failed: 0,
        settled_by_write: false,
        message: &message(b""),
    };
    talk.event(Event::Got {
        channel: ChannelId(1),
        link: LinkId(4),
        delivery: got,
        no_ack: false,
        n_ready: 6,
    });
    assert_eq!(
        talk.hears(),
        [
            "1 basic.deliver a 1 ex/key",
            "1 header 2",
            "1 body hi",
            "1 basic.deliver b 2 ex/key",
            "1 header 2",
            "1 body hi",
            "2 basic.deliver c 1 ex/key",
            "2 header 2",
            "2 body hi",
            "1 basic.deliver a 3 ex/key",
            "1 header 2",
            "1 body hi",
            "1 basic.get-ok 4 left 6",
            "1 header 0",
        ]
    );
    talk.says(1, ChannelClose::default());
    talk.says(1, ChannelOpen::default());
    talk.consume(1, 5, "a", Flag::No);
    talk.deliver(1, 0, Body::Borrowed(b"too late"));
    talk.deliver(5, 0, Body::Borrowed(b"hi"));
    assert_eq!(
        talk.hears(),
        [
            "1 channel.close-ok",
            "1 channel.open-ok",
            "1 basic.deliver a 1 ex/key",
            "1 header 2",
            "1 body hi",
        ]
    );
}

#[test]
fn large_bodies_are_split_the_same_whether_copied_or_shared() {
    let body: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let shared = Bytes::from(body.clone());
    let written = |body: Body<'_>| {
        let mut talk = Talk::open(Settings::default(), &[1]);
        talk.consume(1, 1, "a", Flag::No);
        talk.deliver(1, 0, body);
        talk.deliver(1, 0, Body::Borrowed(b"behind"));
        talk.bytes()
    };
    let bytes = written(Body::Shared(&shared));
    assert_eq!(bytes, written(Body::Borrowed(&body)));
    assert_eq!(
        crate::harness::frames(&bytes)[1..5],
        ["1 header 300000", "1 body of 131064", "1 body of 131064", "1 body of 37872"]
    );
}

#[test]
fn a_full_outbox_says_so_and_names_the_links_once_it_is_written() {
    let talk = Talk::open(Settings::default(), &[1]);
    talk.consume(1, 1, "a", Flag::No);
    talk.consume(1, 2, "b", Flag::No);
    let body = vec![0; 100_000];
    let message = message(&body);
    let delivery = Delivery {
        position: Position(0),
        redelivered: false,
        n_failed: 0,
        settled_by_write: false,
        message: &message,
    };
    let mut rooms = Vec::new();
    talk.batch(|sink| {
        for link in [1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2] {
            rooms.push(sink.deliver(LinkId(link), delivery));
        }
    });
    let n_full = rooms.iter().filter(|room| **room == Room::Full).count();
    assert_eq!(n_full, 2);
    assert!(matches!(rooms[0], Room::Bytes(n) if n < OUTBOX_HIGH_WATER_BYTES - 100_000));
    assert!(talk.outbox.n_pending() < OUTBOX_STUCK_BYTES);
    let mut batch = WriteBatch::default();
    assert!(talk.outbox.try_take(&mut batch));
    assert!(batch.resume().is_empty(), "too much is on its way");
    assert!(talk.outbox.n_pending() > OUTBOX_HIGH_WATER_BYTES);
    let n = batch.n_left();
    batch.advance(n);
    assert!(talk.outbox.try_take(&mut batch));
    assert!(batch.is_written());
    assert_eq!(batch.resume(), &[LinkId(1), LinkId(2)]);
    batch.resume().clear();
    assert!(!talk.outbox.try_take(&mut batch));
    assert_eq!(talk.outbox.n_pending(), 0);
}

#[test]
fn a_readable_link_wakes_the_task_and_is_named_once() {
    let talk = Talk::open(Settings::default(), &[1]);
    talk.consume(1, 1, "a", Flag::No);
    let mut batch = WriteBatch::default();
    talk.outbox.try_take(&mut batch);
    let n = batch.n_left();
    batch.advance(n);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(talk.outbox.poll_take(&mut cx, &mut batch).is_pending());
    let readable = |links: &[u64]| {
        talk.outbox.batch(&mut |sink| links.iter().for_each(|link| sink.readable(LinkId(*link))))
    };
    assert!(readable(&[7]).is_none(), "there is no such link");
    assert!(readable(&[1, 1]).is_some());
    assert!(talk.outbox.try_take(&mut batch));
    assert!(batch.is_written());
    assert_eq!(batch.resume(), &[LinkId(1)]);
    batch.resume().clear();
    let _awake = readable(&[1]);
    assert!(talk.outbox.try_take(&mut batch));
    assert_eq!(batch.resume(), &[LinkId(1)]);
}

#[test]
fn returns_come_before_confirms_and_confirms_before_the_end_of_the_channel() {
    let mut talk = Talk::open(Settings::default(), &[1]);
    talk.says(1, ConfirmSelect { no_wait: true });
    talk.batch(|sink| {
        sink.confirm(ChannelId(1), 1, 1, Confirmation::Accepted);
        sink.event(Event::Returned {
            channel: ChannelId(1),
            reason: ReturnReason::Unroutable,
            message: message(b"back"),
        });
        sink.event(Event::Returned {
            channel: ChannelId(1),
            reason: ReturnReason::NoConsumers,
            message: message(b"now"),
        });
        sink.confirm(ChannelId(1), 2, 3, Confirmation::Accepted);
        let by = RefusedBy { queue: "q", why: Refusal::MaxLen };
        sink.confirm(ChannelId(1), 5, 5, Confirmation::Refused(by));
    });
    assert_eq!(
        talk.hears(),
        [
            "1 basic.return 312 NO_ROUTE",
            "1 header 4",
            "1 body back",
            "1 basic.return 313 NO_CONSUMERS",
            "1 header 3",
            "1 body now",
            "1 basic.ack 3 multiple",
            "1 basic.nack 5",
        ]
    );
    talk.batch(|sink| sink.confirm(ChannelId(1), 4, 4, Confirmation::Accepted));
    talk.says(1, ChannelClose::default());
    talk.batch(|sink| sink.confirm(ChannelId(1), 6, 6, Confirmation::Accepted));
    assert_eq!(talk.hears(), ["1 basic.ack 4", "1 channel.close-ok"]);
}

#[test]
fn ends_of_consumers_and_alarms_are_told_to_those_who_understand() {
    let mut talk = Talk::open(Settings::default(), &[1]);
    talk.consume(1, 1, "a", Flag::No);
    let tag = ShortString::from_static("a");
    talk.event(Event::ConsumerCancelled {
        channel: ChannelId(1),
        link: LinkId(1),
        consumer_tag: &tag,
    });
    talk.deliver(1, 0, Body::Borrowed(b"nobody is there"));
    talk.event(Event::Blocked { reason: "low on memory" });
    talk.event(Event::Unblocked);
    talk.event(Event::QueueDeclared {
        channel: ChannelId(1),
        queue: b"q",
        n_ready: u64::MAX,
        n_consumers: 2,
    });
    assert_eq!(
        talk.hears(),
        [
            "1 basic.cancel a",
            "0 connection.blocked low on memory",
            "0 connection.unblocked",
            "1 queue.declare-ok q 4294967295 2",
        ]
    );
}

#[test]
fn nothing_follows_the_end() {
    let mut talk = Talk::open(Settings::default(), &[1]);
    talk.consume(1, 1, "a", Flag::No);
    talk.event(Event::ConnectionClosed);
    talk.deliver(1, 0, Body::Borrowed(b"late"));
    talk.event(Event::ChannelClosed(ChannelId(1)));
    assert_eq!(talk.hears(), ["0 connection.close-ok"]);
    assert!(talk.outbox.batch(&mut |_| {}).is_none());
}
