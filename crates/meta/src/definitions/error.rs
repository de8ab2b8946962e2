//! Why a document cannot be imported.

use std::fmt;
use thiserror::Error;

/// The error of a document that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: {reason}")]
pub struct ImportError {
    /// The object, as `queue 'q' in vhost '/'`.
    pub what: String,
    /// The reason.
    pub reason: String,
}

impl ImportError {
    pub(super) fn new(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { what: what.into(), reason: reason.into() }
    }
}

/// Everything that keeps a document from being imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportErrors {
    /// The first objects that cannot be, in the document's order.
    pub errors: Vec<ImportError>,
    /// How many there are besides.
    pub n_more: usize,
}

/// Objects that an answer names.
const ERRORS_MAX: usize = 1_000;

impl ImportErrors {
    pub(super) fn add(&mut self, error: ImportError) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        } else {
            self.n_more += 1;
        }
    }
}

impl std::error::Error for ImportErrors {}

impl fmt::Display for ImportErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if at == 0 { "" } else { "\n" })?;
        }
        if self.n_more > 0 { write!(f, "\nand {} more", self.n_more) } else { Ok(()) }
    }
}

impl From<ImportError> for ImportErrors {
    fn from(error: ImportError) -> Self {
        Self { errors: vec![error], n_more: 0 }
    }
}
