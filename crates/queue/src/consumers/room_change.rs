//! Changes of a consumer's room for deliveries, and so of its place among the turns.

use super::{AckMode, Consumer, Consumers};
use crate::key::ConsumerKey;
use crate::room::LinkCredit;

/// A consumer whose room for deliveries is to be changed. Nothing happens for one that is gone.
#[derive(Debug)]
pub struct RoomChange<'c> {
    pub(super) consumers: &'c mut Consumers,
    pub(super) key: ConsumerKey,
}

impl RoomChange<'_> {
    /// Sets whether deliveries can be taken from the consumer, whatever its room. They can from the
    /// beginning.
    pub fn set_open(self, is_open: bool) {
        self.apply(|consumer| consumer.is_open = is_open);
    }

    /// Sets the prefetch limit, which has no effect where the delivery settles a message, and with link
    /// credit. Messages that the consumer holds stay with it.
    pub fn set_prefetch(self, prefetch: Option<u32>) {
        self.apply(|consumer| {
            let n_held = consumer.n_held() as u64;
            if consumer.wished() == AckMode::Manual {
                consumer.room.set_prefetch(prefetch, n_held);
            }
        });
    }

    /// Takes the link credit as the consumer's client sees it.
    pub fn flow(self, seen: LinkCredit) {
        self.apply(|consumer| consumer.room.flow(seen));
    }

    /// Uses up the link credit.
    pub fn drain(self) {
        self.apply(|consumer| consumer.room.drain());
    }

    /// Notes that the consumer, which holds nothing, was given `n` messages at once.
    pub(crate) fn note_passed_on(self, n: u64) {
        self.apply(|consumer| {
            if !consumer.is_unlimited() {
                consumer.room.take(n);
            }
        });
    }

    fn apply(self, change: impl FnOnce(&mut Consumer)) {
        if let Some(consumer) = self.consumers.table.get_mut(self.key) {
            change(consumer);
            self.consumers.update_line(self.key);
        }
    }
}
