//! Topics of JMS (its mapping to AMQP, OASIS working draft 5): the words of links and messages about them.

use amqp10::{Symbols, ValueRef, split_message_annotations};
use session::{PublishTarget, ShortString, TOPIC_EXCHANGE};

/// The capability of a broker whose subscriptions may have several consumers.
pub const SHARED_SUBSCRIPTIONS: &str = "SHARED-SUBS";
/// The capability of a source or target that is a topic.
pub(crate) const TOPIC: &str = "topic";
/// The capability of a source or target that is a topic which was made for a link, or is to be.
pub(crate) const TEMPORARY_TOPIC: &str = "temporary-topic";
/// The annotation that says of which kind the node is that a message is destined to.
const DESTINATION_KIND: &[u8] = b"x-opt-jms-dest";
const KIND_TOPIC: i8 = 1;
const KIND_TEMPORARY_TOPIC: i8 = 3;

/// The topic that a terminus names, as its capabilities say, and whether it is temporary. COMPAT: what begins
/// with a slash is an address as RabbitMQ has them, whatever the capabilities.
pub(crate) fn topic_of<'a>(
    address: Option<ValueRef<'a>>,
    capabilities: Symbols<'a>,
) -> Option<(&'a str, bool)> {
    let Some(ValueRef::Str(name)) = address else { return None };
    let is_temporary = capabilities.contains(TEMPORARY_TOPIC);
    let is_topic = is_temporary || capabilities.contains(TOPIC);
    (is_topic && !name.starts_with('/')).then_some((name, is_temporary))
}

/// The topic that a message names in `to`, as its annotations say, which are the first of `sections`, and
/// whether it is temporary.
pub(crate) fn topic_of_message<'a>(
    to: Option<ValueRef<'a>>,
    sections: &[u8],
) -> Option<(&'a str, bool)> {
    let Some(ValueRef::Str(name)) = to else { return None };
    if name.is_empty() || name.starts_with('/') || name.len() > ShortString::LEN_MAX {
        return None;
    }
    let (annotations, _) = split_message_annotations(sections);
    let ValueRef::I8(kind @ (KIND_TOPIC | KIND_TEMPORARY_TOPIC)) =
        annotations.find(DESTINATION_KIND)?
    else {
        return None;
    };
    Some((name, kind == KIND_TEMPORARY_TOPIC))
}

/// The exchange and key of the messages of a topic.
pub(crate) fn target_of(topic: ShortString) -> PublishTarget {
    let exchange = ShortString::from_static(TOPIC_EXCHANGE);
    PublishTarget { exchange, routing_key: Some(topic) }
}
