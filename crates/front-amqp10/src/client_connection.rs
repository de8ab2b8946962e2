//! A client's connection as its task drives it: reads become requests to the broker, whose events come back
//! through the [`ClientOutbox`]; what time brings about.

use crate::address::{QUEUE, SourceAddress, TEMPORARY_QUEUE, TargetAddress};
use crate::connection::ServerConnection;
use crate::fault::ProtocolFault;
use crate::life::ConnectionPhase;
use crate::open::ClientOpen;
use crate::outbox::{ClientOutbox, LockedServer, attach_origin, broker_channel};
use crate::published_heads::PublishedHeads;
use crate::requests::{AttachAsked, LinkRequest};
use crate::settings::ConnectionSettings;
use crate::subscriptions::topic_op;
use crate::transactions::{discharge_origin, session_of};
use amqp10::{
    Attach, Condition, LinkTarget, Role, SenderSettleMode, SourceTerminus, Symbol,
    TerminusDurability, ValueRef, put_map,
};
use edge::{AuthFailure, Progress, Step, Tick, Timers};
use session::{
    Attachment, ChannelId, Control, CreditRequest, DeclaredNode, Error, LinkOp, LinkSource,
    MethodTag, Negotiated, Op, Publish, PublishTarget, RefusalScope, Request, Settle, ShortString,
    Table, TopicOp, Value,
};
use std::sync::Arc;
use stdx::Now;

/// Milliseconds before a client that fails to log in is told so. COMPAT: RabbitMQ's.
const REFUSAL_DELAY_MS: u64 = 3_000;
/// Milliseconds a client has to answer the server's close, or to close its socket.
const CLOSING_MS: u64 = 10_000;
/// Looks, in each idle-time-out of a client, at whether something was sent: two are half of it.
const CHECKS_PER_IDLE_TIME_OUT: u64 = 4;

/// A read that brings as many requests leaves the memory of their list to the next.
const BUSY_REQUESTS_MIN: usize = 16;

/// A client's connection.
#[derive(Debug)]
pub struct ClientConnection {
    settings: Arc<ConnectionSettings>,
    outbox: Arc<ClientOutbox>,
    timers: Timers,
    /// The phase that the timers know of.
    followed: ConnectionPhase,
    /// The heads of what the last read published.
    heads: PublishedHeads,
    asked: Vec<LinkRequest>,
    /// The reason, for the log, why the connection ended without a broker's doing.
    failure: Option<String>,
}

impl ClientConnection {
    /// A connection that was accepted at this time.
    #[must_use]
    pub fn new(
        settings: Arc<ConnectionSettings>,
        cluster_name: Option<String>,
        accepted: Now,
    ) -> Self {
        let mut server = ServerConnection::new(Arc::clone(&settings));
        server.life.cluster_name = cluster_name;
        let outbox = Arc::new(ClientOutbox::new(LockedServer::new(server, &settings.budget)));
        Self {
            outbox,
            timers: Timers::new(accepted, settings.handshake_timeout_ms),
            settings,
            followed: ConnectionPhase::SaslHeader,
            heads: PublishedHeads::NONE,
            asked: Vec::new(),
            failure: None,
        }
    }

    /// The client's outbox, for the broker.
    #[must_use]
    pub fn outbox(&self) -> Arc<ClientOutbox> {
        Arc::clone(&self.outbox)
    }

    /// The limits agreed on; final once a virtual host is asked for.
    pub fn negotiated(&self) -> Negotiated {
        let locked = self.outbox.lock();
        let seconds = self.settings.silence_ms_max / 1_000;
        let heartbeat_s = u16::try_from(seconds).unwrap_or(u16::MAX);
        locked.server.client().map_or_else(Negotiated::default, |client| Negotiated {
            channel_max: client.channel_max,
            frame_max: client.frame_bytes_max.min(self.settings.frame_bytes_max),
            heartbeat_s,
        })
    }

    /// The client's own description, once a virtual host is asked for.
    pub fn client_properties(&self) -> Table {
        let locked = self.outbox.lock();
        let described = locked.server.client().and_then(|client| {
            let (properties, _) = ValueRef::decode(&client.properties).ok()?;
            Some(table_of(properties))
        });
        described.unwrap_or_default()
    }

