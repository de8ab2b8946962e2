//! Requests of the HTTP API, answered. What stands in an answer is the routes' matter.

use crate::Api;
use crate::access::{self, Asker};
use crate::body::{self, BodyLimits};
use crate::call::Call;
use crate::caller::{Caller, Needs, caller, check_passwords};
use crate::connection::{self, Entrance, Guest, Local, Peer, accept};
use crate::login;
use crate::memory;
use crate::negotiation;
use crate::origins;
use crate::peers::{Peers, RelayedRequest};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::routes::{Route, Run, templates};
use crate::scrape;
use crate::settings::Limits;
use crate::web;
use admission::Admission;
use api::{DOCUMENT_BYTES_MAX, ErrorCode, NODE_HEADER};
use axum::body::{Body, Bytes};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{ConnectInfo, RawPathParams, Request as AnyRequest, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Extension, Router};
use mgmt::{ApiError, Course};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_blocking;
use tokio::time::MissedTickBehavior;

/// Interval of looks at the figures of the node and its virtual hosts.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The number of looks of which one is at all objects.
const OBJECTS_EVERY: u64 = 5;
/// Time after which a request may be tried again that was one too many, seconds.
const RETRY_AFTER_S: &str = "5";

/// Serves the HTTP API until `until` resolves.
pub async fn serve(entrance: Entrance, api: Arc<Api>, until: impl Future<Output = ()>) {
    let _known = api.turns.is_told.set(Arc::clone(&entrance.is_told));
    let (router, _answers) = whole(&api);
    tokio::select! {
        () = accept(entrance, router) => {}
        () = look_often(&api) => {}
        () = until => {}
    }
}

/// The HTTP API for connections without sockets, as fuzz targets have them.
#[doc(hidden)]
#[derive(Debug)]
pub struct Socketless {
    router: Router,
    _answers: Arc<Router>,
    admission: Arc<Admission>,
}

impl Socketless {
    /// Makes the routes that [`serve`] answers.
    #[must_use]
    pub fn new(api: &Arc<Api>, admission: Arc<Admission>) -> Self {
        let (router, answers) = whole(api);
        Self { router, _answers: answers, admission }
    }

    /// Serves a stranger's connection until it ends.
    pub async fn serve<S>(&self, stream: S, limits: Limits)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (router, admission) = (self.router.clone(), Arc::clone(&self.admission));
        connection::serve_stream(stream, limits, router, admission).await;
    }
}

/// The routes and the pages, and the routes alone, which streams of events ask as long as they are kept.
fn whole(api: &Arc<Api>) -> (Router, Arc<Router>) {
    let prefix = &api.settings.look.prefix;
    let router = router(Arc::clone(api), prefix);
    let answers = Arc::new(router.clone());
    let _first = api.turns.live.router.set(Arc::downgrade(&answers));
    let router = router.merge(web::router(Arc::clone(api), prefix));
    (access::logged(api, router), answers)
}

/// Serves Prometheus until `until` resolves.
pub async fn serve_metrics(entrance: Entrance, api: Arc<Api>, until: impl Future<Output = ()>) {
    let _known = api.turns.is_told.set(Arc::clone(&entrance.is_told));
    let router = negotiation::sent(access::logged(&api, scrape::router(Arc::clone(&api))));
    tokio::select! {
        () = accept(entrance, router) => {}
        () = until => {}
    }
}

/// Has the figures looked at, over and over.
async fn look_often(api: &Arc<Api>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    api.stats.is_sampled.store(true, Ordering::Relaxed);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for n in 0_u64.. {
        ticks.tick().await;
        let api = Arc::clone(api);
        let _ended = spawn_blocking(move || api.look(n % OBJECTS_EVERY == 0)).await;
    }
}

/// All routes, with `prefix` before their addresses.
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
                Ok(params) => respond(api, &routes, ArrivedRequest { peer, params, request }).await,
                Err(rejection) => refused(&Refusal::bad_request(rejection.to_string()), false),
            }
        };
        router = router.route(&template, any(answer));
    }
    let not_found = || async { refused(&Refusal::not_found(), false) };
    negotiation::sent(router.fallback(not_found).with_state(api))
}

