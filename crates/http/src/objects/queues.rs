//! Queues: what they show, and their declaration, deletion and purge.

use super::flows::{ByQueue, Flows};
use super::removal::{Removal, is_confirmed, removed};
use super::{arguments, field, flag, optional_text, put_field, short, text, undo, vhosts};
use crate::call::{Answer, Call, Outcome, vhost};
use crate::list::{Arrangement, Listing, Row, RowSet};
use crate::objects::{clients, health};
use crate::query::Query;
use crate::recent::Recent;
use crate::refusal::Refusal;
use crate::stats::Ranges;
use crate::user_session::UserSession;
use crate::{Api, Clock};
use axum::http::StatusCode;
use broker::{DeleteConditions, QueueRef, QueueStat, TakenAway, UndoEntry, View};
use meta::definitions::table_to_json;
use meta::{Name, QueueDef, QueueKind, Vhost};
use mgmt::{Kind, Request, operations};
use serde_json::{Value, json};
use session::{Flag, Op, QueueDeclaration};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use stdx::{date_time, words};

/// The columns of a list, in the order of RabbitMQ's.
const COLUMNS: &str = "\
    arguments, auto_delete, consumer_capacity, consumer_utilisation, consumers, delayed_retry, \
    delivery_limit, durable, effective_policy_definition, exclusive, internal, internal_owner, \
    leader, members, memory, message_bytes, message_bytes_dlx, message_bytes_persistent, \
    message_bytes_ram, message_bytes_ready, message_bytes_unacknowledged, message_stats, \
    messages, messages_active_priorities, messages_by_priority, messages_delayed, \
    messages_details, messages_dlx, messages_persistent, messages_ram, messages_ready, \
    messages_ready_details, messages_ready_ram, messages_unacknowledged, \
    messages_unacknowledged_details, messages_unacknowledged_ram, name, next_delayed_at, \
    last_delayed_at, node, online, operator_policy, policy, readers, segments, state, \
    storage_version, type, vhost, confirm_on, messages_unconfirmed, confirms_timed_out, \
    oldest_message_age_seconds";
/// The age of the oldest message, which is looked for beside the queue.
const AGE: &str = "oldest_message_age_seconds";
/// Columns that one queue shows besides.
const MORE: &str = "\
    consumer_details, conversion, deliveries, exclusive_consumer_tag, head_message_timestamp, \
    idle_since, incoming, oldest_unconfirmed_ms, owner_pid_details, single_active_consumer_tag";
/// Columns that are left with `disable_stats`.
const PLAIN: &str = "\
    arguments, auto_delete, delivery_limit, durable, exclusive, leader, members, name, node, \
    online, operator_policy, policy, state, type, vhost";

/// Lists that were made a moment ago.
#[derive(Debug, Default)]
pub(crate) struct QueueLists {
    queues: Recent<Asked, [QueueRef]>,
    arranged: Recent<Asked, Arrangement>,
    n_consumers: Recent<(), u64>,
}

/// A question that has the same answer a moment later.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    epoch: u64,
    vhosts: Vec<Name>,
    /// The parts of the query that the order comes from.
    query: Query,
}

impl QueueLists {
    /// Drops the lists whose time is over.
    pub(crate) fn forget(&self, now_ms: u64) {
        self.queues.forget(now_ms);
        self.arranged.forget(now_ms);
    }

    /// The queues of virtual hosts, in the order of their names.
    fn of(&self, clock: Option<&Clock>, view: &View, vhosts: &[&Vhost]) -> Arc<[QueueRef]> {
        self.queues.get(
            clock,
            Asked::of(view, vhosts, Query::default()),
            |_| true,
            || {
                let defs = vhosts.iter().flat_map(|vhost| vhost.queues());
                let defs = defs.filter(|def| !def.is_internal());
                defs.filter_map(|def| view.queue_by_id(def.id)).collect()
            },
        )
    }
}

