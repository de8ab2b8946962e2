//! Exchanges: what they show, their declaration and deletion.

use super::flows::Flows;
use super::queues::as_client;
use super::{arguments, flag, put_field, short, vhosts};
use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use crate::stats::Ranges;
use broker::Published;
use meta::{ExchangeDef, PolicyScope, Vhost};
use serde_json::{Value, json};
use session::{ExchangeDeclaration, Op};
use std::collections::BTreeMap;

/// Counts of published messages, and the samples that are wanted of them.
struct Figures<'c> {
    call: &'c Call,
    published: BTreeMap<String, Published>,
    ranges: Ranges,
}

impl<'c> Figures<'c> {
    fn of(call: &'c Call) -> Result<Self, Refusal> {
        let published = call.api.management.broker.figures().published();
        Ok(Self { call, published, ranges: call.ranges()? })
    }
}

fn object(vhost: &Vhost, exchange: &ExchangeDef, figures: &Figures<'_>) -> Value {
    let mut object = json!({
        "arguments": figures.call.table(&exchange.arguments),
        "auto_delete": exchange.auto_delete,
        "durable": exchange.durable,
        "internal": exchange.internal,
        "name": exchange.name.as_str(),
        "type": exchange.kind.as_str(),
        "user_who_performed_action": "rmq-internal",
        "vhost": vhost.name.as_str(),
    });
    let key = (vhost.name.to_string(), exchange.name.as_bytes().into());
    let published = figures.published.get(&key.0).and_then(|it| it.exchanges.get(&key.1));
    if let Some(now) = published {
        let stats = figures.call.api.stats.of_exchange(&key, now, &figures.ranges);
        put_field(&mut object, "message_stats", stats);
    }
    if vhost.policies.exchange_settings(exchange).delays {
        let operations = figures.call.api.management.broker.operations();
        let held = operations.delayed_queue(&vhost.name, &exchange.name);
        let n_held = held.map(|queue| queue.stat().n_ready);
        put_field(&mut object, "messages_delayed", json!(n_held.unwrap_or_default()));
    }
    if let Some(policy) = vhost.policies.of_exchange(PolicyScope::User, &exchange.name) {
        put_field(&mut object, "policy", json!(policy.spec.name.as_str()));
    }
    object
}

pub(crate) fn list(call: &Call) -> Outcome {
    let (view, figures) = (call.view(), Figures::of(call)?);
    let mut rows = Vec::new();
    for vhost in vhosts(&view.meta, call)? {
        rows.extend(vhost.exchanges().map(|exchange| object(vhost, exchange, &figures)));
    }
    call.list(rows)
}

pub(crate) fn get(call: &Call) -> Outcome {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let exchange = vhost.exchange(name(call)).ok_or_else(Refusal::not_found)?;
    let figures = Figures::of(call)?;
    let mut object = object(vhost, exchange, &figures);
    let flows = Flows { api: &call.api, ranges: &figures.ranges };
    put_field(&mut object, "incoming", flows.incoming_of_exchange(&vhost.name, name(call)));
    put_field(&mut object, "outgoing", flows.outgoing_of_exchange(&vhost.name, name(call)));
    Ok(Answer::Json(object))
}

/// Refuses an address whose exchange is not there.
pub(crate) fn check(call: &Call) -> Result<(), Refusal> {
    let view = call.view();
    vhost(&view.meta, call)?.exchange(name(call)).map(drop).ok_or_else(Refusal::not_found)
}

/// The exchange of the address. COMPAT: the default exchange has a name there.
pub(crate) fn name(call: &Call) -> &str {
    match call.param("name") {
        "amq.default" => "",
        name => name,
    }
}

pub(crate) async fn declare(call: &Call) -> Outcome {
    let object = call.object()?;
    let durable = object.get("durable").is_none() || flag(&object, "durable")?;
    let declaration = ExchangeDeclaration {
        exchange: short(call.param("name"))?,
        kind: short(object.get("type").and_then(Value::as_str).unwrap_or("direct"))?,
        passive: false,
        durable,
        auto_delete: flag(&object, "auto_delete")?,
        internal: flag(&object, "internal")?,
        arguments: arguments(&object)?,
    };
    as_client(call, Op::DeclareExchange(declaration)).await?;
    Ok(Answer::NoContent)
}

pub(crate) async fn delete(call: &Call) -> Outcome {
    let exchange = short(call.param("name"))?;
    let if_unused = call.query.flag("if-unused");
    as_client(call, Op::DeleteExchange { exchange, if_unused }).await?;
    Ok(Answer::NoContent)
}
