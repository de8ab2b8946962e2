//! Publishers and subscriptions of a stream as listings show them, and who else has to know them.

use meta::ConnectionId;
use session::{Outbox, Properties, PublisherId, StreamRefusal, SubscriptionId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

/// Publishing ids that follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdRun {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// A publisher as its stream knows it.
pub(crate) struct Registered {
    pub(crate) connection: ConnectionId,
    pub(crate) id: PublisherId,
    pub(crate) outbox: Arc<dyn Outbox>,
    /// Its name; without one repeated publishes are not told apart.
    pub(crate) reference: Option<Arc<[u8]>>,
    n_published: AtomicU64,
    n_confirmed: AtomicU64,
    n_refused: AtomicU64,
    /// Whether the stream has no publisher like this any more.
    is_gone: AtomicBool,
}

/// A publisher of a stream. Messages here are what has a publishing id: a sub-batch is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherView {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its number there.
    pub id: PublisherId,
    /// Its name.
    pub reference: Option<Arc<[u8]>>,
    /// Messages that were published.
    pub n_published: u64,
    /// Messages that were confirmed.
    pub n_confirmed: u64,
    /// Messages that were refused.
    pub n_refused: u64,
}

/// A subscription to a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionView {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its number there.
    pub id: SubscriptionId,
    /// Everything its client said of it.
    pub properties: Properties,
    /// Its offset, credit and counts.
    pub figures: SubscriptionFigures,
}

/// Figures of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionFigures {
    /// Chunks it may still be given.
    pub credit: i64,
    /// Messages it was given.
    pub n_messages: u64,
    /// The offset behind the last chunk that was given.
    pub next_offset: u64,
}

impl Registered {
    pub(crate) fn new(
        connection: ConnectionId,
        id: PublisherId,
        reference: Option<&[u8]>,
        outbox: &Arc<dyn Outbox>,
    ) -> Self {
        let (outbox, reference) = (Arc::clone(outbox), reference.map(Arc::from));
        let [n_published, n_confirmed, n_refused] = [const { AtomicU64::new(0) }; 3];
        let is_gone = AtomicBool::new(false);
        Self { connection, id, outbox, reference, n_published, n_confirmed, n_refused, is_gone }
    }

    pub(crate) fn set_gone(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Counts messages that came.
    pub(crate) fn count(&self, n: u64) {
        self.n_published.fetch_add(n, Ordering::Relaxed);
    }

    /// Tells its client what became of runs of publishing ids.
    pub(crate) fn answer(
        &self,
        runs: &[IdRun],
        answer: Result<(), StreamRefusal>,
    ) -> Option<Waker> {
        let counter = if answer.is_ok() { &self.n_confirmed } else { &self.n_refused };
        let n = runs.iter().map(|run| run.last - run.first + 1).sum();
        counter.fetch_add(n, Ordering::Relaxed);
        self.outbox.batch(&mut |sink| {
            for run in runs {
                sink.answer_append(self.id, run.first, run.last, answer);
            }
        })
    }

    pub(crate) fn view(&self) -> PublisherView {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PublisherView {
            connection: self.connection,
            id: self.id,
            reference: self.reference.clone(),
            n_published: read(&self.n_published),
            n_confirmed: read(&self.n_confirmed),
            n_refused: read(&self.n_refused),
        }
    }
}
