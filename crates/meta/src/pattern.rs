//! Regular expressions of permissions and policies.
//!
//! RabbitMQ takes Perl's dialect (PCRE). What the two dialects write alike works alike, unanchored as
//! there; look-around, back references and the like have no equivalent in time linear to the input
//! and are refused when the expression is set.

use std::fmt;

use regex::bytes::{Regex, RegexBuilder};

use crate::error::MetaError;

/// The longest expression, in bytes.
const TEXT_BYTES_MAX: usize = 4 * 1024;

/// The largest compiled form, in bytes: `a{1000}{1000}` is short.
const COMPILED_BYTES_MAX: usize = 1024 * 1024;

/// A compiled expression. Equal if the texts are.
#[derive(Clone)]
pub struct Pattern {
    text: Box<str>,
    matcher: Matcher,
}

#[derive(Clone)]
enum Matcher {
    Empty,
    Everything,
    Regex(Regex),
}

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`MetaError::InvalidPattern`] with the reason in one line.
    pub fn new(text: &str) -> Result<Self, MetaError> {
        let matcher = match text {
            "" | ".*" | "^.*" | "^.*$" => Matcher::Everything,
            _ => Matcher::Regex(compile(text)?),
        };
        Ok(Self { text: text.into(), matcher })
    }

    /// Compiles an expression of a permission. COMPAT: there the empty one stands for `^$`.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn for_permission(text: &str) -> Result<Self, MetaError> {
        if text.is_empty() {
            return Ok(Self { text: text.into(), matcher: Matcher::Empty });
        }
        Self::new(text)
    }

    /// The expression.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is found anywhere in the input.
    #[must_use]
    pub fn matches(&self, input: &[u8]) -> bool {
        match &self.matcher {
            Matcher::Empty => input.is_empty(),
            Matcher::Everything => true,
            Matcher::Regex(regex) => regex.is_match(input),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

fn compile(text: &str) -> Result<Regex, MetaError> {
    let invalid = |reason: String| MetaError::InvalidPattern { pattern: text.to_owned(), reason };
    if text.len() > TEXT_BYTES_MAX {
        return Err(invalid(format!("it is longer than {TEXT_BYTES_MAX} bytes")));
    }
    RegexBuilder::new(&translated(text))
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| invalid(one_line(&error)))
}

/// The last line of the crate's drawing says what is wrong.
fn one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// Writes what PCRE takes literally so that it is literal here too: a `{` that opens no repetition,
/// and `[`, `&`, `~` inside a class.
fn translated(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_class = false;
    while let Some(first) = rest.chars().next() {
        let n_taken = match first {
            '\\' => rest.chars().take(2).map(char::len_utf8).sum(),
            '[' if !in_class => {
                in_class = true;
                class_start_len(rest)
            }
            '[' if rest.starts_with("[:") => rest.find(":]").map_or(2, |at| at + 2),
            ']' if in_class => {
                in_class = false;
                1
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                1
            }
            '{' if !in_class && !opens_repetition(rest) => {
                out.push('\\');
                1
            }
            _ => first.len_utf8(),
        };
        let (taken, left) = rest.split_at(n_taken);
        out.push_str(taken);
        rest = left;
    }
    out
}

/// The length of `[`, `[^`, `[]` or `[^]`: a bracket right at the start is literal.
fn class_start_len(rest: &str) -> usize {
    let n = if rest.starts_with("[^") { 2 } else { 1 };
    if rest.get(n..).is_some_and(|rest| rest.starts_with(']')) { n + 1 } else { n }
}

/// Whether this is `{n}`, `{n,}` or `{n,m}`.
fn opens_repetition(rest: &str) -> bool {
    let Some((inside, _)) = rest.get(1..).and_then(|rest| rest.split_once('}')) else {
        return false;
    };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && is_number(least) && is_number(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, input: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(input.as_bytes())
    }

    #[test]
    fn unanchored_and_an_empty_permission_matches_only_the_empty_name() {
        assert!(matches("b", "abc"));
        assert!(matches("^a", "abc"));
        assert!(!matches("^b", "abc"));
        assert!(matches("^(amq\\.gen.*|amq\\.default)$", "amq.gen-x"));
        assert!(matches("", "a"));
        let nothing = Pattern::for_permission("").unwrap();
        assert!(nothing.matches(b"") && !nothing.matches(b"a"));
        assert!(matches(".*", "anything\n"));
        assert!(matches("^$", ""));
        assert!(!matches("^$", "a"));
        assert!(matches("(?i)ABC", "abc"));
        assert!(Pattern::new(".*").unwrap().matches(&[0xff]));
    }

    #[test]
    fn what_perl_takes_literally_is_literal() {
        assert!(matches("^{a}$", "{a}"));
        assert!(matches("^a{2}$", "aa"));
        assert!(matches("^a{1,}$", "aaa"));
        assert!(matches("^a{,2}$", "a{,2}"));
        assert!(matches("^[[a]+$", "[a["));
        assert!(matches("^[a&&b]+$", "a&b"));
        assert!(matches("^[]a]+$", "]a"));
        assert!(matches("^[^]a]+$", "bc"));
        assert!(matches("^[[:digit:]]+$", "12"));
        assert!(matches("^\\{\\[$", "{["));
    }

    #[test]
    fn what_cannot_be_done_is_refused_in_one_line() {
        for pattern in ["(?=a)", "(a)\\1", "(", "a{1000}{1000}{1000}", "(?<!x)y"] {
            let error = Pattern::new(pattern).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with(&format!("invalid regexp '{pattern}': ")), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
        assert!(Pattern::new(&"a".repeat(TEXT_BYTES_MAX + 1)).is_err());
    }
}
