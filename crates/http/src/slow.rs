//! Sockets whose clients do not read: one that takes too little for too long is an error, which ends the
//! connection. So is one whose answer has to make room for another.

use socket2::SockRef;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Sleep, sleep};

/// Bytes that a client has to take while its answer waits for as long as its patience says.
const TAKEN_BYTES_MIN: usize = 16 * 1024;
/// Number of looks within that time: the system wakes a writer only once much of its buffer is free.
const LOOKS: u32 = 10;
/// Bytes that the system holds of answers of a connection (`SO_SNDBUF`, which Linux doubles).
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// A client that still sends a body is read for so long, and so much of it, once its answer is written: the
/// system resets a connection that is closed with bytes unread, and the client never sees the answer.
/// RabbitMQ waits as long.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes that are read at a time then.
const LINGER_READ_BYTES: usize = 16 * 1024;

/// Mark of a response that may have to make room for another, which is notified then. The connection ends
/// whether the client reads or not.
#[derive(Clone)]
pub(crate) struct Cut(pub(crate) Arc<Notify>);

/// Resolves when an answer has to make room for another.
pub(crate) type Lost = Pin<Box<OwnedNotified>>;

/// Whether answers of a connection wait for their client.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    is_blocked: AtomicBool,
    waiting: Mutex<Option<Waker>>,
    /// The end of the answer that is on its way, which is the connection's: nobody asks a body for more as
    /// long as its client does not read.
    lost: Mutex<Option<Lost>>,
}

impl Flow {
    /// Resolves as soon as everything written so far is on its way.
    pub(crate) async fn room(&self) {
        std::future::poll_fn(|context| {
            *stdx::lock(&self.waiting) = Some(context.waker().clone());
            if self.is_blocked() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// The answer that comes now ends so, if it may have to make room at all.
    pub(crate) fn set_lost(&self, lost: Option<Lost>) {
        *stdx::lock(&self.lost) = lost;
    }

    /// Whether the answer has had to make room. Whoever asks is woken when it has to.
    fn is_lost(&self, context: &mut Context<'_>) -> bool {
        let mut lost = stdx::lock(&self.lost);
        lost.as_mut().is_some_and(|lost| lost.as_mut().poll(context).is_ready())
    }

    fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::Relaxed)
    }

    fn set_blocked(&self, is_blocked: bool) {
        if self.is_blocked.swap(is_blocked, Ordering::Relaxed) && !is_blocked {
            let waiting = stdx::lock(&self.waiting).take();
            waiting.inspect(Waker::wake_by_ref);
        }
    }
}

/// A socket, and the end of the wait for its client.
pub(crate) struct Impatient {
    socket: TcpStream,
    flow: Arc<Flow>,
    /// Time between two looks.
    pause: Duration,
    look: Option<Pin<Box<Sleep>>>,
    /// Looks that have found the client behind since it has last taken enough, and the bytes it took.
    n_looks: u32,
    n_taken: usize,
    /// Once everything is written: the end of the wait for the client's end, and the bytes that came.
    linger: Option<(Pin<Box<Sleep>>, usize)>,
}

impl Impatient {
    /// `patience` is the time in which a client that is being answered takes [`TAKEN_BYTES_MIN`].
    pub(crate) fn new(socket: TcpStream, patience: Duration, flow: Arc<Flow>) -> Self {
        let _as_it_is = SockRef::from(&socket).set_send_buffer_size(SEND_BUFFER_BYTES);
        let pause = patience / LOOKS;
        Self { socket, flow, pause, look: None, n_looks: 0, n_taken: 0, linger: None }
    }

    /// The outcome of a write of `bytes`, unless too little was taken for too long.
    fn in_time(
        &mut self,
        written: Poll<io::Result<usize>>,
        bytes: &[u8],
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            self.look = None;
            return Poll::Ready(written.inspect(|n| self.note_taken(*n)));
        }
        self.flow.set_blocked(true);
        let pause = self.pause;
        while self
            .look
            .get_or_insert_with(|| Box::pin(sleep(pause)))
            .as_mut()
            .poll(context)
            .is_ready()
        {
            self.look = None;
            self.n_looks += 1;
            // There may be room of which nobody was told.
            match SockRef::from(&self.socket).send(bytes) {
                Ok(n) => {
                    self.note_taken(n);
                    return Poll::Ready(Ok(n));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            if self.n_looks >= LOOKS {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        Poll::Pending
    }

    /// Reads until the client has ended, too.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (end, n_bytes) = self.linger.get_or_insert_with(|| (Box::pin(sleep(LINGER)), 0));
        let mut unread = [0; LINGER_READ_BYTES];
        while *n_bytes < LINGER_BYTES_MAX {
            let mut buffer = ReadBuf::new(&mut unread);
            match Pin::new(&mut self.socket).poll_read(context, &mut buffer) {
                Poll::Pending => return end.as_mut().poll(context),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    *n_bytes += buffer.filled().len()
                }
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(())
    }

    fn note_taken(&mut self, n: usize) {
        self.flow.set_blocked(false);
        self.n_taken += n;
        if self.n_taken >= TAKEN_BYTES_MIN {
            (self.n_taken, self.n_looks) = (0, 0);
        }
    }
}

impl Drop for Impatient {
    fn drop(&mut self) {
        if self.flow.is_blocked() {
            // The system forgets what nobody reads.
            let _as_it_is = self.socket.set_zero_linger();
        }
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.flow.is_lost(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.in_time(written, bytes, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.flow.is_lost(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.socket).poll_shutdown(context))?;
        }
        if !self.flow.is_blocked() {
            ready!(self.poll_linger(context));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.flow.is_lost(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        let first = slices.iter().find(|slice| !slice.is_empty());
        self.in_time(written, first.map_or(&[], |slice| slice), context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
