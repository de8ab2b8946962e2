//! Accepts connections and keeps track of their tasks.

use crate::connection;
use crate::input::Buffers;
use crate::listener::Listener;
use auth::Authenticator;
use broker::Broker;
use front_amqp091::Settings;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stdx::Now;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

/// Pause after the system refused to accept a connection, for example for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The node's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// A clock whose monotonic time starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Now {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { monotonic_ms: millis(self.started.elapsed()), unix_ms: millis(unix) }
    }

    /// The instant of a monotonic time.
    pub(crate) fn instant(&self, monotonic_ms: u64) -> tokio::time::Instant {
        (self.started + Duration::from_millis(monotonic_ms)).into()
    }
}

/// What the operator decides about sockets.
#[derive(Clone, Copy, Debug)]
pub struct ServerSettings {
    /// Whether small writes are sent at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Connections at a time; `None` is no limit.
    pub max_connections: Option<u64>,
}

/// What all connections share.
#[derive(Debug)]
pub struct Server {
    pub(crate) broker: Arc<Broker>,
    pub(crate) auth: Authenticator,
    pub(crate) front: Arc<Settings>,
    pub(crate) settings: ServerSettings,
    pub(crate) clock: Clock,
    pub(crate) buffers: Buffers,
    pub(crate) stopping: watch::Sender<bool>,
    n_open: AtomicU64,
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
    ) -> Arc<Self> {
        Arc::new(Self {
            broker,
            auth,
            front: Arc::new(front),
            settings,
            clock,
            buffers: Buffers::default(),
            stopping: watch::Sender::new(false),
            n_open: AtomicU64::new(0),
        })
    }

    /// Accepts connections until the server is told to stop.
    pub async fn accept(self: Arc<Self>, listener: Listener) {
        let mut stopping = self.stopping.subscribe();
        loop {
            tokio::select! {
                accepted = listener.socket().accept() => match accepted {
                    Ok((stream, peer)) => self.serve(stream, peer),
                    Err(error) => {
                        tracing::warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = told_to_stop(&mut stopping) => return,
            }
        }
    }

    fn serve(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let n_before = self.n_open.fetch_add(1, Ordering::Relaxed);
        let open = Open(Arc::clone(self));
        let over_limit = self.settings.max_connections.is_some_and(|limit| n_before >= limit);
        tokio::spawn(async move {
            connection::run(&open.0, stream, peer, over_limit).await;
            drop(open);
        });
    }

    /// Tells every connection that the node stops, and waits until they are gone or the time is up.
    pub async fn stop(&self, at_most: Duration) {
        self.stopping.send_replace(true);
        let gone = async {
            let permit = Semaphore::new(0);
            while self.n_open.load(Ordering::Acquire) > 0 {
                // Connections end on their own time; there is nothing else to wait on.
                let pause = tokio::time::timeout(Duration::from_millis(2), permit.acquire());
                drop(pause.await);
            }
        };
        if tokio::time::timeout(at_most, gone).await.is_err() {
            let n_left = self.n_open.load(Ordering::Relaxed);
            tracing::warn!("{n_left} connections did not end in time");
        }
    }
}

/// Resolves when the server stops.
pub(crate) async fn told_to_stop(stopping: &mut watch::Receiver<bool>) {
    // The value is borrowed no longer than this; the sender lives as long as the server.
    let _sender_gone = stopping.wait_for(|stopping| *stopping).await.is_err();
}

/// Counts a connection for as long as its task lives.
struct Open(Arc<Server>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.n_open.fetch_sub(1, Ordering::Release);
    }
}
