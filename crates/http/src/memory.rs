//! Memory that requests hold: bodies as they come, the values they become, answers that are not read. A user
//! may hold a share of it, all users together another: the heaviest request goes first.

use crate::refusal::Refusal;
use axum::body::{Body, Bytes, to_bytes};
use axum::response::Response;
use broker::Broker;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::sync::Notify;

/// Longest bodies that a user, and all users together, may have in memory; less if that were more than
/// connections may hold (`broker::held`).
const OF_USER_BODIES: u64 = 4;
const OF_ALL_BODIES: u64 = 16;
/// Memory of a value, its share of a list or object with it.
pub(crate) const VALUE_BYTES: u64 = 320;
/// An answer up to this goes out uncounted, in pieces of this a longer one, bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// Memory that is held, by request.
#[derive(Debug)]
pub(crate) struct Memory {
    broker: Arc<Broker>,
    body_bytes_max: u64,
    held: Mutex<HeldByRequest>,
}

#[derive(Debug, Default)]
struct HeldByRequest {
    n_bytes: u64,
    last_id: u64,
    of: BTreeMap<u64, Held>,
}

#[derive(Debug)]
struct Held {
    user: String,
    n_bytes: u64,
    content: HeldContent,
}

#[derive(Debug)]
enum HeldContent {
    /// A body on its way in, and who reads it.
    Reading(Arc<Notify>),
    /// A request that is worked on, which cannot be taken back.
    Working,
    /// The rest of an answer.
    Answer(Bytes),
    /// The rest of an answer to a change: it may be the only copy of messages that were taken away.
    Taken(Bytes),
}

/// The memory of one request, until it is dropped.
#[derive(Debug)]
pub(crate) struct Holding {
    memory: Arc<Memory>,
    id: u64,
    refused: Arc<Notify>,
}

impl Memory {
    pub(crate) fn new(broker: Arc<Broker>, body_bytes_max: usize) -> Arc<Self> {
        let body_bytes_max = body_bytes_max as u64;
        Arc::new(Self { broker, body_bytes_max, held: Mutex::default() })
    }

    /// Begins to hold a body.
    pub(crate) fn hold(self: &Arc<Self>, user: &str) -> Holding {
        let refused = Arc::<Notify>::default();
        self.insert(user, HeldContent::Reading(Arc::clone(&refused)), refused)
    }

    /// An answer as a body that counts for its user.
    ///
    /// # Errors
    /// There is no room for the answer; never if the change that it answers `is_done`.
    fn answer(
        self: &Arc<Self>,
        user: &str,
        answer: Bytes,
        is_done: bool,
    ) -> Result<AnswerBody, Refusal> {
        let n_bytes = answer.len() as u64;
        let content = if is_done { HeldContent::Taken } else { HeldContent::Answer };
        let holding = self.insert(user, content(answer), Arc::default());
        holding.note(n_bytes)?;
        Ok(AnswerBody { holding, left: n_bytes })
    }

    fn insert(self: &Arc<Self>, user: &str, content: HeldContent, refused: Arc<Notify>) -> Holding {
        let mut held = stdx::lock(&self.held);
        held.last_id += 1;
        let id = held.last_id;
        held.of.insert(id, Held { user: user.to_owned(), n_bytes: 0, content });
        Holding { memory: Arc::clone(self), id, refused }
    }

    /// Bytes that a user, and all users, may hold.
    fn bytes_max(&self) -> (u64, u64) {
        let (of_one, of_all) = self.broker.operations().held_bytes_max();
        (
            of_one.min(OF_USER_BODIES.saturating_mul(self.body_bytes_max)),
            of_all.min(OF_ALL_BODIES.saturating_mul(self.body_bytes_max)),
        )
    }
}

impl HeldByRequest {
    fn remove(&mut self, id: u64) -> Option<Held> {
        let held = self.of.remove(&id)?;
        self.n_bytes -= held.n_bytes;
        Some(held)
    }

    fn by_user(&self) -> BTreeMap<&str, u64> {
        let mut by_user = BTreeMap::new();
        for held in self.of.values() {
            *by_user.entry(held.user.as_str()).or_default() += held.n_bytes;
        }
        by_user
    }

