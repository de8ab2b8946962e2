//! Bodies of requests as they come in: not too slowly, not too long, and not more values than a node takes.

use crate::memory::{Holding, VALUE_BYTES};
use crate::refusal::Refusal;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::StatusCode;
use futures_core::Stream as _;
use meta::{JSON_VALUES_MAX, JsonCount};
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

/// Bytes that come while a node waits for its patience's time, at least, unless the body ends.
const PROGRESS_BYTES_MIN: usize = 16 * 1024;

/// A body on its way in.
pub(crate) struct Incoming {
    body: BodyDataStream,
    /// Time that a client has to send [`PROGRESS_BYTES_MIN`], and what is left of it.
    patience: Duration,
    left: Duration,
    /// Bytes since it began.
    n_bytes: usize,
}

impl Incoming {
    pub(crate) fn new(body: Body, patience: Duration) -> Self {
        Self { body: body.into_data_stream(), patience, left: patience, n_bytes: 0 }
    }

    /// The next piece; none at the end. The time that nobody waits for one does not count.
    pub(crate) async fn read(&mut self) -> Result<Option<Bytes>, Refusal> {
        let began = Instant::now();
        let next = poll_fn(|context| Pin::new(&mut self.body).poll_next(context));
        let Ok(read) = timeout(self.left, next).await else {
            let text = "the body did not come in time";
            return Err(Refusal::of_status(StatusCode::REQUEST_TIMEOUT, "request_timeout", text));
        };
        let read = read.transpose().map_err(|_| Refusal::bad_request("the body is cut off"))?;
        self.left = self.left.saturating_sub(began.elapsed());
        self.n_bytes += read.as_ref().map_or(0, Bytes::len);
        if self.n_bytes >= PROGRESS_BYTES_MIN {
            (self.n_bytes, self.left) = (0, self.patience);
        }
        Ok(read)
    }
}

/// Bounds of a body.
#[derive(Clone, Copy)]
pub(crate) struct BodyLimits {
    pub(crate) bytes_max: usize,
    /// Whether its values are made all at once, so that there may not be too many.
    pub(crate) is_tree: bool,
}

/// Reads all of a body; of users it counts as what they hold.
pub(crate) async fn whole(
    body: Body,
    patience: Duration,
    limits: BodyLimits,
    holding: Option<&Holding>,
) -> Result<Bytes, Refusal> {
    let mut incoming = Incoming::new(body, patience);
    let (mut first, mut rest) = (Bytes::new(), Vec::new());
    let mut count = JsonCount::default();
    loop {
        let read = match holding {
            None => incoming.read().await?,
            Some(holding) => tokio::select! {
                biased;
                refusal = holding.refused() => return Err(refusal),
                read = incoming.read() => read?,
            },
        };
        let Some(piece) = read else { break };
        let n_bytes = first.len().max(rest.len()) + piece.len();
        if n_bytes > limits.bytes_max {
            let text = format!("the body has more than {} bytes", limits.bytes_max);
            return Err(too_large(text));
        }
        let n_values = if limits.is_tree { count.note(&piece) } else { 0 };
        if n_values > JSON_VALUES_MAX {
            return Err(too_large(format!("the body has more than {JSON_VALUES_MAX} values")));
        }
        if let Some(holding) = holding {
            holding.note(n_bytes as u64 + n_values as u64 * VALUE_BYTES)?;
        }
        if first.is_empty() {
            first = piece;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&piece);
            // A flood yields.
            yield_now().await;
        }
    }
    if let Some(holding) = holding {
        holding.complete();
    }
    Ok(if rest.is_empty() { first } else { rest.into() })
}

fn too_large(text: String) -> Refusal {
    Refusal::of_status(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", text)
}
