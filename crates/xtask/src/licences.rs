//! Licences as packages give them: SPDX expressions, of which one way must be allowed.
//!
//! ```text
//! either = both { "OR" both }          (also "/", as old manifests have it)
//! both   = one { "AND" one }
//! one    = "(" either ")" | licence [ "WITH" exception ]
//! ```

/// Whether an expression can be met by allowed licences alone. A later version of an allowed licence
/// (`MPL-2.0+`) is met by the version itself.
///
/// # Errors
/// Where the text is no such expression.
pub(crate) fn is_met(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_ascii_whitespace().collect();
    let mut left = Words { words: &words, allowed };
    let met = left.either()?;
    match left.words {
        [] => Ok(met),
        [word, ..] => Err(format!("`{word}` is not expected")),
    }
}

struct Words<'w> {
    words: &'w [&'w str],
    allowed: &'w [&'w str],
}

impl Words<'_> {
    fn next_is(&mut self, word: &str) -> bool {
        let is = self.words.first().is_some_and(|first| first.eq_ignore_ascii_case(word));
        if is {
            self.words = self.words.get(1..).unwrap_or_default();
        }
        is
    }

    fn either(&mut self) -> Result<bool, String> {
        let mut met = self.both()?;
        while self.next_is("OR") {
            met |= self.both()?;
        }
        Ok(met)
    }

    fn both(&mut self) -> Result<bool, String> {
        let mut met = self.one()?;
        while self.next_is("AND") {
            met &= self.one()?;
        }
        Ok(met)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.next_is("(") {
            let met = self.either()?;
            return if self.next_is(")") { Ok(met) } else { Err("`)` is missing".to_owned()) };
        }
        let mut name = self.licence()?;
        if self.next_is("WITH") {
            name = format!("{name} WITH {}", self.licence()?);
        }
        Ok(self.allowed.contains(&name.trim_end_matches('+')))
    }

    fn licence(&mut self) -> Result<String, String> {
        let name = |word: &&&str| !["(", ")", "AND", "OR", "WITH"].contains(*word);
        let word = *self.words.first().filter(name).ok_or("a licence is missing")?;
        self.words = self.words.get(1..).unwrap_or_default();
        Ok(word.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[&str] = &["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "MPL-2.0"];

    #[test]
    fn one_way_has_to_be_allowed() {
        for met in [
            "MIT",
            "MIT/GPL-3.0",
            "GPL-3.0 / MIT",
            "MPL-2.0+",
            "GPL-3.0 OR MIT",
            "MIT AND Apache-2.0",
            "(GPL-3.0 OR MIT) AND Apache-2.0",
            "GPL-3.0 AND Unknown OR MIT",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert_eq!(is_met(met, ALLOWED), Ok(true), "{met}");
        }
        for unmet in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(GPL-3.0 OR MIT) AND GPL-2.0",
            "MIT WITH LLVM-exception",
            "GPL-3.0 OR MIT AND GPL-3.0",
        ] {
            assert_eq!(is_met(unmet, ALLOWED), Ok(false), "{unmet}");
        }
    }

    #[test]
    fn what_is_no_expression_is_told() {
        for text in ["", "MIT OR", "(MIT", "MIT)", "AND", "MIT Apache-2.0", "MIT WITH"] {
            assert!(is_met(text, ALLOWED).is_err(), "{text}");
        }
    }
}
