//! Bytes of a file on their way to a client, which no process needs to see.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Bytes of an open file that never change. Their owner holds the file, also one without a name.
pub trait FileBytes: Debug + Send + Sync {
    /// The number of bytes.
    fn len(&self) -> usize;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file, and the offset in it of the first byte; none where the system knows no such file.
    fn descriptor(&self) -> Option<(BorrowedFd<'_>, u64)>;

    /// Reads from the byte `from` on; fewer than there is room for only at the end.
    ///
    /// # Errors
    /// The disk's.
    fn read_at(&self, from: usize, into: &mut [u8]) -> io::Result<usize>;

    /// The number of bytes from the byte `from` on that can be sent at once without waiting for the device.
    fn n_at_hand(&self, from: usize) -> usize;

    /// Ready if there are bytes at hand; otherwise they are fetched, and `waker` is woken then.
    fn poll_at_hand(&self, from: usize, waker: &Waker) -> Poll<()>;
}

/// Bytes of a file, shared with all that send them.
pub type FilePart = Arc<dyn FileBytes>;
