//! Listings of definitions. Pure: the state in, rows out.

use super::row;
use crate::api_error::ApiError;
use crate::request::Request;
use crate::table::table;
use meta::{
    BindingView, DestinationName, ExchangeDef, MetaError, Name, Permissions, Policy, PolicyScope,
    State, TopicPermissions, User, UserLimits, Vhost, VhostLimits,
};
use serde_json::{Map, Value, json};

/// The rows that `endpoint` asks for; `None` when it asks for something else.
pub(crate) fn rows_of_definitions(
    state: &State,
    endpoint: &str,
    request: &Request,
    is_traced: impl Fn(&str) -> bool,
) -> Option<Result<Value, ApiError>> {
    Some(match endpoint {
        "list_users" => Ok(users(state)),
        "list_vhosts" => {
            let value = |vhost: &Vhost, column: &str| match column {
                "tracing" => Some(json!(is_traced(vhost.name()))),
                _ => vhost_value(vhost, column),
            };
            Ok(state.vhosts().map(|vhost| row(request, |name| value(vhost, name))).collect())
        }
        "list_permissions" => vhost(state, request).map(|vhost| permissions(state, vhost.name())),
        "list_user_permissions" => user(state, request).map(user_permissions),
        "list_topic_permissions" => {
            vhost(state, request).map(|vhost| topic_permissions(state, vhost.name()))
        }
        "list_user_topic_permissions" => user(state, request).map(user_topic_permissions),
        "list_policies" => vhost(state, request).map(|vhost| policies(vhost, PolicyScope::User)),
        "list_policies_that_match" => policies_that_match(state, request),
        "list_operator_policies" => {
            vhost(state, request).map(|vhost| policies(vhost, PolicyScope::Operator))
        }
        "list_parameters" => vhost(state, request).map(parameters),
        "list_global_parameters" => Ok(state
            .global_parameters()
            .iter()
            .map(|(name, value)| json!({"name": name.as_str(), "value": value.as_str()}))
            .collect()),
        "list_vhost_limits" => vhost_limits(state, request),
        "list_user_limits" => user_limits(state, request),
        "list_exchanges" => named(state, request, |vhost| {
            vhost
                .exchanges()
                .map(|exchange| row(request, |name| exchange_value(vhost, exchange, name)))
                .collect()
        }),
        "list_bindings" => named(state, request, |vhost| {
            state
                .bindings(vhost)
                .map(|binding| row(request, |name| binding_value(&binding, name)))
                .collect()
        }),
        _ => return None,
    })
}

fn vhost<'s>(state: &'s State, request: &Request) -> Result<&'s Vhost, ApiError> {
    let name = request.vhost()?;
    state.vhost(&name).ok_or_else(|| MetaError::VhostNotFound(name).into())
}

/// COMPAT: where RabbitMQ lists what is in a virtual host, one that does not exist is empty.
fn named<'s>(
    state: &'s State,
    request: &Request,
    rows: impl Fn(&'s Vhost) -> Vec<Value>,
) -> Result<Value, ApiError> {
    let name = request.vhost()?;
    Ok(Value::from(state.vhost(&name).map(rows).unwrap_or_default()))
}

fn user<'s>(state: &'s State, request: &Request) -> Result<&'s User, ApiError> {
    let name = request.user()?;
    state.user(&name).ok_or_else(|| MetaError::UserNotFound(name).into())
}

fn texts(names: &[Name]) -> Value {
    names.iter().map(|name| Value::from(name.as_str())).collect()
}

fn users(state: &State) -> Value {
    let object = |user: &User| json!({"user": user.name().as_str(), "tags": texts(user.tags())});
    state.users().iter().map(object).collect()
}

fn vhost_value(vhost: &Vhost, column: &str) -> Option<Value> {
    let metadata = vhost.metadata();
    let kind = metadata.default_queue_type.as_ref().map_or("classic", |kind| kind.as_str());
    Some(match column {
        "name" => json!(vhost.name().as_str()),
        "description" => json!(metadata.description),
        "tags" => texts(&metadata.tags),
        "default_queue_type" => json!(kind),
        "protected_from_deletion" => json!(metadata.protected_from_deletion),
        "cluster_state" => json!([]),
        "metadata" => json!({
            "description": metadata.description,
            "tags": texts(&metadata.tags),
            "default_queue_type": kind,
        }),
        _ => return None,
    })
}

fn permissions(state: &State, vhost: &Name) -> Value {
    let found = state.users().permissions_in(vhost);
    found.map(|(user, permissions)| permissions_row(("user", user), permissions)).collect()
}

fn user_permissions(user: &User) -> Value {
    let row = |(vhost, found)| permissions_row(("vhost", vhost), found);
    user.permissions().map(row).collect()
}

fn permissions_row((key, name): (&str, &Name), found: &Permissions) -> Value {
    json!({
        key: name.as_str(), "configure": found.configure.as_str(),
        "write": found.write.as_str(), "read": found.read.as_str(),
    })
}

fn topic_permissions(state: &State, vhost: &Name) -> Value {
    let found = state.users().topic_permissions_in(vhost);
    found.map(|(user, exchange, found)| topic_row(("user", user), exchange, found)).collect()
}

