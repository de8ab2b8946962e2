//! Texts that a client lists.

use std::fmt;

/// Texts in one piece of memory: a client may list very many.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Texts {
    all: String,
    /// The place in `all` where each text ends.
    ends: Vec<usize>,
}

impl Texts {
    /// The number of texts.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no texts.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The texts, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends
            .iter()
            .filter_map(move |end| self.all.get(std::mem::replace(&mut start, *end)..*end))
    }
}

impl<'a> FromIterator<&'a str> for Texts {
    fn from_iter<I: IntoIterator<Item = &'a str>>(texts: I) -> Self {
        let mut list = Self::default();
        for text in texts {
            list.all.push_str(text);
            list.ends.push(list.all.len());
        }
        list
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_out_as_they_went_in() {
        let given = ["a", "", "b\u{e9}", ""];
        let texts: Texts = given.into_iter().collect();
        assert!(texts.iter().eq(given) && texts.len() == 4 && !texts.is_empty());
        assert_eq!(format!("{texts:?}"), "[\"a\", \"\", \"b\u{e9}\", \"\"]");
    }
}
