//! Publishers that name themselves and number their messages, so that quorum queues drop what comes again.
//! Never what was put before.

use amqp091::{TableRef, ValueRef};
use queue::machine::NAME_BYTES_MAX;
use queue_type::Named;
use queues::QueueRef;
use session::{Error, ErrorKind};

/// The header that names the publisher.
const PUBLISHER: &str = "x-publisher-id";
/// The header with the message's number among that publisher's.
const ID: &str = "x-publishing-id";

/// The place that a message for these queues has by its publisher's name, if one of them cares.
pub(super) fn named_of(
    headers: Option<TableRef<'_>>,
    queues: &[QueueRef],
) -> Result<Option<Named>, Error> {
    let Some(headers) = headers else { return Ok(None) };
    if !queues.iter().any(|queue| queue.def().kind.knows_publishers()) {
        return Ok(None);
    }
    match (headers.get(PUBLISHER.as_bytes()), headers.get(ID.as_bytes())) {
        (None, None) => Ok(None),
        (Some(publisher), Some(id)) => {
            Ok(Some(Named { publisher: name(&publisher)?.into(), id: number(&id)? }))
        }
        (Some(_), None) => Err(refuse(ID, "missing")),
        (None, Some(_)) => Err(refuse(PUBLISHER, "missing")),
    }
}

fn name<'v>(value: &ValueRef<'v>) -> Result<&'v [u8], Error> {
    let ValueRef::LongString(name) = value else {
        return Err(refuse(PUBLISHER, type_of(value)));
    };
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Err(refuse(PUBLISHER, &format!("{} bytes", name.len())));
    }
    Ok(name)
}

fn number(value: &ValueRef<'_>) -> Result<u64, Error> {
    let number = value.to_owned().ok().and_then(|value| value.as_i64());
    let number = number.ok_or_else(|| refuse(ID, type_of(value)))?;
    u64::try_from(number).map_err(|_| refuse(ID, &number.to_string()))
}

fn type_of(value: &ValueRef<'_>) -> &'static str {
    value.to_owned().map_or("unknown", |value| value.type_name())
}

fn refuse(header: &str, found: &str) -> Error {
    let text = format!(
        "invalid message: header '{header}' is {found}. A named publisher sends '{PUBLISHER}', \
         a string of 1 to {NAME_BYTES_MAX} bytes, and '{ID}', an increasing number from 0"
    );
    Error::new(ErrorKind::PreconditionFailed, text)
}
