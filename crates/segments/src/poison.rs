//! The end of something after a failure.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

/// The first failure of things that belong together, after which none of them goes on: nobody knows what is
/// on the medium, and a second sync would not tell. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Poison(Arc<OnceLock<String>>);

impl Poison {
    /// Notes a failure, if it is the first.
    pub fn note(&self, reason: &dyn ToString) {
        self.0.get_or_init(|| reason.to_string());
    }

    /// Fails after a failure, of which `error` makes an error.
    ///
    /// # Errors
    /// That one.
    pub fn check<E>(&self, error: impl FnOnce(String) -> E) -> Result<(), E> {
        self.0.get().map_or(Ok(()), |reason| Err(error(reason.clone())))
    }

    /// Remembers the error of an operation, if it is the first.
    ///
    /// # Errors
    /// That of the operation.
    pub fn of<T, E: Display>(&self, done: Result<T, E>) -> Result<T, E> {
        done.inspect_err(|error| self.note(error))
    }
}
