//! Requests of the HTTP API, answered. What stands in an answer is the routes' matter.

use crate::Api;
use crate::call::Call;
use crate::caller::{Caller, caller};
use crate::connection::{Listener, Peer, REQUEST_TIMEOUT, accept};
use crate::login;
use crate::negotiation;
use crate::origins;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::routes::{Route, Run, templates};
use crate::scrape;
use crate::stream;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{ConnectInfo, RawPathParams, Request as AnyRequest, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Extension, Router};
use mgmt::Operator;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;

/// Interval of looks at the figures.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Time after which a request may be tried again that was one too many, seconds.
const RETRY_AFTER_S: &str = "5";
/// Answers shorter than this are not compressed, bytes.
const COMPRESSED_MIN_BYTES: u64 = 1_024;

/// Serves the HTTP API until `until` resolves.
pub async fn serve(listeners: Vec<Listener>, api: Arc<Api>, until: impl Future<Output = ()>) {
    tokio::select! {
        () = accept(listeners, router(Arc::clone(&api), &api.settings.path_prefix)) => {}
        () = look_often(&api) => {}
        () = until => {}
    }
}

/// Serves Prometheus until `until` resolves.
pub async fn serve_metrics(
    listeners: Vec<Listener>,
    api: Arc<Api>,
    until: impl Future<Output = ()>,
) {
    let compressed = CompressionLayer::new().compress_when(SizeAbove::new(COMPRESSED_MIN_BYTES));
    tokio::select! {
        () = accept(listeners, scrape::router(api).layer(compressed)) => {}
        () = until => {}
    }
}

/// Has the figures looked at, over and over.
async fn look_often(api: &Arc<Api>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        ticks.tick().await;
        let api = Arc::clone(api);
        let look = move || {
            api.stats.look(&api.management, api.now());
            api.ages.look(&api.management.broker, api.now());
        };
        let _ended = spawn_blocking(look).await;
    }
}

/// All routes, with addresses that begin so.
pub(crate) fn router(api: Arc<Api>, prefix: &str) -> Router {
    let mut router = Router::new().without_v07_checks();
    let prefix = prefix.replace('{', "{{").replace('}', "}}");
    for routes in templates() {
        let template = routes.first().map_or("", |route| route.template);
        let template = format!("{prefix}/api{template}");
        let answer = move |State(api): State<Arc<Api>>,
                           Extension(peer): Extension<Peer>,
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
    (peer, params): (Peer, RawPathParams),
    request: AnyRequest,
) -> Response {
    let (allowed, asked) = (allowed(routes), request.headers().clone());
    let method = match *request.method() {
        Method::HEAD => Method::GET,
        ref other => other.clone(),
    };
    let route = routes.iter().find(|route| route.method == method);
    let answered = match route {
        Some(route) => answer(Arc::clone(&api), route, (peer, params), request).await,
        None if method == Method::OPTIONS => Ok(StatusCode::OK.into_response()),
        None => Ok(StatusCode::METHOD_NOT_ALLOWED.into_response()),
    };
    let mut response = answered.unwrap_or_else(|refusal| refused(&refusal));
    if method == Method::GET {
        response = negotiation::tagged(&asked, response).await;
    }
    let headers = response.headers_mut();
    origins::fill(headers, &api.settings, (&asked, &method, &allowed));
    if let Some(allowed) =
        HeaderValue::from_str(&allowed).ok().filter(|_| api.settings.shows_allowed)
    {
        headers.insert(header::ALLOW, allowed);
    }
    api.settings.fill(headers, peer.is_encrypted);
    response
}

fn allowed(routes: &[&Route]) -> String {
    let has_get = routes.iter().any(|route| route.method == Method::GET);
    let methods = routes.iter().map(|route| route.method.as_str());
    let methods = has_get.then_some("HEAD").into_iter().chain(methods).chain(["OPTIONS"]);
    methods.collect::<Vec<_>>().join(", ")
}

async fn answer(
    api: Arc<Api>,
    route: &'static Route,
    (peer, params): (Peer, RawPathParams),
    request: AnyRequest,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let changes = head.method != Method::GET && head.method != Method::HEAD;
    if changes {
        origins::check(&head.headers, &api.settings)?;
    }
    if changes && api.settings.restricts(route.template) {
        let text = "operator policies cannot be changed by HTTP here";
        return Err(Refusal::of_status(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", text));
    }
    if let Run::LogIn = route.run {
        let body = body_of_request(body, login::FORM_BYTES_MAX).await?;
        return login::begin(&api, peer, &head.headers, &body).await;
    }
    let caller = match head.extensions.get() {
        Some(ConnectInfo(operator)) => Caller::operator(Operator::clone(operator), peer),
        None => caller(&api, &head.headers, peer, changes).await?,
    };
    if !caller.is_local() && !api.management.running.load(Ordering::Relaxed) {
        let (status, text) = (StatusCode::SERVICE_UNAVAILABLE, "the node is stopping");
        return Err(Refusal::of_status(status, "service_unavailable", text));
    }
    if !negotiation::takes_json(&head.headers) {
        let text = "answers are application/json";
        return Err(Refusal::of_status(StatusCode::NOT_ACCEPTABLE, "not_acceptable", text));
    }
    let params: Vec<(String, String)> =
        params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let vhost = params.iter().find(|(name, _)| name == "vhost").map_or("", |(_, vhost)| vhost);
    caller.check(route.needs, &api.management.broker.view().meta, vhost)?;
    let body = body_of_request(body, api.settings.body_bytes_max).await?;
    let query = Query::parse(head.uri.query().unwrap_or_default())?;
    let call = Call { api, caller, params, query, headers: head.headers, body };
    match route.run {
        Run::LogIn => Err(Refusal::internal()),
        // Whoever asks how the node is waits for nobody.
        Run::Read(read) if route.group == "health" => read(&call).map(stream::whole),
        Run::Read(read) => {
            let api = Arc::clone(&call.api);
            api.turns.answered(call, read).await
        }
        // What works through a long document keeps no thread from its clients.
        Run::Change(change) if route.group == "definitions" => {
            let runtime = Handle::current();
            let changed = spawn_blocking(move || runtime.block_on(change(&call)));
            changed.await.unwrap_or_else(|_| Err(Refusal::internal())).map(stream::whole)
        }
        // A client that goes in the middle leaves no session, and nothing half done, behind.
        Run::Change(change) => {
            let changed = tokio::spawn(async move { change(&call).await });
            changed.await.unwrap_or_else(|_| Err(Refusal::internal())).map(stream::whole)
        }
    }
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
    let mut response = (refusal.status, json, refusal.to_json().to_string()).into_response();
    if refusal.status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
    }
    response
}
