//! Connections of the HTTP API: accepted, limited, with TLS where it is wanted.
//!
//! A client that has not logged in is a stranger: its connection may be displaced by newer ones, as those of
//! other protocols are. What connections have the threads of sockets do goes in turns, a request at a time.

use crate::audit::Operator;
use crate::host;
use crate::settings::Limits;
use crate::slow::{Cut, Flow, Impatient};
use admission::{Admission, Place, Places, in_turns};
use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::Connected;
use axum::http::{Extensions, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::serve::IncomingStream;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tls::{Failure, Hello, Reason};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, rustls};

/// Longest head of a request, and bytes of short answers that wait for each other, bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Connections of a kind whose requests are worked on by the threads that serve sockets at a time, so that
/// other tasks have theirs between: connections that ask for the first time, strangers that ask again, and
/// clients that have logged in.
const REQUEST_TURNS_MAX: usize = 4;
/// A pause after the system refused to accept a connection: it is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A line of the log that anybody can cause, as often as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerLine {
    /// A handshake of TLS has failed.
    Handshake,
    /// A login was refused.
    Login,
    /// A request that nobody has logged in for was answered, and requests are logged.
    Access,
}

/// Says whether the log is told of that client.
pub type IsTold = Arc<dyn Fn(IpAddr, PeerLine) -> bool + Send + Sync>;

/// Sockets that are listened on, and who is let in.
pub struct Entrance {
    /// The sockets.
    pub listeners: Vec<Listener>,
    /// Decides whether a line of the log that a client has caused is written.
    pub is_told: IsTold,
    /// The bounds of all listeners of the node.
    pub admission: Arc<Admission>,
}

stdx::debug_of!(|it: Entrance| listeners = it.listeners);

/// A socket that is listened on.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: TcpListener,
    /// Certificates, if the listener wants TLS.
    pub tls: Option<Arc<tls::Context>>,
    /// Limits of the listener's connections.
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

/// The parts that all connections of the listeners of a kind share.
struct Shared {
    router: TowerToHyperService<Router>,
    is_told: IsTold,
    admission: Arc<Admission>,
    /// Turns of connections that ask for the first time, of strangers that ask again, of others.
    turns: [Semaphore; 3],
}

impl Shared {
    fn new(router: Router, is_told: IsTold, admission: Arc<Admission>) -> Arc<Self> {
        let turns = [(); 3].map(|()| Semaphore::new(REQUEST_TURNS_MAX));
        Arc::new(Self { router: TowerToHyperService::new(router), is_told, admission, turns })
    }
}

/// A connection, as its requests know it.
pub(crate) struct Guest {
    /// The connection's places among strangers, of the node and of its listener, until somebody has logged
    /// in.
    places: Mutex<Option<[Place; 2]>>,
    n_requests: AtomicU64,
    flow: Arc<Flow>,
}

impl Guest {
    pub(crate) fn new(places: Option<[Place; 2]>) -> Arc<Self> {
        Arc::new(Self {
            places: Mutex::new(places),
            n_requests: AtomicU64::new(0),
            flow: Arc::default(),
        })
    }

    /// Notes that somebody has logged in: the connection is no stranger's any more.
    fn log_in(&self) {
        stdx::lock(&self.places).take();
    }

    /// Notes a login on the connection that a request came by, if it came by any.
    pub(crate) fn log_in_by(extensions: &Extensions) {
        let guest = extensions.get::<Arc<Self>>();
        guest.inspect(|guest| guest.log_in());
    }

    fn each_place(&self, tell: fn(&Place)) {
        stdx::lock(&self.places).iter().flatten().for_each(tell);
    }

    fn turns<'s>(&self, Shared { turns: [first, again, known], .. }: &'s Shared) -> &'s Semaphore {
        let is_stranger = stdx::lock(&self.places).is_some();
        match self.n_requests.load(Ordering::Relaxed) {
            _ if !is_stranger => known,
            0 | 1 => first,
            _ => again,
        }
    }
}

/// Accepts connections to all listeners for ever.
pub(crate) async fn accept(entrance: Entrance, router: Router) {
    let Entrance { listeners, is_told, admission } = entrance;
    let shared = Shared::new(router, is_told, admission);
    let accept = |listener| accept_of(listener, Arc::clone(&shared));
    listeners.into_iter().map(accept).collect::<JoinSet<()>>().join_all().await;
}

