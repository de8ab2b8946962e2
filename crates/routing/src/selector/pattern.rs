//! Regular expressions of `MATCHES`: no text takes more time than its length times the size of the
//! expression. So the larger that is, the less of a text is looked at.

use super::Steps;
use pattern::{Limits, PatternError};

/// The bytes at the beginning of a text that are looked at, if [`STEPS_MAX`] allows.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// The most steps that looking at a text takes: a fortieth of a second for the worst expression.
const STEPS_MAX: usize = 8 * 1024 * 1024;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern(pattern::Pattern);

impl Pattern {
    /// Compiles an expression; `us_left` of the time for those of a filter are left, and taken from.
    pub(super) fn new(text: &str, us_left: &mut u64) -> Result<Self, String> {
        let limits = Limits { classes_us_max: *us_left, ..Limits::FILTER };
        let (pattern, cost_us) = pattern::Pattern::linear(text, &limits).map_err(reason)?;
        *us_left = us_left.saturating_sub(cost_us);
        Ok(Self(pattern))
    }

    /// Whether it is found in the text; false where `steps` run out.
    pub(super) fn matches(&self, text: &[u8], steps: &mut Steps) -> bool {
        let bytes_max = TEXT_BYTES_MAX.min(STEPS_MAX / self.0.steps(1).max(1));
        let text = text.get(..bytes_max).unwrap_or(text);
        steps.take(self.0.steps(text.len())).is_some() && self.0.matches(text)
    }
}

fn reason(error: PatternError) -> String {
    match error {
        PatternError::TooLarge => {
            "the regular expression is too large; (?-u) limits \\w to ASCII and makes it smaller"
                .to_owned()
        }
        PatternError::TooDear | PatternError::TooLong(_) | PatternError::Syntax(_) => {
            format!("the regular expression: {error}")
        }
    }
}
