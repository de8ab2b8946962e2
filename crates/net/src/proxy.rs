//! Connections that come through a proxy: before the first byte of their protocol stands a header that says
//! who the client is. Knows the socket and time; what the header looks like is told in `header.rs`.

mod header;
mod tls;

use crate::connection::Name;
use crate::server::Server;
use ::tls::Agreed;
use header::{Forwarded, Parsed, V1_BYTES_MAX, parse};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// COMPAT: RabbitMQ waits so many milliseconds for the header, however long the rest of the handshake may
/// take.
const HEADER_TIMEOUT_MS: u64 = 3_000;

/// The reason why there is no header.
#[derive(Debug)]
enum NoHeader {
    Invalid(header::Invalid),
    Eof,
    Io(io::Error),
    TooLate,
}

impl fmt::Display for NoHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => f.write_str(why.as_str()),
            Self::Eof => f.write_str("the socket was closed before"),
            Self::Io(error) => error.fmt(f),
            Self::TooLate => f.write_str("it did not come in time"),
        }
    }
}

/// Reads the header: the connection's name by the addresses in it, and how the client's connection to the
/// proxy is encrypted. Time that the header takes is time of the handshake.
///
/// COMPAT: as with RabbitMQ a socket without a valid header is closed without a word, and the log hears of it
/// at the level `debug` only: anybody could fill it.
pub(crate) async fn name_of(
    socket: &mut TcpStream,
    (peer, local): (SocketAddr, SocketAddr),
    (timeout_ms, displaced): (u64, Arc<Notify>),
    server: &Server,
) -> Option<(Name, Option<Agreed>)> {
    let patience_ms = timeout_ms.min(HEADER_TIMEOUT_MS);
    let mut stopping = server.stopping.subscribe();
    let header = server.timers.timeout(Duration::from_millis(patience_ms), read(socket));
    let read = tokio::select! {
        read = header => read.unwrap_or(Err(NoHeader::TooLate)),
        // An error means that the server is gone, which is no different.
        _ = stopping.wait_for(|stopping| *stopping) => return None,
        () = displaced.notified() => return None,
    };
    let (name, agreed) = match read {
        Ok((Forwarded::Client { source, destination }, agreed)) => {
            (Name::new(source, destination), agreed)
        }
        Ok((Forwarded::Local, _)) => (Name::new(peer, local), None),
        Ok((Forwarded::Unknown, agreed)) => (Name::new(peer, local).of_unknown_client(), agreed),
        Err(reason) => {
            tracing::debug!(
                "closing the connection from {peer}: no PROXY protocol header: {reason}"
            );
            return None;
        }
    };
    tracing::debug!(connection = %name, "forwarded by {peer}");
    Some((name, agreed))
}

/// Takes the header off the socket, and not a byte more.
async fn read(socket: &mut TcpStream) -> Result<(Forwarded, Option<Agreed>), NoHeader> {
    // The longest line; of a binary header everything that is looked at.
    let mut bytes = [0; V1_BYTES_MAX];
    let mut n_taken = 0;
    loop {
        let space = bytes.get_mut(n_taken..).unwrap_or_default();
        let n_seen = n_taken + socket.peek(space).await.map_err(NoHeader::Io)?;
        if n_seen == n_taken {
            return Err(NoHeader::Eof);
        }
        let parsed = parse(bytes.get(..n_seen).unwrap_or_default()).map_err(NoHeader::Invalid)?;
        // The bytes seen of a header that is not whole belong to it: once they are taken the rest can be
        // waited for.
        let n_wanted = match parsed {
            Parsed::More => n_seen,
            Parsed::Header { n_bytes, .. } => n_bytes.min(n_seen),
        };
        let seen = bytes.get_mut(n_taken..n_wanted).unwrap_or_default();
        socket.read_exact(seen).await.map_err(NoHeader::Io)?;
        n_taken = n_wanted;
        if let Parsed::Header { forwarded, n_bytes } = parsed {
            // All of it is bounded by the longest that is taken.
            let mut header = bytes.get(..n_taken).unwrap_or_default().to_vec();
            header.resize(n_bytes.max(n_taken), 0);
            let rest = header.get_mut(n_taken..).unwrap_or_default();
            socket.read_exact(rest).await.map_err(NoHeader::Io)?;
            return Ok((forwarded, tls::agreed(&header)));
        }
    }
}