/// A request on its way in, with the parameters of its template.
struct ArrivedRequest {
    peer: Peer,
    params: RawPathParams,
    request: AnyRequest,
}

/// Answers a request to one of the templates.
async fn respond(api: Arc<Api>, routes: &[&'static Route], incoming: ArrivedRequest) -> Response {
    let (request, peer) = (&incoming.request, incoming.peer);
    let (allowed, asked) = (allowed(routes), request.headers().clone());
    let is_local = request.extensions().get::<ConnectInfo<Local>>().is_some();
    let method = match *request.method() {
        Method::HEAD => Method::GET,
        ref other => other.clone(),
    };
    let route = routes.iter().find(|route| route.method == method);
    let mut asker = Asker::default();
    let answered = match route {
        Some(route) => answer(Arc::clone(&api), route, incoming, &mut asker).await,
        None if method == Method::OPTIONS => Ok(StatusCode::OK.into_response()),
        None => Ok(StatusCode::METHOD_NOT_ALLOWED.into_response()),
    };
    let mut response = answered.unwrap_or_else(|refusal| refused(&refusal, is_local));
    if method == Method::GET {
        response = negotiation::tagged(&asked, response).await;
    }
    if !is_local {
        let is_done = method != Method::GET;
        let counted = memory::counted(&api.turns.memory, &asker.0, response, is_done).await;
        response = counted.unwrap_or_else(|refusal| refused(&refusal, is_local));
    }
    response.extensions_mut().insert(asker);
    let is_refused = response.status() == StatusCode::METHOD_NOT_ALLOWED;
    let headers = response.headers_mut();
    // A page with this header asks for name and password itself; the browser would ask too.
    if asked.contains_key("x-requested-with") {
        headers.remove(header::WWW_AUTHENTICATE);
    }
    origins::fill(headers, &api.settings, &asked, &method, &allowed);
    // COMPAT: old caches are told too not to keep what anybody may ask.
    if routes.iter().any(|route| route.is_open()) {
        headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
        headers.insert(header::EXPIRES, HeaderValue::from_static("0"));
    }
    if let Some(allowed) =
        HeaderValue::from_str(&allowed).ok().filter(|_| api.settings.shows_allowed || is_refused)
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
    ArrivedRequest { peer, params, request }: ArrivedRequest,
    asker: &mut Asker,
) -> Result<Response, Refusal> {
    let (mut head, body) = request.into_parts();
    let relayed: Option<RelayedRequest> = head.extensions.remove();
    let changes = changes(&head.method);
    if changes {
        origins::check(&head.headers, &api.settings)?;
    }
    let is_local = head.extensions.get::<ConnectInfo<Local>>().is_some();
    if changes
        && !is_local
        && let Some(text) = route.restriction.and_then(|it| api.settings.restricts(it))
    {
        return Err(Refusal::of_status(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", text));
    }
    if let Run::LogIn = route.run {
        let limits = BodyLimits { bytes_max: login::FORM_BYTES_MAX, is_tree: true };
        let body = body::whole(body, peer.limits.idle_timeout(), limits, None).await?;
        let begun = login::begin(&api, peer, &head.headers, &body).await;
        return begun.inspect(|_| Guest::log_in_by(&head.extensions));
    }
    let caller = match &relayed {
        Some(relayed) => relayed.caller.clone(),
        None => asking(&api, route.needs, peer, &head).await?,
    };
    caller.user.clone_into(&mut asker.0);
    if !caller.is_local() && !api.management.running.load(Ordering::Relaxed) {
        let waits_for = api.management.control.waits_for();
        return Err(Refusal::unavailable(waits_for.as_deref().unwrap_or("the node is stopping")));
    }
    if !negotiation::takes(&head.headers, "application/*", "application/json") {
        let text = "responses are application/json";
        return Err(Refusal::of_status(StatusCode::NOT_ACCEPTABLE, "not_acceptable", text));
    }
    let peers = if relayed.is_some() { Peers::Alone } else { Peers::Unasked };
    let query = match relayed {
        Some(relayed) => relayed.query,
        None => Query::parse(head.uri.query().unwrap_or_default())?,
    };
    let params = named(route.template, &params, &query);
    let vhost = params.iter().find(|(name, _)| name == "vhost").map_or("", |(_, vhost)| vhost);
    let makes = [Method::PUT, Method::POST].contains(&head.method);
    caller.check(route.needs, makes, &api.management.broker.view().meta, vhost)?;
    let holding = (!caller.is_local()).then(|| Arc::new(api.turns.memory.hold(&caller.user)));
    let (body, upload) = if let Run::Upload(_) = route.run {
        (Bytes::new(), body)
    } else if route.needs == Needs::Nothing {
        (Bytes::new(), Body::empty())
    } else {
        let is_long = caller.is_local() && route.is_document;
        let bytes_max = if is_long { DOCUMENT_BYTES_MAX } else { api.settings.body_bytes_max };
        let limits = BodyLimits { bytes_max, is_tree: !route.is_document };
        let patience = peer.limits.idle_timeout();
        (body::whole(body, patience, limits, holding.as_deref()).await?, Body::empty())
    };
    if caller.is_local() {
        check_node(&head.headers, &api.management.node_info.name)?;
        let waits_for = || api.management.control.waits_for();
        if let Some(text) = (!route.is_early()).then(waits_for).flatten() {
            return Err(Refusal::unavailable(text));
        }
    }
    // The course ends when the request is answered, or nobody waits for the answer any more.
    let (course, _waiting) = Course::begin(&api.turns.is_stopping);
    let (path, headers) = (head.uri.path().to_owned(), head.headers);
    let call = Call { api, caller, path, params, query, headers, body, course, holding, peers };
    route.answered(call, upload).await
}

/// Whether requests of the method change something.
fn changes(method: &Method) -> bool {
    *method != Method::GET && *method != Method::HEAD
}

/// Finds out who asks, where the route needs to know.
async fn asking(api: &Api, needs: Needs, peer: Peer, head: &Parts) -> Result<Caller, Refusal> {
    let caller = match head.extensions.get() {
        Some(ConnectInfo(Local(operator))) => Caller::operator(operator.clone(), peer),
        None if needs == Needs::Nothing => return Ok(Caller::stranger(peer)),
        None => {
            if head.headers.contains_key(header::AUTHORIZATION) {
                check_passwords(api, peer)?;
            }
            caller(api, &head.headers, peer, changes(&head.method)).await?
        }
    };
    Guest::log_in_by(&head.extensions);
    Ok(caller)
}

/// The parameters of an address. Browsers take `.` and `..` for steps, however they are written: the query
/// may have them, by the number of their part, as in `/queues/%2F/-?:2=..`.
fn named(template: &str, params: &RawPathParams, query: &Query) -> Vec<(String, String)> {
    let of = |(name, value): (&str, &str)| {
        let part = format!("{{{name}}}");
        let place = template.split('/').skip(1).position(|it| it == part);
        let dots = place.and_then(|at| query.get(&format!(":{at}")));
        let dots = dots.filter(|it| [".", ".."].contains(it));
        (name.to_owned(), dots.unwrap_or(value).to_owned())
    };
    params.iter().map(of).collect()
}

/// Refuses a request that is meant for a node of another name.
fn check_node(headers: &HeaderMap, own: &str) -> Result<(), Refusal> {
    let meant = headers.get(NODE_HEADER).map(HeaderValue::as_bytes);
    let is_it = |meant| std::str::from_utf8(meant).is_ok_and(|it| mgmt::is_same_node(it, own));
    if meant.is_none_or(is_it) {
        return Ok(());
    }
    Err(ApiError { kind: ErrorCode::OtherNode, text: own.to_owned() }.into())
}

fn refused(refusal: &Refusal, is_local: bool) -> Response {
    if refusal.reason.is_empty() {
        let ask = (header::WWW_AUTHENTICATE, "Basic realm=\"RabbitMQ Management\"");
        return (refusal.status, [ask]).into_response();
    }
    let json = [(header::CONTENT_TYPE, "application/json")];
    let body = refusal.to_json(is_local).to_string();
    let mut response = (refusal.status, json, body).into_response();
    if refusal.status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
    }
    response
}