    /// The heaviest request of the heaviest user, if that user holds more than `of_user_max`, or all users
    /// more than `of_all_max`. Requests that are worked on, and answers to changes, are left out.
    fn heaviest(&self, of_user_max: u64, of_all_max: u64) -> Option<u64> {
        let by_user = self.by_user();
        let (user, n_bytes) = by_user.into_iter().max_by_key(|(_, n_bytes)| *n_bytes)?;
        if n_bytes <= of_user_max && self.n_bytes <= of_all_max {
            return None;
        }
        let its = self.of.iter().filter(|(_, held)| held.user == user);
        let stays =
            |held: &Held| matches!(held.content, HeldContent::Working | HeldContent::Taken(_));
        let its = its.filter(|(_, held)| !stays(held));
        its.max_by_key(|(_, held)| held.n_bytes).map(|(id, _)| *id)
    }
}

impl Holding {
    /// Notes how many bytes the request holds now.
    ///
    /// # Errors
    /// The request was given up as too heavy. Other requests that are given up are told.
    pub(crate) fn note(&self, n_bytes: u64) -> Result<(), Refusal> {
        let (of_user_max, of_all_max) = self.memory.bytes_max();
        let mut held = stdx::lock(&self.memory.held);
        let Some(its) = held.of.get_mut(&self.id) else { return Err(too_much()) };
        let before = std::mem::replace(&mut its.n_bytes, n_bytes);
        held.n_bytes = held.n_bytes + n_bytes - before;
        let mut is_refused = false;
        while let Some(id) = held.heaviest(of_user_max, of_all_max) {
            let Some(gone) = held.remove(id) else { break };
            is_refused |= id == self.id;
            if let HeldContent::Reading(reader) = gone.content {
                reader.notify_one();
            }
        }
        self.memory.broker.operations().note_requests_hold(held.n_bytes);
        if is_refused { Err(too_much()) } else { Ok(()) }
    }

    /// Resolves if the request has to be given up.
    pub(crate) async fn refused(&self) -> Refusal {
        self.refused.notified().await;
        too_much()
    }

    /// Notes that the whole body has come, and is worked on.
    pub(crate) fn complete(&self) {
        if let Some(its) = stdx::lock(&self.memory.held).of.get_mut(&self.id) {
            its.content = HeldContent::Working;
        }
    }

    /// The next piece of an answer; `None` if the answer was given up.
    fn next_piece(&self) -> Option<Bytes> {
        let mut held = stdx::lock(&self.memory.held);
        let content = &mut held.of.get_mut(&self.id)?.content;
        let (HeldContent::Answer(rest) | HeldContent::Taken(rest)) = content else { return None };
        // The piece is a copy, since the rest may be given up before the piece is sent.
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        Some(Bytes::copy_from_slice(&piece))
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut held = stdx::lock(&self.memory.held);
        held.remove(self.id);
        self.memory.broker.operations().note_requests_hold(held.n_bytes);
    }
}

fn too_much() -> Refusal {
    let text = "requests and unread responses of this user, or of all users and mostly this one, use \
                too much memory: request less at a time, or retry later";
    Refusal::too_many(text)
}

/// An answer on its way out.
pub(crate) struct AnswerBody {
    holding: Holding,
    left: u64,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let Some(piece) = self.holding.next_piece() else {
            return Poll::Ready(Some(Err(io::ErrorKind::OutOfMemory.into())));
        };
        self.left = self.left.saturating_sub(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Counts an answer to a user: a long one counts until it has been read. The answer to a change that
/// `is_done` is never refused.
pub(crate) async fn counted(
    memory: &Arc<Memory>,
    user: &str,
    response: Response,
    is_done: bool,
) -> Result<Response, Refusal> {
    let n_bytes = response.body().size_hint().exact();
    if n_bytes.is_none_or(|n| n <= PIECE_BYTES as u64) {
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    // The whole body is in memory already.
    let bytes = to_bytes(body, usize::MAX).await.map_err(|_| Refusal::internal())?;
    Ok(Response::from_parts(head, Body::new(memory.answer(user, bytes, is_done)?)))
}
