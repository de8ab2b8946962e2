//! Closing a socket so that what was written arrives.

use crate::timers::Timers;
use front_amqp091::Ending;
use socket2::SockRef;
use std::net::Shutdown;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

/// Input that comes too late is dropped in pieces of this many bytes.
const SINK_BYTES: usize = 512;

/// Has the socket forget what was not sent when it is dropped. Otherwise the system would go on trying to
/// send it, and a client that only writes would not learn that it is disconnected.
pub(super) fn reset(socket: &TcpStream) {
    let _already_closed = socket.set_zero_linger().is_err();
}

/// Closes as `ending` says. The socket itself is closed when it is dropped.
pub(super) async fn close(
    socket: &TcpStream,
    from_peer: &mut OwnedReadHalf,
    ending: Ending,
    timers: &Timers,
) {
    let patience = match ending {
        Ending::Linger(ms) => {
            // The peer may have closed first, which is as good.
            let _already_closed = SockRef::from(socket).shutdown(Shutdown::Write).is_err();
            ms
        }
        Ending::Hold(ms) => ms,
    };
    let drain = async {
        let mut sink = [0; SINK_BYTES];
        while from_peer.read(&mut sink).await.is_ok_and(|n| n > 0) {}
    };
    let _closed_in_time = timers.timeout(Duration::from_millis(patience), drain).await.is_ok();
}
