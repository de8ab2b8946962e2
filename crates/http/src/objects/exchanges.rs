//! Exchanges: what they show, their declaration and deletion.

use super::flows::Flows;
use super::queues::as_client;
use super::{arguments, flag, short, vhosts};
use crate::Api;
use crate::call::{Answer, Call, Outcome, vhost};
use crate::columns::{ALONE, Column, LIST, Marks, columns, find, shown, some};
use crate::list::Row;
use crate::refusal::Refusal;
use crate::stats::Ranges;
use crate::typed_table::typed_table;
use api::ExchangeColumn;
use broker::Published;
use control::View;
use meta::definitions::table_to_json;
use meta::{ExchangeDef, Name, Policies, PolicyScope, Vhost};
use serde_json::Value;
use session::{ExchangeDeclaration, Op};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The parts that all rows of a list share.
struct ExchangeContext {
    api: Arc<Api>,
    view: Arc<View>,
    /// The columns that are shown.
    marks: Marks,
    is_typed: bool,
    /// Counts of published messages, and the samples that are wanted of them.
    published: BTreeMap<String, Published>,
    ranges: Ranges,
}

struct ExchangeRow {
    context: Arc<ExchangeContext>,
    vhost: Name,
    exchange: Arc<ExchangeDef>,
}

type Read = fn(&ExchangeRow) -> Option<Value>;

/// The columns, sorted by name. COMPAT: RabbitMQ's, and the number of delayed messages.
const COLUMNS: &[Column<Read>] = columns! { ExchangeColumn:
    arguments [LIST] |it| Some(table_to_json(&it.exchange.arguments)),
        tool |it| Some(typed_table(&it.exchange.arguments));
    auto_delete [LIST] |it| some(it.exchange.auto_delete);
    durable [LIST] |it| some(it.exchange.durable);
    incoming [ALONE] |it| Some(it.flows().incoming_of_exchange(&it.vhost, &it.exchange.name));
    internal [LIST] |it| some(it.exchange.internal);
    message_stats [LIST] |it| it.message_stats();
    messages_delayed [LIST] |it| it.messages_delayed();
    name [LIST] |it| some(it.exchange.name.as_str());
    outgoing [ALONE] |it| Some(it.flows().outgoing_of_exchange(&it.vhost, &it.exchange.name));
    policy [LIST] |it| some(it.policies()?.of_exchange(PolicyScope::User, &it.exchange.name)?.spec.name.as_str());
    r#type [LIST] |it| some(it.exchange.kind.as_str());
    user_who_performed_action [LIST] |_| some("rmq-internal");
    vhost [LIST] |it| some(it.vhost.as_str());
};

impl Row for ExchangeRow {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        shown(COLUMNS, self.context.marks)
    }

    fn value(&self, column: &str) -> Option<Value> {
        find(COLUMNS, column)?.reader(self.context.is_typed)?(self)
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.exchange.name)
    }
}

impl ExchangeRow {
    fn flows(&self) -> Flows<'_> {
        Flows { api: &self.context.api, ranges: &self.context.ranges }
    }

    fn policies(&self) -> Option<&Policies> {
        Some(&self.context.view.meta.vhost(&self.vhost)?.policies)
    }

    fn message_stats(&self) -> Option<Value> {
        let ExchangeContext { api, published, ranges, .. } = &*self.context;
        let key = (self.vhost.to_string(), self.exchange.name.as_bytes().into());
        let now = published.get(&key.0)?.exchanges.get(&key.1)?;
        Some(api.stats.of_exchange(&key, now, ranges))
    }

    fn messages_delayed(&self) -> Option<Value> {
        let operations = self.context.api.management.broker.operations();
        self.policies()?.exchange_settings(&self.exchange).delays.then(|| {
            let held = operations.delayed_queue(&self.vhost, &self.exchange.name);
            held.map_or(0, |queue| queue.local_stat().n_ready).into()
        })
    }
}

impl ExchangeContext {
    fn of(call: &Call, marks: Marks) -> Result<Arc<Self>, Refusal> {
        let (api, view) = (Arc::clone(&call.api), call.view());
        let published = api.management.broker.figures().published();
        let (ranges, is_typed) = (call.ranges()?, call.is_typed());
        Ok(Arc::new(Self { api, view, marks, is_typed, published, ranges }))
    }

    fn row(self: &Arc<Self>, vhost: &Vhost, exchange: &Arc<ExchangeDef>) -> ExchangeRow {
        let (context, exchange) = (Arc::clone(self), Arc::clone(exchange));
        ExchangeRow { context, vhost: vhost.name.clone(), exchange }
    }
}

pub(crate) fn list(call: &Call) -> Outcome {
    let context = ExchangeContext::of(call, LIST)?;
    let mut rows = Vec::new();
    for vhost in vhosts(&context.view.meta, call)? {
        rows.extend(vhost.exchanges().map(|exchange| context.row(vhost, exchange)));
    }
    call.list(rows)
}

pub(crate) fn get(call: &Call) -> Outcome {
    let context = ExchangeContext::of(call, LIST | ALONE)?;
    let vhost = vhost(&context.view.meta, call)?;
    let exchange = vhost.exchange(name(call)).ok_or_else(Refusal::not_found)?;
    call.one(&context.row(vhost, exchange))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_sorted() {
        assert!(COLUMNS.is_sorted_by_key(|column| column.name));
    }
}
