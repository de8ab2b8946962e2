//! How much alike two names are, for suggestions.

/// Levenshtein's distance: how many characters to insert, delete and replace make `left` of `right`.
#[must_use]
pub fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        for (cell, &b) in row.iter_mut().skip(1).zip(&right) {
            let here = (diagonal + usize::from(a != b)).min(before + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = here;
            before = here;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("same", "same"), 0);
    }
}
