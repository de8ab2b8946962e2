//! The broker's questions to an outbox: which deliveries are settled by their write, and which nobody
//! has settled.

use crate::harness::{Talk, describe};
use amqp091::method::{
    BasicAck, BasicRecover, BasicRecoverAsync, ChannelClose, ChannelOpen, ConnectionClose,
    TxCommit, TxRollback, TxSelect,
};
use edge::{TaskOutbox as _, WriteBatch};
use front_amqp091::Settings;
use message::{Body, MessageRef};
use session::{
    ChannelId, Delivery, Error, ErrorKind, Event, Flag, LinkId, Outbox, Position, Request,
};

/// One delivery of the harness on the wire, but for its body.
const FRAMES_BYTES: usize = 8 + 4 + 2 + 8 + 1 + 3 + 4 + 8 + 14 + 8;

fn ack(delivery_tag: u64) -> BasicAck {
    BasicAck { delivery_tag, multiple: false }
}

fn unsettled(talk: &Talk, link: u64) -> Vec<u64> {
    talk.outbox.unsettled(&[LinkId(link)]).into_iter().map(|(_, position)| position.0).collect()
}

/// The settlements that the outbox hands on.
fn settled(talk: &Talk) -> Vec<String> {
    let mut settles = Vec::new();
    while talk.outbox.take_settled(&mut settles) {}
    settles.into_iter().map(|settle| describe(&Request::Settle(settle), b"")).collect()
}

fn write(talk: &Talk, batch: &mut WriteBatch, n: usize) {
    batch.advance(n);
    talk.outbox.wrote(batch);
}

#[test]
fn what_nobody_acknowledges_is_settled_by_its_last_byte() {
    let talk = Talk::open(Settings::default(), &[1, 2]);
    talk.consume(1, 1, "a", Flag::Yes);
    talk.consume(2, 2, "b", Flag::Yes);
    for (link, position) in [(1, 5), (2, 5), (1, 6), (1, 7)] {
        talk.deliver_unacknowledged(link, position, b"hi");
    }
    let mut batch = WriteBatch::default();
    assert!(talk.outbox.try_take(&mut batch));
    assert!(batch.is_watched);
    let one = FRAMES_BYTES + 2;
    assert_eq!(batch.n_left(), 4 * one);
    write(&talk, &mut batch, one - 1);
    assert!(!talk.outbox.has_settled());
    assert_eq!(unsettled(&talk, 1), [5, 6, 7]);
    write(&talk, &mut batch, 1);
    assert!(talk.outbox.has_settled());
    assert_eq!(settled(&talk), ["Accepted ch1 link1 at5"]);
    assert_eq!(unsettled(&talk, 1), [6, 7]);
    write(&talk, &mut batch, one);
    assert_eq!(settled(&talk), ["Accepted ch2 link2 at5"]);
    talk.deliver_unacknowledged(1, 8, b"hi");
    write(&talk, &mut batch, 2 * one);
    assert!(batch.is_written());
    assert_eq!(settled(&talk), ["Accepted ch1 link1 at6", "Accepted ch1 link1 at7"]);
    assert_eq!(unsettled(&talk, 1), [8]);
    assert!(talk.outbox.try_take(&mut batch));
    write(&talk, &mut batch, one);
    assert_eq!(settled(&talk), ["Accepted ch1 link1 at8"]);
    assert_eq!(unsettled(&talk, 1), [0; 0]);
    assert!(!talk.outbox.try_take(&mut batch));
    assert!(!batch.is_watched);
}

#[test]
fn a_task_is_told_of_settlements_although_nothing_waits_to_be_written() {
    let talk = Talk::open(Settings::default(), &[1]);
    talk.consume(1, 1, "a", Flag::Yes);
    talk.deliver_unacknowledged(1, 1, b"hi");
    let mut batch = WriteBatch::default();
    assert!(talk.outbox.try_take(&mut batch));
    let n = batch.n_left();
    write(&talk, &mut batch, n);
    assert!(talk.outbox.try_take(&mut batch), "there is something to settle");
    assert_eq!((batch.n_left(), batch.is_watched), (0, true));
    assert_eq!(settled(&talk), ["Accepted ch1 link1 at1"]);
    assert!(!talk.outbox.try_take(&mut batch));
}

#[test]
fn a_message_got_without_acknowledgement_is_settled_by_its_write() {
    let mut talk = Talk::open(Settings::default(), &[1]);
    let message = MessageRef {
        exchange: b"ex",
        routing_key: b"key",
        properties: b"\0\0",
        body: Body::Borrowed(b""),
        persistent: false,
        annotations: Default::default(),
        form: message::BodyForm::Plain,
    };
    let got = |position, settled_by_write| {
        let (channel, link, position) = (ChannelId(1), LinkId(4), Position(position));
        let delivery = Delivery {
            position,
            redelivered: false,
            n_failed: 0,
            settled_by_write,
            message: &message,
        };
        talk.event(Event::Got { channel, link, delivery, no_ack: settled_by_write, n_ready: 0 });
    };
    got(1, true);
    got(2, false);
    got(3, true);
    assert_eq!(unsettled(&talk, 4), [1, 2, 3]);
    let mut batch = WriteBatch::default();
    assert!(talk.outbox.try_take(&mut batch));
    let n = batch.n_left();
    write(&talk, &mut batch, n);
    assert_eq!(settled(&talk), ["Accepted ch1 link4 at1", "Accepted ch1 link4 at3"]);
    assert_eq!(unsettled(&talk, 4), [2]);
    talk.says(1, ack(2));
    assert_eq!(talk.asked, ["Accepted ch1 link4 at2"]);
    assert_eq!(unsettled(&talk, 4), [0; 0]);
}

