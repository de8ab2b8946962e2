//! In steady state nothing is allocated for a message: not when it is published or delivered, not for its
//! outcome either way.

use amqp10::{
    Begin, DeliveryState, Disposition, FrameType, Header, Performative, ProtocolLayer, Role,
    Section, SerialNumber, ValueRef, put_application_properties, put_frame,
    put_message_annotations,
};
use conversion::{DecodeBuffer, DeliveryAttempt, Origin, take_amqp10};
use front_amqp10::{
    AttachedLink, ConnectionSettings, LinkHandle, LinkRequest, SentContent, SentMessage,
    ServerConnection,
};
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

/// Allocations of twenty rounds, in each of which a batch of messages comes and is answered, and a batch that
/// `deliver` delivers goes out; after as many rounds that are not counted.
fn allocated(
    mut deliver: impl FnMut(&mut ServerConnection, Position, &mut Vec<LinkRequest>),
) -> u64 {
    let mut front = running();
    let rounds: Vec<Vec<u8>> = (0..40).map(round).collect();
    let (mut out, mut requests) = (Vec::with_capacity(64 * 1024), Vec::with_capacity(1024));
    let mut allocated = 0;
    for (n, bytes) in (0_u64..).zip(&rounds) {
        let before = counting::in_thread();
        requests.clear();
        front.read(bytes, &mut requests);
        for position in n * u64::from(BATCH)..(n + 1) * u64::from(BATCH) {
            deliver(&mut front, Position(position), &mut requests);
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
    allocated
}

const CONSUMER: LinkHandle = LinkHandle { channel: ChannelId(0), handle: 1 };

#[test]
fn messages_allocate_nothing_in_steady_state() {
    let n_allocated = allocated(|front, position, requests| {
        let message = SentMessage::in_sections(position, b"\x00\x53\x75\xa0\x01m");
        front.deliver(CONSUMER, message, requests);
    });
    assert_eq!(n_allocated, 0);
}

#[test]
fn messages_of_streams_allocate_nothing_in_steady_state() {
    let stored: Vec<Vec<u8>> = (0..7_u8).map(stored_in_stream).collect();
    let mut buffer = DecodeBuffer::default();
    let n_allocated = allocated(|front, position, requests| {
        let (offset, turn) = (position.0, usize::try_from(position.0).unwrap_or_default());
        let origin = Origin { stream: b"stream", offset };
        let message = &take_amqp10(&stored[turn % stored.len()], origin, &mut buffer);
        let content = SentContent::Stored { message, attempt: DeliveryAttempt::FIRST };
        front.deliver(CONSUMER, SentMessage { position, content }, requests);
    });
    assert_eq!(n_allocated, 0);
}

/// A message with an application property of its own.
fn stored_in_stream(n: u8) -> Vec<u8> {
    let mut stored = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut stored);
    put_message_annotations(&mut stored, |items| {
        items.put_symbol("x-exchange", ValueRef::Str(""));
        items.put_symbol("x-routing-key", ValueRef::Str("stream"));
    });
    put_application_properties(&mut stored, |items| items.put_symbol("n", ValueRef::U8(n)));
    Section::Data(b"m").encode(&mut stored);
    stored
}
