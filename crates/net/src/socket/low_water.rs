//! The number of bytes that make a socket readable (`SO_RCVLOWAT`, socket(7)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The size of the option's value.
const SIZE: libc::socklen_t = 4;

/// Has the socket become readable once `bytes` are there, and not before; now, if they are there.
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

#[cfg(test)]
mod tests {
    use super::set;
    use rustix::net::{RecvFlags, recv};
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::task::{Context, Waker};
    use std::time::Duration;
    use tokio::net::{TcpListener, TcpStream};

    const PATIENCE: Duration = Duration::from_secs(60);

    async fn wait_for_input(socket: &TcpStream, n: usize) {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        while recv(socket, &mut [0; 100], flags).map_or(0, |(n, _)| n) < n {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_socket_is_readable_at_once_when_what_it_has_becomes_enough() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        // Until something is tried, the runtime takes it for readable.
        assert!(socket.try_read(&mut [0]).is_err());
        set(socket.as_fd(), 100).unwrap();
        peer.write_all(&[7; 10]).unwrap();
        tokio::time::timeout(PATIENCE, wait_for_input(&socket, 10)).await.unwrap();
        assert!(socket.poll_read_ready(&mut Context::from_waker(Waker::noop())).is_pending());
        set(socket.as_fd(), 1).unwrap();
        tokio::time::timeout(PATIENCE, socket.readable()).await.unwrap().unwrap();
        assert_eq!(socket.try_read(&mut [0; 100]).unwrap(), 10);
    }
}
