//! The incoming half of a client connection: turns bytes into requests, and answers what concerns the
//! connection itself. The outgoing half is [`ClientOutbox`].

mod commands;
mod handshake;
mod subscription;

use crate::Settings;
use crate::outbox::{AdvertisedAddress, ClientOutbox, FORCED_MS, Locked, SILENT_CLOSE_DELAY_MS};
use crate::settings::FRAME_BYTES_MAX;
use edge::{AuthFailure, CloseMode, Closing, Progress, Step, Tick, Timers};
use handshake::Handshake;
use session::{Error, ErrorKind, Negotiated, Op, Request, StreamCounter};
use std::sync::Arc;
use stdx::Now;
use streamproto::spec::FRAME_SIZE_BYTES;
use streamproto::{FieldError, Key, ResponseCode, ToServer, WireError, decode_frame};

/// The most requests made in one go, as other fronts do.
const REQUESTS_PER_READ_MAX: usize = 256;
/// The most names that these requests list, but for those of the last one.
const LISTED_PER_READ_MAX: usize = 1_024;
/// Milliseconds a client has to answer the server's close. COMPAT: RabbitMQ's time for each step.
const CLOSING_MS: u64 = 10_000;
/// Milliseconds for what was written to arrive at a client that is turned away.
const LINGER_MS: u64 = 1_000;
/// More input than this is not looked at in one read: spans are 32 bits wide.
const INPUT_BYTES_MAX: usize = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The client's properties are awaited.
    PeerProperties,
    /// The question for mechanisms is awaited.
    SaslHandshake,
    /// A login, or the rest of one, is awaited.
    Authenticate,
    /// The caller checks the login.
    Authenticating,
    /// The client's limits are awaited.
    Tune,
    /// The name of a virtual host is awaited.
    Open,
    /// The caller opens the virtual host.
    Opening,
    Running,
    /// The caller checks new credentials of a client that runs.
    Renewing,
    /// Refused, and not told so yet.
    Refused,
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
    /// The largest frame that is taken now, in bytes.
    frame_max: u32,
    negotiated: Negotiated,
    timers: Timers,
    /// The reason, for the log, why the connection ended without a broker's doing.
    failure: Option<String>,
    /// The answer to a client that is refused, until it is said.
    withheld: Vec<u8>,
    counter: Arc<StreamCounter>,
}

impl Lifecycle {
    fn end(&mut self, close_mode: CloseMode) {
        self.phase = Phase::Ended;
        self.outbox.lock().end(close_mode);
    }

    /// Ends a connection before its virtual host is open: COMPAT: RabbitMQ says nothing then.
    fn turn_away(&mut self, reason: String) {
        self.failure = Some(reason);
        self.end(CloseMode::Linger(LINGER_MS));
    }

    /// Refuses a client. COMPAT: as with RabbitMQ the client is told so in a while, before the connection
    /// ends, and not listened to until then: a client that guesses is slowed down, and no other.
    fn refuse(
        &mut self,
        now: Now,
        code: ResponseCode,
        reason: String,
        answer: impl FnOnce(&mut Vec<u8>),
    ) {
        self.failure = Some(reason);
        self.phase = Phase::Refused;
        self.timers.refused(now, SILENT_CLOSE_DELAY_MS);
        answer(&mut self.withheld);
        let mut locked = self.outbox.lock();
        locked.forget_links();
        locked.note_refused(code);
    }

    fn tell_refusal(&mut self) {
        let answer = std::mem::take(&mut self.withheld);
        self.outbox.lock().put(|out| out.extend(answer));
        self.end(CloseMode::Linger(LINGER_MS));
    }

    fn closing(&mut self, now: Now) {
        self.phase = Phase::Closing;
        self.timers.closing(now, CLOSING_MS);
    }
}

/// The incoming half of a connection.
#[derive(Debug)]
pub struct Connection {
    life: Lifecycle,
    handshake: Handshake,
}

