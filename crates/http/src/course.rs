//! The course of a request: whether anybody waits for its answer, and whether the node goes on. What takes
//! long looks at it after each slice, and ends.

use crate::refusal::Refusal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The course of a request, as its work sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    is_gone: Arc<AtomicBool>,
    is_stopping: Arc<AtomicBool>,
}

/// Whoever waits for the answer: gone once this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<AtomicBool>);

impl Course {
    /// Of a request that begins now.
    pub(crate) fn begin(is_stopping: &Arc<AtomicBool>) -> (Self, Waiting) {
        let is_gone = Arc::<AtomicBool>::default();
        let waiting = Waiting(Arc::clone(&is_gone));
        (Self { is_gone, is_stopping: Arc::clone(is_stopping) }, waiting)
    }

    /// The reason why it is to end, if it is.
    pub(crate) fn end(&self) -> Option<&'static str> {
        if self.is_stopping.load(Ordering::Relaxed) {
            Some("the node is stopping")
        } else if self.is_gone.load(Ordering::Relaxed) {
            Some("the client has gone")
        } else {
            None
        }
    }

    /// Refuses to go on when it is to end.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.end().map_or(Ok(()), |why| Err(Refusal::unavailable(why)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
