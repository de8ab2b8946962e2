//! Exchanges: what they show, their declaration and deletion.

use super::queues::as_client;
use super::{arguments, flag, put_field, short, vhosts};
use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use crate::stats::{Ranges, by_exchange};
use broker::ByExchange;
use meta::{ExchangeDef, PolicyScope, Vhost};
use serde_json::{Value, json};
use session::{ExchangeDeclaration, Op};

/// Counts of published messages, and the samples that are wanted of them.
struct Figures<'c> {
    call: &'c Call,
    published: ByExchange,
    ranges: Ranges,
}

impl<'c> Figures<'c> {
    fn of(call: &'c Call) -> Result<Self, Refusal> {
        let published = by_exchange(&call.api.management.broker);
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
        "vhost": vhost.name().as_str(),
    });
    let key = (vhost.name().to_string(), exchange.name.as_bytes().into());
    if let Some(now) = figures.published.get(&key) {
        let stats = figures.call.api.stats.of_exchange((&key, *now), &figures.ranges);
        put_field(&mut object, "message_stats", stats);
    }
    if let Some(policy) = vhost.policies().of_exchange(PolicyScope::User, &exchange.name) {
        put_field(&mut object, "policy", json!(policy.spec().name.as_str()));
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
    let mut object = object(vhost, exchange, &Figures::of(call)?);
    put_field(&mut object, "incoming", json!([]));
    put_field(&mut object, "outgoing", json!([]));
    Ok(Answer::Json(object))
}

/// COMPAT: the default exchange has a name in addresses.
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