fn user_topic_permissions(user: &User) -> Value {
    let row = |(vhost, exchange, found)| topic_row(("vhost", vhost), exchange, found);
    user.topic_permissions().map(row).collect()
}

fn topic_row((key, name): (&str, &Name), exchange: &Name, found: &TopicPermissions) -> Value {
    json!({
        key: name.as_str(), "exchange": exchange.as_str(),
        "write": found.write(), "read": found.read(),
    })
}

fn policies(vhost: &Vhost, scope: PolicyScope) -> Value {
    vhost.policies().iter(scope).map(|policy| policy_object(vhost, policy)).collect()
}

fn policy_object(vhost: &Vhost, policy: &Policy) -> Value {
    let spec = policy.spec();
    json!({
        "vhost": vhost.name().as_str(), "name": spec.name.as_str(), "pattern": spec.pattern,
        "apply-to": spec.apply_to.as_str(), "definition": spec.definition.as_str(),
        "priority": spec.priority,
    })
}

/// The one in force first.
fn policies_that_match(state: &State, request: &Request) -> Result<Value, ApiError> {
    let vhost = vhost(state, request)?;
    let name = request.text("name")?;
    let matching = match request.optional("object_type") {
        Some("exchange") => vhost.policies().matching_exchange(PolicyScope::User, name),
        _ => {
            let queue = vhost.require_queue(name)?;
            vhost.policies().matching_queue(PolicyScope::User, queue)
        }
    };
    Ok(matching.into_iter().map(|policy| policy_object(vhost, policy)).collect())
}

/// COMPAT: limits are parameters too.
fn parameters(vhost: &Vhost) -> Value {
    let row = |component: &str, name: &str, value: &str| json!({"component": component, "name": name, "value": value});
    let limits = of_vhost(vhost.limits());
    let limits = limits.map(|limits| row("vhost-limits", "limits", &limits));
    let stored = vhost
        .parameters()
        .iter()
        .map(|(component, name, value)| row(component, name, value.as_str()));
    stored.chain(limits).collect()
}

/// Limits that are set, as JSON text; empty when none is.
fn limits_text(limits: [(&str, Option<i64>); 2]) -> Option<String> {
    let set: Map<String, Value> = limits
        .into_iter()
        .filter_map(|(name, limit)| Some((name.to_owned(), Value::from(limit?))))
        .collect();
    (!set.is_empty()).then(|| Value::Object(set).to_string())
}

fn of_vhost(limits: VhostLimits) -> Option<String> {
    let VhostLimits { max_connections, max_queues } = limits;
    limits_text([("max-connections", max_connections), ("max-queues", max_queues)])
}

fn of_user(limits: UserLimits) -> Option<String> {
    let UserLimits { max_connections, max_channels } = limits;
    limits_text([("max-connections", max_connections), ("max-channels", max_channels)])
}

fn vhost_limits(state: &State, request: &Request) -> Result<Value, ApiError> {
    if !request.flag("global") {
        // COMPAT: nothing at all is listed when there are none.
        let limits = of_vhost(vhost(state, request)?.limits());
        return Ok(limits.map_or_else(|| json!([]), Value::from));
    }
    let object = |vhost: &Vhost| {
        let limits = of_vhost(vhost.limits())?;
        Some(json!({"vhost": vhost.name().as_str(), "limits": limits}))
    };
    Ok(state.vhosts().filter_map(object).collect())
}

fn user_limits(state: &State, request: &Request) -> Result<Value, ApiError> {
    if request.flag("global") {
        let object = |user: &User| {
            let limits = of_user(user.limits())?;
            Some(json!({"user": user.name().as_str(), "limits": limits}))
        };
        return Ok(state.users().iter().filter_map(object).collect());
    }
    let name = request.optional("user").unwrap_or("guest");
    let user = state.user(name).ok_or_else(|| MetaError::UserNotFound(Name::from(name)))?;
    Ok(Value::from(of_user(user.limits()).unwrap_or_else(|| "{}".to_owned())))
}

fn exchange_value(vhost: &Vhost, exchange: &ExchangeDef, column: &str) -> Option<Value> {
    let policy = || vhost.policies().of_exchange(PolicyScope::User, &exchange.name);
    Some(match column {
        "name" => json!(exchange.name.as_str()),
        "type" => json!(exchange.kind.as_str()),
        "durable" => json!(exchange.durable),
        "auto_delete" => json!(exchange.auto_delete),
        "internal" => json!(exchange.internal),
        "arguments" => table(&exchange.arguments),
        "policy" => json!(policy().map_or("", |policy| policy.spec().name.as_str())),
        _ => return None,
    })
}

fn binding_value(binding: &BindingView, column: &str) -> Option<Value> {
    let (destination, kind) = match &binding.destination {
        DestinationName::Queue(name) => (name, "queue"),
        DestinationName::Exchange(name) => (name, "exchange"),
    };
    Some(match column {
        "source_name" => json!(binding.source.as_str()),
        "source_kind" => json!("exchange"),
        "destination_name" => json!(destination.as_str()),
        "destination_kind" => json!(kind),
        "routing_key" => json!(binding.key.to_text()),
        "arguments" => table(&binding.arguments),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
