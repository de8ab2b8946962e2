//! The state that a node's connections with its peers share.

use super::handler::PeerHandler;
use super::refusals::RefusalLog;
use crate::clock::Clock;
use crate::timers::Timers;
use admission::Admission;
use member::Membership;
use peer::PeerCookie;
use socket2::SockRef;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;
use stdx::Now;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

/// The means of connecting with other nodes, the same for both sides.
#[derive(Clone, Debug)]
pub struct PeerTransport {
    /// The secret that the nodes share.
    pub cookie: PeerCookie,
    /// The certificate that this node shows on both sides and the authorities of its peers' ones, which must
    /// be shown (`Verify::Always`); none for connections without TLS.
    pub tls: Option<Arc<tls::Context>>,
    /// The clock of the membership's times.
    pub clock: Clock,
    /// The thread of time-outs.
    pub timers: Timers,
}

/// The state that the connections share.
#[derive(Debug)]
pub(super) struct PeerHub {
    pub(super) membership: Arc<Membership>,
    pub(super) handler: Arc<dyn PeerHandler>,
    pub(super) transport: PeerTransport,
    pub(super) admission: Arc<Admission>,
    /// The runtime of connections with pulses.
    pub(super) pulses: Handle,
    /// Tells that an attempt to connect may be due sooner than was known.
    pub(super) dial_now: Arc<Notify>,
    /// Tells the thread of pulses that peers are to be judged sooner than was known.
    pub(super) judge_now: Notify,
    pub(super) refusals: RefusalLog,
    pub(super) stopping: watch::Sender<bool>,
    /// The number of sockets.
    pub(super) n_tasks: watch::Sender<usize>,
}

impl PeerHub {
    pub(super) fn new(
        membership: Arc<Membership>,
        handler: Arc<dyn PeerHandler>,
        transport: PeerTransport,
        admission: Arc<Admission>,
        pulses: Handle,
    ) -> Self {
        Self {
            membership,
            handler,
            transport,
            admission,
            pulses,
            dial_now: Arc::default(),
            judge_now: Notify::new(),
            refusals: RefusalLog::default(),
            stopping: watch::Sender::new(false),
            n_tasks: watch::Sender::new(0),
        }
    }

    pub(super) fn now(&self) -> Now {
        self.transport.clock.now()
    }

    /// Resolves when the service stops.
    pub(super) async fn stopped(&self) {
        let _is_stopping = self.stopping.subscribe().wait_for(|stopping| *stopping).await.is_ok();
    }

    /// Counts a socket until the value is dropped.
    pub(super) fn count_task(self: &Arc<Self>) -> PeerTask {
        self.n_tasks.send_modify(|n| *n += 1);
        PeerTask(Arc::clone(self))
    }
}

/// A socket that is counted.
pub(super) struct PeerTask(Arc<PeerHub>);

impl Drop for PeerTask {
    fn drop(&mut self) {
        self.0.n_tasks.send_modify(|n| *n -= 1);
    }
}

/// Sets up a socket of either side.
pub(super) fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    SockRef::from(socket).set_keepalive(true)
}

/// A random number that no peer can guess.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one("peer")
}

/// A random number for a hello.
pub(super) fn nonce() -> u128 {
    u128::from(random()) << 64 | u128::from(random())
}
