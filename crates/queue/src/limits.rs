use std::collections::BTreeMap;

/// The behaviour of a full queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The new message goes in, and ready messages go until the queue is within its limits.
    #[default]
    DropHead,
    /// The new message is refused.
    RejectPublish,
    /// The new message is refused and dead-lettered.
    RejectPublishDlx,
}

/// How long a queue may get. Only ready messages and those that wait to be tried again count; their
/// sizes are those of their bodies, as with RabbitMQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `max-length`.
    pub messages_max: Option<u64>,
    /// `max-length-bytes`.
    pub bytes_max: Option<u64>,
    /// `overflow`.
    pub overflow: Overflow,
}

/// A full queue does not take the message; its publisher is told so (`basic.nack`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Whether the message is to be dead-lettered, with [`Reason::MaxLen`](crate::Reason::MaxLen).
    pub dead_letter: bool,
}

impl Limits {
    /// Whether a queue of that size is too long.
    fn exceeded_by(&self, n_messages: u64, n_bytes: u64) -> bool {
        self.messages_max.is_some_and(|max| n_messages > max)
            || self.bytes_max.is_some_and(|max| n_bytes > max)
    }

    /// Whether ready messages go from a queue of that size. Where publishers are refused none does, not
    /// even when messages come back to a full queue, as with RabbitMQ.
    pub(crate) fn drops(&self, n_messages: u64, n_bytes: u64) -> bool {
        self.overflow == Overflow::DropHead && self.exceeded_by(n_messages, n_bytes)
    }

    /// Whether a message goes into a queue that would be of that size with it.
    pub(crate) fn admit(&self, n_messages: u64, n_bytes: u64) -> Result<(), Refused> {
        let dead_letter = match self.overflow {
            Overflow::DropHead => return Ok(()),
            Overflow::RejectPublish => false,
            Overflow::RejectPublishDlx => true,
        };
        if self.exceeded_by(n_messages, n_bytes) { Err(Refused { dead_letter }) } else { Ok(()) }
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
    #[must_use]
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
    fn a_message_is_refused_when_it_would_be_one_too_many() {
        let limits = Limits {
            messages_max: Some(3),
            bytes_max: Some(100),
            overflow: Overflow::RejectPublishDlx,
        };
        assert_eq!(limits.admit(3, 100), Ok(()));
        assert_eq!(limits.admit(4, 10), Err(Refused { dead_letter: true }));
        assert_eq!(limits.admit(1, 101), Err(Refused { dead_letter: true }));
        let limits = Limits { overflow: Overflow::RejectPublish, ..limits };
        assert_eq!(limits.admit(4, 10), Err(Refused { dead_letter: false }));
        let limits = Limits { overflow: Overflow::DropHead, ..limits };
        assert_eq!(limits.admit(4, 1_000), Ok(()));
        assert!(limits.exceeded_by(4, 0) && !limits.exceeded_by(3, 100));
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
