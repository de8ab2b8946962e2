//! Accepting connections, and ending them all.

use crate::clock::Clock;
use crate::company::Company;
use crate::connection::ending::Lingering;
use crate::connection::{self, Name};
use crate::descriptors::Descriptors;
use crate::handshakes::Handshakes;
use crate::listener::{ListenAddress, Listener};
use crate::peer_lines::PeerLines;
use crate::proxy;
use crate::timers::Timers;
use auth::{Authenticator, LoginThrottle};
use broker::Broker;
use front_amqp091::Settings;
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

/// Sockets that have not opened a virtual host yet, at a time, and never more than half of the descriptors
/// there are for connections.
const HANDSHAKES_MAX: u64 = 16_384;
/// A pause after the system refused to accept a connection: it is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A pause after a port was not free that was listened on before.
const BIND_PAUSE: Duration = Duration::from_secs(1);

/// What the operator decides about sockets.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Whether small writes are sent at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Whether the system looks after idle connections (`SO_KEEPALIVE`).
    pub keepalive: bool,
    /// Whether connections come through a proxy, and begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// Bytes the system may hold on the way out, instead of what it chooses (`SO_SNDBUF`).
    pub send_buffer_bytes: Option<usize>,
    /// Bytes the system may hold on the way in, instead of what it chooses (`SO_RCVBUF`).
    pub receive_buffer_bytes: Option<usize>,
    /// Connections at a time; `None` is no limit.
    pub max_connections: Option<u64>,
    /// The descriptors that connections may have.
    pub descriptors: Arc<Descriptors>,
}

/// What all connections share.
#[derive(Debug)]
pub struct Server {
    pub(crate) broker: Arc<Broker>,
    pub(crate) auth: Authenticator,
    pub(crate) throttle: LoginThrottle,
    pub(crate) peer_lines: PeerLines,
    pub(crate) front: Arc<Settings>,
    pub(crate) settings: ServerSettings,
    pub(crate) clock: Clock,
    pub(crate) timers: Timers,
    pub(crate) company: Company,
    pub(crate) stopping: watch::Sender<bool>,
    handshakes: Arc<Handshakes>,
    n_tasks: AtomicUsize,
    pub(crate) lingering: Lingering,
    all_ended: Notify,
}

