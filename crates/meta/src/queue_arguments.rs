//! The arguments of `queue.declare`: the checks of a new queue, and of a redeclaration.

use amqp091::{ShortString, Table, Value};

use crate::checks::{check_argument, check_field, check_names_exchange};
use crate::error::MetaError;
use crate::queue::QueueDef;
use crate::queue_type::{QueueKind, QueueType};
use crate::setting::{DEAD_LETTER_EXCHANGE_ARGUMENT, QUEUE_TYPE_ARGUMENT as TYPE, argument};

/// The type of queue that these arguments ask for, expressly or by silence; none if there is no such type.
pub(crate) fn kind_of(arguments: &Table) -> Option<QueueKind> {
    match named_type(arguments) {
        None => Some(QueueKind::Classic),
        Some(value) => QueueKind::of_name(value.as_str()?),
    }
}

/// The type that the arguments name. COMPAT: a text that says nothing names none; clients that leave the type
/// to the virtual host write one.
pub(crate) fn named_type(arguments: &Table) -> Option<&Value> {
    arguments.get(TYPE.as_bytes()).filter(|it| !matches!(it.as_bytes(), Some(b"" | b"undefined")))
}

/// Removes an argument that names no type.
pub(crate) fn normalize_type(arguments: &mut Table) {
    if named_type(arguments).is_none() {
        arguments.remove(TYPE.as_bytes());
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
        for (key, rule) in argument::known_to(self.kind.capabilities()) {
            if key == TYPE && kind_of(&wanted.arguments) == Some(self.kind) {
                continue;
            }
            let [current, wanted] = [&self.arguments, &wanted.arguments]
                .map(|arguments| arguments.get(key.as_bytes()).map(|it| rule.compared(it)));
            check_argument(key, current.as_deref(), wanted.as_deref(), resource)?;
        }
        Ok(())
    }

    /// The arguments as lists and exports show them. COMPAT: the type is always among them, sorted by name.
    #[must_use]
    pub fn shown_arguments(&self) -> Table {
        let (key, kind) = (ShortString::from_static(TYPE), Value::from(self.kind.as_str()));
        let has_type = self.arguments.get(TYPE.as_bytes()).is_some();
        let added = (!has_type).then_some((key, kind));
        let mut arguments: Vec<_> = self.arguments.iter().cloned().chain(added).collect();
        arguments.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
        arguments.into_iter().collect()
    }
}

/// Refuses a name that the broker has made for a client, if queues of this type have none.
pub(crate) fn check_name_of(queue: &QueueDef, is_made: bool) -> Result<(), MetaError> {
    if !is_made || queue.is_internal() || queue.kind.is_server_named() {
        return Ok(());
    }
    Err(MetaError::ServerNamed(queue.kind.capabilities().module.into()))
}

/// Refuses arguments a new queue cannot have.
pub(crate) fn check(queue: &QueueDef) -> Result<(), MetaError> {
    check_names_exchange(DEAD_LETTER_EXCHANGE_ARGUMENT, &queue.arguments, || queue.resource())?;
    check_type(queue)?;
    check_for(queue.kind.capabilities(), queue)
}

/// Refuses arguments and properties that a new queue of this type cannot have.
pub(crate) fn check_for(queues: &'static QueueType, queue: &QueueDef) -> Result<(), MetaError> {
    let arguments = &queue.arguments;
    if arguments.is_empty() {
        return check_properties(queues, queue);
    }
    for (key, rule) in argument::known_to(queues) {
        let Some(value) = arguments.get(key.as_bytes()) else { continue };
        rule.check(value, arguments).map_err(|reason| MetaError::InvalidArgument {
            key: key.to_owned(),
            resource: queue.resource(),
            reason,
        })?;
    }
    let mut keys = arguments.iter().filter_map(|(key, _)| key.as_str());
    if let Some(key) = keys.find(|key| argument::is_of_others_than(queues, key)) {
        let (resource, module) = (queue.resource(), queues.module.into());
        return Err(MetaError::UnsupportedArgument { key: key.to_owned(), resource, module });
    }
    check_properties(queues, queue)?;
    let beyond = argument::known_to(queues)
        .find_map(|(key, rule)| argument::beyond_bounds(rule, arguments.get(key.as_bytes())?));
    beyond.map_or(Ok(()), |refusal| Err(MetaError::BeyondBounds(refusal.into())))
}

/// Refuses properties that a new queue of this type cannot have.
fn check_properties(queues: &'static QueueType, queue: &QueueDef) -> Result<(), MetaError> {
    let refused = refused_property(queues, queue);
    refused.map_or(Ok(()), |property| {
        let (property, resource) = (property.into(), queue.resource());
        Err(MetaError::InvalidProperty { property, resource })
    })
}

/// The property of a queue that queues of this type cannot have, as RabbitMQ calls it.
const fn refused_property(queues: &QueueType, queue: &QueueDef) -> Option<&'static str> {
    match (queue.auto_delete, queue.exclusive_owner, queue.durable) {
        _ if queues.is_for_temporary => None,
        (true, ..) => Some("auto-delete"),
        (_, Some(_), _) => Some("exclusive-owner"),
        (.., false) => Some("non-durable"),
        (false, None, true) => None,
    }
}

/// Refuses a type that is none.
pub(crate) fn check_type(queue: &QueueDef) -> Result<(), MetaError> {
    let reason = match queue.arguments.get(TYPE.as_bytes()) {
        None => return Ok(()),
        Some(Value::LongString(name)) => {
            let name = String::from_utf8_lossy(name);
            if QueueKind::of_name(&name).is_some() {
                return Ok(());
            }
            format!("\"unsupported queue type '{name}'\"")
        }
        Some(other) => argument::unacceptable(other),
    };
    Err(MetaError::InvalidArgument { key: TYPE.to_owned(), resource: queue.resource(), reason })
}
