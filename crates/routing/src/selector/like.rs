//! Patterns of `LIKE`: `%` is any text, `_` any one character.

/// One part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Byte(u8),
    Character,
    Anything,
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Like(Vec<Part>);

impl Like {
    /// `escape` makes the character behind it an ordinary one.
    pub(super) fn new(pattern: &[u8], escape: Option<u8>) -> Self {
        let mut parts = Vec::with_capacity(pattern.len());
        let mut bytes = pattern.iter().copied();
        while let Some(byte) = bytes.next() {
            parts.push(match byte {
                _ if Some(byte) == escape => Part::Byte(bytes.next().unwrap_or(byte)),
                b'%' => Part::Anything,
                b'_' => Part::Character,
                _ => Part::Byte(byte),
            });
        }
        Self(parts)
    }

    /// In time of the text's length times the pattern's: only the last `%` is tried again.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let (mut at, mut part) = (0, 0);
        // Behind the last `%`: the next part, and where in the text it was tried.
        let mut again: Option<(usize, usize)> = None;
        loop {
            let step = match (self.0.get(part), text.get(at)) {
                (Some(Part::Anything), _) => {
                    again = Some((part + 1, at));
                    part += 1;
                    continue;
                }
                (Some(Part::Byte(wanted)), Some(byte)) if wanted == byte => Some(at + 1),
                (Some(Part::Character), Some(_)) => Some(next_character(text, at)),
                (None, None) => return true,
                _ => None,
            };
            if let Some(next) = step {
                (at, part) = (next, part + 1);
            } else {
                let Some((behind, tried)) = again.filter(|(_, tried)| *tried < text.len()) else {
                    return false;
                };
                again = Some((behind, tried + 1));
                (at, part) = (tried + 1, behind);
            }
        }
    }
}

/// Where the character after the one at `at` begins, in UTF-8.
fn next_character(text: &[u8], at: usize) -> usize {
    let rest = text.get(at + 1..).unwrap_or_default();
    at + 1 + rest.iter().take_while(|byte| (0x80..0xC0).contains(*byte)).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wildcards_and_escapes() {
        let matches = |pattern: &str, text: &str| {
            Like::new(pattern.as_bytes(), Some(b'\\')).matches(text.as_bytes())
        };
        assert!(matches("12%3", "123") && matches("12%3", "12993") && !matches("12%3", "1234"));
        assert!(matches("l_se", "lose") && !matches("l_se", "loose") && matches("_", "ü"));
        assert!(matches("\\_%", "_foo") && !matches("\\_%", "bar"));
        assert!(matches("", "") && matches("%", "") && !matches("_", "") && !matches("", "a"));
        assert!(matches("a.b", "a.b") && !matches("a.b", "axb"));
    }

    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'%', rest)), None) => naive(rest, text),
            (Some((b'%', rest)), Some((_, others))) => naive(rest, text) || naive(pattern, others),
            (Some((part, rest)), Some((byte, others))) => {
                (*part == b'_' || part == byte) && naive(rest, others)
            }
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn matches_what_a_naive_matcher_matches(pattern in "[ab%_]{0,7}", text in "[ab]{0,9}") {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(Like::new(pattern, None).matches(text), naive(pattern, text));
        }
    }
}
