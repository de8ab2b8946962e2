//! The failure of a background thread, which ends the log.

use log::LogError;
use std::sync::{Arc, OnceLock};

/// The first failure of something the log relies on; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Poison(Arc<OnceLock<String>>);

impl Poison {
    /// Notes the failure, if it is the first: from now on nothing is reported durable.
    pub fn note(&self, reason: &dyn ToString) {
        self.0.get_or_init(|| reason.to_string());
    }

    /// Checks for a failure, before the log reports anything durable.
    ///
    /// # Errors
    /// There was a failure.
    pub fn check(&self) -> Result<(), LogError> {
        match self.0.get() {
            None => Ok(()),
            Some(reason) => Err(LogError::Poisoned { reason: reason.clone() }),
        }
    }
}
