//! The state as a document. COMPAT: names, types and order of lists as RabbitMQ exports them; within a
//! list everything is sorted, so that equal states give equal documents.

use routing::{Binding, Destination, Name};
use serde_json::{Map, Value, json};

use super::table::to_json;
use super::{OPERATOR_POLICY, VHOST_LIMITS, is_internal};
use crate::exchange::{ExchangeDef, is_reserved};
use crate::permission::{Permissions, TopicPermissions};
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

/// Everything but what goes with a connection: exclusive queues, and what the broker has named itself.
#[must_use]
pub fn export(state: &State, origin: Origin<'_>) -> Value {
    let cluster = origin.cluster_name;
    let mut document = about(origin);
    let mut put = |name: &str, value: Value| document.insert(name.to_owned(), value);
    put("rabbitmq_definition_format", json!("cluster"));
    put("original_cluster_name", json!(cluster));
    put("explanation", json!(format!("Definitions of cluster '{cluster}'")));
    put("users", state.users().iter().map(user).collect());
    put("vhosts", state.vhosts().map(vhost).collect());
    put("permissions", of_vhosts(state, permissions));
    put("topic_permissions", of_vhosts(state, topic_permissions));
    put("global_parameters", global_parameters(state));
    for (list, items) in LISTS_OF_VHOST {
        put(list, of_vhosts(state, items));
    }
    Value::Object(document)
}

/// Exports one virtual host, without its name: the document can be imported into another.
#[must_use]
pub fn export_vhost(state: &State, vhost: &Vhost, origin: Origin<'_>) -> Value {
    let name = vhost.name().as_str();
    let mut document = about(origin);
    let mut put = |name: &str, value: Value| document.insert(name.to_owned(), value);
    put("rabbitmq_definition_format", json!("single_virtual_host"));
    put("original_vhost_name", json!(name));
    put("explanation", json!(format!("Definitions of virtual host '{name}'")));
    put("metadata", metadata(vhost));
    for (list, items) in LISTS_OF_VHOST {
        let mut items = items(state, vhost);
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("vhost");
        }
        put(list, Value::from(items));
    }
    Value::Object(document)
}

type Items = fn(&State, &Vhost) -> Vec<Value>;

/// The lists of what lies in virtual hosts.
const LISTS_OF_VHOST: [(&str, Items); 5] = [
    ("parameters", parameters),
    ("policies", policies),
    ("queues", queues),
    ("exchanges", exchanges),
    ("bindings", bindings),
];

fn about(origin: Origin<'_>) -> Map<String, Value> {
    let Value::Object(about) = json!({
        "rabbit_version": origin.rabbitmq_version, "rabbitmq_version": origin.rabbitmq_version,
        "product_name": "Leveret", "product_version": origin.product_version,
    }) else {
        return Map::new();
    };
    about
}

fn of_vhosts(state: &State, items: Items) -> Value {
    state.vhosts().flat_map(|vhost| items(state, vhost)).collect()
}

fn texts(names: &[Name]) -> Value {
    names.iter().map(|name| Value::from(name.as_str())).collect()
}

/// Limits that are set.
fn limits(limits: [(&str, Option<i64>); 2]) -> Value {
    let set = |(name, limit): (&str, Option<i64>)| Some((name.to_owned(), Value::from(limit?)));
    Value::Object(limits.into_iter().filter_map(set).collect())
}

/// The limits of a user that are set, by name.
#[must_use]
pub fn user_limits(user: &User) -> Value {
    let UserLimits { max_connections, max_channels } = user.limits();
    limits([("max-connections", max_connections), ("max-channels", max_channels)])
}

/// A user as documents have it, with the hash of its password.
#[must_use]
pub fn user(user: &User) -> Value {
    json!({
        "name": user.name().as_str(),
        "password_hash": user.password().to_base64(),
        "hashing_algorithm": user.password().algorithm().as_str(),
        "tags": texts(user.tags()),
        "limits": user_limits(user),
    })
}

/// The limits of a virtual host that are set, by name.
#[must_use]
pub fn vhost_limits(vhost: &Vhost) -> Value {
    let VhostLimits { max_connections, max_queues } = vhost.limits();
    limits([("max-connections", max_connections), ("max-queues", max_queues)])
}

fn metadata(vhost: &Vhost) -> Value {
    let known = vhost.metadata();
    let mut metadata = json!({
        "description": known.description, "tags": texts(&known.tags),
        "protected_from_deletion": known.protected_from_deletion,
    });
    if let (Some(metadata), Some(kind)) = (metadata.as_object_mut(), &known.default_queue_type) {
        metadata.insert("default_queue_type".to_owned(), json!(kind.as_str()));
    }
    metadata
}

fn vhost(vhost: &Vhost) -> Value {
    let known = vhost.metadata();
    json!({
        "name": vhost.name().as_str(), "description": known.description,
        "tags": texts(&known.tags), "metadata": metadata(vhost), "limits": vhost_limits(vhost),
    })
}

