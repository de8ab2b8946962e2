//! Names of queues that are the broker's own.

use routing::Name;

/// The prefix of the names of queues that hold messages back for an exchange.
pub(crate) const DELAYED_PREFIX: &str = "amq.delayed.";

/// The name of the queue that holds messages back for an exchange.
#[must_use]
pub fn delayed_queue_of(exchange: &str) -> Name {
    Name::from(format!("{DELAYED_PREFIX}{exchange}"))
}

/// Whether a queue of that name is the broker's own.
pub(crate) fn is_internal_name(name: &str) -> bool {
    name.starts_with(DELAYED_PREFIX)
}
