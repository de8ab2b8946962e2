//! The web UI: its page, and the files of it below an address that changes with them.

use crate::Api;
use crate::connection::Peer;
use crate::negotiation::sent;
use crate::routes;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, any, get};
use axum::{Extension, Router};
use std::sync::Arc;

/// The policy of the page: it may load its own files, ask its own node, and make no code or markup of a text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'; \
    require-trusted-types-for 'script'; trusted-types 'none'";
/// The page of tools.
const TOOLS: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <title>Command line tools</title>\n<h1>Command line tools</h1>\n\
    <p><code>leveret ctl</code> comes with the node, also under the names of RabbitMQ's tools: \
    <code>leveret ctl help</code> lists its commands.</p>\n\
    <p>RabbitMQ's <code>rabbitmqadmin</code> asks the <a href=\"../api/index.html\">HTTP API</a>: its \
    binaries are at <a href=\"https://github.com/rabbitmq/rabbitmqadmin-ng/releases\">\
    github.com/rabbitmq/rabbitmqadmin-ng</a>.</p>\n</html>\n";
/// The caching of files whose address is never that of another version.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// COMPAT: addresses of RabbitMQ's pages, and the pages that stand for them here.
const MOVED: [(&str, &str); 5] = [
    ("/api", "/api/index.html"),
    ("/cli", "/cli/index.html"),
    ("/mgmt", "/"),
    ("/stats", "/api/index.html"),
    ("/doc/stats.html", "/api/index.html"),
];

/// The routes of the pages and their files, with addresses that begin so.
pub(crate) fn router(api: Arc<Api>, prefix: &str) -> Router {
    let pattern = prefix.replace('{', "{{").replace('}', "}}");
    let at = |path: &str| format!("{pattern}{path}");
    let home = format!("{prefix}/");
    let page = if prefix.is_empty() { "/" } else { &*pattern };
    let mut router = Router::new()
        .without_v07_checks()
        .route(page, get(index))
        .route(&at("/index.html"), get(index))
        .route(&at("/ui/{version}/{*path}"), get(file))
        .route(&at("/api/index.html"), get(reference))
        .route(&at("/cli/index.html"), get(tools))
        .route(&at("/login"), moved(StatusCode::FOUND, home.clone()));
    for (path, place) in MOVED {
        let place = format!("{prefix}{place}");
        router = router.route(&at(path), moved(StatusCode::MOVED_PERMANENTLY, place));
    }
    if !prefix.is_empty() {
        router = router.route("/", moved(StatusCode::MOVED_PERMANENTLY, home));
    }
    sent(router.with_state(api))
}

/// Sends whoever asks to another address.
fn moved(status: StatusCode, place: String) -> MethodRouter<Arc<Api>> {
    any(move || async move { (status, [(header::LOCATION, place)]) })
}

/// The table of routes, for people.
async fn reference(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Response {
    plain_page(&api, peer, routes::page())
}

async fn tools(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Response {
    plain_page(&api, peer, TOOLS)
}

fn plain_page(api: &Api, peer: Peer, page: &'static str) -> Response {
    let html = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    filled(api, peer, ([html, (header::CONTENT_SECURITY_POLICY, POLICY)], page).into_response())
}

async fn index(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Response {
    let html = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    let policy = (header::CONTENT_SECURITY_POLICY, POLICY);
    let page = ui::index(&api.settings.look);
    filled(&api, peer, ([html, policy], page).into_response())
}

async fn file(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    Path([version, path]): Path<[String; 2]>,
) -> Response {
    let found = ui::file(&path).filter(|_| version == ui::version());
    let response = found.map(|file| {
        let headers: [(HeaderName, &str); 2] =
            [(header::CONTENT_TYPE, file.content_type), (header::CACHE_CONTROL, FOR_EVER)];
        (headers, file.bytes).into_response()
    });
    filled(&api, peer, response.unwrap_or_else(|| StatusCode::NOT_FOUND.into_response()))
}

fn filled(api: &Api, peer: Peer, mut response: Response) -> Response {
    api.settings.fill(response.headers_mut(), peer.is_encrypted);
    response
}
