//! Checks that commands have in common: of names, and of declarations.

use std::fmt::Display;

use amqp091::{Table, Value};
use routing::{ExchangeKind, Name, erlang};

use crate::error::MetaError;
use crate::resource::Resource;

/// The longest name of anything, in bytes: the length of a short string of AMQP 0-9-1.
const NAME_BYTES_MAX: usize = 255;

/// Refuses empty and overlong names.
pub(crate) fn check_name(what: &'static str, name: &Name) -> Result<(), MetaError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(MetaError::InvalidName { what: what.into(), max: NAME_BYTES_MAX });
    }
    Ok(())
}

/// The exchange type of that name.
///
/// # Errors
/// `unknown exchange type '...'`; RabbitMQ says so before it looks at anything else.
pub fn parse_exchange_kind(name: &str) -> Result<ExchangeKind, MetaError> {
    ExchangeKind::of_name(name).ok_or_else(|| MetaError::UnknownExchangeType(name.to_owned()))
}

/// Refuses an argument that is to name an exchange and is no text.
pub(crate) fn check_names_exchange(
    key: &'static str,
    arguments: &Table,
    resource: impl Fn() -> Resource,
) -> Result<(), MetaError> {
    match arguments.get(key.as_bytes()) {
        None | Some(Value::LongString(_)) => Ok(()),
        Some(other) => Err(MetaError::InvalidArgumentType {
            key: key.into(),
            found: other.type_name().into(),
            resource: resource(),
        }),
    }
}

/// Refuses a redeclaration in which a field differs.
pub(crate) fn check_field<T: PartialEq + Display>(
    key: &str,
    current: T,
    received: T,
    resource: impl Fn() -> Resource,
) -> Result<(), MetaError> {
    if current == received {
        return Ok(());
    }
    Err(MetaError::Inequivalent {
        key: key.to_owned(),
        resource: resource(),
        received: format!("'{received}'"),
        current: format!("'{current}'"),
    })
}

/// Refuses a redeclaration in which an argument differs.
/// COMPAT: with a value on both sides the texts show the bare values, else the type too.
pub(crate) fn check_argument(
    key: &str,
    current: Option<&Value>,
    received: Option<&Value>,
    resource: impl Fn() -> Resource,
) -> Result<(), MetaError> {
    let (received, current) = match (received, current) {
        (None, None) => return Ok(()),
        (Some(a), Some(b)) if a.is_equivalent(b) || is_same_term(a, b) => return Ok(()),
        (Some(a), Some(b)) => {
            (format!("'{}'", erlang::plain(a)), format!("'{}'", erlang::plain(b)))
        }
        (a, b) => (described(a), described(b)),
    };
    Err(MetaError::Inequivalent { key: key.to_owned(), resource: resource(), received, current })
}

/// COMPAT: RabbitMQ finally compares the Erlang terms, in which text and byte arrays are the same,
/// as are integers and timestamps.
fn is_same_term(a: &Value, b: &Value) -> bool {
    fn bytes(value: &Value) -> Option<&[u8]> {
        if let Value::Bytes(bytes) = value { Some(bytes) } else { value.as_bytes() }
    }
    fn integer(value: &Value) -> Option<i64> {
        if let Value::Timestamp(n) = value { i64::try_from(*n).ok() } else { value.as_i64() }
    }
    (bytes(a).is_some() && bytes(a) == bytes(b))
        || (integer(a).is_some() && integer(a) == integer(b))
}

fn described(value: Option<&Value>) -> String {
    value.map_or_else(
        || "none".to_owned(),
        |value| format!("the value '{}' of type '{}'", erlang::plain(value), value.type_name()),
    )
}
