//! Subscriptions to topics: what attaches ask of the broker for them, and what they are answered.

use crate::address::{SourceAddress, TargetAddress};
use crate::fault::ProtocolFault;
use crate::topics::TOPIC;
use amqp10::{
    Attach, Condition, Descriptor, Items, ListRef, MapRef, Role, SourceTerminus, Symbol, Symbols,
    TerminusDurability, ValueRef, put_described, put_map, put_percent_encoded,
};
use session::{
    Attachment, LinkSource, ShortString, Subscribe, Subscription, SubscriptionKind, Topic, TopicOp,
};

/// The capability of a source whose subscription may have several consumers.
const SHARED: &str = "shared";
/// The capability of a source whose subscription's name is not the client's alone.
const GLOBAL: &str = "global";
/// The end of the name of a subscription in the name of its link.
const NAME_END: char = '|';
/// The policy of a terminus that never expires.
const NEVER: Symbol<'static> = Symbol("never");

const SELECTOR: FilterKind = FilterKind {
    key: "jms-selector",
    code: 0x468c_0000_0004,
    name: "apache.org:selector-filter:string",
};
const NO_LOCAL: FilterKind =
    FilterKind { key: "no-local", code: 0x468c_0000_0003, name: "apache.org:no-local-filter:list" };

/// A kind of filters of subscriptions.
struct FilterKind {
    /// The key under which clients put it.
    key: &'static str,
    code: u64,
    name: &'static str,
}

impl FilterKind {
    /// The value of such a filter, whatever its key is.
    fn find<'a>(&self, filters: MapRef<'a>) -> Option<ValueRef<'a>> {
        filters.iter().find_map(|(_, filter)| {
            let ValueRef::Described(filter) = filter else { return None };
            let names = [Descriptor::Code(self.code), Descriptor::Symbol(self.name)];
            names.contains(&filter.descriptor).then(|| filter.value())
        })
    }

    fn put(&self, value: ValueRef<'_>, items: &mut Items<'_>) {
        let mut filter = Vec::new();
        put_described(&mut filter, self.code);
        value.encode(&mut filter);
        if let Ok((filter, _)) = ValueRef::decode(&filter) {
            items.put_symbol(self.key, filter);
        }
    }
}

/// The request to the broker that an attach is which is about topics; `consumer` is the one that it attaches.
pub(crate) fn topic_op(
    attach: &Attach<'_>,
    container: &str,
    consumer: impl FnOnce() -> Attachment,
) -> Result<Option<TopicOp>, ProtocolFault> {
    // Filters are the subscription's.
    let source = Some(LinkSource::default());
    let consumer = || Attachment { source, ..consumer() };
    match (attach.role, &attach.source, &attach.target) {
        (Role::Sender, _, Some(target)) => Ok(match TargetAddress::of_target(target, true) {
            Ok(TargetAddress::Topic { name, is_temporary }) => {
                Some(TopicOp::Publish(Topic { name: short(&name)?, is_temporary }))
            }
            Ok(TargetAddress::TemporaryTopic) => Some(TopicOp::Make),
            _ => None,
        }),
        (Role::Receiver, None, _) => {
            let is_global = attach.desired_capabilities.contains(GLOBAL);
            let kind = SubscriptionKind::Durable;
            let queue = queue_of(kind, attach.name, (!is_global).then_some(container))?;
            Ok(Some(TopicOp::LookUp { queue, consumer: consumer() }))
        }
        (Role::Receiver, Some(source), _) => match SourceAddress::of_source(source, true) {
            Ok(SourceAddress::Topic { name, is_temporary }) => {
                let topic = Topic { name: short(&name)?, is_temporary };
                let asked = subscription_asked(attach, source, &topic, container)?;
                let (subscription, queue) = asked;
                let consumer = consumer();
                let subscribe = Subscribe { subscription, is_temporary, queue, consumer };
                Ok(Some(TopicOp::Subscribe(Box::new(subscribe))))
            }
            Ok(SourceAddress::TemporaryTopic) => Ok(Some(TopicOp::SubscribeToOwn(consumer()))),
            _ => Ok(None),
        },
        (Role::Sender, _, None) => Ok(None),
    }
}

