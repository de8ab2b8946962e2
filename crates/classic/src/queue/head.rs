//! The message that a queue gives out next, as far as listings show it.

use super::Queue;
use store::backlog::Lookup;

/// The property `timestamp` of the message that `queue` gives out next; none while that is not in memory.
#[must_use]
pub fn head_timestamp(queue: &Queue) -> Option<u64> {
    let local = stdx::lock(&queue.local);
    match local.content.backlog.get(local.fifo.messages().head()?) {
        Lookup::Here(message) => message.view().timestamp(),
        Lookup::Cold | Lookup::Gone => None,
    }
}
