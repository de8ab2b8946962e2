//! Bytes to and from a broker, plain or encrypted. Knows neither frames nor why it is called.
//!
//! The same calls serve a socket that blocks, while connections are set up, and one that does not.

mod tls;

use anyhow::{Context as _, bail};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

pub use tls::{Encryption, Session, Trust};

/// The size of one read, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// A socket, with or without TLS.
#[derive(Debug)]
pub enum Transport {
    /// A socket without TLS.
    Plain(TcpStream),
    /// A socket with TLS.
    Tls(Box<Session>),
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The number of bytes read; 0 is the end.
    pub n: usize,
    /// Whether more may be there already, of which nobody will tell.
    pub may_be_more: bool,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The number of bytes written.
    pub n: usize,
    /// Whether the socket takes no more for now; the system tells when it does again.
    pub is_blocked: bool,
}

impl Transport {
    /// The socket, for epoll and for the addresses.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(session) => &session.socket,
        }
    }

    /// Reads into `into`, which has room. Without anything to read it waits, or fails with
    /// `WouldBlock`, as the socket does.
    #[inline]
    pub fn receive(&mut self, into: &mut [u8]) -> io::Result<Received> {
        match self {
            Self::Plain(socket) => {
                let n = socket.read(into)?;
                // Input that comes after a short read is announced again.
                Ok(Received { n, may_be_more: n == into.len() })
            }
            Self::Tls(session) => session.receive(into),
        }
    }

    /// Reads something onto the end of `input`, on a socket that waits.
    ///
    /// # Errors
    /// The socket's; it is at its end.
    pub fn read_more(&mut self, input: &mut Vec<u8>) -> anyhow::Result<()> {
        let at = input.len();
        input.resize(at + READ_BYTES, 0);
        let read = self.receive(input.get_mut(at..).unwrap_or_default());
        let n = read.map(|Received { n, .. }| n);
        input.truncate(at + *n.as_ref().unwrap_or(&0));
        match n.context("reading")? {
            0 => bail!("the broker closed the socket"),
            _ => Ok(()),
        }
    }

    /// Writes what can be written without waiting. With TLS, bytes that were taken may still wait
    /// to go out: see [`Self::owes_bytes`].
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<Sent> {
        match self {
            Self::Plain(socket) => {
                let n = socket.write(bytes)?;
                Ok(Sent { n, is_blocked: n < bytes.len() })
            }
            Self::Tls(session) => session.send(bytes),
        }
    }

    /// Writes everything, on a socket that waits.
    pub fn send_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(session) => session.send_all(bytes),
        }
    }

    /// Whether there is something to send even if the caller has nothing.
    #[inline]
    pub fn owes_bytes(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(session) => session.owes_bytes(),
        }
    }
}