impl Connection {
    /// A connection that was accepted now, at this port.
    #[must_use]
    pub fn new(settings: Arc<Settings>, port: u16, now: Now) -> Self {
        let (host, port) =
            (settings.advertised_host.clone(), settings.advertised_port.unwrap_or(port));
        let advertised = AdvertisedAddress { host, port };
        let counter = Arc::new(settings.totals.open());
        let locked = Locked::new(&settings.budget, advertised, Arc::clone(&counter));
        let outbox = Arc::new(ClientOutbox::new(locked));
        let timers = Timers::new(now, settings.handshake_timeout_ms);
        let frame_max = smaller(settings.initial_frame_max, settings.frame_max);
        let negotiated = Negotiated { channel_max: 0, frame_max, heartbeat_s: 0 };
        let (phase, failure, withheld) = (Phase::PeerProperties, None, Vec::new());
        let life = Lifecycle {
            settings,
            outbox,
            phase,
            frame_max,
            negotiated,
            timers,
            failure,
            withheld,
            counter,
        };
        Self { life, handshake: Handshake::default() }
    }

    /// Sets the name of the cluster, which the client is told in the handshake.
    #[must_use]
    pub fn with_cluster_name(mut self, name: Option<String>) -> Self {
        self.handshake.cluster_name = name;
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

    /// Whether the client has said that it speaks this protocol.
    pub fn has_begun(&self) -> bool {
        self.life.phase != Phase::PeerProperties
    }

    /// Connections of this protocol at a time; `None` is no limit.
    #[must_use]
    pub fn max_connections(&self) -> Option<u64> {
        self.life.settings.max_connections
    }

    /// The reason, for the log, why the connection ended without a broker's doing.
    pub fn failure(&self) -> Option<&str> {
        self.life.failure.as_deref()
    }

    /// Decodes as much of `input` as can be decoded: what was left of the read before, and what came since.
    /// Appends the requests in the order of the input, in which their spans lie.
    pub fn read(&mut self, now: Now, input: &[u8], requests: &mut Vec<Request>) -> Progress {
        if !input.is_empty() {
            self.life.timers.heard(now);
        }
        let (closing, is_asked) = {
            let mut locked = self.life.outbox.lock();
            (locked.closing(), locked.is_close_asked())
        };
        match closing {
            Closing::Sent if self.life.phase != Phase::Closing => self.life.closing(now),
            Closing::Ended => {
                self.life.phase = Phase::Ended;
                // A client that does not take the bytes written before is not waited for.
                self.life.timers.closing(now, if is_asked { CLOSING_MS } else { FORCED_MS });
            }
            Closing::No | Closing::Sent => {}
        }
        let input = input.get(..INPUT_BYTES_MAX).unwrap_or(input);
        let Self { life, handshake } = self;
        let mut reading = Reading { now, life, input, at: 0, wanted: 0, n_listed: 0, requests };
        let step = loop {
            if let Some(step) = reading.step(handshake) {
                break step;
            }
        };
        Progress { consumed: reading.at, wanted: reading.wanted, step }
    }

    /// The answer to [`Step::Authenticate`]; then call [`Connection::read`] again.
    pub fn authenticated(&mut self, now: Now, result: Result<(), AuthFailure>) {
        if self.life.phase == Phase::Authenticating {
            self.handshake.answer_login(&mut self.life, now, result);
        } else if self.life.phase == Phase::Renewing {
            self.handshake.answer_renewal(&mut self.life, now, result);
        }
    }

    /// The answer to [`Step::Open`]; then call [`Connection::read`] again.
    pub fn opened(&mut self, now: Now, result: Result<(), Error>) {
        if self.life.phase == Phase::Opening {
            self.handshake.answer_open(&mut self.life, now, result);
        }
    }

    /// Does what is due by now; says when to ask again at the latest.
    pub fn tick(&mut self, now: Now) -> Tick {
        if self.life.timers.takes_refusal(now) && self.life.phase == Phase::Refused {
            self.life.tell_refusal();
        }
        self.life.timers.tick(now, &*self.life.outbox)
    }

    /// Notes that something was written to the socket.
    pub const fn wrote(&mut self, now: Now) {
        self.life.timers.active(now);
    }

    /// Notes that the caller stops or resumes reading: a client that is not listened to is not taken for
    /// dead.
    pub const fn set_reading(&mut self, now: Now, reading: bool) {
        self.life.timers.set_reading(now, reading);
    }
}

/// A read in progress.
struct Reading<'a> {
    now: Now,
    life: &'a mut Lifecycle,
    input: &'a [u8],
    /// The number of bytes consumed.
    at: usize,
    wanted: usize,
    /// The number of names that the requests list.
    n_listed: usize,
    requests: &'a mut Vec<Request>,
}

