//! In steady state nothing is allocated for a message: not when it is published or delivered, not for its
//! outcome either way.

use amqp10::{
    Begin, DeliveryState, Disposition, FrameType, Performative, ProtocolLayer, Role, SerialNumber,
    put_frame,
};
use front_amqp10::{AttachedLink, ConnectionSettings, LinkHandle, SentMessage, ServerConnection};
use session::{ChannelId, Confirmation, LinkId, Position};
use std::sync::Arc;
use testing::amqp10_client;

#[global_allocator]
static ALLOCATOR: counting::Allocator = counting::Allocator;

/// Messages of one read.
const BATCH: u32 = 50;

/// A connection with a publisher and a consumer.
fn running() -> ServerConnection {
    let mut front = ServerConnection::new(Arc::new(ConnectionSettings::default()));
    let mut requests = Vec::new();
    let mut bytes = ProtocolLayer::Sasl.header().to_vec();
    bytes.extend(amqp10_client::init("PLAIN", b"\0a\0b"));
    front.read(&bytes, &mut requests);
    front.authenticated(Ok(()));
    bytes = ProtocolLayer::Amqp.header().to_vec();
    Performative::Open(Box::new(amqp10_client::open())).encode_frame(0, &mut bytes);
    front.read(&bytes, &mut requests);
    front.opened(Ok(()));
    bytes.clear();
    let begin =
        Begin { incoming_window: u32::MAX, outgoing_window: u32::MAX, ..amqp10_client::begin() };
    Performative::Begin(Box::new(begin)).encode_frame(0, &mut bytes);
    for attach in
        [amqp10_client::publisher(0, "/queues/q"), amqp10_client::consumer(1, "/queues/q")]
    {
        Performative::Attach(Box::new(attach)).encode_frame(0, &mut bytes);
    }
    front.read(&bytes, &mut requests);
    for handle in [0, 1] {
        let key = LinkHandle { channel: ChannelId(0), handle };
        let link = LinkId(u64::from(handle));
        let attached = AttachedLink { link, source: None, target: None, filters: None };
        front.attached(key, Ok(attached), &mut requests);
    }
    front
}

/// The client's frames of one round: messages, and the settlement of those of the round before.
fn round(n: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for id in n * BATCH..(n + 1) * BATCH {
        put_frame(&mut bytes, FrameType::Amqp, 0, |out| {
            amqp10_client::transfer(0, id).encode(out);
            out.extend_from_slice(b"\x00\x53\x75\xa0\x01m");
        });
    }
    let disposition = Disposition {
        role: Role::Receiver,
        first: SerialNumber::new(n.saturating_sub(1) * BATCH),
        last: Some(SerialNumber::new(n * BATCH - n.min(1))),
        settled: true,
        state: Some(DeliveryState::ACCEPTED),
        batchable: false,
    };
    Performative::Disposition(disposition).encode_frame(0, &mut bytes);
    bytes
}

#[test]
fn messages_allocate_nothing_in_steady_state() {
    let mut front = running();
    let rounds: Vec<Vec<u8>> = (0..40).map(round).collect();
    let (mut out, mut requests) = (Vec::with_capacity(64 * 1024), Vec::with_capacity(1024));
    let consumer = LinkHandle { channel: ChannelId(0), handle: 1 };
    let mut allocated = 0;
    for (n, bytes) in (0_u64..).zip(&rounds) {
        let before = counting::in_thread();
        requests.clear();
        front.read(bytes, &mut requests);
        for position in n * u64::from(BATCH)..(n + 1) * u64::from(BATCH) {
            let delivery = SentMessage::in_sections(Position(position), b"\x00\x53\x75\xa0\x01m");
            front.deliver(consumer, delivery, &mut requests);
        }
        let first = n * u64::from(BATCH) + 1;
        front.answer(ChannelId(0), first, first + u64::from(BATCH) - 1, Confirmation::Accepted);
        out.clear();
        front.take_output(&mut out);
        if n >= 20 {
            allocated += counting::in_thread().since(before).n_allocations;
        }
    }
    assert!(requests.len() >= BATCH as usize);
    assert_eq!(allocated, 0);
}