impl Asked {
    fn of(view: &View, vhosts: &[&Vhost], query: Query) -> Self {
        let vhosts = vhosts.iter().map(|vhost| vhost.name.clone()).collect();
        Self { epoch: view.epoch, vhosts, query }
    }
}

/// Numbers of queues in virtual hosts, and of consumers of all queues.
pub(super) fn totals(call: &Call, view: &View, vhosts: &[&Vhost]) -> (usize, u64) {
    let (lists, clock) = (&call.api.lists, call.api.sharing_clock());
    let sum = || Arc::new(view.queues().map(|queue| queue.stat().n_consumers).sum());
    (lists.of(clock, view, vhosts).len(), *lists.n_consumers.get(clock, (), |_| true, sum))
}

/// The queues of a list, or one by itself.
struct Queues {
    shown: Shown,
    queues: Arc<[QueueRef]>,
}

impl RowSet for Queues {
    type Row<'t> = QueueRow<'t>;

    fn len(&self) -> usize {
        self.queues.len()
    }

    fn row(&self, at: usize) -> Option<QueueRow<'_>> {
        Some(QueueRow { shown: &self.shown, queue: self.queues.get(at)? })
    }
}

struct QueueRow<'t> {
    shown: &'t Shown,
    queue: &'t QueueRef,
}

/// The parts that all rows of a list share.
struct Shown {
    api: Arc<Api>,
    view: Arc<View>,
    columns: Vec<&'static str>,
    ranges: Ranges,
    /// Whether rows are for the command line tool, with the types of arguments.
    is_typed: bool,
    flows: OnceLock<ByQueue>,
}

impl Row for QueueRow<'_> {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        self.shown.columns.iter().copied()
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.queue.def().name.as_str())
    }

    fn value(&self, column: &str) -> Option<Value> {
        let (api, def) = (&self.shown.api, self.queue.def());
        if self.shown.is_typed && column != AGE {
            return self.of_definition(column);
        }
        let stat = &self.queue.stat();
        let ranges = &self.shown.ranges;
        Some(match column {
            AGE if def.kind == QueueKind::Stream => return None,
            AGE => json!(api.history.ages.seconds_of(def.id, api.now())),
            "name" => json!(def.name.as_str()),
            "vhost" => json!(def.vhost.as_str()),
            "messages" => json!(stat.n_ready + stat.n_unacked),
            "messages_ready" => json!(stat.n_ready),
            "messages_unacknowledged" => json!(stat.n_unacked),
            "consumers" => json!(stat.n_consumers),
            "arguments" => table_to_json(&self.queue.def().shown_arguments()),
            "node" => json!(api.management.node_info.name),
            "internal" | "internal_owner" => json!(false),
            "message_stats" => api.stats.of_queue(def.id, stat, ranges)?,
            "messages_details" | "messages_ready_details" | "messages_unacknowledged_details" => {
                api.stats.details_of_queue(def.id, column, ranges)
            }
            "message_bytes_ready" | "message_bytes_unacknowledged"
                if def.kind == QueueKind::Stream =>
            {
                return None;
            }
            "message_bytes_ready" => json!(ready_bytes(stat)),
            "message_bytes_unacknowledged" => json!(stat.message_bytes - ready_bytes(stat)),
            "policy" | "operator_policy" => {
                // COMPAT: lists leave out what one queue shows as null.
                let is_alone = self.shown.columns.contains(&"consumer_details");
                let name = self.of_definition(column)?;
                if name == "" && !is_alone {
                    return None;
                }
                if name == "" { Value::Null } else { name }
            }
            "effective_policy_definition" => {
                let settings = self.of_definition(column)?;
                if settings.is_array() { json!({}) } else { settings }
            }
            "readers" => {
                let readers = self.of_definition(column)?;
                json!({&*api.management.node_info.name: readers})
            }
            // Lists do not have this column: its value never stays the same.
            "idle_ms" => json!(api.now().unix_ms.saturating_sub(self.idle_since_ms())),
            "idle_since" => json!(date_time(self.idle_since_ms(), 'T')),
            "exclusive" => json!(def.exclusive_owner.is_some()),
            "storage_version"
            | "conversion"
            | "head_message_timestamp"
            | "exclusive_consumer_tag"
                if def.kind != QueueKind::Classic =>
            {
                return None;
            }
            _ => return self.of_one(column),
        })
    }
}

