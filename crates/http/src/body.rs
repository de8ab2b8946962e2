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

/// Length of a block of a body in memory, unless one piece is longer.
const BLOCK_BYTES_MAX: usize = 1024 * 1024;

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
            let text = "the body did not arrive in time";
            return Err(Refusal::of_status(StatusCode::REQUEST_TIMEOUT, "request_timeout", text));
        };
        let read = read.transpose().map_err(|_| Refusal::bad_request("the body is incomplete"))?;
        self.left = self.left.saturating_sub(began.elapsed());
        self.n_bytes += read.as_ref().map_or(0, Bytes::len);
        if self.n_bytes >= PROGRESS_BYTES_MIN {
            (self.n_bytes, self.left) = (0, self.patience);
        }
        Ok(read)
    }
}

/// A body as far as it has come. Its blocks never move: a vector that doubles would hold three times as
/// much as counts for the user.
#[derive(Default)]
struct Pieces {
    /// The only piece so far.
    first: Bytes,
    blocks: Vec<Vec<u8>>,
    n_bytes: usize,
}

impl Pieces {
    /// Whether there was a piece before.
    fn push(&mut self, piece: Bytes) -> bool {
        let is_first = self.n_bytes == 0;
        self.n_bytes += piece.len();
        if is_first {
            self.first = piece;
            return false;
        }
        for piece in [std::mem::take(&mut self.first), piece] {
            match self.blocks.last_mut() {
                Some(last) if last.len() + piece.len() <= BLOCK_BYTES_MAX => {
                    let twice = last.len().min(BLOCK_BYTES_MAX - last.len());
                    if last.capacity() < last.len() + piece.len() {
                        last.reserve_exact(twice.max(piece.len()));
                    }
                    last.extend_from_slice(&piece);
                }
                // The piece is copied, since it may hold on to more memory than its bytes.
                _ => self.blocks.push(piece.to_vec()),
            }
        }
        true
    }

    fn joined(self) -> Bytes {
        if self.blocks.is_empty() {
            return self.first;
        }
        let mut joined = Vec::with_capacity(self.n_bytes);
        for block in self.blocks {
            joined.extend_from_slice(&block);
        }
        joined.into()
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
    let mut pieces = Pieces::default();
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
        let n_bytes = pieces.n_bytes + piece.len();
        if n_bytes > limits.bytes_max {
            let text = format!("the body is larger than {} bytes", limits.bytes_max);
            return Err(too_large(text));
        }
        let n_values = if limits.is_tree { count.note(&piece) } else { 0 };
        if n_values > JSON_VALUES_MAX {
            return Err(too_large(format!("the body has more than {JSON_VALUES_MAX} values")));
        }
        if let Some(holding) = holding {
            holding.note(n_bytes as u64 + n_values as u64 * VALUE_BYTES)?;
        }
        if pieces.push(piece) {
            // A flood yields.
            yield_now().await;
        }
    }
    if let Some(holding) = holding {
        holding.complete();
    }
    Ok(pieces.joined())
}

fn too_large(text: String) -> Refusal {
    Refusal::of_status(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_in_order_and_blocks_stay_short() {
        let all: Vec<u8> = (0..=250).cycle().take(3 * BLOCK_BYTES_MAX).collect();
        for step in [7_001, 65_536, BLOCK_BYTES_MAX, 2 * BLOCK_BYTES_MAX, all.len()] {
            let mut pieces = Pieces::default();
            for piece in all.chunks(step) {
                pieces.push(Bytes::copy_from_slice(piece));
            }
            assert!(pieces.blocks.iter().all(|it| it.capacity() <= BLOCK_BYTES_MAX.max(step)));
            assert_eq!(pieces.joined(), all, "in steps of {step}");
        }
        assert_eq!(Pieces::default().joined(), Bytes::new());
    }
}
