//! Queues: what they show, and their declaration, deletion and purge.

use super::queue_columns::{QueueContext, QueueRow};
use super::removal::{Removal, is_confirmed, removed};
use super::{arguments, flag, put_field, short, undo, vhosts};
use crate::Clock;
use crate::admin::{operations, quorum};
use crate::call::{Answer, Call, Outcome, vhost};
use crate::columns::{ALONE, LIST, Marks, PLAIN, TOTALS};
use crate::list::{Arrangement, Listing, MergeOrder, RowSet};
use crate::objects::health;
use crate::peers::Peers;
use crate::query::Query;
use crate::recent::Recent;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::request::{optional_text, text};
use crate::user_session::UserSession;
use ::undo::{TakenAway, UndoEntry};
use api::ErrorCode;
use axum::http::StatusCode;
use control::View;
use meta::{Name, Vhost};
use queue_type::DeleteConditions;
use queues::{Diagnosis, QueueRef};
use serde_json::{Value, json};
use session::{Flag, Op, QueueDeclaration};
use std::sync::{Arc, OnceLock};
use stdx::MonotonicMs;

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
    version: u64,
    vhosts: Vec<Name>,
    /// The parts of the query that the order comes from.
    query: Query,
}

impl QueueLists {
    /// Drops the lists whose time is over.
    pub(crate) fn forget(&self, now_ms: u64) {
        self.queues.forget(MonotonicMs::from_raw(now_ms));
        self.arranged.forget(MonotonicMs::from_raw(now_ms));
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

/// The queues that this node lists: its own, unless `local` is asked for those of nodes that do not list them
/// themselves, and of them those that are up (`online`) or down (`offline`), if one of the two is asked for.
fn listed(call: &Call, queues: Arc<[QueueRef]>) -> Arc<[QueueRef]> {
    let [is_local, online, offline] = ["local", "online", "offline"].map(|it| call.query.flag(it));
    let is_all = !is_local && online == offline;
    let has_answered = |home: &Name| match &call.peers {
        Peers::Asked(replies) => replies.has(home),
        Peers::Alone | Peers::Unasked => false,
    };
    let is_listed = |queue: &QueueRef| match Diagnosis(queue).home() {
        None => online || !offline,
        Some(home) => !is_local && (offline || !online) && !has_answered(home),
    };
    if is_all && !matches!(call.peers, Peers::Asked(_)) {
        return queues;
    }
    queues.iter().filter(|queue| is_listed(queue)).cloned().collect()
}

impl Asked {
    fn of(view: &View, vhosts: &[&Vhost], query: Query) -> Self {
        let vhosts = vhosts.iter().map(|vhost| vhost.name.clone()).collect();
        Self { version: view.version(), vhosts, query }
    }
}

/// Numbers of queues in virtual hosts, and of consumers of all queues.
pub(super) fn totals(call: &Call, view: &View, vhosts: &[&Vhost]) -> (usize, u64) {
    let (lists, clock) = (&call.api.lists, call.api.sharing_clock());
    let sum = || Arc::new(view.queues().map(|queue| queue.local_stat().n_consumers).sum());
    (lists.of(clock, view, vhosts).len(), *lists.n_consumers.get(clock, (), |_| true, sum))
}

/// The queues of a list, or one by itself.
struct Queues {
    context: QueueContext,
    queues: Arc<[QueueRef]>,
}

impl RowSet for Queues {
    type Row<'t> = QueueRow<'t>;

    fn len(&self) -> usize {
        self.queues.len()
    }

    fn row(&self, at: usize) -> Option<QueueRow<'_>> {
        Some(QueueRow { context: &self.context, queue: self.queues.get(at)? })
    }
}

fn context(call: &Call, marks: Marks) -> Result<QueueContext, Refusal> {
    let (ranges, is_typed) = (call.ranges()?, call.is_typed());
    let (api, view) = (Arc::clone(&call.api), call.view());
    Ok(QueueContext { api, view, marks, ranges, is_typed, flows: OnceLock::new() })
}

/// The queues of the virtual hosts of the address.
fn rows(call: &Call, marks: Marks) -> Outcome {
    let context = context(call, marks)?;
    let (view, lists, clock) = (&context.view, &call.api.lists, call.api.sharing_clock());
    let vhosts = vhosts(&view.meta, call)?;
    let queues = lists.of(clock, view, &vhosts);
    if let Peers::Asked(replies) = &call.peers {
        let others = replies.rows();
        let queues = listed(call, queues);
        return call.list_with(others, MergeOrder::Name, Queues { context, queues });
    }
    let queues = listed(call, queues);
    let asked = Asked::of(view, &vhosts, Listing::arranging(&call.query));
    let listing = Listing::of(&call.query)?.during(&call.course);
    let set = Queues { context, queues };
    let reaches = |arrangement: &Arrangement| arrangement.reaches(&listing);
    let arrange = || listing.arrange(&set).map(Arc::new);
    let arrangement = lists.arranged.try_get(clock, asked, reaches, arrange)?;
    listing.show(Arc::new(set), &arrangement).map(Answer::Rows)
}

pub(crate) fn list(call: &Call) -> Outcome {
    let marks = match call.wants_plain() {
        (true, false) => PLAIN,
        (true, true) => PLAIN | TOTALS,
        (false, _) => LIST,
    };
    rows(call, marks)
}

pub(crate) fn list_detailed(call: &Call) -> Outcome {
    rows(call, LIST | ALONE)
}

/// Refuses an address whose queue is not there.
pub(crate) fn check(call: &Call) -> Result<(), Refusal> {
    found(call).map(drop)
}

fn found(call: &Call) -> Result<Queues, Refusal> {
    let context = context(call, LIST | ALONE)?;
    let vhost = vhost(&context.view.meta, call)?;
    let def = vhost.queue(call.param("name")).filter(|def| !def.is_internal());
    let queue = def.and_then(|def| context.view.queue_by_id(def.id));
    let queues = Arc::new([queue.ok_or_else(Refusal::not_found)?]);
    Ok(Queues { context, queues })
}

pub(crate) fn get(call: &Call) -> Outcome {
    let found = found(call)?;
    // The node that has the queue answers, if it can.
    let is_elsewhere = found.queues.iter().any(|queue| Diagnosis(queue).home().is_some());
    if is_elsewhere && call.is_for_others() {
        return Err(Refusal::not_found());
    }
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
        let stat = found.queues.first().map(QueueRef::local_stat).unwrap_or_default();
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
    match quorum::status(&call.api.management, &call.address()) {
        Err(refused) if refused.kind == ErrorCode::NotReplicated && !call.caller.is_local() => {
            health::failed("classic_queue_not_supported", Value::Null)
        }
        told => call.list(told?.as_array().cloned().unwrap_or_default()),
    }
}

/// Adds members on a node, to the queues that patterns name.
pub(crate) async fn grow(call: &Call) -> Outcome {
    let request = call.request()?;
    let grown = quorum::grow(&call.api.management, &request)?;
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
