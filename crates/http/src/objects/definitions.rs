//! Definitions as a document, whole or of one virtual host.

use crate::call::{Answer, Call, Outcome, Take};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::stream::{JSON, PIECE_BYTES, Taker};
use axum::http::{HeaderValue, header};
use meta::definitions::{Document, ObjectChange, object_changes};
use mgmt::{ImportOptions, Imported, definitions_io};
use serde_json::{Value, json};
use std::hash::BuildHasher as _;
use std::io::BufWriter;
use std::sync::Arc;

/// Most changes that are listed one by one.
const CHANGES_MAX: usize = 1_000;

pub(crate) fn export(call: &Call) -> Outcome {
    let (api, view) = (Arc::clone(&call.api), call.view());
    let vhost = call.address().optional("vhost").map(str::to_owned);
    let is_there = definitions_io::export(&api.management, &view, vhost.as_deref(), |_| ());
    is_there.map_err(|refused| match call.caller.is_local() {
        true => refused.into(),
        false => Refusal::bad_request("vhost_not_found"),
    })?;
    let tag = api.tags.hash_one((view.version(), &vhost));
    let write = move |take: &mut Take<'_>| {
        let pieces = BufWriter::with_capacity(PIECE_BYTES, Taker(take));
        let show = |document: Document<'_>| serde_json::to_writer(pieces, &document);
        // A failed write means that the client has gone.
        let _written = definitions_io::export(&api.management, &view, vhost.as_deref(), show);
    };
    Ok(Answer::Written { content_type: JSON, tag: Some(tag), write: Box::new(write) })
}

/// The changes that an import would make, none of which is made by this.
pub(crate) fn explain(call: &Call) -> Outcome {
    let document = checked_document(call)?;
    let address = call.address();
    let (options, management) = (options(call, &address), &call.api.management);
    let planned = definitions_io::foretell(management, document, options, &call.course)?;
    let (now, steps) = (call.view(), &planned.steps);
    let (n, changes) = object_changes(&now.meta, &planned.then, steps, CHANGES_MAX);
    let change =
        |it: &ObjectChange<'_>| json!({"object": it.what, "before": it.before, "after": it.after});
    Ok(Answer::Json(json!({
        "changed_count": n,
        "changes": changes.iter().map(change).collect::<Value>(),
        "warnings": planned.warnings,
    })))
}

pub(crate) async fn import(call: &Call) -> Outcome {
    let (document, address) = (checked_document(call)?, call.address());
    let (options, management) = (options(call, &address), &call.api.management);
    let imported = definitions_io::import(management, document, options, &call.course).await;
    let Imported { n_changes, warnings } = imported?;
    Ok(match call.caller.is_local() {
        true => Answer::Json(json!({"changes": n_changes, "warnings": warnings})),
        false => Answer::Warned { warnings, place: place_after(call) },
    })
}

/// The options of an import. COMPAT: users are refused what RabbitMQ refuses, unless they have looked at it
/// and want it left out (`lenient=true`); a user who makes a virtual host so may use it.
fn options<'a>(call: &'a Call, address: &'a Request) -> ImportOptions<'a> {
    let is_local = call.caller.is_local();
    ImportOptions {
        into: address.optional("vhost"),
        skip_if_unchanged: address.flag("skip_if_unchanged"),
        is_strict: !is_local && !address.flag("lenient"),
        importer: (!is_local).then_some(call.caller.user.as_str()),
        ..ImportOptions::default()
    }
}

fn checked_document(call: &Call) -> Result<&[u8], Refusal> {
    let (document, vhost) = (document(call)?, call.param("vhost"));
    let is_there = vhost.is_empty() || call.view().meta.vhost(vhost).is_some();
    if !is_there && !call.caller.is_local() {
        return Err(Refusal::lacks("vhost_not_found"));
    }
    if std::str::from_utf8(document).is_err() {
        return Err(Refusal::bad_request("not_json: the document is not UTF-8"));
    }
    Ok(document)
}

/// The document: the body, or the file of a form.
fn document(call: &Call) -> Result<&[u8], Refusal> {
    let (kind, boundary) = content_type(call);
    match kind {
        "application/json" => return Ok(&call.body),
        "multipart/form-data" => {}
        _ => return Err(Refusal::media_type("expected a JSON document or a form")),
    }
    let (head, file) = part(&call.body, boundary, "file")
        .ok_or_else(|| Refusal::bad_request("the form has no file"))?;
    if call.api.settings.restrictions.needs_json_files && !head.contains(".json\"") {
        return Err(Refusal::bad_request("unsupported_file_extension"));
    }
    Ok(file)
}

/// The type of the body, and what is between its parts if it is a form.
fn content_type(call: &Call) -> (&str, &str) {
    let kind = call.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let mut parameters = kind.unwrap_or("application/json").split(';').map(str::trim);
    let kind = parameters.next().unwrap_or_default();
    let boundary = parameters.find_map(|it| it.strip_prefix("boundary=")).unwrap_or_default();
    (kind, boundary.trim_matches('"'))
}

/// The page of this server that a form wants shown after it.
fn place_after(call: &Call) -> Option<String> {
    let (kind, boundary) = content_type(call);
    let is_form = kind == "multipart/form-data";
    let (_, place) = is_form.then(|| part(&call.body, boundary, "redirect")).flatten()?;
    let place = std::str::from_utf8(place).ok()?;
    let is_own = place.starts_with('/') && !place.starts_with("//") && !place.contains('\\');
    (is_own && HeaderValue::from_str(place).is_ok()).then(|| place.to_owned())
}

/// Head and content of a part of a form.
fn part<'b>(body: &'b [u8], boundary: &str, name: &str) -> Option<(&'b str, &'b [u8])> {
    let text = std::str::from_utf8(body).ok().filter(|_| !boundary.is_empty())?;
    let (delimiter, name) = (format!("--{boundary}"), format!("name=\"{name}\""));
    let mut parts = text.split(delimiter.as_str()).filter_map(|part| part.split_once("\r\n\r\n"));
    let (head, content) = parts.find(|(head, _)| head.contains(&name))?;
    Some((head, content.strip_suffix("\r\n").unwrap_or(content).as_bytes()))
}
