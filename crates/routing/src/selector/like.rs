//! Patterns of `LIKE`: `%` is any text, `_` any one character.
//!
//! The text between two `%` is searched for from left to right, each where the one before it
//! ended: no place is tried twice, so that the time is that of the text's length. A piece with a `_`
//! is tried at each place; the steps of that are counted, and limited.

use memchr::{memchr_iter, memmem};

use super::Steps;

/// A part of a pattern: a byte, or the `_` that stands for any character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Byte(u8),
    Character,
}

/// The text before, between or behind `%`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Piece {
    parts: Box<[Part]>,
    /// The bytes of the piece, if it has no `_`.
    bytes: Option<Box<[u8]>>,
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Like {
    first: Piece,
    /// The pieces between the first `%` and the last; none of them is empty.
    middle: Box<[Piece]>,
    /// The piece behind the last `%`, if there is one.
    last: Option<Piece>,
}

impl Like {
    /// The character `escape`, if there is one, makes the character behind it an ordinary one.
    pub(super) fn new(pattern: &[u8], escape: &[u8]) -> Self {
        let mut pieces = vec![Vec::new()];
        let mut rest = pattern;
        while let Some((&byte, behind)) = rest.split_first() {
            let escaped = rest.strip_prefix(escape).filter(|_| !escape.is_empty());
            rest = behind;
            let part = match byte {
                _ if escaped.is_some() => {
                    let (found, behind) =
                        escaped.and_then(<[u8]>::split_first).unwrap_or((&byte, &[]));
                    rest = behind;
                    Part::Byte(*found)
                }
                b'%' => {
                    pieces.push(Vec::new());
                    continue;
                }
                b'_' => Part::Character,
                _ => Part::Byte(byte),
            };
            pieces.last_mut().expect("there is a first one").push(part);
        }
        let last = if pieces.len() > 1 { pieces.pop() } else { None };
        let mut pieces = pieces.into_iter();
        let first = Piece::new(pieces.next().unwrap_or_default());
        let middle = pieces.filter(|parts| !parts.is_empty()).map(Piece::new).collect();
        Self { first, middle, last: last.map(Piece::new) }
    }

    /// Whether the text is of this pattern; false where `steps` run out.
    pub(super) fn matches(&self, text: &[u8], steps: &mut Steps) -> bool {
        let Some(mut at) = self.first.ends_at(text, steps) else { return false };
        let Some(last) = &self.last else { return at == text.len() };
        let Some(end) = last.starts_at(text, steps) else { return false };
        for piece in &self.middle {
            let Some(within) = text.get(at..end) else { return false };
            let Some(behind) = piece.find(within, steps) else { return false };
            at += behind;
        }
        at <= end
    }
}

impl Piece {
    fn new(parts: Vec<Part>) -> Self {
        let byte = |part: &Part| match part {
            Part::Byte(byte) => Some(*byte),
            Part::Character => None,
        };
        Self { bytes: parts.iter().map(byte).collect(), parts: parts.into() }
    }

    /// The end of the piece if the text begins with it.
    fn ends_at(&self, text: &[u8], steps: &mut Steps) -> Option<usize> {
        let mut at = 0;
        for part in &self.parts {
            steps.take(1)?;
            at = match (part, text.get(at)?) {
                (Part::Character, _) => next_character(text, at),
                (Part::Byte(wanted), byte) if wanted == byte => at + 1,
                (Part::Byte(_), _) => return None,
            };
        }
        Some(at)
    }

    /// The start of the piece if the text ends with it.
    fn starts_at(&self, text: &[u8], steps: &mut Steps) -> Option<usize> {
        let mut at = text.len();
        for part in self.parts.iter().rev() {
            steps.take(1)?;
            let before = at.checked_sub(1)?;
            at = match (part, text.get(before)?) {
                (Part::Character, _) => this_character(text, before),
                (Part::Byte(wanted), byte) if wanted == byte => before,
                (Part::Byte(_), _) => return None,
            };
        }
        Some(at)
    }

