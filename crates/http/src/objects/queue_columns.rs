//! Columns of queues.

use super::flows::{ByQueue, Flows};
use crate::Api;
use crate::columns::{
    ALONE, Column, Marks, NOT_OF_STREAMS, OF_DOWN, PLAIN, columns, find, shown, some,
};
use crate::list::Row;
use crate::objects::clients;
use crate::stats::Ranges;
use crate::typed_table::typed_table;
use api::QueueColumn;
use broker::Identity;
use control::View;
use meta::definitions::table_to_json;
use meta::{Name, PolicyScope, QueueDef, QueueKind, QueueSettings, QueueVersion, Vhost};
use mgmt::{channel_pid, connection_pid, queue_pid};
use queue_type::{Activity, ConsumerView, QueueStat};
use queues::{Diagnosis, QueueRef};
use quorum::QuorumInspection;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use stdx::{Now, UnixMs, date_time};
use stream::{Inspection, StreamDurability};

/// The parts that all rows of a list share.
pub(super) struct QueueContext {
    pub(super) api: Arc<Api>,
    pub(super) view: Arc<View>,
    /// The columns that are shown.
    pub(super) marks: Marks,
    pub(super) ranges: Ranges,
    /// Whether rows are for the command line tool, with the types of arguments.
    pub(super) is_typed: bool,
    pub(super) flows: OnceLock<ByQueue>,
}

/// A queue in a list, or by itself.
pub(super) struct QueueRow<'t> {
    pub(super) context: &'t QueueContext,
    pub(super) queue: &'t QueueRef,
}

