//! Performatives of a client of AMQP 1.0, each whole and plain: a test changes what it is about.

use amqp10::{
    Attach, Begin, DeliveryTag, LinkTarget, MapRef, Open, Properties, ReceiverSettleMode, Role,
    SaslInit, SaslPerformative, Section, SenderSettleMode, SerialNumber, SourceTerminus, Symbol,
    Symbols, TargetTerminus, TerminusDurability, Transfer, ValueRef,
};

/// The frame that begins a login.
pub fn init(mechanism: &str, response: &[u8]) -> Vec<u8> {
    let init =
        SaslInit { mechanism: Symbol(mechanism), initial_response: Some(response), hostname: None };
    let mut out = Vec::new();
    SaslPerformative::Init(init).encode_frame(&mut out);
    out
}

/// An open without limits of the client's own.
pub const fn open() -> Open<'static> {
    Open {
        container_id: "client",
        hostname: None,
        max_frame_size: u32::MAX,
        channel_max: u16::MAX,
        idle_time_out: None,
        outgoing_locales: Symbols::NONE,
        incoming_locales: Symbols::NONE,
        offered_capabilities: Symbols::NONE,
        desired_capabilities: Symbols::NONE,
        properties: MapRef::EMPTY,
    }
}

/// A begin with windows of 1,000 transfers.
pub const fn begin() -> Begin<'static> {
    Begin {
        remote_channel: None,
        next_outgoing_id: SerialNumber::new(0),
        incoming_window: 1000,
        outgoing_window: 1000,
        handle_max: u32::MAX,
        offered_capabilities: Symbols::NONE,
        desired_capabilities: Symbols::NONE,
        properties: MapRef::EMPTY,
    }
}

const fn attach(handle: u32, role: Role) -> Attach<'static> {
    Attach {
        name: "link",
        handle,
        role,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: None,
        target: None,
        unsettled: MapRef::EMPTY,
        incomplete_unsettled: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Symbols::NONE,
        desired_capabilities: Symbols::NONE,
        properties: MapRef::EMPTY,
    }
}

/// The attach of a link on which the client publishes to this address.
pub fn publisher(handle: u32, address: &str) -> Attach<'_> {
    publisher_to(handle, Some(address))
}

/// The attach of a link on which the client publishes to an address, or to those that its messages name.
pub fn publisher_to(handle: u32, address: Option<&str>) -> Attach<'_> {
    let target = TargetTerminus {
        address: address.map(ValueRef::Str),
        durable: TerminusDurability::None,
        expiry_policy: Symbol("session-end"),
        timeout: 0,
        dynamic: false,
        dynamic_node_properties: MapRef::EMPTY,
        capabilities: Symbols::NONE,
    };
    Attach {
        source: Some(SourceTerminus::default()),
        target: Some(LinkTarget::Terminus(target)),
        initial_delivery_count: Some(SerialNumber::new(0)),
        ..attach(handle, Role::Sender)
    }
}

/// The attach of a link on which the client consumes from this address.
pub fn consumer(handle: u32, address: &str) -> Attach<'_> {
    let source =
        SourceTerminus { address: Some(ValueRef::Str(address)), ..SourceTerminus::default() };
    Attach { source: Some(source), ..attach(handle, Role::Receiver) }
}

/// A message with an opaque body, and nothing else.
pub fn message(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Section::Data(body).encode(&mut out);
    out
}

/// A message that names the node that it goes to.
pub fn message_to(to: &str, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let properties = Properties { to: Some(ValueRef::Str(to)), ..Properties::default() };
    Section::Properties(properties).encode(&mut out);
    Section::Data(body).encode(&mut out);
    out
}

/// A message with a subject.
pub fn message_about(subject: &str, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let properties = Properties { subject: Some(subject), ..Properties::default() };
    Section::Properties(properties).encode(&mut out);
    Section::Data(body).encode(&mut out);
    out
}

/// A transfer that is the whole of delivery `n` of a session.
pub const fn transfer(handle: u32, n: u32) -> Transfer<'static> {
    Transfer {
        handle,
        delivery_id: Some(SerialNumber::new(n)),
        delivery_tag: Some(DeliveryTag(b"t")),
        message_format: Some(0),
        settled: None,
        more: false,
        rcv_settle_mode: None,
        state: None,
        resume: false,
        aborted: false,
        batchable: false,
    }
}
