//! The arguments of `basic.consume`: the values they may have, and the types of queue whose consumers know
//! them.

use amqp091::Table;

use crate::error::MetaError;
use crate::queue::QueueDef;
use crate::queue_type::{QueueType, STREAM};
use crate::setting::QUEUES;
use crate::setting::argument::ArgumentRule;

/// An argument, its values, and whose consumers know it.
type Known = (&'static str, ArgumentRule, &'static [&'static QueueType]);

/// Classic queues have time-outs of consumers here, which RabbitMQ's have not. Where a consumer of a stream
/// begins is checked as it is looked up.
static KNOWN: [Known; 5] = [
    ("x-priority", ArgumentRule::Integer, QUEUES),
    ("x-consumer-timeout", ArgumentRule::NotNegative, QUEUES),
    ("x-stream-offset", ArgumentRule::Any, &[&STREAM]),
    ("x-stream-filter", ArgumentRule::Any, &[&STREAM]),
    ("x-stream-match-unfiltered", ArgumentRule::Any, &[&STREAM]),
];

impl QueueDef {
    /// Refuses arguments that consumers of this queue cannot have. COMPAT: values first; what no type of
    /// queue knows is passed over. Test: `consumers_have_arguments_of_their_queues_type_alone`.
    ///
    /// # Errors
    /// RabbitMQ's texts.
    pub fn check_consumer(&self, arguments: &Table) -> Result<(), MetaError> {
        let queues = self.kind.capabilities();
        let (key, resource) = (str::to_owned, self.resource());
        let (known, others): (Vec<&Known>, Vec<&Known>) =
            KNOWN.iter().partition(|(.., types)| types.contains(&queues));
        for (name, rule, _) in known {
            let Some(value) = arguments.get(name.as_bytes()) else { continue };
            rule.check(value, arguments).map_err(|reason| MetaError::InvalidArgument {
                key: key(name),
                resource: self.resource(),
                reason,
            })?;
        }
        let mut given = arguments.iter().filter_map(|(name, _)| name.as_str());
        let unknown = given.find(|name| others.iter().any(|(other, ..)| other == name));
        unknown.map_or(Ok(()), |name| {
            let module = queues.module.into();
            Err(MetaError::UnsupportedArgument { key: key(name), resource, module })
        })
    }
}
