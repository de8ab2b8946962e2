//! Policies, operator policies and parameters.

use super::removal::is_confirmed;
use super::{explain, vhosts};
use crate::admin::definitions::{self, Define};
use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use meta::PolicyScope;
use meta::definitions::{policy, vhost_limits};
use serde_json::{Value, json};

fn list_of(call: &Call, scope: PolicyScope) -> Outcome {
    let view = call.view();
    let mut rows = Vec::new();
    for vhost in vhosts(&view.meta, call)? {
        rows.extend(vhost.policies.iter(scope).map(|it| policy(vhost, it)));
    }
    call.list(rows)
}

fn get_of(call: &Call, scope: PolicyScope) -> Outcome {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let found = vhost.policies.get(scope, call.param("name")).ok_or_else(Refusal::not_found)?;
    Ok(Answer::Json(policy(vhost, found)))
}

pub(crate) fn list(call: &Call) -> Outcome {
    list_of(call, PolicyScope::User)
}

pub(crate) fn get(call: &Call) -> Outcome {
    get_of(call, PolicyScope::User)
}

pub(crate) fn list_operator(call: &Call) -> Outcome {
    list_of(call, PolicyScope::Operator)
}

pub(crate) fn get_operator(call: &Call) -> Outcome {
    get_of(call, PolicyScope::Operator)
}

/// Sets a policy; with `expected`, if it changes so many objects.
pub(crate) async fn set(call: &Call) -> Outcome {
    set_of(call, definitions::set_policy).await
}

pub(crate) async fn set_operator(call: &Call) -> Outcome {
    set_of(call, definitions::set_operator_policy).await
}

async fn set_of(call: &Call, change: Define) -> Outcome {
    let request = call.request()?;
    if request.value("expected").is_some() {
        is_confirmed(&request, explain::effects(call, change)?.len() as u64)?;
    }
    definitions::define(&call.api.management, change, &request).await?;
    Ok(Answer::NoContent)
}

/// The policies that match a queue or an exchange: the one in force first.
pub(crate) fn matching(call: &Call) -> Outcome {
    let view = call.view();
    let (vhost, name) = (vhost(&view.meta, call)?, call.param("name"));
    let matching = match call.query.get("object_type") {
        Some("exchange") => vhost.policies.matching_exchange(PolicyScope::User, name),
        _ => vhost.policies.matching_queue(PolicyScope::User, vhost.require_queue(name)?),
    };
    call.list(matching.into_iter().map(|it| policy(vhost, it)).collect())
}

/// The parameters of the virtual hosts and the component of the address. COMPAT: limits are parameters too.
fn parameters(call: &Call) -> Result<Vec<Value>, Refusal> {
    let view = call.view();
    let is_wanted = |of: &str, found: &str| call.param(of).is_empty() || call.param(of) == found;
    let mut rows = Vec::new();
    for vhost in vhosts(&view.meta, call)? {
        let mut add = |component: &str, name: &str, value: Value| {
            if is_wanted("component", component) && is_wanted("name", name) {
                rows.push(json!({
                    "vhost": vhost.name.as_str(), "component": component, "name": name,
                    "value": value,
                }));
            }
        };
        for it in vhost.parameters.iter() {
            add(it.component, it.name, it.value.value());
        }
        let limits = vhost_limits(vhost);
        if limits.as_object().is_some_and(|limits| !limits.is_empty()) {
            add("vhost-limits", "limits", limits);
        }
    }
    Ok(rows)
}

pub(crate) fn list_parameters(call: &Call) -> Outcome {
    call.list(parameters(call)?)
}

pub(crate) fn get_parameter(call: &Call) -> Outcome {
    parameters(call)?.pop().map(Answer::Json).ok_or_else(Refusal::not_found)
}

fn global(name: &str, value: Value) -> Value {
    json!({"name": name, "value": value})
}

/// The parameter that nobody sets. COMPAT: it is no part of exports.
const CLUSTER_ID: &str = "internal_cluster_id";

fn cluster_id(call: &Call) -> Value {
    global(CLUSTER_ID, json!(call.api.management.node_info.cluster_id))
}

pub(crate) fn list_global(call: &Call) -> Outcome {
    let view = call.view();
    let stored = view.meta.global_parameters();
    let own = stored.get(CLUSTER_ID).is_none().then(|| cluster_id(call));
    let mut rows: Vec<Value> =
        stored.iter().map(|(name, value)| global(name, value.value())).chain(own).collect();
    rows.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    call.list(rows)
}

pub(crate) fn get_global(call: &Call) -> Outcome {
    let (view, name) = (call.view(), call.param("name"));
    match view.meta.global_parameters().get(name) {
        Some(value) => Ok(Answer::Json(global(name, value.value()))),
        None if name == CLUSTER_ID => Ok(Answer::Json(cluster_id(call))),
        None => Err(Refusal::not_found()),
    }
}
