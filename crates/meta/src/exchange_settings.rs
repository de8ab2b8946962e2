//! Settings of exchanges beyond routing: by their type, their arguments, or policies.

use std::num::NonZeroU32;

use amqp091::{Table, Value};
use routing::{ExchangeKind, erlang};
use serde_json::{Map, Value as Json};

use crate::checks::parse_exchange_kind;
use crate::error::MetaError;
use crate::queue_name::DELAYED_PREFIX;

/// The argument of an exchange that says how many messages it remembers.
const HISTORY_LENGTH: &str = "x-recent-history-length";
/// COMPAT: RabbitMQ's default.
const HISTORY_LENGTH_DEFAULT: NonZeroU32 = NonZeroU32::new(20).expect("not 0");
/// The longest history, in messages.
const HISTORY_LENGTH_MAX: u32 = 10_000;

/// The arguments, and keys of policies, of an exchange that drops what it has seen lately.
const DEDUPLICATION: &str = "x-message-deduplication";
const CACHE_SIZE: &str = "x-cache-size";
const CACHE_TTL: &str = "x-cache-ttl";
const DEDUPLICATION_HEADER: &str = "x-deduplication-header";
const CACHE_SIZE_DEFAULT: u32 = 128;
/// The most messages one exchange can tell from new ones.
const CACHE_SIZE_MAX: u32 = 1_000_000;

/// The argument, and key of policies, of an exchange that holds messages back.
const DELAYED: &str = "x-delayed-exchange";
/// The argument that says which kind a delaying exchange routes as.
const DELAYED_TYPE: &str = "x-delayed-type";
/// Bytes of the longest name of a delaying exchange: that of the queue behind it is to be a name too.
const DELAYING_NAME_BYTES_MAX: usize = 255 - DELAYED_PREFIX.len();

/// An exchange's settings for each message that comes to it, beyond routing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExchangeSettings {
    /// The number of last messages that a newly bound queue is given.
    pub history: Option<NonZeroU32>,
    /// The duplicates that the exchange drops.
    pub deduplication: Option<Deduplication>,
    /// Whether messages with a header `x-delay` are held back for so many milliseconds.
    pub delays: bool,
}

/// The settings by which duplicates are recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deduplication {
    /// The header that names a message.
    pub header: Box<[u8]>,
    /// The number of last names that are remembered.
    pub size: u32,
    /// Time for which a name is remembered, milliseconds, unless a message says otherwise.
    pub ttl_ms: Option<u64>,
}

impl ExchangeSettings {
    /// The settings that the exchange's own type and arguments give.
    pub(crate) fn new(kind: ExchangeKind, arguments: &Table) -> Self {
        let history = (kind == ExchangeKind::RecentHistory)
            .then(|| history_length(arguments).unwrap_or(HISTORY_LENGTH_DEFAULT));
        let flag = |key: &str| arguments.get(key.as_bytes()).and_then(Value::as_bool);
        let number = |key: &str| arguments.get(key.as_bytes()).and_then(Value::as_i64);
        let text = |key: &str| arguments.get(key.as_bytes()).and_then(Value::as_bytes);
        let deduplicates = kind == ExchangeKind::Deduplication || flag(DEDUPLICATION) == Some(true);
        let deduplication = deduplicates.then(|| {
            Deduplication::new(text(DEDUPLICATION_HEADER), number(CACHE_SIZE), number(CACHE_TTL))
        });
        let delays = kind == ExchangeKind::Delayed || flag(DELAYED) == Some(true);
        Self { history, deduplication, delays }
    }

    /// Adds what a policy asks for of the exchange `name`; arguments go before it.
    pub(crate) fn add_policy(&mut self, name: &str, policy: &Map<String, Json>) {
        let is_set = |key: &str| policy.get(key).and_then(Json::as_bool) == Some(true);
        self.delays |= is_set(DELAYED) && name.len() <= DELAYING_NAME_BYTES_MAX;
        if self.deduplication.is_none() && is_set(DEDUPLICATION) {
            let number = |key: &str| policy.get(key).and_then(Json::as_i64);
            let header = policy.get(DEDUPLICATION_HEADER).and_then(Json::as_str);
            let header = header.map(str::as_bytes);
            let cache = (number(CACHE_SIZE), number(CACHE_TTL));
            self.deduplication = Some(Deduplication::new(header, cache.0, cache.1));
        }
    }

