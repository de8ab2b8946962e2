//! Connections of the HTTP API: accepted, limited, with TLS where it is wanted.

use crate::settings::Limits;
use crate::slow::Impatient;
use axum::Router;
use axum::extract::connect_info::Connected;
use axum::http::{HeaderValue, Uri, header};
use axum::serve::IncomingStream;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use mgmt::Operator;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tls::{Failure, Hello, Reason};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, rustls};

/// Longest head of a request, bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// A pause after the system refused to accept a connection: it is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Says whether the log is told of a failed handshake of that client: anybody can have many.
pub type IsTold = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// A socket that is listened on.
#[derive(Debug)]
pub struct Listener {
    /// Itself.
    pub socket: TcpListener,
    /// Certificates, if it wants TLS.
    pub tls: Option<Arc<tls::Context>>,
    /// Limits of its connections.
    pub limits: Limits,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) is_encrypted: bool,
    pub(crate) limits: Limits,
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
pub(crate) async fn accept((listeners, is_told): (Vec<Listener>, IsTold), router: Router) {
    let router = TowerToHyperService::new(router);
    let accept = |listener| accept_of(listener, router.clone(), Arc::clone(&is_told));
    listeners.into_iter().map(accept).collect::<JoinSet<()>>().join_all().await;
}

async fn accept_of(
    Listener { socket: listener, tls, limits }: Listener,
    router: TowerToHyperService<Router>,
    is_told: IsTold,
) {
    let turns = Arc::new(Semaphore::new(limits.connections_max));
    loop {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, address)) => {
                let (router, tls, is_told) = (router.clone(), tls.clone(), Arc::clone(&is_told));
                let peer = Peer { address, is_encrypted: tls.is_some(), limits };
                tokio::spawn(async move {
                    serve_one((socket, peer), (tls, is_told), router).await;
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
    (socket, peer): (TcpStream, Peer),
    (tls, is_told): (Option<Arc<tls::Context>>, IsTold),
    router: TowerToHyperService<Router>,
) {
    let _late = socket.set_nodelay(true);
    match tls {
        None => answer(socket, peer, router).await,
        Some(tls) => match agree(socket, &tls, peer.limits.request_timeout()).await {
            Ok(None) => {}
            Ok(Some(socket)) => answer(socket, peer, router).await,
            Err(Failure { reason, text }) => {
                tls.count(reason);
                if is_told(peer.address.ip()) {
                    let client = peer.address;
                    tracing::warn!(%client, "TLS handshake failed: {text}");
                }
            }
        },
    }
}

/// Agrees on keys; `None` if the client goes away without a word.
async fn agree(
    socket: TcpStream,
    tls: &tls::Context,
    patience: Duration,
) -> Result<Option<TlsStream<TcpStream>>, Failure> {
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.current().config));
    let mut first = [0; Hello::BYTES];
    let agreed = timeout(patience, async {
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
    let (limits, n_requests) = (peer.limits, AtomicU64::new(0));
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        trim_slash(request.uri_mut());
        if !limits.compresses {
            request.headers_mut().remove(header::ACCEPT_ENCODING);
        }
        let is_last = n_requests.fetch_add(1, Ordering::Relaxed) + 1 >= limits.requests_max;
        let answered = router.call(request);
        async move {
            let mut response = answered.await?;
            if is_last {
                response
                    .headers_mut()
                    .insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request_timeout())
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Impatient::new(socket, limits.idle_timeout())), service)
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
