//! Headers that tell how often a message came back.

use amqp091::{ShortString, Value};
use message::MessageRef;
use queue::DeliveryCounts;

/// Bytes that telling how often a message came back adds to its properties, at most.
pub const COUNTS_BYTES_MAX: usize = 64;

/// The properties of a message with how often it came back; none if it did not.
#[must_use]
pub fn add_counts(counts: DeliveryCounts, message: &MessageRef<'_>) -> Option<Vec<u8>> {
    if counts == DeliveryCounts::default() {
        return None;
    }
    Some(message.index().with_changed_headers(|headers| {
        for (name, n) in
            [("x-delivery-count", counts.n_failed), ("x-acquired-count", counts.n_acquired)]
        {
            if n > 0 {
                headers.insert(ShortString::from_static(name), Value::I64(i64::from(n)));
            }
        }
    }))
}
