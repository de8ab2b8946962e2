//! The end of files after a failure.

use std::fmt::Display;
use std::sync::OnceLock;

/// The first failed write or sync of files that belong together, after which none succeeds: nobody knows
/// what is on the medium, and a second sync would not tell.
#[derive(Debug, Default)]
pub struct Poison(OnceLock<String>);

impl Poison {
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
        done.inspect_err(|error| {
            self.0.get_or_init(|| error.to_string());
        })
    }
}
