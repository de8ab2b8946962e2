//! Connections of the HTTP API: accepted, limited, answered. What stands in an answer is the routes' matter.

use crate::Api;
use crate::call::Call;
use crate::caller::{Caller, caller};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::routes::{Route, Run, templates};
use crate::scrape;
use crate::slow::Impatient;
use crate::stream;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{ConnectInfo, RawPathParams, Request as AnyRequest, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Extension, Router};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use mgmt::Operator;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;

/// Time that a client has to send the head of a request, and to send its body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of looks at the figures.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Longest head of a request, bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Connections at a time.
const CONNECTIONS_MAX: usize = 20_000;
/// Answers shorter than this are not compressed, bytes.
const COMPRESSED_MIN_BYTES: u64 = 1_024;

/// Serves the HTTP API until `until` resolves.
pub async fn serve(listener: TcpListener, api: Arc<Api>, until: impl Future<Output = ()>) {
    tokio::select! {
        () = accept(listener, router(Arc::clone(&api))) => {}
        () = look_often(&api) => {}
        () = until => {}
    }
}

/// Serves Prometheus until `until` resolves.
pub async fn serve_metrics(listener: TcpListener, api: Arc<Api>, until: impl Future<Output = ()>) {
    let compressed = CompressionLayer::new().compress_when(SizeAbove::new(COMPRESSED_MIN_BYTES));
    tokio::select! {
        () = accept(listener, scrape::router(api).layer(compressed)) => {}
        () = until => {}
    }
}

/// Accepts connections for ever.
async fn accept(listener: TcpListener, router: Router) {
    let router = TowerToHyperService::new(router);
    let turns = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, peer)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    serve_one(socket, peer, router).await;
                    drop(turn);
                });
            }
            Err(error) => {
                tracing::warn!("the HTTP listener cannot accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Has the figures looked at, over and over.
async fn look_often(api: &Arc<Api>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        ticks.tick().await;
        let api = Arc::clone(api);
        let look = move || api.stats.look(&api.management.broker, api.now());
        let _ended = tokio::task::spawn_blocking(look).await;
    }
}

async fn serve_one(socket: TcpStream, peer: SocketAddr, router: TowerToHyperService<Router>) {
    let _late = socket.set_nodelay(true);
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

pub(crate) fn router(api: Arc<Api>) -> Router {
    let mut router = Router::new();
    for routes in templates() {
        let template = format!("/api{}", routes.first().map_or("", |route| route.template));
        let answer = move |State(api): State<Arc<Api>>,
                           Extension(peer): Extension<SocketAddr>,
                           params: Result<RawPathParams, RawPathParamsRejection>,
                           request: AnyRequest| async move {
            match params {
                Ok(params) => respond(api, &routes, (peer, params), request).await,
                Err(rejection) => refused(&Refusal::bad_request(rejection.to_string())),
            }
        };
        router = router.route(&template, any(answer));
    }
    let compressed = CompressionLayer::new().compress_when(SizeAbove::new(COMPRESSED_MIN_BYTES));
    let not_found = || async { refused(&Refusal::not_found()) };
    router.fallback(not_found).with_state(api).layer(compressed)
}

/// Answers a request to one of the templates.
async fn respond(
    api: Arc<Api>,
    routes: &[&'static Route],
    (peer, params): (SocketAddr, RawPathParams),
    request: AnyRequest,
) -> Response {
    let allowed = allowed(routes);
    let method = match *request.method() {
        Method::HEAD => Method::GET,
        ref other => other.clone(),
    };
    let route = routes.iter().find(|route| route.method == method);
    let answered = match route {
        Some(route) => answer(api, route, (peer, params), request).await,
        None if method == Method::OPTIONS => Ok(StatusCode::OK.into_response()),
        None => Ok(StatusCode::METHOD_NOT_ALLOWED.into_response()),
    };
    let mut response = answered.unwrap_or_else(|refusal| refused(&refusal));
    let headers = response.headers_mut();
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        headers.insert(header::ALLOW, allowed);
    }
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-cache"),
    (header::CONTENT_SECURITY_POLICY, "script-src 'self'; object-src 'self'"),
    (header::VARY, "accept, accept-encoding, origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

fn allowed(routes: &[&Route]) -> String {
    let has_get = routes.iter().any(|route| route.method == Method::GET);
    let methods = routes.iter().map(|route| route.method.as_str());
    let methods = has_get.then_some("HEAD").into_iter().chain(methods).chain(["OPTIONS"]);
    methods.collect::<Vec<_>>().join(", ")
}

async fn answer(
    api: Arc<Api>,
    route: &'static Route,
    (peer, params): (SocketAddr, RawPathParams),
    request: AnyRequest,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    if head.method != Method::GET && head.method != Method::HEAD {
        check_origin(&head.headers)?;
    }
    let caller = match head.extensions.get() {
        Some(ConnectInfo(operator)) => Caller::operator(Operator::clone(operator), peer.ip()),
        None => caller(&api, &head.headers, peer.ip()).await?,
    };
    let params: Vec<(String, String)> =
        params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let vhost = params.iter().find(|(name, _)| name == "vhost").map_or("", |(_, vhost)| vhost);
    caller.check(route.needs, &api.management.broker.view().meta, vhost)?;
    let body = body_of_request(body, api.limits.body_bytes_max).await?;
    let query = Query::parse(head.uri.query().unwrap_or_default())?;
    let call = Call { api, caller, params, query, headers: head.headers, body };
    match route.run {
        // Whoever asks how the node is waits for nobody.
        Run::Read(read) if route.group == "health" => read(&call).map(stream::whole),
        Run::Read(read) => {
            let api = Arc::clone(&call.api);
            api.turns.answered(call, read).await
        }
        // A client that goes in the middle leaves no session, and nothing half done, behind.
        Run::Change(change) => {
            let changed = tokio::spawn(async move { change(&call).await });
            changed.await.unwrap_or_else(|_| Err(Refusal::internal())).map(stream::whole)
        }
    }
}

/// Refuses changes that a page of another place has its browser ask for, which may know a login.
fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else { return Ok(()) };
    let place = origin.split_once("://").map(|(_, place)| place);
    if place.is_some() && place == text(header::HOST) {
        return Ok(());
    }
    let reason = format!("requests from pages of {origin} are not allowed");
    Err(Refusal::of_status(StatusCode::FORBIDDEN, "forbidden", reason))
}

async fn body_of_request(body: Body, bytes_max: usize) -> Result<Bytes, Refusal> {
    let Ok(read) = tokio::time::timeout(REQUEST_TIMEOUT, to_bytes(body, bytes_max)).await else {
        let text = "the body did not come in time";
        return Err(Refusal::of_status(StatusCode::REQUEST_TIMEOUT, "request_timeout", text));
    };
    read.map_err(|_| {
        let text = format!("the body has more than {bytes_max} bytes");
        Refusal::of_status(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", text)
    })
}

fn refused(refusal: &Refusal) -> Response {
    if refusal.reason.is_empty() {
        let ask = (header::WWW_AUTHENTICATE, "Basic realm=\"RabbitMQ Management\"");
        return (refusal.status, [ask]).into_response();
    }
    let json = [(header::CONTENT_TYPE, "application/json")];
    (refusal.status, json, refusal.to_json().to_string()).into_response()
}
