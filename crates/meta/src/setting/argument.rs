//! The values a queue's argument may have, and RabbitMQ's texts for others.

use amqp091::{Table, Value};
use std::borrow::Cow;

use super::{DEAD_LETTER_EXCHANGE_ARGUMENT, OfQuorum, SETTINGS, Setting};
use crate::queue_type::{QUORUM, QueueType};

/// The longest time to live, ten years: longer ones are taken for mistakes.
pub const MILLISECONDS_MAX: i64 = 10 * 365 * 24 * 60 * 60 * 1000;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The values that an argument may have.
#[derive(Debug)]
pub(crate) enum ArgumentRule {
    /// Any value; what else must hold is checked elsewhere.
    Any,
    Flag,
    Integer,
    NotNegative,
    Positive,
    /// Not negative, and up to a highest value.
    UpTo(i64),
    /// A number of this list; any other is refused with this text, in which it takes the place of `{}`.
    Numbers(&'static [i64], &'static str),
    /// A time, zero or more.
    Milliseconds,
    /// A time of at least one millisecond.
    PositiveMilliseconds,
    /// A word of this list; any other is refused with this text, in which it takes the place of `{}`.
    Words(&'static [&'static str], &'static str),
    /// Text that only means something beside a dead letter exchange.
    DeadLetterRoutingKey,
    /// A number and one of `Y M D h m s`.
    Age,
    /// Not negative, and within these bounds; a number beyond them is refused with a text of its own, after
    /// all else was found to be right.
    Within(i64, i64, &'static str),
}

/// The arguments that queues of a type know, in the order in which redeclarations are compared.
pub(crate) fn known_to(
    queues: &'static QueueType,
) -> impl Iterator<Item = (&'static str, &'static ArgumentRule)> {
    let known = SETTINGS.iter().filter(move |setting| setting.is_known_to(queues));
    known.filter_map(|setting| {
        let (name, rule) = setting.argument.as_ref()?;
        let rule = match setting.of_quorum {
            OfQuorum::AnyValue if *queues == QUORUM => &ArgumentRule::Any,
            OfQuorum::Rule(own) if *queues == QUORUM => own,
            OfQuorum::Usual | OfQuorum::PolicyCounts | OfQuorum::AnyValue | OfQuorum::Rule(_) => {
                rule
            }
        };
        Some((*name, rule))
    })
}

/// Whether queues of other types than this know the argument, and those of this do not.
pub(crate) fn is_of_others_than(queues: &QueueType, argument: &str) -> bool {
    let is_it = |setting: &&&Setting| setting.argument_name() == Some(argument);
    SETTINGS.iter().find(is_it).is_some_and(|setting| !setting.is_known_to(queues))
}

impl ArgumentRule {
    /// Why the argument cannot have this value beside the other arguments, as RabbitMQ prints it.
    pub(crate) fn check(&self, value: &Value, arguments: &Table) -> Result<(), String> {
        match self {
            Self::Any => Ok(()),
            Self::Flag => value.as_bool().map(|_| ()).ok_or_else(|| unacceptable(value)),
            Self::Integer => integer(value).map(|_| ()),
            Self::NotNegative => not_negative(value).map(|_| ()),
            Self::Positive => positive(not_negative(value)?),
            Self::UpTo(most) => match not_negative(value)? {
                n if n > *most => Err(format!("{{max_value_exceeded,{n}}}")),
                _ => Ok(()),
            },
            Self::Numbers(known, refusal) => match not_negative(value)? {
                n if known.contains(&n) => Ok(()),
                n => Err(refusal.replace("{}", &n.to_string())),
            },
            Self::Milliseconds => milliseconds(integer(value)?),
            Self::PositiveMilliseconds => {
                let n = integer(value)?;
                positive(n).and_then(|()| milliseconds(n))
            }
            Self::Words(known, refusal) => match text(value)? {
                text if known.contains(&text.as_str()) => Ok(()),
                text => Err(refusal.replace("{}", &text)),
            },
            Self::Within(..) => not_negative(value).map(|_| ()),
            Self::Age => match age_ms(&text(value)?) {
                Some(_) => Ok(()),
                None => Err("invalid_max_age".to_owned()),
            },
            Self::DeadLetterRoutingKey => {
                text(value)?;
                match arguments.get(DEAD_LETTER_EXCHANGE_ARGUMENT.as_bytes()) {
                    Some(_) => Ok(()),
                    None => Err("routing_key_but_no_dlx_defined".to_owned()),
                }
            }
        }
    }
}

impl ArgumentRule {
    /// The part of a value that counts in a redeclaration. COMPAT: `7D` and `168h` are the same age, which
    /// texts of refusals show in milliseconds.
    pub(crate) fn compared<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        let age_ms = value.as_str().filter(|_| matches!(self, Self::Age)).and_then(age_ms);
        match age_ms.and_then(|ms| i64::try_from(ms).ok()) {
            Some(ms) => Cow::Owned(Value::I64(ms)),
            None => Cow::Borrowed(value),
        }
    }
}

/// The text that refuses a number beyond its bounds, once all arguments have values that they can have.
pub(crate) fn beyond_bounds(rule: &ArgumentRule, value: &Value) -> Option<&'static str> {
    let ArgumentRule::Within(least, most, refusal) = rule else { return None };
    let is_within = value.as_i64().is_some_and(|number| (*least..=*most).contains(&number));
    (!is_within).then_some(*refusal)
}

/// The milliseconds of an age: a number above zero and one of `Y M D h m s`; a year has 365 days, a month 30.
#[must_use]
pub fn age_ms(text: &str) -> Option<u64> {
    let (at, unit) = text.char_indices().last()?;
    let unit_ms = match unit {
        'Y' => 365 * DAY_MS,
        'M' => 30 * DAY_MS,
        'D' => DAY_MS,
        'h' => 3_600_000,
        'm' => 60_000,
        's' => 1_000,
        _ => return None,
    };
    let digits = text.get(..at).filter(|digits| digits.bytes().all(|it| it.is_ascii_digit()))?;
    let number: u64 = digits.parse().ok().filter(|number| *number > 0)?;
    Some(number.saturating_mul(unit_ms))
}

/// The reason for a value of the wrong type.
pub(crate) fn unacceptable(value: &Value) -> String {
    format!("{{unacceptable_type,{}}}", value.type_name())
}

fn integer(value: &Value) -> Result<i64, String> {
    let number = value.as_i64().filter(|_| !matches!(value, Value::Timestamp(_)));
    number.ok_or_else(|| format!("\"expected integer, got {}\"", value.type_name()))
}

fn not_negative(value: &Value) -> Result<i64, String> {
    match integer(value)? {
        n if n < 0 => Err(format!("{{value_negative,{n}}}")),
        n => Ok(n),
    }
}

fn positive(n: i64) -> Result<(), String> {
    if n == 0 { Err("{value_zero,0}".to_owned()) } else { Ok(()) }
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
