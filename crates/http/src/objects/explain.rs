//! Reasons: settings, policies and permissions, each with where it comes from.

use super::messages::properties_of;
use super::put_field;
use crate::admin::definitions::{self, Define};
use crate::amqp10_json::encode_sections;
use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use crate::request::text;
use broker::Alarm;
use control::View;
use conversion::to_amqp091;
use exchanges::Forecast;
use message::{Annotations, Body, BodyForm, MessageRef};
use meta::definitions::policy as definitions_policy;
use meta::{
    AccessReason, Destination, Message, Name, Overflow, Passage, Permission, Policy, PolicyEffect,
    PolicyScope, QueueDef, Resource, ResourceKind, RouteOutcome, SettingSource, Standing, Trace,
    TraceStep, Vhost, policy_effects, policy_standings, setting_sources,
};
use queues::{Diagnosis, QueueRef};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::UnixMs;

/// Most objects that are listed one by one.
const LISTED_MAX: usize = 1_000;

/// The settings of a queue with their sources, and all policies with why they count or do not.
pub(crate) fn queue(call: &Call) -> Outcome {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let def = vhost.queue(call.param("name")).filter(|def| !def.is_internal());
    let def = def.ok_or_else(Refusal::not_found)?;
    let sources = setting_sources(&vhost.policies, def);
    Ok(Answer::Json(json!({
        "name": def.name.as_str(),
        "vhost": vhost.name.as_str(),
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
    let standings = policy_standings(&vhost.policies, scope, queue);
    let first = standings.first().map(|(policy, _)| Arc::clone(policy));
    let object = |(policy, standing): (&Arc<Policy>, Standing)| {
        let mut object = definitions_policy(vhost, policy);
        put_field(&mut object, "applies", json!(standing == Standing::InForce));
        put_field(&mut object, "reason", json!(standing.as_str()));
        if let Some(spec) = first.as_deref().map(|it| &it.spec)
            && standing == Standing::Outranked
        {
            let (name, priority) = (spec.name.as_str(), spec.priority);
            put_field(&mut object, "outranked_by", json!(name));
            let text = format!("outranked by policy '{name}' of priority {priority}");
            put_field(&mut object, "reason", json!(text));
        }
        object
    };
    standings.into_iter().map(object).collect()
}

/// The objects that a policy would change if it were set.
pub(crate) fn policy(call: &Call) -> Outcome {
    changes(call, definitions::set_policy)
}

/// The objects that an operator policy would change if it were set.
pub(crate) fn operator_policy(call: &Call) -> Outcome {
    changes(call, definitions::set_operator_policy)
}

/// The objects that a change of policies changes.
pub(super) fn effects(call: &Call, change: Define) -> Result<Vec<PolicyEffect>, Refusal> {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let then = definitions::foretell(&call.api.management, &view.meta, change, &call.request()?)?;
    Ok(policy_effects(&view.meta, &then, &vhost.name))
}

fn changes(call: &Call, change: Define) -> Outcome {
    let effects = effects(call, change)?;
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
    let vhost = vhost(&view.meta, call)?.name.clone();
    let kind = call.query.get("kind").unwrap_or("queue");
    let kind = ResourceKind::of_name(kind).ok_or_else(|| {
        Refusal::bad_request(format!("kind must be queue or exchange, not '{kind}'"))
    })?;
    let permission = call.query.get("operation").and_then(Permission::of_name);
    let permission = permission
        .ok_or_else(|| Refusal::bad_request("operation must be configure, write or read"))?;
    let name = call.query.get("name").unwrap_or_default();
    let resource = Resource { kind, name: name.into(), vhost };
    let key = call.query.get("routing_key").map(str::as_bytes);
    let reason = view.meta.users().access_reason(call.param("user"), permission, &resource, key);
    let (text, pattern) = told(&reason);
    Ok(Answer::Json(json!({
        "user": call.param("user"),
        "vhost": resource.vhost.as_str(),
        "kind": kind.as_str(),
        "name": name,
        "operation": permission.as_str(),
        "allowed": reason.is_allowed(),
        "reason": text,
        "pattern": pattern,
    })))
}

fn told(reason: &AccessReason) -> (&'static str, Option<&String>) {
    match reason {
        AccessReason::NoUser => ("the user does not exist", None),
        AccessReason::NoPermissions => ("the user has no permissions in the virtual host", None),
        AccessReason::Pattern { pattern, matches: true } => {
            ("the permission's pattern matches the name", Some(pattern))
        }
        AccessReason::Pattern { pattern, matches: false } => {
            ("the permission's pattern does not match the name", Some(pattern))
        }
        AccessReason::TopicRefused { pattern } => {
            ("the topic permission's pattern does not match the routing key", Some(pattern))
        }
    }
}

/// The way of a message, which is not published: exchanges, queues, and what would keep the message from
/// them.
pub(crate) fn publish(call: &Call) -> Outcome {
    let (view, body) = (call.view(), call.object()?);
    let vhost = vhost(&view.meta, call)?;
    let (exchange, key) = (super::exchanges::name(call), text(&body, "routing_key")?);
    let user = body.get("user").and_then(Value::as_str).unwrap_or(&call.caller.user);
    if user != call.caller.user.as_str() && !call.caller.is_administrator() {
        return Err(Refusal::not_authorised("Not administrator user"));
    }
    let none = Map::new();
    let properties = body.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let mut encoded = Vec::new();
    properties_of(properties)?.encode(&mut encoded);
    let sections = body.get("sections").and_then(Value::as_object).map(encode_sections);
    let invalid = |name| Refusal::bad_request(format!("invalid field of sections: {name}"));
    let sections = sections.transpose().map_err(invalid)?;
    let keys = keys(key, body.get("properties"));
    let mut converted = Vec::new();
    let given = MessageRef {
        exchange: exchange.as_bytes(),
        routing_key: key.as_bytes(),
        persistent: false,
        properties: &encoded,
        body: Body::Borrowed(sections.as_deref().unwrap_or_default()),
        annotations: Annotations::NONE,
        form: if sections.is_some() { BodyForm::Amqp10 } else { BodyForm::Plain },
    };
    let properties = to_amqp091(&given, &mut converted).index();
    let message = Message {
        properties: Some(properties),
        sections: given.sections(),
        ..Message::new(&keys, properties.headers())
    };
    let (now_ms, mut held) = (call.api.now().unix_ms, BTreeMap::new());
    let watch = |exchange: &Name| {
        let forecast = view.forecast(&vhost.name, exchange, &message, now_ms);
        held.insert(exchange.clone(), forecast);
        if forecast == Forecast::GoesOn { Passage::Open } else { Passage::Closed }
    };
    let trace = vhost.routes.trace(exchange.as_bytes(), &message, watch);
    held.retain(|_, forecast| *forecast != Forecast::GoesOn);
    let resource =
        Resource { kind: ResourceKind::Exchange, name: exchange.into(), vhost: vhost.name.clone() };
    let users = view.meta.users();
    let reason = users.access_reason(user, Permission::Write, &resource, Some(key.as_bytes()));
    let queues = trace.queues.iter().filter_map(|id| view.queue_by_id(*id));
    Ok(Answer::Json(json!({
        "outcome": outcome(&trace, &held),
        "held_by": held.iter().map(|(exchange, it)| hold(exchange, it, now_ms)).collect::<Value>(),
        "allowed": reason.is_allowed(),
        "permission": told(&reason).0,
        "pattern": told(&reason).1,
        "waits_for": alarms(call),
        "steps": trace.steps.iter().map(|it| step(&view, it)).collect::<Value>(),
        "queues": queues.map(|queue| fate(vhost, &queue)).collect::<Value>(),
    })))
}

/// The alarms that publishers wait for.
pub(super) fn alarms(call: &Call) -> Value {
    let alarms = &call.api.management.broker.alarms;
    Alarm::ALL.into_iter().filter(|alarm| alarms.is_on(*alarm)).map(Alarm::as_str).collect()
}

/// The routing key, and those that headers add.
fn keys<'b>(key: &'b str, properties: Option<&'b Value>) -> Vec<&'b [u8]> {
    let headers = properties.and_then(|it| it.get("headers"));
    let more = ["CC", "BCC"].into_iter().filter_map(|name| headers?.get(name)?.as_array());
    let more = more.flatten().filter_map(Value::as_str);
    std::iter::once(key).chain(more).map(str::as_bytes).collect()
}

/// An exchange that a message does not pass, at least not now.
fn hold(exchange: &Name, forecast: &Forecast, now_ms: UnixMs) -> Value {
    let (fate, due_at) = match forecast {
        Forecast::GoesOn => ("routed", None),
        Forecast::Dropped => ("dropped: a duplicate of an earlier message", None),
        Forecast::Delayed { delay_ms } => ("delayed", Some(now_ms.plus(*delay_ms).get())),
    };
    json!({"exchange": exchange.as_str(), "fate": fate, "due_at": due_at})
}

fn outcome(trace: &Trace, held: &BTreeMap<Name, Forecast>) -> &'static str {
    let is_delayed = held.values().any(|it| *it != Forecast::Dropped);
    match trace.routed.outcome {
        RouteOutcome::NoSuchExchange => "the exchange does not exist",
        RouteOutcome::Internal => "the exchange is internal: clients may not publish to it",
        _ if trace.queues.is_empty() && is_delayed => "delayed by an exchange",
        _ if trace.queues.is_empty() && !held.is_empty() => "dropped by an exchange",
        _ if trace.queues.is_empty() => "unroutable: returned if mandatory, else dropped",
        RouteOutcome::Routed | RouteOutcome::RoutedByHeaders => "routed",
        RouteOutcome::RoutedByMessage => "routed; the next message may be routed elsewhere",
    }
}

fn step(view: &View, step: &TraceStep) -> Value {
    let destination = |destination: &Destination| match destination {
        Destination::Exchange(name) => json!({"kind": "exchange", "name": name.as_str()}),
        Destination::Queue(id) => {
            let queue = view.queue_by_id(*id);
            json!({"kind": "queue", "name": queue.as_ref().map(|it| it.def().name.as_str())})
        }
    };
    json!({
        "exchange": step.exchange.as_str(),
        "destinations": step.destinations.iter().map(destination).collect::<Value>(),
        "alternate_exchange": step.alternate.as_ref().map(|name| name.as_str()),
    })
}

/// A queue that a message comes to, and what its limit would do.
fn fate(vhost: &Vhost, queue: &QueueRef) -> Value {
    let (def, stat) = (queue.def(), queue.local_stat());
    let length = vhost.policies.queue_settings(def).length;
    let is_full = length.messages_max.is_some_and(|most| stat.n_ready >= most)
        || length.bytes_max.is_some_and(|most| super::queue_columns::ready_bytes(&stat) >= most);
    let fate = match length.overflow {
        _ if Diagnosis(queue).home().is_some() => "refused: the queue's node is down",
        _ if !is_full => "stored",
        Overflow::DropHead => "stored, and the oldest message is dropped: the queue is full",
        Overflow::RejectPublish => "rejected: the queue is full",
        Overflow::RejectPublishDeadLetter => "rejected and dead-lettered: the queue is full",
    };
    json!({
        "name": def.name.as_str(),
        "type": def.kind.as_str(),
        "messages_ready": stat.n_ready,
        "max_length": length.messages_max,
        "max_length_bytes": length.bytes_max,
        "fate": fate,
    })
}