type Read = fn(&QueueRow<'_>) -> Option<Value>;

/// The columns, sorted by name. COMPAT: RabbitMQ's, and which lists have them.
const COLUMNS: &[Column<Read>] = columns! { QueueColumn:
    arguments [LIST PLAIN] |it| Some(table_to_json(&it.def().shown_arguments())),
        tool |it| Some(typed_table(&it.def().shown_arguments()));
    auto_delete [LIST PLAIN] |it| some(it.def().auto_delete);
    chunks_read [] |it| Some(json!(it.stream()?.figures().read.chunks));
    chunks_read_ahead [] |it| Some(json!(it.stream()?.figures().read.chunks_read_ahead));
    committed_chunk_id [] |it| Some(json!(it.stream()?.committed_chunk_id()));
    committed_offset [] |it| Some(json!(it.stream()?.figures().committed_offset));
    confirm_on [LIST] |it| some(it.queue.confirm_on().as_str());
    confirms_timed_out [LIST] |it| some(it.stat().n_confirm_timeouts);
    // Only credit delays deliveries, so consumers count as fully used.
    consumer_capacity [LIST NOT_OF_STREAMS] |it| some(u8::from(it.stat().n_consumers > 0));
    consumer_details [ALONE NOT_OF_TOOL] |it| Some(it.consumers().collect());
    consumer_utilisation [LIST NOT_OF_STREAMS] |it| some(u8::from(it.stat().n_consumers > 0));
    consumers [LIST] |it| some(it.stat().n_consumers);
    conversion [ALONE] |it| it.if_classic()?.conversion(), tool |it| it.conversion();
    damage [] |it| it.damage();
    delayed_retry [LIST] |it| it.quorum().and_then(|_| some(delayed_retry(&it.settings()?)));
    deliveries [ALONE NOT_OF_TOOL] |it| it.flows(|it, def, all| it.deliveries_of_queue(def, all));
    delivery_limit [LIST PLAIN] delivery_limit;
    disk_reads [NOT_OF_STREAMS] |_| some(0);
    disk_writes [NOT_OF_STREAMS] |_| some(0);
    durability [] |it| some(durability(it)?);
    durable [LIST PLAIN] |it| some(it.def().durable);
    // COMPAT: no settings are an empty list for the tool.
    effective_policy_definition [LIST] |it| some(it.policy_settings()?),
        tool |it| it.policy_settings().map(|it| if it.is_empty() { json!([]) } else { it.into() });
    exclusive [LIST PLAIN] |it| some(it.def().exclusive_owner.is_some()),
        tool |it| some(it.unless_stream()?.def().exclusive_owner.is_some());
    exclusive_consumer_pid [NOT_OF_STREAMS] |it| some(it.exclusive().map(|one| channel_pid(it.node(), one.connection, one.channel)));
    exclusive_consumer_tag [ALONE] |it| some(it.if_classic()?.tag_of(|one| one.exclusive)),
        tool |it| some(it.unless_stream()?.tag_of(|one| one.exclusive));
    file_read_bytes [] |it| Some(json!(it.stream()?.figures().read.read_bytes));
    file_reads [] |it| Some(json!(it.stream()?.figures().read.file_reads));
    // COMPAT: empty for a message without a time stamp, and as long as the message lies on disk.
    head_message_timestamp [ALONE] |it| some(Diagnosis(it.if_classic()?.queue).head_timestamp()),
        tool |it| some(Diagnosis(it.queue).head_timestamp()?);
    // Lists do not have this column: its value never stays the same.
    idle_ms [NOT_OF_TOOL] |it| some(it.now().unix_ms.get().saturating_sub(it.idle_since_ms()));
    idle_since [ALONE NOT_OF_TOOL] |it| some(date_time(UnixMs::from_raw(it.idle_since_ms()), 'T'));
    incoming [ALONE NOT_OF_TOOL] |it| it.flows(|it, def, all| it.incoming_of_queue(def, all));
    internal [LIST NOT_OF_TOOL] |_| some(false);
    internal_owner [LIST NOT_OF_TOOL] |_| some(false);
    last_delayed_at [LIST] |it| some(it.quorum()?.figures().delayed_span_ms?.end().get());
    leader [LIST PLAIN] |it| some(it.member()?);
    members [LIST PLAIN] |it| Some(json!([it.member()?]));
    memory [LIST NOT_OF_STREAMS] |it| some(it.stat().message_bytes);
    message_bytes [LIST NOT_OF_STREAMS] |it| some(it.stat().message_bytes);
    // COMPAT: the tool has this column and the next of that name, which are empty.
    message_bytes_persistent [] |_| None;
    message_bytes_ram [LIST NOT_OF_STREAMS] |it| some(it.stat().message_bytes);
    message_bytes_ready [LIST NOT_OF_TOOL] |it| some(ready_bytes(&it.unless_stream()?.stat()));
    message_bytes_unacknowledged [LIST NOT_OF_TOOL] |it| some(unacked_bytes(&it.unless_stream()?.stat()));
    message_bytes_unconfirmed [] |it| some(Diagnosis(it.queue).pending_confirms().bytes);
    message_stats [LIST NOT_OF_TOOL] |it| it.api().stats.of_queue(it.queue.id(), &it.stat(), &it.context.ranges);
    messages [LIST TOTALS] |it| some(it.n_messages());
    messages_active_priorities [LIST] |it| some(it.quorum()?.figures().n_ready_by_priority.len());
    messages_by_priority [LIST] by_priority;
    messages_delayed [LIST] |it| some(it.quorum()?.figures().n_delayed);
    messages_details [LIST NOT_OF_TOOL] |it| it.details("messages");
    messages_dlx [LIST] |it| it.quorum().and_then(|_| some(it.stat().n_departing));
    messages_persistent [] |_| None;
    messages_ram [LIST NOT_OF_STREAMS] |it| some(it.n_messages());
    messages_ready [LIST TOTALS] |it| some(it.stat().n_ready);
    messages_ready_details [LIST NOT_OF_TOOL] |it| it.details("messages_ready");
    messages_ready_ram [LIST NOT_OF_STREAMS] |it| some(it.stat().n_ready);
    messages_unacknowledged [LIST TOTALS] |it| some(it.stat().n_unacked);
    messages_unacknowledged_details [LIST NOT_OF_TOOL] |it| it.details("messages_unacknowledged");
    messages_unacknowledged_ram [LIST NOT_OF_STREAMS] |it| some(it.stat().n_unacked);
    messages_unconfirmed [LIST] |it| some(it.stat().n_pending_confirms);
    name [LIST PLAIN] |it| some(it.def().name.as_str());
    next_delayed_at [LIST] |it| some(it.quorum()?.figures().delayed_span_ms?.start().get());
    node [LIST PLAIN NOT_OF_TOOL] |it| some(it.node());
    oldest_message_age_seconds [LIST] |it| some(it.unless_stream()?.api().history.ages.seconds_of(it.queue.id(), it.now()));
    oldest_unconfirmed_ms [ALONE] |it| some(Diagnosis(it.queue).pending_confirms().oldest_ms.unwrap_or_default());
    online [LIST PLAIN] |it| it.member().map(|member| is_here(it).then_some(member).into_iter().collect());
    operator_policy [LIST PLAIN] |it| it.policy_or_null(PolicyScope::Operator),
        tool |it| some(it.policy(PolicyScope::Operator)?);
    owner_pid [NOT_OF_STREAMS] |it| some(it.def().exclusive_owner.map(|owner| connection_pid(it.node(), owner)));
    owner_pid_details [ALONE NOT_OF_TOOL] owner_details;
    pid [NOT_OF_STREAMS OF_DOWN] |it| some(queue_pid(it.node(), it.queue.id()));
    policy [LIST PLAIN] |it| it.policy_or_null(PolicyScope::User), tool |it| some(it.policy(PolicyScope::User)?);
    readers [LIST] |it| Some(json!({ it.node(): it.stream()?.figures().n_readers })),
        tool |it| Some(json!(it.stream()?.figures().n_readers));
    segments [LIST] |it| Some(json!(it.stream()?.figures().n_segments));
    single_active_consumer_tag [ALONE NOT_OF_TOOL] |it| some(it.tag_of(|one| one.activity == Activity::SingleActive));
    state [LIST PLAIN] |it| some(it.state());
    storage_version [LIST] |it| some(it.if_classic()?.stat().version.number()),
        tool |it| some(it.unless_stream()?.stat().version.number());
    r#type [LIST PLAIN] |it| some(it.def().kind.as_str());
    vhost [LIST PLAIN NOT_OF_TOOL] |it| some(it.def().vhost.as_str());
};

impl Row for QueueRow<'_> {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        shown(COLUMNS, self.context.marks)
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.def().name.as_str())
    }

    fn value(&self, column: &str) -> Option<Value> {
        let column = find(COLUMNS, column)?;
        if column.marks & NOT_OF_STREAMS != 0 && self.unless_stream().is_none() {
            return None;
        }
        // COMPAT: a queue on a node that is down has the columns of its definition.
        if column.marks & (PLAIN | OF_DOWN) == 0 && !is_here(self) {
            return None;
        }
        column.reader(self.context.is_typed)?(self)
    }
}

