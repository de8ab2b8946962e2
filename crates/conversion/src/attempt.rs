//! The deliveries of a message before the one that is about to be made.

use amqp091::TableRef;
use message::MessageRef;

/// How often a message was delivered before, as its header in AMQP 1.0 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// Whether nobody acquired the message before.
    pub first_acquirer: bool,
    /// Deliveries before this one that failed.
    pub delivery_count: u32,
}

impl DeliveryAttempt {
    /// No deliveries before.
    pub const FIRST: Self = Self { first_acquirer: true, delivery_count: 0 };

    /// The deliveries before this one. COMPAT: as many have failed as its queue says of a message that comes
    /// again, and as a dead letter was rejected before it came to its queue.
    #[inline]
    #[must_use]
    pub fn of(message: &MessageRef<'_>, redelivered: bool, n_failed: u32) -> Self {
        let is_dead_letter = message.annotations.dead_lettered;
        let n_rejected = if is_dead_letter { n_rejected(message) } else { 0 };
        let delivery_count = n_failed.saturating_add(n_rejected);
        Self { first_acquirer: !redelivered && !is_dead_letter, delivery_count }
    }
}

#[cold]
fn n_rejected(message: &MessageRef<'_>) -> u32 {
    let headers = message.index().headers().unwrap_or(TableRef::EMPTY);
    let deaths = headers.get(b"x-death").and_then(|it| it.as_array()).unwrap_or_default();
    let counts = deaths.iter().filter_map(|death| {
        let death = death.as_table()?;
        let is_rejected = death.get(b"reason")?.as_bytes() == Some(b"rejected");
        is_rejected.then(|| death.get(b"count")?.as_i64()).flatten()
    });
    u32::try_from(counts.fold(0, i64::saturating_add)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use amqp091::{ShortString, Table, Value};
    use message::{Annotations, Body, BodyForm, Properties};

    fn headers(entries: Vec<(&'static str, Value)>) -> Table {
        entries.into_iter().map(|(name, it)| (ShortString::from_static(name), it)).collect()
    }

    #[test]
    fn rejections_of_dead_letters_count_as_failures() {
        let death = |reason: &str, count| {
            let fields = vec![("reason", Value::from(reason)), ("count", Value::I64(count))];
            Value::Table(headers(fields))
        };
        let deaths = Value::Array(vec![death("rejected", 2), death("expired", 5)]);
        let entries = vec![("x-death", deaths), ("x-delivery-count", Value::I64(7))];
        let properties = Properties { headers: Some(headers(entries)), ..Properties::default() };
        let properties = properties.to_bytes();
        let attempt = |dead_lettered, redelivered, n_failed| {
            let annotations = Annotations { dead_lettered, ..Annotations::default() };
            let message = MessageRef {
                exchange: b"",
                routing_key: b"q",
                properties: &properties,
                body: Body::Borrowed(b""),
                persistent: true,
                annotations,
                form: BodyForm::Plain,
            };
            let attempt = DeliveryAttempt::of(&message, redelivered, n_failed);
            (attempt.first_acquirer, attempt.delivery_count)
        };
        assert_eq!(attempt(false, false, 0), (true, 0));
        assert_eq!(attempt(false, true, 0), (false, 0));
        assert_eq!(attempt(false, true, 3), (false, 3));
        assert_eq!(attempt(true, false, 0), (false, 2));
        assert_eq!(attempt(true, true, 3), (false, 5));
    }
}
