//! A client's connection: bytes in, requests and bytes out.

use crate::fault::{FaultScope, ProtocolFault};
use crate::life::{ConnectionLife, ConnectionPhase, InputReading};
use crate::login::SaslLogin;
use crate::open::ClientOpen;
use crate::requests::{AttachResult, LinkHandle, LinkRequest, SentMessage};
use crate::session_endpoint::{discharged, release_in_session, settle_range};
use crate::session_table::{FrameBody, SessionTable};
use crate::settings::ConnectionSettings;
use amqp10::{
    Close, Condition, FrameRef, FrameType, Performative, ValueRef, decode_frame, put_map,
    usual_acceptance, usual_transfer,
};
use edge::{AuthFailure, CloseMode, Progress, Step};
use session::{
    ChannelId, Confirmation, ConsumerCredit, Error, ErrorKind, ListedSession, Outcome, Position,
};
use std::sync::Arc;

/// The most requests made in one go, as other fronts do.
const REQUESTS_PER_READ_MAX: usize = 256;
/// More input than this is not looked at in one read: spans are 32 bits wide.
const INPUT_BYTES_MAX: usize = 1 << 30;

/// The server's end of a connection.
#[derive(Debug)]
pub struct ServerConnection {
    pub(crate) life: ConnectionLife,
    login: SaslLogin,
    pub(crate) sessions: SessionTable,
}

impl ServerConnection {
    /// A connection that was just accepted.
    #[must_use]
    pub fn new(settings: Arc<ConnectionSettings>) -> Self {
        let life = ConnectionLife::new(settings);
        Self { life, login: SaslLogin::default(), sessions: SessionTable::default() }
    }

    /// The limits and the description of the client, once its open has come.
    pub const fn client(&self) -> Option<&ClientOpen> {
        self.life.client.as_ref()
    }

    /// The reason, for the log, why the connection ended without a broker's doing.
    pub fn failure(&self) -> Option<&str> {
        self.life.failure.as_deref()
    }

    /// The way to close the socket once everything before is written; none while the connection goes on.
    pub const fn close_mode(&self) -> Option<CloseMode> {
        self.life.close_mode
    }

    /// Bytes of messages of which a part is missing.
    pub const fn unfinished_bytes(&self) -> usize {
        self.sessions.unfinished_bytes
    }

    /// The bytes in which the heads of publishes lie that the last read has asked for.
    pub const fn scratch(&self) -> &[u8] {
        self.life.heads.bytes()
    }

    /// Bytes of messages that wait for windows of sessions.
    pub fn n_waiting_bytes(&mut self) -> usize {
        self.sessions.n_waiting_bytes()
    }

