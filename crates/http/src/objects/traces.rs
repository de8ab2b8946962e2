//! Traces to files, and the files.

use super::short;
use crate::call::{Answer, Call, Outcome, Take};
use crate::caller::log_in;
use crate::refusal::Refusal;
use crate::request::{optional_text, require_all, text};
use crate::stream::PIECE_BYTES;
use crate::tracer::{self, TraceKey, Wanted};
use axum::body::Bytes;
use serde_json::{Map, Value, json};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// Refuses an address that names another node.
fn check_named_node(call: &Call) -> Result<(), Refusal> {
    if call.param("node").is_empty() { Ok(()) } else { call.check_node() }
}

fn key(call: &Call) -> TraceKey {
    TraceKey { vhost: call.param("vhost").to_owned(), name: call.param("name").to_owned() }
}

/// Traces as they are shown, all or those of the virtual host of the address.
fn shown(call: &Call) -> Result<Vec<(TraceKey, Value)>, Refusal> {
    check_named_node(call)?;
    let vhost = call.param("vhost");
    let traces = call.api.traces.all().into_iter();
    let traces = traces.filter(|(key, _)| vhost.is_empty() || key.vhost == vhost);
    Ok(traces
        .map(|(key, mut settings)| {
            settings.insert("vhost".to_owned(), json!(key.vhost));
            settings.insert("name".to_owned(), json!(key.name));
            (key, Value::Object(settings))
        })
        .collect())
}

pub(crate) fn list(call: &Call) -> Outcome {
    Ok(Answer::Json(shown(call)?.into_iter().map(|(_, trace)| trace).collect()))
}

pub(crate) fn get(call: &Call) -> Outcome {
    let mut traces = shown(call)?.into_iter();
    let found = traces.find(|(of, _)| *of == key(call));
    found.map(|(_, trace)| Answer::Json(trace)).ok_or_else(Refusal::not_found)
}

pub(crate) async fn start(call: &Call) -> Outcome {
    check_named_node(call)?;
    if call.view().meta.vhost(call.param("vhost")).is_none() {
        return Err(Refusal::lacks("vhost_not_found"));
    }
    let body = call.object()?;
    require_all(&body, &["format", "pattern"])?;
    let limit = body.get("max_payload_bytes").map(|it| it.as_u64().map(usize::try_from));
    let payload_bytes_max = match limit {
        None => usize::MAX,
        Some(Some(Ok(limit))) => limit,
        Some(_) => return Err(Refusal::bad_request("max_payload_bytes not integer")),
    };
    let is_json = match text(&body, "format")? {
        "json" => true,
        "text" => false,
        _ => return Err(Refusal::bad_request("format not json or text")),
    };
    let pattern = short(text(&body, "pattern")?)?;
    let user = match optional_text(&body, "tracer_connection_username")? {
        None | Some("") => call.caller.clone(),
        Some(name) => {
            let password = optional_text(&body, "tracer_connection_password")?.unwrap_or_default();
            log_in(&call.api, name.as_bytes(), password.as_bytes(), call.caller.peer).await?
        }
    };
    let is_secret = |name: &str| name == "tracer_connection_password";
    let settings: Map<_, _> = body.into_iter().filter(|(name, _)| !is_secret(name)).collect();
    let wanted = Wanted { key: key(call), pattern, is_json, payload_bytes_max, settings };
    tracer::start(&call.api, &user, wanted).await?;
    Ok(Answer::Created(None))
}

pub(crate) async fn stop(call: &Call) -> Outcome {
    check_named_node(call)?;
    let is_there = call.api.traces.stop(&call.api.management.broker, &key(call), None);
    if is_there { Ok(Answer::NoContent) } else { Err(Refusal::not_found()) }
}

pub(crate) fn list_files(call: &Call) -> Outcome {
    check_named_node(call)?;
    let entries =
        fs::read_dir(&call.api.management.node_info.trace_dir).into_iter().flatten().flatten();
    let file = |entry: fs::DirEntry| {
        let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((entry.file_name().into_string().ok()?, about.len()))
    };
    let mut files: Vec<(String, u64)> = entries.filter_map(file).collect();
    files.sort_unstable();
    let shown = |(name, size): (String, u64)| json!({"name": name, "size": size});
    Ok(Answer::Json(files.into_iter().map(shown).collect()))
}

/// The path of the file of the address, which is in the directory of traces.
fn path(call: &Call) -> Result<PathBuf, Refusal> {
    check_named_node(call)?;
    let name = call.param("name");
    let path = call.api.management.node_info.trace_dir.join(name);
    let is_file = tracer::is_name(name) && fs::symlink_metadata(&path).is_ok_and(|it| it.is_file());
    if is_file { Ok(path) } else { Err(Refusal::not_found()) }
}

#[expect(clippy::disallowed_methods, reason = "this crate serves files of traces")]
pub(crate) fn get_file(call: &Call) -> Outcome {
    let mut file = File::open(path(call)?).map_err(|_| Refusal::not_found())?;
    let changed = file.metadata().and_then(|about| about.modified()).ok();
    let changed = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let tag = u64::try_from(changed.as_nanos()).unwrap_or_default();
    let write = move |take: &mut Take<'_>| {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(n_bytes @ 1..) = file.read(&mut piece) {
            let read = piece.get(..n_bytes).unwrap_or_default();
            if !take(Bytes::copy_from_slice(read)) {
                return;
            }
        }
    };
    Ok(Answer::Written { content_type: "text/plain", tag: Some(tag), write: Box::new(write) })
}

pub(crate) async fn delete_file(call: &Call) -> Outcome {
    let deleted = fs::remove_file(path(call)?);
    deleted.map(|()| Answer::NoContent).map_err(|error| Refusal::bad_request(error.to_string()))
}
