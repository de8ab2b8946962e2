//! A client and a broker around the front.

use edge::{AuthFailure, CloseMode, Proof, Step, TaskOutbox as _, WriteBatch};
use front_stream::{ClientOutbox, Connection, Settings};
use session::{Error, Event, Outbox, Request, Sink};
use std::io::IoSlice;
use std::sync::Arc;
use stdx::Now;
use streamproto::command::{Open, PeerProperties, SaslAuthenticate, SaslHandshake, Tune};
use streamproto::{Command, ToClient, decode_frame};

pub(crate) const START: Now = Now::at_ms(1_000_000);
pub(crate) const PORT: u16 = 5552;

/// So many milliseconds after the start.
pub(crate) const fn later(ms: u64) -> Now {
    START.plus(ms)
}

/// The bytes of a frame.
pub(crate) fn frame<'a>(command: &impl Command<'a>) -> Vec<u8> {
    let mut out = Vec::new();
    command.encode_frame(&mut out);
    out
}

/// The front with a client and a broker around it.
pub(crate) struct Talk {
    pub(crate) front: Connection,
    pub(crate) outbox: Arc<ClientOutbox>,
    /// The requests to the broker, in words.
    pub(crate) asked: Vec<String>,
    pub(crate) close_mode: Option<CloseMode>,
    /// The login that is to be refused, and the virtual host.
    pub(crate) refuses: bool,
    input: Vec<u8>,
    batch: WriteBatch,
}

impl Talk {
    pub(crate) fn new(settings: Settings) -> Self {
        let front = Connection::new(Arc::new(settings), PORT, START);
        Self {
            outbox: front.outbox(),
            front,
            asked: Vec::new(),
            close_mode: None,
            refuses: false,
            input: Vec::new(),
            batch: WriteBatch::default(),
        }
    }

    /// With a virtual host open.
    pub(crate) fn open(settings: Settings) -> Self {
        // Without a limit of the server's, one that every test stays below.
        let frame_max = if settings.frame_max == 0 { 1 << 20 } else { 4096 };
        let mut talk = Self::new(settings);
        talk.begin();
        talk.says(&SaslAuthenticate { correlation_id: 3, mechanism: "PLAIN", data: b"\0me\0pw" });
        talk.says(&Tune { frame_max, heartbeat_secs: 60 });
        talk.says(&Open { correlation_id: 4, virtual_host: "/" });
        talk.hears();
        talk.asked.clear();
        talk
    }

    /// Up to the login.
    pub(crate) fn begin(&mut self) {
        self.says(&PeerProperties { correlation_id: 1, ..PeerProperties::default() });
        self.says(&SaslHandshake { correlation_id: 2 });
    }

    pub(crate) fn says<'a>(&mut self, command: &impl Command<'a>) {
        self.sends(&frame(command));
    }

    pub(crate) fn sends(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            let mut requests = Vec::new();
            let progress = self.front.read(START, &self.input, &mut requests);
            let input = &self.input;
            self.asked.extend(requests.iter().map(|request| describe(request, input)));
            self.input.drain(..progress.consumed);
            match progress.step {
                Step::Authenticate(login) => {
                    let password = String::from_utf8_lossy(login.proof.password().unwrap_or(b"-"))
                        .into_owned();
                    self.asked.push(format!("login {} {password}", login.user));
                    let result = match login.proof {
                        Proof::Malformed => Err(AuthFailure::Malformed),
                        _ if self.refuses => Err(AuthFailure::Refused),
                        Proof::Nothing | Proof::Password(_) => Ok(()),
                    };
                    self.front.authenticated(START, result);
                }
                Step::Open { vhost } => {
                    self.asked.push(format!("open {vhost}"));
                    let error = Error::new(session::ErrorKind::NotAllowed, "no");
                    let result = if self.refuses { Err(error) } else { Ok(()) };
                    self.front.opened(START, result);
                }
                Step::Again => {}
                Step::More | Step::Close | Step::SpeaksOther => return,
            }
        }
    }

    pub(crate) fn batch(&self, mut fill: impl FnMut(&mut dyn Sink)) {
        let _waker = self.outbox.batch(&mut fill);
    }

    pub(crate) fn event(&self, event: Event<'_>) {
        let mut event = Some(event);
        self.batch(|sink| event.take().into_iter().for_each(|event| sink.event(event)));
    }

    /// Time goes on: the commands that go out then.
    pub(crate) fn hears_later(&mut self, ms: u64) -> Vec<String> {
        let _next = self.front.tick(later(ms));
        self.hears()
    }

    /// The bytes that go out.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while self.outbox.try_take(&mut self.batch) {
            self.batch.resume().clear();
            while !self.batch.is_written() {
                let mut slices = [IoSlice::new(&[]); 4];
                let n = self.batch.fill(&mut slices);
                let piece: Vec<u8> = slices[..n].iter().flat_map(|it| it.to_vec()).collect();
                self.batch.advance(piece.len());
                all.extend(piece);
            }
            self.close_mode = self.batch.close_mode;
            if self.close_mode.is_some() {
                break;
            }
        }
        all
    }

    /// The commands that go out, in words.
    pub(crate) fn hears(&mut self) -> Vec<String> {
        let bytes = self.bytes();
        let (mut rest, mut heard) = (&bytes[..], Vec::new());
        while let Some((frame, used)) = decode_frame(rest, 0).unwrap() {
            heard.push(format!("{:?}", ToClient::decode(frame).unwrap()));
            rest = &rest[used..];
        }
        assert_eq!(rest, b"", "whole frames");
        heard
    }
}

fn describe(request: &Request, input: &[u8]) -> String {
    match request {
        Request::Append(append) => {
            let filtered = if append.has_filter_values { " filtered" } else { "" };
            let entries = append.entries(input);
            let n = append.n_entries;
            format!("append {} {n}{filtered} {entries:x?}", append.publisher.0)
        }
        Request::Credit(credit) => format!("credit {} {}", credit.subscription.0, credit.n_chunks),
        Request::Control(control) => format!("{:x} {:?}", control.origin.0, control.op),
        Request::Publish(_) | Request::Settle(_) | Request::Flow(_) => {
            unreachable!("of another protocol")
        }
    }
}
