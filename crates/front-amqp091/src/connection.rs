//! The incoming half of a client connection: turns bytes into requests, and answers what concerns the
//! connection itself. The outgoing half is [`ClientOutbox`].

mod channels;
mod content;
mod frames;
mod handshake;
mod methods;

use crate::Settings;
use crate::outbox::{ClientOutbox, Locked, SILENT_CLOSE_DELAY_MS};
use crate::reply;
use amqp091::MethodId;
use amqp091::method::ConnectionOpen;
use edge::{AuthFailure, CloseMode, Closing, Progress, Step, Tick, Timers};
use frames::Incoming;
use handshake::Handshake;
use session::{Error, ErrorKind, Negotiated, Op, Request};
use std::sync::Arc;
use stdx::Now;

/// Milliseconds the client has at most to answer `connection.close`, or to close its socket once its own was
/// answered; fewer if its heartbeat is shorter. COMPAT: as with RabbitMQ.
const CLOSING_MAX_MS: u64 = 30_000;

/// Milliseconds the client has for its part in closing the connection.
const fn closing_ms(negotiated: &Negotiated) -> u64 {
    match negotiated.heartbeat_s as u64 * 1000 {
        1..CLOSING_MAX_MS => negotiated.heartbeat_s as u64 * 1000,
        _ => CLOSING_MAX_MS,
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

/// The life of a connection: its phase, what was agreed on, its times, and why it ends.
#[derive(Debug)]
struct Lifecycle {
    settings: Arc<Settings>,
    outbox: Arc<ClientOutbox>,
    phase: Phase,
    negotiated: Negotiated,
    timers: Timers,
    /// The reason, for the log, why the connection ended without a broker's doing.
    failure: Option<String>,
}

impl Lifecycle {
    fn opened(&mut self, now: Now, result: Result<(), Error>) {
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

    fn close(&mut self, now: Now) {
        self.phase = Phase::Closing;
        self.timers.closing(now, closing_ms(&self.negotiated));
    }

    fn end(&mut self, close_mode: CloseMode) {
        self.phase = Phase::Ended;
        self.outbox.lock().end(close_mode);
    }

    /// Ends a connection whose client made a mistake before it was let in.
    fn refuse_handshake(&mut self, error: &Error, method: MethodId) {
        self.failure = Some(error.text.to_string());
        self.outbox.lock().put_connection_close(error, reply::origin(method));
        self.end(CloseMode::Hold(SILENT_CLOSE_DELAY_MS));
    }
}

/// The incoming half of a connection.
#[derive(Debug)]
pub struct Connection {
    life: Lifecycle,
    handshake: Handshake,
    incoming: Incoming,
}

impl Connection {
    /// A connection that was accepted now.
    #[must_use]
    pub fn new(settings: Arc<Settings>, now: Now) -> Self {
        let outbox =
            Arc::new(ClientOutbox::new(Locked::new(settings.initial_frame_max, &settings.budget)));
        let negotiated =
            Negotiated { channel_max: 0, frame_max: settings.initial_frame_max, heartbeat_s: 0 };
        let timers = Timers::new(now, settings.handshake_timeout_ms);
        let (phase, failure) = (Phase::Header, None);
        Self {
            life: Lifecycle { settings, outbox, phase, negotiated, timers, failure },
            handshake: Handshake::new(),
            incoming: Incoming::default(),
        }
    }

    /// Sets the name of the cluster, which the client is told in the handshake.
    #[must_use]
    pub fn with_cluster_name(mut self, name: Option<String>) -> Self {
        self.handshake.cluster_name = name;
        self
    }

    /// Notes that clients of AMQP 1.0 are served on the port, too: they are handed over.
    #[must_use]
    pub const fn beside_amqp10(mut self, is_so: bool) -> Self {
        self.handshake.is_beside_amqp10 = is_so;
        self
    }

    /// The client's outbox, for the broker.
    #[must_use]
    pub fn outbox(&self) -> Arc<ClientOutbox> {
        Arc::clone(&self.life.outbox)
    }

    /// The limits agreed on; final once a virtual host is asked for.
    pub const fn negotiated(&self) -> Negotiated {
        self.life.negotiated
    }

    /// Bytes of messages of which a part is missing.
    pub fn unfinished_bytes(&mut self) -> u64 {
        self.incoming.unfinished_bytes()
    }

    /// Whether the client has said that it speaks this protocol.
    pub fn has_begun(&self) -> bool {
        self.life.phase != Phase::Header
    }

    /// The reason, for the log, why the connection ended without a broker's doing.
    pub fn failure(&self) -> Option<&str> {
        self.life.failure.as_deref()
    }

    /// Decodes as much of `input` as can be decoded: what was left of the read before, and what
    /// came since. Appends the requests in the order of the input, in which their spans lie.
    pub fn read(&mut self, now: Now, input: &[u8], requests: &mut Vec<Request>) -> Progress {
        if !input.is_empty() {
            self.life.timers.heard(now);
        }
        self.apply_broker_updates(now);
        let input = input.get(..INPUT_BYTES_MAX).unwrap_or(input);
        let Self { life, handshake, incoming } = self;
        let mut reading = Reading { now, life, input, at: 0, wanted: 0, requests };
        let step = loop {
            let step = match reading.life.phase {
                Phase::Header => handshake.read_header(&mut reading),
                Phase::Start | Phase::Secure | Phase::Tune | Phase::Open => {
                    handshake.read_handshake(&mut reading)
                }
                Phase::Authenticating | Phase::Opening => Some(Step::More),
                Phase::Running => incoming.run(&mut reading),
                Phase::Closing => incoming.discard(&mut reading),
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
        if self.life.phase == Phase::Authenticating {
            self.handshake.answer_login(&mut self.life, result);
        }
    }

    /// The answer to [`Step::Open`]; then call [`Connection::read`] again.
    pub fn opened(&mut self, now: Now, result: Result<(), Error>) {
        if self.life.phase == Phase::Opening {
            self.life.opened(now, result);
        }
    }

    /// Does what is due by now; says when to ask again at the latest.
    pub fn tick(&mut self, now: Now) -> Tick {
        self.life.timers.tick(now, &*self.life.outbox)
    }

    /// Something was written to the socket.
    pub const fn wrote(&mut self, now: Now) {
        self.life.timers.active(now);
    }

    /// The caller stops or resumes reading: a client that is not listened to is not taken for dead.
    pub const fn set_reading(&mut self, now: Now, reading: bool) {
        self.life.timers.set_reading(now, reading);
    }

    /// Learns what the broker told the client since the last read.
    fn apply_broker_updates(&mut self, now: Now) {
        let updates = self.life.outbox.lock().broker_updates();
        for channel in updates.failed {
            self.incoming.channel_failed(channel);
        }
        match updates.closing {
            Closing::Sent if self.life.phase != Phase::Closing => {
                self.life.close(now);
                self.incoming.forget_channels();
            }
            Closing::Ended => self.life.phase = Phase::Ended,
            Closing::No | Closing::Sent => {}
        }
    }
}

/// The most bytes of input looked at in one read: spans are 32 bits wide.
const INPUT_BYTES_MAX: usize = 1 << 30;

/// A read in progress.
struct Reading<'a> {
    now: Now,
    life: &'a mut Lifecycle,
    input: &'a [u8],
    /// The number of bytes consumed.
    at: usize,
    wanted: usize,
    requests: &'a mut Vec<Request>,
}

impl<'a> Reading<'a> {
    fn rest(&self) -> &'a [u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// Whether the last request is a `basic.get`: the size of its message is known only when it is there.
    fn ends_with_get(&self) -> bool {
        matches!(self.requests.last(), Some(Request::Control(last)) if matches!(last.op, Op::Get { .. }))
    }

    /// Waits for the rest of this frame.
    fn wait_for_frame(&mut self) -> Step {
        self.wanted = frame_len(self.rest()).unwrap_or(0);
        Step::More
    }
}

/// The whole length of the frame that `bytes` begin with, once its header is there.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    let &[_, _, _, s0, s1, s2, s3] = bytes.first_chunk()?;
    let size = usize::try_from(u32::from_be_bytes([s0, s1, s2, s3])).ok()?;
    size.checked_add(amqp091::spec::FRAME_OVERHEAD_BYTES as usize)
}

/// Whether an error leaves unknown where the next frame begins.
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
