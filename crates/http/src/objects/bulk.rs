//! Actions on all objects whose names match an expression. Without `expected` an action only tells what it
//! would do; with `expected` it is done, if so many objects match.

use super::connection_columns::ConnectionRow;
use super::removal::{Removal, is_confirmed, removed};
use super::{clients, queues, undo};
use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use crate::request::Request;
use meta::{Pattern, QueueKind};
use mgmt::Matching;
use serde_json::{Value, json};

/// Most objects of one action.
const OBJECTS_MAX: usize = 10_000;
/// Names that are told before.
const NAMES_MAX: usize = 20;
/// Failures that are told one by one.
const FAILURES_MAX: usize = 1_000;
/// Columns of a connection that an expression may be for.
const CONNECTION_COLUMNS: [&str; 5] = ["name", "user", "vhost", "peer_host", "user_provided_name"];

/// Whether a change of the objects with these names is to be made now, as [`is_confirmed`] tells.
fn are_confirmed(request: &Request, names: &[String]) -> Result<bool, Refusal> {
    let is_confirmed = is_confirmed(request, names.len() as u64)?;
    if is_confirmed && names.len() > OBJECTS_MAX {
        let text = format!("{} match: at most {OBJECTS_MAX} are allowed at a time", names.len());
        return Err(Refusal::bad_request(text));
    }
    Ok(is_confirmed)
}

fn pattern(request: &Request) -> Result<Pattern, Refusal> {
    Ok(Pattern::within_budget(request.text("pattern")?)?)
}

/// Answers what would be done to the objects with these names, of which `figures` tell more.
fn told(names: &[String], figures: Value) -> Outcome {
    let first = names.get(..NAMES_MAX).unwrap_or(names);
    Ok(Answer::Json(json!({
        "matched": names.len(), "names": first, "figures": figures, "done": 0, "failures": [],
    })))
}

/// Purges or deletes queues.
pub(crate) async fn queues(call: &Call) -> Outcome {
    let request = call.request()?;
    let how = match request.text("action")? {
        "purge" => Removal::Purge,
        "delete" => Removal::delete(&request),
        _ => return Err(Refusal::bad_request("action must be purge or delete")),
    };
    let asked = request.clone();
    let (names, figures) = call.beside(move |call| matching_queues(call, &asked, how)).await?;
    if !are_confirmed(&request, &names)? {
        return told(&names, figures);
    }
    let (mut failures, mut undo, mut slices) = (Vec::new(), Vec::new(), call.slices());
    let (mut n_done, mut stopped) = (0, None);
    for name in &names {
        stopped = call.next_step(&mut slices).await.err();
        if stopped.is_some() {
            break;
        }
        match queues::take_away(call, name, how).await {
            Ok((_, entry)) => {
                n_done += 1;
                undo.extend(entry);
            }
            Err(refusal) => failures.push((name, refusal.reason)),
        }
    }
    note_stopped(call, stopped.as_ref(), n_done, names.len());
    let failed = |(name, reason): &(&String, String)| json!({"name": name, "reason": reason});
    Ok(Answer::Json(json!({
        "matched": names.len(),
        "done": n_done,
        "stopped": stopped,
        "failures": failures.iter().take(FAILURES_MAX).map(failed).collect::<Value>(),
        "undo": undo.iter().map(undo::shown).collect::<Value>(),
    })))
}

/// Logs how far an action came that was stopped: its client may have disconnected.
fn note_stopped(call: &Call, stopped: Option<&String>, n_done: usize, n_matched: usize) {
    if let Some(why) = stopped {
        let user = &call.caller.user;
        tracing::warn!(user, "a bulk action stopped after {n_done} of {n_matched}: {why}");
    }
}

/// The names of queues that match, and the sums of their figures.
fn matching_queues(
    call: &Call,
    request: &Request,
    how: Removal,
) -> Result<(Vec<String>, Value), Refusal> {
    let (view, pattern) = (call.view(), pattern(request)?);
    let (kind, mut matching) = (request.optional("type"), Matching::during(&call.course));
    let (mut names, mut sums, mut found) = (Vec::new(), [0; 5], Vec::new());
    for def in vhost(&view.meta, call)?.queues().filter(|def| !def.is_internal()) {
        let is_wanted = kind.is_none_or(|kind| kind == def.kind.as_str());
        if is_wanted && matching.matches(pattern.compiled(), &def.name)? {
            let queue = view.queue_by_id(def.id);
            let stat = queue.as_ref().map(|queue| queue.local_stat()).unwrap_or_default();
            found.extend(queue);
            // Messages of a stream count apart: they are never purged, and any consumer may read them.
            let is_stream = u64::from(def.kind == QueueKind::Stream);
            let (in_stream, n_ready) = (stat.n_ready * is_stream, stat.n_ready * (1 - is_stream));
            let more = [n_ready, stat.n_unacked, stat.n_consumers, is_stream, in_stream];
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            names.push(def.name.to_string());
        }
    }
    let [ready, unacknowledged, consumers, n_streams, in_streams] = sums;
    let mut figures = removed(ready, unacknowledged, consumers);
    super::put_field(&mut figures, "streams", json!(n_streams));
    super::put_field(&mut figures, "messages_in_streams", json!(in_streams));
    super::put_field(&mut figures, "undo", undo::offer_for(call, &found, how));
    Ok((names, figures))
}

/// Closes connections.
pub(crate) async fn connections(call: &Call) -> Outcome {
    let request = call.request()?;
    let by = request.optional("by").unwrap_or("name");
    if !CONNECTION_COLUMNS.contains(&by) {
        return Err(Refusal::bad_request(format!("by must be one of {CONNECTION_COLUMNS:?}")));
    }
    let (by, asked) = (by.to_owned(), request.clone());
    let matching = move |call: &Call| clients::matching(call, &by, &pattern(&asked)?);
    let found = call.beside(matching).await?;
    let names: Vec<String> = found.iter().map(ConnectionRow::to_name).collect();
    if !are_confirmed(&request, &names)? {
        return told(&names, Value::Null);
    }
    let (n_done, stopped) = clients::close_all(call, &found).await?;
    note_stopped(call, stopped.as_ref(), n_done, names.len());
    Ok(Answer::Json(json!({
        "matched": names.len(), "done": n_done, "stopped": stopped, "failures": [],
    })))
}