    /// Appends the bytes for the client to `out`.
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        self.sessions.tell_outcomes(&mut self.life.out);
        out.append(&mut self.life.out);
    }

    /// Decodes as much of `input` as can be decoded: what was left of the read before, and what came since.
    /// Appends the requests in the order of the input, in which the spans of their contents lie.
    pub fn read(&mut self, input: &[u8], requests: &mut Vec<LinkRequest>) -> Progress {
        self.life.heads.clear();
        let input = input.get(..INPUT_BYTES_MAX).unwrap_or(input);
        let mut reading = InputReading { input, at: 0, wanted: 0, requests };
        let step = loop {
            if let Some(step) = self.step(&mut reading) {
                break step;
            }
        };
        // The rest of a read that is gone on with is no other read.
        self.life.n_reads += u64::from(!matches!(step, Step::Again));
        Progress { consumed: reading.at, wanted: reading.wanted, step }
    }

    fn step(&mut self, reading: &mut InputReading<'_>) -> Option<Step> {
        match self.life.phase {
            ConnectionPhase::SaslHeader | ConnectionPhase::AmqpHeader => {
                SaslLogin::header(&mut self.life, reading)
            }
            ConnectionPhase::Sasl => self.login.frame(&mut self.life, reading),
            ConnectionPhase::Running if reading.requests.len() >= REQUESTS_PER_READ_MAX => {
                Some(Step::Again)
            }
            ConnectionPhase::Open | ConnectionPhase::Running | ConnectionPhase::Closing => {
                self.frame(reading)
            }
            ConnectionPhase::Authenticating
            | ConnectionPhase::Opening
            | ConnectionPhase::ClosingForClient => Some(Step::More),
            ConnectionPhase::Refused => {
                reading.at = reading.input.len();
                Some(Step::More)
            }
            ConnectionPhase::Ended => {
                reading.at = reading.input.len();
                Some(Step::Close)
            }
        }
    }

    fn frame(&mut self, reading: &mut InputReading<'_>) -> Option<Step> {
        let found = decode_frame(reading.rest(), FrameType::Amqp, self.life.frame_bytes_max());
        let (FrameRef { channel, body }, used) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Some(reading.wait_for_frame()),
            Err(error) => {
                // The borders of frames are lost.
                reading.at = reading.input.len();
                self.fail(reading, &framing(error.to_string()));
                return None;
            }
        };
        reading.at += used;
        if body.is_empty() {
            return None;
        }
        if self.life.phase == ConnectionPhase::Running && take_usual(self, reading, channel, body) {
            return None;
        }
        match Performative::decode(body) {
            Ok((performative, payload)) => {
                let payload = reading.payload(payload);
                let frame = FrameBody { performative: &performative, body, payload };
                self.performative(reading, channel, frame)
            }
            Err(error) => {
                self.fail(reading, &framing(error.to_string()));
                None
            }
        }
    }

    fn performative(
        &mut self,
        reading: &mut InputReading<'_>,
        channel: u16,
        frame: FrameBody<'_>,
    ) -> Option<Step> {
        match (self.life.phase, frame.performative) {
            (ConnectionPhase::Closing, Performative::Close(_)) => self.life.end(),
            (ConnectionPhase::Closing, _) => {}
            (ConnectionPhase::Open, Performative::Open(open)) => return self.life.open(open),
            (ConnectionPhase::Open, _) => {
                let reason = "unexpected frame before the connection is open";
                self.life.turn_away(reason.to_owned());
            }
            (_, Performative::Close(_)) => {
                reading.requests.push(LinkRequest::CloseConnection);
                self.sessions.tell_outcomes(&mut self.life.out);
                self.sessions.forget();
                self.life.phase = ConnectionPhase::ClosingForClient;
            }
            (_, Performative::Open(_)) => {
                let text = "the connection is open already";
                self.fail(reading, &ProtocolFault::connection(Condition::IllegalState, text));
            }
            _ => {
                let Self { life, sessions, .. } = self;
                let result = sessions.receive(life, channel, frame, reading.requests);
                if let Err(fault) = result {
                    self.fail(reading, &fault);
                }
            }
        }
        None
    }

    /// Closes the connection for a fault of its client.
    fn fail(&mut self, reading: &mut InputReading<'_>, fault: &ProtocolFault) {
        let Self { life, sessions, .. } = self;
        if life.phase == ConnectionPhase::Running {
            sessions.fail(life, 0, fault, reading.requests);
        } else if life.phase != ConnectionPhase::Closing {
            life.turn_away(fault.text.to_string());
        }
    }

    /// The answer to [`Step::Authenticate`]; then call [`ServerConnection::read`] again.
    pub fn authenticated(&mut self, result: Result<(), AuthFailure>) {
        SaslLogin::answer(&mut self.life, result);
    }

    /// The answer to [`Step::Open`]; then call [`ServerConnection::read`] again.
    pub fn opened(&mut self, result: Result<(), Error>) {
        if self.life.phase != ConnectionPhase::Opening {
            return;
        }
        if let Err(error) = result {
            let fault = open_fault(error, self.life.client.as_ref());
            return self.life.refuse_open(&fault);
        }
        self.life.put_open(false);
        self.life.phase = ConnectionPhase::Running;
    }

    /// The broker's answer to an attach.
    pub fn attached(
        &mut self,
        key: LinkHandle,
        result: AttachResult<'_>,
        requests: &mut Vec<LinkRequest>,
    ) {
        let Self { life, sessions, .. } = self;
        let channel = key.channel.0;
        let done = sessions
            .with(life, channel, requests, |session, io| session.attached(io, key.handle, result));
        if let Some(Err(fault)) = done {
            sessions.fail(life, channel, &fault, requests);
        }
    }

    /// The broker's answer to the publishes `first..=last` of a session, counted from 1 on.
    pub fn answer(&mut self, channel: ChannelId, first: u64, last: u64, answer: Confirmation<'_>) {
        let Self { life, sessions, .. } = self;
        sessions.with(life, channel.0, &mut Vec::new(), |session, io| {
            session.answer(io, first, last, answer);
        });
    }

    /// The broker refuses a publish of a session, which ends nothing but its link, if that.
    pub fn refuse_publish(
        &mut self,
        channel: ChannelId,
        number: u64,
        error: Error,
        requests: &mut Vec<LinkRequest>,
    ) {
        let Self { life, sessions, .. } = self;
        let channel = channel.0;
        let done = sessions
            .with(life, channel, requests, |session, io| session.refuse_publish(io, number, error));
        if let Some(Err(fault)) = done {
            sessions.fail(life, channel, &fault, requests);
        }
    }

    /// Sends a message, in sections, to a consumer, or a response of the management node. A message that the
    /// client does not take ends its session, which is a request to the broker.
    pub fn deliver(
        &mut self,
        key: LinkHandle,
        message: SentMessage<'_>,
        requests: &mut Vec<LinkRequest>,
    ) {
        let Self { life, sessions, .. } = self;
        let channel = key.channel.0;
        let sent = sessions
            .with(life, channel, requests, |session, io| session.deliver(io, key.handle, &message));
        if let Some(Err(fault)) = sent {
            sessions.fail(life, channel, &fault, requests);
        }
    }

    /// Tells a consumer's credit, and whether it is the active one of its queue.
    pub fn flowed(&mut self, key: LinkHandle, credit: ConsumerCredit) {
        let Self { life, sessions, .. } = self;
        sessions.with(life, key.channel.0, &mut Vec::new(), |session, io| {
            session.flowed(io, key.handle, credit);
        });
    }

    /// Ends a link, a session or the connection: the broker's doing, which has given back what it held.
    pub fn broker_ends(&mut self, key: LinkHandle, fault: &ProtocolFault) {
        let Self { life, sessions, .. } = self;
        let (channel, mut requests) = (key.channel.0, Vec::new());
        if life.phase != ConnectionPhase::Running {
            return;
        }
        match fault.scope {
            FaultScope::Link => {
                sessions.with(life, channel, &mut requests, |session, io| {
                    session.detach(io, key.handle, fault);
                });
            }
            FaultScope::Session | FaultScope::Connection => {
                sessions.fail(life, channel, fault, &mut requests);
            }
        }
    }

    /// Holds publishers back, or lets them go on.
    pub fn hold(&mut self, is_held: bool) {
        self.sessions.hold(is_held, &mut self.life.out);
    }

    /// The caller has given back what the connection held: the answer to the client's close may go out.
    pub fn closed(&mut self) {
        if self.life.phase == ConnectionPhase::ClosingForClient {
            Performative::Close(Close { error: None }).encode_frame(0, &mut self.life.out);
            self.life.end();
        }
    }

    /// Tells a client that its login was refused, if it was: a while after the refusal.
    pub fn tell_refusal(&mut self) {
        SaslLogin::tell_refusal(&mut self.life);
    }

    /// Closes the connection of a client that was silent for too long. COMPAT: RabbitMQ's words.
    pub fn close_silent(&mut self, requests: &mut Vec<LinkRequest>) {
        let text = "no frame received from client within idle timeout threshold";
        let fault = ProtocolFault::connection(Condition::ResourceLimitExceeded, text);
        if self.life.phase == ConnectionPhase::Running {
            self.sessions.fail(&mut self.life, 0, &fault, requests);
        }
    }
}

