//! The `rabbitmq.conf` line format: `key.name = value`, `#` comments, values in single quotes.
//! Yields settings with their place; knows nothing of what the keys mean.

use std::fmt;
use std::path::{Path, PathBuf};

/// The place where a setting was given, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A line of a configuration file, counted from one.
    Line(PathBuf, usize),
    /// A variable of the environment.
    Variable(&'static str),
    /// A `--set` argument.
    CommandLine,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::CommandLine => f.write_str("--set"),
        }
    }
}

/// A setting `key = value`, not yet looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The dot-separated segments of the key, escapes resolved.
    pub(crate) key: Vec<String>,
    /// The value without quotes, surrounding blanks and comment.
    pub(crate) value: String,
    /// The place where the setting was given.
    pub(crate) place: Place,
}

/// The error of a line or `--set` argument that is not a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SyntaxError {
    /// The error of a file of Erlang terms.
    #[error("{0}")]
    Term(&'static str),
    #[error("expected `key = value`")]
    NoEquals,
    #[error("a key is made of dot-separated names of letters, digits, `_` and `-`")]
    BadKey,
    #[error("the value is missing")]
    NoValue,
    #[error("the quoted value has no closing `'` on its line")]
    OpenQuote,
    #[error("only a comment may follow a quoted value")]
    AfterQuote,
    #[error("`include` is not supported: give --config once per file, or a directory")]
    Include,
    #[error("encrypted values are not supported: write the value itself, and protect the file")]
    Encrypted,
    #[error("`$(...)` substitution is not supported: write the value itself")]
    Substitution,
}

/// A setting, or where and why there is none.
pub(crate) type ParsedLine = Result<Setting, (Place, SyntaxError)>;

/// Parses a whole file, its settings and errors in order. `path` is only used to say where they stand.
pub(crate) fn parse_file(path: &Path, text: &str) -> Vec<ParsedLine> {
    let mut settings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let place = Place::Line(path.to_owned(), number);
        match parse_line(line) {
            Ok(None) => {}
            Ok(Some((key, value))) => settings.push(Ok(Setting { key, value, place })),
            Err(error) => settings.push(Err((place, error))),
        }
    }
    settings
}

/// Parses the argument of `--set`. The value is taken as it is: no quotes, no comments.
pub(crate) fn parse_argument(argument: &str) -> Result<Setting, SyntaxError> {
    let (key, value) = argument.split_once('=').ok_or(SyntaxError::NoEquals)?;
    let value = checked(value.trim())?;
    Ok(Setting { key: parse_key(key.trim())?, value, place: Place::CommandLine })
}

fn parse_line(line: &str) -> Result<Option<(Vec<String>, String)>, SyntaxError> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if line.strip_prefix("include").is_some_and(|rest| rest.starts_with([' ', '\t']))
        && !line.contains('=')
    {
        return Err(SyntaxError::Include);
    }
    let (key, value) = line.split_once('=').ok_or(SyntaxError::NoEquals)?;
    let key = parse_key(key.trim())?;
    let value = value.trim();
    let value = match value.strip_prefix('\'') {
        Some(quoted) => unquote(quoted)?,
        // COMPAT: outside quotes `#` begins a comment anywhere, also within a word.
        None => value.split('#').next().unwrap_or_default().trim_end(),
    };
    Ok(Some((key, checked(value)?)))
}

fn unquote(after_quote: &str) -> Result<&str, SyntaxError> {
    let (value, rest) = after_quote.split_once('\'').ok_or(SyntaxError::OpenQuote)?;
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with('#') { Ok(value) } else { Err(SyntaxError::AfterQuote) }
}

fn checked(value: &str) -> Result<String, SyntaxError> {
    if value.is_empty() {
        Err(SyntaxError::NoValue)
    } else if value.starts_with("encrypted:") {
        Err(SyntaxError::Encrypted)
    } else if value.contains("$(") {
        Err(SyntaxError::Substitution)
    } else {
        Ok(value.to_owned())
    }
}

/// Splits at dots; `\.` stands for a dot within a segment.
fn parse_key(key: &str) -> Result<Vec<String>, SyntaxError> {
    let mut segments = vec![String::new()];
    let mut chars = key.chars();
    while let Some(c) = chars.next() {
        let dot_within = c == '\\' && chars.next() == Some('.');
        if c == '.' {
            segments.push(String::new());
        } else if let Some(last) = segments.last_mut() {
            match c {
                '\\' if dot_within => last.push('.'),
                'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => last.push(c),
                _ => return Err(SyntaxError::BadKey),
            }
        }
    }
    if segments.iter().any(String::is_empty) { Err(SyntaxError::BadKey) } else { Ok(segments) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Option<(String, String)>, SyntaxError> {
        parse_line(text).map(|found| found.map(|(key, value)| (key.join("/"), value)))
    }

    fn setting(key: &str, value: &str) -> Result<Option<(String, String)>, SyntaxError> {
        Ok(Some((key.to_owned(), value.to_owned())))
    }

    #[test]
    fn lines_are_read_as_the_format_says() {
        for nothing in ["", "  \t", "# a = b", "  ## c"] {
            assert_eq!(line(nothing), Ok(None));
        }
        assert_eq!(line("heartbeat = 60"), setting("heartbeat", "60"));
        assert_eq!(line("\tlog.console=true  # now"), setting("log/console", "true"));
        assert_eq!(line("default_pass = 'a#b ' # c"), setting("default_pass", "a#b "));
        assert_eq!(line("default_pass = a#b"), setting("default_pass", "a"));
        assert_eq!(line("default_pass = \"x\""), setting("default_pass", "\"x\""));
        assert_eq!(line(r"loopback_users.a\.b = true"), setting("loopback_users/a.b", "true"));
        assert_eq!(line("cluster_name = é = è"), setting("cluster_name", "é = è"));
        assert_eq!(line("include_x = 1"), setting("include_x", "1"));
    }

    #[test]
    fn what_is_not_a_setting_is_refused_with_its_reason() {
        for (text, error) in [
            ("heartbeat 60", SyntaxError::NoEquals),
            ("= 60", SyntaxError::BadKey),
            ("a..b = 60", SyntaxError::BadKey),
            (r"a\b = 60", SyntaxError::BadKey),
            ("a b = 60", SyntaxError::BadKey),
            ("heartbeat =", SyntaxError::NoValue),
            ("heartbeat = # 60", SyntaxError::NoValue),
            ("heartbeat = ''", SyntaxError::NoValue),
            ("default_pass = 'a", SyntaxError::OpenQuote),
            ("default_pass = 'a' b", SyntaxError::AfterQuote),
            ("include conf.d/*.conf", SyntaxError::Include),
            ("default_pass = encrypted:abc", SyntaxError::Encrypted),
            ("default_pass = $(<secret)", SyntaxError::Substitution),
        ] {
            assert_eq!(line(text), Err(error), "{text}");
        }
    }

    #[test]
    fn an_error_carries_its_line() {
        let text = "# one\r\nheartbeat = 60\r\nbroken\r\n";
        let mut parsed = parse_file(Path::new("a.conf"), text);
        let (place, error) = parsed.pop().unwrap().unwrap_err();
        assert_eq!((place.to_string().as_str(), error), ("a.conf:3", SyntaxError::NoEquals));
    }

    #[test]
    fn an_argument_keeps_its_value_as_it_is() {
        let setting = parse_argument("default_pass=it's #1 = best").unwrap();
        assert_eq!(setting.key, ["default_pass"]);
        assert_eq!(setting.value, "it's #1 = best");
        assert_eq!(parse_argument("heartbeat"), Err(SyntaxError::NoEquals));
    }
}
