//! The number of bytes that make a socket readable (`SO_RCVLOWAT`, socket(7)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The size of the option's value.
const SIZE: libc::socklen_t = 4;

/// Has the socket become readable once so many bytes are there, and not before.
///
/// # Errors
/// The system does not know the option.
pub(super) fn set(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    #[expect(
        unsafe_code,
        reason = "no library has this option; the system reads four bytes of `bytes`"
    )]
    // SAFETY: the descriptor is open as long as it is borrowed, and `bytes` has `SIZE` bytes.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            std::ptr::from_ref(&bytes).cast(),
            SIZE,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
