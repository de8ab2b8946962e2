//! A client's socket in two halves, and what is asked of them. Whatever lies between the system's socket and
//! the protocol, such as TLS, is a further arm of [`SocketReader`] and [`SocketWriter`].

mod low_water;
mod tls;

pub(crate) use tls::{connect, handshake};

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use session::FileBytes;
use socket2::SockRef;
use tls::TlsSocket;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The bytes of one copy, for parts of a file that the system does not send by itself.
const COPY_BYTES: usize = 64 * 1024;

/// The halves of a socket that carries the protocol's bytes as they are.
pub(crate) fn plain(socket: TcpStream) -> (SocketReader, SocketWriter) {
    let (from_peer, to_peer) = socket.into_split();
    (SocketReader::Plain(from_peer), SocketWriter::Plain(to_peer))
}

/// The halves of a socket that carries TLS.
pub(crate) fn encrypted(socket: TlsSocket) -> (SocketReader, SocketWriter) {
    let socket = Arc::new(socket);
    (SocketReader::Tls(Arc::clone(&socket)), SocketWriter::Tls(socket))
}

/// Moves a socket, given by its halves, to the runtime that this is called in.
pub(crate) fn move_here(
    (reader, writer): (SocketReader, SocketWriter),
) -> io::Result<(SocketReader, SocketWriter)> {
    match (reader, writer) {
        (SocketReader::Plain(from_peer), SocketWriter::Plain(to_peer)) => {
            let socket = from_peer.reunite(to_peer).map_err(io::Error::other)?;
            Ok(plain(TcpStream::from_std(socket.into_std()?)?))
        }
        (SocketReader::Tls(mut socket), writer) => {
            drop(writer);
            let only = Arc::get_mut(&mut socket);
            only.ok_or_else(|| io::Error::other("halves of two sockets"))?.move_here()?;
            Ok((SocketReader::Tls(Arc::clone(&socket)), SocketWriter::Tls(socket)))
        }
        (SocketReader::Plain(_), SocketWriter::Tls(_)) => {
            Err(io::Error::other("halves of two sockets"))
        }
    }
}

/// The reading half, which also closes the socket.
#[derive(Debug)]
pub(crate) enum SocketReader {
    Plain(OwnedReadHalf),
    Tls(Arc<TlsSocket>),
}

impl SocketReader {
    /// Reads once.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(half) => Pin::new(half).poll_read(cx, space),
            Self::Tls(it) => it.poll_read(cx, space),
        }
    }

    /// Has the socket become readable once `bytes` are there, and not before; 0 for any.
    pub(crate) fn set_low_water(&self, bytes: u64) {
        let socket = match self {
            Self::Plain(half) => half.as_ref(),
            // The system counts encrypted bytes, which are a few more.
            Self::Tls(it) => &it.socket,
        };
        let bytes = bytes.max(1).try_into().unwrap_or(i32::MAX);
        // Where the system knows nothing of it, the socket is readable sooner.
        let _is_unknown = low_water::set(socket.as_fd(), bytes).is_err();
    }

    /// Reads what is there, however little; an error of the kind `WouldBlock` if there is nothing.
    pub(crate) fn read_gathered(&self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(half) => recv(half.as_ref(), space),
            Self::Tls(it) => {
                let mut space = ReadBuf::new(space);
                it.read_gathered(&mut space)?;
                Ok(space.filled().len())
            }
        }
    }

    /// Waits until there is something to be dropped, or the end.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Plain(half) => half.readable().await,
            Self::Tls(it) => it.socket.readable().await,
        }
    }

    /// Reads what nobody is going to look at, as far as `sink` goes.
    pub(crate) fn drop_some(&self, sink: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(half) => half.try_read(sink),
            Self::Tls(it) => it.drop_some(),
        }
    }

    /// Tells the peer that nothing follows.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        match self {
            Self::Plain(half) => SockRef::from(half.as_ref()).shutdown(Shutdown::Write),
            Self::Tls(it) => {
                it.close();
                SockRef::from(&it.socket).shutdown(Shutdown::Write)
            }
        }
    }

    /// Has the socket forget what was not sent when it is dropped. Otherwise the system would go on trying to
    /// send it, and a client that only writes would not learn that it is disconnected.
    pub(crate) fn reset(&self) -> io::Result<()> {
        match self {
            Self::Plain(half) => half.as_ref().set_zero_linger(),
            Self::Tls(it) => it.socket.set_zero_linger(),
        }
    }
}

/// The writing half.
#[derive(Debug)]
pub(crate) enum SocketWriter {
    Plain(OwnedWriteHalf),
    Tls(Arc<TlsSocket>),
}

impl SocketWriter {
    /// Waits for room.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Plain(half) => half.as_ref().poll_write_ready(cx).map(drop),
            Self::Tls(it) => it.socket.poll_write_ready(cx).map(drop),
        }
    }

    /// Writes what there is room for; an error of the kind `WouldBlock` when there is none.
    pub(crate) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self, slices) {
            (Self::Plain(half), [one]) => half.try_write(one),
            (Self::Plain(half), many) => half.try_write_vectored(many),
            (Self::Tls(it), slices) => it.try_write(slices),
        }
    }

    /// Sends what there is room for of a part of a file, as far as it is at hand; an error of the kind
    /// `WouldBlock` when there is neither.
    pub(crate) fn try_send_file(&self, part: &dyn FileBytes, from: usize) -> io::Result<usize> {
        let n = part.n_at_hand(from);
        if n == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let sent = match (self, part.descriptor()) {
            (Self::Plain(half), Some((file, at))) => {
                let mut at = at + from as u64;
                half.as_ref().try_io(Interest::WRITABLE, || {
                    Ok(rustix::fs::sendfile(half.as_ref(), file, Some(&mut at), n)?)
                })
            }
            (Self::Plain(_), None) | (Self::Tls(_), _) => Err(Errno::INVAL.into()),
        };
        let sent = match sent {
            Err(error) if cannot_send(&error) => {
                let mut copy = vec![0; n.min(COPY_BYTES)];
                let n = part.read_at(from, &mut copy)?;
                self.try_write(&[IoSlice::new(copy.get(..n).unwrap_or_default())])
            }
            sent => sent,
        };
        // The file is shorter than it was.
        sent.and_then(|n| if n == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(n) })
    }

    /// Drops the half without telling the peer that nothing follows.
    pub(crate) fn leave_open(self) {
        match self {
            Self::Plain(half) => half.forget(),
            Self::Tls(_) => {}
        }
    }
}

/// Reads what is there, whether the runtime knows of it or not.
fn recv(socket: &TcpStream, space: &mut [u8]) -> io::Result<usize> {
    let (n, _) = rustix::net::recv(socket, space, RecvFlags::DONTWAIT)?;
    Ok(n)
}

/// Whether the system knows no way to send from this file.
fn cannot_send(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}
