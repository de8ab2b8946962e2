//! Negotiation of answers: the forms a client takes, and what it has already.

use axum::body::{Bytes, HttpBody as _, to_bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use std::hash::{DefaultHasher, Hasher as _};
use tokio::task::spawn_blocking;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{And, NotForContentType, Predicate as _, SizeAbove};

/// An answer that is longer is tagged beside the threads that serve sockets, bytes.
const TAGGED_AT_ONCE_BYTES: usize = 64 * 1024;

/// Answers shorter than this are not compressed, bytes.
const COMPRESSED_MIN_BYTES: u64 = 1_024;

/// The layer that compresses answers that are worth it; never events, which are to be there at once.
pub(crate) fn compressed() -> CompressionLayer<And<SizeAbove, NotForContentType>> {
    let is_long = SizeAbove::new(COMPRESSED_MIN_BYTES);
    CompressionLayer::new().compress_when(is_long.and(NotForContentType::SSE))
}

/// Whether a client takes a type such as `text/plain`.
pub(crate) fn takes(headers: &HeaderMap, (kind, whole): (&str, &str)) -> bool {
    let ranges = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
    let mut ranges = ranges.flat_map(|it| it.split(',')).peekable();
    let fits = |range: &str| {
        let range = range.split(';').next().unwrap_or_default().trim();
        ["*/*", kind, whole, ""].contains(&range)
    };
    ranges.peek().is_none() || ranges.any(fits)
}

/// An answer with its tag, or with nothing where the client has it.
pub(crate) async fn tagged(asked: &HeaderMap, response: Response) -> Response {
    let is_whole = response.body().size_hint().exact().is_some();
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut head, mut body) = response.into_parts();
    let tag = match head.headers.remove(header::ETAG) {
        Some(tag) => tag.to_str().unwrap_or_default().to_owned(),
        None if is_whole => {
            // It is there already.
            let Ok(bytes) = to_bytes(body, usize::MAX).await else {
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            };
            body = bytes.clone().into();
            tag(bytes).await
        }
        None => return Response::from_parts(head, body),
    };
    let has = |known: &HeaderValue| {
        let known = known.to_str().unwrap_or_default();
        known.split(',').any(|it| it.trim() == "*" || it.trim().trim_start_matches("W/") == tag)
    };
    let is_known = asked.get_all(header::IF_NONE_MATCH).iter().any(has);
    if let Ok(value) = HeaderValue::from_str(&format!("W/{tag}")) {
        head.headers.insert(header::ETAG, value);
    }
    if is_known {
        head.status = StatusCode::NOT_MODIFIED;
        head.headers.remove(header::CONTENT_TYPE);
        return (head, ()).into_response();
    }
    Response::from_parts(head, body)
}

/// A tag as headers have it.
pub(crate) fn quoted(tag: u64) -> String {
    format!("\"{tag:016x}\"")
}

async fn tag(body: Bytes) -> String {
    let is_short = body.len() <= TAGGED_AT_ONCE_BYTES;
    let hash = move || {
        let mut hasher = DefaultHasher::new();
        hasher.write(&body);
        quoted(hasher.finish())
    };
    if is_short { hash() } else { spawn_blocking(hash).await.unwrap_or_default() }
}
