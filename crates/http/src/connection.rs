//! Connections of the HTTP API: accepted, limited, with TLS where it is wanted.

use crate::slow::Impatient;
use axum::Router;
use axum::extract::connect_info::Connected;
use axum::http::Uri;
use axum::serve::IncomingStream;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use mgmt::Operator;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tls::{Failure, Hello, Reason};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, rustls};

/// Time that a client has to agree on keys, to send the head of a request, and to send its body.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest head of a request, bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Connections at a time.
const CONNECTIONS_MAX: usize = 20_000;
/// A pause after the system refused to accept a connection: it is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that is listened on.
#[derive(Debug)]
pub struct Listener {
    /// Itself.
    pub socket: TcpListener,
    /// Certificates, if it wants TLS.
    pub tls: Option<Arc<tls::Context>>,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) is_encrypted: bool,
}

/// An operator at the other end of a connection to the control socket.
#[derive(Clone)]
pub(crate) struct Local(pub(crate) Operator);

impl Connected<IncomingStream<'_, UnixListener>> for Local {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        let peer = stream.io().peer_cred().ok();
        Self(Operator::Local(peer.map(|peer| peer.uid()), peer.and_then(|peer| peer.pid())))
    }
}

/// Accepts connections to all of them for ever.
pub(crate) async fn accept(listeners: Vec<Listener>, router: Router) {
    let router = TowerToHyperService::new(router);
    let turns = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accept = |listener| accept_of(listener, router.clone(), Arc::clone(&turns));
    listeners.into_iter().map(accept).collect::<JoinSet<()>>().join_all().await;
}

async fn accept_of(
    Listener { socket: listener, tls }: Listener,
    router: TowerToHyperService<Router>,
    turns: Arc<Semaphore>,
) {
    loop {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, address)) => {
                let (router, tls) = (router.clone(), tls.clone());
                tokio::spawn(async move {
                    serve_one((socket, address), tls, router).await;
                    drop(turn);
                });
            }
            Err(error) => {
                tracing::warn!("the HTTP listener cannot accept: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_one(
    (socket, address): (TcpStream, SocketAddr),
    tls: Option<Arc<tls::Context>>,
    router: TowerToHyperService<Router>,
) {
    let _late = socket.set_nodelay(true);
    let peer = Peer { address, is_encrypted: tls.is_some() };
    match tls {
        None => answer(socket, peer, router).await,
        Some(tls) => match agree(socket, &tls).await {
            Ok(None) => {}
            Ok(Some(socket)) => answer(socket, peer, router).await,
            Err(Failure { reason, text }) => {
                tls.count(reason);
                tracing::debug!("TLS handshake of {address} failed: {text}");
            }
        },
    }
}

/// Agrees on keys; `None` if the client goes away without a word.
async fn agree(
    socket: TcpStream,
    tls: &tls::Context,
) -> Result<Option<TlsStream<TcpStream>>, Failure> {
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.current().config));
    let mut first = [0; Hello::BYTES];
    let agreed = timeout(REQUEST_TIMEOUT, async {
        if socket.peek(&mut first).await? == 0 {
            return Ok(None);
        }
        acceptor.accept(socket).await.map(Some)
    });
    match agreed.await {
        Ok(agreed) => agreed.map_err(|error| explain(&error, Hello::new(&first))),
        Err(_) => Err(Failure::new(Reason::TooSlow, "it takes too long")),
    }
}

fn explain(error: &io::Error, hello: Hello) -> Failure {
    match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(error) => Failure::explain(error, hello),
        None => Failure::new(Reason::Lost, &error.to_string()),
    }
}

async fn answer<S>(socket: S, peer: Peer, router: TowerToHyperService<Router>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        trim_slash(request.uri_mut());
        router.call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Impatient::new(socket)), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("a connection of the HTTP API ends: {error}");
    }
}

/// Takes off the slash at the end of an address: it means nothing.
fn trim_slash(uri: &mut Uri) {
    let path = uri.path();
    let trimmed = path.trim_end_matches('/');
    if trimmed.len() == path.len() || trimmed.is_empty() {
        return;
    }
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    if let Ok(shorter) = format!("{trimmed}{query}").parse() {
        *uri = shorter;
    }
}
