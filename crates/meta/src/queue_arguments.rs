//! The arguments of `queue.declare`: which a classic queue knows, and their domains.

use amqp091::{Table, Value};

use crate::checks::{check_argument, check_field, check_names_exchange};
use crate::confirm_on;
use crate::error::MetaError;
use crate::queue::QueueDef;

/// The argument that chooses the queue type.
pub(crate) const TYPE: &str = "x-queue-type";

const DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";

/// What a classic queue knows, in the order in which redeclarations are compared.
pub(crate) const CLASSIC: [&str; 23] = [
    "x-expires",
    "x-message-ttl",
    DEAD_LETTER_EXCHANGE,
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    TYPE,
    "x-queue-master-locator",
    "x-queue-leader-locator",
    "x-delivery-limit",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-consumer-timeout",
    "x-confirm-on",
    "x-confirm-on-max-pending",
    "x-confirm-on-max-pending-bytes",
    "x-confirm-on-no-consumer",
];

/// The types that are not offered.
const OTHER_KINDS: [&str; 2] = ["quorum", "stream"];

/// What only other queue types know: refused, while entirely unknown arguments are let through.
const OTHER_TYPES: [&str; 10] = [
    "x-dead-letter-strategy",
    "x-quorum-initial-group-size",
    "x-quorum-target-group-size",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
    "x-consumer-disconnected-timeout",
];

/// Ten years: longer times to live are taken for mistakes.
const MILLISECONDS_MAX: i64 = 10 * 365 * 24 * 60 * 60 * 1000;

/// The highest number of priorities above zero.
const PRIORITY_MAX: i64 = 255;

const OVERFLOWS: [&str; 3] = ["drop-head", "reject-publish", "reject-publish-dlx"];
const RETRY_TYPES: [&str; 4] = ["disabled", "all", "failed", "returned"];
const LOCATORS: [&str; 5] = ["client-local", "balanced", "random", "least-leaders", "min-masters"];

/// Whether these arguments ask for a classic queue, expressly or by silence.
pub(crate) fn is_classic(arguments: &Table) -> bool {
    arguments.get(TYPE.as_bytes()).is_none_or(|value| value.as_str() == Some("classic"))
}

/// Whether this is the name of a queue type that RabbitMQ has and this node does not offer.
pub(crate) fn is_of_other_type(name: &str) -> bool {
    OTHER_KINDS.contains(&name)
}

impl QueueDef {
    /// Refuses a redeclaration that differs, with the first difference.
    pub(crate) fn check_equivalent(&self, wanted: &Self) -> Result<(), MetaError> {
        let resource = || self.resource();
        if self.exclusive_owner != wanted.exclusive_owner {
            return Err(MetaError::Locked(resource()));
        }
        check_field("durable", self.durable, wanted.durable, resource)?;
        check_field("auto_delete", self.auto_delete, wanted.auto_delete, resource)?;
        for key in CLASSIC {
            if key == TYPE && is_classic(&self.arguments) && is_classic(&wanted.arguments) {
                continue;
            }
            check_argument(key, &self.arguments, &wanted.arguments, resource)?;
        }
        Ok(())
    }
}

/// Refuses arguments a new queue cannot have.
pub(crate) fn check(queue: &QueueDef) -> Result<(), MetaError> {
    let arguments = &queue.arguments;
    check_names_exchange(DEAD_LETTER_EXCHANGE, arguments, || queue.resource())?;
    check_type(queue)?;
    for key in CLASSIC {
        let Some(value) = arguments.get(key.as_bytes()) else { continue };
        check_value(key, value, arguments).map_err(|reason| MetaError::InvalidArgument {
            key: key.to_owned(),
            resource: queue.resource(),
            reason,
        })?;
    }
    let foreign = (arguments.iter())
        .filter_map(|(key, _)| key.as_str())
        .find(|key| OTHER_TYPES.contains(key));
    foreign.map_or(Ok(()), |key| {
        Err(MetaError::UnsupportedArgument { key: key.to_owned(), resource: queue.resource() })
    })
}

