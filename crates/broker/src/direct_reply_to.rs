//! Direct replies: consumers without a queue, reached by a token
//! (<https://www.rabbitmq.com/docs/direct-reply-to>).

use message::MessageRef;
use queue::{DeliveryRoom, LinkCredit};
use queue_type::{Count, Tally};
use session::{ConsumerCredit, CreditRequest, Delivery, LinkId, Outbox, Position, Room, Sink};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// Where replies to one token go.
pub(crate) struct ReplyTarget {
    pub(crate) link: LinkId,
    pub(crate) outbox: Arc<dyn Outbox>,
    /// Counts of what it was given.
    pub(crate) tally: Arc<Tally>,
    /// The consumer's credit: replies in excess of it are dropped.
    pub(crate) room: DeliveryRoom,
    /// Its outbox takes nothing until the client has read: replies are dropped.
    pub(crate) full: bool,
}

/// All consumers of direct replies of the node.
#[derive(Default)]
pub(crate) struct Replies {
    targets: Mutex<HashMap<String, ReplyTarget>>,
    n_dropped: AtomicU64,
}

impl std::fmt::Debug for Replies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replies").field("n", &stdx::lock(&self.targets).len()).finish()
    }
}

impl Replies {
    pub(crate) fn add(&self, token: String, target: ReplyTarget) {
        stdx::lock(&self.targets).insert(token, target);
    }

    pub(crate) fn remove(&self, token: &str) {
        stdx::lock(&self.targets).remove(token);
    }

    pub(crate) fn knows(&self, token: &str) -> bool {
        stdx::lock(&self.targets).contains_key(token)
    }

    /// The connection has read what filled its outbox.
    pub(crate) fn resume(&self, token: &str) {
        if let Some(target) = stdx::lock(&self.targets).get_mut(token) {
            target.full = false;
        }
    }

    /// Takes the credit of a consumer's link. No reply waits for it: what is drained is used up at once.
    pub(crate) fn flow(&self, token: &str, request: &CreditRequest) {
        let CreditRequest { link, delivery_count, credit, drain, echo, .. } = *request;
        let waker = {
            let mut targets = stdx::lock(&self.targets);
            let Some(target) = targets.get_mut(token) else { return };
            target.room.flow(LinkCredit { delivery_count, credit });
            if drain {
                target.room.drain();
            }
            let Some(LinkCredit { delivery_count, credit }) = target.room.link_credit() else {
                return;
            };
            if !drain && !echo {
                return;
            }
            let told =
                ConsumerCredit { delivery_count, credit, available: 0, drain, is_active: None };
            target.outbox.batch(&mut |sink: &mut dyn Sink| sink.flowed(link, told))
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Delivers a reply; false when nobody waits for it. One that finds no room is dropped: it is
    /// settled by being sent, and nothing keeps it.
    pub(crate) fn deliver(&self, token: &str, message: MessageRef<'_>) -> bool {
        let waker = {
            let mut targets = stdx::lock(&self.targets);
            let Some(target) = targets.get_mut(token) else { return false };
            if target.full || !target.room.any() {
                self.n_dropped.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            target.deliver(message)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Replies for which their consumers had no room.
    pub(crate) fn n_dropped(&self) -> u64 {
        self.n_dropped.load(Ordering::Relaxed)
    }
}

impl ReplyTarget {
    fn deliver(&mut self, message: MessageRef<'_>) -> Option<Waker> {
        let (link, tally, mut room) = (self.link, &self.tally, Room::Full);
        let waker = self.outbox.batch(&mut |sink: &mut dyn Sink| {
            let position = Position(0);
            let delivery = Delivery {
                position,
                redelivered: false,
                n_failed: 0,
                settled_by_write: false,
                message: &message,
            };
            room = sink.deliver(link, delivery);
            tally.add(Count::DeliveredAuto, 1);
        });
        self.full = room == Room::Full;
        if self.room.is_of_link() {
            self.room.take(1);
        }
        waker
    }
}
