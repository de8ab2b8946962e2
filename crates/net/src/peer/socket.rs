//! A socket between two nodes: reading and writing that waits, over TLS or not.

use crate::socket::{self, SocketReader, SocketWriter};
use bytes::Bytes;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection between two nodes.
#[derive(Debug)]
pub(super) struct PeerSocket {
    pub(super) reader: SocketReader,
    pub(super) writer: SocketWriter,
    /// Bytes that came with the end of the handshake.
    pub(super) early: Bytes,
}

impl PeerSocket {
    pub(super) fn new((reader, writer): (SocketReader, SocketWriter)) -> Self {
        Self { reader, writer, early: Bytes::new() }
    }

    /// Moves the socket to the runtime that this is called in.
    pub(super) fn move_here(self) -> io::Result<Self> {
        let Self { reader, writer, early } = self;
        let (reader, writer) = socket::move_here((reader, writer))?;
        Ok(Self { reader, writer, early })
    }
}

/// Reads once; 0 at the end of the stream.
pub(super) async fn read(reader: &mut SocketReader, space: &mut [u8]) -> io::Result<usize> {
    let mut space = ReadBuf::new(space);
    poll_fn(|cx| reader.poll_read(cx, &mut space)).await?;
    Ok(space.filled().len())
}

/// Writes all of `bytes`.
pub(super) async fn write_all(writer: &SocketWriter, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match writer.try_write(&[IoSlice::new(bytes)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|cx| writer.poll_room(cx)).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A stream of bytes to another node, behind a handshake with the cookie: the command line tool's requests,
/// or those of a node that joins.
#[derive(Debug)]
pub struct PeerTunnel(pub(super) PeerSocket);

impl AsyncRead for PeerTunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self(socket) = &mut *self;
        if !socket.early.is_empty() {
            let n = socket.early.len().min(space.remaining());
            space.put_slice(&socket.early.split_to(n));
            return Poll::Ready(Ok(()));
        }
        socket.reader.poll_read(cx, space)
    }
}

impl AsyncWrite for PeerTunnel {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.0.writer.try_write(&[IoSlice::new(bytes)]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.0.writer.poll_room(cx));
                }
                written => return Poll::Ready(written),
            }
        }
    }

    /// Does nothing: what was written has left this process.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.reader.shut_down())
    }
}
