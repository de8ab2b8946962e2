//! Questions that change streams.

use crate::Management;
use crate::api_error::{ApiError, Kind};
use crate::listing::stream_of;
use crate::request::Request;
use broker::Inspection;
use meta::{SuperStream, SuperStreamError};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

/// The most partitions that are counted out, whatever the node's limit is.
const PARTITIONS_MAX: u64 = 100_000;

/// Does what an operator asks for; `None` for other questions.
pub(super) async fn execute(
    management: &Management,
    endpoint: &str,
    request: &Request,
) -> Option<Result<Value, ApiError>> {
    Some(match endpoint {
        "add_super_stream" => add_super_stream(management, request).await,
        "delete_super_stream" => delete_super_stream(management, request).await,
        "restart_stream" => stream_of(management, request, "restart").map(|stream| {
            Inspection::of(&stream).restart();
            Value::from(management.node_info.name.as_str())
        }),
        // This node has the only member, and there is no other node.
        "add_replica" => stream_of(management, request, "add replicas to").and_then(|_| {
            let is_here = request.text("node")? == management.node_info.name;
            is_here.then_some(Value::Null).ok_or_else(|| invalid("node_not_running"))
        }),
        "delete_replica" => stream_of(management, request, "delete replicas from")
            .and_then(|_| Err(invalid("Cannot delete the last member of a stream"))),
        "scrub_stream" => scrub(management, request).await,
        "reset_offset" => reset_offset(management, request),
        "activate_stream_consumer" => activate(management, request),
        _ => return None,
    })
}

fn invalid(text: &str) -> ApiError {
    ApiError::new(Kind::Invalid, text)
}

async fn add_super_stream(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    let given = request.value("arguments").and_then(Value::as_object).into_iter().flatten();
    let given = given.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    let arguments = meta::stream_arguments(given)?;
    let wanted = match request.number("partitions").map(i64::unsigned_abs) {
        Some(n) if n > PARTITIONS_MAX => {
            let text = format!("The partition number must not exceed {PARTITIONS_MAX}");
            return Err(invalid(&text));
        }
        Some(n) => SuperStream::numbered(name, n, arguments),
        None => SuperStream::keyed(name, request.words("binding_keys"), arguments),
    };
    let made = management.broker.operations().create_super_stream(&vhost, &wanted).await;
    made.map(|()| Value::Null).map_err(refused)
}

async fn delete_super_stream(
    management: &Management,
    request: &Request,
) -> Result<Value, ApiError> {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    let deleted = management.broker.operations().delete_super_stream(&vhost, name).await;
    deleted.map(|()| Value::Null).map_err(refused)
}

fn refused(error: SuperStreamError) -> ApiError {
    match error {
        SuperStreamError::Refused(error) => error.into(),
        error @ (SuperStreamError::Invalid(_)
        | SuperStreamError::Exists(_)
        | SuperStreamError::NotFound) => invalid(&error.to_string()),
    }
}

/// Reads everything that is committed, on threads that may wait; it ends with its operator's connection.
async fn scrub(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let stream = stream_of(management, request, "scrub")?;
    let mut scrub = Inspection::of(&stream).scrub();
    loop {
        let stepped = spawn_blocking(move || (scrub.step(), scrub)).await;
        let (goes_on, stepped) = stepped.map_err(|error| invalid(&error.to_string()))?;
        scrub = stepped;
        if !goes_on.map_err(|error| invalid(&error.to_string()))? {
            break;
        }
    }
    let found = scrub.found();
    let damage = found
        .damage
        .iter()
        .map(|it| json!({"file": it.file, "at": it.at, "offset": it.offset, "what": it.what}));
    let (chunks, damage) = (found.n_chunks, damage.collect::<Value>());
    Ok(
        json!({"chunks": chunks, "bytes": found.bytes, "damaged": found.n_damaged, "damage": damage}),
    )
}

fn reset_offset(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let (vhost, reference) = (request.vhost()?, request.text("reference")?);
    let stream = management.broker.view().stream(&vhost, request.text("stream")?);
    let stream = stream.ok_or_else(|| invalid("The stream does not exist"))?;
    if Inspection::of(&stream).reset_offset(reference.as_bytes()) {
        return Ok(Value::Null);
    }
    Err(invalid("There is no stored offset for this reference, no need to reset"))
}

fn activate(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let (vhost, reference) = (request.vhost()?, request.text("reference")?);
    let stream = management.broker.view().stream(&vhost, request.text("stream")?);
    let activated = stream.and_then(|stream| stream.memberships().activate(reference).ok());
    activated.map(|()| Value::Null).ok_or_else(|| invalid("The group does not exist"))
}
