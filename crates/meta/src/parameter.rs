//! JSON that operators store: parameters and policy definitions.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::error::MetaError;

/// The longest JSON text stored, in bytes.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Valid JSON, kept as its text. Equal if the texts are.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    /// Checks a text.
    ///
    /// # Errors
    /// [`MetaError::Invalid`] if it is not JSON or too long.
    pub fn parse(text: &str) -> Result<Self, MetaError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(MetaError::Invalid(format!("JSON is longer than {TEXT_BYTES_MAX} bytes")));
        }
        match serde_json::from_str::<Value>(text) {
            Ok(_) => Ok(Self(Arc::from(text))),
            Err(reason) => {
                Err(MetaError::Invalid(format!("JSON decoding error. Reason: {reason}")))
            }
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).expect("the text was checked when it came in")
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
