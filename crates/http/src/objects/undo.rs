//! All that was purged, deleted and removed by HTTP, for as long as it can be brought back.

use super::removal::Removal;
use super::{permitted, put_field};
use crate::Api;
use crate::admin::operations::queue_refused;
use crate::call::{Answer, Call, Outcome};
use crate::jobs::{Job, JobState};
use crate::refusal::Refusal;
use axum::http::StatusCode;
use meta::{Permission, Vhost};
use mgmt::Course;
use queue_type::DeleteConditions;
use queues::{Diagnosis, QueueRef};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::{spawn_blocking, yield_now};
use undo::{
    Act, BringingBack, Busy, Keeping, KeptStream, TakenAway, Taking, UndoEntry, UndoRefused,
};

/// Messages that are put into a queue together.
const TOGETHER_MAX: usize = 1_024;
/// Bytes that a message takes beside its body, more or less.
const ENVELOPE_BYTES: u64 = 64;

const REFUSED: &str = "rejected by the queue";
const UNREADABLE: &str = "unreadable undo data";

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    spawn_blocking(work).await.map_err(|_| Refusal::internal())
}

/// Whether so many messages could be brought back, and how long; `null` if not.
pub(crate) fn offer(call: &Call, n_messages: u64, bytes: u64) -> Value {
    let Some(offer) = call.api.management.broker.operations().undo().offer() else {
        return Value::Null;
    };
    let bytes = bytes.saturating_add(n_messages.saturating_mul(ENVELOPE_BYTES));
    json!({
        "seconds": offer.window_ms / 1_000,
        "bytes_max": offer.bytes_max,
        "all": bytes <= offer.bytes_max,
    })
}

/// Whether the messages that `queues` would lose could be brought back, and how long; `null` if not.
pub(super) fn offer_for(call: &Call, queues: &[QueueRef], how: Removal) -> Value {
    let (mut n_messages, mut bytes, mut n_never) = (0, 0, 0);
    for queue in queues {
        let stat = queue.local_stat();
        match stream_of(call, queue, how) {
            Some(Some(stream)) => bytes += stream.bytes,
            Some(None) => n_never += 1,
            None => {
                bytes += stat.message_bytes;
                n_messages += stat.n_ready;
                if matches!(how, Removal::Delete { .. }) {
                    n_messages += stat.n_unacked;
                }
            }
        }
    }
    let mut offer = offer(call, n_messages, bytes);
    if n_never > 0 {
        if n_never == queues.len() {
            return Value::Null;
        }
        put_field(&mut offer, "all", Value::Bool(false));
    }
    offer
}

/// The data of a stream that could be brought back, if any; the outer `None` for other queues.
fn stream_of(call: &Call, queue: &QueueRef, how: Removal) -> Option<Option<KeptStream>> {
    let undo = call.api.management.broker.operations().undo();
    let is_deleted = matches!(how, Removal::Delete { .. });
    let is_stream = queue.as_stream().is_some();
    is_stream.then(|| undo.kept_stream(queue).filter(|_| is_deleted))
}

/// An entry as it is shown.
pub(crate) fn shown(entry: &UndoEntry) -> Value {
    let state = match (entry.busy, entry.n_left_out) {
        (Busy::Taking, _) => "taking",
        (Busy::BringingBack, _) => "bringing_back",
        (Busy::No, Some(_)) => "kept",
        (Busy::No, None) => "interrupted",
    };
    json!({
        "id": entry.id,
        "vhost": entry.head.vhost.as_str(),
        "queue": entry.head.queue.as_str(),
        "what": entry.head.act.as_str(),
        "user": entry.head.by,
        "at": entry.head.at_ms.get(),
        "until": entry.head.until_ms.get(),
        "messages": entry.n_messages,
        "left_out": entry.n_left_out,
        "bytes": entry.bytes,
        "state": state,
        "is_damaged": entry.is_damaged,
    })
}

/// Takes messages of a queue away that stays.
pub(crate) async fn take_out(
    call: &Call,
    queue: QueueRef,
    taking: Taking,
) -> Result<TakenAway, Refusal> {
    let (broker, by) = (Arc::clone(&call.api.management.broker), call.caller.user.clone());
    let (course, runtime) = (call.course.clone(), Handle::current());
    let take = move || {
        let keeping = broker.operations().begin_taking(&queue, taking, &by);
        runtime.block_on(keeping.take(&|| course.end().is_none()))
    };
    let taken = blocking(take).await?;
    call.api.management.broker.operations().durable().await;
    if let Some(why) = call.course.end() {
        let n = taken.n_messages;
        tracing::warn!(user = call.caller.user, "stopped after removing {n} messages: {why}");
        return Err(Refusal::unavailable(format!("stopped after removing {n} messages: {why}")));
    }
    Ok(taken)
}

