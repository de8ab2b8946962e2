//! A queue's settings as its machine takes them.

use meta::{ConfirmOn, DeadLetterStrategy, Overflow, QueueSettings, RetryType, WithoutConsumer};
use queue::machine::{DeadLetters, PendingLimits, Settings};
use queue::{Limits, Retry, RetryOn};
use queue_type::DeadLetterTo;

/// The event that publishes are confirmed upon; the machine always has a record of what consumers hold.
pub(crate) const fn confirm_on(settings: &QueueSettings) -> ConfirmOn {
    if settings.confirm.on.waits_for_consumers() { ConfirmOn::Ack } else { ConfirmOn::Enqueue }
}

/// Target of dead letters by definitions.
pub(crate) fn dead_letter_to(settings: &QueueSettings) -> Option<DeadLetterTo> {
    let exchange = settings.dead_letter.exchange.clone()?;
    Some(DeadLetterTo { exchange, routing_key: settings.dead_letter.routing_key.clone() })
}

/// The settings of definitions as the machine's.
pub(crate) fn machine_settings(settings: &QueueSettings) -> Settings {
    // COMPAT: `reject-publish-dlx` is as `drop-head`.
    let refuses = settings.length.overflow == Overflow::RejectPublish;
    let is_at_least_once = settings.dead_letter.strategy == DeadLetterStrategy::AtLeastOnce;
    Settings {
        limits: Limits {
            messages_max: settings.length.messages_max,
            bytes_max: settings.length.bytes_max,
            refuses,
        },
        delivery_limit: settings.delivery_limit,
        retry: settings.delayed_retry.map(|retry| Retry {
            on: match retry.on {
                RetryType::All => RetryOn::All,
                RetryType::Failed => RetryOn::Failed,
                RetryType::Returned => RetryOn::Released,
            },
            min_ms: retry.min_ms,
            max_ms: retry.max_ms,
        }),
        message_ttl_ms: settings.message_ttl_ms,
        expires_ms: settings.expires_ms,
        dead_letters: match settings.dead_letter.exchange {
            None => DeadLetters::Dropped,
            // COMPAT: at least once needs a queue that refuses what it has no room for.
            Some(_) if is_at_least_once && refuses => DeadLetters::AtLeastOnce,
            Some(_) => DeadLetters::AtMostOnce,
        },
        confirm_on_ack: settings.confirm.on.waits_for_consumers().then_some(PendingLimits {
            messages_max: settings.confirm.max_pending,
            bytes_max: settings.confirm.max_pending_bytes,
            needs_consumer: settings.confirm.without_consumer == WithoutConsumer::Nack,
            timeout_ms: settings.confirm.timeout_ms,
        }),
        // The machine knows no more than it has a limit of its own for.
        named_publishers_max: u32::try_from(settings.confirm.publishers_max).unwrap_or(u32::MAX),
        is_single_active: settings.single_active_consumer,
        ..Settings::default()
    }
}