impl QueueRow<'_> {
    fn api(&self) -> &Arc<Api> {
        &self.context.api
    }

    /// The name of the node that has the queue.
    fn node(&self) -> &str {
        Diagnosis(self.queue).home().map_or(&self.api().management.node_info.name, Name::as_str)
    }

    fn now(&self) -> Now {
        self.api().now()
    }

    fn def(&self) -> &QueueDef {
        self.queue.def()
    }

    fn stat(&self) -> QueueStat {
        self.queue.local_stat()
    }

    fn n_messages(&self) -> u64 {
        let stat = self.stat();
        stat.n_ready + stat.n_unacked
    }

    fn vhost(&self) -> Option<&Vhost> {
        self.context.view.meta.vhost(&self.def().vhost)
    }

    fn unless_stream(&self) -> Option<&Self> {
        (self.def().kind != QueueKind::Stream).then_some(self)
    }

    fn if_classic(&self) -> Option<&Self> {
        (self.def().kind == QueueKind::Classic).then_some(self)
    }

    fn quorum(&self) -> Option<QuorumInspection<'_>> {
        self.queue.as_quorum().map(|queue| QuorumInspection::of(queue))
    }

    fn stream(&self) -> Option<Inspection<'_>> {
        self.queue.as_stream().map(|stream| Inspection::of(stream))
    }

    /// The queue's only member: the node that has it, for types that have members.
    fn member(&self) -> Option<&str> {
        self.def().kind.has_members().then(|| self.node())
    }

    /// The name of the policy in force; empty without one.
    fn policy(&self, scope: PolicyScope) -> Option<&str> {
        let policy = self.vhost()?.policies.of_queue(scope, self.def());
        Some(policy.map_or("", |policy| policy.spec.name.as_str()))
    }

    /// The name of the policy in force. COMPAT: lists leave out what one queue shows as null.
    fn policy_or_null(&self, scope: PolicyScope) -> Option<Value> {
        match self.policy(scope)? {
            "" => (self.context.marks & ALONE != 0).then_some(Value::Null),
            name => some(name),
        }
    }

    /// The effective settings of the queue's policies.
    fn policy_settings(&self) -> Option<Map<String, Value>> {
        Some(self.vhost()?.policies.settings_of_queue(self.def()))
    }

    fn settings(&self) -> Option<QueueSettings> {
        Some(self.vhost()?.policies.queue_settings(self.def()))
    }

    /// The loss of data that closed the stream, if there is one.
    fn damage(&self) -> Option<Value> {
        Some(json!(self.queue.as_stream()?.lack()?.what))
    }

    fn state(&self) -> &'static str {
        match () {
            () if !is_here(self) => "down",
            () if self.damage().is_some() => "damaged",
            () if self.queue.is_loading() => "loading",
            () => "running",
        }
    }

    /// The queue's exclusive consumer. This takes the queue's lock.
    fn exclusive(&self) -> Option<ConsumerView> {
        self.queue.local_consumers().into_iter().find(|one| one.exclusive)
    }

    /// The version that the queue is being converted to, and the progress in percent; empty without a
    /// conversion.
    fn conversion(&self) -> Option<Value> {
        let shown = |(to, permille): (QueueVersion, u64)| {
            format!("to {}, {} %", to.number(), permille / 10)
        };
        some(self.stat().conversion.map_or_else(String::new, shown))
    }

    /// Since when nothing of the queue has changed, Unix milliseconds; now before the first look.
    fn idle_since_ms(&self) -> u64 {
        let idle_since_ms = self.api().stats.idle_since_ms(self.queue.id());
        idle_since_ms.unwrap_or_else(|| self.now().unix_ms.get())
    }

    /// The rate of a length, and its samples.
    fn details(&self, length: &str) -> Option<Value> {
        Some(self.api().stats.details_of_queue(self.queue.id(), length, &self.context.ranges))
    }

    fn flows(&self, of: impl Fn(&Flows<'_>, &QueueDef, &ByQueue) -> Value) -> Option<Value> {
        let QueueContext { api, ranges, flows, .. } = self.context;
        let by_queue = flows.get_or_init(|| ByQueue::of(api));
        Some(of(&Flows { api, ranges }, self.def(), by_queue))
    }

    fn consumers(&self) -> impl Iterator<Item = Value> {
        let of = |consumer| clients::consumer(self.api(), self.queue, consumer);
        self.queue.local_consumers().into_iter().map(of)
    }

    /// The tag of a consumer. This takes the queue's lock.
    fn tag_of(&self, which: impl Fn(&ConsumerView) -> bool) -> Option<String> {
        let found = self.queue.local_consumers().into_iter().find(which);
        found.map(|one| one.consumer_tag.to_text().into_owned())
    }
}

