//! Messages that come to a queue with rules: when each expires, where it has its place, and whether there is
//! room for it.

use super::{PolicyState, RefusedItem};
use crate::queue::delay_header::delay_ms_of;
use crate::queue::incoming::{Incoming, Publishes};
use crate::queue::state::QueueState;
use crate::queue::{Queue, Wakes};
use confirm::DurabilityToken;
use message::MessageRef;
use meta::{LengthLimits, Overflow};
use queue::{Fifo, MessageAttrs};
use std::num::NonZeroU64;

/// The rules for messages that come in now.
struct Arrivals {
    now_ms: u64,
    ttl_ms: Option<u64>,
    has_priorities: bool,
    /// Each stays for as long as it says, and what it says of its expiration counts later.
    holds_back: bool,
}

impl Arrivals {
    /// When a message expires.
    fn deadline_ms(&self, message: &MessageRef<'_>) -> Option<NonZeroU64> {
        let properties = message.view();
        if self.holds_back {
            let delay_ms = delay_ms_of(properties.headers()).unwrap_or_default();
            return NonZeroU64::new(self.now_ms.saturating_add(delay_ms).max(1));
        }
        let expiration = properties.expiration();
        let own = expiration.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        let ttl_ms = match (self.ttl_ms, own) {
            (Some(of_queue), Some(own)) => of_queue.min(own),
            (one, other) => one.or(other)?,
        };
        NonZeroU64::new(self.now_ms.saturating_add(ttl_ms).max(1))
    }

    fn arrival(&self, message: &MessageRef<'_>) -> MessageAttrs {
        arrival(message, self.has_priorities, message.body.len() as u64)
    }
}

pub(super) fn arrival(message: &MessageRef<'_>, has_priorities: bool, bytes: u64) -> MessageAttrs {
    let priority = || message.view().priority().unwrap_or(0);
    MessageAttrs {
        priority: if has_priorities { priority() } else { 0 },
        deadline_ms: message.annotations.deadline_ms.map(NonZeroU64::get),
        bytes,
    }
}

/// How messages get their positions.
pub(in crate::queue) struct PutIn<'a>(Option<&'a Arrivals>);

impl PutIn<'_> {
    /// One after the other: for a queue without rules.
    pub(in crate::queue) const PLAINLY: Self = Self(None);

    /// Puts a message in its place.
    #[inline]
    pub(in crate::queue) fn place(&self, core: &mut Fifo, message: &MessageRef<'_>) -> u64 {
        match self.0 {
            None => core.enqueue(1),
            Some(arrivals) => core.put(&arrivals.arrival(message), arrivals.now_ms),
        }
    }
}

impl QueueState {
    /// As [`QueueState::publish`], for a queue that has rules, or messages that expire.
    #[inline(never)]
    pub(in crate::queue) fn publish_by_rules(
        &mut self,
        queue: &Queue,
        publishes: Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        let ruling = self.policy.state.as_deref();
        if !publishes.any.expiring && ruling.is_none_or(|ruling| !ruling.looks_at_arrivals()) {
            return self.deliveries().publish_together(queue, &publishes, &PutIn::PLAINLY, wakes);
        }
        let arrivals = Arrivals {
            now_ms: queue.storage.time.unix_ms(),
            ttl_ms: ruling.and_then(|ruling| ruling.settings.message_ttl_ms),
            has_priorities: ruling.is_some_and(|ruling| ruling.settings.max_priority > 0),
            holds_back: ruling.is_some_and(|ruling| ruling.settings.holds_back),
        };
        for Incoming { message, .. } in &mut *publishes.messages {
            message.annotations.deadline_ms = arrivals.deadline_ms(message);
        }
        let put_in = PutIn(Some(&arrivals));
        let awaited = if ruling.is_some_and(PolicyState::refuses) {
            self.publish_admitted(queue, publishes, &put_in, refused, wakes)
        } else {
            self.deliveries().publish_together(queue, &publishes, &put_in, wakes)
        };
        self.leaving().enforce(queue, arrivals.now_ms);
        awaited
    }

    /// Puts in what there is room for, and refuses the rest.
    fn publish_admitted(
        &mut self,
        queue: &Queue,
        Publishes { messages, any, is_late }: Publishes<'_, '_>,
        put_in: &PutIn<'_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        let mut awaited = DurabilityToken::default();
        let mut at = 0;
        while let Some(rest) = messages.get_mut(at..).filter(|rest| !rest.is_empty()) {
            let n_admitted = self.n_admitted(rest);
            let Some(admitted) = rest.get_mut(..n_admitted).filter(|these| !these.is_empty())
            else {
                let ruling = self.policy.state.as_deref();
                let overflow = |ruling: &PolicyState| ruling.settings.length.overflow;
                let dead_letter_to =
                    ruling.filter(|it| overflow(it) == Overflow::RejectPublishDeadLetter);
                let dead_letter_to = dead_letter_to.and_then(|it| it.dead_letter_to.clone());
                let item = u32::try_from(at).expect("fewer messages than 2^32");
                refused.push(RefusedItem { item, dead_letter_to });
                at += 1;
                continue;
            };
            let publishes = Publishes { messages: admitted, any, is_late };
            awaited.add(self.deliveries().publish_together(queue, &publishes, put_in, wakes));
            at += n_admitted;
        }
        awaited
    }

    /// How many of the first messages there is room for if nothing leaves.
    fn n_admitted(&self, messages: &[Incoming<'_>]) -> usize {
        let Some(ruling) = &self.policy.state else { return messages.len() };
        let LengthLimits { messages_max, bytes_max, .. } = ruling.settings.length;
        let policy = self.fifo.messages().policy();
        let n_delayed = policy.map_or(0, |it| it.delayed().len());
        let n_there = self.fifo.messages().n_ready() + n_delayed;
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
}
