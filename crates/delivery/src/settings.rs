//! Settings of definitions as the cores and the thread of rules take them.

use meta::{QueueSettings, RetryType};
use queue::{Limits, Retry, RetryOn};
use queue_type::DeadLetterTo;

/// Target of dead letters; none if messages that depart go nowhere.
#[must_use]
pub fn dead_letter_to(settings: &QueueSettings) -> Option<DeadLetterTo> {
    let exchange = settings.dead_letter.exchange.clone()?;
    Some(DeadLetterTo { exchange, routing_key: settings.dead_letter.routing_key.clone() })
}

/// Limits of a queue's length, beyond which it `refuses` messages or drops some.
#[must_use]
pub const fn limits(settings: &QueueSettings, refuses: bool) -> Limits {
    let (messages_max, bytes_max) = (settings.length.messages_max, settings.length.bytes_max);
    Limits { messages_max, bytes_max, refuses }
}

/// The time after which messages that came back are given out again.
#[must_use]
pub fn retry(settings: &QueueSettings) -> Option<Retry> {
    settings.delayed_retry.map(|retry| Retry {
        on: match retry.on {
            RetryType::All => RetryOn::All,
            RetryType::Failed => RetryOn::Failed,
            RetryType::Returned => RetryOn::Released,
        },
        min_ms: retry.min_ms,
        max_ms: retry.max_ms,
    })
}