/// Takes messages away so that they can be brought back. None if nothing can be kept, or it would be refused:
/// then it is to be done, or refused, as ever.
pub(super) async fn take(
    call: &Call,
    name: &str,
    how: Removal,
) -> Result<Option<TakenAway>, Refusal> {
    let permission = match how {
        Removal::Purge => Permission::Read,
        Removal::Delete { .. } => Permission::Configure,
    };
    if let Some(queue) = call.api.management.broker.queue(call.param("vhost"), name) {
        queue.loaded().await;
    }
    let Ok(queue) = permitted::queue(call, name, permission) else { return Ok(None) };
    let is_never = stream_of(call, &queue, how).is_some_and(|stream| stream.is_none())
        || queue.def().exclusive_owner.is_some()
        || Diagnosis(&queue).home().is_some();
    let view = call.view();
    let is_sharded = |vhost: &Vhost| vhost.policies.sharded().contains_key(&queue.def().name);
    if is_never
        || view.meta.vhost(&queue.def().vhost).is_some_and(is_sharded)
        || call.api.management.broker.operations().undo().offer().is_none()
    {
        return Ok(None);
    }
    match how {
        Removal::Purge => take_out(call, queue, Taking::Purge).await.map(Some),
        Removal::Delete { if_unused, if_empty } => {
            delete(call, queue, DeleteConditions { if_unused, if_empty }).await
        }
    }
}

/// Deletes a queue. Messages that come while others are written down are written down once it takes no more.
async fn delete(
    call: &Call,
    queue: QueueRef,
    conditions: DeleteConditions,
) -> Result<Option<TakenAway>, Refusal> {
    let stat = queue.stat().await.map_err(queue_refused)?;
    if (conditions.if_unused && stat.n_consumers > 0) || (conditions.if_empty && stat.n_ready > 0) {
        return Ok(None);
    }
    let broker = &call.api.management.broker;
    let keep = |mut keeping: Keeping, course: Course| {
        blocking(move || {
            keeping.keep(&|| course.end().is_none());
            keeping
        })
    };
    let (begun, of, by) = (Arc::clone(broker), queue.clone(), call.caller.user.clone());
    let keeping =
        blocking(move || begun.operations().begin_taking(&of, Taking::Delete, &by)).await?;
    let keeping = keep(keeping, call.course.clone()).await?;
    if let Err(ended) = call.course.check() {
        blocking(move || keeping.take_back()).await?;
        return Err(ended.into());
    }
    let Ok(n_messages) = broker.operations().begin_delete(&queue, conditions).await else {
        blocking(move || keeping.take_back()).await?;
        return Ok(None);
    };
    let stat = queue.local_stat();
    // Only messages that came since are written down here: the queue is deleted even if the client has gone.
    let keeping = keep(keeping, Course::default()).await;
    broker.operations().end_delete(&queue, &call.caller.user).await;
    let keeping = keeping?;
    let undo = blocking(move || keeping.end_delete(stat.n_ready + stat.n_unacked)).await?;
    Ok(Some(TakenAway { n_messages, undo }))
}

fn seen(call: &Call) -> Result<UndoEntry, Refusal> {
    let all = call.api.management.broker.operations().undo().all().into_iter();
    let mut named = all.filter(|entry| entry.id.to_string() == call.param("id"));
    named.find(|entry| is_seen(call, entry)).ok_or_else(Refusal::not_found)
}

fn is_seen(call: &Call, entry: &UndoEntry) -> bool {
    call.caller.is_local() || call.caller.sees(&call.view().meta, &entry.head.vhost)
}

/// Refuses who may not do the same again; `more` is needed too.
fn check(call: &Call, entry: &UndoEntry, more: Option<Permission>) -> Result<(), Refusal> {
    let permission = match entry.head.act {
        Act::Delete => Permission::Configure,
        Act::Purge | Act::Remove => Permission::Read,
    };
    let head = &entry.head;
    [Some(permission), more]
        .into_iter()
        .flatten()
        .try_for_each(|it| permitted::check(call, &head.vhost, &head.queue, it))
}

