//! The writer of a connection: it moves bytes from the outbox to the socket, on the connection's own task,
//! or on the thread that has just put something into the outbox while that task sleeps, which saves a
//! change of threads.
//!
//! The outbox wakes the [`InlineWaker`], which writes at once what can be written without waiting. It wakes
//! the task only when there is something left that the task must do: wait for room, resume links, report
//! deliveries settled by being written to the broker, end the connection.
//!
//! No wakeup is lost: a thread that writes inline leaves with the waker back in the outbox, or wakes the
//! task after giving the batch back. While it is about to give the batch back, the outbox may wake again
//! and the task find the batch still taken: the task then notes that in `found_batch_taken`, and is woken.

use super::Disconnect;
use crate::socket::SocketWriter;
use edge::{TaskOutbox, WriteBatch};
use session::{Error, LinkId};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Slices handed to one vectored write.
const N_SLICES: usize = 32;
/// More than this waiting is left to the task: it writes on another processor while the thread that
/// put it in goes on, and pauses a publisher no longer than a change of threads costs.
const INLINE_BYTES_MAX: usize = 16 * 1024;
/// Batches written inline before the rest is left to the task.
const N_INLINE_BATCHES_MAX: usize = 4;

/// Writes in tasks' stead by a thread that is not the runtime's, within [`OUTSIDE_SPAN`]: few connections
/// are answered a change of threads earlier, and many cost that thread no more than this.
const N_OUTSIDE_WRITES_MAX: u32 = 2;
/// The time for which [`N_OUTSIDE_WRITES_MAX`] counts.
const OUTSIDE_SPAN: Duration = Duration::from_micros(100);

thread_local! {
    /// The writes of this thread in tasks' stead, if it is not the runtime's.
    static OUTSIDE_WRITES: Cell<OutsideWrites> = const { Cell::new(OutsideWrites { since: None, n: 0 }) };
}

/// Recent writes in tasks' stead by a thread that has other work: the log's, a worker.
#[derive(Clone, Copy, Debug)]
struct OutsideWrites {
    /// The first of them.
    since: Option<Instant>,
    n: u32,
}

impl OutsideWrites {
    /// Counts a write at `now`; false if the thread has written enough for now.
    fn admit(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now - since >= OUTSIDE_SPAN) {
            *self = Self { since: Some(now), n: 0 };
        }
        let is_admitted = self.n < N_OUTSIDE_WRITES_MAX;
        self.n += u32::from(is_admitted);
        is_admitted
    }
}

/// A connection's socket, and what is being written to it.
#[derive(Debug)]
pub(super) struct Writer {
    /// None only of a writer whose connection goes on with another.
    to_peer: Option<SocketWriter>,
    pub(super) outbox: Arc<dyn TaskOutbox>,
    batch: Mutex<WriteBatch>,
    /// The connection's task, as of its last sleep.
    task: Mutex<Option<Waker>>,
    /// The waker that stands in the outbox while the task sleeps.
    inline_waker: Waker,
    /// Whether the task has found the batch taken and sleeps.
    found_batch_taken: AtomicBool,
    /// Whether something was written since [`Writer::forget_written`].
    has_written: AtomicBool,
    /// Whether another thread wrote something since [`Writer::take_written_inline`].
    has_written_inline: AtomicBool,
    /// Writes by other threads until the task is woken to read what has gathered, and one more; 0 for never.
    n_writes_to_read: AtomicU32,
    stats: OnceLock<Arc<broker::Connection>>,
}

/// The outbox's waker that writes inline. It does not keep the writer alive: it may stand in the outbox
/// that the writer holds.
struct InlineWaker(Weak<Writer>);

impl Wake for InlineWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(writer) = self.0.upgrade() {
            writer.write_inline();
        }
    }
}

impl Drop for Writer {
    /// The half alone would tell the peer that nothing follows: whether it is told, and when, is told with
    /// the end of the connection.
    fn drop(&mut self) {
        if let Some(to_peer) = self.to_peer.take() {
            to_peer.leave_open();
        }
    }
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrote {
    All,
    /// The socket takes no more for now.
    Some,
}

/// The task's duty after a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// No duty: bytes that are left wait for the socket.
    Done,
    /// Links have room again and are in the list, deliveries were settled by being written, or the
    /// connection is to be failed.
    TaskNeeded,
}

