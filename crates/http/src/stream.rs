//! Answers on their way out. What reads runs on a thread for it, which also writes long lists, in pieces: the
//! next is made when the client has taken the one before.

use crate::call::{Answer, Call, Outcome};
use crate::list::Rows;
use crate::refusal::Refusal;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_core::Stream;
use serde_json::Value;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};

/// Bytes of a piece.
const PIECE_BYTES: usize = 64 * 1024;
/// Pieces that wait for the client.
const PIECES_MAX: usize = 2;

/// Runs what reads beside the threads that serve sockets.
pub(crate) async fn answered(call: Call, read: fn(&Call) -> Outcome) -> Result<Response, Refusal> {
    let (tell, told) = oneshot::channel();
    tokio::task::spawn_blocking(move || match read(&call) {
        Ok(Answer::Rows(rows)) => write_rows(rows, tell),
        outcome => {
            // Who asked is gone otherwise.
            let _gone = tell.send(outcome.map(whole));
        }
    });
    told.await.unwrap_or_else(|_| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Err(Refusal::of_status(status, "internal_error", "the request could not be answered"))
    })
}

/// An answer in one piece.
pub(crate) fn whole(answer: Answer) -> Response {
    match answer {
        Answer::Json(value) => json(value.to_string()),
        Answer::Status(status, value) => (status, json(value.to_string())).into_response(),
        Answer::Text(text) => ([(header::CONTENT_TYPE, "text/plain")], text).into_response(),
        Answer::NoContent => StatusCode::NO_CONTENT.into_response(),
        Answer::Created(None) => StatusCode::CREATED.into_response(),
        Answer::Created(Some(place)) => {
            (StatusCode::CREATED, [(header::LOCATION, place)]).into_response()
        }
        Answer::Rows(rows) => {
            let (mut pieces, mut text) = (Pieces::new(rows), String::new());
            while let Some(piece) = pieces.next_piece() {
                text.push_str(&piece);
            }
            json(text)
        }
    }
}

fn json(body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.into()).into_response()
}

/// Text that is written in pieces on a thread of its own.
pub(crate) fn written(
    content_type: &'static str,
    write: impl FnOnce(&mut dyn FnMut(String) -> bool) + Send + 'static,
) -> Response {
    let (writer, reader) = mpsc::channel(PIECES_MAX);
    tokio::task::spawn_blocking(move || {
        write(&mut |piece| writer.blocking_send(Bytes::from(piece)).is_ok());
    });
    ([(header::CONTENT_TYPE, content_type)], Body::from_stream(Reader(reader))).into_response()
}

/// Short lists are one answer; of others the rest is made while the client reads.
fn write_rows(rows: Rows, tell: oneshot::Sender<Result<Response, Refusal>>) {
    let mut pieces = Pieces::new(rows);
    let first = pieces.next_piece().unwrap_or_default();
    if pieces.is_over() {
        let _gone = tell.send(Ok(json(first)));
        return;
    }
    let (writer, reader) = mpsc::channel(PIECES_MAX);
    if tell.send(Ok(json(Body::from_stream(Reader(reader))))).is_err() {
        return;
    }
    let mut piece = Some(first);
    while let Some(text) = piece {
        if writer.blocking_send(Bytes::from(text)).is_err() {
            return;
        }
        piece = pieces.next_piece();
    }
}

/// The text of a list, a piece at a time.
struct Pieces {
    /// Text before the next item.
    before: Option<String>,
    items: Box<dyn Iterator<Item = Value> + Send>,
    next: Option<Value>,
    tail: Option<String>,
}

impl Pieces {
    fn new(Rows { head, mut items, tail }: Rows) -> Self {
        let next = items.next();
        Self { before: Some(head), items, next, tail: Some(tail) }
    }

    const fn is_over(&self) -> bool {
        self.tail.is_none()
    }

    fn next_piece(&mut self) -> Option<String> {
        self.tail.as_ref()?;
        let mut text = self.before.take().unwrap_or_default();
        while text.len() < PIECE_BYTES {
            let Some(item) = self.next.take() else {
                text.push_str(&self.tail.take().unwrap_or_default());
                break;
            };
            text.push_str(&item.to_string());
            self.next = self.items.next();
            if self.next.is_some() {
                text.push(',');
            }
        }
        Some(text)
    }
}

/// Pieces as a body.
struct Reader(mpsc::Receiver<Bytes>);

impl Stream for Reader {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|piece| piece.map(Ok))
    }
}
