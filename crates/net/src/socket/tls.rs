//! A socket that carries TLS. Its two halves share one session, which is locked while a read is decrypted or
//! a write is encrypted.
//!
//! Bytes taken from the writer count as written only once all that was made of them is out: until then the
//! socket has no room, and the writer shows the same bytes again. So nothing has to be woken for bytes that
//! are encrypted and wait.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use admission::Admission;
use rustls::{ClientConfig, ServerConfig};
use tls::{Agreed, Failure, Hello, Processed, Reason, Session};
use tokio::io::{Interest, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that are read at least, if there are as many.
const READ_BYTES_MIN: usize = 4 * 1024;
/// Bytes of a handshake's message that is not whole: a longer chain of certificates is refused.
const HANDSHAKE_BYTES_MAX: usize = 32 * 1024;
/// Bytes of records that are not whole, afterwards.
const RECEIVED_BYTES_MAX: usize = 64 * 1024;
/// Bytes that are encrypted at once.
const WRITE_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    /// Bytes that are read, behind those that were not whole.
    static INCOMING: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Bytes to be encrypted, in one piece.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Bytes that are encrypted.
    static ENCRYPTED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A socket with its session.
#[derive(Debug)]
pub(crate) struct TlsSocket {
    pub(super) socket: TcpStream,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    session: Session,
    /// Bytes of the peer that are not whole.
    received: Vec<u8>,
    /// Decrypted bytes for which there was no room.
    plain: Vec<u8>,
    /// Encrypted bytes that the socket did not take.
    unsent: Vec<u8>,
    /// Bytes of the writer's that were encrypted and are not reported as written.
    n_unsent: usize,
    /// Whether nothing follows from the peer.
    is_ended: bool,
    /// Whether the peer knows that nothing follows.
    is_closed: bool,
}

/// Agrees on keys with the client; `None` if it goes away without a word, as those do that look whether the
/// port is open. Each step waits for a turn of its network, so that other connections have theirs between.
pub(crate) async fn handshake(
    socket: TcpStream,
    config: Arc<ServerConfig>,
    admission: &Admission,
    network: IpAddr,
) -> Result<Option<(TlsSocket, Agreed)>, Failure> {
    let lost = |error: io::Error| Failure::new(Reason::Lost, &error.to_string());
    let session = Session::new(config)
        .ok_or_else(|| Failure::new(Reason::Malformed, "the system has no random numbers"))?;
    let mut state = State::new(session);
    let mut hello = None;
    loop {
        socket.readable().await.map_err(lost)?;
        let turn = admission.tls_turn(network).await;
        // In the turn: as long as this task waits for its thread no further one does.
        tokio::task::yield_now().await;
        let n_max = HANDSHAKE_BYTES_MAX - state.received.len();
        let read = state.read(|free| try_read(&socket, free), n_max, None, &mut hello);
        drop(turn);
        let is_silent = hello.is_none();
        let hello = hello.unwrap_or_default();
        let is_open = match read {
            Ok(Some(processed)) => processed.is_open,
            Ok(None) if is_silent => return Ok(None),
            Ok(None) => return Err(Failure::new(Reason::Lost, "client closed the connection")),
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(ReadError::Io(error)) => return Err(lost(error)),
            Err(ReadError::Tls(error)) => {
                let _is_told = state.flush(&socket).is_ok();
                return Err(Failure::explain(&error, hello));
            }
        };
        state.flush_all(&socket).await.map_err(lost)?;
        if is_open {
            let agreed = state.session.agreed();
            return Ok(Some((TlsSocket { socket, state: Mutex::new(state) }, agreed)));
        }
        if state.received.len() >= HANDSHAKE_BYTES_MAX {
            return Err(Failure::new(Reason::Malformed, "client's certificates are too large"));
        }
    }
}

/// Agrees on keys with the server of this name.
///
/// # Errors
/// The socket's, or those of TLS: a certificate that is not trusted, for example.
pub(crate) async fn connect(
    socket: TcpStream,
    config: Arc<ClientConfig>,
    server: &str,
) -> io::Result<(TlsSocket, Agreed)> {
    let no_name = || io::Error::other(format!("no certificate can be for '{server}'"));
    let mut state = State::new(Session::client(config, server).ok_or_else(no_name)?);
    let State { session, unsent, .. } = &mut state;
    let mut processed = session.process(&mut [], &mut |_| {}, unsent).map_err(io::Error::other)?;
    loop {
        state.flush_all(&socket).await?;
        if processed.is_open {
            let agreed = state.session.agreed();
            return Ok((TlsSocket { socket, state: Mutex::new(state) }, agreed));
        }
        let n_max = HANDSHAKE_BYTES_MAX - state.received.len();
        if n_max == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        socket.readable().await?;
        let mut hello = Some(Hello::default());
        match state.read(|free| try_read(&socket, free), n_max, None, &mut hello) {
            Ok(Some(next)) => processed = next,
            Ok(None) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(ReadError::Io(error)) => return Err(error),
            Err(ReadError::Tls(error)) => {
                let _is_told = state.flush(&socket).is_ok();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
}

impl TlsSocket {
    /// Moves the socket to the runtime that this is called in.
    pub(super) fn move_here(&mut self) -> io::Result<()> {
        let socket = self.socket.as_fd().try_clone_to_owned()?;
        self.socket = TcpStream::from_std(socket.into())?;
        Ok(())
    }

    /// Reads once.
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = stdx::lock(&self.state);
        while !state.take_plain(space) {
            ready!(self.socket.poll_read_ready(cx))?;
            match self.decrypt(&mut state, space, |free| try_read(&self.socket, free)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => read?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once, whether the socket is readable or not; an error of the kind `WouldBlock` if no record is
    /// whole.
    pub(super) fn read_gathered(&self, space: &mut ReadBuf<'_>) -> io::Result<()> {
        let mut state = stdx::lock(&self.state);
        while !state.take_plain(space) {
            self.decrypt(&mut state, space, |free| super::recv(&self.socket, free))?;
        }
        Ok(())
    }

    /// Decrypts what comes in one piece.
    fn decrypt(
        &self,
        state: &mut State,
        space: &mut ReadBuf<'_>,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        // Little more comes out than goes in.
        let n_max = space.remaining().max(READ_BYTES_MIN);
        match state.read(read, n_max, Some(space), &mut Some(Hello::default())) {
            Ok(Some(processed)) => state.is_ended = processed.is_ended,
            Ok(None) => state.is_ended = true,
            Err(ReadError::Io(error)) => return Err(error),
            Err(ReadError::Tls(error)) => {
                let _is_told = state.flush(&self.socket).is_ok();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        if state.received.len() > RECEIVED_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // Answers of the session's own; what does not go out now goes before what is written next.
        if !state.unsent.is_empty() {
            let _is_out = state.flush(&self.socket).is_ok();
        }
        Ok(())
    }

    /// Writes what there is room for; an error of the kind `WouldBlock` when there is none.
    pub(super) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = stdx::lock(&self.state);
        state.flush(&self.socket)?;
        if state.n_unsent == 0 {
            state.encrypt(slices)?;
            state.flush(&self.socket)?;
        }
        Ok(std::mem::take(&mut state.n_unsent))
    }

    /// Reads what nobody is going to look at; 0 once the peer has said that nothing follows: it may wait to
    /// be told the same.
    pub(super) fn drop_some(&self) -> io::Result<usize> {
        let mut state = stdx::lock(&self.state);
        let read = |free: &mut [u8]| try_read(&self.socket, free);
        let read = state.read(read, READ_BYTES_MIN, None, &mut Some(Hello::default()));
        state.plain = Vec::new();
        match read {
            Ok(Some(Processed { is_ended: true, .. }) | None) => Ok(0),
            Ok(Some(_)) | Err(ReadError::Tls(_)) => Ok(READ_BYTES_MIN),
            Err(ReadError::Io(error)) => Err(error),
        }
    }

    /// Tells the peer that nothing follows, if it can be told without waiting.
    pub(super) fn close(&self) {
        let mut state = stdx::lock(&self.state);
        if !std::mem::replace(&mut state.is_closed, true) {
            let State { session, received, unsent, .. } = &mut *state;
            session.close(received, unsent);
            let _is_told = state.flush(&self.socket).is_ok();
        }
    }
}

impl Drop for TlsSocket {
    fn drop(&mut self) {
        self.close();
    }
}

/// Reads once from a socket that is readable. It is not any more once it has given less than it might have.
fn try_read(socket: &TcpStream, free: &mut [u8]) -> io::Result<usize> {
    let mut n_last = 0;
    let read = socket.try_io(Interest::READABLE, || match super::recv(socket, free)? {
        n if n == 0 || n == free.len() => Ok(n),
        n => {
            n_last = n;
            Err(io::ErrorKind::WouldBlock.into())
        }
    });
    if n_last > 0 { Ok(n_last) } else { read }
}

/// The reason why nothing was read.
enum ReadError {
    Io(io::Error),
    Tls(rustls::Error),
}

impl State {
    const fn new(session: Session) -> Self {
        Self {
            session,
            received: Vec::new(),
            plain: Vec::new(),
            unsent: Vec::new(),
            n_unsent: 0,
            is_ended: false,
            is_closed: false,
        }
    }

    /// Moves decrypted bytes to where there is room. Whether there is anything to be told, be it the end.
    fn take_plain(&mut self, space: &mut ReadBuf<'_>) -> bool {
        let n = self.plain.len().min(space.remaining());
        if n > 0 {
            space.put_slice(self.plain.get(..n).unwrap_or_default());
            self.plain.drain(..n);
            if self.plain.is_empty() {
                self.plain = Vec::new();
            }
        }
        !space.filled().is_empty() || self.is_ended
    }

    /// Reads `n_max` bytes at most and works off all that is whole, into `space` as far as there is room.
    /// `None` at the end of the stream. `hello` is set by the first bytes.
    fn read(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
        n_max: usize,
        mut space: Option<&mut ReadBuf<'_>>,
        hello: &mut Option<Hello>,
    ) -> Result<Option<Processed>, ReadError> {
        INCOMING.with_borrow_mut(|buffer| {
            let n_kept = self.received.len();
            if buffer.len() < n_kept + n_max {
                buffer.resize(n_kept + n_max, 0);
            }
            let (kept, free) = buffer.split_at_mut(n_kept);
            kept.copy_from_slice(&self.received);
            let free = free.get_mut(..n_max).unwrap_or_default();
            let n = read(free).map_err(ReadError::Io)?;
            if n == 0 {
                return Ok(None);
            }
            let incoming = buffer.get_mut(..n_kept + n).unwrap_or_default();
            hello.get_or_insert_with(|| Hello::new(incoming));
            let plain = &mut self.plain;
            let mut take = |bytes: &[u8]| {
                let n = space.as_ref().map_or(0, |space| space.remaining().min(bytes.len()));
                let (fits, rest) = bytes.split_at(n);
                if let Some(space) = &mut space {
                    space.put_slice(fits);
                }
                plain.extend_from_slice(rest);
            };
            let processed = self.session.process(incoming, &mut take, &mut self.unsent);
            let processed = processed.map_err(|error| {
                self.session.farewell(incoming, &mut self.unsent);
                ReadError::Tls(error)
            })?;
            let rest = incoming.get(processed.n_used..).unwrap_or_default();
            if rest.is_empty() {
                // Idle connections hold no buffers.
                self.received = Vec::new();
            } else {
                self.received.clear();
                self.received.extend_from_slice(rest);
            }
            Ok(Some(processed))
        })
    }

    /// Encrypts as much of the slices as goes out at once.
    fn encrypt(&mut self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        self.unsent = ENCRYPTED.take();
        let Self { session, received, unsent, .. } = self;
        let mut encrypt = |bytes: &[u8]| session.encrypt(received, bytes, unsent);
        let (n, encrypted) = match slices {
            [one] => {
                let bytes = one.get(..one.len().min(WRITE_BYTES_MAX)).unwrap_or_default();
                (bytes.len(), encrypt(bytes))
            }
            many => GATHERED.with_borrow_mut(|gathered| {
                gathered.clear();
                for slice in many {
                    let room = WRITE_BYTES_MAX - gathered.len();
                    gathered
                        .extend_from_slice(slice.get(..slice.len().min(room)).unwrap_or_default());
                }
                (gathered.len(), encrypt(gathered))
            }),
        };
        encrypted.map_err(io::Error::other)?;
        self.n_unsent = n;
        Ok(())
    }

    /// Waits until the socket has taken all that is encrypted.
    async fn flush_all(&mut self, socket: &TcpStream) -> io::Result<()> {
        while let Err(error) = self.flush(socket) {
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
            socket.writable().await?;
        }
        Ok(())
    }

    /// Has the socket take all that is encrypted; an error of the kind `WouldBlock` if it does not.
    fn flush(&mut self, socket: &TcpStream) -> io::Result<()> {
        let mut n_sent = 0;
        while n_sent < self.unsent.len() {
            match socket.try_write(self.unsent.get(n_sent..).unwrap_or_default()) {
                Ok(n) => n_sent += n,
                Err(error) => {
                    self.unsent.drain(..n_sent);
                    return Err(error);
                }
            }
        }
        if n_sent > 0 {
            let mut buffer = std::mem::take(&mut self.unsent);
            buffer.clear();
            ENCRYPTED.set(buffer);
        }
        Ok(())
    }
}