/// The subscription that a client asks for, without its consumer.
fn subscription_asked(
    attach: &Attach<'_>,
    source: &SourceTerminus<'_>,
    topic: &Topic,
    container: &str,
) -> Result<(Subscription, Option<ShortString>), ProtocolFault> {
    let is_durable = source.durable != TerminusDurability::None || source.expiry_policy == NEVER;
    let kind = match (is_durable, source.capabilities.contains(SHARED)) {
        (false, false) => SubscriptionKind::Own,
        (false, true) => SubscriptionKind::Shared,
        (true, false) => SubscriptionKind::Durable,
        (true, true) => SubscriptionKind::SharedDurable,
    };
    if topic.is_temporary && kind != SubscriptionKind::Own {
        return Err(invalid("Attach refused: subscriptions to temporary topics have no names"));
    }
    let is_global = kind.is_shared() && source.capabilities.contains(GLOBAL);
    let named = || queue_of(kind, attach.name, (!is_global).then_some(container));
    let queue = (kind != SubscriptionKind::Own).then(named).transpose()?;
    let filters = source.filter.unwrap_or(MapRef::EMPTY);
    let selector = match SELECTOR.find(filters) {
        Some(ValueRef::Str(selector)) => Some(selector.to_owned()),
        Some(_) | None => None,
    };
    let no_local = NO_LOCAL.find(filters).is_some();
    let topic = topic.name.clone();
    Ok((Subscription { topic, kind, selector, no_local }, queue))
}

/// The queue of a named subscription: of a client, by its container, or of all clients.
fn queue_of(
    kind: SubscriptionKind,
    link: &str,
    container: Option<&str>,
) -> Result<ShortString, ProtocolFault> {
    let name = link.split(NAME_END).next().unwrap_or_default();
    if name.is_empty() {
        return Err(invalid("Attach refused: the subscription has no name"));
    }
    let mut queue = if kind.is_durable() { "jms.durable." } else { "jms.shared." }.to_owned();
    put_percent_encoded(container.unwrap_or_default().as_bytes(), &mut queue);
    queue.push('/');
    put_percent_encoded(name.as_bytes(), &mut queue);
    ShortString::new(queue.as_bytes())
        .map_err(|_| invalid("Attach refused: names of container and link are too long"))
}

/// The source of a subscription as it is; `filters` is the room for the filters in place.
pub(crate) fn source_of<'a>(
    subscription: &'a Subscription,
    filters: &'a mut Vec<u8>,
) -> SourceTerminus<'a> {
    let Subscription { topic, kind, selector, no_local } = subscription;
    put_map(filters, |items| {
        if let Some(selector) = selector {
            SELECTOR.put(ValueRef::Str(selector), items);
        }
        if *no_local {
            NO_LOCAL.put(ValueRef::List(ListRef::EMPTY), items);
        }
    });
    let filter = Some(MapRef::decode(filters)).filter(|filter| !filter.is_empty());
    let is_durable = kind.is_durable();
    SourceTerminus {
        address: topic.as_str().map(ValueRef::Str),
        durable: match is_durable {
            true => TerminusDurability::UnsettledState,
            false => TerminusDurability::None,
        },
        expiry_policy: if is_durable { NEVER } else { Symbol("link-detach") },
        distribution_mode: Some(Symbol("copy")),
        filter,
        capabilities: Symbols::Listed(if kind.is_shared() { &[TOPIC, SHARED] } else { &[TOPIC] }),
        ..SourceTerminus::default()
    }
}

fn short(name: &[u8]) -> Result<ShortString, ProtocolFault> {
    ShortString::new(name).map_err(|_| invalid("Attach refused: a topic's name is too long"))
}

fn invalid(text: &'static str) -> ProtocolFault {
    ProtocolFault::link(Condition::InvalidField, text)
}

#[cfg(test)]
mod tests;
