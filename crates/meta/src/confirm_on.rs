//! The time of a confirm: once the queue has the message, or once a consumer had it.

use crate::setting::{self, Given};

/// Confirmed publishes that a queue lets wait for its consumers where nothing is said.
pub(crate) const MAX_PENDING_DEFAULT: u64 = 65_536;
/// Bytes of their bodies where nothing is said.
pub(crate) const MAX_PENDING_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// Named publishers that a queue knows where nothing is said.
pub(crate) const MAX_PUBLISHERS_DEFAULT: u64 = 1_024;

/// `x-confirm-on`: what a queue's publishes are confirmed upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfirmOn {
    /// The queue has the message, on disk if it is persistent.
    #[default]
    Enqueue,
    /// A consumer has acknowledged it.
    Ack,
    /// As on acknowledgement, and the queue keeps no record of what its consumers hold.
    AckDirect,
}

impl ConfirmOn {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Ack => "ack",
            Self::AckDirect => "ack-direct",
        }
    }

    /// Whether confirms wait for consumers.
    pub const fn waits_for_consumers(self) -> bool {
        !matches!(self, Self::Enqueue)
    }
}

/// `x-confirm-on-no-consumer`: what becomes of a confirmed publish while nobody consumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutConsumer {
    /// The confirm waits for a consumer.
    #[default]
    Wait,
    /// The message is refused.
    Nack,
}

/// The settings of a queue about confirms, and about publishes that come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfirmSettings {
    /// `x-confirm-on`.
    pub on: ConfirmOn,
    /// `x-confirm-on-max-pending`: publishes that may wait for consumers; more are refused.
    pub max_pending: u64,
    /// `x-confirm-on-max-pending-bytes`: the bytes of their bodies.
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
            on: match given.text(&setting::CONFIRM_ON_MODE) {
                Some("ack") => ConfirmOn::Ack,
                Some("ack-direct") => ConfirmOn::AckDirect,
                Some(_) | None => ConfirmOn::Enqueue,
            },
            max_pending: number(&setting::CONFIRM_ON_MAX_PENDING, MAX_PENDING_DEFAULT),
            max_pending_bytes: number(
                &setting::CONFIRM_ON_MAX_PENDING_BYTES,
                MAX_PENDING_BYTES_DEFAULT,
            ),
            without_consumer: match given.text(&setting::CONFIRM_ON_NO_CONSUMER) {
                Some("nack") => WithoutConsumer::Nack,
                Some(_) | None => WithoutConsumer::Wait,
            },
            timeout_ms: given.number(&setting::CONFIRM_TIMEOUT),
            publishers_max: number(&setting::MAX_PUBLISHERS, MAX_PUBLISHERS_DEFAULT),
        }
    }
}
