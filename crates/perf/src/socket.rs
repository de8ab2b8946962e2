//! A connection's socket, read and written without waiting, and the bytes that wait to be written.

use std::io;
use std::net::TcpStream;

use rustix::event::epoll::EventFlags;

use crate::clock::{self, SECOND};
use crate::losses::Lost;
use client::{Received, Sent, Transport};

/// A socket that never blocks, and its readiness as far as it is known.
#[derive(Debug)]
pub(crate) struct Socket {
    transport: Transport,
    is_readable: bool,
    is_writable: bool,
    /// The broker writes no more. Nothing is announced after that, so reads go on up to the end.
    is_ending: bool,
    heartbeat_ns: u64,
    wrote_at: u64,
    /// Time of the last input; 0 before the first turn.
    pub(crate) read_at: u64,
    state: SocketState,
}

/// How far a connection is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SocketState {
    Open,
    /// The tool has said goodbye.
    Closing,
    /// The broker has said goodbye too.
    Closed,
}

impl Socket {
    /// Takes over a connection that was set up; `heartbeat_s` is 0 without heartbeats.
    ///
    /// # Errors
    /// A socket that cannot be made to not wait.
    pub(crate) fn new(transport: Transport, heartbeat_s: u16) -> anyhow::Result<Self> {
        transport.socket().set_nonblocking(true)?;
        Ok(Self {
            transport,
            // Nothing is known yet: attempts will tell.
            is_readable: true,
            is_writable: true,
            is_ending: false,
            // Half the interval, so that one late heartbeat does no harm.
            heartbeat_ns: u64::from(heartbeat_s) * SECOND / 2,
            wrote_at: clock::now(),
            read_at: 0,
            state: SocketState::Open,
        })
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        self.transport.socket()
    }

    /// Notes what the system says of the socket.
    pub(crate) fn on_events(&mut self, flags: EventFlags) {
        if flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP) {
            (self.is_readable, self.is_writable, self.is_ending) = (true, true, true);
        }
        self.is_readable |= flags.contains(EventFlags::IN);
        self.is_writable |= flags.contains(EventFlags::OUT);
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.is_readable
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Whether the tool has said goodbye.
    pub(crate) fn is_closing(&self) -> bool {
        self.state >= SocketState::Closing
    }

    /// Whether the broker has said goodbye too, or the tool does not wait for it.
    pub(crate) fn is_closed(&self) -> bool {
        self.state == SocketState::Closed
    }

    /// Notes that the tool says goodbye.
    pub(crate) fn begin_closing(&mut self) {
        self.state = self.state.max(SocketState::Closing);
    }

    /// Notes that the connection is over.
    pub(crate) fn close(&mut self) {
        self.state = SocketState::Closed;
    }

    /// Reads once; gives back how many bytes came. At the end of a connection that closes it is closed.
    ///
    /// # Errors
    /// [`Lost`], also if the broker has closed the connection.
    pub(crate) fn receive(&mut self, into: &mut [u8], now: u64) -> anyhow::Result<usize> {
        match self.transport.receive(into) {
            Ok(Received { n: 0, .. }) if !self.is_closing() => {
                Err(Lost("the broker closed a connection".to_owned()).into())
            }
            Ok(Received { n: 0, .. }) => {
                self.close();
                Ok(0)
            }
            Ok(Received { n, may_be_more }) => {
                self.read_at = now;
                self.is_readable = may_be_more || self.is_ending;
                Ok(n)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_readable = false;
                Ok(0)
            }
            Err(error) => self.on_error(&error),
        }
    }

    /// Writes once, if the socket takes anything; gives back how many of the bytes.
    ///
    /// # Errors
    /// [`Lost`].
    pub(crate) fn send(&mut self, bytes: &[u8], now: u64) -> anyhow::Result<usize> {
        if !self.is_writable || !self.has_bytes(bytes) {
            return Ok(0);
        }
        match self.transport.send(bytes) {
            Ok(Sent { n, is_blocked }) => {
                self.is_writable = !is_blocked;
                self.wrote_at = now;
                Ok(n)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_writable = false;
                Ok(0)
            }
            Err(error) => self.on_error(&error),
        }
    }

    /// Whether there is something to write: `bytes`, or what encryption owes.
    pub(crate) fn has_bytes(&self, bytes: &[u8]) -> bool {
        !bytes.is_empty() || self.transport.owes_bytes()
    }

    fn on_error(&mut self, error: &io::Error) -> anyhow::Result<usize> {
        if error.kind() == io::ErrorKind::Interrupted {
            return Ok(0);
        }
        if !self.is_closing() {
            return Err(Lost(format!("a connection is lost: {error}")).into());
        }
        self.close();
        Ok(0)
    }

    /// Whether a heartbeat is to be written now; counts it as written.
    pub(crate) fn owes_heartbeat(&mut self, now: u64) -> bool {
        let is_due = now >= self.beats_at();
        if is_due {
            self.wrote_at = now;
        }
        is_due
    }

    /// The time of the next heartbeat.
    pub(crate) fn beats_at(&self) -> u64 {
        if self.heartbeat_ns > 0 { self.wrote_at + self.heartbeat_ns } else { u64::MAX }
    }

    /// Whether a peer that was to send heartbeats has been silent for too long.
    pub(crate) fn is_silent(&self, now: u64) -> bool {
        self.heartbeat_ns > 0 && now > self.read_at + 4 * self.heartbeat_ns && !self.is_closing()
    }
}

/// Bytes that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    at: usize,
}

impl Output {
    /// The bytes that are not written yet.
    pub(crate) fn pending(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Notes that `n` bytes are written.
    pub(crate) fn written(&mut self, n: usize) {
        self.at += n;
        if self.at == self.bytes.len() {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
    }
}
