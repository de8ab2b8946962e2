//! Whether a queue is still being read after a start, and who waits for that.

use super::Queue;
use content::Journal;
use log::Lsn;
use queue_type::Wakes;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

/// Whether a queue is still being read after a start: its journal, or page images that the core has to
/// know of.
#[derive(Debug, Default)]
pub(super) struct Loading {
    is_loading: bool,
    /// Wakers of tasks that wait for the end of loading.
    waiting: Vec<Waker>,
}

/// The content of the files of a queue of version 1.
pub(crate) struct V1Content {
    pub(crate) journal: Arc<Journal>,
    pub(crate) next_position: u64,
    /// Position below which messages may have been delivered.
    pub(crate) seen_below: u64,
    /// End of the log from which on the queue has this version.
    pub(crate) log_upto: Lsn,
}

impl Loading {
    pub(super) const fn new(is_loading: bool) -> Self {
        Self { is_loading, waiting: Vec::new() }
    }

    pub(super) const fn is_loading(&self) -> bool {
        self.is_loading
    }

    /// From now on clients wait until the queue is read.
    pub(super) fn start(&mut self, queue: &Queue) {
        self.is_loading = true;
        queue.is_loading.store(true, Ordering::Release);
    }

    /// The queue has its messages: who waited for that goes on.
    pub(super) fn end(&mut self, queue: &Queue, wakes: &mut Wakes) {
        if !std::mem::take(&mut self.is_loading) {
            return;
        }
        queue.is_loading.store(false, Ordering::Release);
        wakes.extend(self.waiting.drain(..));
        queue.services.host.queue_loaded();
    }
}

impl Queue {
    /// Whether it is still being read after a start: its clients wait for [`Queue::loaded`].
    pub fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Acquire)
    }

    /// Resolves when the queue has its messages.
    pub async fn loaded(&self) {
        if !self.is_loading() {
            return;
        }
        poll_fn(|context| {
            let mut state = stdx::lock(&self.state);
            if state.deleted || !state.loading.is_loading {
                return Poll::Ready(());
            }
            stdx::add_waker(&mut state.loading.waiting, context.waker());
            Poll::Pending
        })
        .await;
    }
}
