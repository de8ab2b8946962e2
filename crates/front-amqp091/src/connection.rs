//! One client connection's incoming half: bytes to requests, and what the connection itself
//! answers. The outgoing half is [`ClientOutbox`].

mod channels;
mod content;
mod frames;
mod handshake;
mod methods;
mod timers;

use crate::Settings;
use crate::outbox::{ClientOutbox, CloseMode, Closing, SILENT_CLOSE_DELAY_MS};
use crate::reply;
use crate::sasl::Mechanism;
use amqp091::MethodId;
use amqp091::method::ConnectionOpen;
use channels::Channels;
use content::PartialBody;
use session::{Control, Error, ErrorKind, Op, Request, Table};
use std::sync::Arc;
use stdx::Now;
use timers::Timers;

pub use timers::{MISSED_HEARTBEATS, Tick};

/// Milliseconds the client has at most to answer `connection.close`, or to close its socket once its own was
/// answered; fewer if its heartbeat is shorter. COMPAT: as with RabbitMQ.
const CLOSING_MAX_MS: u64 = 30_000;

/// The outcome of a read.
#[derive(Debug)]
pub struct Progress {
    /// The number of bytes of the input that may be dropped, once the requests are worked off.
    pub consumed: usize,
    /// Bytes of input, counted after the consumed ones, without which a further read is in vain;
    /// 0 when that is not known.
    pub wanted: usize,
    /// The step to take after the requests are worked off.
    pub step: Step,
}

/// The event that the connection waits for.
#[derive(Debug)]
pub enum Step {
    /// More input.
    More,
    /// To be called again with the rest of the input.
    Again,
    /// [`Connection::authenticated`].
    Authenticate(Box<Login>),
    /// [`Connection::opened`].
    Open {
        /// The virtual host the client asks for.
        vhost: String,
    },
    /// Nothing: input is dropped from here on. The outbox says when and how to close.
    Close,
}

/// The client's login.
pub struct Login {
    /// The mechanism of the login.
    pub mechanism: Mechanism,
    /// The user; empty for anonymous.
    pub user: String,
    /// The password.
    pub password: Vec<u8>,
    /// The client's `client-properties`.
    pub client_properties: Table,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("mechanism", &self.mechanism)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The reason why a login fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthFailure {
    /// User and password do not fit, or the user may not come from there: the client is told no
    /// more than that.
    Refused,
    /// Another reason, told as it is.
    Error(Error),
}

/// The limits that client and server agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Most channels; 0 for no limit.
    pub channel_max: u16,
    /// Largest frame in bytes; 0 for no limit.
    pub frame_max: u32,
    /// Heartbeat interval in seconds; 0 for none.
    pub heartbeat_s: u16,
}