impl Writer {
    pub(super) fn new(to_peer: Option<SocketWriter>, outbox: Arc<dyn TaskOutbox>) -> Arc<Self> {
        Arc::new_cyclic(|writer| Self {
            to_peer,
            outbox,
            batch: Mutex::default(),
            task: Mutex::default(),
            inline_waker: Waker::from(Arc::new(InlineWaker(Weak::clone(writer)))),
            found_batch_taken: AtomicBool::new(false),
            has_written: AtomicBool::new(false),
            has_written_inline: AtomicBool::new(false),
            n_writes_to_read: AtomicU32::new(0),
            stats: OnceLock::new(),
        })
    }

    /// The socket's half, for another writer; none if a thread is just writing.
    pub(super) fn into_socket(self: Arc<Self>) -> Option<SocketWriter> {
        Arc::into_inner(self)?.to_peer.take()
    }

    fn socket(&self) -> &SocketWriter {
        self.to_peer.as_ref().expect("a writer is not dropped while it is used")
    }

    /// Bytes written are counted here from now on.
    pub(super) fn count(&self, stats: Arc<broker::Connection>) {
        self.stats.get_or_init(|| stats);
    }

    /// Whether there is something to write, or room to write what there is.
    pub(super) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.leave_waker(cx.waker());
        let taken = self.try_batch().or_else(|| {
            self.found_batch_taken.store(true, Ordering::Relaxed);
            // Either it is given back by now, or whoever gives it back sees the mark.
            fence(Ordering::SeqCst);
            self.try_batch()
        });
        let Some(mut batch) = taken else { return Poll::Pending };
        if batch.is_written() {
            self.outbox.poll_take(&mut Context::from_waker(&self.inline_waker), &mut batch)
        } else if batch.is_watched && self.outbox.has_settled() {
            Poll::Ready(())
        } else if let Some((file, from)) = batch.file()
            && file.poll_at_hand(from, cx.waker()).is_pending()
        {
            Poll::Pending
        } else {
            self.socket().poll_room(cx)
        }
    }

    /// Writes what can be written without waiting: one batch at a time, until there is something
    /// for the broker to hear. Links to be resumed are appended to `resume`.
    pub(super) fn flush(
        &self,
        n_batches_max: usize,
        resume: &mut Vec<LinkId>,
    ) -> Result<Flushed, Disconnect> {
        let Some(mut batch) = self.try_batch() else { return Ok(Flushed::Done) };
        for _ in 0..n_batches_max {
            let wrote = self.write(&mut batch).map_err(Disconnect::Io)?;
            let has_settled = batch.is_watched && self.outbox.has_settled();
            if wrote == Wrote::Some {
                return Ok(if has_settled { Flushed::TaskNeeded } else { Flushed::Done });
            }
            if let Some(close_mode) = batch.close_mode {
                return Err(Disconnect::Closed(close_mode));
            }
            if has_settled || batch.has_refusal() || !batch.resume().is_empty() {
                resume.append(batch.resume());
                return Ok(Flushed::TaskNeeded);
            }
            if !self.outbox.try_take(&mut batch) {
                return Ok(Flushed::Done);
            }
        }
        Ok(Flushed::Done)
    }

    /// The error with which the connection is to be failed.
    pub(super) fn take_refusal(&self) -> Option<Box<Error>> {
        self.try_batch()?.take_refusal()
    }

    /// Whether the socket takes less than there is.
    pub(super) fn is_behind(&self) -> bool {
        self.try_batch().is_some_and(|batch| !batch.is_written())
    }

    /// Whether anything was written since it was forgotten.
    pub(super) fn has_written(&self) -> bool {
        self.has_written.load(Ordering::Relaxed)
    }

    /// Forgets it, and tells whether there was any. The first thing written after this wakes the
    /// task, so that it knows when to look again whether the connection is idle.
    pub(super) fn forget_written(&self) -> bool {
        self.has_written.swap(false, Ordering::Relaxed)
    }

    /// Whether the client was sent something by another's doing since this was asked last.
    pub(super) fn take_written_inline(&self) -> bool {
        // Read first: most are never woken.
        self.has_written_inline.load(Ordering::Relaxed)
            && self.has_written_inline.swap(false, Ordering::Relaxed)
    }

    /// Wakes the task after `n_writes` writes by other threads; never for 0.
    pub(super) fn wake_to_read_after(&self, n_writes: u32) {
        let n = if n_writes == 0 { 0 } else { n_writes + 1 };
        if n != 0 || self.n_writes_to_read.load(Ordering::Relaxed) != 0 {
            self.n_writes_to_read.store(n, Ordering::Relaxed);
        }
    }

    /// Whether as many writes were made as [`Self::wake_to_read_after`] says; once.
    pub(super) fn take_read_due(&self) -> bool {
        let is_due = self.n_writes_to_read.load(Ordering::Relaxed) == 1;
        if is_due {
            self.n_writes_to_read.store(0, Ordering::Relaxed);
        }
        is_due
    }

    /// Counts a write by another thread: true when the task is to read.
    fn count_to_read(&self) -> bool {
        let n = self.n_writes_to_read.load(Ordering::Relaxed);
        if n > 1 {
            self.n_writes_to_read.store(n - 1, Ordering::Relaxed);
        }
        n == 2
    }

    /// Gives back memory: the connection has nothing to do.
    pub(super) fn trim(&self) {
        if let Some(mut batch) = self.try_batch() {
            batch.trim();
        }
    }

    /// Something was put into the outbox while the task slept.
    fn write_inline(&self) {
        let mut task_is_needed = !may_write_here() || self.write_now();
        fence(Ordering::SeqCst);
        task_is_needed |= self.found_batch_taken.swap(false, Ordering::Relaxed);
        if task_is_needed && let Some(task) = &*stdx::lock(&self.task) {
            task.wake_by_ref();
        }
    }

    /// Writes in the task's stead; true when the task is needed.
    fn write_now(&self) -> bool {
        if self.outbox.n_pending() > INLINE_BYTES_MAX {
            return true;
        }
        let Some(mut batch) = self.try_batch() else { return true };
        self.has_written_inline.store(true, Ordering::Relaxed);
        let mut is_first = false;
        for _ in 0..N_INLINE_BATCHES_MAX {
            if !batch.is_written() {
                return true;
            }
            let is_idle = !self.has_written();
            let mut cx = Context::from_waker(&self.inline_waker);
            if self.outbox.poll_take(&mut cx, &mut batch).is_pending() {
                return is_first;
            }
            let is_done = self.write(&mut batch).is_ok_and(|wrote| wrote == Wrote::All)
                && batch.close_mode.is_none()
                && batch.resume().is_empty()
                && !batch.has_refusal()
                && !batch.is_watched;
            if !is_done {
                return true;
            }
            is_first |= is_idle | self.count_to_read();
        }
        true
    }

    fn write(&self, batch: &mut WriteBatch) -> io::Result<Wrote> {
        stdx::walk::step("write");
        let wrote = self.write_bytes(batch)?;
        if batch.is_watched {
            self.outbox.wrote(batch);
        }
        Ok(wrote)
    }

    fn write_bytes(&self, batch: &mut WriteBatch) -> io::Result<Wrote> {
        while !batch.is_written() {
            let wrote = match batch.file() {
                Some((file, from)) => self.socket().try_send_file(&**file, from),
                None => {
                    let mut slices = [IoSlice::new(&[]); N_SLICES];
                    let n_slices = batch.fill(&mut slices);
                    self.socket().try_write(slices.get(..n_slices).unwrap_or_default())
                }
            };
            match wrote {
                Ok(n) => {
                    batch.advance(n);
                    self.has_written.store(true, Ordering::Relaxed);
                    if let Some(stats) = self.stats.get() {
                        stats.sent.count(n);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Wrote::Some),
                Err(error) => return Err(error),
            }
        }
        Ok(Wrote::All)
    }

    /// The batch, unless somebody is writing it.
    fn try_batch(&self) -> Option<MutexGuard<'_, WriteBatch>> {
        match self.batch.try_lock() {
            Ok(batch) => Some(batch),
            // A batch that a panic left half written is seen by the peer as a broken frame.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn leave_waker(&self, waker: &Waker) {
        let mut task = stdx::lock(&self.task);
        match &mut *task {
            Some(task) => task.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }
}

/// Whether this thread may write in a task's stead: threads of the runtime always, others seldom.
fn may_write_here() -> bool {
    tokio::runtime::Handle::try_current().is_ok()
        || OUTSIDE_WRITES.with(|outside| {
            let mut writes = outside.get();
            let is_admitted = writes.admit(Instant::now());
            outside.set(writes);
            is_admitted
        })
}

#[cfg(test)]
mod tests;
