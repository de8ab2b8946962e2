//! Regular expressions of `MATCHES`, of the crate `regex`: no text takes more time than its length times the
//! size of the expression. So the larger that is, the less of a text is looked at.

use regex::bytes::{Regex, RegexBuilder};

use super::Steps;

/// The smallest and the largest expression once it is compiled, in bytes, ...
const COMPILED_BYTES_MIN: usize = 1024;
const COMPILED_BYTES_MAX: usize = 256 * 1024;
/// ... the memory that speeds it up, ...
const CACHE_BYTES_MAX: usize = 1024 * 1024;
/// ... and how deep its brackets may be.
const NESTING_MAX: u32 = 50;
/// The part of a text that is looked at, in bytes, ...
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// ... if that does not take more steps than these: a fortieth of a second for the worst expression.
const STEPS_MAX: usize = 8 * 1024 * 1024;
/// Steps that a byte of text takes for each KiB of the compiled expression, at worst.
const STEPS_PER_KIB: usize = 32;

/// An expression.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// For each byte of a text.
    n_steps: usize,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str()
    }
}

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let mut builder = RegexBuilder::new(text);
        builder.dfa_size_limit(CACHE_BYTES_MAX).nest_limit(NESTING_MAX);
        let mut bytes_max = COMPILED_BYTES_MIN;
        loop {
            match builder.size_limit(bytes_max).build() {
                Ok(regex) => {
                    let n_steps = bytes_max / 1024 * STEPS_PER_KIB;
                    return Ok(Self { regex, n_steps });
                }
                Err(regex::Error::CompiledTooBig(_)) if bytes_max < COMPILED_BYTES_MAX => {
                    bytes_max *= 2;
                }
                Err(error) => return Err(reason(error)),
            }
        }
    }

    /// Whether it is found in the text; false where `steps` run out.
    pub(super) fn matches(&self, text: &[u8], steps: &mut Steps) -> bool {
        let text = text.get(..TEXT_BYTES_MAX.min(STEPS_MAX / self.n_steps)).unwrap_or(text);
        steps.take(text.len() * self.n_steps).is_some() && self.regex.is_match(text)
    }
}

fn reason(error: regex::Error) -> String {
    match error {
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
    }
}
