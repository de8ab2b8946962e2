//! Attempts to connect to other nodes.

use super::carry;
use super::handshake::{PeerConnectError, shake_hands};
use super::hub::{PeerHub, PeerTransport, nonce, prepare, random};
use super::refusals::RefusalSource;
use super::socket::{PeerSocket, PeerTunnel};
use crate::socket;
use peer::{
    ConnectionKind, HANDSHAKE_MS, HandshakeRole, PeerAddress, PeerDial, PeerEstablished,
    PeerHandshake, PeerHello, PeerRefusal,
};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use stdx::MonotonicMs;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::spawn_blocking;

/// The time for an attempt that nobody limits: to resolve the address, to connect, and for the handshake.
const TUNNEL_MS: u64 = 2 * HANDSHAKE_MS;

/// Makes the attempts that are due, until the service stops.
pub(super) async fn dial_all(hub: Arc<PeerHub>) {
    let mut dials = Vec::new();
    loop {
        let now = hub.now().monotonic_ms;
        let next = hub.membership.dials(now, &mut dials);
        for dial in dials.drain(..) {
            tokio::spawn(attempt(Arc::clone(&hub), dial));
        }
        let due = async {
            match next {
                MonotonicMs::NEVER => std::future::pending().await,
                next => hub.transport.timers.sleep(Duration::from_millis(next.since(now))).await,
            }
        };
        tokio::select! {
            () = due => {}
            () = hub.dial_now.notified() => {}
            () = hub.stopped() => return,
        }
    }
}

/// Makes one attempt.
async fn attempt(hub: Arc<PeerHub>, dial: PeerDial) {
    let _counted = hub.count_task();
    let hello = hub.membership.hello(dial.kind, nonce());
    let judge = |peer: &PeerHello| hub.membership.judge(peer, Some(dial.node));
    let connecting = Box::pin(hub.transport.connect(&dial.address, hello, dial.deadline, judge));
    let outcome = tokio::select! {
        outcome = connecting => outcome,
        () = hub.stopped() => return,
    };
    let outcome =
        outcome.and_then(|(established, socket)| carry::begin(&hub, &established, socket));
    let source = RefusalSource::Dialled(dial.node);
    let Err(error) = outcome else { return hub.refusals.connected(source) };
    let (text, now) = (error.to_string(), hub.now().monotonic_ms);
    if hub.refusals.is_told(source, &text, now) {
        let PeerAddress { host, port } = &dial.address;
        tracing::warn!("cannot connect to node {} at {host}:{port}: {text}", dial.node.0);
    }
    let reason = error.refusal().map(|refusal| refusal.reason);
    hub.membership.dial_failed(&dial, reason, now, random());
    hub.dial_now.notify_one();
}

fn encryption(error: impl ToString) -> PeerConnectError {
    PeerConnectError::Encryption(error.to_string())
}

impl PeerTransport {
    /// Opens a tunnel to the node at an address, for which `hello` is of the kind `ctl`; returns the node's
    /// hello too.
    ///
    /// # Errors
    /// No connection comes of it, for example because the cookies differ.
    pub async fn open_tunnel(
        &self,
        address: &PeerAddress,
        hello: PeerHello,
    ) -> Result<(PeerHello, PeerTunnel), PeerConnectError> {
        let deadline = self.clock.now().monotonic_ms.plus(TUNNEL_MS);
        let hello = PeerHello { kind: ConnectionKind::Ctl, ..hello };
        let (established, socket) = self.connect(address, hello, deadline, |_| Ok(())).await?;
        Ok((established.peer, PeerTunnel(socket)))
    }

    /// Connects to the node at an address, which is resolved anew.
    async fn connect(
        &self,
        address: &PeerAddress,
        hello: PeerHello,
        deadline: MonotonicMs,
        judge: impl Fn(&PeerHello) -> Result<(), PeerRefusal>,
    ) -> Result<(PeerEstablished, PeerSocket), PeerConnectError> {
        let connecting = async {
            let socket = self.connect_socket(address, deadline).await?;
            prepare(&socket)?;
            let mut socket = PeerSocket::new(match &self.tls {
                None => socket::plain(socket),
                Some(tls) => {
                    let tls = Arc::clone(tls);
                    // The files are read again: certificates are replaced while a node runs.
                    let config = spawn_blocking(move || tls::client_config(tls.options()));
                    let config = config.await.map_err(io::Error::other)?.map_err(encryption)?;
                    let connected = socket::connect(socket, config, &address.host).await;
                    socket::encrypted(connected.map_err(encryption)?.0)
                }
            });
            let (cookie, now) = (self.cookie.clone(), self.clock.now().monotonic_ms);
            let handshake = PeerHandshake::new(HandshakeRole::Dialler, hello, cookie, now);
            let at_most = self.until(handshake.deadline());
            let shaking = shake_hands(&mut socket, handshake, judge);
            let established = self.timers.timeout(at_most, shaking).await;
            Ok((established.unwrap_or(Err(PeerConnectError::TimedOut))?, socket))
        };
        let connected = self.timers.timeout(self.until(deadline), connecting).await;
        connected.unwrap_or(Err(PeerConnectError::TimedOut))
    }

    /// Connects to the first address of a host that answers; each has its part of the time.
    async fn connect_socket(
        &self,
        address: &PeerAddress,
        deadline: MonotonicMs,
    ) -> io::Result<TcpStream> {
        let found = lookup_host((address.host.as_str(), address.port)).await?;
        let found: Vec<_> = found.collect();
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for (address, n_left) in found.iter().zip((1..=found.len()).rev()) {
            let at_most = self.until(deadline) / u32::try_from(n_left).unwrap_or(1);
            match self.timers.timeout(at_most, TcpStream::connect(address)).await {
                Ok(Ok(socket)) => return Ok(socket),
                Ok(Err(error)) => last = error,
                Err(_elapsed) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }

    fn until(&self, deadline: MonotonicMs) -> Duration {
        Duration::from_millis(deadline.since(self.clock.now().monotonic_ms))
    }
}
