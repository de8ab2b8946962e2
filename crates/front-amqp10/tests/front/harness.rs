//! A client and a broker around the front.

use amqp10::{
    Attach, Begin, DeliveryOutcome, DeliveryState, Disposition, Flow, FrameType, Open,
    PassingState, Performative, ProtocolLayer, Role, SerialNumber, Transfer, decode_frame,
    put_frame,
};
use edge::{AuthFailure, Proof, Step};
use front_amqp10::{
    AttachedLink, ConnectionSettings, LinkHandle, LinkRequest, ServerConnection, transaction_ended,
};
use session::{ChannelId, Content, Error, ErrorKind, LinkId};
use std::sync::Arc;
use stdx::UnixMs;
use testing::amqp10_client;

pub(crate) use testing::amqp10_client::{begin, init, message, open, transfer as whole};

/// A message.
pub(crate) const M: &[u8] = b"\x00\x53\x75\xa0\x01m";

pub(crate) fn id(n: u32) -> SerialNumber {
    SerialNumber::new(n)
}

pub(crate) const fn key(handle: u32) -> LinkHandle {
    LinkHandle { channel: ChannelId(0), handle }
}

/// The front with a client and a broker around it.
pub(crate) struct Talk {
    pub(crate) front: ServerConnection,
    /// The requests to the broker, in words.
    pub(crate) asked: Vec<String>,
    /// The bytes of messages that were published.
    pub(crate) published: Vec<Vec<u8>>,
    /// Whether each of them must have a queue.
    pub(crate) mandatory: Vec<bool>,
    /// Whether logins and virtual hosts are refused.
    pub(crate) refuses: bool,
    /// Whether the broker attaches all links at once, by numbers that follow from their handles.
    pub(crate) attaches: bool,
    /// The bytes that arrive in one read.
    pub(crate) read_bytes: usize,
    input: Vec<u8>,
}

impl Talk {
    pub(crate) fn new(settings: ConnectionSettings) -> Self {
        Self {
            front: ServerConnection::new(Arc::new(settings)),
            asked: Vec::new(),
            published: Vec::new(),
            mandatory: Vec::new(),
            refuses: false,
            attaches: true,
            read_bytes: usize::MAX,
            input: Vec::new(),
        }
    }

    /// With an open connection and a session on channel 0.
    pub(crate) fn begun() -> Self {
        Self::begun_with(ConnectionSettings::default(), open(), begin())
    }

    pub(crate) fn begun_with(
        settings: ConnectionSettings,
        open: Open<'_>,
        begin: Begin<'_>,
    ) -> Self {
        let mut talk = Self::new(settings);
        talk.log_in();
        talk.says(&Performative::Open(Box::new(open)));
        talk.says(&Performative::Begin(Box::new(begin)));
        talk.hears();
        talk.asked.clear();
        talk
    }

    pub(crate) fn log_in(&mut self) {
        self.sends(&ProtocolLayer::Sasl.header());
        self.sends(&init("PLAIN", b"\0me\0pw"));
        self.sends(&ProtocolLayer::Amqp.header());
    }

    pub(crate) fn says(&mut self, performative: &Performative<'_>) {
        self.says_on(0, performative);
    }

    pub(crate) fn says_on(&mut self, channel: u16, performative: &Performative<'_>) {
        let mut bytes = Vec::new();
        performative.encode_frame(channel, &mut bytes);
        self.sends(&bytes);
    }

