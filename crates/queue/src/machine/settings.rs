//! The settings of a quorum queue: its arguments and policies as values, already merged.

use super::items::{put_option, read_option};
use crate::{Limits, Retry, RetryOn};
use stdx::record::{Reader, RecordError, put_bool, put_u8, put_u32, put_u64};

/// The settings of a quorum queue. The default is that of a queue declared without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Length limits. Ready messages, those that wait to be tried again, and with
    /// [`DeadLetters::AtLeastOnce`] those that depart count.
    pub limits: Limits,
    /// `x-delivery-limit`: a message whose delivery failed more often is gone; `None` for no limit.
    pub delivery_limit: Option<u32>,
    /// `x-delayed-retry-type`, `-min` and `-max`; `None` for `disabled`.
    pub retry: Option<Retry>,
    /// `x-message-ttl` in milliseconds, for messages that come from now on.
    pub message_ttl_ms: Option<u64>,
    /// `x-expires` in milliseconds, of time in which nobody consumes, holds a message, gets or declares.
    pub expires_ms: Option<u64>,
    /// The fate of messages that nobody is to be given any more.
    pub dead_letters: DeadLetters,
    /// `x-consumer-disconnected-timeout` in milliseconds: how long a consumer on a node that cannot be
    /// reached keeps what it holds.
    pub disconnected_timeout_ms: u64,
    /// `x-confirm-on=ack`: publishes are confirmed once they have been consumed.
    pub confirm_on_ack: Option<PendingLimits>,
    /// Named publishers whose last publishing id is kept; of more, those that put longest ago are forgotten.
    pub named_publishers_max: u32,
    /// `x-single-active-consumer`; fixed when the queue is declared.
    pub is_single_active: bool,
}

/// The fate of messages that nobody is to be given any more: refused, expired, too many, or tried too
/// often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadLetters {
    /// The messages are gone: the queue has no dead-letter exchange.
    #[default]
    Dropped,
    /// The messages depart (`x-dead-letter-strategy` `at-most-once`).
    AtMostOnce,
    /// The messages depart, and count as messages of the queue until they have (`at-least-once`).
    AtLeastOnce,
}

/// Publishes that may wait until they are consumed; one more is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingLimits {
    /// `x-confirm-on-max-pending`.
    pub messages_max: u64,
    /// `x-confirm-on-max-pending-bytes`: bytes of all bodies together.
    pub bytes_max: u64,
    /// `x-confirm-on-no-consumer=nack`: publishes are refused, too, while the queue has no consumer.
    pub needs_consumer: bool,
    /// `x-confirm-timeout` in milliseconds: a publish that waits longer is refused, and its message is gone
    /// as soon as nobody holds it, without a dead letter.
    pub timeout_ms: Option<u64>,
}

impl Settings {
    /// Whether messages that depart count as messages of the queue, whose limits then refuse more.
    pub(super) const fn keeps_departing(&self) -> bool {
        self.limits.refuses && matches!(self.dead_letters, DeadLetters::AtLeastOnce)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            delivery_limit: Some(20),
            retry: None,
            message_ttl_ms: None,
            expires_ms: None,
            dead_letters: DeadLetters::Dropped,
            disconnected_timeout_ms: 60_000,
            confirm_on_ack: None,
            named_publishers_max: 1_024,
            is_single_active: false,
        }
    }
}

impl Settings {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_option(out, self.limits.messages_max);
        put_option(out, self.limits.bytes_max);
        put_bool(out, self.limits.refuses);
        put_option(out, self.delivery_limit.map(u64::from));
        put_u8(out, self.retry.map_or(0, |retry| retry_code(retry.on)));
        if let Some(retry) = self.retry {
            put_u64(out, retry.min_ms);
            put_u64(out, retry.max_ms);
        }
        put_option(out, self.message_ttl_ms);
        put_option(out, self.expires_ms);
        put_u8(out, self.dead_letters as u8);
        put_u64(out, self.disconnected_timeout_ms);
        put_bool(out, self.confirm_on_ack.is_some());
        if let Some(pending) = self.confirm_on_ack {
            put_u64(out, pending.messages_max);
            put_u64(out, pending.bytes_max);
            put_bool(out, pending.needs_consumer);
            put_option(out, pending.timeout_ms);
        }
        put_u32(out, self.named_publishers_max);
        put_bool(out, self.is_single_active);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        Ok(Self {
            limits: Limits {
                messages_max: read_option(reader)?,
                bytes_max: read_option(reader)?,
                refuses: reader.bool()?,
            },
            delivery_limit: read_option(reader)?
                .map(|limit| u32::try_from(limit).map_err(|_| RecordError::Invalid))
                .transpose()?,
            retry: read_retry(reader)?,
            message_ttl_ms: read_option(reader)?,
            expires_ms: read_option(reader)?,
            dead_letters: match reader.u8()? {
                0 => DeadLetters::Dropped,
                1 => DeadLetters::AtMostOnce,
                2 => DeadLetters::AtLeastOnce,
                3..=u8::MAX => return Err(RecordError::Invalid),
            },
            disconnected_timeout_ms: reader.u64()?,
            confirm_on_ack: if reader.bool()? {
                Some(PendingLimits {
                    messages_max: reader.u64()?,
                    bytes_max: reader.u64()?,
                    needs_consumer: reader.bool()?,
                    timeout_ms: read_option(reader)?,
                })
            } else {
                None
            },
            named_publishers_max: reader.u32()?,
            is_single_active: reader.bool()?,
        })
    }
}

const fn retry_code(on: RetryOn) -> u8 {
    match on {
        RetryOn::All => 1,
        RetryOn::Failed => 2,
        RetryOn::Released => 3,
    }
}

fn read_retry(reader: &mut Reader<'_>) -> Result<Option<Retry>, RecordError> {
    let on = match reader.u8()? {
        0 => return Ok(None),
        1 => RetryOn::All,
        2 => RetryOn::Failed,
        3 => RetryOn::Released,
        4..=u8::MAX => return Err(RecordError::Invalid),
    };
    Ok(Some(Retry { on, min_ms: reader.u64()?, max_ms: reader.u64()? }))
}
