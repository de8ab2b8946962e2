//! What listings show of the message that a queue gives out next.

use super::Queue;
use amqp091::PropertiesRef;
use store::backlog::Lookup;

/// The property `timestamp` of the message that `queue` gives out next; none while that is not in memory.
#[must_use]
pub fn head_timestamp(queue: &Queue) -> Option<u64> {
    let local = stdx::lock(&queue.local);
    match local.backlog.get(local.fifo.head()?) {
        Lookup::Here(message) => PropertiesRef::trusted(message.properties).timestamp(),
        Lookup::Cold | Lookup::Gone => None,
    }
}
