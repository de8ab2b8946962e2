//! Messages that other nodes put into queues of this one.

use super::peer_session::{CHANNEL, PeerSession, begin};
use crate::broker::Broker;
use crate::publish::{
    Answers, Batch, MessageOverrides, PendingPublish, Source, n_durable, shared_body,
};
use crate::session::Turn;
use confirm::{DurabilityToken, Publisher};
use message::{MessageRef, Refusal};
use queue_type::QueueHost as _;
use queues::QueueRef;
use remote::wire::{AnsweredPuts, PutFrame, PutItem};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The messages of a frame.
struct PutSource<'f> {
    messages: Vec<MessageRef<'f>>,
    publisher: &'f Arc<Publisher>,
}

impl Source for PutSource<'_> {
    fn message(&self, index: u32) -> MessageRef<'_> {
        *self.messages.get(index as usize).expect("each publish has a message")
    }

    fn publisher(&self, _: &PendingPublish) -> Option<&Arc<Publisher>> {
        Some(self.publisher)
    }
}

impl PeerSession {
    /// Puts the messages of a frame into their queue once that is loaded, and answers each.
    pub(super) async fn put(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        turn: &mut Turn,
        frame: &PutFrame,
    ) {
        let Some(queue) = self.find_queue(broker, turn, frame.queue).await else {
            self.refuse_put(broker, turn, frame);
            return;
        };
        let (source, mut batch) = self.gather(&queue, frame);
        let awaited = put_in(broker, turn, &mut batch, &source).await;
        let tracing = &broker.timers.tracing;
        if tracing.is_watched() {
            batch.show(tracing, None, &source);
        }
        for letters in batch.take_undelivered() {
            broker.timers.send_rejected(letters);
        }
        if queue.slows_down() {
            self.answers.note_slowed(queue.id());
        }
        self.note_taken(broker, frame);
        let wal = &broker.classic.storage().wal;
        let (answers, confirms) = (&self.answers, &self.confirms);
        let mut told = None;
        let committer = Answers(&batch).confirm(&source, &awaited, confirms, wal, |fill| {
            told = session::Outbox::batch(&**answers, fill);
        });
        turn.commit_by(committer);
        turn.wakes().extend(told.into_iter().chain(answers.send(&[])));
    }

    /// Gathers the messages of a frame in a batch.
    fn gather<'f>(&'f self, queue: &QueueRef, frame: &'f PutFrame) -> (PutSource<'f>, Batch) {
        let queues = slice::from_ref(queue);
        let (mut messages, mut batch) = (Vec::new(), Batch::default());
        // The items were read before.
        for PutItem { message, named } in frame.items().filter_map(Result::ok) {
            if message.index().expiration().is_some() {
                batch.note_expiring();
            }
            let body = shared_body(message.body, queues.len());
            let changed = MessageOverrides { body, named, ..MessageOverrides::default() }.boxed();
            let index = messages.len();
            let publish = PendingPublish {
                channel: CHANNEL,
                sequence: frame.first + index as u64,
                logged: message.persistent && n_durable(queues) > 0,
                changed,
                ..PendingPublish::of(index)
            };
            batch.add(publish, queues);
            messages.push(message);
        }
        (PutSource { messages, publisher: &self.publisher }, batch)
    }

    /// Refuses messages for a queue that is not here.
    fn refuse_put(self: &Arc<Self>, broker: &Arc<Broker>, turn: &mut Turn, frame: &PutFrame) {
        self.note_taken(broker, frame);
        let n = frame.items().count() as u64;
        let (first, last) = (frame.first, (frame.first + n).saturating_sub(1));
        let refused = AnsweredPuts { first, last, refused: Some(Refusal::Deleted) };
        let refused = (n > 0).then_some(refused);
        turn.wakes().extend(self.answers.send(refused.as_slice()));
    }

    /// Notes that the messages of a frame are done with, which their node is told with the next answers, or,
    /// while the log, pager or rules have no room, as soon as they have.
    fn note_taken(self: &Arc<Self>, broker: &Arc<Broker>, frame: &PutFrame) {
        let n_bytes = frame.n_bytes() as u64;
        if broker.classic.services.has_capacity() {
            self.answers.note_taken(n_bytes);
        } else if self.withheld.fetch_add(n_bytes, Ordering::Relaxed) == 0 && n_bytes > 0 {
            let (session, broker) = (Arc::clone(self), Arc::clone(broker));
            begin(async move {
                broker.classic.services.capacity().await;
                session.answers.note_taken(session.withheld.swap(0, Ordering::Relaxed));
                session.answers.send(&[]).into_iter().for_each(std::task::Waker::wake);
            });
        }
    }
}

/// Puts a batch into its queue; others have their turn in between if it is large.
async fn put_in(
    broker: &Broker,
    turn: &mut Turn,
    batch: &mut Batch,
    source: &PutSource<'_>,
) -> DurabilityToken {
    loop {
        match batch.put_in(source, turn.wakes()) {
            Some(awaited) => return awaited,
            None => {
                turn.give_way().await;
                broker.classic.services.capacity().await;
            }
        }
    }
}
