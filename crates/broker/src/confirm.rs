//! Confirms that wait for the log: numbered publishes and how far the log must be durable for them.

use log::{Durable, Lsn, Wal};
use session::{ChannelId, Confirmation, Outbox, Sink};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Publishes `first..=last` of a channel wait until the log is durable up to `upto`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) upto: Lsn,
    pub(crate) channel: ChannelId,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// One connection's waiting confirms.
///
/// Lock order: the lock in here, then the outbox's. It is held while the outbox is told, so that
/// after [`ConfirmQueue::forget`] no confirm of that channel is on its way.
pub(crate) struct ConfirmQueue {
    outbox: Arc<dyn Outbox>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In rising order of `upto`.
    waiting: VecDeque<Waiting>,
    watched: bool,
}

impl std::fmt::Debug for ConfirmQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfirmQueue").field("state", &self.state).finish_non_exhaustive()
    }
}

impl ConfirmQueue {
    pub(crate) fn new(outbox: Arc<dyn Outbox>) -> Arc<Self> {
        Arc::new(Self { outbox, state: Mutex::default() })
    }

    /// Adds confirms, in rising order of `upto`.
    pub(crate) fn wait(self: &Arc<Self>, wal: &Wal, waiting: impl IntoIterator<Item = Waiting>) {
        let newly_watched = {
            let mut state = stdx::lock(&self.state);
            state.waiting.extend(waiting);
            !state.waiting.is_empty() && !std::mem::replace(&mut state.watched, true)
        };
        if newly_watched {
            let sink: Arc<dyn Durable> = Arc::<Self>::clone(self);
            wal.watch(sink);
        }
    }

    /// Publishes of a channel that wait.
    pub(crate) fn n_waiting(&self, channel: ChannelId) -> u64 {
        let state = stdx::lock(&self.state);
        let of_channel = state.waiting.iter().filter(|waiting| waiting.channel == channel);
        of_channel.map(|waiting| waiting.last - waiting.first + 1).sum()
    }

    /// Drops what a channel waits for: it is closing.
    pub(crate) fn forget(&self, channel: ChannelId) {
        stdx::lock(&self.state).waiting.retain(|waiting| waiting.channel != channel);
    }
}

impl Durable for ConfirmQueue {
    fn durable(&self, upto: Lsn) -> bool {
        let mut state = stdx::lock(&self.state);
        let n_done = state.waiting.partition_point(|waiting| waiting.upto <= upto);
        let mut waker = None;
        if n_done > 0 {
            waker = self.outbox.batch(&mut |sink: &mut dyn Sink| {
                for done in state.waiting.drain(..n_done) {
                    sink.confirm(done.channel, done.first, done.last, Confirmation::Ack);
                }
            });
        }
        state.watched = !state.waiting.is_empty();
        let keep = state.watched;
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        keep
    }
}

/// The log has failed: what was waited for will never be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogFailed;

/// Resolves when the log is durable up to a point, or never will be.
pub(crate) async fn durable(wal: &Wal, upto: Lsn) -> Result<(), LogFailed> {
    if wal.durable_upto() >= upto {
        return Ok(());
    }
    let (done, wait) = tokio::sync::oneshot::channel();
    wal.watch(Arc::new(Once { upto, done: Mutex::new(Some(done)) }));
    // A log that ends drops its watchers.
    wait.await.map_err(|_| LogFailed)
}

struct Once {
    upto: Lsn,
    done: Mutex<Option<tokio::sync::oneshot::Sender<()>>>,
}

impl Durable for Once {
    fn durable(&self, upto: Lsn) -> bool {
        if upto < self.upto {
            return true;
        }
        if let Some(done) = stdx::lock(&self.done).take() {
            let _gone = done.send(()).is_err();
        }
        false
    }
}
