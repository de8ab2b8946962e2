//! The state that all connections share, and the end of them all.

use crate::activity::ClientActivity;
use crate::clock::Clock;
use crate::peer_lines::{PeerLines, Source, Verdict};
use crate::read_clock::ReadClock;
use crate::timers::Timers;
use admission::{Admission, Places};
use auth::{Authenticator, LoginThrottle};
use broker::Broker;
use socket2::SockRef;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tls::LoginFrom;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Sockets that wait for their clients to close them, at a time, and never more than a quarter of those
/// descriptors: a client that closes its socket at all does so at once.
const LINGERING_MAX: u64 = 16 * 1024;

/// The operator's settings of sockets.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Whether small writes are sent at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Whether the system looks after idle connections (`SO_KEEPALIVE`).
    pub keepalive: bool,
    /// Whether connections come through a proxy, and begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// The time a client has to agree on keys, where it connects over TLS.
    pub tls_handshake_timeout_ms: u64,
    /// The part of a client's certificate that is its user's name.
    pub cert_login: LoginFrom,
    /// Bytes the system may hold on the way out, instead of what it chooses (`SO_SNDBUF`).
    pub send_buffer_bytes: Option<usize>,
    /// Bytes the system may hold on the way in, instead of what it chooses (`SO_RCVBUF`).
    pub receive_buffer_bytes: Option<usize>,
    /// Connections at a time; `None` is no limit.
    pub max_connections: Option<u64>,
    /// The bounds that it shares with listeners of other protocols.
    pub admission: Arc<Admission>,
}

/// The state that all connections share.
#[derive(Debug)]
pub struct Server {
    pub(crate) broker: Arc<Broker>,
    pub(crate) auth: Authenticator,
    pub(crate) strangers: Strangers,
    pub(crate) settings: ServerSettings,
    pub(crate) clock: Clock,
    pub(crate) timers: Timers,
    pub(crate) read_clock: Arc<ReadClock>,
    pub(crate) activity: ClientActivity,
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) n_tasks: watch::Sender<usize>,
    pub(crate) lingering: Arc<Places>,
}

/// The peers that have not logged in.
#[derive(Debug)]
pub(crate) struct Strangers {
    pub(crate) throttle: Arc<LoginThrottle>,
    pub(crate) lines: PeerLines,
}

impl ServerSettings {
    /// Sets up a socket that was accepted.
    pub(crate) fn apply(&self, socket: &TcpStream) -> io::Result<()> {
        socket.set_nodelay(self.nodelay)?;
        let options = SockRef::from(socket);
        if self.keepalive {
            options.set_keepalive(true)?;
        }
        if let Some(bytes) = self.send_buffer_bytes {
            options.set_send_buffer_size(bytes)?;
        }
        self.receive_buffer_bytes.map_or(Ok(()), |bytes| options.set_recv_buffer_size(bytes))
    }
}

impl Server {
    /// The waits of logins that others' failures cause, which other listeners share.
    #[must_use]
    pub fn throttle(&self) -> Arc<LoginThrottle> {
        Arc::clone(&self.strangers.throttle)
    }

    /// The bounds that it shares with other listeners.
    #[must_use]
    pub fn admission(&self) -> Arc<Admission> {
        Arc::clone(&self.settings.admission)
    }

    /// A server that accepts nothing yet.
    #[must_use]
    pub fn new(
        broker: Arc<Broker>,
        auth: Authenticator,
        settings: ServerSettings,
        clock: Clock,
        timers: Timers,
    ) -> Arc<Self> {
        let for_connections = settings.admission.descriptors.below_reserve();
        let strangers = Strangers { throttle: Arc::default(), lines: PeerLines::default() };
        Arc::new(Self {
            broker,
            auth,
            strangers,
            settings,
            clock,
            read_clock: ReadClock::start(&timers),
            timers,
            activity: ClientActivity::default(),
            stopping: watch::Sender::new(false),
            n_tasks: watch::Sender::new(0),
            lingering: Places::new(LINGERING_MAX.min(for_connections / 4)),
        })
    }

    /// Whether the log is told of a peer that has not logged in: anybody can have many such lines, which are
    /// summed up.
    pub fn is_told(self: &Arc<Self>, source: Source) -> bool {
        match self.strangers.lines.note(source, self.clock.now().monotonic_ms) {
            Verdict::Write => true,
            Verdict::LeaveOut => false,
            Verdict::SumUp(source, after_ms) => {
                let server = Arc::clone(self);
                tokio::spawn(async move {
                    let mut stopping = server.stopping.subscribe();
                    let stopped = stopping.wait_for(|stopping| *stopping);
                    let after = Duration::from_millis(after_ms);
                    let _in_time = server.timers.timeout(after, stopped).await.is_ok();
                    server.strangers.lines.sum_up(source);
                });
                false
            }
        }
    }

    /// The number of sockets being served; of those that only wait for their clients to close them, none.
    pub fn n_connections(&self) -> usize {
        *self.n_tasks.borrow()
    }

    /// The number of connections that are left to send more before they are read.
    pub fn n_gathering(&self) -> usize {
        self.read_clock.n_gathering()
    }

    /// Stops accepting, tells every client that the node shuts down, and waits until they are gone
    /// or the time is up.
    pub async fn stop(&self, at_most: Duration) {
        self.stopping.send_replace(true);
        self.lingering.clear();
        for connection in self.broker.connections.list() {
            connection.kick(SHUTDOWN_REASON);
        }
        let mut n_tasks = self.n_tasks.subscribe();
        let ended = n_tasks.wait_for(|n| *n == 0);
        if self.timers.timeout(at_most, ended).await.is_err() {
            tracing::warn!("{} connections did not close in time", self.n_connections());
        }
    }
}

/// The reason for closing a connection without a virtual host when there are too many of its kind.
pub(crate) const DISPLACED_REASON: &str = "newer connections wait for their handshake";

/// COMPAT: RabbitMQ's words to its clients when a node stops.
pub(crate) const SHUTDOWN_REASON: &str = "broker forced connection closure with reason 'shutdown'";
