//! In steady state nothing is allocated for a message: not when it is published or delivered, not for its
//! outcome either way.

use amqp10::{
    Attach, Begin, DeliveryState, DeliveryTag, Disposition, FrameType, LinkTarget, MapRef, Open,
    Performative, ProtocolLayer, ReceiverSettleMode, Role, SaslInit, SaslPerformative,
    SenderSettleMode, SerialNumber, SourceTerminus, Symbol, Symbols, TargetTerminus,
    TerminusDurability, Transfer, ValueRef, put_frame,
};
use front_amqp10::{AttachedLink, ConnectionSettings, LinkHandle, SentMessage, ServerConnection};
use session::{ChannelId, Confirmation, LinkId, Position};
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: counting::Allocator = counting::Allocator;

/// Messages of one read.
const BATCH: u32 = 50;

fn attach(handle: u32, role: Role) -> Vec<u8> {
    let target = TargetTerminus {
        address: Some(ValueRef::Str("/queues/q")),
        durable: TerminusDurability::None,
        expiry_policy: Symbol("session-end"),
        timeout: 0,
        dynamic: false,
        dynamic_node_properties: MapRef::EMPTY,
        capabilities: Symbols::NONE,
    };
    let attach = Attach {
        name: "link",
        handle,
        role,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(SourceTerminus::default()),
        target: Some(LinkTarget::Terminus(target)),
        unsettled: MapRef::EMPTY,
        incomplete_unsettled: false,
        initial_delivery_count: Some(SerialNumber::new(0)),
        max_message_size: None,
        offered_capabilities: Symbols::NONE,
        desired_capabilities: Symbols::NONE,
        properties: MapRef::EMPTY,
    };
    let mut out = Vec::new();
    Performative::Attach(Box::new(attach)).encode_frame(0, &mut out);
    out
}

/// A connection with a publisher and a consumer.
fn running() -> ServerConnection {
    let mut front = ServerConnection::new(Arc::new(ConnectionSettings::default()));
    let mut requests = Vec::new();
    let mut bytes = ProtocolLayer::Sasl.header().to_vec();
    let init =
        SaslInit { mechanism: Symbol("PLAIN"), initial_response: Some(b"\0a\0b"), hostname: None };
    SaslPerformative::Init(init).encode_frame(&mut bytes);
    front.read(&bytes, &mut requests);
    front.authenticated(Ok(()));
    bytes = ProtocolLayer::Amqp.header().to_vec();
    let open = Open {
        container_id: "c",
        hostname: None,
        max_frame_size: u32::MAX,
        channel_max: 0,
        idle_time_out: None,
        outgoing_locales: Symbols::NONE,
        incoming_locales: Symbols::NONE,
        offered_capabilities: Symbols::NONE,
        desired_capabilities: Symbols::NONE,
        properties: MapRef::EMPTY,
    };
    Performative::Open(Box::new(open)).encode_frame(0, &mut bytes);
    front.read(&bytes, &mut requests);
    front.opened(Ok(()));
    bytes.clear();
    let begin = Begin {
        remote_channel: None,
        next_outgoing_id: SerialNumber::new(0),
        incoming_window: u32::MAX,
        outgoing_window: u32::MAX,
        handle_max: u32::MAX,
        offered_capabilities: Symbols::NONE,
        desired_capabilities: Symbols::NONE,
        properties: MapRef::EMPTY,
    };
    Performative::Begin(Box::new(begin)).encode_frame(0, &mut bytes);
    bytes.extend(attach(0, Role::Sender));
    bytes.extend(attach(1, Role::Receiver));
    front.read(&bytes, &mut requests);
    for handle in [0, 1] {
        let key = LinkHandle { channel: ChannelId(0), handle };
        let link = LinkId(u64::from(handle));
        let attached = AttachedLink { link, source: None, target: None };
        front.attached(key, Ok(attached), &mut requests);
    }
    front
}

/// The client's frames of one round: messages, and the settlement of those of the round before.
fn round(n: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for id in n * BATCH..(n + 1) * BATCH {
        let transfer = Transfer {
            handle: 0,
            delivery_id: Some(SerialNumber::new(id)),
            delivery_tag: Some(DeliveryTag(b"tag")),
            message_format: Some(0),
            settled: None,
            more: false,
            rcv_settle_mode: None,
            state: None,
            resume: false,
            aborted: false,
            batchable: false,
        };
        put_frame(&mut bytes, FrameType::Amqp, 0, |out| {
            transfer.encode(out);
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
            let delivery =
                SentMessage { position: Position(position), sections: b"\x00\x53\x75\xa0\x01m" };
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
