//! The state as a document. COMPAT: names, types and order of lists as RabbitMQ exports them; within a
//! list everything is sorted, so that equal states give equal documents.

use std::cmp::Ordering;
use std::sync::Arc;

use routing::{Binding, Destination, Name};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Value, json};

use super::table::to_json;
use super::{OPERATOR_POLICY, VHOST_LIMITS, is_internal};
use crate::exchange::{ExchangeDef, is_reserved};
use crate::permission::{Permissions, TopicGrant};
use crate::policy::{Policy, PolicyScope};
use crate::queue::QueueDef;
use crate::state::State;
use crate::user::{User, UserLimits};
use crate::vhost::Vhost;
use crate::vhost_metadata::VhostLimits;

/// The origin of a document.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The version of RabbitMQ whose format it has.
    pub rabbitmq_version: &'a str,
    /// Leveret's own version.
    pub product_version: &'a str,
    /// The name of the cluster, or of the node.
    pub cluster_name: &'a str,
}

/// A document of everything but what goes with a connection: exclusive queues, and what the broker has
/// named itself. It is written as it is worked out: lists can be long.
#[derive(Clone, Copy, Debug)]
pub struct Document<'s> {
    state: &'s State,
    vhost: Option<&'s Vhost>,
    origin: Origin<'s>,
}

/// Exports all virtual hosts.
#[must_use]
pub const fn export<'s>(state: &'s State, origin: Origin<'s>) -> Document<'s> {
    Document { state, vhost: None, origin }
}

/// Exports one virtual host, without its name: the document can be imported into another.
#[must_use]
pub const fn export_vhost<'s>(
    state: &'s State,
    vhost: &'s Vhost,
    origin: Origin<'s>,
) -> Document<'s> {
    Document { state, vhost: Some(vhost), origin }
}

type Objects<'s> = Box<dyn Iterator<Item = Value> + 's>;
type Items = for<'s> fn(&'s State, &'s Vhost) -> Objects<'s>;

/// The lists of what lies in virtual hosts.
const LISTS_OF_VHOST: [(&str, Items); 5] = [
    ("parameters", parameters),
    ("policies", policies),
    ("queues", queues),
    ("exchanges", exchanges),
    ("bindings", bindings),
];

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { state, vhost: one, origin } = *self;
        let (cluster, mut document) = (origin.cluster_name, serializer.serialize_map(None)?);
        let mut put = |name: &str, value: Value| document.serialize_entry(name, &value);
        put("rabbit_version", json!(origin.rabbitmq_version))?;
        put("rabbitmq_version", json!(origin.rabbitmq_version))?;
        put("product_name", json!("Leveret"))?;
        put("product_version", json!(origin.product_version))?;
        if let Some(vhost) = one {
            let name = vhost.name.as_str();
            put("rabbitmq_definition_format", json!("single_virtual_host"))?;
            put("original_vhost_name", json!(name))?;
            put("explanation", json!(format!("Definitions of virtual host '{name}'")))?;
            put("metadata", metadata(vhost))?;
        } else {
            put("rabbitmq_definition_format", json!("cluster"))?;
            put("original_cluster_name", json!(cluster))?;
            put("explanation", json!(format!("Definitions of cluster '{cluster}'")))?;
            put("users", state.users().iter().map(user).collect())?;
            put("vhosts", state.vhosts().map(vhost).collect())?;
            put("permissions", state.vhosts().flat_map(|it| permissions(state, it)).collect())?;
            let topics = state.vhosts().flat_map(|it| topic_permissions(state, it));
            put("topic_permissions", topics.collect())?;
            put("global_parameters", global_parameters(state))?;
        }
        for (list, items) in LISTS_OF_VHOST {
            document.serialize_entry(list, &List { document: *self, items })?;
        }
        document.end()
    }
}

/// A list of what lies in virtual hosts.
struct List<'s> {
    document: Document<'s>,
    items: Items,
}

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Document { state, vhost, .. } = self.document;
        let without_name = |mut item: Value| {
            item.as_object_mut().map(|item| item.remove("vhost"));
            item
        };
        match vhost {
            None => serializer.collect_seq(state.vhosts().flat_map(|it| (self.items)(state, it))),
            Some(vhost) => serializer.collect_seq((self.items)(state, vhost).map(without_name)),
        }
    }
}