    pub(crate) fn transfers(&mut self, transfer: Transfer<'_>, payload: &[u8]) {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, FrameType::Amqp, 0, |out| {
            transfer.encode(out);
            out.extend_from_slice(payload);
        });
        self.sends(&bytes);
    }

    pub(crate) fn sends(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(self.read_bytes) {
            self.input.extend_from_slice(part);
            self.work();
        }
    }

    fn work(&mut self) {
        loop {
            let mut requests = Vec::new();
            let progress = self.front.read(&self.input, &mut requests);
            self.take_requests(requests);
            self.input.drain(..progress.consumed);
            match progress.step {
                Step::Authenticate(login) => {
                    self.asked.push(format!("login {}", login.user));
                    let result = match login.proof {
                        Proof::Malformed => Err(AuthFailure::Malformed),
                        _ if self.refuses => Err(AuthFailure::Refused),
                        Proof::Nothing | Proof::Password(_) => Ok(()),
                    };
                    self.front.authenticated(result);
                }
                Step::Open { vhost } => {
                    self.asked.push(format!("open {vhost}"));
                    let error = Error::new(ErrorKind::InvalidPath, "no");
                    let result = if self.refuses { Err(error) } else { Ok(()) };
                    self.front.opened(result);
                }
                Step::Again => {}
                Step::More | Step::Close | Step::SpeaksOther => return,
            }
        }
    }

    fn take_requests(&mut self, requests: Vec<LinkRequest>) {
        for request in requests {
            self.asked.push(self.describe(&request));
            match request {
                LinkRequest::Attach(asked) if self.attaches => self.attach(asked.key),
                LinkRequest::Publish(publish) => {
                    self.mandatory.push(publish.mandatory);
                    self.published.push(match publish.content {
                        Content::Inline(span) => span.of(&self.input).to_vec(),
                        Content::Owned(owned) => owned.body.to_vec(),
                    });
                }
                LinkRequest::Discharge { session, number, .. } if self.attaches => {
                    let mut requests = Vec::new();
                    transaction_ended(&mut self.front, session, number, Ok(()), &mut requests);
                    self.take_requests(requests);
                }
                LinkRequest::Attach(_)
                | LinkRequest::Discharge { .. }
                | LinkRequest::BeginSession(_)
                | LinkRequest::Detach { .. }
                | LinkRequest::Settle(_)
                | LinkRequest::Modify { .. }
                | LinkRequest::Manage(_)
                | LinkRequest::EndResponses(_)
                | LinkRequest::Credit(_)
                | LinkRequest::BeginTransactions(_)
                | LinkRequest::NeedTopics(_)
                | LinkRequest::EndSession(_)
                | LinkRequest::CloseConnection => {}
            }
        }
    }

    /// The broker attaches the link under a number that follows from its handle.
    pub(crate) fn attach(&mut self, key: LinkHandle) {
        let link = LinkId(100 + u64::from(key.handle));
        let mut requests = Vec::new();
        let attached = AttachedLink { link, source: None, target: None, filters: None };
        self.front.attached(key, Ok(attached), &mut requests);
        self.take_requests(requests);
    }

    fn describe(&self, request: &LinkRequest) -> String {
        match request {
            LinkRequest::BeginSession(channel) => format!("begin {}", channel.0),
            LinkRequest::Attach(asked) => {
                let attach = asked.attach().unwrap();
                format!("attach {} {} {:?}", asked.key.handle, attach.name, attach.role)
            }
            LinkRequest::Detach { link, .. } => format!("detach {}", link.0),
            LinkRequest::Publish(publish) => {
                let place = match &publish.content {
                    Content::Inline(_) => "inline",
                    Content::Owned(_) => "owned",
                };
                let heads = self.front.scratch();
                let [exchange, key] = [publish.exchange, publish.routing_key]
                    .map(|span| String::from_utf8_lossy(span.of(heads)));
                let n_bytes = publish.content.n_bytes();
                format!("publish '{exchange}' '{key}' {place} {n_bytes}")
            }
            LinkRequest::Settle(it) => {
                format!("settle {} {} {:?}", it.link.0, it.position.0, it.outcome)
            }
            LinkRequest::Modify { modification: it, .. } => {
                let positions: Vec<u64> = it.positions.iter().map(|position| position.0).collect();
                let until_ms = it.changes.until_ms.map(UnixMs::get);
                let n_bytes = it.changes.annotations.len();
                let (link, outcome) = (it.link.0, it.outcome);
                format!("modify {link} {positions:?} {outcome:?} {n_bytes} until {until_ms:?}")
            }
            LinkRequest::Credit(it) => format!(
                "credit {} {}+{} drain {} echo {}",
                it.link.0, it.delivery_count, it.credit, it.drain, it.echo
            ),
            LinkRequest::Manage(it) => {
                format!("manage {} {}", it.responses.handle, it.sections.len())
            }
            LinkRequest::EndResponses(link) => format!("end responses {}", link.handle),
            LinkRequest::NeedTopics(channel) => format!("need topics {}", channel.0),
            LinkRequest::BeginTransactions(channel) => format!("transactions {}", channel.0),
            LinkRequest::Discharge { channel, number, commits, .. } => {
                format!("discharge {} {number} commits {commits}", channel.0)
            }
            LinkRequest::EndSession(channel) => format!("end {}", channel.0),
            LinkRequest::CloseConnection => "close".to_owned(),
        }
    }

    /// The bytes that go out.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.front.take_output(&mut out);
        out
    }

    /// The frames that go out, in words, without the channel if it is 0.
    pub(crate) fn hears(&mut self) -> Vec<String> {
        let bytes = self.bytes();
        frames(&bytes).into_iter().map(|(channel, frame)| words(channel, &frame)).collect()
    }

    /// The performatives that go out, with their channels and payloads.
    pub(crate) fn hears_each(&mut self, mut each: impl FnMut(u16, &Performative<'_>, &[u8])) {
        let bytes = self.bytes();
        for (channel, body) in frames(&bytes) {
            let (performative, payload) = Performative::decode(&body).unwrap();
            each(channel, &performative, payload);
        }
    }

    pub(crate) fn takes_asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.asked)
    }
}