impl ServerSettings {
    /// Sets up a socket that was accepted.
    fn apply(&self, socket: &TcpStream) -> io::Result<()> {
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
    /// A server that accepts nothing yet.
    #[must_use]
    pub fn new(
        broker: Arc<Broker>,
        auth: Authenticator,
        front: Settings,
        settings: ServerSettings,
        clock: Clock,
        timers: Timers,
    ) -> Arc<Self> {
        let for_connections = settings.descriptors.below_reserve();
        let handshakes_max = HANDSHAKES_MAX.min(for_connections / 2);
        Arc::new(Self {
            broker,
            auth,
            throttle: LoginThrottle::default(),
            peer_lines: PeerLines::default(),
            front: Arc::new(front),
            settings,
            clock,
            timers,
            company: Company::default(),
            stopping: watch::Sender::new(false),
            handshakes: Handshakes::new(usize::try_from(handshakes_max).unwrap_or(usize::MAX)),
            n_tasks: AtomicUsize::new(0),
            lingering: Lingering::new(for_connections),
            all_ended: Notify::new(),
        })
    }

    /// The number of sockets being served; of those that only wait for their clients to close them, none.
    #[must_use]
    pub fn n_connections(&self) -> usize {
        self.n_tasks.load(Ordering::Relaxed)
    }

    /// Accepts connections until the server is told to stop. While `suspended` says so the socket is
    /// closed, and whoever wants to connect hears it at once; those that are connected stay.
    pub async fn accept(
        self: Arc<Self>,
        mut listener: Listener,
        mut suspended: watch::Receiver<bool>,
    ) {
        let mut stopping = self.stopping.subscribe();
        let mut is_out_of_something = false;
        loop {
            let accepted = tokio::select! {
                accepted = listener.socket().accept() => Some(accepted),
                () = until(&mut suspended, true) => None,
                // An error means that the server is gone, which is no different.
                _ = stopping.wait_for(|stopping| *stopping) => return,
            };
            let Some(accepted) = accepted else {
                listener = tokio::select! {
                    listener = self.resumed(listener.close(), &mut suspended) => listener,
                    _ = stopping.wait_for(|stopping| *stopping) => return,
                };
                continue;
            };
            match accepted {
                Ok((socket, peer)) => {
                    is_out_of_something = false;
                    self.begin(socket, peer);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if !is_out_of_something {
                        tracing::warn!("cannot accept connections for now: {error}");
                    }
                    is_out_of_something = true;
                    self.timers.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Listens again, once that is wanted.
    async fn resumed(
        &self,
        (address, backlog): (SocketAddr, u32),
        suspended: &mut watch::Receiver<bool>,
    ) -> Listener {
        tracing::info!("nobody can connect to {address} until listeners are resumed");
        loop {
            until(suspended, false).await;
            match Listener::bind(ListenAddress::One(address), backlog) {
                Ok(listener) => {
                    tracing::info!("clients can connect to {address} again");
                    return listener;
                }
                Err(error) => {
                    tracing::warn!("cannot listen on {address} again: {error}");
                    self.timers.sleep(BIND_PAUSE).await;
                }
            }
        }
    }

    /// Stops accepting, tells every client that the node shuts down, and waits until they are gone
    /// or the time is up.
    pub async fn stop(&self, at_most: Duration) {
        self.stopping.send_replace(true);
        self.lingering.end();
        for connection in self.broker.connections.list() {
            connection.kick(SHUTDOWN_REASON);
        }
        let ended = async {
            loop {
                let notified = self.all_ended.notified();
                if self.n_connections() == 0 {
                    return;
                }
                notified.await;
            }
        };
        if self.timers.timeout(at_most, ended).await.is_err() {
            tracing::warn!("{} connections did not end in time", self.n_connections());
        }
    }

    fn begin(self: &Arc<Self>, socket: TcpStream, peer: SocketAddr) {
        if !self.settings.descriptors.admits(&socket) {
            tracing::debug!("refusing the connection of {peer}: no file descriptors are left");
            return;
        }
        let prepared = self.settings.apply(&socket);
        let local = match prepared.and_then(|()| socket.local_addr()) {
            Ok(local) => local,
            Err(error) => {
                tracing::debug!("the connection of {peer} is gone already: {error}");
                return;
            }
        };
        let (served, handshake) = (Served::begin(self), self.handshakes.begin());
        if self.settings.proxy_protocol {
            tokio::spawn(async move {
                proxy::serve(socket, (peer, local), handshake, &served.0).await;
                drop(served);
            });
            return;
        }
        let (name, accepted) = (Name::new(peer, local), self.clock.now());
        tokio::spawn(async move {
            connection::serve(socket, name, accepted, handshake, &served.0).await;
            drop(served);
        });
    }
}

/// Resolves when listeners are suspended, or not, as is wanted; never when nobody is left to say so.
async fn until(suspended: &mut watch::Receiver<bool>, wanted: bool) {
    if suspended.wait_for(|now| *now == wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Why a connection ends that has not opened a virtual host when there are too many of its kind.
pub(crate) const DISPLACED_REASON: &str = "newer connections wait for their handshake";

/// COMPAT: RabbitMQ's words to its clients when a node stops.
pub(crate) const SHUTDOWN_REASON: &str = "broker forced connection closure with reason 'shutdown'";

/// Counts a connection until it is dropped.
struct Served(Arc<Server>);

impl Served {
    fn begin(shared: &Arc<Server>) -> Self {
        shared.n_tasks.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(shared))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.0.n_tasks.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.all_ended.notify_waiters();
        }
    }
}
