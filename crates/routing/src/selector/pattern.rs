//! Regular expressions of `MATCHES`, of the crate `regex`: no text takes more than its length times the
//! size of the expression, which is seconds for the worst of both.

use regex::bytes::{Regex, RegexBuilder};

use super::Steps;

/// The largest expression once it is compiled, in bytes, ...
const COMPILED_BYTES_MAX: usize = 256 * 1024;
/// ... the memory that speeds it up, ...
const CACHE_BYTES_MAX: usize = 1024 * 1024;
/// ... and how deep its brackets may be.
const NESTING_MAX: u32 = 50;
/// The part of a text that is looked at, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// An expression.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let mut builder = RegexBuilder::new(text);
        builder
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(CACHE_BYTES_MAX)
            .nest_limit(NESTING_MAX);
        builder.build().map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                "the regular expression is too large; after (?-u) a \\w is one of ASCII, and small"
                    .to_owned()
            }
            // Its last line says what is wrong, those before show where.
            error @ (regex::Error::Syntax(_) | _) => {
                let text = error.to_string();
                let line = text.lines().last().unwrap_or_default();
                format!("the regular expression: {}", line.trim_start_matches("error: "))
            }
        })
    }

    /// Whether it is found in the text; false where `steps` run out.
    pub(super) fn matches(&self, text: &[u8], steps: &mut Steps) -> bool {
        let text = text.get(..TEXT_BYTES_MAX).unwrap_or(text);
        steps.take(text.len()).is_some() && self.0.is_match(text)
    }
}