    /// The client's name for itself, once a virtual host is asked for.
    pub fn container_id(&self) -> Option<String> {
        self.outbox.lock().server.client().map(|client| client.container_id.clone())
    }

    /// Whether no other connection may have the client's name for itself.
    pub fn is_sole(&self) -> bool {
        self.outbox.lock().server.client().is_some_and(|client| client.is_sole)
    }

    /// Whether the client has said that it speaks this protocol.
    pub fn has_begun(&self) -> bool {
        self.followed != ConnectionPhase::SaslHeader
    }

    /// The buffer in which the heads of publishes lie that the last read has asked for.
    pub const fn scratch(&self) -> &[u8] {
        self.heads.bytes()
    }

    /// Bytes of messages of which a part is missing.
    pub fn unfinished_bytes(&self) -> u64 {
        self.outbox.lock().server.unfinished_bytes() as u64
    }

    /// The reason, for the log, why the connection ended without a broker's doing.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Decodes as much of `input` as can be decoded: what was left of the read before, and what came since.
    /// Appends the requests in the order of the input.
    pub fn read(&mut self, now: Now, input: &[u8], requests: &mut Vec<Request>) -> Progress {
        if !input.is_empty() {
            self.timers.heard(now);
        }
        let outbox = Arc::clone(&self.outbox);
        let mut locked = outbox.lock();
        locked.awake();
        self.asked.append(&mut locked.follow_up);
        locked.server.life.heads = std::mem::take(&mut self.heads);
        let mut progress = locked.server.read(input, &mut self.asked);
        self.heads = std::mem::take(&mut locked.server.life.heads);
        let channel_max = locked.server.life.channel_max();
        // Answers of the broker may bring further requests: they are taken before anything else is read.
        if self.asked.iter().any(|it| may_bring_others(it, channel_max))
            && matches!(progress.step, Step::More)
        {
            progress.step = Step::Again;
        }
        let mut asked = std::mem::take(&mut self.asked);
        let is_busy = asked.len() >= BUSY_REQUESTS_MIN;
        asked.drain(..).for_each(|request| self.translate(&mut locked, request, requests));
        if is_busy {
            self.asked = asked;
        }
        locked.resume_windows();
        locked.flush();
        self.follow(now, &locked);
        progress
    }

    /// Lets the times follow what has become of the connection.
    fn follow(&mut self, now: Now, locked: &LockedServer) {
        let phase = locked.server.life.phase;
        if phase == self.followed {
            return;
        }
        self.followed = phase;
        if self.failure.is_none() {
            self.failure = locked.server.failure().map(str::to_owned);
        }
        match phase {
            ConnectionPhase::Refused => self.timers.refused(now, REFUSAL_DELAY_MS),
            ConnectionPhase::Running => {
                self.timers.handshake_is_done();
                let client = locked.server.client();
                let idle_ms = client.map_or(0, |client| u64::from(client.idle_time_out_ms));
                let silence_ms = u64::from(self.settings.silence_ms_max);
                self.timers.bear_silence(now, silence_ms, idle_ms / CHECKS_PER_IDLE_TIME_OUT);
            }
            ConnectionPhase::Closing
            | ConnectionPhase::ClosingForClient
            | ConnectionPhase::Ended => {
                self.timers.closing(now, CLOSING_MS);
            }
            ConnectionPhase::SaslHeader
            | ConnectionPhase::Sasl
            | ConnectionPhase::Authenticating
            | ConnectionPhase::AmqpHeader
            | ConnectionPhase::Open
            | ConnectionPhase::Opening => {}
        }
    }

    /// The answer to [`Step::Authenticate`]; then call [`ClientConnection::read`] again.
    pub fn authenticated(&mut self, now: Now, result: Result<(), AuthFailure>) {
        self.with_server(now, |server| server.authenticated(result));
    }

    /// The answer to [`Step::Open`]; then call [`ClientConnection::read`] again.
    pub fn opened(&mut self, now: Now, result: Result<(), Error>) {
        self.with_server(now, |server| server.opened(result));
    }

    fn with_server(&mut self, now: Now, act: impl FnOnce(&mut ServerConnection)) {
        let outbox = Arc::clone(&self.outbox);
        let mut locked = outbox.lock();
        act(&mut locked.server);
        locked.flush();
        self.follow(now, &locked);
    }

