//! The endpoints of Prometheus.

use crate::Api;
use crate::call::Take;
use crate::caller::caller;
use crate::connection::{Guest, Peer};
use crate::long::Audience;
use crate::negotiation;
use crate::query::Query;
use crate::refusal::Refusal;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use meta::QueueId;
use metrics::{CONTENT_TYPE, QUEUE_REGEX_CHARS_MAX, Scrape, Source};
use mgmt::{Course, Matching};
use pattern::{Limits, Pattern};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) fn router(api: Arc<Api>) -> Router {
    let plain = |State(api): State<Arc<Api>>, Extension(audience): Extension<Audience>| async move {
        let per_object = api.settings.metrics.is_per_object;
        let scrape = if per_object { Scrape::PerObject } else { Scrape::Aggregated };
        written(&api, audience, scrape).await
    };
    let of_kind = |State(api): State<Arc<Api>>,
                   Extension(audience): Extension<Audience>,
                   Path(kind): Path<String>,
                   query: RawQuery| async move {
        // A scrape may have an expression to compile, and names to match with it.
        let source = Arc::clone(&api);
        let (course, _waiting) = Course::begin(&api.turns.is_stopping);
        match api.turns.prepared(move || scrape(&source, &kind, query, &course)).await {
            None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Some(Ok(Some(scrape))) => written(&api, audience, scrape).await,
            Some(Ok(None)) => StatusCode::NOT_FOUND.into_response(),
            Some(Err(refusal)) => (refusal.status, refusal.reason).into_response(),
        }
    };
    let not_found = || async { StatusCode::NOT_FOUND };
    let path = api.settings.metrics.path.trim_end_matches('/');
    let path = format!("/{}", path.trim_start_matches('/')).replace('{', "{{").replace('}', "}}");
    Router::new()
        .without_v07_checks()
        .route(&path, get(plain))
        .route(&format!("{path}/{{kind}}"), get(of_kind))
        .fallback(not_found)
        .layer(from_fn_with_state(Arc::clone(&api), admit))
        .with_state(api)
}

/// Lets in clients that may scrape, and that accept text.
async fn admit(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut audience = Audience::stranger(peer);
    if api.settings.metrics.needs_login {
        match caller(&api, request.headers(), peer, false).await {
            Ok(caller) => audience = Audience::user(&caller),
            Err(refusal) => {
                let ask = (header::WWW_AUTHENTICATE, "Basic realm=\"RabbitMQ Prometheus\"");
                return (refusal.status, [ask], refusal.reason).into_response();
            }
        }
        Guest::log_in_by(request.extensions());
    }
    request.extensions_mut().insert(audience);
    if !negotiation::takes(request.headers(), "text/*", "text/plain") {
        return StatusCode::NOT_ACCEPTABLE.into_response();
    }
    next.run(request).await
}

impl Api {
    /// The figures of the node as OTLP has them, since it started and now, in nanoseconds since 1970.
    #[must_use]
    pub fn otlp_metrics(&self, started_ns: u64, now_ns: u64) -> Vec<serde_json::Value> {
        metrics::otlp(&self.metrics_source(), started_ns, now_ns)
    }

    fn metrics_source(&self) -> Source<'_> {
        let Self { management, throttle, history, .. } = self;
        Source { management, throttle, history, now: self.now() }
    }
}

async fn written(api: &Arc<Api>, audience: Audience, scrape: Scrape) -> Response {
    let source = Arc::clone(api);
    let write = move |take: &mut Take<'_>| {
        let (began, mut n_bytes, mut is_whole) = (Instant::now(), 0, true);
        scrape.write(&source.metrics_source(), &mut |text| {
            n_bytes += text.len() as u64;
            is_whole = take(text.into());
            is_whole
        });
        // A text that is cut off here is written anew in another turn, and counted then.
        if is_whole {
            let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            scrape.note(&source.history.scrapes, micros, n_bytes);
        }
    };
    let written = api.turns.scraped(audience, CONTENT_TYPE, write).await;
    written.unwrap_or_else(|refusal| (refusal.status, refusal.reason).into_response())
}

fn scrape(
    api: &Api,
    kind: &str,
    RawQuery(query): RawQuery,
    course: &Course,
) -> Result<Option<Scrape>, Refusal> {
    Ok(Some(match kind {
        "per-object" => Scrape::PerObject,
        "memory-breakdown" => Scrape::Memory,
        "detailed" => {
            let query = Query::parse(query.as_deref().unwrap_or_default())?;
            let all = |name| query.all(name).map(str::to_owned).collect();
            Scrape::Detailed {
                families: all("family"),
                vhosts: all("vhost"),
                queues: queues(api, &query, course)?,
            }
        }
        _ => return Ok(None),
    }))
}

/// The queues whose names match; none for all.
fn queues(api: &Api, query: &Query, course: &Course) -> Result<Option<HashSet<QueueId>>, Refusal> {
    let mut patterns = query.all("queue");
    let Some(pattern) = patterns.next() else { return Ok(None) };
    if patterns.next().is_some() {
        return Err(Refusal::bad_request("more than one `queue`"));
    }
    if pattern.chars().count() > QUEUE_REGEX_CHARS_MAX {
        let text = format!("`queue` is longer than {QUEUE_REGEX_CHARS_MAX} characters");
        return Err(Refusal::bad_request(text));
    }
    let pattern = Pattern::perl(pattern, &Limits::NAMES);
    let pattern = pattern.map_err(|error| Refusal::bad_request(error.to_string()))?;
    let (view, mut matching, mut wanted) =
        (api.management.broker.view(), Matching::during(course), HashSet::new());
    for def in view.meta.vhosts().flat_map(|vhost| vhost.queues()) {
        if matching.matches(&pattern, &def.name)? {
            wanted.insert(def.id);
        }
    }
    Ok(Some(wanted))
}
