//! Accepting connections.

use crate::connection::{self, Begun, Name};
use crate::front::Arrival;
use crate::listener::{ClosedListener, Listener, Service};
use crate::peer_lines::Kind;
use crate::proxy;
use crate::server::{DISPLACED_REASON, Server};
use crate::socket::{self, SocketReader, SocketWriter};
use admission::Place;
use broker::{PeerCertificate, TlsPeer};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tls::{Agreed, Failure, LoginFrom, Reason};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// A pause after the system refused to accept a connection: it is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A pause after a port was not free that was listened on before.
const BIND_PAUSE: Duration = Duration::from_secs(1);

impl Server {
    /// Accepts connections until the server is told to stop. While `suspended` says so the socket is closed,
    /// and clients that want to connect learn so at once; those that are connected stay.
    pub async fn accept(
        self: Arc<Self>,
        mut listener: Listener,
        mut suspended: watch::Receiver<bool>,
    ) {
        let mut stopping = self.stopping.subscribe();
        let mut is_out_of_something = false;
        loop {
            let accepted = tokio::select! {
                accepted = listener.socket.accept() => Some(accepted),
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
                    self.begin(socket, peer, &listener.service);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if !is_out_of_something {
                        tracing::warn!("cannot accept connections: {error}");
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
        listener: ClosedListener,
        suspended: &mut watch::Receiver<bool>,
    ) -> Listener {
        let address = listener.address;
        tracing::info!("suspended the listener on {address}");
        loop {
            until(suspended, false).await;
            match listener.open() {
                Ok(listener) => {
                    tracing::info!("resumed the listener on {address}");
                    return listener;
                }
                Err(error) => {
                    tracing::warn!("cannot resume the listener on {address}: {error}");
                    self.timers.sleep(BIND_PAUSE).await;
                }
            }
        }
    }

    fn begin(self: &Arc<Self>, mut socket: TcpStream, peer: SocketAddr, service: &Service) {
        if !self.settings.admission.descriptors.admits(&socket) {
            tracing::debug!("refusing the connection from {peer}: out of file descriptors");
            return;
        }
        let prepared = self.settings.apply(&socket);
        let local = match prepared.and_then(|()| socket.local_addr()) {
            Ok(local) => local,
            Err(error) => {
                tracing::debug!("the connection from {peer} was closed by the peer: {error}");
                return;
            }
        };
        let (served, handshake) =
            (Served::begin(self), self.settings.admission.strangers.take(auth::network(peer.ip())));
        let (accepted, Service { protocol, other, tls }) = (self.clock.now(), service.clone());
        tokio::spawn(async move {
            let begun = if served.0.settings.proxy_protocol {
                let timeout_ms = protocol.handshake_timeout_ms();
                let displaced = handshake.lost();
                let limits = (timeout_ms, displaced);
                Box::pin(proxy::name_of(&mut socket, (peer, local), limits, &served.0)).await
            } else {
                Some((Name::new(peer, local), None))
            };
            let Some((name, of_proxy)) = begun else { return };
            let halves = match tls {
                None => {
                    let peer = |agreed| Arc::new(tls_peer(agreed, served.0.settings.cert_login));
                    Some((socket::plain(socket), of_proxy.map(peer)))
                }
                Some(tls) => {
                    let limits = (protocol.handshake_timeout_ms(), &handshake);
                    Box::pin(agree(socket, name, &tls, limits, &served.0)).await
                }
            };
            if let Some((halves, tls)) = halves {
                let cluster_name = served.0.broker.view().meta.global_parameters().cluster_name();
                let (port, has_other) = (local.port(), other.is_some());
                let front = protocol.front(Arrival { port, cluster_name, accepted, has_other });
                let begun = Begun { name, accepted, front, other, tls };
                connection::serve(halves, begun, handshake, &served.0).await;
            }
        });
    }
}

/// Agrees on keys with a client. What fails is told and counted.
async fn agree(
    socket: TcpStream,
    name: Name,
    tls: &tls::Context,
    (timeout_ms, handshake): (u64, &Place),
    server: &Arc<Server>,
) -> Option<((SocketReader, SocketWriter), Option<Arc<TlsPeer>>)> {
    let patience_ms = timeout_ms.min(server.settings.tls_handshake_timeout_ms);
    let config = Arc::clone(&tls.current().config);
    let agreed = async {
        // An error is met again by the handshake.
        let _says_something = socket.readable().await.is_ok();
        handshake.heard();
        let network = auth::network(name.client_ip());
        socket::handshake(socket, config, &server.settings.admission, network).await
    };
    let agreed = server.timers.timeout(Duration::from_millis(patience_ms), agreed);
    let (mut stopping, displaced) = (server.stopping.subscribe(), handshake.lost());
    let agreed = tokio::select! {
        agreed = agreed => agreed.unwrap_or_else(|_| {
            Err(Failure::new(Reason::TooSlow, &format!("not done within {patience_ms} ms")))
        }),
        _ = stopping.wait_for(|stopping| *stopping) => return None,
        () = displaced.notified() => Err(Failure::new(Reason::TooSlow, DISPLACED_REASON)),
    };
    match agreed {
        Ok(None) => None,
        Ok(Some((socket, agreed))) => {
            let peer = tls_peer(agreed, server.settings.cert_login);
            Some((socket::encrypted(socket), Some(Arc::new(peer))))
        }
        Err(Failure { reason, text }) => {
            tls.count(reason);
            if server.is_told((name.client_ip(), Kind::Unencrypted)) {
                tracing::warn!(connection = %name, "TLS handshake failed: {text}");
            }
            None
        }
    }
}

fn tls_peer(agreed: Agreed, cert_login: LoginFrom) -> TlsPeer {
    TlsPeer {
        version: agreed.version,
        key_exchange: agreed.key_exchange,
        cipher: agreed.cipher,
        certificate: agreed.certificate.map(|it| PeerCertificate {
            user: it.login(cert_login).map(str::to_owned),
            subject: it.subject,
            issuer: it.issuer,
            validity: it.validity,
            serial: it.serial,
        }),
    }
}

/// Resolves when listeners are suspended, or not, as is wanted; never when nobody is left to say so.
async fn until(suspended: &mut watch::Receiver<bool>, wanted: bool) {
    if suspended.wait_for(|now| *now == wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Counts a connection until it is dropped.
struct Served(Arc<Server>);

impl Served {
    fn begin(shared: &Arc<Server>) -> Self {
        shared.n_tasks.send_modify(|n| *n += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.n_tasks.send_modify(|n| *n -= 1);
    }
}
