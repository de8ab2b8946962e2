//! The arguments of `queue.declare`: the checks of a new queue, and of a redeclaration.

use amqp091::{Table, Value};

use crate::checks::{check_argument, check_field, check_names_exchange};
use crate::error::MetaError;
use crate::queue::QueueDef;
use crate::setting::{DEAD_LETTER_EXCHANGE_ARGUMENT, QUEUE_TYPE_ARGUMENT as TYPE, argument};

/// The types that are not offered.
const OTHER_KINDS: [&str; 2] = ["quorum", "stream"];

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
        for (key, _) in argument::of_classic_queues() {
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
    check_names_exchange(DEAD_LETTER_EXCHANGE_ARGUMENT, arguments, || queue.resource())?;
    check_type(queue)?;
    for (key, rule) in argument::of_classic_queues() {
        let Some(value) = arguments.get(key.as_bytes()) else { continue };
        rule.check(value, arguments).map_err(|reason| MetaError::InvalidArgument {
            key: key.to_owned(),
            resource: queue.resource(),
            reason,
        })?;
    }
    let mut keys = arguments.iter().filter_map(|(key, _)| key.as_str());
    keys.find(|key| argument::is_of_other_types(key)).map_or(Ok(()), |key| {
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
        Some(other) => argument::unacceptable(other),
    };
    Err(MetaError::InvalidArgument { key: TYPE.to_owned(), resource: queue.resource(), reason })
}
