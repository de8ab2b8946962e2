//! The columns of queues.

use super::{channel_pid, connection_pid, queue_pid};
use crate::Management;
use crate::table::table;
use broker::{
    ConsumerView, Inspection, QueueRef, QueueStat, QuorumInspection, QuorumQueue, Stream,
    StreamDurability,
};
use meta::{PolicyScope, QueueKind, QueueSettings, QueueVersion, Vhost};
use serde_json::{Map, Value, json};
use stdx::words;

/// The value of a column of a queue; none where it says nothing of queues of the type.
#[must_use]
pub fn queue_value(
    management: &Management,
    vhost: &Vhost,
    (queue, stat): (&QueueRef, QueueStat),
    column: &str,
) -> Option<Value> {
    Shown { management, vhost, queue, stat }.value(column)
}

/// Whether queues of the type have members: this node is the only one.
const fn has_members(kind: QueueKind) -> bool {
    match kind {
        QueueKind::Classic => false,
        QueueKind::Quorum | QueueKind::Stream => true,
    }
}

/// Columns that say nothing of streams. COMPAT: they are empty in RabbitMQ's listing.
const NOT_OF_STREAMS: &str = "\
    pid, owner_pid, exclusive, exclusive_consumer_pid, exclusive_consumer_tag, \
    messages_ready_ram, messages_unacknowledged_ram, messages_ram, message_bytes, \
    message_bytes_ram, memory, disk_reads, disk_writes, consumer_utilisation, consumer_capacity, \
    storage_version";

struct Shown<'a> {
    management: &'a Management,
    vhost: &'a Vhost,
    queue: &'a QueueRef,
    stat: QueueStat,
}

