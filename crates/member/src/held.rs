//! Messages of groups that leave once the node's log is durable up to a position.

use std::collections::BTreeMap;

use cluster::Message;
use log::{Lsn, NodeNumber, Owner};

use crate::vocabulary::message_bytes;

/// The bytes of messages that wait for the log, at most; each has about 128 without entries.
pub const HELD_BYTES_MAX: usize = 128 << 20;
/// Messages that wait for the log, at most.
pub const HELD_MESSAGES_MAX: usize = 1 << 20;

/// The messages that wait, in the order in which they leave.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages {
    durable: Lsn,
    last_number: u64,
    messages: BTreeMap<(Lsn, u64), HeldMessage>,
    n_bytes: usize,
    /// Messages of a group for a node: how many, and the position that the last of them waits for.
    waiting: BTreeMap<(Owner, NodeNumber), (usize, Lsn)>,
}

/// A message that waits.
#[derive(Debug)]
pub(crate) struct HeldMessage {
    pub(crate) group: Owner,
    pub(crate) message: Message,
}

/// The next step about a message.
pub(crate) enum Hold {
    /// The message may leave at once.
    Leaves(Message),
    /// The message waits.
    Waits,
    /// The message was dropped: too many wait.
    Full,
}

impl HeldMessages {
    /// Takes a message, which leaves after those of its group for the same node.
    pub(crate) fn hold(&mut self, group: Owner, message: Message, after: Option<Lsn>) -> Hold {
        let place = (group, NodeNumber(message.to.node()));
        let before = self.waiting.get(&place).map(|(_, last)| *last);
        let Some(after) = after.max(before).filter(|after| *after > self.durable) else {
            return Hold::Leaves(message);
        };
        let n_bytes = message_bytes(&message);
        let is_full = self.messages.len() >= HELD_MESSAGES_MAX;
        if is_full || self.n_bytes + n_bytes > HELD_BYTES_MAX {
            return Hold::Full;
        }
        self.n_bytes += n_bytes;
        self.last_number += 1;
        self.messages.insert((after, self.last_number), HeldMessage { group, message });
        let waiting = self.waiting.entry(place).or_default();
        *waiting = (waiting.0 + 1, after);
        Hold::Waits
    }

    /// Notes that the log is durable up to a position.
    pub(crate) fn set_durable(&mut self, upto: Lsn) {
        self.durable = self.durable.max(upto);
    }

    /// Takes the next message that may leave.
    pub(crate) fn next(&mut self) -> Option<HeldMessage> {
        let first = self.messages.first_entry().filter(|first| first.key().0 <= self.durable)?;
        let held = first.remove();
        self.n_bytes -= message_bytes(&held.message);
        let place = (held.group, NodeNumber(held.message.to.node()));
        if let Some(waiting) = self.waiting.get_mut(&place) {
            waiting.0 -= 1;
            if waiting.0 == 0 {
                self.waiting.remove(&place);
            }
        }
        Some(held)
    }
}