async fn accept_of(Listener { socket: listener, tls, limits }: Listener, shared: Arc<Shared>) {
    let connections = Arc::new(Semaphore::new(limits.connections_max));
    let strangers = Places::new(u64::MAX);
    let mut is_out_of_something = false;
    loop {
        let (socket, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                if !std::mem::replace(&mut is_out_of_something, true) {
                    tracing::warn!("the HTTP listener cannot accept connections: {error}");
                }
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        is_out_of_something = false;
        if !shared.admission.descriptors.admits(&socket) {
            tracing::debug!("refusing the connection from {address}: out of file descriptors");
            continue;
        }
        let connection = match Arc::clone(&connections).try_acquire_owned() {
            Ok(connection) => connection,
            Err(_) => {
                strangers.displace();
                let Ok(freed) = Arc::clone(&connections).acquire_owned().await else { return };
                freed
            }
        };
        let network = auth::network(address.ip());
        let places = [&shared.admission.strangers, &strangers].map(|all| all.take(network));
        let guest = Guest::new(Some(places));
        let peer = Peer { address, is_encrypted: tls.is_some(), limits };
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        tokio::spawn(async move {
            serve_one(socket, peer, tls, guest, &shared).await;
            drop(connection);
        });
    }
}

/// Serves a connection until it ends, or has lost its place among strangers.
async fn serve_one(
    socket: TcpStream,
    peer: Peer,
    tls: Option<Arc<tls::Context>>,
    guest: Arc<Guest>,
    shared: &Shared,
) {
    let lost = stdx::lock(&guest.places).as_ref().map(|places| places.each_ref().map(Place::lost));
    let Some([of_node, of_listener]) = lost else { return };
    let _late = socket.set_nodelay(true);
    let serving = async {
        let (limits, flow) = (peer.limits, Arc::clone(&guest.flow));
        let heard = |socket| Impatient::new(socket, limits.idle_timeout(), flow);
        match tls {
            None => answer(heard(socket), peer, guest, shared).await,
            Some(tls) => {
                // An error is met again by the handshake.
                let _says_something = timeout(limits.request_timeout(), socket.readable()).await;
                guest.each_place(Place::heard);
                match agree(socket, heard, &tls, peer, shared).await {
                    Ok(None) => {}
                    Ok(Some(socket)) => answer(socket, peer, guest, shared).await,
                    Err(Failure { reason, text }) => {
                        tls.count(reason);
                        if (shared.is_told)(peer.address.ip(), PeerLine::Handshake) {
                            let client = peer.address;
                            tracing::warn!(%client, "TLS handshake failed: {text}");
                        }
                    }
                }
            }
        }
    };
    tokio::select! {
        () = serving => {}
        () = of_node.notified() => {}
        () = of_listener.notified() => {}
    }
}

/// Makes the TLS handshake; `None` if the client goes away without a word.
async fn agree(
    socket: TcpStream,
    heard: impl FnOnce(TcpStream) -> Impatient,
    tls: &tls::Context,
    peer: Peer,
    shared: &Shared,
) -> Result<Option<TlsStream<Impatient>>, Failure> {
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.current().config));
    let mut first = [0; Hello::BYTES];
    let agreed = timeout(peer.limits.request_timeout(), async {
        if socket.peek(&mut first).await? == 0 {
            return Ok(None);
        }
        let turn = || shared.admission.tls_turn(auth::network(peer.address.ip()));
        in_turns(acceptor.accept(heard(socket)), turn).await.map(Some)
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

async fn answer<S>(socket: S, peer: Peer, guest: Arc<Guest>, shared: &Shared)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = peer.limits;
    let service = service_fn(|mut request: Request<Incoming>| {
        let guest = Arc::clone(&guest);
        guest.each_place(Place::heard);
        let is_last = guest.n_requests.fetch_add(1, Ordering::Relaxed) + 1 >= limits.requests_max;
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(Arc::clone(&guest));
        trim_slash(request.uri_mut());
        if !limits.compresses {
            request.headers_mut().remove(header::ACCEPT_ENCODING);
        }
        async move {
            // A client that sends many requests at once gets each answer in a turn, and no more than it
            // reads.
            yield_now().await;
            guest.flow.room().await;
            let has_host = host::is_clear(&request);
            let mut response = match has_host {
                true => shared.router.call(request).await?,
                false => StatusCode::BAD_REQUEST.into_response(),
            };
            let cut = response.extensions_mut().remove::<Cut>();
            guest.flow.set_lost(cut.map(|Cut(lost)| Box::pin(lost.notified_owned())));
            if is_last || !has_host {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            if response.body().size_hint().exact().is_some() {
                guest.each_place(Place::idle);
            }
            Ok::<Response<Body>, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request_timeout())
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(socket), service);
    if let Err(error) = in_turns(served, || guest.turns(shared).acquire()).await {
        tracing::debug!("an HTTP API connection failed: {error}");
    }
}

/// Serves a stranger's connection that has no socket.
pub(crate) async fn serve_stream<S>(
    stream: S,
    limits: Limits,
    router: Router,
    admission: Arc<Admission>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let guest = Guest::new(Some([(); 2].map(|()| admission.strangers.take(address.ip()))));
    let shared = Shared::new(router, Arc::new(|_, _| true), admission);
    answer(stream, Peer { address, is_encrypted: false, limits }, guest, &shared).await;
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
