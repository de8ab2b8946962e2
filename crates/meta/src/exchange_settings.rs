//! What exchanges do with messages beyond routing them: by their type, their arguments, or policies.

use std::num::NonZeroU32;

use amqp091::{Table, Value};
use routing::ExchangeKind;

use crate::error::MetaError;

/// The argument of an exchange that says how many messages it remembers.
const HISTORY_LENGTH: &str = "x-recent-history-length";
/// COMPAT: RabbitMQ's default.
const HISTORY_LENGTH_DEFAULT: NonZeroU32 = NonZeroU32::new(20).expect("not 0");
/// The longest history, in messages.
const HISTORY_LENGTH_MAX: u32 = 10_000;

/// What an exchange does with each message that comes to it, beyond routing it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExchangeSettings {
    /// How many of its last messages a newly bound queue is given.
    pub history: Option<NonZeroU32>,
}

impl ExchangeSettings {
    /// Of an exchange of this kind with these arguments.
    pub(crate) fn new(kind: ExchangeKind, arguments: &Table) -> Self {
        let history = (kind == ExchangeKind::RecentHistory)
            .then(|| history_length(arguments).unwrap_or(HISTORY_LENGTH_DEFAULT));
        Self { history }
    }

    /// Whether the host has to look at each message.
    #[must_use]
    pub const fn any(&self) -> bool {
        self.history.is_some()
    }
}

fn history_length(arguments: &Table) -> Option<NonZeroU32> {
    let length = arguments.get(HISTORY_LENGTH.as_bytes()).and_then(Value::as_i64)?;
    let length = u32::try_from(length).unwrap_or(u32::MAX).min(HISTORY_LENGTH_MAX);
    NonZeroU32::new(length)
}

/// Refuses arguments an exchange of this kind cannot have.
pub(crate) fn check(kind: ExchangeKind, arguments: &Table) -> Result<(), MetaError> {
    if kind != ExchangeKind::RecentHistory {
        return Ok(());
    }
    match arguments.get(HISTORY_LENGTH.as_bytes()) {
        None => Ok(()),
        Some(value) if value.as_i64().is_some_and(|length| length > 0) => Ok(()),
        Some(value) => Err(MetaError::ExchangeArguments(format!(
            "Invalid argument {}, '{HISTORY_LENGTH}' must be a positive integer",
            routing::erlang::term(value)
        ))),
    }
}
