//! The words of filters in AMQP 1.0's SQL (Filter Expressions 1.0, 6). COMPAT: those that RabbitMQ knows.

use super::section_field::SectionField;
use super::tokens::{Placed, Read, Refused, Token, quoted};

/// The longest expression, in characters. COMPAT: as with RabbitMQ.
const CHARACTERS_MAX: usize = 4_096;
/// The most words and signs of an expression. COMPAT: as with RabbitMQ.
const TOKENS_MAX: usize = 200;

const SYMBOLS: [&str; 15] =
    ["<>", "!=", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ","];
const KEYWORDS: [&str; 11] =
    ["AND", "OR", "NOT", "LIKE", "IN", "IS", "NULL", "ESCAPE", "TRUE", "FALSE", "UTC"];
/// Words that stand for functions and values that are not there.
const RESERVED: [&str; 9] =
    ["EXISTS", "NAN", "INF", "LOWER", "UPPER", "LEFT", "RIGHT", "SUBSTRING", "DATE"];

pub(super) fn tokens(text: &str) -> Result<Vec<Placed>, Refused> {
    let refuse = |at: &str, reason| Refused { at: text.len() - at.len(), reason };
    if text.chars().count() > CHARACTERS_MAX {
        return Err(refuse(text, format!("longer than {CHARACTERS_MAX} characters")));
    }
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        if tokens.len() == TOKENS_MAX {
            return Err(refuse(rest, format!("more than {TOKENS_MAX} words")));
        }
        let (token, left) = token(first, rest).map_err(|(at, reason)| refuse(at, reason))?;
        tokens.push(Placed { token, at: text.len() - rest.len(), end: text.len() - left.len() });
        rest = left.trim_start_matches(is_space);
    }
    Ok(tokens)
}

const fn is_space(found: char) -> bool {
    matches!(found, ' ' | '\t' | '\x0c' | '\n' | '\r')
}

fn token(first: char, rest: &str) -> Read<'_, Token> {
    if matches!(first, '\'' | '"') {
        quoted(rest, first).map(|(text, left)| (Token::Text(text), left))
    } else if let Some(found) = bytes(rest) {
        Ok(found)
    } else if first.is_ascii_digit() {
        number(rest)
    } else if first == '[' {
        delimited(rest)
    } else if first.is_ascii_alphabetic() {
        word(rest)
    } else {
        let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
        let symbol = symbol.ok_or_else(|| (rest, format!("unexpected '{first}'")))?;
        let left = rest.get(symbol.len()..).unwrap_or_default();
        Ok((Token::Symbol(if symbol == "!=" { "<>" } else { symbol }), left))
    }
}

/// The longest beginning whose characters are all of a kind, and the rest.
fn split_while(text: &str, is_of_kind: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|found| !is_of_kind(found)).unwrap_or(text.len()))
}

/// `0x` and pairs of digits.
fn bytes(text: &str) -> Option<(Token, &str)> {
    let is_digit = |found: char| matches!(found, '0'..='9' | 'A'..='F');
    let (digits, _) = split_while(text.strip_prefix("0x")?, is_digit);
    let (pairs, _) = digits.as_bytes().as_chunks::<2>();
    let digit = |of: u8| char::from(of).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    let left = text.get(2 + 2 * pairs.len()..).unwrap_or_default();
    bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| (Token::Bytes(bytes), left))
}

fn number(text: &str) -> Read<'_, Token> {
    let digits = |text| split_while(text, |found| found.is_ascii_digit());
    let (whole, left) = digits(text);
    let fraction = left.strip_prefix('.').map(digits).filter(|(part, _)| !part.is_empty());
    let Some((_, left)) = fraction else {
        // A number that is too long is compared as a float.
        let float = || whole.parse().map(Token::Float).map_err(|_| (text, "a number".to_owned()));
        return whole.parse().map(Token::Integer).or_else(|_| float()).map(|token| (token, left));
    };
    let exponent = left.strip_prefix('E').map(|left| left.strip_prefix(['+', '-']).unwrap_or(left));
    let exponent = exponent.map(digits).filter(|(part, _)| !part.is_empty());
    let left = exponent.map_or(left, |(_, left)| left);
    let number: &str = text.get(..text.len() - left.len()).unwrap_or_default();
    match number.parse::<f64>() {
        Ok(float) if float.is_finite() => Ok((Token::Float(float), left)),
        Ok(_) | Err(_) => Err((text, format!("the number '{number}' is too large"))),
    }
}

/// A name of any characters; a bracket inside is doubled.
fn delimited(text: &str) -> Read<'_, Token> {
    let mut name = String::new();
    let mut rest = text.get(1..).unwrap_or_default();
    loop {
        let Some(at) = rest.find(['[', ']']) else {
            return Err((text, "unterminated name".to_owned()));
        };
        let (part, behind) = rest.split_at(at);
        if part.chars().any(|found| found.is_ascii_control()) {
            return Err((text, "a control character in a name".to_owned()));
        }
        name.push_str(part);
        if let Some(left) = behind.strip_prefix("[[") {
            name.push('[');
            rest = left;
        } else if let Some(left) = behind.strip_prefix("]]") {
            name.push(']');
            rest = left;
        } else if let Some(left) = behind.strip_prefix(']') {
            return Ok((Token::Header(name), left));
        } else {
            return Err((behind, "a bracket in a name is doubled".to_owned()));
        }
    }
}

/// A keyword, an application property, or a field of a section.
fn word(text: &str) -> Read<'_, Token> {
    let is_section = |found: char| found.is_ascii_alphabetic() || matches!(found, '_' | '-');
    let is_part = |found: char| found.is_ascii_alphanumeric() || found == '_';
    let (section, behind) = split_while(text, is_section);
    if let Some(field) = behind.strip_prefix('.')
        && field.starts_with(|found: char| found.is_ascii_alphabetic())
    {
        let (field, left) = split_while(field, is_part);
        let token = match section {
            "header" | "h" if field == "priority" => Some(Token::Field(SectionField::Priority)),
            "properties" | "p" => SectionField::of_properties(field).map(Token::Field),
            "application_properties" | "a" => Some(Token::Header(field.to_owned())),
            _ => None,
        };
        let unknown = || (text, format!("unknown field '{section}.{field}'"));
        return token.map(|token| (token, left)).ok_or_else(unknown);
    }
    let (word, left) = split_while(text, is_part);
    let upper = word.to_ascii_uppercase();
    if KEYWORDS.contains(&word) {
        Ok((Token::Word(upper), left))
    } else if KEYWORDS.contains(&&*upper) || RESERVED.contains(&&*upper) {
        Err((text, format!("'{word}' is no name; keywords are upper case")))
    } else {
        Ok((Token::Header(word.to_owned()), left))
    }
}
