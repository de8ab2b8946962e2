//! The arguments of `queue.declare`: the checks of a new queue, and of a redeclaration.

use amqp091::{Table, Value};

use crate::checks::{check_argument, check_field, check_names_exchange};
use crate::error::MetaError;
use crate::queue::QueueDef;
use crate::queue_type::{QueueKind, QueueType};
use crate::setting::{DEAD_LETTER_EXCHANGE_ARGUMENT, QUEUE_TYPE_ARGUMENT as TYPE, argument};

/// The type of queue that these arguments ask for, expressly or by silence; none if it is not offered.
pub(crate) fn kind_of(arguments: &Table) -> Option<QueueKind> {
    match arguments.get(TYPE.as_bytes()) {
        None => Some(QueueKind::Classic),
        Some(value) => QueueKind::of_name(value.as_str()?),
    }
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
        for (key, _) in argument::known_to(self.kind) {
            if key == TYPE && kind_of(&wanted.arguments) == Some(self.kind) {
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
    for (key, rule) in argument::known_to(queue.kind) {
        let Some(value) = arguments.get(key.as_bytes()) else { continue };
        rule.check(value, arguments).map_err(|reason| MetaError::InvalidArgument {
            key: key.to_owned(),
            resource: queue.resource(),
            reason,
        })?;
    }
    let mut keys = arguments.iter().filter_map(|(key, _)| key.as_str());
    keys.find(|key| argument::is_of_others_than(queue.kind, key)).map_or(Ok(()), |key| {
        let (resource, module) = (queue.resource(), queue.kind.module());
        Err(MetaError::UnsupportedArgument { key: key.to_owned(), resource, module })
    })
}

/// Refuses a type that is not offered, or is none.
pub(crate) fn check_type(queue: &QueueDef) -> Result<(), MetaError> {
    let reason = match queue.arguments.get(TYPE.as_bytes()) {
        None => return Ok(()),
        Some(Value::LongString(name)) => {
            let name = String::from_utf8_lossy(name);
            match QueueType::find(&name).map(|found| found.kind) {
                Some(Some(_)) => return Ok(()),
                Some(None) => {
                    let (resource, kind) = (queue.resource(), name.into_owned());
                    return Err(MetaError::QueueTypeDisabled { resource, kind });
                }
                None => format!("\"unknown queue type '{name}'\""),
            }
        }
        Some(other) => argument::unacceptable(other),
    };
    Err(MetaError::InvalidArgument { key: TYPE.to_owned(), resource: queue.resource(), reason })
}