fn check_type(queue: &QueueDef) -> Result<(), MetaError> {
    let reason = match queue.arguments.get(TYPE.as_bytes()) {
        None => return Ok(()),
        Some(Value::LongString(name)) => match name.as_slice() {
            b"classic" => return Ok(()),
            name if std::str::from_utf8(name).is_ok_and(is_of_other_type) => {
                return Err(MetaError::QueueTypeDisabled {
                    resource: queue.resource(),
                    kind: String::from_utf8_lossy(name).into_owned(),
                });
            }
            other => format!("\"unknown queue type '{}'\"", String::from_utf8_lossy(other)),
        },
        Some(other) => unacceptable(other),
    };
    Err(MetaError::InvalidArgument { key: TYPE.to_owned(), resource: queue.resource(), reason })
}

/// Why a value is out of its domain, as RabbitMQ prints it.
fn check_value(key: &str, value: &Value, arguments: &Table) -> Result<(), String> {
    match key {
        "x-expires" => match integer(value)? {
            0 => Err("{value_zero,0}".to_owned()),
            n => milliseconds(n),
        },
        "x-message-ttl" => milliseconds(integer(value)?),
        "x-max-length" | "x-max-length-bytes" => not_negative(value).map(|_| ()),
        "x-max-priority" => match not_negative(value)? {
            n if n > PRIORITY_MAX => Err(format!("{{max_value_exceeded,{n}}}")),
            _ => Ok(()),
        },
        "x-dead-letter-routing-key" => {
            text(value)?;
            if arguments.get(DEAD_LETTER_EXCHANGE.as_bytes()).is_none() {
                return Err("routing_key_but_no_dlx_defined".to_owned());
            }
            Ok(())
        }
        "x-overflow" => one_of(value, &OVERFLOWS, |_| "invalid_overflow".to_owned()),
        "x-queue-mode" => one_of(value, &["default", "lazy"], |mode| {
            format!("\"unsupported queue mode '{mode}'\"")
        }),
        // Version 1, which RabbitMQ dropped, is served here.
        "x-queue-version" => match not_negative(value)? {
            1 | 2 => Ok(()),
            n => Err(format!("\"unsupported queue version '{n}'\"")),
        },
        "x-delivery-limit" => integer(value).map(|_| ()),
        "x-delayed-retry-type" => {
            one_of(value, &RETRY_TYPES, |_| "invalid_delayed_retry_type".to_owned())
        }
        "x-delayed-retry-min" | "x-delayed-retry-max" | "x-consumer-timeout" => {
            not_negative(value).map(|_| ())
        }
        "x-confirm-on" => one_of(value, &confirm_on::MODES, |_| "invalid_confirm_on".to_owned()),
        "x-confirm-on-max-pending" | "x-confirm-on-max-pending-bytes" => {
            match not_negative(value)? {
                0 => Err("{value_zero,0}".to_owned()),
                _ => Ok(()),
            }
        }
        "x-confirm-on-no-consumer" => one_of(value, &confirm_on::WITHOUT_CONSUMER, |_| {
            "invalid_confirm_on_no_consumer".to_owned()
        }),
        "x-single-active-consumer" => {
            value.as_bool().map(|_| ()).ok_or_else(|| unacceptable(value))
        }
        "x-queue-leader-locator" => {
            one_of(value, &LOCATORS, |_| "invalid_queue_locator_arg".to_owned())
        }
        _ => Ok(()),
    }
}

fn unacceptable(value: &Value) -> String {
    format!("{{unacceptable_type,{}}}", value.type_name())
}

fn integer(value: &Value) -> Result<i64, String> {
    value.as_i64().ok_or_else(|| format!("\"expected integer, got {}\"", value.type_name()))
}

fn not_negative(value: &Value) -> Result<i64, String> {
    match integer(value)? {
        n if n < 0 => Err(format!("{{value_negative,{n}}}")),
        n => Ok(n),
    }
}

fn milliseconds(n: i64) -> Result<(), String> {
    match n {
        n if n < 0 => Err(format!("{{value_negative,{n}}}")),
        n if n > MILLISECONDS_MAX => Err(format!("{{value_too_large,{n}}}")),
        _ => Ok(()),
    }
}

fn text(value: &Value) -> Result<String, String> {
    let bytes = value.as_bytes().ok_or_else(|| unacceptable(value))?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn one_of(
    value: &Value,
    known: &[&str],
    reason: impl FnOnce(&str) -> String,
) -> Result<(), String> {
    let text = text(value)?;
    if known.contains(&text.as_str()) { Ok(()) } else { Err(reason(&text)) }
}
