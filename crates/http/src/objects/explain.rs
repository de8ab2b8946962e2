//! Reasons: settings, policies and permissions, each with where it comes from.

use super::put_field;
use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use meta::definitions::policy as definitions_policy;
use meta::{
    AccessReason, Permission, Policy, PolicyEffect, PolicyScope, QueueDef, Resource, ResourceKind,
    SettingSource, Standing, Vhost, policy_effects, policy_standings, setting_sources,
};
use mgmt::{Define, definitions};
use serde_json::{Value, json};
use std::sync::Arc;

/// Most objects that are listed one by one.
const LISTED_MAX: usize = 1_000;

/// The settings of a queue with their sources, and all policies with why they count or do not.
pub(crate) fn queue(call: &Call) -> Outcome {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let def = vhost.queue(call.param("name")).filter(|def| !def.is_internal());
    let def = def.ok_or_else(Refusal::not_found)?;
    let sources = setting_sources(vhost.policies(), def);
    Ok(Answer::Json(json!({
        "name": def.name.as_str(),
        "vhost": vhost.name().as_str(),
        "type": def.kind.as_str(),
        "settings": sources.iter().map(setting).collect::<Value>(),
        "policies": standings(vhost, def, PolicyScope::User),
        "operator_policies": standings(vhost, def, PolicyScope::Operator),
    })))
}

fn setting(source: &SettingSource) -> Value {
    let [argument, policy, operator_policy] = &source.given;
    json!({
        "name": source.name,
        "value": source.value,
        "origin": source.origin.as_str(),
        "given": {"argument": argument, "policy": policy, "operator_policy": operator_policy},
    })
}

fn standings(vhost: &Vhost, queue: &QueueDef, scope: PolicyScope) -> Value {
    let standings = policy_standings(vhost.policies(), scope, queue);
    let object = |(policy, standing): (&Arc<Policy>, Standing)| {
        let mut object = definitions_policy(vhost, policy);
        put_field(&mut object, "applies", json!(standing == Standing::InForce));
        put_field(&mut object, "reason", json!(standing.as_str()));
        object
    };
    standings.into_iter().map(object).collect()
}

/// The objects that a policy would change which is not set yet.
pub(crate) fn policy(call: &Call) -> Outcome {
    effects(call, definitions::set_policy)
}

/// Those that an operator policy would change.
pub(crate) fn operator_policy(call: &Call) -> Outcome {
    effects(call, definitions::set_operator_policy)
}

fn effects(call: &Call, change: Define) -> Outcome {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let then = call.api.management.foretell(&view.meta, change, &call.request()?)?;
    let effects = policy_effects(&view.meta, &then, vhost.name());
    let object = |effect: &PolicyEffect| {
        json!({
            "name": effect.name.as_str(),
            "kind": if effect.is_queue { "queue" } else { "exchange" },
            "before": effect.before,
            "after": effect.after,
        })
    };
    Ok(Answer::Json(json!({
        "changed_count": effects.len(),
        "changes": effects.iter().take(LISTED_MAX).map(object).collect::<Value>(),
    })))
}

/// Whether a user may do something to an exchange or a queue, and by what.
pub(crate) fn permission(call: &Call) -> Outcome {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?.name().clone();
    let kind = match call.query.get("kind") {
        Some("exchange") => ResourceKind::Exchange,
        None | Some("queue") => ResourceKind::Queue,
        Some(other) => {
            return Err(Refusal::bad_request(format!("kind '{other}' is no queue or exchange")));
        }
    };
    let permission = match call.query.get("operation") {
        Some("configure") => Permission::Configure,
        Some("write") => Permission::Write,
        Some("read") => Permission::Read,
        _ => return Err(Refusal::bad_request("operation is configure, write or read")),
    };
    let name = call.query.get("name").unwrap_or_default();
    let resource = Resource { kind, name: name.into(), vhost };
    let key = call.query.get("routing_key").map(str::as_bytes);
    let reason = view.meta.users().access_reason(call.param("user"), permission, &resource, key);
    let (text, pattern) = match &reason {
        AccessReason::NoUser => ("there is no such user", None),
        AccessReason::NoPermissions => ("the user has no permissions in the virtual host", None),
        AccessReason::Pattern { pattern, matches: true } => {
            ("the pattern of the operation matches the name", Some(pattern))
        }
        AccessReason::Pattern { pattern, matches: false } => {
            ("the pattern of the operation does not match the name", Some(pattern))
        }
        AccessReason::TopicRefused { pattern } => {
            ("the pattern of topic permissions does not match the routing key", Some(pattern))
        }
    };
    Ok(Answer::Json(json!({
        "user": call.param("user"),
        "vhost": resource.vhost.as_str(),
        "kind": if kind == ResourceKind::Queue { "queue" } else { "exchange" },
        "name": name,
        "operation": permission.as_str(),
        "allowed": reason.is_allowed(),
        "reason": text,
        "pattern": pattern,
    })))
}
