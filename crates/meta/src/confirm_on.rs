//! The time of a confirm: once the queue has the message, or once a consumer had it.

use crate::setting::{self, Given};
pub use crate::setting::{ConfirmOn, WithoutConsumer};

/// The confirmed publishes that may wait for a queue's consumers, if the queue does not say.
pub(crate) const MAX_PENDING_DEFAULT: u64 = 65_536;
/// Bytes of the bodies of these publishes, if the queue does not say.
pub(crate) const MAX_PENDING_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// The named publishers that a queue knows, if the queue does not say.
pub(crate) const MAX_PUBLISHERS_DEFAULT: u64 = 1_024;

/// The settings of a queue about confirms, and about publishes that come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfirmSettings {
    /// `x-confirm-on`.
    pub on: ConfirmOn,
    /// `x-confirm-on-max-pending`: publishes that may wait for consumers; more are refused.
    pub max_pending: u64,
    /// `x-confirm-on-max-pending-bytes`: the bytes of the bodies of these publishes.
    pub max_pending_bytes: u64,
    /// `x-confirm-on-no-consumer`.
    pub without_consumer: WithoutConsumer,
    /// `x-confirm-timeout`: how long a publish may wait for consumers until it is refused, in milliseconds;
    /// without it for ever.
    pub timeout_ms: Option<u64>,
    /// `x-max-publishers`: publishers that name themselves and are known; of more, those that published
    /// longest ago are forgotten.
    pub publishers_max: u64,
}

impl Default for ConfirmSettings {
    fn default() -> Self {
        Self {
            on: ConfirmOn::default(),
            max_pending: MAX_PENDING_DEFAULT,
            max_pending_bytes: MAX_PENDING_BYTES_DEFAULT,
            without_consumer: WithoutConsumer::default(),
            timeout_ms: None,
            publishers_max: MAX_PUBLISHERS_DEFAULT,
        }
    }
}

impl ConfirmSettings {
    /// Reads arguments and policies.
    pub(crate) fn of(given: Given<'_>) -> Self {
        let number = |setting, default| given.number(setting).unwrap_or(default);
        Self {
            on: given.value(&setting::CONFIRM_ON_MODE, ConfirmOn::of_name),
            max_pending: number(&setting::CONFIRM_ON_MAX_PENDING, MAX_PENDING_DEFAULT),
            max_pending_bytes: number(
                &setting::CONFIRM_ON_MAX_PENDING_BYTES,
                MAX_PENDING_BYTES_DEFAULT,
            ),
            without_consumer: given
                .value(&setting::CONFIRM_ON_NO_CONSUMER, WithoutConsumer::of_name),
            timeout_ms: given.number(&setting::CONFIRM_TIMEOUT),
            publishers_max: number(&setting::MAX_PUBLISHERS, MAX_PUBLISHERS_DEFAULT),
        }
    }
}