impl QueueRow<'_> {
    /// Columns that are mostly shown of one queue by itself.
    fn of_one(&self, column: &str) -> Option<Value> {
        Some(match column {
            "consumer_details" => self.consumers().collect(),
            "deliveries" => self.flows(|it, def, all| it.deliveries_of_queue(def, all)),
            "incoming" => self.flows(|it, def, all| it.incoming_of_queue(def, all)),
            "exclusive_consumer_tag" => self.tag_of(|one| one["exclusive"] == true),
            "single_active_consumer_tag" => {
                self.tag_of(|one| one["activity_status"] == "single_active")
            }
            "head_message_timestamp" => json!(self.queue.head_timestamp()),
            "owner_pid_details" => {
                let connections = &self.shown.api.management.broker.connections;
                let owner = connections.get(self.queue.def().exclusive_owner?)?;
                let identity = &owner.identity;
                json!({
                    "name": identity.name, "peer_host": identity.peer_host,
                    "peer_port": identity.peer_port,
                })
            }
            _ => return self.of_definition(column),
        })
    }

    fn of_definition(&self, column: &str) -> Option<Value> {
        let Shown { api, view, .. } = self.shown;
        let vhost = view.meta.vhost(&self.queue.def().vhost)?;
        mgmt::queue_value(&api.management, vhost, (self.queue, self.queue.stat()), column)
    }

    /// Since when nothing of the queue has changed, Unix milliseconds; now before the first look.
    fn idle_since_ms(&self) -> u64 {
        let api = &self.shown.api;
        api.stats.idle_since_ms(self.queue.id()).unwrap_or_else(|| api.now().unix_ms)
    }

    fn flows(&self, of: impl Fn(&Flows<'_>, &QueueDef, &ByQueue) -> Value) -> Value {
        let Shown { api, ranges, flows, .. } = self.shown;
        let by_queue = flows.get_or_init(|| ByQueue::of(api));
        of(&Flows { api, ranges }, self.queue.def(), by_queue)
    }

    fn consumers(&self) -> impl Iterator<Item = Value> {
        let of = |consumer| clients::consumer(&self.shown.api, self.queue, &consumer);
        self.queue.consumers().into_iter().map(of)
    }

    fn tag_of(&self, which: impl Fn(&Value) -> bool) -> Value {
        self.consumers().find(which).map_or(Value::Null, |one| field(&one, "consumer_tag").clone())
    }
}

/// Bytes of the ready messages, by the mean size of all.
pub(super) const fn ready_bytes(stat: &QueueStat) -> u64 {
    match stat.message_bytes.checked_div(stat.n_ready + stat.n_unacked) {
        Some(mean) => mean * stat.n_ready,
        None => 0,
    }
}

fn shown(call: &Call, columns: Vec<&'static str>) -> Result<Shown, Refusal> {
    let (ranges, is_typed) = (call.ranges()?, call.is_typed());
    let (api, view) = (Arc::clone(&call.api), call.view());
    Ok(Shown { api, view, columns, ranges, is_typed, flows: OnceLock::new() })
}

/// The queues of the virtual hosts of the address.
fn rows(call: &Call, columns: Vec<&'static str>) -> Outcome {
    let shown = shown(call, columns)?;
    let (view, lists, clock) = (&shown.view, &call.api.lists, call.api.sharing_clock());
    let mut vhosts = vhosts(&view.meta, call)?;
    if call.query.flag("offline") && !call.query.flag("online") {
        vhosts.clear();
    }
    let queues = lists.of(clock, view, &vhosts);
    let asked = Asked::of(view, &vhosts, Listing::arranging(&call.query));
    let listing = Listing::of(&call.query)?.during(&call.course);
    let set = Queues { shown, queues };
    let reaches = |arrangement: &Arrangement| arrangement.reaches(&listing);
    let arrange = || listing.arrange(&set).map(Arc::new);
    let arrangement = lists.arranged.try_get(clock, asked, reaches, arrange)?;
    listing.show(Arc::new(set), &arrangement).map(Answer::Rows)
}