impl Negotiated {
    /// Milliseconds the client has for its part in closing the connection.
    const fn closing_ms(&self) -> u64 {
        match self.heartbeat_s as u64 * 1000 {
            1..CLOSING_MAX_MS => self.heartbeat_s as u64 * 1000,
            _ => CLOSING_MAX_MS,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The protocol header is awaited.
    Header,
    /// `connection.start-ok` is awaited.
    Start,
    /// `connection.secure-ok` is awaited.
    Secure,
    /// The caller checks the login.
    Authenticating,
    /// `connection.tune-ok` is awaited.
    Tune,
    /// `connection.open` is awaited.
    Open,
    /// The caller opens the virtual host.
    Opening,
    Running,
    /// The end was said by one side: only its answer counts.
    Closing,
    Ended,
}

/// The incoming half of a connection.
#[derive(Debug)]
pub struct Connection {
    settings: Arc<Settings>,
    outbox: Arc<ClientOutbox>,
    phase: Phase,
    mechanism: Mechanism,
    /// The login whose rest the client is asked for.
    challenged: Option<Box<Login>>,
    authentication_failure_close: bool,
    negotiated: Negotiated,
    channels: Channels,
    partial: Option<PartialBody>,
    /// Whether the start of the next frame is no longer known.
    is_lost: bool,
    timers: Timers,
    failure: Option<String>,
}

impl Connection {
    /// A connection that was accepted now.
    #[must_use]
    pub fn new(settings: Arc<Settings>, now: Now) -> Self {
        let outbox = Arc::new(ClientOutbox::new(settings.initial_frame_max, &settings.budget));
        let negotiated =
            Negotiated { channel_max: 0, frame_max: settings.initial_frame_max, heartbeat_s: 0 };
        let timers = Timers::new(now, settings.handshake_timeout_ms);
        Self {
            settings,
            outbox,
            phase: Phase::Header,
            mechanism: Mechanism::Plain,
            challenged: None,
            authentication_failure_close: false,
            negotiated,
            channels: Channels::default(),
            partial: None,
            is_lost: false,
            timers,
            failure: None,
        }
    }

    /// The client's outbox, for the broker.
    #[must_use]
    pub fn outbox(&self) -> Arc<ClientOutbox> {
        Arc::clone(&self.outbox)
    }

    /// The limits agreed on; final once a virtual host is asked for.
    #[must_use]
    pub const fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Bytes of messages of which a part is missing.
    pub fn unfinished_bytes(&mut self) -> u64 {
        self.channels.unfinished_bytes()
    }

    /// Whether the client has said that it speaks this protocol.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.phase != Phase::Header
    }

    /// The reason, for the log, why the connection ended without a broker's doing.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Decodes as much of `input` as can be decoded: what was left of the read before, and what
    /// came since. Appends the requests in the order of the input, in which their spans lie.
    pub fn read(&mut self, now: Now, input: &[u8], requests: &mut Vec<Request>) -> Progress {
        if !input.is_empty() {
            self.timers.heard(now);
        }
        self.apply_broker_updates(now);
        let input = input.get(..INPUT_BYTES_MAX).unwrap_or(input);
        let mut reading = Reading { now, input, at: 0, wanted: 0, requests };
        let step = loop {
            let step = match self.phase {
                Phase::Header => self.read_header(&mut reading),
                Phase::Start | Phase::Secure | Phase::Tune | Phase::Open => {
                    self.read_handshake(&mut reading)
                }
                Phase::Authenticating | Phase::Opening => Some(Step::More),
                Phase::Running => self.run(&mut reading),
                Phase::Closing => self.discard(&mut reading),
                Phase::Ended => {
                    reading.at = input.len();
                    Some(Step::Close)
                }
            };
            if let Some(step) = step {
                break step;
            }
        };
        Progress { consumed: reading.at, wanted: reading.wanted, step }
    }

    /// The answer to [`Step::Authenticate`]; then call [`Connection::read`] again.
    pub fn authenticated(&mut self, result: Result<(), AuthFailure>) {
        if self.phase == Phase::Authenticating {
            self.answer_login(result);
        }
    }

    /// The answer to [`Step::Open`]; then call [`Connection::read`] again.
    pub fn opened(&mut self, now: Now, result: Result<(), Error>) {
        if self.phase != Phase::Opening {
            return;
        }
        match result {
            Ok(()) => {
                self.outbox.lock().put(|out| {
                    amqp091::method::ConnectionOpenOk { known_hosts: b"" }.encode_frame(0, out);
                });
                self.phase = Phase::Running;
                self.timers.handshake_is_done();
            }
            Err(error) => {
                self.failure = Some(error.text.to_string());
                self.outbox.lock().put_connection_close(&error, reply::origin(ConnectionOpen::ID));
                self.close(now);
            }
        }
    }

    /// Does what is due by now; says when to ask again at the latest.
    pub fn tick(&mut self, now: Now) -> Tick {
        self.timers.tick(now, &self.outbox)
    }

    /// Something was written to the socket.
    pub const fn wrote(&mut self, now: Now) {
        self.timers.active(now);
    }

    /// The caller stops or resumes reading: a client that is not listened to is not taken for dead.
    pub const fn set_reading(&mut self, now: Now, reading: bool) {
        self.timers.set_reading(now, reading);
    }

    /// Learns what the broker told the client since the last read.
    fn apply_broker_updates(&mut self, now: Now) {
        let updates = self.outbox.lock().broker_updates();
        for channel in updates.failed {
            self.channels.fail(channel);
        }
        match updates.closing {
            Closing::Sent if self.phase != Phase::Closing => self.close(now),
            Closing::Ended => self.phase = Phase::Ended,
            Closing::No | Closing::Sent => {}
        }
    }

    fn close(&mut self, now: Now) {
        self.phase = Phase::Closing;
        self.channels = Channels::default();
        self.timers.closing(now, self.negotiated.closing_ms());
    }

    fn end(&mut self, close_mode: CloseMode) {
        self.phase = Phase::Ended;
        self.channels = Channels::default();
        self.outbox.lock().end(close_mode);
    }

    /// Ends a connection whose client made a mistake before it was let in.
    fn refuse_handshake(&mut self, error: &Error, method: MethodId) {
        self.failure = Some(error.text.to_string());
        self.outbox.lock().put_connection_close(error, reply::origin(method));
        self.end(CloseMode::Hold(SILENT_CLOSE_DELAY_MS));
    }

    /// Has the broker end a running connection whose client made a mistake.
    fn fail(&mut self, reading: &mut Reading<'_>, channel: u16, error: Error, method: MethodId) {
        reading.requests.push(Request::Control(Box::new(Control {
            channel: session::ChannelId(channel),
            origin: reply::origin(method),
            nowait: false,
            op: Op::ConnectionFail(error),
        })));
        self.close(reading.now);
    }
}

/// More input than this is not looked at in one read: spans are 32 bits wide.
const INPUT_BYTES_MAX: usize = 1 << 30;

/// One read in progress.
struct Reading<'a> {
    now: Now,
    input: &'a [u8],
    /// Bytes consumed.
    at: usize,
    wanted: usize,
    requests: &'a mut Vec<Request>,
}

impl<'a> Reading<'a> {
    fn rest(&self) -> &'a [u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// Whether what was asked for last is a message: its size is known only when it is there.
    fn ends_with_get(&self) -> bool {
        matches!(self.requests.last(), Some(Request::Control(last)) if matches!(last.op, Op::Get { .. }))
    }

    /// Nothing can be done without the rest of this frame.
    fn wait_for_frame(&mut self) -> Step {
        self.wanted = frame_len(self.rest()).unwrap_or(0);
        Step::More
    }
}

/// The whole length of the frame that begins here, once its header is there.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    let &[_, _, _, s0, s1, s2, s3] = bytes.first_chunk()?;
    let size = usize::try_from(u32::from_be_bytes([s0, s1, s2, s3])).ok()?;
    size.checked_add(amqp091::spec::FRAME_OVERHEAD_BYTES as usize)
}

/// Bytes that are no frame: where the next one begins is unknown.
const fn loses_frame_borders(error: &amqp091::WireError) -> bool {
    matches!(
        error,
        amqp091::WireError::FrameTooLarge { .. }
            | amqp091::WireError::FrameEnd { .. }
            | amqp091::WireError::UnknownFrame { .. }
    )
}

/// A frame of this kind may not come now.
fn unexpected(text: &'static str) -> Error {
    Error::new(ErrorKind::UnexpectedFrame, text)
}
