//! One connection under load: one read, one pass over what came, one write per turn.
//!
//! Written are, in this order: what is left of a batch of messages, then methods (acknowledgements,
//! heartbeats), then the next publisher's batch. A turn never blocks.

mod input;
mod output;

use amqp10::{Close, Performative};
use amqp091::method::ConnectionClose;
use anyhow::bail;

use crate::amqp10::client::Client as Amqp10Client;
use crate::amqp10::session::Session;
use crate::consumer::Consumer;
use crate::losses::Lost;
use crate::publisher::{Publisher, TurnTime};
use crate::shared::Reconnected;
use crate::socket::{Output, Socket};
use crate::stats::Sample;
use crate::verify::Ledger;
use crate::worker::{Driven, Progress};
use client::{Client, Transport};

/// A connection's role: it publishes or it consumes, never both.
#[derive(Debug)]
pub(crate) enum Role {
    Publishing(Vec<Publisher>),
    Consuming(Vec<Consumer>),
}

/// The phase of the run.
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

impl Phase {
    /// All of them, in order.
    pub(crate) const ALL: [Self; 4] = [Self::Consume, Self::Run, Self::Drain, Self::Stop];
}

/// The time at which a connection wants its next turn, besides when its socket is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// At once.
    Again,
    /// At that time of the clock at the latest.
    At(u64),
    /// Whenever the socket is ready.
    Idle,
}

impl Turn {
    /// At this time of the clock; `u64::MAX` for whenever the socket is ready.
    pub(crate) fn by(at: u64) -> Self {
        if at == u64::MAX { Self::Idle } else { Self::At(at) }
    }
}

/// A turn's surroundings: its time, the phase of the run, and the memory it may use.
#[derive(Debug)]
pub(crate) struct TurnContext<'a> {
    pub(crate) time: TurnTime,
    pub(crate) phase: Phase,
    pub(crate) sample: &'a mut Sample,
    pub(crate) ledger: Option<&'a Ledger>,
    /// Memory to read into, shared by all connections of a thread.
    pub(crate) input: &'a mut [u8],
    /// Whether publishers without confirms owe the ledger what they send.
    pub(crate) owes_unconfirmed: bool,
}

/// A connection under load.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    role: Role,
    frame_max: u32,
    /// Bytes read but not used: part of a frame, or deliveries that a slow consumer has not come to.
    left: Vec<u8>,
    /// Methods to write.
    output: Output,
    /// The publisher whose batch is being written, and who is next otherwise.
    publisher_at: usize,
    /// There is no socket that works.
    is_down: bool,
    /// The session, where AMQP 1.0 is spoken.
    session: Option<Box<Session>>,
}

impl Connection {
    /// Takes over a connection whose channels are open.
    pub(crate) fn new(client: Client, role: Role) -> anyhow::Result<Self> {
        let limits = (client.frame_max, client.heartbeat_s);
        Self::of_parts(client.into_parts(), limits, role)
    }

    /// Takes over a connection of AMQP 1.0 whose link is attached.
    pub(crate) fn with_session(
        client: Amqp10Client,
        role: Role,
        session: Session,
    ) -> anyhow::Result<Self> {
        let limits = (client.frame_max, client.heartbeat_s);
        let connection = Self::of_parts(client.into_parts(), limits, role)?;
        Ok(Self { session: Some(Box::new(session)), ..connection })
    }

