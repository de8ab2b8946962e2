//! The log of requests, a line each, in the combined form that Apache made usual.

use crate::Api;
use crate::connection::{Peer, PeerLine};
use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Extension, Router};
use std::sync::Arc;
use stdx::{Civil, Date, Now};

/// The target of the log's lines.
pub const ACCESS: &str = "http_access";

/// The user who has asked; empty if that is not known.
#[derive(Clone, Default)]
pub(crate) struct Asker(pub(crate) String);

/// Logs the requests to a router, if that is wanted.
pub(crate) fn logged(api: &Arc<Api>, router: Router) -> Router {
    if !api.settings.logs_access {
        return router;
    }
    let api = Arc::clone(api);
    router.layer(from_fn(move |Extension(peer): Extension<Peer>, request: Request, next: Next| {
        let api = Arc::clone(&api);
        async move {
            let (method, uri, version, headers) = (
                request.method().clone(),
                request.uri().clone(),
                request.version(),
                request.headers().clone(),
            );
            let response = next.run(request).await;
            let asker = response.extensions().get::<Asker>();
            let is_known = asker.is_some_and(|asker| !asker.0.is_empty());
            if !is_known && !api.is_told(peer.address.ip(), PeerLine::Access) {
                return response;
            }
            let asked = format!("{method} {} {version:?}", uri.path());
            tracing::info!(target: ACCESS, "{}", line(peer, &asked, &headers, &response, api.now()));
            response
        }
    }))
}

fn line(peer: Peer, asked: &str, headers: &HeaderMap, response: &Response, now: Now) -> String {
    let user = response.extensions().get::<Asker>().map_or("", |asker| &asker.0);
    let user = if user.is_empty() { "-" } else { user };
    // COMPAT: 0 for what is written as it goes out.
    let n_bytes = response.body().size_hint().exact().unwrap_or_default();
    let header = |name: HeaderName| {
        let text = headers.get(name).map(|it| String::from_utf8_lossy(it.as_bytes()));
        quoted(&text.unwrap_or_default())
    };
    format!(
        "{} - {} [{}] {} {} {n_bytes} {} {}",
        peer.address.ip(),
        user.replace(|it: char| it.is_whitespace() || it.is_control(), "_"),
        time(now),
        quoted(asked),
        response.status().as_u16(),
        header(header::REFERER),
        header(header::USER_AGENT),
    )
}

/// A text of a client's, which cannot end its place.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// `26/Nov/2026:05:10:20 +0000`.
fn time(now: Now) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let Civil { date: Date { year, month, day }, time: (hour, minute, second) } =
        Civil::at(now.unix_ms.get() / 1_000);
    let month = usize::try_from(month).ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    let month = month.unwrap_or(&"");
    format!("{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
}
