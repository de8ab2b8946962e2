//! The course of a request: whether anybody waits for its answer, and whether the node goes on. What takes
//! long looks at it after each slice, and ends.

use crate::api_error::{ApiError, Kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The course of a request, as its work sees it.
#[derive(Clone, Debug, Default)]
pub struct Course {
    is_gone: Arc<AtomicBool>,
    is_stopping: Arc<AtomicBool>,
}

/// Whoever waits for the answer: gone once this is dropped.
#[derive(Debug)]
pub struct Waiting(Arc<AtomicBool>);

impl Course {
    /// Of a request that begins now.
    #[must_use]
    pub fn begin(is_stopping: &Arc<AtomicBool>) -> (Self, Waiting) {
        let is_gone = Arc::<AtomicBool>::default();
        let waiting = Waiting(Arc::clone(&is_gone));
        (Self { is_gone, is_stopping: Arc::clone(is_stopping) }, waiting)
    }

    /// The reason why it is to end, if it is.
    #[must_use]
    pub fn end(&self) -> Option<&'static str> {
        if self.is_stopping.load(Ordering::Relaxed) {
            Some("the node is stopping")
        } else if self.is_gone.load(Ordering::Relaxed) {
            Some("the client has disconnected")
        } else {
            None
        }
    }

    /// Refuses to go on when it is to end.
    ///
    /// # Errors
    /// It is.
    pub fn check(&self) -> Result<(), ApiError> {
        self.end().map_or(Ok(()), |why| Err(ApiError::new(Kind::Ended, why)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
