//! A connection's protocol front: reads to requests, deliveries and confirms to bytes.

use crate::codec::{FRAME_MAX, PERSISTENT, publishes};
use crate::{N_OPERATIONS, Piece, Work};
use amqp091::ProtocolHeader;
use amqp091::method::{BasicAck, ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk};
use edge::{TaskOutbox as _, WriteBatch};
use front_amqp091::{ClientOutbox, Connection, Settings};
use message::{Body, MessageRef};
use session::{
    ChannelId, Confirmation, Delivery, Event, LinkId, Outbox, Position, Request, ShortString, Sink,
};
use std::hint::black_box;
use std::sync::Arc;
use stdx::Now;

pub(crate) const PIECES: &[Piece] = &[
    ("front/ack", ack),
    ("front/confirm", confirm),
    ("front/deliver-12", || deliver(12)),
    ("front/deliver-1500", || deliver(1500)),
    ("front/publish-12", || publish(12)),
    ("front/publish-1500", || publish(1500)),
];

const NOW: Now = Now::at_ms(0);
const LINK: LinkId = LinkId(1);

/// A connection with channel 1 open.
fn running() -> Connection {
    let mut front = Connection::new(Arc::new(Settings::default()), NOW);
    let mut requests = Vec::new();
    let mut bytes = ProtocolHeader::encode_amqp([0, 0, 9, 1]).to_vec();
    let response = b"\0user\0password";
    ConnectionStartOk { mechanism: b"PLAIN", response, ..ConnectionStartOk::default() }
        .encode_frame(0, &mut bytes);
    front.read(NOW, &bytes, &mut requests);
    front.authenticated(Ok(()));
    bytes.clear();
    ConnectionTuneOk { channel_max: 9, frame_max: FRAME_MAX, heartbeat: 0 }
        .encode_frame(0, &mut bytes);
    ConnectionOpen::default().encode_frame(0, &mut bytes);
    front.read(NOW, &bytes, &mut requests);
    front.opened(NOW, Ok(()));
    bytes.clear();
    ChannelOpen::default().encode_frame(1, &mut bytes);
    front.read(NOW, &bytes, &mut requests);
    put(&front.outbox(), |sink| sink.event(Event::ChannelOpened(ChannelId(1))));
    front
}

fn put(outbox: &ClientOutbox, mut fill: impl FnMut(&mut dyn Sink)) {
    assert!(outbox.batch(&mut fill).is_none(), "nobody sleeps");
}

fn take(outbox: &ClientOutbox, batch: &mut WriteBatch) {
    assert!(outbox.try_take(batch));
    batch.advance(batch.n_left());
}

/// Works off a read; the front may want to be called again in between.
fn read(front: &mut Connection, mut input: &[u8], requests: &mut Vec<Request>) {
    let mut n_requests = 0;
    while !input.is_empty() {
        let progress = front.read(NOW, black_box(input), requests);
        assert!(progress.consumed > 0);
        input = input.split_at(progress.consumed).1;
        n_requests += requests.len() as u64;
        requests.clear();
    }
    assert_eq!(n_requests, N_OPERATIONS);
}

fn publish(body_bytes: usize) -> Work {
    let mut front = running();
    let input = publishes(body_bytes);
    let mut requests = Vec::new();
    Box::new(move || read(&mut front, &input, &mut requests))
}

/// Runs of confirms, as commits of the log cause them.
fn confirm() -> Work {
    let outbox = running().outbox();
    let (mut batch, mut last) = (WriteBatch::default(), 0);
    Box::new(move || {
        for _ in 0..N_OPERATIONS / 10 {
            put(&outbox, |sink| {
                sink.confirm(ChannelId(1), last + 1, last + 10, Confirmation::Accepted);
            });
            last += 10;
        }
        take(&outbox, &mut batch);
    })
}

fn consume(outbox: &ClientOutbox, no_ack: bool) {
    let tag = ShortString::from_static("consumer");
    put(outbox, |sink| {
        sink.event(Event::Attached {
            channel: ChannelId(1),
            link: LINK,
            consumer_tag: &tag,
            no_ack,
            filters: None,
            answer: true,
        });
    });
}

fn put_deliveries(outbox: &ClientOutbox, body: &[u8], last_position: &mut u64) {
    put(outbox, |sink| {
        for _ in 0..N_OPERATIONS {
            *last_position += 1;
            let message = MessageRef {
                exchange: b"",
                routing_key: b"queue",
                properties: PERSISTENT,
                body: Body::Borrowed(black_box(body)),
                persistent: true,
                annotations: Default::default(),
                form: message::BodyForm::Plain,
            };
            let position = Position(*last_position);
            sink.deliver(
                LINK,
                Delivery {
                    position,
                    redelivered: false,
                    n_failed: 0,
                    settled_by_write: false,
                    message: &message,
                },
            );
        }
    });
}

fn deliver(body_bytes: usize) -> Work {
    let outbox = running().outbox();
    consume(&outbox, true);
    let body = vec![b'x'; body_bytes];
    let (mut batch, mut last_position) = (WriteBatch::default(), 0);
    // The two buffers that take turns both get their size.
    for _ in 0..2 {
        put_deliveries(&outbox, &body, &mut last_position);
        take(&outbox, &mut batch);
    }
    Box::new(move || {
        put_deliveries(&outbox, &body, &mut last_position);
        take(&outbox, &mut batch);
    })
}

/// Deliveries and an acknowledgement of each.
fn ack() -> Work {
    let mut front = running();
    let outbox = front.outbox();
    consume(&outbox, false);
    let (mut batch, mut last_position) = (WriteBatch::default(), 0);
    let (mut acks, mut requests) = (Vec::new(), Vec::new());
    Box::new(move || {
        acks.clear();
        for n in 1..=N_OPERATIONS {
            let ack = BasicAck { delivery_tag: last_position + n, multiple: false };
            ack.encode_frame(1, &mut acks);
        }
        put_deliveries(&outbox, b"hello, world", &mut last_position);
        take(&outbox, &mut batch);
        read(&mut front, &acks, &mut requests);
    })
}