    fn of_parts(
        (transport, left): (Transport, Vec<u8>),
        (frame_max, heartbeat_s): (u32, u16),
        role: Role,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            socket: Socket::new(transport, heartbeat_s)?,
            role,
            frame_max,
            left,
            output: Output::default(),
            publisher_at: 0,
            is_down: false,
            session: None,
        })
    }

    /// A peer that was to send heartbeats and is silent is gone. One that is not listened to, since
    /// a slow consumer is not ready, is not known to be silent.
    fn check_peer(&mut self, now: u64, opens_at: Option<u64>) -> anyhow::Result<()> {
        if self.socket.read_at == 0 || opens_at.is_some() || !self.may_read() {
            self.socket.read_at = now;
        }
        if self.socket.is_silent(now) {
            return Err(Lost("the broker sends no heartbeats".to_owned()).into());
        }
        Ok(())
    }

    fn begin_consumers(&mut self, context: &TurnContext<'_>) {
        let Self { role: Role::Consuming(consumers), session, output, .. } = self else { return };
        for consumer in consumers {
            let is_due =
                |at: u64| at == 0 || (context.phase >= Phase::Run && at <= context.time.elapsed());
            if context.phase < Phase::Stop && consumer.starts_at().is_some_and(is_due) {
                match session {
                    None => consumer.begin(&mut output.bytes),
                    Some(session) => {
                        session.put_credit(&mut output.bytes);
                        consumer.begun();
                    }
                }
            }
        }
    }

    fn begin_closing(&mut self) {
        self.socket.begin_closing();
        let out = &mut self.output.bytes;
        if self.session.is_some() {
            Performative::Close(Close { error: None }).encode_frame(0, out);
            return;
        }
        if let Role::Consuming(consumers) = &mut self.role {
            consumers.iter_mut().for_each(|consumer| consumer.end(out));
        }
        let close = ConnectionClose { reply_code: 200, ..ConnectionClose::default() };
        close.encode_frame(0, out);
    }

    fn starts_at(&self, context: &TurnContext<'_>) -> u64 {
        let Role::Consuming(consumers) = &self.role else { return u64::MAX };
        let next = consumers.iter().filter_map(Consumer::starts_at).min();
        next.map_or(u64::MAX, |at| context.time.start.saturating_add(at))
    }

    fn publishers(&self) -> &[Publisher] {
        match &self.role {
            Role::Publishing(all) => all,
            Role::Consuming(_) => &[],
        }
    }
}

impl Driven for Connection {
    fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    fn turn(&mut self, context: &mut TurnContext<'_>) -> anyhow::Result<Turn> {
        if self.is_down && context.phase == Phase::Stop {
            self.socket.close();
        }
        if self.socket.is_closed() || self.is_down {
            return Ok(Turn::Idle);
        }
        self.begin_consumers(context);
        if context.phase == Phase::Stop && !self.socket.is_closing() {
            self.begin_closing();
        }
        let opens_at = self.read(context)?;
        self.check_peer(context.time.now, opens_at)?;
        let due = self.write(context)?;
        let can_read = self.socket.is_readable() && opens_at.is_none() && self.may_read();
        if can_read || due == Turn::Again {
            return Ok(Turn::Again);
        }
        let at = if let Turn::At(at) = due { at } else { u64::MAX };
        let at = at.min(opens_at.unwrap_or(u64::MAX)).min(self.starts_at(context));
        Ok(Turn::by(at.min(self.socket.beats_at())))
    }

    fn progress(&self) -> Progress {
        match &self.role {
            Role::Publishing(all) => {
                let n_done = all.iter().filter(|one| one.is_done()).count();
                Progress { n_done, is_publishing: true, is_consuming: true }
            }
            Role::Consuming(all) => Progress {
                n_done: all.iter().filter(|one| one.is_done()).count(),
                is_publishing: false,
                is_consuming: all
                    .iter()
                    .all(|one| one.is_ready() || one.starts_at().is_some_and(|at| at > 0)),
            },
        }
    }

    fn n_outstanding(&self) -> usize {
        self.publishers().iter().map(Publisher::n_outstanding).sum()
    }

    fn is_stuck(&self, now: u64, timeout_ns: u64) -> bool {
        self.publishers().iter().any(|one| one.is_stuck(now, timeout_ns))
    }

    fn disconnect(&mut self) {
        self.is_down = true;
        self.left.clear();
        self.output.clear();
        match &mut self.role {
            Role::Publishing(publishers) => publishers.iter_mut().for_each(Publisher::disconnect),
            Role::Consuming(consumers) => consumers.iter_mut().for_each(Consumer::disconnect),
        }
    }

    fn resume(&mut self, Reconnected { client, names, .. }: Reconnected) -> anyhow::Result<()> {
        if client.frame_max != self.frame_max {
            bail!("the broker's largest frame is another than before");
        }
        if let Role::Consuming(consumers) = &mut self.role {
            for (number, name) in &names {
                consumers.iter_mut().for_each(|consumer| consumer.rename(*number, name));
            }
        }
        let heartbeat_s = client.heartbeat_s;
        let (transport, left) = client.into_parts();
        (self.socket, self.left) = (Socket::new(transport, heartbeat_s)?, left);
        self.is_down = false;
        Ok(())
    }
}
