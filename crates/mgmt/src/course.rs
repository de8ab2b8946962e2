//! The course of a request: whether anybody waits for its answer, and whether the node goes on. Long work
//! checks the course after each slice, and ends with it.

use crate::api_error::ApiError;
use api::ErrorCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The course of a request, as its work sees it.
#[derive(Clone, Debug, Default)]
pub struct Course {
    is_gone: Arc<AtomicBool>,
    is_stopping: Arc<AtomicBool>,
}

/// The client's wait for an answer: dropping this says that the client has disconnected.
#[derive(Debug)]
pub struct Waiting(Arc<AtomicBool>);

impl Course {
    /// Begins the course of a request.
    #[must_use]
    pub fn begin(is_stopping: &Arc<AtomicBool>) -> (Self, Waiting) {
        let is_gone = Arc::<AtomicBool>::default();
        let waiting = Waiting(Arc::clone(&is_gone));
        (Self { is_gone, is_stopping: Arc::clone(is_stopping) }, waiting)
    }

    /// The reason why the work is to end, if it is.
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

    /// Fails when the work is to end.
    ///
    /// # Errors
    /// The client has disconnected, or the node is stopping.
    pub fn check(&self) -> Result<(), ApiError> {
        self.end().map_or(Ok(()), |why| Err(ApiError::new(ErrorCode::Ended, why)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