pub(crate) fn list(call: &Call) -> Outcome {
    let all = call.api.management.broker.operations().undo().all();
    call.list(all.iter().filter(|entry| is_seen(call, entry)).map(shown).collect())
}

pub(crate) fn get(call: &Call) -> Outcome {
    seen(call).map(|entry| Answer::Json(shown(&entry)))
}

/// Forgets what could be brought back.
pub(crate) async fn forget(call: &Call) -> Outcome {
    let entry = seen(call)?;
    check(call, &entry, None)?;
    if entry.head.by != call.caller.user && !call.caller.is_administrator() {
        let text =
            "only the user who removed the messages, or an administrator, may delete undo data";
        return Err(Refusal::not_authorised(text));
    }
    let broker = Arc::clone(&call.api.management.broker);
    if blocking(move || broker.operations().undo().forget(entry.id)).await? {
        return Ok(Answer::NoContent);
    }
    Err(refused(UndoRefused::Busy))
}

fn refused(why: UndoRefused) -> Refusal {
    match why {
        UndoRefused::NotFound => Refusal::not_found(),
        UndoRefused::Busy => {
            Refusal::conflict("the undo data is being written or restored".to_owned())
        }
        UndoRefused::NoQueue(reason) => Refusal::conflict(reason),
    }
}

/// Begins to bring something back.
pub(crate) async fn bring_back(call: &Call) -> Outcome {
    let entry = seen(call)?;
    check(call, &entry, Some(Permission::Write))?;
    let place = call.api.turns.search(&call.asker())?;
    let (broker, id) = (Arc::clone(&call.api.management.broker), entry.id);
    let back = blocking(move || BringingBack::begin(broker.operations().undo(), id)).await?;
    let back = back.map_err(refused)?;
    let n_total = back.shown().n_messages;
    let operations = call.api.management.broker.operations();
    let queue = operations.queue_of_undo(&back, &call.caller.user).await;
    let (queue, not_bound) = queue.map_err(refused)?;
    let what =
        json!({"undo": id, "vhost": entry.head.vhost.as_str(), "queue": entry.head.queue.as_str()});
    let job = call.api.turns.jobs.begin(&call.caller.user, what, n_total);
    if queue.as_stream().is_some() {
        job.note_done(n_total);
    }
    let running = run(Arc::clone(&call.api), Arc::new(back), queue, Arc::clone(&job));
    tokio::spawn(async move {
        running.await;
        drop(place);
    });
    let told = json!({"job": job.id, "total": n_total, "not_bound": not_bound});
    Ok(Answer::Status(StatusCode::ACCEPTED, told))
}

async fn run(api: Arc<Api>, back: Arc<BringingBack>, queue: QueueRef, job: Arc<Job>) {
    let brought = bring(&api, &back, &queue, &job).await;
    let ended = blocking(move || Arc::into_inner(back).map(BringingBack::end)).await;
    match brought.and(ended) {
        Ok(_) => job.set(JobState::Done),
        Err(refusal) => job.set(JobState::Failed(refusal.reason)),
    };
}

/// Brings back a portion after the other, each durably before it is noted.
async fn bring(
    api: &Api,
    back: &Arc<BringingBack>,
    queue: &QueueRef,
    job: &Job,
) -> Result<(), Refusal> {
    for number in back.portions() {
        if !job.may_publish(&api.management.broker).await {
            return Ok(());
        }
        let reader = Arc::clone(back);
        let Some(messages) = blocking(move || reader.messages(number)).await? else {
            job.note_all_stayed(1, UNREADABLE);
            continue;
        };
        let mut taken = Vec::new();
        for together in messages.chunks(TOGETHER_MAX) {
            let took = api.management.broker.operations().put_back(queue, together).await;
            let took = took.map_err(refused)?;
            job.note_done(took.len() as u64);
            job.note_all_stayed((together.len() - took.len()) as u64, REFUSED);
            taken.extend(took);
            yield_now().await;
        }
        let (writer, is_all) = (Arc::clone(back), taken.len() == messages.len());
        let noted = blocking(move || writer.note(number, (!is_all).then_some(&taken))).await?;
        noted.map_err(|error| Refusal::unavailable(error.to_string()))?;
    }
    Ok(())
}
