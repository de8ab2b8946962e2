//! Filters of operators: selectors with more words, over all that a message is.

use message::MessageRef;

use super::sql::{self, Extent};
use super::subject::Subject;
use super::tokens::Refused;
use super::{Expression, Steps, TEXT_BYTES_MAX};

/// The part of a body that a filter looks at, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// The steps of one message: some looks at a body of that length, a tenth of a second at most.
const STEPS_MAX: usize = 18 * 1024 * 1024;

/// The error of a text that is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {reason}")]
pub struct FilterError {
    /// The place where the text cannot be read on: the number of a character, from 1.
    pub column: usize,
    /// The text that stands there, and what is expected.
    pub reason: String,
}

impl FilterError {
    pub(super) fn at(text: &str, refused: Refused) -> Self {
        let before = text.get(..refused.at).unwrap_or(text);
        Self { column: before.chars().count() + 1, reason: refused.reason }
    }
}

/// A message that a filter is to match.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The message; what it says of its body is not looked at.
    pub message: &'a MessageRef<'a>,
    /// The body; none where it is hidden, or not read because the filter does not look at it.
    pub body: Option<&'a [u8]>,
    /// Whether it was delivered before.
    pub redelivered: bool,
}

impl<'a> Candidate<'a> {
    /// The part of the body that is looked at.
    pub(super) fn body_seen(&self) -> Option<&'a [u8]> {
        self.body.map(|body| body.get(..BODY_BYTES_MAX).unwrap_or(body))
    }
}

/// A condition over messages: a selector of JMS, in SQL, in which these names are known too.
///
/// - `exchange`, `routing_key`, `redelivered`, `body`, and properties by RabbitMQ's names (`content_type`,
///   `priority`, `timestamp` in seconds, ...): they mean these, whatever headers a message has.
///   `properties.NAME` is the same.
/// - Any other name is a header, or what JMS calls so (`JMSPriority`). `header.NAME` and `"any name"` are
///   headers that are called like something else. A `-` is part of a name that begins with `x-` or `header.`.
/// - `x-death.queue`, `.reason`, `.exchange`, `.count`, `.time`, `.original-expiration` of the latest death.
/// - `text MATCHES 'regular expression'`: somewhere in the text.
/// - `$.order.items[0]['unit price']`: the value there of a body that is JSON; an array or object is neither
///   equal to anything nor NULL. The body is read until all such values are found.
///
/// Of a body of over 1 MiB the first MiB is looked at, by regular expressions the first 256 KiB of a text.
///
/// A part that is missing is unknown, and what is not certainly true is no match. Neither
/// is what takes too many steps: the time for a message is bounded whatever the filter says.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    expression: Expression,
    extent: Extent,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// The text that stands at a place, and what is expected there; a text that is too long or too deep.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if text.len() > TEXT_BYTES_MAX {
            let reason = format!("longer than {TEXT_BYTES_MAX} bytes");
            return Err(FilterError { column: 1, reason });
        }
        let read = sql::filter(text).map_err(|refused| FilterError::at(text, refused));
        read.map(|(expression, extent)| Self { expression, extent })
    }

    /// Whether it can match a message by its body.
    pub const fn reads_body(&self) -> bool {
        self.extent.reads_body
    }

    /// Whether the filter is true for a message. A filter that looks at bodies never is where the body is
    /// hidden.
    #[must_use]
    pub fn matches(&self, candidate: &Candidate<'_>) -> bool {
        if self.reads_body() && candidate.body.is_none() {
            return false;
        }
        self.expression
            .is_true(&Subject::of_filter(candidate, &self.extent.paths), &mut Steps::new(STEPS_MAX))
    }
}

#[cfg(test)]
mod tests;
