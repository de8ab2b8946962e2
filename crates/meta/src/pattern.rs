//! Regular expressions of permissions, policies and whatever else is set over names.

use std::fmt;
use std::sync::OnceLock;

use pattern::{Limits, PatternError};

use crate::error::MetaError;

/// The function that is told the expressions whose matches take too many steps.
static TELL: OnceLock<fn(&str)> = OnceLock::new();

/// A compiled expression in Perl's syntax. Equal if the texts are.
///
/// A name that takes too many steps is no match: a permission then denies, and a policy does not apply.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Whether the pattern matches the empty name, and no other.
    is_empty: bool,
    pattern: pattern::Pattern,
}

impl Pattern {
    /// Compiles an expression that is stored, or that the configuration has.
    ///
    /// # Errors
    /// [`MetaError::InvalidPattern`] with the reason in one line.
    pub fn new(text: &str) -> Result<Self, MetaError> {
        let pattern = pattern::Pattern::stored(text).map_err(|error| invalid(text, &error))?;
        Ok(Self { is_empty: false, pattern })
    }

    /// Compiles an expression of a permission. COMPAT: there the empty one stands for `^$`.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn for_permission(text: &str) -> Result<Self, MetaError> {
        Ok(Self { is_empty: text.is_empty(), ..Self::new(text)? })
    }

    /// Compiles an expression that somebody asks with, or sets now, within a budget of size and time.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn within_budget(text: &str) -> Result<Self, MetaError> {
        let pattern = pattern::Pattern::perl(text, &Limits::NAMES);
        Ok(Self { is_empty: false, pattern: pattern.map_err(|error| invalid(text, &error))? })
    }

    /// Has this told of each expression, once, when a match of it takes too many steps.
    pub fn tell_when_out_of_steps(tell: fn(&str)) {
        // The first function set is told, and no later one.
        TELL.set(tell).ok();
    }

    /// The expression.
    pub fn as_str(&self) -> &str {
        self.pattern.as_str()
    }

    /// The program.
    pub const fn compiled(&self) -> &pattern::Pattern {
        &self.pattern
    }

    /// Whether the pattern is found anywhere in the input.
    #[must_use]
    pub fn matches(&self, input: &[u8]) -> bool {
        if self.is_empty {
            return input.is_empty();
        }
        self.told(self.pattern.matches(input))
    }

    /// Whether the pattern is found in the input within `steps_max` steps: for one tried on every name.
    #[must_use]
    pub(crate) fn matches_within(&self, input: &[u8], steps_max: usize) -> bool {
        self.told(self.pattern.matches_within(input, steps_max))
    }

    /// Tells of an expression that took too many steps, the first time.
    fn told(&self, is_found: bool) -> bool {
        if !is_found
            && self.pattern.tells_now()
            && let Some(tell) = TELL.get()
        {
            tell(self.as_str());
        }
        is_found
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.pattern, f)
    }
}

fn invalid(text: &str, error: &PatternError) -> MetaError {
    MetaError::InvalidPattern { pattern: text.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_permission_matches_only_the_empty_name() {
        let nothing = Pattern::for_permission("").unwrap();
        assert!(nothing.matches(b"") && !nothing.matches(b"a"));
        assert!(Pattern::new("").unwrap().matches(b"a"));
        assert!(Pattern::for_permission("^(?!amq\\.)").unwrap().matches(b"a"));
    }

    #[test]
    fn what_was_stored_once_is_taken_though_it_is_beyond_the_budget_of_new_ones() {
        for text in ["\\p{L}{20}", "[a-z]{5000}", "a\\u{62}c"] {
            assert!(Pattern::new(text).is_ok(), "{text}");
            let error = Pattern::within_budget(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid regexp '{text}': ")), "{error}");
        }
        assert!(Pattern::new("(").is_err() && Pattern::new("a{1000}{1000}{1000}").is_err());
    }

    #[test]
    fn what_takes_too_many_steps_is_no_match() {
        let pattern = Pattern::new("^(a+)+\\1b$").unwrap();
        assert!(!pattern.matches(&[b'a'; 255]));
        assert!(pattern.matches(b"aab"));
    }
}
