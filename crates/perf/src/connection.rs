//! One connection under load: one read, one pass over what came, one write per turn.
//!
//! Written are, in this order: what is left of a batch of messages, then methods (acknowledgements,
//! heartbeats), then the next publisher's batch. A turn never blocks.

mod output;

use std::io::{self, Read as _};
use std::net::TcpStream;

use amqp091::method::{ConnectionClose, ConnectionCloseOk};
use amqp091::{Frame, FrameKind, Method, MethodId, decode_frame};
use anyhow::{Context as _, bail};

use crate::assembly::is_content;
use crate::client::{Client, Lost, closed};
use crate::clock::SECOND;
use crate::consumer::{Consumer, Seen};
use crate::publisher::{Moment, Publisher};
use crate::stats::Sample;
use crate::verify::Ledger;

/// The payload of a basic.deliver starts with this.
const DELIVER: [u8; 4] = [0, 60, 0, 60];
/// Nothing is read while that many bytes of acknowledgements wait to be written.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// What a connection does.
#[derive(Debug)]
pub(crate) enum Role {
    Publishing(Vec<Publisher>),
    Consuming(Vec<Consumer>),
}

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Consumers may begin, publishers wait.
    Consume,
    /// Everything runs.
    Run,
    /// Publishers begin nothing new; what is on its way arrives.
    Drain,
    /// Connections close.
    Stop,
}

/// When a connection wants its next turn, besides when its socket is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// At once.
    Again,
    /// At that time of the clock at the latest.
    At(u64),
    /// Whenever the socket is ready.
    Idle,
}

/// What a turn happens in.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) moment: Moment,
    pub(crate) phase: Phase,
    pub(crate) sample: &'a mut Sample,
    pub(crate) ledger: Option<&'a Ledger>,
    /// Memory to read into, shared by all connections of a thread.
    pub(crate) input: &'a mut [u8],
    /// Whether publishers without confirms owe the ledger what they send.
    pub(crate) owes_unconfirmed: bool,
}

/// What the socket is ready for, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Readiness {
    is_readable: bool,
    is_writable: bool,
}

/// A connection under load.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    role: Role,
    frame_max: u32,
    ready: Readiness,
    /// What was read but not used: part of a frame, or what a slow consumer has not come to.
    left: Vec<u8>,
    /// Methods to write.
    output: Vec<u8>,
    output_at: usize,
    /// The publisher whose batch is being written, and who is next otherwise.
    publisher_at: usize,
    heartbeat_ns: u64,
    wrote_at: u64,
    /// When something came last; 0 before the first turn.
    read_at: u64,
    /// There is no socket that works.
    is_down: bool,
    is_closing: bool,
    is_closed: bool,
}

