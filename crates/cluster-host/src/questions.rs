//! The questions of this node that wait for replies of others. Replies come in parts, and have limits.

use bytes::Bytes;
use log::NodeNumber;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use stdx::lock;

/// The bytes of a reply at most.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// The bytes of all replies that are awaited at most.
const ALL_REPLIES_BYTES_MAX: usize = 256 << 20;
/// Questions that wait for a reply at most.
const QUESTIONS_MAX: usize = 4_096;

/// A question of another node.
#[derive(Debug)]
pub struct PeerQuestion {
    /// The node that asks.
    pub from: NodeNumber,
    /// The number that its replies name.
    pub(crate) request: u64,
    /// The question.
    pub body: Bytes,
}

/// All questions that wait for a reply.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<OpenQuestions>);

#[derive(Debug, Default)]
struct OpenQuestions {
    last: u64,
    by_number: BTreeMap<u64, OpenQuestion>,
}

#[derive(Debug)]
struct OpenQuestion {
    node: NodeNumber,
    reply: Vec<u8>,
    state: ReplyState,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyState {
    Coming,
    Whole,
    Failed,
}

/// The reply that a question waits for; none if there will be no whole one. Dropped, it waits no more.
#[derive(Debug)]
pub struct PendingReply {
    questions: Arc<Questions>,
    request: u64,
}

impl Questions {
    /// Opens a question to a node, unless too many are open.
    pub(crate) fn open(self: &Arc<Self>, node: NodeNumber) -> Option<PendingReply> {
        let mut open = lock(&self.0);
        if open.by_number.len() >= QUESTIONS_MAX {
            return None;
        }
        open.last += 1;
        let request = open.last;
        let state = ReplyState::Coming;
        open.by_number
            .insert(request, OpenQuestion { node, reply: Vec::new(), state, waker: None });
        Some(PendingReply { questions: Arc::clone(self), request })
    }

    /// Takes a part of a reply; one that nobody waits for is dropped.
    pub(crate) fn take(&self, from: NodeNumber, request: u64, part: &[u8], is_last: bool) {
        let mut open = lock(&self.0);
        let n_bytes: usize = open.by_number.values().map(|it| it.reply.len()).sum();
        let Some(question) = open.by_number.get_mut(&request) else { return };
        if question.node != from || question.state != ReplyState::Coming {
            return;
        }
        if question.reply.len() + part.len() > REPLY_BYTES_MAX
            || n_bytes + part.len() > ALL_REPLIES_BYTES_MAX
        {
            question.state = ReplyState::Failed;
            tracing::warn!("a reply of node {} is given up: it is too long", from.0);
        } else {
            question.reply.extend_from_slice(part);
            question.state = if is_last { ReplyState::Whole } else { ReplyState::Coming };
        }
        let is_over = question.state != ReplyState::Coming;
        let waker = if is_over { question.waker.take() } else { None };
        drop(open);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Ends the questions to a node that is not heard any more.
    pub(crate) fn end_those_to(&self, node: NodeNumber) {
        let mut wakers = Vec::new();
        for question in lock(&self.0).by_number.values_mut().filter(|it| it.node == node) {
            if question.state == ReplyState::Coming {
                question.state = ReplyState::Failed;
                wakers.extend(question.waker.take());
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl PendingReply {
    /// The bytes of the reply that have come.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        lock(&self.questions.0).by_number.get(&self.request).map_or(0, |it| it.reply.len())
    }

    pub(crate) const fn request(&self) -> u64 {
        self.request
    }
}

impl Future for PendingReply {
    type Output = Option<Vec<u8>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let mut open = lock(&self.questions.0);
        let Some(question) = open.by_number.get_mut(&self.request) else {
            return Poll::Ready(None);
        };
        let is_whole = question.state == ReplyState::Whole;
        if question.state == ReplyState::Coming {
            question.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let question = open.by_number.remove(&self.request);
        Poll::Ready(question.filter(|_| is_whole).map(|it| it.reply))
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        lock(&self.questions.0).by_number.remove(&self.request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeNumber = NodeNumber(2);

    fn state(reply: &mut PendingReply) -> Poll<Option<Vec<u8>>> {
        Pin::new(reply).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_reply_is_whole_with_its_last_part() {
        let questions = Arc::<Questions>::default();
        let [mut first, mut second] = [0; 2].map(|_| questions.open(PEER).unwrap());
        questions.take(PEER, first.request(), b"a", false);
        questions.take(PEER, second.request(), b"x", true);
        questions.take(NodeNumber(3), first.request(), b"of another node", true);
        assert_eq!((state(&mut first), first.n_bytes()), (Poll::Pending, 1));
        questions.take(PEER, first.request(), b"b", true);
        questions.take(PEER, first.request(), b"behind the end", true);
        assert_eq!(state(&mut first), Poll::Ready(Some(b"ab".to_vec())));
        assert_eq!(state(&mut second), Poll::Ready(Some(b"x".to_vec())));
    }

    #[test]
    fn a_reply_that_is_too_long_or_whose_node_is_lost_fails() {
        let questions = Arc::<Questions>::default();
        let part = vec![0; 1 << 20];
        let mut long = questions.open(PEER).unwrap();
        for _ in 0..REPLY_BYTES_MAX >> 20 {
            questions.take(PEER, long.request(), &part, false);
            assert_eq!(state(&mut long), Poll::Pending);
        }
        questions.take(PEER, long.request(), b"x", false);
        assert_eq!(state(&mut long), Poll::Ready(None));
        let mut lost = questions.open(PEER).unwrap();
        questions.end_those_to(PEER);
        assert_eq!(state(&mut lost), Poll::Ready(None));
    }

    #[test]
    fn no_more_questions_are_open_than_may_be() {
        let questions = Arc::<Questions>::default();
        let open: Vec<_> = (0..QUESTIONS_MAX).filter_map(|_| questions.open(PEER)).collect();
        assert_eq!((open.len(), questions.open(PEER).is_none()), (QUESTIONS_MAX, true));
        drop(open);
        assert!(questions.open(PEER).is_some());
    }
}
