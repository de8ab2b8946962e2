//! The bytes that a connection may bring while the node has more to write than it may. Knows counts of bytes.
//! Never their meaning, or their place.

/// The bytes that a connection may bring while the node lacks room: enough for clients that bring little,
/// which do not wait for those that bring much.
const UNHELD_BYTES_MAX: usize = 16 * 1024;

/// The bytes that a connection has brought since the node had room.
#[derive(Debug, Default)]
pub(super) struct Room {
    n_brought: usize,
}

impl Room {
    /// Counts `n` bytes that were read.
    pub(super) const fn note_read(&mut self, n: usize) {
        self.n_brought = self.n_brought.saturating_add(n);
    }

    /// Whether the connection has brought as much as it may until the node has room again.
    pub(super) const fn is_used_up(&self) -> bool {
        self.n_brought > UNHELD_BYTES_MAX
    }

    /// The node has room: bytes that were read until now do not count any more.
    pub(super) const fn is_there(&mut self) {
        self.n_brought = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_brings_little_is_read_while_the_node_lacks_room() {
        let mut room = Room::default();
        assert!(!room.is_used_up(), "it has brought nothing");
        room.note_read(UNHELD_BYTES_MAX);
        assert!(!room.is_used_up());
        room.note_read(1);
        assert!(room.is_used_up());
        room.is_there();
        assert!(!room.is_used_up(), "it has brought nothing since there was room");
    }

    #[test]
    fn a_connection_that_brings_much_waits_for_room_after_each_read() {
        let mut room = Room::default();
        for _ in 0..3 {
            room.note_read(UNHELD_BYTES_MAX + 1);
            assert!(room.is_used_up());
            room.is_there();
        }
    }
}