/// Takes a transfer, or a disposition that accepts, in the form that nearly all have; false if this is
/// neither, or there is no such session.
#[inline]
fn take_usual(
    server: &mut ServerConnection,
    reading: &mut InputReading<'_>,
    channel: u16,
    body: &[u8],
) -> bool {
    let ServerConnection { life, sessions, .. } = server;
    if let Some((transfer, payload)) = usual_transfer(body) {
        let payload = reading.payload(payload);
        let taken = sessions.with(life, channel, reading.requests, |session, io| {
            session.transfer(io, &transfer, payload)
        });
        if let Some(Err(fault)) = &taken {
            sessions.fail(life, channel, fault, reading.requests);
        }
        taken.is_some()
    } else if let Some(range) = usual_acceptance(body) {
        let taken = sessions.with(life, channel, reading.requests, |session, io| {
            settle_range(session, io, range, Outcome::Accepted);
        });
        taken.is_some()
    } else {
        false
    }
}

/// The client's first session on this channel or a higher one, as listings show it.
pub fn listed_session(server: &ServerConnection, channel: ChannelId) -> Option<ListedSession> {
    server.sessions.listed_from(channel)
}

/// Tells a client that it has held deliveries of a link for too long. They are released, and stay for it to
/// settle. False if it settles nothing on the link.
pub fn release_overdue(
    server: &mut ServerConnection,
    key: LinkHandle,
    positions: &[Position],
) -> bool {
    let ServerConnection { life, sessions, .. } = server;
    let told = sessions.with(life, key.channel.0, &mut Vec::new(), |session, io| {
        release_in_session(session, io, key.handle, positions)
    });
    told.unwrap_or(true)
}

/// The broker's answer to the end of a transaction of a session.
pub fn transaction_ended(
    server: &mut ServerConnection,
    session: ChannelId,
    number: u32,
    result: Result<(), Error>,
    requests: &mut Vec<LinkRequest>,
) {
    let ServerConnection { life, sessions, .. } = server;
    let channel = session.0;
    let done = sessions
        .with(life, channel, requests, |session, io| discharged(session, io, number, result));
    if let Some(Err(fault)) = done {
        sessions.fail(life, channel, &fault, requests);
    }
}

/// The fault of an open that the broker refuses. COMPAT: RabbitMQ's words of the virtual host, and, of a name
/// that another connection has, what clients of JMS know from other brokers.
fn open_fault(error: Error, client: Option<&ClientOpen>) -> ProtocolFault {
    let (is_unknown, is_taken) =
        (error.kind == ErrorKind::VhostNotFound, error.kind == ErrorKind::ResourceLocked);
    let fault = ProtocolFault::of_refusal(error);
    if is_taken {
        let mut info = Vec::new();
        put_map(&mut info, |items| {
            items.put_symbol("invalid-field", ValueRef::Symbol("container-id"));
        });
        let fault = ProtocolFault::connection(Condition::InvalidField, fault.text);
        return ProtocolFault { info, ..fault };
    }
    let vhost = client.map_or("", |client| &*client.vhost);
    let text = match is_unknown {
        true => format!("AMQP 1.0 connection failed: virtual host '{vhost}' does not exist").into(),
        false => fault.text,
    };
    ProtocolFault { text, ..fault }
}

fn framing(text: String) -> ProtocolFault {
    ProtocolFault::connection(Condition::FramingError, text)
}
