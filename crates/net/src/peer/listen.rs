//! The listener on the distribution port.

use super::carry;
use super::handshake::{PeerConnectError, shake_hands};
use super::hub::{PeerHub, nonce, prepare};
use super::refusals::RefusalSource;
use super::socket::{PeerSocket, PeerTunnel};
use crate::socket;
use admission::{Place, Places};
use peer::{
    ConnectionKind, HANDSHAKE_MS, HandshakeRole, PeerEstablished, PeerHandshake, PeerHello,
    PeerRefusal, PeerRefusalReason,
};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tls::Certificate;
use tokio::net::{TcpListener, TcpStream};

/// Connections whose handshake is under way; a new one takes the place of another one, of its own network if
/// that has most of them.
const HANDSHAKES_MAX: u64 = 256;
/// A pause after the system refused to accept a connection: it is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the service stops.
pub(super) async fn accept(hub: Arc<PeerHub>, listener: TcpListener) {
    let strangers = Places::new(HANDSHAKES_MAX);
    let mut is_out_of_something = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = hub.stopped() => return,
        };
        match accepted {
            Ok((socket, peer)) => {
                is_out_of_something = false;
                if hub.admission.descriptors.admits(&socket) {
                    let place = strangers.take(auth::network(peer.ip()));
                    tokio::spawn(greet(Arc::clone(&hub), socket, peer, place));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if !std::mem::replace(&mut is_out_of_something, true) {
                    tracing::warn!("cannot accept connections of other nodes: {error}");
                }
                hub.transport.timers.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Shakes hands with whoever has connected, and hands the connection on.
async fn greet(hub: Arc<PeerHub>, socket: TcpStream, peer: SocketAddr, place: Place) {
    let _counted = hub.count_task();
    let (displaced, at_most) = (place.lost(), Duration::from_millis(HANDSHAKE_MS));
    let greeting = Box::pin(welcome(&hub, socket, peer, &place));
    let greeting = hub.transport.timers.timeout(at_most, greeting);
    let outcome = tokio::select! {
        outcome = greeting => outcome.unwrap_or(Err(PeerConnectError::TimedOut)),
        () = displaced.notified() => Err(PeerConnectError::TimedOut),
        () = hub.stopped() => return,
    };
    drop(place);
    let source = RefusalSource::Accepted(peer.ip());
    let admitted = outcome.and_then(|(established, socket)| {
        if established.peer.kind == ConnectionKind::Ctl {
            hub.handler.tunnel(established.peer, PeerTunnel(socket));
            return Ok(());
        }
        carry::begin(&hub, &established, socket)
    });
    match admitted {
        Ok(()) => hub.refusals.connected(source),
        Err(error) if !error.is_told() => {
            tracing::debug!("no connection with the node at {peer}: {error}");
        }
        Err(error) => {
            let text = error.to_string();
            if hub.refusals.is_told(source, &text, hub.now().monotonic_ms) {
                tracing::warn!("no connection with the node at {peer}: {text}");
            }
        }
    }
}

/// Agrees on keys where that is configured, and shakes hands.
async fn welcome(
    hub: &PeerHub,
    socket: TcpStream,
    peer: SocketAddr,
    place: &Place,
) -> Result<(PeerEstablished, PeerSocket), PeerConnectError> {
    prepare(&socket)?;
    socket.readable().await?;
    place.heard();
    // The kind is the dialler's to say.
    let hello = hub.membership.hello(ConnectionKind::Ctl, nonce());
    let (cookie, now) = (hub.transport.cookie.clone(), hub.now().monotonic_ms);
    let handshake = PeerHandshake::new(HandshakeRole::Acceptor, hello, cookie, now);
    let (halves, certificate) = match &hub.transport.tls {
        None => (socket::plain(socket), None),
        Some(tls) => {
            let (config, network) = (Arc::clone(&tls.current().config), auth::network(peer.ip()));
            let agreed = socket::handshake(socket, config, &hub.admission, network).await;
            let agreed = agreed.map_err(|failure| {
                tls.count(failure.reason);
                PeerConnectError::Encryption(failure.text)
            })?;
            let (socket, agreed) =
                agreed.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            (socket::encrypted(socket), agreed.certificate)
        }
    };
    let mut socket = PeerSocket::new(halves);
    let judge = |hello: &PeerHello| {
        certificate.as_ref().map_or(Ok(()), |shown| check_name(hello, shown))?;
        hub.membership.judge(hello, None)
    };
    let established = shake_hands(&mut socket, handshake, judge).await?;
    Ok((established, socket))
}

/// Checks that a member's certificate is for the host in its name; tools have a user's.
fn check_name(hello: &PeerHello, certificate: &Certificate) -> Result<(), PeerRefusal> {
    let name = &hello.identity.name;
    let host = name.split_once('@').map_or(name.as_str(), |(_, host)| host);
    if hello.kind == ConnectionKind::Ctl || certificate.is_for_host(host) {
        return Ok(());
    }
    let text = format!(
        "the certificate that {name} shows is not for the host {host}: give it one with this name \
         (`cluster.tls.certfile`)"
    );
    Err(PeerRefusal::new(PeerRefusalReason::WrongCertificate, text))
}
