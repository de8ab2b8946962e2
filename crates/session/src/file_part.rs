//! Bytes of a file on their way to a client, which no process needs to see.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Bytes of an open file that never change. Whoever holds it holds the file, also one without a name.
pub trait FileBytes: Debug + Send + Sync {
    /// How many.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file, and where in it they begin; none where the system knows no such file.
    fn descriptor(&self) -> Option<(BorrowedFd<'_>, u64)>;

    /// Reads from the byte `from` on; fewer than there is room for only at the end.
    ///
    /// # Errors
    /// The disk's.
    fn read_at(&self, from: usize, into: &mut [u8]) -> io::Result<usize>;

    /// How many from the byte `from` on can be sent at once without waiting for the device.
    fn n_at_hand(&self, from: usize) -> usize;

    /// Ready if there are some at hand; otherwise they are fetched, and `waker` is woken then.
    fn poll_at_hand(&self, from: usize, waker: &Waker) -> Poll<()>;
}

/// Bytes of a file, shared with whoever sends them.
pub type FilePart = Arc<dyn FileBytes>;
