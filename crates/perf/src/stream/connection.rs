//! A connection that takes turns: what came, what is published, one write.

use std::io;

use anyhow::{Context as _, bail};
use rustix::event::epoll::EventFlags;
use streamproto::command::{Close, Command as _, Heartbeat};
use streamproto::{CodeResponse, Key, ResponseCode, ToClient, decode_frame};

use super::client::StreamClient;
use super::consumer::Consumer;
use super::producer::{Producer, Staged};
use crate::clock::SECOND;
use crate::stats::Sample;
use client::{Received, Sent, Transport};

/// Key and version of `Deliver`.
const DELIVER: [u8; 4] = [0, 8, 0, 1];
/// Key and version of `PublishConfirm`.
const CONFIRM: [u8; 4] = [0, 3, 0, 1];
/// Bytes of frames that are made ready before they are written.
const OUTPUT_BYTES: usize = 64 * 1024;
/// Nothing is read while that many bytes of credit wait to be written.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// Producers or consumers.
#[derive(Debug)]
pub(super) enum Role {
    Producing(Vec<Producer>),
    Consuming(Vec<Consumer>),
}

/// Why a command of the broker ends a run: it refuses what is published, closes, or a stream is gone.
pub(super) fn refusal(command: &ToClient<'_>) -> Option<String> {
    if let ToClient::PublishError(error) = command {
        let code = error.errors.iter().next().map(|error| error.code).unwrap_or_default();
        Some(format!("the broker refuses what is published: {code}"))
    } else if let ToClient::Close(close) = command {
        Some(format!("the broker closes: {} {}", close.code, close.reason))
    } else if let ToClient::MetadataUpdate(update) = command {
        Some(format!("stream '{}' is gone: {}", update.stream, update.code))
    } else {
        None
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    transport: Transport,
    role: Role,
    /// Bytes that were read: the first `filled`.
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    output_at: usize,
    is_blocked: bool,
    /// More can be read, of which the system does not tell.
    has_more: bool,
    heartbeat_ns: u64,
    wrote_at: u64,
    next: usize,
}

/// The circumstances of a turn.
#[derive(Debug)]
pub(super) struct TurnContext<'a> {
    pub(super) now: u64,
    pub(super) start: u64,
    pub(super) is_readable: bool,
    pub(super) sample: &'a mut Sample,
}

impl Connection {
    /// Takes over from the client that has set everything up. `input_bytes` is the size of a read.
    ///
    /// # Errors
    /// A socket that cannot be made to not wait.
    pub(super) fn new(
        client: StreamClient,
        role: Role,
        input_bytes: usize,
    ) -> anyhow::Result<Self> {
        let heartbeat_ns = u64::from(client.heartbeat_s) * SECOND / 2;
        let (transport, mut input) = client.into_parts();
        transport.socket().set_nonblocking(true)?;
        let filled = input.len();
        input.resize(filled + input_bytes, 0);
        Ok(Self {
            transport,
            role,
            input,
            filled,
            output: Vec::new(),
            output_at: 0,
            is_blocked: false,
            has_more: true,
            heartbeat_ns,
            wrote_at: crate::clock::now(),
            next: 0,
        })
    }

    pub(super) fn socket(&self) -> &std::net::TcpStream {
        self.transport.socket()
    }

    pub(super) fn role(&self) -> &Role {
        &self.role
    }

    /// The events that the next turn waits for.
    pub(super) fn interest(&self, now: u64) -> EventFlags {
        let is_reading = self.closed_until(now).is_none() && self.output.len() < OUTPUT_BYTES_MAX;
        let input = if is_reading { EventFlags::IN } else { EventFlags::empty() };
        let is_writing = self.is_blocked || self.transport.owes_bytes();
        input | if is_writing { EventFlags::OUT } else { EventFlags::empty() }
    }