impl Shown<'_> {
    fn value(&self, column: &str) -> Option<Value> {
        if matches!(self.queue, QueueRef::Stream(_)) && words(NOT_OF_STREAMS).any(|it| it == column)
        {
            return None;
        }
        self.definition(column).or_else(|| self.figure(column))
    }

    fn definition(&self, column: &str) -> Option<Value> {
        let def = self.queue.def();
        let node = self.management.node_info.name.as_str();
        let policy = |scope| {
            let policy = self.vhost.policies.of_queue(scope, def);
            json!(policy.map_or("", |policy| policy.spec.name.as_str()))
        };
        Some(match column {
            "name" => json!(def.name.as_str()),
            "durable" => json!(def.durable),
            "auto_delete" => json!(def.auto_delete),
            "arguments" => table(&def.shown_arguments()),
            "policy" => policy(PolicyScope::User),
            "operator_policy" => policy(PolicyScope::Operator),
            "effective_policy_definition" => self.effective_policy(),
            "pid" => json!(queue_pid(node, def.id)),
            "owner_pid" => {
                json!(def.exclusive_owner.map(|owner| connection_pid(node, owner)))
            }
            "exclusive" => json!(def.exclusive_owner.is_some()),
            "exclusive_consumer_pid" => {
                json!(self.exclusive().map(|one| channel_pid(node, one.connection, one.channel)))
            }
            "exclusive_consumer_tag" => {
                json!(self.exclusive().map(|one| one.consumer_tag.to_text().into_owned()))
            }
            "state" => json!(self.state()),
            "type" => json!(def.kind.as_str()),
            "leader" if has_members(def.kind) => json!(node),
            "members" | "online" if has_members(def.kind) => json!([node]),
            "storage_version" => json!(self.stat.version.number()),
            "conversion" => json!(self.conversion()),
            _ => return None,
        })
    }

    fn state(&self) -> &'static str {
        match self.queue {
            QueueRef::Stream(stream) if stream.lack().is_some() => "damaged",
            queue if queue.is_loading() => "loading",
            QueueRef::Classic(_) | QueueRef::Quorum(_) | QueueRef::Stream(_) => "running",
        }
    }

    /// The queue's exclusive consumer. This takes the queue's lock.
    fn exclusive(&self) -> Option<ConsumerView> {
        self.queue.consumers().into_iter().find(|one| one.exclusive)
    }

    /// The version that the queue is being converted to, and the progress in percent; empty without a
    /// conversion.
    fn conversion(&self) -> String {
        let shown = |(to, permille): (QueueVersion, u64)| {
            format!("to {}, {} %", to.number(), permille / 10)
        };
        self.stat.conversion.map_or_else(String::new, shown)
    }

    /// The effective settings of the queue's policies. COMPAT: no settings are an empty list.
    fn effective_policy(&self) -> Value {
        let settings = self.vhost.policies.settings_of_queue(self.queue.def());
        if settings.is_empty() { json!([]) } else { Value::Object(settings) }
    }

    fn figure(&self, column: &str) -> Option<Value> {
        let (ready, unacked) = (self.stat.n_ready, self.stat.n_unacked);
        Some(match column {
            "messages_ready" | "messages_ready_ram" => json!(ready),
            "messages_unacknowledged" | "messages_unacknowledged_ram" => json!(unacked),
            "messages" | "messages_ram" => json!(ready + unacked),
            "message_bytes" | "message_bytes_ram" | "memory" => json!(self.stat.message_bytes),
            // COMPAT: empty for a message without a time stamp, and as long as the message lies on disk.
            "head_message_timestamp" => json!(self.queue.head_timestamp()?),
            "consumers" => json!(self.stat.n_consumers),
            "confirm_on" => json!(self.queue.confirm_on().as_str()),
            "messages_unconfirmed" => json!(self.stat.n_pending_confirms),
            "message_bytes_unconfirmed" => json!(self.queue.pending_confirms().bytes),
            "oldest_unconfirmed_ms" => {
                json!(self.queue.pending_confirms().oldest_ms.unwrap_or_default())
            }
            "confirms_timed_out" => json!(self.stat.n_confirm_timeouts),
            // Only credit delays deliveries, so consumers count as fully used.
            "consumer_utilisation" | "consumer_capacity" => {
                json!(u8::from(self.stat.n_consumers > 0))
            }
            "disk_reads" | "disk_writes" => json!(0),
            _ => return self.figure_of_type(column),
        })
    }

    /// Figures that queues of one type alone have.
    fn figure_of_type(&self, column: &str) -> Option<Value> {
        match self.queue {
            QueueRef::Classic(_) => None,
            QueueRef::Quorum(queue) => self.quorum_figure(queue, column),
            QueueRef::Stream(stream) => Self::stream_figure(stream, column),
        }
    }

    /// Figures that only quorum queues have. COMPAT: the tools do not know these columns, the HTTP API does.
    /// Columns of delayed messages are left out while the queue has none.
    fn quorum_figure(&self, queue: &QuorumQueue, column: &str) -> Option<Value> {
        let figures = || QuorumInspection::of(queue).figures();
        let span_ms = || figures().delayed_span_ms;
        Some(match column {
            "messages_dlx" => json!(self.stat.n_departing),
            "delivery_limit" => match self.settings().delivery_limit {
                Some(limit) => json!(limit),
                None => json!("unlimited"),
            },
            "delayed_retry" => json!(delayed_retry(&self.settings())),
            "messages_by_priority" => {
                let counts = figures().n_ready_by_priority;
                let counts =
                    counts.into_iter().map(|(priority, n)| (priority.to_string(), n.into()));
                Value::Object(counts.collect::<Map<_, _>>())
            }
            "messages_active_priorities" => json!(figures().n_ready_by_priority.len()),
            "messages_delayed" => json!(figures().n_delayed),
            "next_delayed_at" => json!(span_ms()?.0),
            "last_delayed_at" => json!(span_ms()?.1),
            _ => return None,
        })
    }

    fn settings(&self) -> QueueSettings {
        self.vhost.policies.queue_settings(self.queue.def())
    }

    fn stream_figure(stream: &Stream, column: &str) -> Option<Value> {
        let inspection = Inspection::of(stream);
        let figures = || inspection.figures();
        Some(match column {
            "damage" => json!(stream.lack()?.what),
            "committed_offset" => json!(figures().committed_offset),
            "committed_chunk_id" => json!(inspection.committed_chunk_id()),
            "readers" => json!(figures().n_readers),
            "segments" => json!(figures().n_segments),
            "durability" => match inspection.durability() {
                StreamDurability::Write => json!("write"),
                StreamDurability::Fsync => json!("fsync"),
            },
            "file_reads" => json!(figures().read.file_reads),
            "file_read_bytes" => json!(figures().read.read_bytes),
            "chunks_read_ahead" => json!(figures().read.chunks_read_ahead),
            "chunks_read" => json!(figures().read.chunks),
            _ => return None,
        })
    }
}

fn delayed_retry(settings: &QueueSettings) -> String {
    let Some(retry) = settings.delayed_retry else { return "disabled".to_owned() };
    let on = retry.on.as_str();
    format!("{on} (min: {}ms, max: {}ms)", retry.min_ms, retry.max_ms)
}
