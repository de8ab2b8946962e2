//! Virtual hosts, and their limits.

use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use crate::stats::Ranges;
use meta::Vhost;
use meta::definitions::{user_limits, vhost_limits};
use serde_json::{Map, Value, json};

fn object(call: &Call, vhost: &Vhost, ranges: &Ranges) -> Value {
    let (metadata, api) = (vhost.metadata(), &call.api);
    let kind = metadata.default_queue_type.as_ref().map_or("classic", |kind| kind.as_str());
    let tags: Vec<&str> = metadata.tags.iter().map(|tag| tag.as_str()).collect();
    let mut object = json!({
        "name": vhost.name().as_str(),
        "description": metadata.description,
        "tags": tags,
        "default_queue_type": kind,
        "protected_from_deletion": metadata.protected_from_deletion,
        "metadata": {
            "description": metadata.description, "tags": tags, "default_queue_type": kind,
        },
        "tracing": api.management.broker.firehose().is_on(vhost.name()),
        "cluster_state": {&*api.management.node_info.name: "running"},
    });
    if let Value::Object(object) = &mut object {
        object.extend(api.stats.of_vhost(vhost.name(), ranges));
    }
    object
}

pub(crate) fn list(call: &Call) -> Outcome {
    let (view, ranges) = (call.view(), call.ranges()?);
    let seen = view.meta.vhosts().filter(|vhost| call.caller.sees(&view.meta, vhost.name()));
    call.list(seen.map(|vhost| object(call, vhost, &ranges)).collect())
}

pub(crate) fn get(call: &Call) -> Outcome {
    let view = call.view();
    Ok(Answer::Json(object(call, vhost(&view.meta, call)?, &call.ranges()?)))
}

pub(crate) async fn put(call: &Call) -> Outcome {
    let (mut fields, name) = (call.object()?, call.param("vhost"));
    let was_there = call.view().meta.vhost(name).is_some();
    if let Some(Value::Array(tags)) = fields.get("tags") {
        let tags = tags.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        fields.insert("tags".to_owned(), json!(tags));
    }
    if let Some(kind) = fields.remove("defaultqueuetype") {
        fields.entry("default_queue_type").or_insert(kind);
    }
    fields.insert("vhost".to_owned(), json!(name));
    let tracing = fields.remove("tracing");
    let verb = if was_there { "update_vhost_metadata" } else { "add_vhost" };
    call.ask(verb, Value::Object(fields)).await?;
    if !was_there {
        // COMPAT: who makes it may use it.
        let all = json!({
            "user": call.caller.user, "vhost": name, "configure": ".*", "write": ".*", "read": ".*",
        });
        call.ask("set_permissions", all).await?;
    }
    if let Some(Value::Bool(on)) = tracing {
        call.ask(if on { "trace_on" } else { "trace_off" }, json!({"vhost": name})).await?;
    }
    Ok(Answer::put(was_there))
}

pub(crate) async fn delete(call: &Call) -> Outcome {
    call.ask("delete_vhost", json!({"vhost": call.param("vhost")})).await?;
    Ok(Answer::NoContent)
}

pub(crate) fn protection(call: &Call) -> Outcome {
    let view = call.view();
    let is_protected = vhost(&view.meta, call)?.metadata().protected_from_deletion;
    Ok(Answer::Json(json!({"protected_from_deletion": is_protected})))
}

pub(crate) async fn protect(call: &Call) -> Outcome {
    call.ask("enable_vhost_deletion_protection", json!({"vhost": call.param("vhost")})).await?;
    Ok(Answer::NoContent)
}

pub(crate) async fn unprotect(call: &Call) -> Outcome {
    call.ask("disable_vhost_deletion_protection", json!({"vhost": call.param("vhost")})).await?;
    Ok(Answer::NoContent)
}

/// COMPAT: it runs already, on the only node.
pub(crate) async fn start(call: &Call) -> Outcome {
    call.ask("restart_vhost", json!({"vhost": call.param("vhost")})).await?;
    Ok(Answer::NoContent)
}

/// Rows of limits, but for those without any.
fn limit_rows<'n>(
    call: &Call,
    key: &str,
    limits: impl Iterator<Item = (&'n str, Value)>,
) -> Outcome {
    let is_set = |value: &Value| value.as_object().is_some_and(|limits| !limits.is_empty());
    let rows = limits.filter(|(_, value)| is_set(value));
    call.list(rows.map(|(name, value)| json!({key: name, "value": value})).collect())
}

pub(crate) fn list_limits(call: &Call) -> Outcome {
    let view = call.view();
    let vhosts = super::vhosts(&view.meta, call)?;
    let limits = vhosts.into_iter().map(|it| (it.name().as_str(), vhost_limits(it)));
    limit_rows(call, "vhost", limits)
}

pub(crate) fn list_user_limits(call: &Call) -> Outcome {
    let view = call.view();
    let wanted = call.param("user");
    if !wanted.is_empty() && view.meta.user(wanted).is_none() {
        return Err(Refusal::not_found());
    }
    let users = view.meta.users().iter();
    let users = users.filter(|user| wanted.is_empty() || user.name() == wanted);
    let limits = users.map(|it| (it.name().as_str(), user_limits(it)));
    limit_rows(call, "user", limits)
}

/// The limits with one changed, or taken away, as the endpoints of limits take them.
async fn change(
    call: &Call,
    (verb, clear): (&str, &str),
    (key, before): (&str, Value),
    value: Option<Value>,
) -> Outcome {
    let (mut limits, name) = (before.as_object().cloned().unwrap_or_default(), call.param("name"));
    let was_there = match value {
        Some(value) => limits.insert(name.to_owned(), value).is_some(),
        None => limits.remove(name).is_some(),
    };
    let who = call.param(key);
    if limits.is_empty() {
        if was_there {
            call.ask(clear, json!({key: who, "limit": "all"})).await?;
        }
        return Ok(Answer::NoContent);
    }
    let definition = Value::Object(limits).to_string();
    call.ask(verb, json!({key: who, "definition": definition})).await?;
    Ok(Answer::NoContent)
}

fn value(object: &Map<String, Value>) -> Result<Value, Refusal> {
    object.get("value").cloned().ok_or_else(|| Refusal::key_missing(&["value"]))
}

async fn change_vhost_limit(call: &Call, value: Option<Value>) -> Outcome {
    let before = vhost_limits(vhost(&call.view().meta, call)?);
    change(call, ("set_vhost_limits", "clear_vhost_limits"), ("vhost", before), value).await
}

pub(crate) async fn put_limit(call: &Call) -> Outcome {
    change_vhost_limit(call, Some(value(&call.object()?)?)).await
}

pub(crate) async fn delete_limit(call: &Call) -> Outcome {
    change_vhost_limit(call, None).await
}

async fn change_user_limit(call: &Call, value: Option<Value>) -> Outcome {
    let view = call.view();
    let user = view.meta.user(call.param("user")).ok_or_else(Refusal::not_found)?;
    let before = user_limits(user);
    change(call, ("set_user_limits", "clear_user_limits"), ("user", before), value).await
}

pub(crate) async fn put_user_limit(call: &Call) -> Outcome {
    change_user_limit(call, Some(value(&call.object()?)?)).await
}

pub(crate) async fn delete_user_limit(call: &Call) -> Outcome {
    change_user_limit(call, None).await
}