fn texts(names: &[Name]) -> Value {
    names.iter().map(|name| Value::from(name.as_str())).collect()
}

/// Limits by name, without those that are not set.
fn limits(mut limits: Value) -> Value {
    if let Value::Object(limits) = &mut limits {
        limits.retain(|_, limit| !limit.is_null());
    }
    limits
}

/// The limits of a user that are set, by name.
#[must_use]
pub fn user_limits(user: &User) -> Value {
    let UserLimits { max_connections, max_channels } = user.limits;
    limits(json!({"max-connections": max_connections, "max-channels": max_channels}))
}

/// A user as documents have it, with the hash of its password.
#[must_use]
pub fn user(user: &User) -> Value {
    json!({
        "name": user.name.as_str(),
        "password_hash": user.password.to_base64(),
        "hashing_algorithm": user.password.algorithm.as_str(),
        "tags": texts(&user.tags),
        "limits": user_limits(user),
    })
}

/// The limits of a virtual host that are set, by name.
#[must_use]
pub fn vhost_limits(vhost: &Vhost) -> Value {
    let VhostLimits { max_connections, max_queues } = vhost.limits;
    limits(json!({"max-connections": max_connections, "max-queues": max_queues}))
}

fn metadata(vhost: &Vhost) -> Value {
    let known = &vhost.metadata;
    let mut metadata = json!({
        "description": known.description, "tags": texts(&known.tags),
        "protected_from_deletion": known.protected_from_deletion,
    });
    if let (Some(metadata), Some(kind)) = (metadata.as_object_mut(), &known.default_queue_type) {
        metadata.insert("default_queue_type".to_owned(), json!(kind.as_str()));
    }
    metadata
}

pub(super) fn vhost(vhost: &Vhost) -> Value {
    let known = &vhost.metadata;
    json!({
        "name": vhost.name.as_str(), "description": known.description,
        "tags": texts(&known.tags), "metadata": metadata(vhost), "limits": vhost_limits(vhost),
    })
}

fn permissions<'s>(state: &'s State, vhost: &'s Vhost) -> impl Iterator<Item = Value> + 's {
    let of_vhost = state.users().permissions_in(&vhost.name);
    of_vhost.map(|(user, it)| user_permissions(user, &vhost.name, it))
}

/// A user's permissions in a virtual host as documents have them.
#[must_use]
pub fn user_permissions(user: &Name, vhost: &Name, permissions: &Permissions) -> Value {
    json!({
        "user": user.as_str(), "vhost": vhost.as_str(), "read": permissions.read.as_str(),
        "configure": permissions.configure.as_str(), "write": permissions.write.as_str(),
    })
}

fn topic_permissions<'s>(state: &'s State, vhost: &'s Vhost) -> impl Iterator<Item = Value> + 's {
    state.users().topic_permissions_in(&vhost.name).map(topic_grant)
}

/// A user's permissions at an exchange as documents have them.
#[must_use]
pub fn topic_grant(grant: TopicGrant<'_>) -> Value {
    let TopicGrant { user, vhost, exchange, permissions } = grant;
    json!({
        "user": user.as_str(), "vhost": vhost.as_str(), "exchange": exchange.as_str(),
        "write": permissions.write(), "read": permissions.read(),
    })
}

fn global_parameters(state: &State) -> Value {
    let shown = state.global_parameters().iter().filter(|(name, _)| !is_internal(name));
    shown.map(|(name, value)| json!({"name": name.as_str(), "value": value.value()})).collect()
}

/// COMPAT: operator policies and limits are parameters here.
fn parameters<'s>(_: &'s State, vhost: &'s Vhost) -> Objects<'s> {
    let object = |component: &str, name: &str, value: Value| {
        json!({
            "vhost": vhost.name.as_str(), "component": component, "name": name, "value": value,
        })
    };
    let mut list: Vec<Value> =
        vhost.parameters.iter().map(|it| object(it.component, it.name, it.value.value())).collect();
    list.extend(vhost.policies.iter(PolicyScope::Operator).map(|policy| {
        let mut value = policy_value(policy);
        if let Some(value) = value.as_object_mut() {
            value.remove("name");
        }
        object(OPERATOR_POLICY, &policy.spec.name, value)
    }));
    if vhost.limits != VhostLimits::default() {
        let (component, name) = VHOST_LIMITS;
        list.push(object(component, name, vhost_limits(vhost)));
    }
    Box::new(list.into_iter())
}

