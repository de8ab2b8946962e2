//! Names of queues that are the broker's own.

use routing::Name;
use std::borrow::Cow;

/// The prefix of the names of queues that hold messages back for an exchange.
pub(crate) const DELAYED_PREFIX: &str = "amq.delayed.";

/// The name of the queue that holds messages back for an exchange.
#[must_use]
pub fn delayed_queue_of(exchange: &str) -> Name {
    Name::from(format!("{DELAYED_PREFIX}{exchange}"))
}

/// The name of a queue or exchange that is declared, deleted or bound, however it was asked for. COMPAT:
/// RabbitMQ drops carriage returns and line feeds.
#[must_use]
pub fn without_line_ends(name: &[u8]) -> Cow<'_, [u8]> {
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    if name.iter().any(is_line_end) {
        name.iter().copied().filter(|byte| !is_line_end(byte)).collect()
    } else {
        name.into()
    }
}

/// Whether a queue of that name is the broker's own.
pub(crate) fn is_internal_name(name: &str) -> bool {
    name.starts_with(DELAYED_PREFIX)
}