    /// Does what is due by now; says when to ask again at the latest.
    pub fn tick(&mut self, now: Now) -> Tick {
        if self.timers.takes_refusal(now) {
            self.with_server(now, ServerConnection::tell_refusal);
        }
        if self.timers.takes_silence(now) {
            let mut requests = Vec::new();
            self.with_server(now, |server| server.close_silent(&mut requests));
            self.outbox.lock().follow_up.append(&mut requests);
        }
        self.timers.tick(now, &*self.outbox)
    }

    /// Notes that something was written to the socket.
    pub const fn wrote(&mut self, now: Now) {
        self.timers.active(now);
    }

    /// Notes that the caller stops or resumes reading: a client that is not listened to is not taken for
    /// dead.
    pub const fn set_reading(&mut self, now: Now, reading: bool) {
        self.timers.set_reading(now, reading);
    }

    /// Asks the broker for a link that a client attaches, or refuses it.
    fn attach(&self, locked: &mut LockedServer, asked: &AttachAsked, requests: &mut Vec<Request>) {
        let LockedServer { server, follow_up, .. } = locked;
        let Some(client) = server.client() else { return };
        match attach_op(asked, self.settings.permits_address_v1, client) {
            Ok(op) => {
                let origin = attach_origin(asked.key);
                requests.push(answered_control(asked.key.channel, origin, op));
            }
            Err(fault) => server.attached(asked.key, Err(fault), follow_up),
        }
    }

    /// Turns a request of the protocol into those of the broker.
    fn translate(
        &mut self,
        locked: &mut LockedServer,
        request: LinkRequest,
        requests: &mut Vec<Request>,
    ) {
        match request {
            LinkRequest::BeginSession(channel) => {
                requests.push(control(channel, Op::OpenChannel));
                requests.push(control(channel, Op::EnableConfirms));
            }
            LinkRequest::Attach(asked) => self.attach(locked, &asked, requests),
            LinkRequest::Detach { channel, link, is_closed } => {
                let consumer = locked.consumers.remove(link).filter(|_| is_closed);
                let op = match consumer.and_then(|consumer| consumer.subscription) {
                    Some(queue) => Op::Topic(TopicOp::Unsubscribe { link, queue }),
                    None => Op::Link(LinkOp::Detach(link)),
                };
                requests.push(control(channel, op));
            }
            LinkRequest::NeedTopics(channel) => {
                requests.push(control(channel, Op::Topic(TopicOp::MakeExchange)));
            }
            LinkRequest::Publish(publish) => put_of_session(Request::Publish(publish), requests),
            LinkRequest::Settle(settle) => put_of_session(Request::Settle(settle), requests),
            LinkRequest::Modify { channel, modification } => {
                requests.push(control(channel, Op::Modify(*modification)));
            }
            LinkRequest::Manage(call) => {
                if let Some(request) = locked.manage(&call) {
                    let renews = renews_token(&request);
                    requests.push(request);
                    let targets = locked.server.sessions.publish_targets();
                    requests.extend(targets.filter(|_| renews).map(|(channel, targets)| {
                        control(channel, Op::Link(LinkOp::ReviewRights(targets)))
                    }));
                }
            }
            LinkRequest::EndResponses(link) => {
                locked.responses.forget_link(link);
                locked.respond_to_refused();
            }
            LinkRequest::Credit(credit) => {
                let channel = broker_channel(credit.channel);
                requests.push(Request::Flow(CreditRequest { channel, ..credit }));
            }
            LinkRequest::BeginTransactions(channel) => {
                requests.push(control(channel, Op::OpenChannel));
                requests.push(control(channel, Op::EnableTransactions));
            }
            LinkRequest::Discharge { session, channel, number, commits } => {
                let op = if commits { Op::Commit } else { Op::RollBack };
                requests.push(answered_control(channel, discharge_origin(session, number), op));
            }
            LinkRequest::EndSession(channel) => {
                locked.consumers.forget_channel(channel);
                locked.responses.forget_channel(channel);
                locked.respond_to_refused();
                requests.push(control(channel, Op::CloseChannel));
            }
            LinkRequest::CloseConnection => {
                locked.consumers.clear();
                requests.push(control(ChannelId(0), Op::CloseConnection));
            }
        }
    }
}