    /// Reads once, handles what came, publishes what is due, writes once. Gives back when the next turn
    /// is due by itself: `now` for at once.
    pub(super) fn turn(&mut self, context: &mut TurnContext<'_>) -> anyhow::Result<u64> {
        self.handle(context)?;
        if (context.is_readable || self.has_more)
            && self.interest(context.now).contains(EventFlags::IN)
        {
            self.receive()?;
            context.now = crate::clock::now();
            self.handle(context)?;
        }
        let due = self.stage(context);
        self.send(context.now)?;
        let due = if due <= context.now && self.is_blocked { u64::MAX } else { due };
        let opens_at = self.closed_until(context.now).unwrap_or(u64::MAX);
        let again = if self.has_more && opens_at == u64::MAX { context.now } else { u64::MAX };
        let beats_at =
            if self.heartbeat_ns > 0 { self.wrote_at + self.heartbeat_ns } else { u64::MAX };
        Ok(due.min(opens_at).min(again).min(beats_at))
    }

    /// The time until which a slow consumer handles nothing.
    fn closed_until(&self, now: u64) -> Option<u64> {
        let Role::Consuming(consumers) = &self.role else { return None };
        consumers.iter().map(|one| one.open_at).max().filter(|at| *at > now)
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let into = self.input.get_mut(self.filled..).unwrap_or_default();
        match self.transport.receive(into) {
            Ok(Received { n: 0, .. }) => bail!("the broker closed a connection"),
            Ok(Received { n, may_be_more }) => {
                self.filled += n;
                self.has_more = may_be_more;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.has_more = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("reading"),
        }
        Ok(())
    }

    /// Handles whole frames, and moves what is left to the front.
    fn handle(&mut self, context: &mut TurnContext<'_>) -> anyhow::Result<()> {
        let input = std::mem::take(&mut self.input);
        let result = self.frames(input.get(..self.filled).unwrap_or_default(), context);
        self.input = input;
        let used = result?;
        if used > 0 {
            self.input.copy_within(used..self.filled, 0);
            self.filled -= used;
        }
        self.make_room();
        Ok(())
    }

    /// Room for the rest of a frame that is larger than a read.
    fn make_room(&mut self) {
        let Some(size) = self.input.first_chunk().filter(|_| self.filled >= 4) else { return };
        let needed =
            usize::try_from(u32::from_be_bytes(*size)).unwrap_or(usize::MAX).saturating_add(4);
        if needed > self.input.len() && self.filled == self.input.len() {
            let len = self.input.len().saturating_mul(2).min(needed.saturating_add(OUTPUT_BYTES));
            self.input.resize(len, 0);
        }
    }

    fn frames(&mut self, input: &[u8], context: &mut TurnContext<'_>) -> anyhow::Result<usize> {
        let mut rest = input;
        while let Some((frame, used)) = decode_frame(rest, 0)? {
            if self.closed_until(context.now).is_some() {
                break;
            }
            self.on_frame(frame, context)?;
            rest = rest.get(used..).unwrap_or_default();
        }
        Ok(input.len() - rest.len())
    }

    #[inline]
    fn on_frame(&mut self, frame: &[u8], context: &mut TurnContext<'_>) -> anyhow::Result<()> {
        let (Some(id), fields) = (frame.first_chunk::<4>(), frame.get(4..).unwrap_or_default())
        else {
            bail!("a short frame");
        };
        match (&mut self.role, fields) {
            (Role::Consuming(consumers), [subscription, chunk @ ..]) if *id == DELIVER => {
                let Some(consumer) = consumers.iter_mut().find(|one| one.has(*subscription)) else {
                    return Ok(());
                };
                consumer.on_chunk(
                    *subscription,
                    chunk,
                    context.now,
                    &mut self.output,
                    context.sample,
                )
            }
            (Role::Producing(producers), [publisher, _, _, _, _, ids @ ..]) if *id == CONFIRM => {
                let mut ids = ids.as_chunks::<8>().0.iter().map(|id| u64::from_be_bytes(*id));
                if let Some(producer) = producers.iter_mut().find(|one| one.has(*publisher)) {
                    producer.on_confirm(*publisher, &mut ids, context.now, context.sample);
                }
                Ok(())
            }
            (_, _) => self.on_command(ToClient::decode(frame)?),
        }
    }

    fn on_command(&mut self, command: ToClient<'_>) -> anyhow::Result<()> {
        if let Some(why) = refusal(&command) {
            bail!(why);
        }
        let out = &mut self.output;
        match (command, &mut self.role) {
            (ToClient::CreditResponse(answer), Role::Consuming(consumers)) => {
                let id = answer.subscription_id;
                let is_done = consumers.iter().all(|one| !one.has(id) || one.is_done());
                anyhow::ensure!(is_done, "credit is refused: {}", answer.code);
            }
            (ToClient::ConsumerUpdate(update), Role::Consuming(consumers)) => {
                let (id, number) = (update.subscription_id, update.correlation_id);
                consumers.iter_mut().for_each(|one| one.on_update(id, number, update.active, out));
            }
            (ToClient::QueryOffsetResponse(answer), Role::Consuming(consumers)) => {
                let stored = (answer.code == ResponseCode::OK).then_some(answer.offset);
                let id = u8::try_from(answer.correlation_id).unwrap_or_default();
                consumers.iter_mut().for_each(|one| one.on_stored_offset(id, stored, out));
            }
            (
                ToClient::Code(CodeResponse { key: Key::QueryOffset, correlation_id, .. }),
                Role::Consuming(consumers),
            ) => {
                let id = u8::try_from(correlation_id).unwrap_or_default();
                consumers.iter_mut().for_each(|one| one.on_stored_offset(id, None, out));
            }
            // Heartbeats, and answers that nobody waits for.
            (_, _) => {}
        }
        Ok(())
    }

    /// Lets producers fill the output, in turn; gives back when there is more to publish.
    fn stage(&mut self, context: &mut TurnContext<'_>) -> u64 {
        let Role::Producing(producers) = &mut self.role else { return u64::MAX };
        let (mut due, mut n_idle) = (u64::MAX, 0);
        while n_idle < producers.len() {
            if self.output.len() >= OUTPUT_BYTES {
                return context.now;
            }
            self.next = (self.next + 1).checked_rem(producers.len()).unwrap_or(0);
            let Some(producer) = producers.get_mut(self.next) else { break };
            match producer.stage(context.now, context.start, &mut self.output, context.sample) {
                Staged::Bytes => n_idle = 0,
                Staged::NotBefore(at) => {
                    due = due.min(context.start + at);
                    n_idle += 1;
                }
                Staged::Nothing => n_idle += 1,
            }
        }
        due
    }

    fn send(&mut self, now: u64) -> anyhow::Result<()> {
        if self.heartbeat_ns > 0 && now >= self.wrote_at + self.heartbeat_ns {
            Heartbeat {}.encode_frame(&mut self.output);
            self.wrote_at = now;
        }
        let bytes = self.output.get(self.output_at..).unwrap_or_default();
        if bytes.is_empty() && !self.transport.owes_bytes() {
            return Ok(());
        }
        match self.transport.send(bytes) {
            Ok(Sent { n, is_blocked }) => {
                self.output_at += n;
                self.is_blocked = is_blocked;
                self.wrote_at = now;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_blocked = true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("writing"),
        }
        if self.output_at == self.output.len() {
            self.output.clear();
            self.output_at = 0;
        }
        Ok(())
    }

    /// Says goodbye, without waiting for an answer.
    pub(super) fn close(mut self) {
        self.output.drain(..self.output_at);
        Close { correlation_id: 0, code: ResponseCode::OK, reason: "OK" }
            .encode_frame(&mut self.output);
        let is_waiting = self.transport.socket().set_nonblocking(false).is_ok();
        if is_waiting {
            // The run is over, whatever the broker makes of it.
            drop(self.transport.send_all(&self.output));
        }
    }
}
