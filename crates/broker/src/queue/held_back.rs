//! What the queue of a delaying exchange holds back, for operators: looking at it, and taking one out.

use super::Queue;
use super::local::Local;
use queue::PositionRange;
use store::backlog::Lookup;

/// A message that is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// Names it among those of its exchange.
    pub id: u64,
    /// When it goes on, in Unix milliseconds.
    pub due_ms: u64,
    /// What else is known of it; nothing while it is on disk only.
    pub message: Option<HeldBackMessage>,
}

/// A message that is held back, as far as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBackMessage {
    /// The exchange it was published to.
    pub exchange: String,
    /// Its routing key.
    pub routing_key: String,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// Whether it survives a restart.
    pub persistent: bool,
}

impl Queue {
    /// The first `n_max` messages that are held back, in the order in which they go on.
    pub(crate) fn held_back(&self, n_max: usize) -> Vec<HeldBack> {
        stdx::lock(&self.local).held_back(n_max)
    }

    /// Drops a message that is held back; false if it is not, or not any more.
    pub(crate) fn cancel_held_back(&self, id: u64) -> bool {
        self.with(|local, _| local.cancel_held_back(self, id))
    }
}

impl Local {
    fn held_back(&self, n_max: usize) -> Vec<HeldBack> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let shown = |(due_ms, id): (u64, u64)| HeldBack {
            id,
            due_ms,
            message: match self.backlog.get(id) {
                Lookup::Here(message) => Some(HeldBackMessage {
                    exchange: text(message.exchange),
                    routing_key: text(message.routing_key),
                    body_bytes: message.body.len() as u64,
                    persistent: message.persistent,
                }),
                Lookup::Cold | Lookup::Gone => None,
            },
        };
        self.fifo.by_deadline().take(n_max).map(shown).collect()
    }

    fn cancel_held_back(&mut self, queue: &Queue, id: u64) -> bool {
        let is_there = self.fifo.ready().any(|range| (range.start..range.end).contains(&id));
        if is_there {
            self.fifo.discard(PositionRange::one(id));
            self.release(&queue.storage.pool, id);
            self.note_in_log(queue);
        }
        is_there
    }
}
