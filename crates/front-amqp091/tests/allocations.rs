//! In steady state a message costs no allocation: not when it is published, not when it is
//! delivered, not when it is settled and not when it is confirmed.

use amqp091::content::encode_content;
use amqp091::method::{
    BasicAck, BasicPublish, ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk,
};
use amqp091::{PropertiesRef, ProtocolHeader, ShortString};
use edge::{TaskOutbox as _, WriteBatch};
use front_amqp091::{ClientOutbox, Connection, Settings};
use message::{Body, MessageRef};
use session::{
    ChannelId, Confirmation, Content, Delivery, Event, LinkId, Outbox, Position, Request,
};
use std::sync::Arc;
use stdx::Now;

#[global_allocator]
static ALLOCATOR: counting::Allocator = counting::Allocator;

const NOW: Now = Now::at_ms(0);
/// Fewer than are made into requests in one go.
const BATCH: u64 = 200;

fn running() -> Connection {
    let mut front = Connection::new(Arc::new(Settings::default()), NOW);
    let mut bytes = ProtocolHeader::encode_amqp([0, 0, 9, 1]).to_vec();
    ConnectionStartOk { mechanism: b"PLAIN", response: b"\0a\0b", ..ConnectionStartOk::default() }
        .encode_frame(0, &mut bytes);
    let mut requests = Vec::new();
    front.read(NOW, &bytes, &mut requests);
    front.authenticated(Ok(()));
    bytes.clear();
    ConnectionTuneOk { channel_max: 9, frame_max: 131_072, heartbeat: 0 }
        .encode_frame(0, &mut bytes);
    ConnectionOpen::default().encode_frame(0, &mut bytes);
    front.read(NOW, &bytes, &mut requests);
    front.opened(NOW, Ok(()));
    bytes.clear();
    ChannelOpen::default().encode_frame(1, &mut bytes);
    front.read(NOW, &bytes, &mut requests);
    front
}

/// Delivers every publish of `requests` on link 1.
fn relay(outbox: &ClientOutbox, input: &[u8], requests: &[Request], position: &mut u64) {
    assert!(
        outbox
            .batch(&mut |sink| {
                for request in requests {
                    let Request::Publish(publish) = request else { panic!("not a publish") };
                    let Content::Inline(body) = &publish.content else { panic!("gathered") };
                    *position += 1;
                    let message = MessageRef {
                        exchange: publish.exchange.of(input),
                        routing_key: publish.routing_key.of(input),
                        properties: publish.properties.of(input),
                        body: Body::Borrowed(body.of(input)),
                        persistent: publish.persistent,
                        annotations: Default::default(),
                        form: message::BodyForm::Plain,
                    };
                    let position = Position(*position);
                    sink.deliver(
                        LinkId(1),
                        Delivery {
                            position,
                            redelivered: false,
                            n_failed: 0,
                            settled_by_write: false,
                            message: &message,
                        },
                    );
                }
                sink.confirm(
                    ChannelId(1),
                    *position + 1 - BATCH,
                    *position,
                    Confirmation::Accepted,
                );
            })
            .is_none()
    );
}

#[test]
fn a_message_costs_no_allocation() {
    let mut front = running();
    let outbox = front.outbox();
    let tag = ShortString::from_static("consumer");
    assert!(
        outbox
            .batch(&mut |sink| {
                sink.event(Event::ChannelOpened(ChannelId(1)));
                sink.event(Event::Attached {
                    channel: ChannelId(1),
                    link: LinkId(1),
                    consumer_tag: &tag,
                    no_ack: false,
                    filters: None,
                    answer: true,
                });
            })
            .is_none()
    );
    let mut input = Vec::new();
    for _ in 0..BATCH {
        let publish = BasicPublish { routing_key: b"key", ..BasicPublish::default() };
        publish.encode_frame(1, &mut input);
        let properties = PropertiesRef::parse(b"\x10\0\x02").unwrap();
        encode_content(1, properties, b"hello, world", 131_072, &mut input);
    }
    let (mut requests, mut batch, mut position) = (Vec::new(), WriteBatch::default(), 0_u64);
    let mut acks = Vec::new();
    let mut before = counting::in_thread();
    for round in 0..20 {
        if round == 10 {
            before = counting::in_thread();
        }
        let progress = front.read(NOW, &input, &mut requests);
        assert_eq!(progress.consumed, input.len());
        relay(&outbox, &input, &requests, &mut position);
        requests.clear();
        assert!(outbox.try_take(&mut batch));
        batch.advance(batch.n_left());
        acks.clear();
        for tag in position + 1 - BATCH..=position {
            BasicAck { delivery_tag: tag, multiple: false }.encode_frame(1, &mut acks);
        }
        front.read(NOW, &acks, &mut requests);
        assert_eq!(requests.len() as u64, BATCH);
        requests.clear();
        assert!(!outbox.try_take(&mut batch));
    }
    let n_allocations = counting::in_thread().since(before).n_allocations;
    assert_eq!(n_allocations, 0, "{n_allocations} allocations for {} messages", 10 * BATCH);
}