impl Connection {
    /// Takes over a connection whose channels are open.
    pub(crate) fn new(client: Client, role: Role) -> anyhow::Result<Self> {
        let frame_max = client.frame_max;
        // Half the interval, so that one late heartbeat does no harm.
        let heartbeat_ns = u64::from(client.heartbeat_s) * SECOND / 2;
        let (socket, left) = client.into_parts();
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            role,
            frame_max,
            ready: Readiness { is_readable: true, is_writable: true },
            left,
            output: Vec::new(),
            output_at: 0,
            publisher_at: 0,
            heartbeat_ns,
            wrote_at: 0,
            read_at: 0,
            is_down: false,
            is_closing: false,
            is_closed: false,
        })
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn role(&self) -> &Role {
        &self.role
    }

    /// The broker has said goodbye too.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The socket has something to read, or its end.
    pub(crate) fn on_readable(&mut self) {
        self.ready.is_readable = true;
    }

    /// The socket takes more.
    pub(crate) fn on_writable(&mut self) {
        self.ready.is_writable = true;
    }

    /// Does what can be done now.
    ///
    /// # Errors
    /// The connection is lost, or the broker says something unexpected.
    pub(crate) fn turn(&mut self, scene: &mut Scene<'_>) -> anyhow::Result<Turn> {
        self.is_closed |= self.is_down && scene.phase == Phase::Stop;
        if self.is_closed || self.is_down {
            return Ok(Turn::Idle);
        }
        self.begin_consumers(scene);
        if scene.phase == Phase::Stop && !self.is_closing {
            self.is_closing = true;
            let close = ConnectionClose { reply_code: 200, ..ConnectionClose::default() };
            close.encode_frame(0, &mut self.output);
        }
        let opens_at = self.read(scene)?;
        self.check_peer(scene.moment.now, opens_at)?;
        let due = self.write(scene)?;
        let can_read = self.ready.is_readable && opens_at.is_none() && self.may_read();
        if can_read || due == Turn::Again {
            return Ok(Turn::Again);
        }
        let at = if let Turn::At(at) = due { at } else { u64::MAX };
        let at = at.min(opens_at.unwrap_or(u64::MAX)).min(self.starts_at(scene));
        let at = at.min(if self.heartbeat_ns > 0 { self.wrote_at + self.heartbeat_ns } else { at });
        Ok(if at == u64::MAX { Turn::Idle } else { Turn::At(at) })
    }

    /// A peer that was to send heartbeats and is silent is gone. One that is not listened to, since
    /// a slow consumer is not ready, is not known to be silent.
    fn check_peer(&mut self, now: u64, opens_at: Option<u64>) -> anyhow::Result<()> {
        if self.read_at == 0 || opens_at.is_some() || !self.may_read() {
            self.read_at = now;
        }
        if self.heartbeat_ns > 0 && now > self.read_at + 4 * self.heartbeat_ns && !self.is_closing {
            return Err(Lost("the broker sends no heartbeats".to_owned()).into());
        }
        Ok(())
    }

    /// The connection is lost; until [`Self::resume`] it does nothing.
    pub(crate) fn disconnect(&mut self) {
        self.is_down = true;
        self.left.clear();
        self.output.clear();
        self.output_at = 0;
        match &mut self.role {
            Role::Publishing(publishers) => publishers.iter_mut().for_each(Publisher::disconnect),
            Role::Consuming(consumers) => consumers.iter_mut().for_each(Consumer::disconnect),
        }
    }

    /// Goes on with another socket, whose channels are open. `names` are those of queues by number.
    ///
    /// # Errors
    /// The broker takes smaller frames than before, for which messages are not encoded.
    pub(crate) fn resume(
        &mut self,
        client: Client,
        names: &[(usize, String)],
    ) -> anyhow::Result<()> {
        if client.frame_max != self.frame_max {
            bail!("the broker's largest frame is another than before");
        }
        if let Role::Consuming(consumers) = &mut self.role {
            for (number, name) in names {
                consumers.iter_mut().for_each(|consumer| consumer.rename(*number, name));
            }
        }
        (self.socket, self.left) = client.into_parts();
        self.socket.set_nonblocking(true)?;
        self.ready = Readiness { is_readable: true, is_writable: true };
        (self.is_down, self.read_at) = (false, 0);
        Ok(())
    }

    fn may_read(&self) -> bool {
        self.output.len() - self.output_at < OUTPUT_BYTES_MAX
    }

    fn begin_consumers(&mut self, scene: &Scene<'_>) {
        let Role::Consuming(consumers) = &mut self.role else { return };
        for consumer in consumers {
            let is_due =
                |at: u64| at == 0 || (scene.phase >= Phase::Run && at <= scene.moment.elapsed());
            if scene.phase < Phase::Stop && consumer.starts_at().is_some_and(is_due) {
                consumer.begin(&mut self.output);
            }
        }
    }

    fn starts_at(&self, scene: &Scene<'_>) -> u64 {
        let Role::Consuming(consumers) = &self.role else { return u64::MAX };
        let next = consumers.iter().filter_map(Consumer::starts_at).min();
        next.map_or(u64::MAX, |at| scene.moment.start.saturating_add(at))
    }

    /// Reads once and handles what came. Gives back when to go on, if that is to wait.
    fn read(&mut self, scene: &mut Scene<'_>) -> anyhow::Result<Option<u64>> {
        if !self.may_read() {
            return Ok(None);
        }
        if let Some(at) = self.closed_gate(scene) {
            return Ok(Some(at));
        }
        if self.left.is_empty() && !self.ready.is_readable {
            return Ok(None);
        }
        let input = std::mem::take(&mut scene.input);
        let result = self.read_into(input, scene);
        scene.input = input;
        result
    }

    fn read_into(
        &mut self,
        input: &mut [u8],
        scene: &mut Scene<'_>,
    ) -> anyhow::Result<Option<u64>> {
        let from = self.left.len();
        let (head, rest) = input.split_at_mut_checked(from).context("a frame is too large")?;
        head.copy_from_slice(&self.left);
        let mut n = from;
        if self.ready.is_readable && !rest.is_empty() {
            n += self.read_socket(rest, scene.moment.now)?;
        }
        let input = input.get(..n).unwrap_or_default();
        let (used, opens_at) = self.handle(input, scene)?;
        self.left.clear();
        self.left.extend_from_slice(input.get(used..).unwrap_or_default());
        Ok(opens_at)
    }

    fn read_socket(&mut self, into: &mut [u8], now: u64) -> anyhow::Result<usize> {
        match self.socket.read(into) {
            Ok(0) if self.is_closing => {
                self.is_closed = true;
                Ok(0)
            }
            Ok(0) => Err(Lost("the broker closed a connection".to_owned()).into()),
            Ok(n) => {
                self.read_at = now;
                // What comes after a short read is announced again.
                self.ready.is_readable = n == into.len();
                Ok(n)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.ready.is_readable = false;
                Ok(0)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(_) if self.is_closing => {
                self.is_closed = true;
                Ok(0)
            }
            Err(error) => Err(lost(&error)),
        }
    }

    /// The time until which a slow consumer handles nothing.
    fn closed_gate(&self, scene: &Scene<'_>) -> Option<u64> {
        let Role::Consuming(consumers) = &self.role else { return None };
        if scene.phase != Phase::Run {
            return None;
        }
        let open_at = consumers.iter().map(Consumer::open_at).max()?;
        (open_at > scene.moment.elapsed()).then_some(scene.moment.start + open_at)
    }

    /// Handles whole frames; gives back how many bytes they were, and when to go on if a slow
    /// consumer is not to handle more now.
    fn handle(
        &mut self,
        input: &[u8],
        scene: &mut Scene<'_>,
    ) -> anyhow::Result<(usize, Option<u64>)> {
        let (mut rest, mut opens_at) = (input, None);
        while let Some((frame, used)) = decode_frame(rest, self.frame_max)? {
            if frame.kind == FrameKind::Method && frame.payload.starts_with(&DELIVER) {
                opens_at = self.closed_gate(scene);
                if opens_at.is_some() {
                    break;
                }
            }
            self.on_frame(frame, scene)?;
            rest = rest.get(used..).unwrap_or_default();
        }
        if let Role::Consuming(consumers) = &mut self.role {
            consumers.iter_mut().for_each(|consumer| consumer.flush(scene.sample));
        }
        Ok((input.len() - rest.len(), opens_at))
    }

    #[inline]
    fn on_frame(&mut self, frame: Frame<'_>, scene: &mut Scene<'_>) -> anyhow::Result<()> {
        let Frame { kind, channel, payload } = frame;
        if kind == FrameKind::Heartbeat || self.is_closing && is_content(kind) {
            return Ok(());
        }
        let at = usize::from(channel).wrapping_sub(1);
        let deliver = payload.strip_prefix(&DELIVER).filter(|_| kind == FrameKind::Method);
        if kind == FrameKind::Method && deliver.is_none() {
            return self.on_method(channel, &Method::decode(payload)?, scene);
        }
        let mut seen = Seen { sample: scene.sample, ledger: scene.ledger };
        match &mut self.role {
            Role::Consuming(consumers) => {
                let consumer = consumers.get_mut(at).context("an unknown channel")?;
                let out = &mut self.output;
                match (kind, deliver) {
                    (_, Some(fields)) => consumer.on_deliver(fields),
                    (FrameKind::Header, None) => {
                        consumer.on_header(payload, scene.moment, out, &mut seen)
                    }
                    (FrameKind::Body | FrameKind::Method | FrameKind::Heartbeat, None) => {
                        consumer.on_body(payload, scene.moment, out, &mut seen)
                    }
                }
            }
            Role::Publishing(publishers) => {
                let publisher = publishers.get_mut(at).context("an unknown channel")?;
                match kind {
                    FrameKind::Header => publisher.on_header(payload),
                    FrameKind::Body => publisher.on_body(payload, scene.ledger),
                    FrameKind::Method | FrameKind::Heartbeat => bail!("a delivery to a publisher"),
                }
            }
        }
    }

    fn on_method(
        &mut self,
        channel: u16,
        method: &Method<'_>,
        scene: &mut Scene<'_>,
    ) -> anyhow::Result<()> {
        if method.id() == ConnectionCloseOk::ID {
            self.is_closed = true;
        }
        if self.is_closing {
            return Ok(());
        }
        if let Some(closed) = closed(method) {
            return Err(closed.into());
        }
        if channel == 0 {
            return on_connection_method(method.id(), method);
        }
        let at = usize::from(channel) - 1;
        match &mut self.role {
            Role::Publishing(publishers) => {
                let publisher = publishers.get_mut(at).context("an unknown channel")?;
                publisher.on_method(method, scene.moment.now, scene.sample, scene.ledger)
            }
            Role::Consuming(consumers) => {
                consumers.get_mut(at).context("an unknown channel")?.on_method(method)
            }
        }
    }
}

fn lost(error: &io::Error) -> anyhow::Error {
    Lost(format!("a connection is lost: {error}")).into()
}

fn on_connection_method(id: MethodId, method: &Method<'_>) -> anyhow::Result<()> {
    if let Method::ConnectionBlocked(blocked) = method {
        let reason = String::from_utf8_lossy(blocked.reason);
        crate::complain(&format!("the broker blocks publishers: {reason}"));
    } else if matches!(method, Method::ConnectionUnblocked(_)) {
        crate::complain("the broker no longer blocks publishers");
    } else if id != ConnectionCloseOk::ID {
        bail!("unexpected {}", method.name());
    }
    Ok(())
}