/// Whether this node has the queue.
fn is_here(row: &QueueRow<'_>) -> bool {
    Diagnosis(row.queue).home().is_none()
}

fn delivery_limit(row: &QueueRow<'_>) -> Option<Value> {
    row.quorum()?;
    row.settings()?.delivery_limit.map_or_else(|| some("unlimited"), |limit| Some(json!(limit)))
}

fn durability(row: &QueueRow<'_>) -> Option<&'static str> {
    Some(match row.stream()?.durability() {
        StreamDurability::Write => "write",
        StreamDurability::Fsync => "fsync",
    })
}

/// The numbers of ready messages of a quorum queue by their priorities.
fn by_priority(row: &QueueRow<'_>) -> Option<Value> {
    let counts = row.quorum()?.figures().n_ready_by_priority.into_iter();
    let counts = counts.map(|(priority, n)| (priority.to_string(), n.into()));
    some(counts.collect::<Map<_, _>>())
}

/// The connection that owns an exclusive queue.
fn owner_details(row: &QueueRow<'_>) -> Option<Value> {
    let connections = &row.api().management.broker.connections;
    let owner = connections.get(row.def().exclusive_owner?)?;
    let Identity { name, peer_host, peer_port, .. } = &owner.identity;
    Some(json!({"name": name, "peer_host": peer_host, "peer_port": peer_port}))
}

/// Bytes of the ready messages, by the mean size of all.
pub(super) const fn ready_bytes(stat: &QueueStat) -> u64 {
    match stat.message_bytes.checked_div(stat.n_ready + stat.n_unacked) {
        Some(mean) => mean * stat.n_ready,
        None => 0,
    }
}

const fn unacked_bytes(stat: &QueueStat) -> u64 {
    stat.message_bytes - ready_bytes(stat)
}

fn delayed_retry(settings: &QueueSettings) -> String {
    let Some(retry) = settings.delayed_retry else { return "disabled".to_owned() };
    let on = retry.on.as_str();
    format!("{on} (min: {}ms, max: {}ms)", retry.min_ms, retry.max_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_sorted_and_found() {
        assert!(COLUMNS.is_sorted_by_key(|column| column.name));
        assert!(COLUMNS.iter().all(|column| find(COLUMNS, column.name).is_some()));
    }
}
