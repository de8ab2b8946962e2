//! The last messages of an exchange, for those who are bound later.

use amqp091::{TableRef, ValueRef};
use message::{MessageRef, OwnedMessage};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// A message with this header, as true, is not remembered.
const EXCLUDING: &[u8] = b"x-recent-history-no-store";

/// COMPAT: it must be a boolean.
pub(super) fn is_excluded(headers: Option<TableRef<'_>>) -> bool {
    let value = headers.and_then(|headers| headers.get(EXCLUDING));
    matches!(value, Some(ValueRef::Bool(true)))
}

/// The last messages, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    messages: VecDeque<OwnedMessage>,
    bytes: usize,
}

impl History {
    /// Adds a message, and forgets the oldest beyond `length` messages and `bytes_max`.
    pub(super) fn add(&mut self, message: &MessageRef<'_>, length: NonZeroU32, bytes_max: usize) {
        let length = usize::try_from(length.get()).unwrap_or(usize::MAX);
        let newest = OwnedMessage::new(message);
        self.bytes += newest.size_bytes();
        self.messages.push_back(newest);
        self.shrink(length, bytes_max);
    }

    /// Forgets the oldest beyond `length` messages and `bytes_max`.
    pub(super) fn shrink(&mut self, length: usize, bytes_max: usize) {
        while self.messages.len() > length || self.bytes > bytes_max {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= oldest.size_bytes();
        }
    }

    pub(super) fn all(&self) -> Vec<OwnedMessage> {
        self.messages.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Body;

    const BYTES_MAX: usize = 1 << 20;

    fn bodies(history: &History) -> Vec<usize> {
        let all = history.all();
        all.iter().map(|one| one.message().body.len()).collect()
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many_or_too_large_ones() {
        let (mut history, large) = (History::default(), vec![0; BYTES_MAX / 2 - 1_000]);
        let mut add = |n: usize, length| {
            let message = MessageRef {
                exchange: b"x",
                routing_key: b"k",
                properties: &[0, 0],
                body: Body::Borrowed(&large[..n]),
                persistent: false,
                annotations: Default::default(),
                form: message::BodyForm::Plain,
            };
            history.add(&message, NonZeroU32::new(length).unwrap(), BYTES_MAX);
            bodies(&history)
        };
        assert_eq!(add(1, 2), [1]);
        assert_eq!(add(2, 2), [1, 2]);
        assert_eq!(add(3, 2), [2, 3]);
        assert_eq!(add(4, 1), [4]);
        let n = large.len();
        assert_eq!(add(n, 3), [4, n]);
        assert_eq!(add(n, 3), [4, n, n]);
        assert_eq!(add(n, 9), [n, n]);
        assert_eq!(history.bytes, 2 * (n + 12 + 1 + 1 + 2));
        history.shrink(usize::MAX, BYTES_MAX / 2);
        assert_eq!(bodies(&history), [n]);
    }
}
