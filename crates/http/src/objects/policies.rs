//! Policies, operator policies and parameters.

use super::{put_field, text, vhosts};
use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use meta::PolicyScope;
use meta::definitions::policy;
use serde_json::{Value, json};

fn list_of(call: &Call, scope: PolicyScope) -> Outcome {
    let view = call.view();
    let mut rows = Vec::new();
    for vhost in vhosts(&view.meta, call)? {
        rows.extend(vhost.policies().iter(scope).map(|it| policy(vhost, it)));
    }
    call.list(rows)
}

fn get_of(call: &Call, scope: PolicyScope) -> Outcome {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let found = vhost.policies().get(scope, call.param("name")).ok_or_else(Refusal::not_found)?;
    Ok(Answer::Json(policy(vhost, found)))
}

async fn put_of(call: &Call, scope: PolicyScope, verb: &str) -> Outcome {
    let body = call.object()?;
    let was_there = get_of(call, scope).is_ok();
    let definition = body.get("definition");
    let definition = definition.ok_or_else(|| Refusal::key_missing(&["definition"]))?;
    let priority = match body.get("priority") {
        None | Some(Value::Null) => Some(0),
        // COMPAT: forms send texts.
        Some(Value::String(text)) => text.parse().ok(),
        Some(other) => other.as_i64(),
    };
    let priority = priority.ok_or_else(|| Refusal::bad_request("priority is no number"))?;
    let fields = json!({
        "vhost": call.param("vhost"), "name": call.param("name"),
        "pattern": text(&body, "pattern")?, "definition": definition.to_string(),
        "apply_to": body.get("apply-to").cloned().unwrap_or_else(|| json!("all")),
        "priority": priority,
    });
    call.ask(verb, fields).await?;
    Ok(Answer::put(was_there))
}

async fn delete_of(call: &Call, verb: &str) -> Outcome {
    call.ask(verb, json!({"vhost": call.param("vhost"), "name": call.param("name")})).await?;
    Ok(Answer::NoContent)
}

pub(crate) fn list(call: &Call) -> Outcome {
    list_of(call, PolicyScope::User)
}

pub(crate) fn get(call: &Call) -> Outcome {
    get_of(call, PolicyScope::User)
}

pub(crate) async fn put(call: &Call) -> Outcome {
    put_of(call, PolicyScope::User, "set_policy").await
}

pub(crate) async fn delete(call: &Call) -> Outcome {
    delete_of(call, "clear_policy").await
}

pub(crate) fn list_operator(call: &Call) -> Outcome {
    list_of(call, PolicyScope::Operator)
}

pub(crate) fn get_operator(call: &Call) -> Outcome {
    get_of(call, PolicyScope::Operator)
}

pub(crate) async fn put_operator(call: &Call) -> Outcome {
    put_of(call, PolicyScope::Operator, "set_operator_policy").await
}

pub(crate) async fn delete_operator(call: &Call) -> Outcome {
    delete_of(call, "clear_operator_policy").await
}

/// The parameters of the virtual hosts and the component of the address.
fn parameters(call: &Call) -> Result<Vec<Value>, Refusal> {
    let view = call.view();
    let (component, name) = (call.param("component"), call.param("name"));
    let mut rows = Vec::new();
    for vhost in vhosts(&view.meta, call)? {
        let found = vhost.parameters().iter().filter(|(its_component, its_name, _)| {
            (component.is_empty() || *its_component == component)
                && (name.is_empty() || *its_name == name)
        });
        rows.extend(found.map(|(component, name, value)| {
            json!({
                "vhost": vhost.name().as_str(), "component": component.as_str(),
                "name": name.as_str(), "value": value.value(),
            })
        }));
    }
    Ok(rows)
}

pub(crate) fn list_parameters(call: &Call) -> Outcome {
    call.list(parameters(call)?)
}

pub(crate) fn get_parameter(call: &Call) -> Outcome {
    parameters(call)?.pop().map(Answer::Json).ok_or_else(Refusal::not_found)
}

fn parameter_address(call: &Call) -> Value {
    let [vhost, component, name] = ["vhost", "component", "name"].map(|it| call.param(it));
    json!({"vhost": vhost, "component": component, "name": name})
}

fn value_text(call: &Call) -> Result<String, Refusal> {
    let body = call.object()?;
    let value = body.get("value").ok_or_else(|| Refusal::key_missing(&["value"]))?;
    Ok(value.to_string())
}

pub(crate) async fn put_parameter(call: &Call) -> Outcome {
    let was_there = !parameters(call)?.is_empty();
    let mut fields = parameter_address(call);
    put_field(&mut fields, "value", json!(value_text(call)?));
    call.ask("set_parameter", fields).await?;
    Ok(Answer::put(was_there))
}

pub(crate) async fn delete_parameter(call: &Call) -> Outcome {
    call.ask("clear_parameter", parameter_address(call)).await?;
    Ok(Answer::NoContent)
}

fn global(name: &str, value: &meta::Json) -> Value {
    json!({"name": name, "value": value.value()})
}

pub(crate) fn list_global(call: &Call) -> Outcome {
    let view = call.view();
    let stored = view.meta.global_parameters().iter();
    call.list(stored.map(|(name, value)| global(name, value)).collect())
}

pub(crate) fn get_global(call: &Call) -> Outcome {
    let (view, name) = (call.view(), call.param("name"));
    let value = view.meta.global_parameters().get(name).ok_or_else(Refusal::not_found)?;
    Ok(Answer::Json(global(name, value)))
}

pub(crate) async fn put_global(call: &Call) -> Outcome {
    let was_there = get_global(call).is_ok();
    let fields = json!({"name": call.param("name"), "value": value_text(call)?});
    call.ask("set_global_parameter", fields).await?;
    Ok(Answer::put(was_there))
}

pub(crate) async fn delete_global(call: &Call) -> Outcome {
    call.ask("clear_global_parameter", json!({"name": call.param("name")})).await?;
    Ok(Answer::NoContent)
}