    /// The end of the piece's first occurrence in the text.
    fn find(&self, text: &[u8], steps: &mut Steps) -> Option<usize> {
        match &self.bytes {
            Some(bytes) => find_bytes(bytes, text, steps),
            None => {
                steps.pass_over(text.len())?;
                let mut ends_from = |at| {
                    steps.take(1)?;
                    Some(at + self.ends_at(text.get(at..)?, steps)?)
                };
                match self.parts.first() {
                    Some(Part::Byte(first)) => memchr_iter(*first, text).find_map(ends_from),
                    Some(Part::Character) | None => (0..text.len()).find_map(&mut ends_from),
                }
            }
        }
    }
}

fn find_bytes(bytes: &[u8], text: &[u8], steps: &mut Steps) -> Option<usize> {
    // To prepare the search costs what the piece has: no more than is counted.
    let at = if bytes.len() > text.len() { None } else { memmem::find(text, bytes) };
    let end = at.map(|at| at + bytes.len());
    steps.take(end.unwrap_or(text.len()))?;
    end
}

/// The start of the character after the one at `at`, in UTF-8.
fn next_character(text: &[u8], at: usize) -> usize {
    let rest = text.get(at + 1..).unwrap_or_default();
    at + 1 + rest.iter().take_while(|byte| is_continuation(**byte)).count()
}

/// The start of the character with the byte at `at`, in UTF-8.
fn this_character(text: &[u8], at: usize) -> usize {
    let upto = text.get(..=at).unwrap_or_default();
    at - upto.iter().rev().take_while(|byte| is_continuation(**byte)).count().min(at)
}

const fn is_continuation(byte: u8) -> bool {
    matches!(byte, 0x80..0xC0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, escape: &[u8], text: &str) -> bool {
        let mut steps = Steps::default();
        Like::new(pattern.as_bytes(), escape).matches(text.as_bytes(), &mut steps)
    }

    #[test]
    fn wildcards_and_escapes() {
        let matches = |pattern: &str, text: &str| matches(pattern, b"\\", text);
        assert!(matches("12%3", "123") && matches("12%3", "12993") && !matches("12%3", "1234"));
        assert!(matches("l_se", "lose") && !matches("l_se", "loose") && matches("_", "ü"));
        assert!(matches("\\_%", "_foo") && !matches("\\_%", "bar"));
        assert!(matches("", "") && matches("%", "") && !matches("_", "") && !matches("", "a"));
        assert!(matches("a.b", "a.b") && !matches("a.b", "axb"));
        assert!(matches("%\\%", "100%") && !matches("%\\%", "100"));
    }

    fn naive(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('%', rest)), None) => naive(rest, text),
            (Some(('%', rest)), Some((_, others))) => naive(rest, text) || naive(pattern, others),
            (Some((part, rest)), Some((character, others))) => {
                (*part == '_' || part == character) && naive(rest, others)
            }
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    #[test]
    fn the_steps_are_those_of_the_texts_length() {
        let text = "a".repeat(120_000);
        let steps_of = |pattern: &str| {
            let mut steps = Steps::default();
            assert!(!Like::new(pattern.as_bytes(), b"").matches(text.as_bytes(), &mut steps));
            assert!(!steps.ran_out());
            steps.n_taken()
        };
        assert!(steps_of("%a%a%a%a%a%a%a%ab") < 10, "the end is looked at first");
        assert!(steps_of("%a%a%a%a%a%a%ab%") <= 125_000);
        assert!(steps_of(&format!("%{}b%", "a".repeat(1_000))) <= 125_000);
    }

    #[test]
    fn what_takes_too_many_steps_does_not_match() {
        let text = "a".repeat(120_000) + "b";
        let mut steps = Steps::default();
        let like = Like::new(format!("%_{}b%", "a".repeat(1_000)).as_bytes(), b"");
        assert!(!like.matches(text.as_bytes(), &mut steps));
        assert!(steps.ran_out());
    }

    proptest! {
        #[test]
        fn matches_what_a_naive_matcher_matches(
            pattern in "[abü%_]{0,9}", text in "[abü]{0,12}",
        ) {
            let [of_pattern, of_text] =
                [&pattern, &text].map(|it| it.chars().collect::<Vec<_>>());
            prop_assert_eq!(matches(&pattern, b"", &text), naive(&of_pattern, &of_text));
        }
    }
}