impl<'a> Reading<'a> {
    fn step(&mut self, handshake: &mut Handshake) -> Option<Step> {
        match self.life.phase {
            Phase::Authenticating | Phase::Opening | Phase::Renewing => return Some(Step::More),
            Phase::Ended => {
                self.at = self.input.len();
                return Some(Step::Close);
            }
            Phase::Refused => {
                self.at = self.input.len();
                return Some(Step::More);
            }
            Phase::Running
                if self.requests.len() >= REQUESTS_PER_READ_MAX
                    || self.n_listed >= LISTED_PER_READ_MAX =>
            {
                return Some(Step::Again);
            }
            Phase::PeerProperties
            | Phase::SaslHandshake
            | Phase::Authenticate
            | Phase::Tune
            | Phase::Open
            | Phase::Running
            | Phase::Closing => {}
        }
        let rest = self.input.get(self.at..).unwrap_or_default();
        match decode_frame(rest, self.life.frame_max) {
            Ok(Some((frame, used))) => {
                let ends_at = self.at + used;
                let step = self.frame(handshake, frame);
                self.at = ends_at;
                step
            }
            Ok(None) => {
                self.wanted = frame_bytes(rest).unwrap_or(0);
                Some(Step::More)
            }
            Err(error) => {
                // The borders of frames are lost.
                self.at = self.input.len();
                self.fault(&error)
            }
        }
    }

    fn frame(&mut self, handshake: &mut Handshake, frame: &'a [u8]) -> Option<Step> {
        match (ToServer::decode(frame), self.life.phase) {
            (Ok(ToServer::Heartbeat(_)), _) => None,
            (command, Phase::Closing) => self.while_closing(command.ok()),
            (Ok(command), Phase::Running) => self.command(handshake, &command, frame.len()),
            (Ok(command), _) => handshake.command(self.life, self.now, &command),
            (Err(error), _) => self.fault(&error),
        }
    }

    /// COMPAT: RabbitMQ ignores everything but the answer that it waits for.
    fn while_closing(&mut self, command: Option<ToServer<'_>>) -> Option<Step> {
        if matches!(command, Some(ToServer::Code(answer)) if answer.key == Key::Close) {
            self.life.end(CloseMode::Linger(LINGER_MS));
        }
        None
    }

    /// Bytes that are no command, or none that may come now.
    fn fault(&mut self, error: &WireError) -> Option<Step> {
        if self.life.phase == Phase::Running {
            let kind = match error {
                WireError::FrameTooLarge { .. }
                | WireError::Command { error: FieldError::TooMany { .. }, .. } => {
                    ErrorKind::FrameError
                }
                WireError::ShortFrame
                | WireError::UnknownCommand(_)
                | WireError::Command { .. } => ErrorKind::CommandInvalid,
            };
            let error = Error::new(kind, error.to_string());
            self.control(Key::Close, 0, Op::FailConnection(error));
            self.life.closing(self.now);
        } else if !matches!(self.life.phase, Phase::Closing | Phase::Refused) {
            self.life.turn_away(match self.input {
                [0x16, 3, ..] => "TLS on a port without TLS".to_owned(),
                [b'A', b'M', b'Q', b'P', ..] => "AMQP on a stream port".to_owned(),
                _ => error.to_string(),
            });
        }
        None
    }
}

/// The whole length of the frame that begins here, once its size is there.
fn frame_bytes(rest: &[u8]) -> Option<usize> {
    let size = usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?;
    size.checked_add(FRAME_SIZE_BYTES)
}

/// The smaller of two limits, 0 being none, and never more than can be taken.
fn smaller(a: u32, b: u32) -> u32 {
    [a, b].into_iter().filter(|limit| *limit > 0).fold(FRAME_BYTES_MAX, u32::min)
}