pub(crate) fn list(call: &Call) -> Outcome {
    let totals = "messages, messages_ready, messages_unacknowledged";
    rows(
        call,
        match call.wants_plain() {
            (true, false) => words(PLAIN).collect(),
            (true, true) => words(PLAIN).chain(words(totals)).collect(),
            (false, _) => words(COLUMNS).collect(),
        },
    )
}

pub(crate) fn list_detailed(call: &Call) -> Outcome {
    rows(call, words(COLUMNS).chain(words(MORE)).collect())
}

/// Refuses an address whose queue is not there.
pub(crate) fn check(call: &Call) -> Result<(), Refusal> {
    found(call).map(drop)
}

fn found(call: &Call) -> Result<Queues, Refusal> {
    let shown = shown(call, words(COLUMNS).chain(words(MORE)).collect())?;
    let vhost = vhost(&shown.view.meta, call)?;
    let def = vhost.queue(call.param("name")).filter(|def| !def.is_internal());
    let queue = def.and_then(|def| shown.view.queue_by_id(def.id));
    let queues = Arc::new([queue.ok_or_else(Refusal::not_found)?]);
    Ok(Queues { shown, queues })
}

pub(crate) fn get(call: &Call) -> Outcome {
    let found = found(call)?;
    call.one(&found.row(0).ok_or_else(Refusal::not_found)?)
}

pub(crate) async fn declare(call: &Call) -> Outcome {
    let object = call.object()?;
    if let Some(node) = optional_text(&object, "node")?.filter(|it| !call.is_of(it)) {
        return Err(Refusal::bad_request(format!("Node {node} is not a cluster member")));
    }
    let mut arguments = arguments(&object)?;
    // Some clients always send the field, empty if they leave the type open.
    let names_type = object.get("type").is_some_and(|kind| !kind.is_null());
    if names_type && arguments.get(b"x-queue-type").is_none() {
        arguments.push(short("x-queue-type")?, session::Value::from(text(&object, "type")?));
    }
    let durable = object.get("durable").is_none() || flag(&object, "durable")?;
    let declaration = QueueDeclaration {
        queue: short(call.param("name"))?,
        passive: false,
        durable,
        exclusive: flag(&object, "exclusive")?,
        auto_delete: flag(&object, "auto_delete")?,
        arguments,
    };
    as_client(call, Op::DeclareQueue(declaration)).await?;
    Ok(Answer::NoContent)
}

/// Takes messages away as an operator or a user wants: whatever does so, with one queue or many, does it by
/// this. Operators are told how many, everybody how to bring them back.
pub(super) async fn take_away(
    call: &Call,
    name: &str,
    how: Removal,
) -> Result<(Value, Option<UndoEntry>), Refusal> {
    if let Some(TakenAway { n_messages, undo }) = undo::take(call, name, how).await? {
        let shown = undo.as_ref().map(undo::shown);
        return Ok((json!({"messages": n_messages, "undo": shown}), undo));
    }
    take_plainly(call, name, how).await.map(|told| (told, None))
}

/// Takes messages away for good.
async fn take_plainly(call: &Call, name: &str, how: Removal) -> Result<Value, Refusal> {
    let management = &call.api.management;
    if call.caller.is_local() {
        let vhost = call.param("vhost");
        return Ok(match how {
            Removal::Purge => operations::purge_queue(management, vhost, name).await?,
            Removal::Delete { if_unused, if_empty } => {
                let conditions = DeleteConditions { if_unused, if_empty };
                operations::delete_queue(management, vhost, name, conditions).await?
            }
        });
    }
    let (queue, of) = (short(name)?, Flag::from_bool);
    let op = match how {
        Removal::Purge => Op::PurgeQueue { queue },
        Removal::Delete { if_unused, if_empty } => {
            Op::DeleteQueue { queue, if_unused: of(if_unused), if_empty: of(if_empty) }
        }
    };
    as_client(call, op).await.map(|()| Value::Null)
}

