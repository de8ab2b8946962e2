//! Messages on their way in. All of them are kept, whatever their delivery mode.

use super::turn::Turn;
use confirm::DurabilityToken;
use message::MessageRef;
use queue::machine::{Arrival, Command, Items, PRIORITY_DEFAULT, Promise, Put};
use queue_type::{Publishes, RefusedItem};

/// The only publisher that the machine knows: this node, which puts in what all its clients publish.
pub(crate) const NODE: u64 = 0;

impl Turn<'_> {
    /// Puts messages in. Returns what must be durable before they may be confirmed.
    pub(crate) fn publish(
        &mut self,
        Publishes { messages, any, .. }: Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
    ) -> DurabilityToken {
        if self.state.is_deleted {
            return DurabilityToken::default();
        }
        let mut arrivals = std::mem::take(&mut self.work.arrivals);
        for incoming in &mut *messages {
            incoming.message.persistent = true;
            arrivals.push(arrival(&incoming.message, any.expiring));
        }
        let first = self.next_number();
        self.state.last_number = Some(first + messages.len() as u64 - 1);
        let confirms = messages.iter().any(|incoming| incoming.confirm.is_some());
        let items = Items::Slice(&arrivals);
        let put = Put { publisher: NODE, first, confirms, named: None, arrivals: items };
        self.apply(&Command::Put(put));
        arrivals.clear();
        self.work.arrivals = arrivals;
        for promise in self.work.effects.promises.drain(..) {
            if let Promise::Refused(run) = promise {
                let items =
                    (run.first.wrapping_sub(first)..).take(usize::try_from(run.n).unwrap_or(0));
                let items = items.filter_map(|item| u32::try_from(item).ok());
                refused.extend(items.map(|item| RefusedItem { item, dead_letter_to: None }));
            }
        }
        DurabilityToken::by_log(self.record(first, messages))
    }

    /// The number of the next message. In each life of the node they begin anew.
    fn next_number(&mut self) -> u64 {
        if self.state.last_number.is_none() {
            let publishers = Items::Slice(&[NODE]);
            self.apply(&Command::PublishersGone { publishers });
        }
        self.state.last_number.unwrap_or(0) + 1
    }
}

/// A message as the machine is told of it.
fn arrival(message: &MessageRef<'_>, may_expire: bool) -> Arrival {
    let properties = message.view();
    let expiration = if may_expire { properties.expiration() } else { None };
    let ttl_ms = expiration.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
    Arrival {
        priority: properties.priority().unwrap_or(PRIORITY_DEFAULT),
        ttl_ms: ttl_ms.filter(|ttl_ms| *ttl_ms < u64::MAX),
        bytes: u32::try_from(message.body.len()).unwrap_or(u32::MAX),
    }
}