/// Whether a request puts a token, with which the rights of all links are looked at anew.
fn renews_token(request: &Request) -> bool {
    matches!(request, Request::Control(control) if matches!(control.op, Op::UpdateSecret { .. }))
}

/// Whether the broker's answer to a request may bring further ones.
fn may_bring_others(request: &LinkRequest, channel_max: u16) -> bool {
    // A refusal in a transaction may end the session.
    matches!(request, LinkRequest::Publish(publish) if session_of(publish.channel, channel_max).is_some())
        || matches!(
            request,
            LinkRequest::Attach(_) | LinkRequest::Manage(_) | LinkRequest::Discharge { .. }
        )
}

/// The broker's part of an attach.
fn attach_op(
    asked: &AttachAsked,
    version_1: bool,
    client: &ClientOpen,
) -> Result<Op, ProtocolFault> {
    let attach = asked.attach().ok_or_else(|| ProtocolFault::link(Condition::DecodeError, ""))?;
    let consumer = || consumer_of(&attach, ShortString::default());
    let is_named = attach.source.is_some() || attach.role == Role::Sender;
    // Clients of JMS look a subscription up without a source.
    if (is_named || client.is_of_jms)
        && let Some(op) = topic_op(&attach, &client.container_id, consumer)?
    {
        return Ok(Op::Topic(op));
    }
    let op = match attach.role {
        Role::Sender => Ok(match (attach.target, declared_target(&attach)) {
            (Some(LinkTarget::Terminus(target)), _) if target.dynamic => LinkOp::MakeTarget,
            (_, Some(node)) => LinkOp::AttachDeclared(Box::new(node)),
            (_, None) => LinkOp::AttachPublisher(asked.target.clone()),
        }),
        Role::Receiver => consumer_op(&attach, version_1),
    };
    op.map(Op::Link)
}

/// The queue that a publisher's target declares, if its address is one that does and was not refused.
fn declared_target(attach: &Attach<'_>) -> Option<DeclaredNode> {
    let Some(LinkTarget::Terminus(target)) = attach.target else { return None };
    let address = TargetAddress::of_target(&LinkTarget::Terminus(target), true);
    let Ok(TargetAddress::Declared(queue)) = address else { return None };
    let durable = target.durable != TerminusDurability::None;
    Some(DeclaredNode { queue: short(&queue).ok()?, durable, binding: None, consumer: None })
}

fn consumer_op(attach: &Attach<'_>, version_1: bool) -> Result<LinkOp, ProtocolFault> {
    let Some(source) = &attach.source else {
        return Err(ProtocolFault::link(Condition::InvalidField, "Attach refused: no source"));
    };
    let node = |queue, binding| {
        let durable = source.durable != TerminusDurability::None;
        let consumer = Some(consumer_of(attach, ShortString::default()));
        LinkOp::AttachDeclared(Box::new(DeclaredNode { queue, durable, binding, consumer }))
    };
    match SourceAddress::of_source(source, version_1)? {
        SourceAddress::Declared(queue) => Ok(node(short(&queue)?, None)),
        SourceAddress::Bound { exchange, routing_key } => {
            let (exchange, routing_key) = (short(&exchange)?, Some(short(&routing_key)?));
            Ok(node(ShortString::default(), Some(PublishTarget { exchange, routing_key })))
        }
        SourceAddress::Queue(queue) => {
            Ok(LinkOp::AttachConsumer(consumer_of(attach, short(&queue)?)))
        }
        SourceAddress::Temporary => {
            Ok(LinkOp::AttachTemporary(consumer_of(attach, ShortString::default())))
        }
        SourceAddress::Replies => replies_of(attach),
        SourceAddress::Management => Err(not_implemented("/management not supported")),
        SourceAddress::Topic { .. } | SourceAddress::TemporaryTopic => {
            Err(not_implemented("topics not supported"))
        }
    }
}

/// The consumer of direct replies that a client attaches. COMPAT: RabbitMQ, too, wants them settled.
fn replies_of(attach: &Attach<'_>) -> Result<LinkOp, ProtocolFault> {
    if attach.snd_settle_mode == SenderSettleMode::Settled {
        return Ok(LinkOp::AttachReplies { consumer_tag: consumer_tag(attach) });
    }
    let text = "Attach refused: messages of a volatile queue are settled (snd-settle-mode 1)";
    Err(ProtocolFault::link(Condition::InvalidField, text))
}