/// Takes messages of the queue of the address away: `dry_run` only tells how many would go, and with
/// `expected` they go if so many would.
async fn take_one(call: &Call, request: &Request, how: Removal) -> Outcome {
    let (is_dry, is_checked) = (request.flag("dry_run"), request.value("expected").is_some());
    if is_dry || is_checked {
        let found = found(call)?;
        let stat = found.queues.first().map(QueueRef::stat).unwrap_or_default();
        let n = match how {
            Removal::Purge => stat.n_ready,
            Removal::Delete { .. } => stat.n_ready + stat.n_unacked,
        };
        if !is_confirmed(request, n)? {
            let mut told = removed(stat.n_ready, stat.n_unacked, stat.n_consumers);
            put_field(&mut told, "undo", undo::offer_for(call, &found.queues, how));
            return Ok(Answer::Json(told));
        }
    }
    let (told, undo) = take_away(call, call.param("name"), how).await?;
    Ok(match undo {
        _ if call.caller.is_local() => Answer::Json(told),
        Some(entry) => Answer::Undoable(entry.id),
        None => Answer::NoContent,
    })
}

fn taking_request(call: &Call) -> Result<Request, Refusal> {
    if call.caller.is_local() { call.request() } else { Ok(call.address()) }
}

pub(crate) async fn delete(call: &Call) -> Outcome {
    let request = taking_request(call)?;
    take_one(call, &request, Removal::delete(&request)).await
}

pub(crate) async fn purge(call: &Call) -> Outcome {
    if !call.caller.is_local() {
        found(call)?;
    }
    take_one(call, &taking_request(call)?, Removal::Purge).await
}

/// Refuses an action on a queue. COMPAT: none of the actions that RabbitMQ once had is left.
pub(crate) async fn act(call: &Call) -> Outcome {
    found(call).map_err(|_| Refusal::lacks("queue_not_found"))?;
    let object = call.object()?;
    Err(Refusal::bad_request(format!("unknown action: {}", text(&object, "action")?)))
}

/// The members of a quorum queue. COMPAT: the type of another is the service's fault.
pub(crate) fn quorum_status(call: &Call) -> Outcome {
    match mgmt::quorum::status(&call.api.management, &call.address()) {
        Err(refused) if refused.kind == Kind::NotReplicated && !call.caller.is_local() => {
            health::failed("classic_queue_not_supported", Value::Null)
        }
        told => call.list(told?.as_array().cloned().unwrap_or_default()),
    }
}

/// Adds members on a node, to the queues that patterns name.
pub(crate) async fn grow(call: &Call) -> Outcome {
    let request = call.request()?;
    let grown = mgmt::quorum::grow(&call.api.management, &request)?;
    if call.caller.is_local() {
        return Ok(Answer::Json(grown));
    }
    request.require_all(&["vhost_pattern", "queue_pattern", "strategy"])?;
    Ok(Answer::NoContent)
}

/// Does something in the caller's name, as its client would.
pub(super) async fn as_client(call: &Call, op: Op) -> Result<(), Refusal> {
    let mut session = UserSession::open(&call.api, &call.caller, call.param("vhost")).await?;
    let told = session.ask(op).await;
    session.close().await;
    told.map(|_| ()).map_err(|refusal| match refusal.status {
        // COMPAT: what exactly is not allowed is in the log.
        StatusCode::UNAUTHORIZED => {
            tracing::info!("HTTP: {}", refusal.reason);
            Refusal::not_authorised("Access refused.")
        }
        _ => refusal,
    })
}
