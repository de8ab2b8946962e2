use std::collections::BTreeMap;

/// Limits on the length of a queue. Only ready messages and those that wait to be tried again count; their
/// sizes are those of their bodies, as with RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `max-length`.
    pub messages_max: Option<u64>,
    /// `max-length-bytes`.
    pub bytes_max: Option<u64>,
    /// New messages are refused (`overflow`); otherwise ready ones go until the queue is within its limits.
    pub refuses: bool,
}

impl Limits {
    /// Whether ready messages go from a queue of that size. Where publishers are refused none does, not
    /// even when messages come back to a full queue, as with RabbitMQ.
    pub(crate) fn drops(&self, n_messages: u64, n_bytes: u64) -> bool {
        let is_exceeded = self.messages_max.is_some_and(|max| n_messages > max)
            || self.bytes_max.is_some_and(|max| n_bytes > max);
        is_exceeded && !self.refuses
    }
}

/// Bytes of ready messages, as they are told: only of messages that are away is the size of each
/// remembered, since nobody tells it when they come back. Nothing is counted without a limit on bytes.
#[derive(Clone, Debug, Default)]
pub struct ReadyBytes {
    is_counting: bool,
    bytes: u64,
    away: BTreeMap<u64, u64>,
}

impl ReadyBytes {
    pub(crate) fn set_counting(&mut self, is_counting: bool) {
        if is_counting {
            self.is_counting = true;
        } else {
            *self = Self::default();
        }
    }

    /// Sizes of all ready messages; 0 without a limit on bytes.
    pub const fn get(&self) -> u64 {
        self.bytes
    }

    /// Tells the sizes of all ready messages, when a limit on bytes is new.
    pub const fn set(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    pub(crate) const fn came(&mut self, bytes: u64) {
        if self.is_counting {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// Tells the sizes of ready messages that are gone.
    pub const fn left(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(crate) fn note_away(&mut self, position: u64, bytes: u64) {
        if self.is_counting {
            self.away.insert(position, bytes);
        }
    }

    pub(crate) fn come_back(&mut self, position: u64) {
        if let Some(bytes) = self.away.remove(&position) {
            self.came(bytes);
        }
    }

    pub(crate) fn forget(&mut self, position: u64) {
        self.away.remove(&position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_drops_what_is_too_much_unless_it_refuses() {
        let limits = Limits { messages_max: Some(3), bytes_max: Some(100), refuses: false };
        assert!(!limits.drops(3, 100) && limits.drops(4, 0) && limits.drops(1, 101));
        assert!(!Limits { refuses: true, ..limits }.drops(4, 1_000));
    }

    #[test]
    fn sizes_come_back_with_their_messages() {
        let mut sizes = ReadyBytes::default();
        sizes.set_counting(true);
        sizes.came(10);
        sizes.came(5);
        sizes.left(10);
        sizes.note_away(7, 10);
        assert_eq!(sizes.get(), 5);
        sizes.come_back(7);
        sizes.come_back(7);
        assert_eq!(sizes.get(), 15);
    }
}
