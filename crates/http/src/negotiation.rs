//! Negotiation of answers: the forms a client takes, and what it has already.

use axum::Router;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Frame, SizeHint};
use std::hash::{DefaultHasher, Hasher as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::task::spawn_blocking;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};

/// An answer that is longer is tagged beside the threads that serve sockets, bytes.
const TAGGED_AT_ONCE_BYTES: usize = 64 * 1024;

/// Bytes of an answer that are compressed and written before other tasks have their turn.
const PIECE_BYTES: usize = 64 * 1024;

/// Answers shorter than this are not compressed, bytes.
const COMPRESSED_MIN_BYTES: u64 = 1_024;

/// Has the answers of routes sent in pieces, and compressed where that is worth it. Events are never
/// compressed: they must arrive at once.
pub(crate) fn sent(router: Router) -> Router {
    let is_long = SizeAbove::new(COMPRESSED_MIN_BYTES);
    let compressed = CompressionLayer::new().compress_when(is_long.and(NotForContentType::SSE));
    router.layer(map_response(in_pieces)).layer(compressed)
}

async fn in_pieces(response: Response) -> Response {
    let exact = response.body().size_hint().exact();
    if exact.is_some_and(|n| n <= PIECE_BYTES as u64) {
        return response;
    }
    response.map(|body| Body::new(InPieces { body, rest: Bytes::new(), is_over: false }))
}

/// A body in pieces, after each of which other tasks have their turn: compressing and encrypting a long one
/// takes too long for a thread that serves sockets.
struct InPieces {
    body: Body,
    /// Bytes of the body that have not been passed on.
    rest: Bytes,
    /// Whether a piece was passed on in this turn.
    is_over: bool,
}

impl HttpBody for InPieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if std::mem::take(&mut self.is_over) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            match frame {
                Ok(data) => self.rest = data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        let n = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(n);
        self.is_over = true;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.body.size_hint());
        let mut all = SizeHint::new();
        all.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all
    }
}

/// Whether a client takes a type: `whole` such as `text/plain`, or the `kind` `text/*`.
pub(crate) fn takes(headers: &HeaderMap, kind: &str, whole: &str) -> bool {
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
            // The whole body is in memory already.
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
