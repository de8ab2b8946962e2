//! Messages that come to a queue with rules: when each expires, where it has its place, and whether there is
//! room for it.

use super::leaving::note_died;
use super::{Policy, PolicyState};
use crate::queue::Queue;
use crate::queue::delay_header::delay_ms_of;
use message::{MessageRef, Refusal};
use meta::{LengthLimits, Overflow};
use queue::{Fifo, MessageAttrs, Reason};
use queue_type::{Any, Incoming, RefusedItem};
use std::num::NonZeroU64;
use stdx::UnixMs;

/// The rules for messages that come in now.
pub(in crate::queue) struct Arrivals {
    pub(in crate::queue) now_ms: UnixMs,
    ttl_ms: Option<u64>,
    has_priorities: bool,
    /// Whether each message stays for the delay it names, and expires by its own expiration only later.
    holds_back: bool,
}

impl Arrivals {
    /// Time when a message expires, or goes on if it is held back.
    fn deadline_ms(&self, message: &MessageRef<'_>) -> Option<NonZeroU64> {
        let properties = message.index();
        if self.holds_back {
            let delay_ms = delay_ms_of(properties.headers()).unwrap_or_default();
            return NonZeroU64::new(self.now_ms.plus(delay_ms).get().max(1));
        }
        let expiration = properties.expiration();
        let own = expiration.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        let ttl_ms = match (self.ttl_ms, own) {
            (Some(of_queue), Some(own)) => of_queue.min(own),
            (one, other) => one.or(other)?,
        };
        NonZeroU64::new(self.now_ms.plus(ttl_ms).get().max(1))
    }

    /// Notes with each message when it expires.
    pub(in crate::queue) fn note_deadlines(&self, messages: &mut [Incoming<'_>]) {
        for Incoming { message, .. } in messages {
            message.annotations.deadline_ms = self.deadline_ms(message);
        }
    }

    /// Puts a message in its place.
    pub(in crate::queue) fn place(&self, core: &mut Fifo, message: &MessageRef<'_>) -> u64 {
        let bytes = message.body.len() as u64;
        core.put(&arrival(message, self.has_priorities, bytes), self.now_ms)
    }
}

pub(super) fn arrival(message: &MessageRef<'_>, has_priorities: bool, bytes: u64) -> MessageAttrs {
    let priority = || message.index().priority().unwrap_or(0);
    MessageAttrs {
        priority: if has_priorities { priority() } else { 0 },
        deadline_ms: message.annotations.deadline_ms.map(|at| UnixMs::from_raw(at.get())),
        bytes,
    }
}

impl Policy {
    /// The rules for messages that come in now; `None` if they need not be looked at.
    #[inline]
    pub(in crate::queue) fn arrivals(&self, queue: &Queue, any: Any) -> Option<Arrivals> {
        let policy = self.state.as_deref();
        if !any.expiring && policy.is_none_or(|policy| !policy.looks_at_arrivals()) {
            return None;
        }
        Some(Arrivals {
            now_ms: queue.time().unix_ms(),
            ttl_ms: policy.and_then(|policy| policy.settings.message_ttl_ms),
            has_priorities: policy.is_some_and(|policy| policy.settings.max_priority > 0),
            holds_back: policy.is_some_and(|policy| policy.settings.holds_back),
        })
    }

    /// Number of the first messages that the queue takes now.
    pub(in crate::queue) fn n_admitted(&self, fifo: &Fifo, messages: &[Incoming<'_>]) -> usize {
        let Some(policy) = self.state.as_deref().filter(|policy| policy.refuses()) else {
            return messages.len();
        };
        let LengthLimits { messages_max, bytes_max, .. } = policy.settings.length;
        let policy = fifo.messages().policy();
        let n_delayed = policy.map_or(0, |it| it.delayed().len());
        let n_there = fifo.messages().n_ready() + n_delayed;
        let mut bytes = policy.map_or(0, |it| it.ready_bytes().get());
        let fits = |(n, incoming): &(u64, &Incoming<'_>)| {
            if messages_max.is_some_and(|max| n_there + n > max) {
                return false;
            }
            bytes_max.is_none_or(|max| {
                bytes = bytes.saturating_add(incoming.message.body.len() as u64);
                bytes <= max
            })
        };
        (1..).zip(messages).take_while(fits).count()
    }

    /// The refusal of a message that the queue does not take, with the target of its dead letter.
    pub(in crate::queue) fn refuse(&self, queue: &Queue, item: usize) -> RefusedItem {
        let is_wanted =
            |it: &&PolicyState| it.settings.length.overflow == Overflow::RejectPublishDeadLetter;
        let policy = self.state.as_deref().filter(is_wanted);
        let dead_letter_to = policy.and_then(|policy| policy.dead_letter_to.clone());
        if dead_letter_to.is_some() {
            note_died(queue, true, Reason::MaxLen, 1);
        }
        let item = u32::try_from(item).expect("fewer messages than 2^32");
        RefusedItem { item, why: Refusal::MaxLen, dead_letter_to }
    }
}
