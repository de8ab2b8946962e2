//! In which order a case is measured: every column once, then again, so that what drifts on the machine
//! falls on all of them alike.

/// One measurement of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// From 1.
    pub(crate) repeat: u32,
    /// The place of the column.
    pub(crate) column: usize,
}

/// A B A B ...
pub(crate) fn turns(n_columns: usize, repeats: u32) -> impl Iterator<Item = Turn> {
    (1..=repeats).flat_map(move |repeat| (0..n_columns).map(move |column| Turn { repeat, column }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_take_turns() {
        let order: Vec<(u32, usize)> = turns(2, 3).map(|turn| (turn.repeat, turn.column)).collect();
        assert_eq!(order, [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]);
        assert_eq!(turns(0, 3).count(), 0);
    }
}
