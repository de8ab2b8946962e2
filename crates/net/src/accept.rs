//! Accepting connections.

use crate::connection::{self, Name};
use crate::front::Protocol;
use crate::listener::{ListenAddress, Listener};
use crate::proxy;
use crate::server::Server;
use crate::socket;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// A pause after the system refused to accept a connection: it is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A pause after a port was not free that was listened on before.
const BIND_PAUSE: Duration = Duration::from_secs(1);

impl Server {
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
                    self.begin(socket, peer, listener.protocol());
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
        (address, backlog, protocol): (SocketAddr, u32, Protocol),
        suspended: &mut watch::Receiver<bool>,
    ) -> Listener {
        tracing::info!("nobody can connect to {address} until listeners are resumed");
        loop {
            until(suspended, false).await;
            match Listener::bind(ListenAddress::One(address), backlog, protocol.clone()) {
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

    fn begin(self: &Arc<Self>, mut socket: TcpStream, peer: SocketAddr, protocol: &Protocol) {
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
        let (served, handshake) = (Served::begin(self), self.strangers.handshakes.take());
        let (accepted, protocol) = (self.clock.now(), protocol.clone());
        tokio::spawn(async move {
            let name = if served.0.settings.proxy_protocol {
                let timeout_ms = protocol.handshake_timeout_ms();
                let displaced = handshake.lost();
                let limits = (timeout_ms, displaced);
                Box::pin(proxy::name_of(&mut socket, (peer, local), limits, &served.0)).await
            } else {
                Some(Name::new(peer, local))
            };
            if let Some(name) = name {
                let begun = (name, accepted, protocol.front(local.port(), accepted));
                connection::serve(socket::plain(socket), begun, handshake, &served.0).await;
            }
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
