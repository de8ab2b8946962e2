//! Direct replies: consumers without a queue, reached by a token
//! (<https://www.rabbitmq.com/docs/direct-reply-to>).

use message::MessageRef;
use meta::ConnectionId;
use queue_type::{Count, Tally};
use session::{Delivery, LinkId, Outbox, Position, Room, Sink};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Where replies to one token go.
pub(crate) struct ReplyTarget {
    pub(crate) connection: ConnectionId,
    pub(crate) link: LinkId,
    pub(crate) outbox: Arc<dyn Outbox>,
    /// Counts of what it was given.
    pub(crate) tally: Arc<Tally>,
    /// Its outbox takes nothing until the client has read: replies are dropped.
    pub(crate) full: bool,
}

/// All consumers of direct replies of the node.
#[derive(Default)]
pub(crate) struct Replies {
    targets: Mutex<HashMap<String, ReplyTarget>>,
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
    pub(crate) fn resume(&self, connection: ConnectionId, link: LinkId) {
        for target in stdx::lock(&self.targets).values_mut() {
            if target.connection == connection && target.link == link {
                target.full = false;
            }
        }
    }

    /// Delivers a reply; false when nobody waits for it. One that finds no room is dropped: it is
    /// settled by being sent, and nothing keeps it.
    pub(crate) fn deliver(&self, token: &str, message: MessageRef<'_>) -> bool {
        let waker = {
            let mut targets = stdx::lock(&self.targets);
            let Some(target) = targets.get_mut(token) else { return false };
            if target.full {
                return true;
            }
            let (link, tally, mut room) = (target.link, &target.tally, Room::Full);
            let waker = target.outbox.batch(&mut |sink: &mut dyn Sink| {
                let position = Position(0);
                let delivery = Delivery {
                    position,
                    redelivered: false,
                    settled_by_write: false,
                    message: &message,
                };
                room = sink.deliver(link, delivery);
                tally.add(Count::DeliveredAuto, 1);
            });
            target.full = room == Room::Full;
            waker
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}
