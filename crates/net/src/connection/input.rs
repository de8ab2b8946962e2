//! The input read and not yet consumed. An idle connection holds no buffer: threads keep one at hand
//! and lend it to whichever of their connections has something to read.

use crate::read_clock::Gathering;
use crate::server::Server;
use crate::socket::SocketReader;
use edge::{ReadCounts, ReadPace};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use stdx::Now;
use tokio::io::ReadBuf;

/// The bytes that one read takes at first.
const READ_BYTES: usize = 64 * 1024;
/// The bytes that one read takes at most, while reads fill the buffer.
const READ_BYTES_MAX: usize = 256 * 1024;
/// The largest size of frames that have to be seen whole, however large frames may be.
const UNIT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Rests of a read up to this size are kept apart, and the buffer is given back.
const REST_BYTES_MAX: usize = 16 * 1024;
/// The most buffers that a thread keeps at hand.
const N_SPARE_MAX: usize = 2;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of at least `size` bytes.
fn borrow_buffer(size: usize) -> Vec<u8> {
    let spare = SPARE.with_borrow_mut(|spare| {
        let index = spare.iter().position(|buffer| buffer.len() >= size)?;
        Some(spare.swap_remove(index))
    });
    spare.unwrap_or_else(|| vec![0; size])
}

/// Gives a buffer back. A large one takes the place of a small one, so that clients that send much find it
/// again.
fn give_back(buffer: Vec<u8>) {
    if !(READ_BYTES..=READ_BYTES_MAX).contains(&buffer.len()) {
        return;
    }
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < N_SPARE_MAX {
            spare.push(buffer);
        } else if let Some(small) = spare.iter_mut().find(|small| small.len() < buffer.len()) {
            *small = buffer;
        }
    });
}

/// The input of one connection.
#[derive(Debug)]
pub(super) struct Input {
    socket: SocketReader,
    /// Always initialised over its whole length; empty when nothing is borrowed.
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were read.
    len: usize,
    /// The rest of the input when the buffer was given back.
    rest: Vec<u8>,
    /// Bytes the next read takes.
    size: usize,
    /// Whether the input at hand may be worked off without anything being read.
    is_left: bool,
    /// Of a client that does something.
    gathers: Option<Box<Gathers>>,
}

/// A client's input that may gather before it is read.
#[derive(Debug, Default)]
struct Gathers {
    pace: ReadPace,
    /// Bytes that have to be there before the socket is readable, as the system was told; 0 for any.
    low_water_bytes: u64,
    /// While that is not 0.
    gathering: Option<Arc<Gathering>>,
}

/// A unit that has to be seen whole is larger than any that is accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooLarge;

impl Gathers {
    /// Whether the clock, which watches from now on, has said that enough time has passed.
    fn is_due(&mut self, cx: &Context<'_>, server: &Server) -> bool {
        if self.low_water_bytes == 0 {
            return false;
        }
        let begin = || server.read_clock.gather(cx.waker(), self.pace.n_ticks());
        self.gathering.get_or_insert_with(begin).take_due()
    }

    /// Input is not due for a while.
    fn hold(&self) {
        if let Some(gathering) = &self.gathering {
            gathering.wait_for(self.pace.n_ticks());
        }
    }

    /// Tells the system, unless the number is much the same as before.
    fn set_low_water(&mut self, socket: &SocketReader) {
        let (bytes, before) = (self.pace.low_water_bytes(), self.low_water_bytes);
        if bytes == 0 {
            self.gathering = None;
        }
        if bytes.abs_diff(before) > before / 4 || (bytes == 0 && before > 0) {
            self.low_water_bytes = bytes;
            socket.set_low_water(bytes);
        }
    }
}

impl Input {
    pub(super) const fn new(socket: SocketReader) -> Self {
        Self {
            socket,
            buffer: Vec::new(),
            len: 0,
            rest: Vec::new(),
            size: 0,
            is_left: false,
            gathers: None,
        }
    }

    /// The socket, without what was read.
    pub(super) fn into_socket(self) -> SocketReader {
        if self.gathers.is_some_and(|gathers| gathers.low_water_bytes > 0) {
            self.socket.set_low_water(0);
        }
        self.socket
    }