/// The tag of a consumer, which leads back to its link.
fn consumer_tag(attach: &Attach<'_>) -> ShortString {
    ShortString::truncated(&attach.handle.to_string())
}

fn short(name: &[u8]) -> Result<ShortString, ProtocolFault> {
    let too_long = |_| ProtocolFault::link(Condition::InvalidField, "a name is too long");
    ShortString::new(name).map_err(too_long)
}

fn not_implemented(text: &'static str) -> ProtocolFault {
    ProtocolFault::link(Condition::NotImplemented, text)
}

/// The consumer that a client attaches to a queue.
fn consumer_of(attach: &Attach<'_>, queue: ShortString) -> Attachment {
    let mut arguments = Table::new();
    for (property, argument) in
        [("rabbitmq:priority", "x-priority"), ("rabbitmq:consumer-timeout", "x-consumer-timeout")]
    {
        if let Some(value) = attach.properties.get(property).and_then(scalar) {
            arguments.insert(ShortString::from_static(argument), value);
        }
    }
    let mut filters = Vec::new();
    if let Some(asked) = attach.source.and_then(|source| source.filter) {
        put_map(&mut filters, |items| items.put_entries(asked));
    }
    Attachment {
        queue,
        consumer_tag: consumer_tag(attach),
        no_ack: attach.snd_settle_mode == SenderSettleMode::Settled,
        source: Some(LinkSource { filters, browses: attach.source.is_some_and(is_browser) }),
        exclusive: false,
        arguments,
    }
}

/// Whether a client of JMS browses a queue. COMPAT: others that ask for copies get the messages themselves.
fn is_browser(source: SourceTerminus<'_>) -> bool {
    let is_copied = source.distribution_mode == Some(Symbol("copy"));
    is_copied
        && (source.capabilities.contains(QUEUE) || source.capabilities.contains(TEMPORARY_QUEUE))
}

fn control(channel: ChannelId, op: Op) -> Request {
    let (channel, origin) = (broker_channel(channel), MethodTag::default());
    let refusal = RefusalScope::Channel;
    Request::Control(Box::new(Control { channel, origin, nowait: true, refusal, op }))
}

/// A request that is answered or refused under a name, and whose refusal ends nothing else.
fn answered_control(channel: ChannelId, origin: MethodTag, op: Op) -> Request {
    let (channel, refusal) = (broker_channel(channel), RefusalScope::Request);
    Request::Control(Box::new(Control { channel, origin, nowait: false, refusal, op }))
}

/// Appends a publish or a settlement of a session. Its channel is set where it lies: a request that is copied
/// just after a field was changed stalls.
#[inline]
fn put_of_session(request: Request, requests: &mut Vec<Request>) {
    requests.push(request);
    if let Some(
        Request::Publish(Publish { channel, .. }) | Request::Settle(Settle { channel, .. }),
    ) = requests.last_mut()
    {
        *channel = broker_channel(*channel);
    }
}

/// A map of names as a table; values that are no words or numbers are left out.
fn table_of(properties: ValueRef<'_>) -> Table {
    let ValueRef::Map(map) = properties else { return Table::new() };
    let entries = map.iter().filter_map(|(key, value)| {
        let (ValueRef::Symbol(name) | ValueRef::Str(name)) = key else { return None };
        Some((ShortString::new(name).ok()?, scalar(value)?))
    });
    entries.collect()
}

/// A word or a whole number.
#[expect(clippy::wildcard_enum_match_arm, reason = "other types are neither")]
fn scalar(value: ValueRef<'_>) -> Option<Value> {
    Some(match value {
        ValueRef::Bool(value) => Value::Bool(value),
        ValueRef::Str(text) | ValueRef::Symbol(text) => Value::from(text),
        ValueRef::U8(n) => Value::I64(n.into()),
        ValueRef::U16(n) => Value::I64(n.into()),
        ValueRef::U32(n) => Value::I64(n.into()),
        ValueRef::U64(n) => Value::I64(i64::try_from(n).ok()?),
        ValueRef::I8(n) => Value::I64(n.into()),
        ValueRef::I16(n) => Value::I64(n.into()),
        ValueRef::I32(n) => Value::I64(n.into()),
        ValueRef::I64(n) => Value::I64(n),
        _ => return None,
    })
}
