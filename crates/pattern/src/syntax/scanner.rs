//! The text of an expression, read from its start.

use super::Refused;

/// The part that was not read yet.
pub(super) struct Scanner<'t> {
    pub(super) rest: &'t str,
    /// Whether `\Q` is open.
    pub(super) is_quoted: bool,
}

impl<'t> Scanner<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { rest: text, is_quoted: false }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    pub(super) fn eats(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The text before `end`, which is taken too.
    pub(super) fn until(&mut self, end: &str) -> Option<&'t str> {
        let (before, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(before)
    }

    pub(super) fn digits(&mut self, radix: u32, max: usize) -> &'t str {
        let is_past = |(at, it): &(usize, char)| *at == max || !it.is_digit(radix);
        let end = self.rest.char_indices().find(is_past).map_or(self.rest.len(), |(at, _)| at);
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits
    }

    /// The character that an escape stands for, in brackets as outside.
    pub(super) fn char_escape(&mut self) -> Result<char, Refused> {
        let next = self.next().ok_or("\\ at the end")?;
        let of_code = |digits: &str, radix| {
            let code =
                if digits.is_empty() { Some(0) } else { u32::from_str_radix(digits, radix).ok() };
            code.and_then(char::from_u32).ok_or_else(|| "no such character".to_owned())
        };
        Ok(match next {
            'a' => '\u{7}',
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => return of_code(self.digits(8, 2), 8),
            'o' if self.eats("{") => return of_code(self.until("}").ok_or("unclosed \\o{")?, 8),
            'x' if self.eats("{") => return of_code(self.until("}").ok_or("unclosed \\x{")?, 16),
            'x' => return of_code(self.digits(16, 2), 16),
            'c' => {
                let letter = self.next().filter(char::is_ascii).ok_or("\\c without a letter")?;
                char::from(letter.to_ascii_uppercase() as u8 ^ 64)
            }
            // PCRE without UTF knows no others, and keeps letters for what may come.
            other if other.is_ascii_alphanumeric() => {
                return Err(format!("unrecognised escape \\{other}"));
            }
            other => other,
        })
    }
}
