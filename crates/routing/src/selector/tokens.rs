//! The words of selectors and of operators' filters.

use super::json::{DEPTH_MAX, Step};
use super::section_field::SectionField;

/// A text that cannot be read on.
pub(super) struct Refused {
    /// The place, in bytes.
    pub(super) at: usize,
    pub(super) reason: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A keyword in capitals, or a name.
    Word(String),
    /// A name that cannot be a keyword.
    Header(String),
    Field(SectionField),
    Path(Vec<Step>),
    Symbol(&'static str),
    Integer(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

const SYMBOLS: [&str; 13] = ["<>", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "(", ")", ","];

pub(super) const KEYWORDS: [&str; 12] = [
    "AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE", "UNKNOWN",
];
/// A keyword of filters.
pub(super) const MATCHES: &str = "MATCHES";
/// The starts of names that go on over a `-`, in filters.
const DASHED: [&str; 3] = ["x-", "header.", "properties.headers."];

/// A part of a text that is read, and the rest; or the rest where it cannot be read on, and why.
pub(super) type Read<'t, T> = Result<(T, &'t str), (&'t str, String)>;

/// A token and its place.
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) at: usize,
    pub(super) end: usize,
}

pub(super) fn tokens(text: &str, is_filter: bool) -> Result<Vec<Placed>, Refused> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let read = token(first, rest, is_filter);
        let (token, left) =
            read.map_err(|(at, reason)| Refused { at: text.len() - at.len(), reason })?;
        tokens.push(Placed { token, at: text.len() - rest.len(), end: text.len() - left.len() });
        rest = left.trim_start();
    }
    Ok(tokens)
}

fn token(first: char, rest: &str, is_filter: bool) -> Read<'_, Token> {
    let behind_dot = rest.chars().nth(1).is_some_and(|second| second.is_ascii_digit());
    if first == '\'' {
        quoted(rest, first).map(|(text, left)| (Token::Text(text), left))
    } else if first == '"' && is_filter {
        quoted(rest, first).map(|(text, left)| (Token::Header(text), left))
    } else if is_filter && (rest.starts_with("$.") || rest.starts_with("$[")) {
        path(rest)
    } else if first.is_ascii_digit() || (first == '.' && behind_dot) {
        number(rest)
    } else if first.is_alphabetic() || first == '_' || first == '$' {
        Ok(word(rest, is_filter))
    } else {
        let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
        let symbol = symbol.ok_or_else(|| (rest, format!("unexpected '{first}'")))?;
        Ok((Token::Symbol(symbol), rest.get(symbol.len()..).unwrap_or_default()))
    }
}

/// A quote inside is doubled.
pub(super) fn quoted(text: &str, quote: char) -> Read<'_, String> {
    let mut out = String::new();
    let mut rest = text.get(1..).unwrap_or_default();
    loop {
        let Some((part, behind)) = rest.split_once(quote) else {
            return Err((text, "unterminated string".to_owned()));
        };
        out.push_str(part);
        let Some(more) = behind.strip_prefix(quote) else { return Ok((out, behind)) };
        out.push(quote);
        rest = more;
    }
}

fn number(text: &str) -> Read<'_, Token> {
    let mut end = 0;
    let mut before = ' ';
    for found in text.chars() {
        let signs_exponent = matches!(found, '+' | '-') && matches!(before, 'e' | 'E');
        if !(found.is_ascii_alphanumeric() || found == '.' || signs_exponent) {
            break;
        }
        end += found.len_utf8();
        before = found;
    }
    let (number, rest) = text.split_at(end);
    let bad = || (text, format!("invalid number '{number}'"));
    let lower = number.to_ascii_lowercase();
    let token = if let Some(hex) = lower.strip_prefix("0x") {
        Token::Integer(i64::from_str_radix(hex, 16).map_err(|_| bad())?.into())
    } else if lower.bytes().all(|byte| byte.is_ascii_digit()) {
        Token::Integer(lower.parse::<i64>().map_err(|_| bad())?.into())
    } else {
        // Java marks types by a letter.
        let plain = lower.strip_suffix(['d', 'f', 'l']).unwrap_or(&lower);
        match plain.parse::<i64>() {
            Ok(integer) if lower.ends_with('l') => Token::Integer(integer.into()),
            Ok(_) | Err(_) => Token::Float(plain.parse().map_err(|_| bad())?),
        }
    };
    Ok((token, rest))
}

/// A path of JSON; a name in it is one of letters, digits and `_`, or stands in quotes and brackets.
fn path(text: &str) -> Read<'_, Token> {
    let mut steps = Vec::new();
    let mut rest = text.get(1..).unwrap_or_default();
    while rest.starts_with(['.', '[']) {
        if steps.len() == DEPTH_MAX {
            return Err((rest, format!("a path has at most {DEPTH_MAX} steps")));
        }
        let (step, left) = match rest.strip_prefix('.') {
            Some(name) => member(name)?,
            None => in_brackets(rest.get(1..).unwrap_or_default())?,
        };
        steps.push(step);
        rest = left;
    }
    Ok((Token::Path(steps), rest))
}

fn member(text: &str) -> Read<'_, Step> {
    let end = text.find(|it: char| !(it.is_alphanumeric() || it == '_')).unwrap_or(text.len());
    match text.split_at(end) {
        ("", rest) => Err((rest, "expected a member name".to_owned())),
        (name, rest) => Ok((Step::Member(name.to_owned()), rest)),
    }
}

fn in_brackets(text: &str) -> Read<'_, Step> {
    let (step, rest) = match text.chars().next() {
        Some(quote @ ('\'' | '"')) => {
            let (name, rest) = quoted(text, quote)?;
            (Step::Member(name), rest)
        }
        _ => {
            let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
            let (digits, rest) = text.split_at(end);
            let expected = || (text, "expected a number or a quoted name".to_owned());
            (Step::Element(digits.parse().map_err(|_| expected())?), rest)
        }
    };
    match rest.strip_prefix(']') {
        Some(rest) => Ok((step, rest)),
        None => Err((rest, "expected ']'".to_owned())),
    }
}

fn word(text: &str, is_filter: bool) -> (Token, &str) {
    let has_dashes = is_filter && DASHED.iter().any(|start| text.starts_with(start));
    let is_part = |found: char| {
        found.is_alphanumeric() || matches!(found, '_' | '$' | '.') || (has_dashes && found == '-')
    };
    let end = text.find(|found| !is_part(found)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let upper = word.to_ascii_uppercase();
    let is_keyword = KEYWORDS.contains(&upper.as_str()) || (is_filter && upper == MATCHES);
    (Token::Word(if is_keyword { upper } else { word.to_owned() }), rest)
}
