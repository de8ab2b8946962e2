//! Answers to messages that were put, and the bytes of those that are done with.

use super::peer_connection::PeerConnection;
use meta::QueueId;
use peer::SessionFrame;
use remote::wire::{AnsweredPuts, TakenPuts, put_answers};
use session::{ChannelId, Confirmation, Delivery, Event, LinkId, Outbox, Room, Sink};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

/// Answers in a frame at most.
const ANSWERS_MAX: usize = 16 * 1024;

/// The outbox of a session's confirms.
#[derive(Debug)]
pub(super) struct AnswersOutbox {
    connection: PeerConnection,
    /// Bytes of messages that are done with, to be told with the next answers.
    taken: AtomicU64,
    /// A queue whose publishers are to be slowed down, to be told with the next answers; 0 for none.
    slowed: AtomicU64,
}

impl AnswersOutbox {
    pub(super) const fn new(connection: PeerConnection) -> Self {
        Self { connection, taken: AtomicU64::new(0), slowed: AtomicU64::new(0) }
    }

    /// Notes bytes of messages that are done with.
    pub(super) fn note_taken(&self, n_bytes: u64) {
        self.taken.fetch_add(n_bytes, Ordering::Relaxed);
    }

    /// Notes that the publishers of a queue should let its consumers have their turn.
    pub(super) fn note_slowed(&self, queue: QueueId) {
        self.slowed.store(queue.0, Ordering::Relaxed);
    }

    /// Sends answers, and the bytes that were noted.
    #[must_use]
    pub(super) fn send(&self, answers: &[AnsweredPuts]) -> Option<Waker> {
        let n_bytes = self.taken.swap(0, Ordering::Relaxed);
        let slowed = self.slowed.swap(0, Ordering::Relaxed);
        let slowed = (slowed > 0).then_some(QueueId(slowed));
        let mut taken = TakenPuts { n_bytes, slowed };
        let mut frames = Vec::new();
        let mut left = answers;
        while taken != TakenPuts::default() || !left.is_empty() {
            let (now, later) = left.split_at(left.len().min(ANSWERS_MAX));
            let mut body = Vec::new();
            put_answers(&mut body, taken, now);
            frames.push((SessionFrame::Answers, body));
            (taken, left) = (TakenPuts::default(), later);
        }
        if frames.is_empty() { None } else { self.connection.send(frames) }
    }
}

impl Outbox for AnswersOutbox {
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        let mut answers = AnswersSink(Vec::new());
        fill(&mut answers);
        self.send(&answers.0)
    }
}

/// Answers as they come: runs of the same answer are joined.
struct AnswersSink(Vec<AnsweredPuts>);

impl Sink for AnswersSink {
    fn confirm(&mut self, _: ChannelId, first: u64, last: u64, answer: Confirmation<'_>) {
        let refused = match answer {
            Confirmation::Refused(by) => Some(by.why),
            Confirmation::Accepted | Confirmation::Unroutable => None,
        };
        match self.0.last_mut() {
            Some(run) if run.refused == refused && run.last + 1 == first => run.last = last,
            Some(_) | None => self.0.push(AnsweredPuts { first, last, refused }),
        }
    }

    fn deliver(&mut self, _: LinkId, _: Delivery<'_>) -> Room {
        Room::Full
    }

    fn room_bytes(&self) -> usize {
        0
    }

    fn event(&mut self, _: Event<'_>) {}

    fn readable(&mut self, _: LinkId) {}
}
