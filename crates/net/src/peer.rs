//! Connections between the nodes of a cluster: the listener on the distribution port, the dialler, the tasks
//! that carry frames between sockets and links, and the thread of pulses.
//!
//! Connections of kinds `raft` and `work` are tasks of the runtime; those of kind `pulse` are on a thread of
//! their own with nothing else on it, so that no work of the node delays them. A connection ends when its
//! link does, and the other way round: whoever closes the link closes the socket.

mod carry;
mod cookie;
mod dial;
mod handler;
mod handshake;
mod hub;
mod listen;
mod pulses;
mod refusals;
mod socket;

pub use cookie::{COOKIE_FILE, PeerCookieError, load_cookie};
pub use handler::PeerHandler;
pub use handshake::PeerConnectError;
pub use hub::PeerTransport;
pub use socket::PeerTunnel;

use admission::Admission;
use hub::PeerHub;
use member::Membership;
use pulses::PulseThread;
use std::io;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// The settings of a node's connections with its peers.
#[derive(Debug)]
pub struct PeerServiceOptions {
    /// The socket of the distribution port, bound by [`ListenAddress::listen`](crate::ListenAddress::listen);
    /// without one the node dials only.
    pub listener: Option<TcpListener>,
    /// The means of connecting, of both sides.
    pub transport: PeerTransport,
    /// The bounds that all listeners share.
    pub admission: Arc<Admission>,
}

/// A node's connections with its peers, until it is stopped.
#[derive(Debug)]
pub struct PeerService {
    hub: Arc<PeerHub>,
    pulses: PulseThread,
}

impl PeerService {
    /// Listens, dials the members that are this node's to dial, and begins to send pulses. Called within a
    /// runtime, whose tasks the connections are.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        options: PeerServiceOptions,
        membership: Arc<Membership>,
        handler: Arc<dyn PeerHandler>,
    ) -> io::Result<Self> {
        let PeerServiceOptions { listener, transport, admission } = options;
        let runtime = pulses::runtime()?;
        let pulses = runtime.handle().clone();
        let hub = Arc::new(PeerHub::new(membership, handler, transport, admission, pulses));
        let pulses = PulseThread::start(runtime, &hub)?;
        tokio::spawn(dial::dial_all(Arc::clone(&hub)));
        if let Some(listener) = listener {
            tokio::spawn(listen::accept(Arc::clone(&hub), listener));
        }
        Ok(Self { hub, pulses })
    }

    /// Notified by the host when members were added or have other addresses: what is due is dialled at once.
    pub fn members_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.hub.dial_now)
    }

    /// Ends all connections, and waits for their tasks and the thread.
    pub async fn stop(self) {
        self.hub.stopping.send_replace(true);
        let mut n_tasks = self.hub.n_tasks.subscribe();
        let _is_last = n_tasks.wait_for(|n| *n == 0).await.is_ok();
        self.pulses.join().await;
    }
}
