//! Closing a socket so that what was written arrives, and so that it is the client that closes it where the
//! protocol says so. Holds a socket and nothing else of its connection.

use crate::server::Server;
use crate::socket::SocketReader;
use crate::timers::Timers;
use admission::Place;
use edge::CloseMode;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// The most milliseconds that a node which stops gives clients to close their sockets.
const STOPPING_MS: u64 = 1_000;
/// The most bytes of input that comes too late and is dropped; more is left unread.
const LATE_BYTES_MAX: usize = 1024 * 1024;
/// The bytes of late input that are dropped at a time.
const SINK_BYTES: usize = 4 * 1024;

/// Closes as `close_mode` says. Whoever waits for this waits for what must have arrived before the node may
/// end, not for clients that take their time.
pub(super) async fn close(
    socket: SocketReader,
    close_mode: CloseMode,
    handshake: Option<Place>,
    network: IpAddr,
    server: &Server,
) {
    let patience_ms = match close_mode {
        CloseMode::Linger(ms) => ms,
        CloseMode::Hold(ms) => {
            let place = server.lingering.take(network);
            // Looked at behind that, since whoever stops the node looks at those that linger behind this.
            if !*server.stopping.borrow() {
                tokio::spawn(hold(socket, ms, [Some(place), handshake], server.timers.clone()));
                return;
            }
            ms.min(STOPPING_MS)
        }
    };
    // The peer may have closed first, which is as good.
    let _already_closed = socket.shut_down().is_err();
    let patience = Duration::from_millis(patience_ms);
    let _in_time = server.timers.timeout(patience, closed_by_peer(&socket)).await.is_ok();
}

/// Keeps a socket until its client closes it, the time is over, or it has lost one of its places.
async fn hold(socket: SocketReader, ms: u64, places: [Option<Place>; 2], timers: Timers) {
    let [lost, displaced] = places.each_ref().map(|place| async {
        match place {
            Some(place) => place.lost().notified().await,
            None => std::future::pending().await,
        }
    });
    let ended = async {
        tokio::select! {
            () = closed_by_peer(&socket) => {}
            () = lost => {}
            () = displaced => {}
        }
    };
    let _in_time = timers.timeout(Duration::from_millis(ms), ended).await.is_ok();
}

/// Resolves when the peer has closed the socket, or it has failed.
async fn closed_by_peer(socket: &SocketReader) {
    let mut n_dropped = 0;
    while n_dropped < LATE_BYTES_MAX && socket.readable().await.is_ok() {
        match drop_some(socket) {
            Ok(0) => return,
            Ok(n) => n_dropped += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
    std::future::pending().await
}

/// Drops some input, outside of the future, which would be larger by the sink.
fn drop_some(socket: &SocketReader) -> io::Result<usize> {
    socket.drop_some(&mut [0; SINK_BYTES])
}
