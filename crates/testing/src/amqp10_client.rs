//! Performatives of a client of AMQP 1.0, each whole and plain: a test changes what it is about.

use amqp10::{
    Attach, Begin, Coordinator, CoordinatorRequest, Declare, DeliveryOutcome, DeliveryState,
    DeliveryTag, Discharge, LinkTarget, Open, PassingState, Properties, Role, SaslInit,
    SaslPerformative, Section, SerialNumber, SourceTerminus, Symbol, Symbols, TargetTerminus,
    TransactionalState, Transfer, ValueRef,
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
pub fn open() -> Open<'static> {
    Open { container_id: "client", ..Open::default() }
}

/// A begin with windows of 1,000 transfers.
pub fn begin() -> Begin<'static> {
    Begin { incoming_window: 1000, outgoing_window: 1000, ..Begin::default() }
}

fn attach(handle: u32, role: Role) -> Attach<'static> {
    Attach { name: "link", handle, role, ..Attach::default() }
}

/// The attach of a link on which the client publishes to this address.
pub fn publisher(handle: u32, address: &str) -> Attach<'_> {
    publisher_to(handle, Some(address))
}

/// The attach of a link on which the client publishes to an address, or to those that its messages name.
pub fn publisher_to(handle: u32, address: Option<&str>) -> Attach<'_> {
    let target =
        TargetTerminus { address: address.map(ValueRef::Str), ..TargetTerminus::default() };
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

/// The attach of a link that controls transactions.
pub fn controller(handle: u32) -> Attach<'static> {
    let outcomes = Symbols::Listed(&["amqp:accepted:list", "amqp:rejected:list"]);
    let capabilities = Symbols::One("amqp:local-transactions");
    Attach {
        source: Some(SourceTerminus { outcomes, ..SourceTerminus::default() }),
        target: Some(LinkTarget::Coordinator(Coordinator { capabilities })),
        initial_delivery_count: Some(SerialNumber::new(0)),
        ..attach(handle, Role::Sender)
    }
}

/// The message that asks for a transaction.
pub fn declare() -> Vec<u8> {
    request(CoordinatorRequest::Declare(Declare { global_id: None }))
}

/// The message that asks for the end of a transaction.
pub fn discharge(txn_id: &[u8], fail: bool) -> Vec<u8> {
    request(CoordinatorRequest::Discharge(Discharge { txn_id, fail }))
}

fn request(request: CoordinatorRequest<'_>) -> Vec<u8> {
    let mut out = vec![0, 0x53, 0x77];
    request.encode(&mut out);
    out
}

/// The state of what is done in a transaction, with an outcome.
pub const fn transactional<'a>(
    txn_id: &'a [u8],
    outcome: Option<DeliveryOutcome<'a>>,
) -> DeliveryState<'a> {
    DeliveryState::Passing(PassingState::Transactional(TransactionalState { txn_id, outcome }))
}

/// A message with an opaque body, and nothing else.
pub fn message(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Section::Data(body).encode(&mut out);
    out
}

fn message_with(properties: Properties<'_>, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Section::Properties(properties).encode(&mut out);
    out.extend(message(body));
    out
}

/// A message that names the node that it goes to.
pub fn message_to(to: &str, body: &[u8]) -> Vec<u8> {
    message_with(Properties { to: Some(ValueRef::Str(to)), ..Properties::default() }, body)
}

/// A message with a subject.
pub fn message_about(subject: &str, body: &[u8]) -> Vec<u8> {
    message_with(Properties { subject: Some(subject), ..Properties::default() }, body)
}

/// A transfer that is the whole of delivery `n` of a session.
pub const fn transfer(handle: u32, n: u32) -> Transfer<'static> {
    Transfer {
        delivery_id: Some(SerialNumber::new(n)),
        delivery_tag: Some(DeliveryTag(b"t")),
        message_format: Some(0),
        ..Transfer::on(handle)
    }
}
