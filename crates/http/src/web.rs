//! The web UI: its page, and the files of it below an address that changes with them.

use crate::Api;
use crate::connection::Peer;
use crate::negotiation::sent;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use std::sync::Arc;

/// The policy of the page: it may load its own files, ask its own node, and make no code or markup of a text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'; \
    require-trusted-types-for 'script'; trusted-types 'none'";
/// For files whose address is never one of others.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// The routes of the page and its files, with addresses that begin so.
pub(crate) fn router(api: Arc<Api>, prefix: &str) -> Router {
    let files = format!("{prefix}/ui/{{version}}/{{*path}}");
    let page = if prefix.is_empty() { "/" } else { prefix };
    sent(Router::new().route(page, get(index)).route(&files, get(file)).with_state(api))
}

async fn index(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Response {
    let html = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    let policy = (header::CONTENT_SECURITY_POLICY, POLICY);
    let page = ui::index(&api.settings.look);
    filled((&api, peer), ([html, policy], page).into_response())
}

async fn file(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    Path((version, path)): Path<(String, String)>,
) -> Response {
    let found = ui::file(&path).filter(|_| version == ui::version());
    let response = found.map(|file| {
        let headers: [(HeaderName, &str); 2] =
            [(header::CONTENT_TYPE, file.content_type), (header::CACHE_CONTROL, FOR_EVER)];
        (headers, file.bytes).into_response()
    });
    filled((&api, peer), response.unwrap_or_else(|| StatusCode::NOT_FOUND.into_response()))
}

fn filled((api, peer): (&Api, Peer), mut response: Response) -> Response {
    api.settings.fill(response.headers_mut(), peer.is_encrypted);
    response
}
