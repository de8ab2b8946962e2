//! A connection that takes turns: what came, what is published, one write.

use anyhow::bail;
use streamproto::command::{Close, Command as _, Heartbeat};
use streamproto::{CodeResponse, Key, ResponseCode, ToClient, decode_frame, split_id};

use super::client::StreamClient;
use super::consumer::Consumer;
use super::producer::Producer;
use crate::connection::{Phase, Turn, TurnContext};
use crate::publisher::{Staged, TurnTime};
use crate::socket::{Output, Socket};
use crate::worker::{Driven, Progress};

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

/// The beginning of a connection's consumers.
#[derive(Debug)]
pub(super) struct Opening {
    /// Requests for all subscriptions.
    pub(super) subscribe: Vec<u8>,
    /// The phase of the run in which they are made.
    pub(super) begins_in: Phase,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    role: Role,
    opening: Opening,
    /// Subscriptions that the broker has not granted yet.
    n_unanswered: usize,
    /// Bytes that were read: the first `filled`.
    input: Vec<u8>,
    filled: usize,
    output: Output,
    next: usize,
}

impl Connection {
    /// Takes over from the client that has set everything up. `input_bytes` is the size of a read.
    ///
    /// # Errors
    /// A socket that cannot be made to not wait.
    pub(super) fn new(
        client: StreamClient,
        role: Role,
        opening: Opening,
        input_bytes: usize,
    ) -> anyhow::Result<Self> {
        let heartbeat_s = client.heartbeat_s;
        let (transport, mut input) = client.into_parts();
        let filled = input.len();
        input.resize(filled + input_bytes, 0);
        let n_unanswered = match &role {
            Role::Producing(_) => 0,
            Role::Consuming(all) => all.iter().map(|one| one.subscriptions().len()).sum(),
        };
        Ok(Self {
            socket: Socket::new(transport, heartbeat_s)?,
            role,
            opening,
            n_unanswered,
            input,
            filled,
            output: Output::default(),
            next: 0,
        })
    }

    /// Subscribes, when it is time, and says goodbye at the end.
    fn follow(&mut self, phase: Phase) {
        if phase >= self.opening.begins_in {
            self.output.bytes.append(&mut self.opening.subscribe);
        }
        if phase == Phase::Stop && !self.socket.is_closing() {
            self.socket.begin_closing();
            let close = Close { correlation_id: 0, code: ResponseCode::OK, reason: "OK" };
            close.encode_frame(&mut self.output.bytes);
        }
    }

    fn can_read(&self, now: u64) -> bool {
        self.socket.is_readable()
            && self.closed_until(now).is_none()
            && self.output.bytes.len() < OUTPUT_BYTES_MAX
    }

    /// The time until which a slow consumer handles nothing.
    fn closed_until(&self, now: u64) -> Option<u64> {
        let Role::Consuming(consumers) = &self.role else { return None };
        consumers.iter().map(|one| one.open_at).max().filter(|at| *at > now)
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
            if self.closed_until(context.time.now).is_some() {
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
        if self.socket.is_closing() {
            if split_id(frame)?.0.known_key() == Some(Key::Close) {
                self.socket.close();
            }
            return Ok(());
        }
        match (&mut self.role, fields) {
            (Role::Consuming(consumers), [subscription, chunk @ ..]) if *id == DELIVER => {
                let Some(consumer) = consumers.iter_mut().find(|one| one.has(*subscription)) else {
                    return Ok(());
                };
                consumer.on_chunk(
                    *subscription,
                    chunk,
                    context.time.now,
                    &mut self.output.bytes,
                    context.sample,
                )
            }
            (Role::Producing(producers), [publisher, _, _, _, _, ids @ ..]) if *id == CONFIRM => {
                let mut ids = ids.as_chunks::<8>().0.iter().map(|id| u64::from_be_bytes(*id));
                if let Some(producer) = producers.iter_mut().find(|one| one.has(*publisher)) {
                    producer.on_confirm(*publisher, &mut ids, context.time.now, context.sample);
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
        let out = &mut self.output.bytes;
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
            (
                ToClient::Code(CodeResponse { key: Key::Subscribe, correlation_id, code }),
                Role::Consuming(consumers),
            ) => {
                self.n_unanswered = self.n_unanswered.saturating_sub(1);
                let mut all = consumers.iter().flat_map(Consumer::subscriptions);
                let stream = all.find(|one| u32::from(one.id) == correlation_id);
                let stream = stream.map_or("?", |one| one.stream.as_str());
                anyhow::ensure!(
                    code == ResponseCode::OK,
                    "subscription to stream '{stream}': {code}"
                );
            }
            // Heartbeats, and answers that nobody waits for.
            (_, _) => {}
        }
        Ok(())
    }

    /// Lets producers fill the output, in turn; gives back when there is more to publish.
    fn stage(&mut self, context: &mut TurnContext<'_>) -> u64 {
        let Role::Producing(producers) = &mut self.role else { return u64::MAX };
        if context.phase != Phase::Run {
            return u64::MAX;
        }
        let TurnTime { now, start } = context.time;
        let (mut due, mut n_idle) = (u64::MAX, 0);
        while n_idle < producers.len() {
            let out = &mut self.output.bytes;
            if out.len() >= OUTPUT_BYTES {
                return now;
            }
            self.next = (self.next + 1).checked_rem(producers.len()).unwrap_or(0);
            let Some(producer) = producers.get_mut(self.next) else { break };
            match producer.stage(now, start, out, context.sample) {
                Staged::Bytes => n_idle = 0,
                Staged::NotBefore(at) => {
                    due = due.min(start + at);
                    n_idle += 1;
                }
                Staged::Full | Staged::Done => n_idle += 1,
            }
        }
        due
    }
}

impl Driven for Connection {
    fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// Reads once, handles what came, publishes what is due, writes once.
    fn turn(&mut self, context: &mut TurnContext<'_>) -> anyhow::Result<Turn> {
        if self.socket.is_closed() {
            return Ok(Turn::Idle);
        }
        self.follow(context.phase);
        self.handle(context)?;
        if self.can_read(context.time.now) {
            let into = self.input.get_mut(self.filled..).unwrap_or_default();
            self.filled += self.socket.receive(into, context.time.now)?;
            context.time.now = crate::clock::now();
            self.handle(context)?;
        }
        let (due, now) = (self.stage(context), context.time.now);
        if self.socket.owes_heartbeat(now) {
            Heartbeat {}.encode_frame(&mut self.output.bytes);
        }
        let n = self.socket.send(self.output.pending(), now)?;
        self.output.written(n);
        let has_more = due <= now && self.socket.is_writable();
        if has_more || self.can_read(now) {
            return Ok(Turn::Again);
        }
        let due = if due <= now { u64::MAX } else { due };
        let opens_at = self.closed_until(now).unwrap_or(u64::MAX);
        Ok(Turn::by(due.min(opens_at).min(self.socket.beats_at())))
    }

    fn progress(&self) -> Progress {
        let (n_done, is_publishing) = match &self.role {
            Role::Producing(all) => (all.iter().filter(|one| one.is_done()).count(), true),
            Role::Consuming(all) => (all.iter().filter(|one| one.is_done()).count(), false),
        };
        let begins_later = self.opening.begins_in > Phase::Consume;
        Progress { n_done, is_publishing, is_consuming: self.n_unanswered == 0 || begins_later }
    }
}
