//! One connection under load: one read, one pass over what came, one write per turn.
//!
//! Written are, in this order: what is left of a batch of messages, then methods (acknowledgements,
//! heartbeats), then the next publisher's batch. A turn never blocks.

mod input;
mod output;

use std::io;
use std::net::TcpStream;

use amqp091::method::ConnectionClose;
use anyhow::bail;

use crate::clock::SECOND;
use crate::consumer::Consumer;
use crate::losses::Lost;
use crate::publisher::{Publisher, TurnTime};
use crate::stats::Sample;
use crate::verify::Ledger;
use client::Client;
use client::Transport;

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

/// The socket's readiness, as far as it is known.
#[derive(Clone, Copy, Debug)]
struct Readiness {
    is_readable: bool,
    is_writable: bool,
    /// The broker writes no more. Nothing is announced after that, so reads go on up to the end.
    is_ending: bool,
}

impl Readiness {
    /// Nothing is known yet: attempts will tell.
    const UNKNOWN: Self = Self { is_readable: true, is_writable: true, is_ending: false };
}

/// A connection under load.
#[derive(Debug)]
pub(crate) struct Connection {
    transport: Transport,
    role: Role,
    frame_max: u32,
    ready: Readiness,
    /// Bytes read but not used: part of a frame, or deliveries that a slow consumer has not come to.
    left: Vec<u8>,
    /// Methods to write.
    output: Vec<u8>,
    output_at: usize,
    /// The publisher whose batch is being written, and who is next otherwise.
    publisher_at: usize,
    heartbeat_ns: u64,
    wrote_at: u64,
    /// Time of the last input; 0 before the first turn.
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
        let (transport, left) = client.into_parts();
        transport.socket().set_nonblocking(true)?;
        Ok(Self {
            transport,
            role,
            frame_max,
            ready: Readiness::UNKNOWN,
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
        self.transport.socket()
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

    /// The broker writes no more, or the connection is broken.
    pub(crate) fn on_end(&mut self) {
        self.ready = Readiness { is_readable: true, is_writable: true, is_ending: true };
    }

    /// The socket takes more.
    pub(crate) fn on_writable(&mut self) {
        self.ready.is_writable = true;
    }

    /// Does what can be done now.
    ///
    /// # Errors
    /// The connection is lost, or the broker says something unexpected.
    pub(crate) fn turn(&mut self, context: &mut TurnContext<'_>) -> anyhow::Result<Turn> {
        self.is_closed |= self.is_down && context.phase == Phase::Stop;
        if self.is_closed || self.is_down {
            return Ok(Turn::Idle);
        }
        self.begin_consumers(context);
        if context.phase == Phase::Stop && !self.is_closing {
            self.is_closing = true;
            if let Role::Consuming(consumers) = &mut self.role {
                consumers.iter_mut().for_each(|consumer| consumer.end(&mut self.output));
            }
            let close = ConnectionClose { reply_code: 200, ..ConnectionClose::default() };
            close.encode_frame(0, &mut self.output);
        }
        let opens_at = self.read(context)?;
        self.check_peer(context.time.now, opens_at)?;
        let due = self.write(context)?;
        let can_read = self.ready.is_readable && opens_at.is_none() && self.may_read();
        if can_read || due == Turn::Again {
            return Ok(Turn::Again);
        }
        let at = if let Turn::At(at) = due { at } else { u64::MAX };
        let at = at.min(opens_at.unwrap_or(u64::MAX)).min(self.starts_at(context));
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
        (self.transport, self.left) = client.into_parts();
        self.transport.socket().set_nonblocking(true)?;
        self.ready = Readiness::UNKNOWN;
        (self.is_down, self.read_at) = (false, 0);
        Ok(())
    }

    fn begin_consumers(&mut self, context: &TurnContext<'_>) {
        let Role::Consuming(consumers) = &mut self.role else { return };
        for consumer in consumers {
            let is_due =
                |at: u64| at == 0 || (context.phase >= Phase::Run && at <= context.time.elapsed());
            if context.phase < Phase::Stop && consumer.starts_at().is_some_and(is_due) {
                consumer.begin(&mut self.output);
            }
        }
    }

    fn starts_at(&self, context: &TurnContext<'_>) -> u64 {
        let Role::Consuming(consumers) = &self.role else { return u64::MAX };
        let next = consumers.iter().filter_map(Consumer::starts_at).min();
        next.map_or(u64::MAX, |at| context.time.start.saturating_add(at))
    }
}

fn lost(error: &io::Error) -> anyhow::Error {
    Lost(format!("a connection is lost: {error}")).into()
}