    /// Everything read and not consumed.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// Reads once. Returns the number of bytes; 0 at the end of the stream.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.borrow();
        let Some(space) = self.buffer.get_mut(self.len..) else { return Poll::Pending };
        let n_space = space.len();
        let mut space = ReadBuf::new(space);
        let Poll::Ready(result) = self.socket.poll_read(cx, &mut space) else {
            if self.len <= REST_BYTES_MAX {
                self.put_back(0);
            }
            return Poll::Pending;
        };
        let n = space.filled().len();
        stdx::walk::step("read");
        self.len += n;
        if n == n_space && self.buffer.len() >= self.size {
            self.size = (self.size * 2).min(READ_BYTES_MAX.max(self.size));
        } else if n < READ_BYTES / 2 {
            self.size = READ_BYTES;
        }
        Poll::Ready(result.map(|()| n))
    }

    /// Reads once, when the socket is readable, or when what has gathered is due or wanted.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        server: &Server,
        is_wanted: bool,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = self.poll_read(cx) {
            return Poll::Ready(result);
        }
        let Some(gathers) = &mut self.gathers else { return Poll::Pending };
        let is_due = gathers.is_due(cx, server);
        let is_wanted = is_wanted && gathers.low_water_bytes > 0;
        if !is_due && !is_wanted {
            return Poll::Pending;
        }
        let result = self.read_gathered();
        if let Some(gathers) = &mut self.gathers {
            if is_due {
                gathers.pace.was_due(server.clock.now(), result.is_ready());
                gathers.set_low_water(&self.socket);
            }
            gathers.hold();
        }
        result
    }

    fn read_gathered(&mut self) -> Poll<io::Result<usize>> {
        self.borrow();
        let Some(space) = self.buffer.get_mut(self.len..) else { return Poll::Pending };
        let result = self.socket.read_gathered(space);
        match &result {
            Ok(n) => self.len += n,
            Err(_) if self.len <= REST_BYTES_MAX => self.put_back(0),
            Err(_) => {}
        }
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            result => Poll::Ready(result),
        }
    }

    /// Input that has gathered is not due: none is to be read now, maybe for long, and no clock has to tick.
    pub(super) fn hold_gathered(&mut self) {
        if let Some(gathers) = &mut self.gathers {
            gathers.gathering = None;
        }
    }

    /// The number of writes after which settlements that gather are to be read; 0 for none.
    pub(super) fn n_writes_to_read(&self) -> u32 {
        self.gathers.as_ref().map_or(0, |gathers| gathers.pace.n_writes_to_read())
    }

    /// Notes the contents of a read: the time that the next one may wait for depends on it.
    pub(super) fn note_read(
        &mut self,
        now: Now,
        counts: ReadCounts,
        n_settles_spare: impl FnOnce() -> u32,
    ) {
        let is_idle = self.gathers.is_none() && counts.n_publishes + counts.n_settles == 0;
        if !is_idle {
            let gathers = self.gathers.get_or_insert_default();
            gathers.pace.read(now, counts, n_settles_spare);
            gathers.set_low_water(&self.socket);
            gathers.hold();
        }
    }

    /// Keeps the input that is not consumed now, to be worked off before more is read.
    pub(super) const fn leave(&mut self) {
        self.is_left = true;
    }

    /// Whether something was left.
    pub(super) const fn is_left(&self) -> bool {
        self.is_left
    }

    /// Whether something was left; once.
    pub(super) fn take_left(&mut self) -> bool {
        let is_left = std::mem::take(&mut self.is_left);
        if is_left {
            self.borrow();
        }
        is_left
    }

    /// Drops the first `n` bytes. `wanted` is how many bytes, what is left included, are needed for
    /// anything more to happen.
    pub(super) fn consume(&mut self, n: usize, wanted: usize) -> Result<(), TooLarge> {
        if wanted > UNIT_BYTES_MAX {
            return Err(TooLarge);
        }
        let n = n.min(self.len);
        if self.len - n > REST_BYTES_MAX {
            self.buffer.copy_within(n..self.len, 0);
            self.len -= n;
        } else {
            self.put_back(n);
        }
        self.size = self.size.max(wanted);
        Ok(())
    }

    /// Gives back memory: nothing has come for a while.
    pub(super) fn trim(&mut self) {
        self.rest.shrink_to_fit();
        self.size = READ_BYTES;
        self.gathers = self.gathers.take().filter(|gathers| gathers.low_water_bytes > 0);
    }

    fn borrow(&mut self) {
        self.size = self.size.max(READ_BYTES);
        if self.buffer.is_empty() {
            let size = if self.rest.len() < self.size { self.size } else { self.rest.len() * 2 };
            self.buffer = borrow_buffer(size);
            if let Some(start) = self.buffer.get_mut(..self.rest.len()) {
                start.copy_from_slice(&self.rest);
                self.len = self.rest.len();
            }
            self.rest.clear();
        } else if self.buffer.len() < self.size || self.len == self.buffer.len() {
            let size = self.size.max(self.len * 2);
            self.buffer.resize(size, 0);
        }
    }

    /// Gives the buffer back, and keeps what was read from the `n`th byte on.
    fn put_back(&mut self, n: usize) {
        let buffer = std::mem::take(&mut self.buffer);
        self.rest.clear();
        self.rest.extend_from_slice(buffer.get(n..self.len).unwrap_or_default());
        self.len = 0;
        give_back(buffer);
    }
}
