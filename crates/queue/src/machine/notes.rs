//! Notes that consumers leave beside messages, by position. Never what they say.

use super::bounds::{NOTE_BYTES_MAX, NOTE_OVERHEAD_BYTES, NOTES_BYTES_MAX};
use crate::positions::PositionRange;
use std::collections::BTreeMap;

/// The notes beside the messages of a quorum queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    by_position: BTreeMap<u64, Box<[u8]>>,
    /// Bytes of the notes, with [`NOTE_OVERHEAD_BYTES`] for each.
    n_bytes: usize,
}

impl Notes {
    pub(super) fn is_empty(&self) -> bool {
        self.by_position.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.by_position.len()
    }

    /// Number of messages at these positions that have notes.
    pub(super) fn n_in(&self, range: PositionRange) -> usize {
        if self.is_empty() { 0 } else { self.by_position.range(range.start..range.end).count() }
    }

    pub(super) fn of(&self, position: u64) -> Option<&[u8]> {
        self.by_position.get(&position).map(|note| &**note)
    }

    /// Puts a note in place of what stood there; false if there is no room, and nothing changes.
    pub(super) fn set(&mut self, position: u64, note: &[u8]) -> bool {
        let before = self.of(position).map_or(0, |it| it.len() + NOTE_OVERHEAD_BYTES);
        let n_bytes = self.n_bytes - before + note.len() + NOTE_OVERHEAD_BYTES;
        let has_room = note.len() <= NOTE_BYTES_MAX && n_bytes <= NOTES_BYTES_MAX;
        if has_room {
            self.n_bytes = n_bytes;
            self.by_position.insert(position, note.into());
        }
        has_room
    }

    /// Forgets the notes of messages that are gone.
    #[cold]
    pub(super) fn forget(&mut self, range: PositionRange) {
        while let Some((&position, note)) = self.by_position.range(range.start..range.end).next() {
            self.n_bytes -= note.len() + NOTE_OVERHEAD_BYTES;
            self.by_position.remove(&position);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.by_position.iter().map(|(position, note)| (*position, &**note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_keep_to_their_limits_and_a_refused_one_changes_nothing() {
        let (mut notes, largest) = (Notes::default(), vec![1; NOTE_BYTES_MAX]);
        assert!(!notes.set(0, &vec![1; NOTE_BYTES_MAX + 1]));
        let n_max = NOTES_BYTES_MAX / (NOTE_BYTES_MAX + NOTE_OVERHEAD_BYTES);
        let positions = 0..n_max as u64 + 9;
        let n_kept = positions.filter(|position| notes.set(*position, &largest)).count();
        assert_eq!(n_kept, n_max);
        assert!(notes.set(0, b"shorter") && notes.set(0, &largest));
        assert_eq!((notes.of(0), notes.of(n_max as u64)), (Some(&*largest), None));
        notes.forget(PositionRange { start: 0, end: u64::MAX });
        assert_eq!((notes.is_empty(), notes.n_bytes), (true, 0));
    }
}
