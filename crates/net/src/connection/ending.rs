//! Closing a socket so that what was written arrives, and so that it is the client that closes it where the
//! protocol says so. Holds a socket and nothing else of its connection.

use crate::handshakes::Handshake;
use crate::server::Server;
use crate::timers::Timers;
use front_amqp091::Ending;
use socket2::SockRef;
use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::sync::Mutex;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::oneshot;

/// Sockets that wait for their clients to close them, at a time. With one more the one that has waited longest
/// is closed: a client that closes its socket at all does so at once.
const LINGERING_MAX: usize = 16 * 1024;
/// A node that stops gives clients no more than this many milliseconds to close their sockets.
const STOPPING_MS: u64 = 1_000;
/// Input that comes too late is dropped, up to this many bytes; more is left unread.
const LATE_BYTES_MAX: usize = 1024 * 1024;
/// ... in pieces of this many bytes.
const SINK_BYTES: usize = 4 * 1024;

/// The sockets that wait for their clients to close them, longest first. Nothing else is left of their
/// connections.
#[derive(Debug)]
pub(crate) struct Lingering {
    max: usize,
    longest_first: Mutex<VecDeque<oneshot::Sender<()>>>,
}

impl Lingering {
    /// None yet, and never more than a quarter of the descriptors there are for connections.
    pub(crate) fn new(descriptors: u64) -> Self {
        let max = usize::try_from(descriptors / 4).unwrap_or(usize::MAX);
        Self { max: max.clamp(1, LINGERING_MAX), longest_first: Mutex::default() }
    }

    /// What is returned resolves when the socket has to go.
    fn enter(&self) -> oneshot::Receiver<()> {
        let (stay, gone) = oneshot::channel();
        let mut lingering = stdx::lock(&self.longest_first);
        while lingering.front().is_some_and(oneshot::Sender::is_closed)
            || lingering.len() >= self.max
        {
            lingering.pop_front();
        }
        lingering.push_back(stay);
        gone
    }

    /// Has all of them closed.
    pub(crate) fn end(&self) {
        stdx::lock(&self.longest_first).clear();
    }
}

/// Has the socket forget what was not sent when it is dropped. Otherwise the system would go on trying to
/// send it, and a client that only writes would not learn that it is disconnected.
pub(super) fn reset(socket: &TcpStream) {
    let _already_closed = socket.set_zero_linger().is_err();
}

/// Closes as `ending` says. Whoever waits for this waits for what must have arrived before the node may end,
/// not for clients that take their time.
pub(super) async fn close(
    socket: OwnedReadHalf,
    ending: Ending,
    handshake: Option<Handshake>,
    server: &Server,
) {
    let patience_ms = match ending {
        Ending::Linger(ms) => ms,
        Ending::Hold(ms) => {
            let gone = server.lingering.enter();
            // Looked at behind that, since whoever stops the node looks at those that linger behind this.
            if !*server.stopping.borrow() {
                tokio::spawn(hold(socket, ms, gone, server.timers.clone(), handshake));
                return;
            }
            ms.min(STOPPING_MS)
        }
    };
    // The peer may have closed first, which is as good.
    let _already_closed = SockRef::from(socket.as_ref()).shutdown(Shutdown::Write).is_err();
    let patience = Duration::from_millis(patience_ms);
    let _in_time = server.timers.timeout(patience, closed_by_peer(&socket)).await.is_ok();
}

/// Keeps a socket until its client closes it, the time is over, or it has to go.
async fn hold(
    socket: OwnedReadHalf,
    ms: u64,
    gone: oneshot::Receiver<()>,
    timers: Timers,
    counts_as: Option<Handshake>,
) {
    let displaced = async {
        match &counts_as {
            Some(handshake) => handshake.displaced().notified().await,
            None => std::future::pending().await,
        }
    };
    let ended = async {
        tokio::select! {
            () = closed_by_peer(&socket) => {}
            () = displaced => {}
            _ = gone => {}
        }
    };
    let _in_time = timers.timeout(Duration::from_millis(ms), ended).await.is_ok();
}

/// Resolves when the peer has closed the socket, or it has failed.
async fn closed_by_peer(socket: &OwnedReadHalf) {
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

/// Not part of the future: it would be larger by the sink.
fn drop_some(socket: &OwnedReadHalf) -> io::Result<usize> {
    socket.try_read(&mut [0; SINK_BYTES])
}

#[cfg(test)]
mod tests {
    use super::{LINGERING_MAX, Lingering};
    use tokio::sync::oneshot::error::TryRecvError::{Closed, Empty};

    #[test]
    fn whoever_lingers_longest_goes_first_and_those_that_are_gone_count_no_longer() {
        let lingering = Lingering::new(u64::MAX);
        let mut stay: Vec<_> = (0..LINGERING_MAX).map(|_| lingering.enter()).collect();
        assert!(stay[0].try_recv().is_err_and(|error| error == Empty));
        let newest = lingering.enter();
        assert!(stay[0].try_recv().is_err_and(|error| error == Closed));
        assert!(stay[1].try_recv().is_err_and(|error| error == Empty));
        stay.clear();
        let mut only = lingering.enter();
        assert_eq!(lingering.longest_first.lock().unwrap().len(), 2);
        drop(newest);
        lingering.end();
        assert!(only.try_recv().is_err_and(|error| error == Closed));
    }
}
