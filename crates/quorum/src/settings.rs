//! A queue's settings as its machine takes them.

use delivery::{limits, retry};
use meta::{ConfirmOn, DeadLetterStrategy, Overflow, QueueSettings, WithoutConsumer};
use queue::machine::{DeadLetters, PendingLimits, Settings};

/// The event that publishes are confirmed upon; the machine always has a record of what consumers hold.
pub(crate) const fn confirm_on(settings: &QueueSettings) -> ConfirmOn {
    if settings.confirm.on.waits_for_consumers() { ConfirmOn::Ack } else { ConfirmOn::Enqueue }
}

/// The settings of definitions as the machine's.
pub(crate) fn machine_settings(settings: &QueueSettings) -> Settings {
    // COMPAT: `reject-publish-dlx` is as `drop-head`.
    let refuses = settings.length.overflow == Overflow::RejectPublish;
    let is_at_least_once = settings.dead_letter.strategy == DeadLetterStrategy::AtLeastOnce;
    Settings {
        limits: limits(settings, refuses),
        delivery_limit: settings.delivery_limit,
        retry: retry(settings),
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