#[test]
fn what_a_closing_channel_was_delivered_goes_back_written_or_not() {
    let mut talk = Talk::open(Settings::default(), &[1]);
    talk.consume(1, 1, "a", Flag::No);
    talk.consume(1, 2, "b", Flag::Yes);
    for position in 1..=3 {
        talk.deliver(1, position, Body::Borrowed(b"hi"));
    }
    talk.deliver_unacknowledged(2, 1, b"hi");
    talk.says(1, ack(2));
    // The client closes; the broker goes on delivering until it hears of it.
    let mut requests = Vec::new();
    let mut bytes = Vec::new();
    for method in [
        amqp091::Method::from(ChannelClose::default()),
        ChannelOpen::default().into(),
        ack(1).into(),
    ] {
        method.encode_frame(1, &mut bytes);
    }
    talk.front.read(talk.now, &bytes, &mut requests);
    let asked: Vec<String> = requests.iter().map(|request| describe(request, &bytes)).collect();
    assert_eq!(asked[..2], ["ch1 CloseChannel", "ch1 OpenChannel"]);
    assert!(asked[2].contains("unknown delivery tag 1"), "{asked:?}");
    talk.deliver(1, 4, Body::Borrowed(b"late"));
    talk.deliver_unacknowledged(2, 2, b"late");
    assert_eq!(unsettled(&talk, 1), [1, 3, 4]);
    assert_eq!(unsettled(&talk, 2), [1, 2]);
    talk.event(Event::ChannelClosed(ChannelId(1)));
    assert_eq!(unsettled(&talk, 1), [0; 0]);
    let written = talk.hears();
    assert_eq!(written.iter().filter(|frame| frame.contains("body hi")).count(), 4);
    assert!(!written.iter().any(|frame| frame.contains("late")), "{written:?}");
    assert_eq!(settled(&talk), [""; 0], "it went back");
}

#[test]
fn what_was_delivered_is_known_until_the_connection_is_gone() {
    let failed = |talk: &Talk| {
        let error = Error::new(ErrorKind::InternalError, "oh");
        talk.event(Event::ConnectionFailed { channel: None, error, origin: None });
    };
    let closed = |talk: &Talk| talk.event(Event::ConnectionClosed);
    for end in [&failed as &dyn Fn(&Talk), &closed] {
        let mut talk = Talk::open(Settings::default(), &[1]);
        talk.consume(1, 1, "a", Flag::No);
        talk.consume(1, 2, "b", Flag::Yes);
        talk.deliver(1, 1, Body::Borrowed(b"hi"));
        talk.deliver_unacknowledged(2, 1, b"hi");
        end(&talk);
        talk.deliver(1, 2, Body::Borrowed(b"late"));
        assert_eq!(unsettled(&talk, 1), [1, 2]);
        assert_eq!(unsettled(&talk, 2), [1]);
        assert!(!talk.hears().iter().any(|frame| frame.contains("late")));
    }
    let mut talk = Talk::open(Settings::default(), &[1]);
    talk.consume(1, 1, "a", Flag::No);
    talk.deliver(1, 1, Body::Borrowed(b"hi"));
    talk.says(0, ConnectionClose::default());
    assert_eq!(unsettled(&talk, 1), [1]);
}

#[test]
fn what_a_client_has_recovered_is_named_once() {
    for is_async in [false, true] {
        let mut talk = Talk::open(Settings::default(), &[1]);
        talk.consume(1, 1, "a", Flag::No);
        talk.consume(1, 2, "b", Flag::No);
        for position in 1..=3 {
            talk.deliver(1, position, Body::Borrowed(b"hi"));
            talk.deliver(2, position, Body::Borrowed(b"hi"));
        }
        talk.says(1, ack(3));
        let mut bytes = Vec::new();
        if is_async {
            BasicRecoverAsync { requeue: true }.encode_frame(1, &mut bytes);
        } else {
            BasicRecover { requeue: true }.encode_frame(1, &mut bytes);
        }
        let mut requests = Vec::new();
        talk.front.read(talk.now, &bytes, &mut requests);
        let [Request::Control(control)] = &requests[..] else { panic!("{requests:?}") };
        talk.deliver(1, 4, Body::Borrowed(b"just before"));
        talk.event(Event::Done { channel: control.channel, origin: control.origin });
        let told = talk.hears().last().cloned().unwrap();
        assert_eq!(told == "1 basic.recover-ok", !is_async, "{told}");
        assert_eq!(unsettled(&talk, 1), [1, 3, 4]);
        talk.deliver(1, 1, Body::Borrowed(b"again"));
        assert_eq!(unsettled(&talk, 1), [1]);
        talk.deliver(1, 3, Body::Borrowed(b"again"));
        talk.batch(|sink| sink.released(control.channel));
        assert_eq!(unsettled(&talk, 1), [3]);
        assert_eq!(unsettled(&talk, 1), [3]);
        assert_eq!(unsettled(&talk, 2), [0; 0], "its queue knows what went back");
    }
}

#[test]
fn acknowledgements_count_from_their_commit_on() {
    let mut talk = Talk::open(Settings::default(), &[1]);
    talk.says(1, TxSelect {});
    talk.consume(1, 1, "a", Flag::No);
    for position in 1..=4 {
        talk.deliver(1, position, Body::Borrowed(b"hi"));
    }
    talk.says(1, ack(3));
    talk.says(1, ack(1));
    assert_eq!(unsettled(&talk, 1), [1, 2, 3, 4]);
    talk.says(1, TxRollback {});
    assert_eq!(unsettled(&talk, 1), [1, 2, 3, 4]);
    talk.says(1, ack(2));
    talk.says(1, TxCommit {});
    assert_eq!(unsettled(&talk, 1), [1, 3, 4]);
}
