//! Definitions as a document, whole or of one virtual host.

use crate::call::{Answer, Call, Outcome};
use crate::refusal::Refusal;
use axum::http::header;

pub(crate) async fn import(call: &Call) -> Outcome {
    let (document, request) = (document(call)?, call.address());
    if std::str::from_utf8(&document).is_err() {
        return Err(Refusal::bad_request("not_json: the document is not UTF-8"));
    }
    let imported = mgmt::definitions_io::import(&call.api.management, document, &request).await?;
    Ok(if call.caller.is_local() { Answer::Json(imported) } else { Answer::NoContent })
}

/// The document: the body, or the file of a form.
fn document(call: &Call) -> Result<Vec<u8>, Refusal> {
    let kind = call.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let mut parameters = kind.unwrap_or("application/json").split(';').map(str::trim);
    match parameters.next() {
        Some("application/json") => return Ok(call.body.to_vec()),
        Some("multipart/form-data") => {}
        _ => return Err(Refusal::media_type("a JSON document or a form is expected")),
    }
    let boundary = parameters.find_map(|it| it.strip_prefix("boundary=")).unwrap_or_default();
    let file = part(&call.body, boundary.trim_matches('"'));
    file.ok_or_else(|| Refusal::bad_request("the form has no file"))
}

/// The content of the form's part that is a file.
fn part(body: &[u8], boundary: &str) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(body).ok().filter(|_| !boundary.is_empty())?;
    let delimiter = format!("--{boundary}");
    let mut parts = text.split(delimiter.as_str()).filter_map(|part| part.split_once("\r\n\r\n"));
    let (_, content) = parts.find(|(head, _)| head.contains("name=\"file\""))?;
    Some(content.strip_suffix("\r\n").unwrap_or(content).as_bytes().to_vec())
}