fn policy_value(policy: &Policy) -> Value {
    let spec = &policy.spec;
    json!({
        "name": spec.name.as_str(), "pattern": spec.pattern, "apply-to": spec.apply_to.as_str(),
        "definition": spec.definition.value(), "priority": spec.priority,
    })
}

/// A policy of a virtual host as documents have it.
#[must_use]
pub fn policy(vhost: &Vhost, policy: &Policy) -> Value {
    let mut value = policy_value(policy);
    if let Some(value) = value.as_object_mut() {
        value.insert("vhost".to_owned(), json!(vhost.name.as_str()));
    }
    value
}

fn policies<'s>(_: &'s State, vhost: &'s Vhost) -> Objects<'s> {
    Box::new(vhost.policies.iter(PolicyScope::User).map(|it| policy(vhost, it)))
}

fn is_exported(queue: &QueueDef) -> bool {
    queue.exclusive_owner.is_none() && !is_reserved(&queue.name)
}

fn queues<'s>(_: &'s State, vhost: &'s Vhost) -> Objects<'s> {
    let exported = vhost.queues().filter(|queue| is_exported(queue));
    Box::new(exported.map(|it| queue(it)))
}

pub(super) fn queue(queue: &QueueDef) -> Value {
    json!({
        "vhost": queue.vhost.as_str(), "name": queue.name.as_str(), "durable": queue.durable,
        "type": queue.kind.as_str(), "auto_delete": queue.auto_delete,
        "arguments": to_json(&queue.shown_arguments()),
    })
}

fn exchanges<'s>(_: &'s State, vhost: &'s Vhost) -> Objects<'s> {
    let exported = vhost.exchanges().filter(|exchange| !exchange.is_predeclared());
    Box::new(exported.map(|it| exchange(&vhost.name, it)))
}

pub(super) fn exchange(vhost: &Name, exchange: &ExchangeDef) -> Value {
    json!({
        "vhost": vhost.as_str(), "name": exchange.name.as_str(),
        "type": exchange.kind.as_str(), "durable": exchange.durable,
        "auto_delete": exchange.auto_delete, "internal": exchange.internal,
        "arguments": to_json(&exchange.arguments),
    })
}

/// A binding, and what and how its destination is called: queues are told apart by number inside.
type Named<'s> = (&'s Binding, &'static str, &'s Name);

fn order(left: &Named<'_>, right: &Named<'_>) -> Ordering {
    let (a, b) = (left.0, right.0);
    let arguments = |binding: &Binding| to_json(&binding.arguments).to_string();
    (&a.source, left.1, left.2, &a.key)
        .cmp(&(&b.source, right.1, right.2, &b.key))
        .then_with(|| arguments(a).cmp(&arguments(b)))
}

fn bindings<'s>(state: &'s State, vhost: &'s Vhost) -> Objects<'s> {
    let named = |binding: &'s Arc<Binding>| match &binding.destination {
        Destination::Queue(id) => {
            let queue = state.queue_by_id(*id).filter(|queue| is_exported(queue))?;
            Some((&**binding, "queue", &queue.name))
        }
        Destination::Exchange(name) => Some((&**binding, "exchange", name)),
    };
    let mut list: Vec<Named<'s>> = vhost.routes.bindings().filter_map(named).collect();
    list.sort_unstable_by(order);
    // Bindings that are equal in the document are listed once.
    list.dedup_by(|left, right| order(left, right).is_eq());
    Box::new(list.into_iter().map(|(binding, kind, destination)| {
        json!({
            "vhost": vhost.name.as_str(), "source": binding.source.as_str(),
            "destination": destination.as_str(), "destination_type": kind,
            "routing_key": binding.key.to_text(), "arguments": to_json(&binding.arguments),
        })
    }))
}
