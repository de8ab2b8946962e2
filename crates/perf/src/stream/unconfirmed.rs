//! Publishes that wait for their confirms, where it matters which is confirmed: entries of several
//! messages, and the time from publish to confirm.

use std::collections::VecDeque;

/// An entry that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) publishing_id: u64,
    pub(super) n_messages: u32,
    /// When it was due, nanoseconds of the clock.
    pub(super) at: u64,
}

/// Entries in the order of their ids, which goes up.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed {
    all: VecDeque<(Published, bool)>,
}

impl Unconfirmed {
    /// Notes an entry.
    pub(super) fn push(&mut self, published: Published) {
        self.all.push_back((published, false));
    }

    /// Takes the entry with this id; `None` if it is not waited for.
    pub(super) fn take(&mut self, publishing_id: u64) -> Option<Published> {
        let at = self.all.partition_point(|(one, _)| one.publishing_id < publishing_id);
        let (published, is_done) = self.all.get_mut(at)?;
        if published.publishing_id != publishing_id || std::mem::replace(is_done, true) {
            return None;
        }
        let published = *published;
        while self.all.front().is_some_and(|(_, is_done)| *is_done) {
            self.all.pop_front();
        }
        Some(published)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_confirmed_once_in_any_order() {
        let mut unconfirmed = Unconfirmed::default();
        let entry = |id| Published { publishing_id: id, n_messages: 3, at: id };
        [2, 5, 9].into_iter().for_each(|id| unconfirmed.push(entry(id)));
        assert_eq!(unconfirmed.take(5), Some(entry(5)));
        assert_eq!(
            (unconfirmed.take(5), unconfirmed.take(3), unconfirmed.take(10)),
            (None, None, None)
        );
        assert_eq!(unconfirmed.take(2), Some(entry(2)));
        assert_eq!(unconfirmed.take(9), Some(entry(9)));
        assert!(unconfirmed.all.is_empty());
    }
}
