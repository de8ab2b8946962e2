//! Virtual hosts, and their limits.

use crate::admin::{definitions, operations};
use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use crate::stats::Ranges;
use meta::Vhost;
use meta::definitions::{user_limits, vhost_limits};
use serde_json::{Value, json};

fn object(call: &Call, vhost: &Vhost, ranges: &Ranges) -> Value {
    let (metadata, api) = (&vhost.metadata, &call.api);
    let kind = metadata.default_queue_type.as_ref().map_or("classic", |kind| kind.as_str());
    let tags: Vec<&str> = metadata.tags.iter().map(|tag| tag.as_str()).collect();
    let mut object = json!({
        "name": vhost.name.as_str(),
        "description": metadata.description,
        "tags": tags,
        "default_queue_type": kind,
        "protected_from_deletion": metadata.protected_from_deletion,
        "metadata": {
            "description": metadata.description, "tags": tags, "default_queue_type": kind,
        },
        "tracing": api.management.broker.firehose().is_on(&vhost.name),
        "cluster_state": {&*api.management.node_info.name: "running"},
    });
    if let Value::Object(object) = &mut object {
        object.extend(api.stats.of_vhost(&vhost.name, ranges));
    }
    object
}

pub(crate) fn list(call: &Call) -> Outcome {
    let (view, ranges) = (call.view(), call.ranges()?);
    let seen = view.meta.vhosts().filter(|vhost| call.caller.sees(&view.meta, &vhost.name));
    call.list(seen.map(|vhost| object(call, vhost, &ranges)).collect())
}

pub(crate) fn get(call: &Call) -> Outcome {
    let view = call.view();
    Ok(Answer::Json(object(call, vhost(&view.meta, call)?, &call.ranges()?)))
}

pub(crate) async fn put(call: &Call) -> Outcome {
    let (request, management) = (call.request()?, &call.api.management);
    definitions::define(management, definitions::put_vhost, &request).await?;
    match request.value("tracing") {
        Some(Value::Bool(true)) => operations::trace_on(management, &request)?,
        Some(Value::Bool(false)) => operations::trace_off(management, &request)?,
        Some(_) | None => Value::Null,
    };
    Ok(Answer::NoContent)
}

pub(crate) fn protection(call: &Call) -> Outcome {
    let view = call.view();
    let is_protected = vhost(&view.meta, call)?.metadata.protected_from_deletion;
    Ok(Answer::Json(json!({"protected_from_deletion": is_protected})))
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
    let limits = vhosts.into_iter().map(|it| (it.name.as_str(), vhost_limits(it)));
    limit_rows(call, "vhost", limits)
}

pub(crate) fn list_user_limits(call: &Call) -> Outcome {
    let view = call.view();
    let wanted = call.param("user");
    if !call.caller.is_administrator() && wanted != call.caller.user {
        return Err(match wanted {
            "" => Refusal::not_authorised("Not administrator user"),
            _ => Refusal::not_yours(),
        });
    }
    super::access::check(call)?;
    let users = view.meta.users().iter();
    let users = users.filter(|user| wanted.is_empty() || user.name == wanted);
    let limits = users.map(|it| (it.name.as_str(), user_limits(it)));
    limit_rows(call, "user", limits)
}
