//! Messages on their way in. All of them are kept, whatever their delivery mode.

use super::turn::Turn;
use confirm::DurabilityToken;
use message::MessageRef;
use queue::machine::{Arrival, Command, Items, Named, PRIORITY_DEFAULT, Promise, Put, Run};
use queue_type::{Any, Confirm, Count, Incoming, Publishes, RefusedItem};
use std::ops::Range;

/// The only publisher that the machine knows: this node, which puts in what all its clients publish.
pub(crate) const NODE: u64 = 0;

impl Turn<'_> {
    /// Puts messages in. Returns what must be durable before they may be confirmed.
    pub(crate) fn publish(
        &mut self,
        Publishes { messages, any, on_consume }: Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
    ) -> DurabilityToken {
        if self.state.is_deleted {
            if on_consume {
                refused.extend(RefusedItem::awaited_by_deleted(messages));
            }
            return DurabilityToken::default();
        }
        let first = self.next_number();
        debug_assert!(!messages.is_empty(), "somebody publishes something");
        self.state.publishing.last_number = Some(first + messages.len() as u64 - 1);
        if on_consume {
            self.state.publishing.confirms.get_or_insert_default().wait_for(messages, first);
        }
        let (mut rest, mut at) = (&mut *messages, first);
        while !rest.is_empty() {
            let n = if on_consume || any.named { n_alike(rest) } else { rest.len() };
            let (put, behind) = rest.split_at_mut(n);
            self.put(put, at, any);
            (rest, at) = (behind, at + n as u64);
        }
        let numbers = first..first + messages.len() as u64;
        let kept = take_promises(self, &numbers, on_consume, refused);
        let upto = DurabilityToken::by_log(self.record(first, messages));
        for Confirm { publisher, sequence } in kept {
            let wal = self.queue.context.wal();
            publisher.answer_when_durable(wal, &upto, sequence);
        }
        // Nobody waits for the disk where a consumer's word counts, but for a transaction.
        let is_waited_for = !on_consume || messages.iter().any(|it| it.confirm.is_none());
        if is_waited_for { upto } else { DurabilityToken::default() }
    }

    /// Enqueues messages, the first of which gets the number `first`.
    fn put(&mut self, messages: &mut [Incoming<'_>], first: u64, any: Any) {
        self.queue.counters.tally.add(Count::Published, messages.len() as u64);
        let mut arrivals = std::mem::take(&mut self.work.arrivals);
        for incoming in &mut *messages {
            incoming.message.persistent = true;
            arrivals.push(arrival(&incoming.message, any.expiring));
        }
        let confirms = messages.iter().any(|incoming| incoming.confirm.is_some());
        let named = messages.first().and_then(|incoming| incoming.named);
        let named = named.map(|it| Named { name: &it.publisher, first: it.id });
        let items = Items::Slice(&arrivals);
        // COMPAT: a dead letter that is sent once goes beyond the limits of a queue that refuses publishes.
        let ignores_length = any.untracked;
        let put = Put { publisher: NODE, first, confirms, ignores_length, named, arrivals: items };
        self.apply(&Command::Put(put));
        arrivals.clear();
        self.work.arrivals = arrivals;
    }

    /// The number of the next message. Numbers begin anew in each life of the node.
    fn next_number(&mut self) -> u64 {
        if self.state.publishing.last_number.is_none() {
            let publishers = Items::Slice(&[NODE]);
            self.apply(&Command::PublishersGone { publishers });
            // Promises of this command name numbers of the life before.
            self.work.effects.promises.clear();
        }
        self.state.publishing.last_number.unwrap_or(0) + 1
    }
}

/// Takes the promises of the machine in this turn. Of the messages of these numbers those that the machine
/// did not take are `refused`; returns the publishers of those that it took and whose confirms wait for no
/// consumer any more.
fn take_promises(
    turn: &mut Turn<'_>,
    numbers: &Range<u64>,
    on_consume: bool,
    refused: &mut Vec<RefusedItem>,
) -> Vec<Confirm> {
    let mut kept = Vec::new();
    let confirms = &mut turn.state.publishing.confirms;
    for promise in turn.work.effects.promises.drain(..) {
        match (promise, &mut *confirms) {
            (Promise::Refused(run, why), confirms) => {
                for number in run.first..run.first.saturating_add(run.n) {
                    let item = numbers.contains(&number).then(|| number - numbers.start);
                    let item = item.and_then(|item| u32::try_from(item).ok());
                    match (item, confirms.as_mut()) {
                        (Some(item), confirms) => {
                            confirms.and_then(|it| it.take(number));
                            refused.push(RefusedItem { item, why, dead_letter_to: None });
                        }
                        (None, Some(confirms)) => {
                            let one = Run { first: number, n: 1, ..run };
                            confirms.note(Promise::Refused(one, why));
                        }
                        (None, None) => {}
                    }
                }
            }
            (Promise::Confirmed(run), Some(confirms))
                if on_consume && numbers.contains(&run.first) =>
            {
                let confirmed = run.first..run.first + run.n;
                kept.extend(confirmed.filter_map(|number| confirms.take(number)));
            }
            (promise, Some(confirms)) => confirms.note(promise),
            (_, None) => {}
        }
    }
    kept
}

/// Number of the first messages that are put in at once: those whose publishers all wait, or do not, and
/// those of one name that follow each other.
fn n_alike(messages: &[Incoming<'_>]) -> usize {
    let is_next = |a: &queue_type::Named, b: &queue_type::Named| {
        a.publisher == b.publisher && a.id.checked_add(1) == Some(b.id)
    };
    let is_alike = |(a, b): &(&Incoming<'_>, &Incoming<'_>)| {
        let follows = match (a.named, b.named) {
            (None, None) => true,
            (Some(a), Some(b)) => is_next(a, b),
            (Some(_), None) | (None, Some(_)) => false,
        };
        follows && a.confirm.is_some() == b.confirm.is_some()
    };
    1 + messages.iter().zip(messages.iter().skip(1)).take_while(is_alike).count()
}

/// A message as the machine is told of it.
fn arrival(message: &MessageRef<'_>, may_expire: bool) -> Arrival {
    let properties = message.index();
    let expiration = if may_expire { properties.expiration() } else { None };
    let ttl_ms = expiration.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
    Arrival {
        priority: properties.priority().unwrap_or(PRIORITY_DEFAULT),
        ttl_ms: ttl_ms.filter(|ttl_ms| *ttl_ms < u64::MAX),
        bytes: u32::try_from(message.body.len()).unwrap_or(u32::MAX),
    }
}