    /// Whether the host has to look at each message.
    pub const fn any(&self) -> bool {
        self.history.is_some() || self.deduplication.is_some() || self.delays
    }
}

impl Deduplication {
    fn new(header: Option<&[u8]>, size: Option<i64>, ttl_ms: Option<i64>) -> Self {
        let size = size.and_then(|size| u32::try_from(size).ok()).unwrap_or(CACHE_SIZE_DEFAULT);
        Self {
            header: header.unwrap_or(DEDUPLICATION_HEADER.as_bytes()).into(),
            size: size.clamp(1, CACHE_SIZE_MAX),
            ttl_ms: ttl_ms.and_then(|ttl_ms| u64::try_from(ttl_ms).ok()),
        }
    }
}

fn history_length(arguments: &Table) -> Option<NonZeroU32> {
    let length = arguments.get(HISTORY_LENGTH.as_bytes()).and_then(Value::as_i64)?;
    let length = u32::try_from(length).unwrap_or(u32::MAX).min(HISTORY_LENGTH_MAX);
    NonZeroU32::new(length)
}

/// The kind a delaying exchange routes as; none where nothing usable is said.
pub(crate) fn delayed_type(arguments: &Table) -> Option<ExchangeKind> {
    let name = arguments.get(DELAYED_TYPE.as_bytes()).and_then(Value::as_str)?;
    ExchangeKind::of_name(name).filter(|kind| *kind != ExchangeKind::Delayed)
}

/// Refuses arguments an exchange of this kind and name cannot have.
pub(crate) fn check(kind: ExchangeKind, name: &str, arguments: &Table) -> Result<(), MetaError> {
    if kind == ExchangeKind::RecentHistory {
        check_positive(HISTORY_LENGTH, arguments)?;
    }
    if kind == ExchangeKind::Deduplication || arguments.get(DEDUPLICATION.as_bytes()).is_some() {
        check_positive(CACHE_SIZE, arguments)?;
        check_positive(CACHE_TTL, arguments)?;
    }
    if kind == ExchangeKind::Delayed {
        check_delayed_type(arguments)?;
    }
    let is_delaying = kind == ExchangeKind::Delayed || arguments.get(DELAYED.as_bytes()).is_some();
    if is_delaying && name.len() > DELAYING_NAME_BYTES_MAX {
        return Err(MetaError::ExchangeArguments(format!(
            "the name of an exchange that delays messages has at most {DELAYING_NAME_BYTES_MAX} \
             bytes, and '{name}' has {}",
            name.len()
        )));
    }
    Ok(())
}

fn check_delayed_type(arguments: &Table) -> Result<(), MetaError> {
    let refused = |text: String| MetaError::ExchangeArguments(format!("Invalid argument, {text}"));
    let Some(name) = arguments.get(DELAYED_TYPE.as_bytes()).and_then(Value::as_str) else {
        return Err(refused(format!("'{DELAYED_TYPE}' must be an existing exchange type")));
    };
    if parse_exchange_kind(name)? == ExchangeKind::Delayed {
        return Err(refused(format!("'{name}' can't be used for '{DELAYED_TYPE}'")));
    }
    Ok(())
}

fn check_positive(key: &str, arguments: &Table) -> Result<(), MetaError> {
    match arguments.get(key.as_bytes()) {
        None => Ok(()),
        Some(value) if value.as_i64().is_some_and(|number| number > 0) => Ok(()),
        Some(value) => Err(MetaError::ExchangeArguments(format!(
            "Invalid argument {}, '{key}' must be a positive integer",
            erlang::term(value)
        ))),
    }
}