fn permissions(state: &State, vhost: &Vhost) -> Vec<Value> {
    let object = |(user, permissions): (&Name, &Permissions)| {
        json!({
            "user": user.as_str(), "vhost": vhost.name().as_str(),
            "configure": permissions.configure.as_str(), "write": permissions.write.as_str(),
            "read": permissions.read.as_str(),
        })
    };
    state.users().permissions_in(vhost.name()).map(object).collect()
}

fn topic_permissions(state: &State, vhost: &Vhost) -> Vec<Value> {
    let object = |(user, exchange, permissions): (&Name, &Name, &TopicPermissions)| {
        json!({
            "user": user.as_str(), "vhost": vhost.name().as_str(), "exchange": exchange.as_str(),
            "write": permissions.write(), "read": permissions.read(),
        })
    };
    state.users().topic_permissions_in(vhost.name()).map(object).collect()
}

fn global_parameters(state: &State) -> Value {
    let shown = state.global_parameters().iter().filter(|(name, _)| !is_internal(name));
    shown.map(|(name, value)| json!({"name": name.as_str(), "value": value.value()})).collect()
}

/// COMPAT: operator policies and limits are parameters here.
fn parameters(_: &State, vhost: &Vhost) -> Vec<Value> {
    let object = |component: &str, name: &str, value: Value| {
        json!({
            "vhost": vhost.name().as_str(), "component": component, "name": name, "value": value,
        })
    };
    let mut list: Vec<Value> = vhost
        .parameters()
        .iter()
        .map(|(component, name, value)| object(component, name, value.value()))
        .collect();
    list.extend(vhost.policies().iter(PolicyScope::Operator).map(|policy| {
        let mut value = policy_value(policy);
        if let Some(value) = value.as_object_mut() {
            value.remove("name");
        }
        object(OPERATOR_POLICY, &policy.spec().name, value)
    }));
    if vhost.limits() != VhostLimits::default() {
        let (component, name) = VHOST_LIMITS;
        list.push(object(component, name, vhost_limits(vhost)));
    }
    list
}

fn policy_value(policy: &Policy) -> Value {
    let spec = policy.spec();
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
        value.insert("vhost".to_owned(), json!(vhost.name().as_str()));
    }
    value
}

fn policies(_: &State, vhost: &Vhost) -> Vec<Value> {
    vhost.policies().iter(PolicyScope::User).map(|it| policy(vhost, it)).collect()
}

fn is_exported(queue: &QueueDef) -> bool {
    queue.exclusive_owner.is_none() && !is_reserved(&queue.name)
}

fn queues(_: &State, vhost: &Vhost) -> Vec<Value> {
    let object = |queue: &QueueDef| {
        json!({
            "vhost": vhost.name().as_str(), "name": queue.name.as_str(),
            "type": queue.kind.as_str(), "durable": queue.durable,
            "auto_delete": queue.auto_delete, "arguments": to_json(&queue.arguments),
        })
    };
    vhost.queues().filter(|queue| is_exported(queue)).map(|queue| object(queue)).collect()
}

fn exchanges(_: &State, vhost: &Vhost) -> Vec<Value> {
    let object = |exchange: &ExchangeDef| {
        json!({
            "vhost": vhost.name().as_str(), "name": exchange.name.as_str(),
            "type": exchange.kind.as_str(), "durable": exchange.durable,
            "auto_delete": exchange.auto_delete, "internal": exchange.internal,
            "arguments": to_json(&exchange.arguments),
        })
    };
    let made = vhost.exchanges().filter(|exchange| !exchange.is_predeclared());
    made.map(|exchange| object(exchange)).collect()
}

fn bindings(state: &State, vhost: &Vhost) -> Vec<Value> {
    let object = |binding: &Binding| {
        let (destination, kind) = match binding.destination() {
            Destination::Queue(id) => {
                let queue = state.queue_by_id(*id).filter(|queue| is_exported(queue))?;
                (queue.name.clone(), "queue")
            }
            Destination::Exchange(name) => (name.clone(), "exchange"),
        };
        Some(json!({
            "vhost": vhost.name().as_str(), "source": binding.source().as_str(),
            "destination": destination.as_str(), "destination_type": kind,
            "routing_key": binding.key().to_text(), "arguments": to_json(binding.arguments()),
        }))
    };
    let mut list: Vec<Value> = vhost.routes().bindings().filter_map(|one| object(one)).collect();
    // Queues are told apart by number inside, and by name outside.
    list.sort_by_cached_key(|binding| {
        let text =
            |field| binding.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let arguments = binding.get("arguments").map(Value::to_string).unwrap_or_default();
        let ends = (text("source"), text("destination_type"), text("destination"));
        (ends, text("routing_key"), arguments)
    });
    // What differs only in fields that do not count is one.
    list.dedup();
    list
}