/// The bodies of AMQP's frames; protocol headers and SASL's frames are left out.
fn frames(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let used = if bytes.starts_with(b"AMQP") {
            8
        } else if bytes[5] == 1 {
            decode_frame(bytes, FrameType::Sasl, 8192).unwrap().unwrap().1
        } else {
            let (frame, used) = decode_frame(bytes, FrameType::Amqp, u32::MAX).unwrap().unwrap();
            if !frame.body.is_empty() {
                found.push((frame.channel, frame.body.to_vec()));
            }
            used
        };
        bytes = &bytes[used..];
    }
    found
}

fn words(channel: u16, body: &[u8]) -> String {
    let (performative, payload) = Performative::decode(body).unwrap();
    let on = if channel == 0 { String::new() } else { format!(" on {channel}") };
    let error = |error: &Option<amqp10::AmqpError<'_>>| {
        error.map_or(String::new(), |error| {
            let text = error.description.map_or(String::new(), |text| format!(" '{text}'"));
            format!(" {}{text}", error.condition.0)
        })
    };
    let what = match &performative {
        Performative::Open(open) => format!("open {}", open.container_id),
        Performative::Begin(begin) => format!("begin {:?}", begin.remote_channel),
        Performative::Attach(it) => format!(
            "attach {} {:?} source {} target {}",
            it.handle,
            it.role,
            it.source.is_some(),
            it.target.is_some()
        ),
        Performative::Flow(flow) => {
            let link = flow.handle.map_or(String::new(), |handle| {
                let credit = flow.link_credit.unwrap_or(0);
                let count = flow.delivery_count.map_or(0, SerialNumber::bits);
                let drain = if flow.drain { " drain" } else { "" };
                format!(" link {handle} {count}+{credit}{drain}")
            });
            let next = flow.next_incoming_id.map_or(0, SerialNumber::bits);
            format!("flow {next}+{}{link}", flow.incoming_window)
        }
        Performative::Transfer(it) => {
            let id = it.delivery_id.map_or_else(|| "-".to_owned(), |id| id.bits().to_string());
            let settled = if it.settled == Some(true) { " settled" } else { "" };
            let more = if it.more { " more" } else { "" };
            format!("transfer {} {id}{settled}{more} {}", it.handle, payload.len())
        }
        Performative::Disposition(it) => {
            let last = it.last.unwrap_or(it.first).bits();
            let state = match it.state {
                Some(DeliveryState::Outcome(outcome)) => {
                    let outcome = format!("{outcome:?}");
                    outcome.split('(').next().unwrap_or_default().to_owned()
                }
                Some(DeliveryState::Passing(PassingState::Declared(it))) => {
                    format!("declared {:?}", it.txn_id)
                }
                Some(DeliveryState::Passing(PassingState::Transactional(it))) => {
                    let outcome = it.outcome.map_or(String::new(), |it| format!("{it:?}"));
                    format!("in {:?} {}", it.txn_id, outcome.split('(').next().unwrap_or_default())
                }
                other => format!("{other:?}"),
            };
            let state = match it.state {
                Some(DeliveryState::Outcome(DeliveryOutcome::Rejected(it))) => {
                    state + &error(&it.error)
                }
                _ => state,
            };
            format!("disposition {:?} {}..={last} {} {state}", it.role, it.first.bits(), it.settled)
        }
        Performative::Detach(it) => {
            let closed = if it.closed { "" } else { " open" };
            format!("detach {}{closed}{}", it.handle, error(&it.error))
        }
        Performative::End(it) => format!("end{}", error(&it.error)),
        Performative::Close(it) => format!("close{}", error(&it.error)),
    };
    format!("{what}{on}")
}

/// The attach of a link on which the client publishes.
pub(crate) fn publisher(handle: u32) -> Attach<'static> {
    amqp10_client::publisher(handle, "/queues/q")
}

/// The attach of a link on which the client consumes.
pub(crate) fn consumer(handle: u32) -> Attach<'static> {
    amqp10_client::consumer(handle, "/queues/q")
}

/// A flow with windows that are wide enough, from a client that has seen `n_seen` transfers and has sent
/// `n_sent`.
pub(crate) fn flow(n_seen: u32, n_sent: u32) -> Flow<'static> {
    Flow::of_session(id(n_seen), 1000, id(n_sent), 1000)
}

/// The state of deliveries, as a consumer tells it.
pub(crate) fn disposition(
    first: u32,
    last: u32,
    state: Option<DeliveryState<'_>>,
) -> Performative<'_> {
    Performative::Disposition(Disposition {
        role: Role::Receiver,
        first: id(first),
        last: Some(id(last)),
        settled: true,
        state,
        batchable: false,
    })
}
