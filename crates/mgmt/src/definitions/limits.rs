//! Limits of virtual hosts and users.

use super::not_valid;
use crate::api_error::{ApiError, Kind};
use crate::request::Request;
use meta::{Command, MetaError, State, UserLimits, VhostLimits};
use serde_json::{Map, Value};

/// The component of a virtual host's limits among parameters.
pub(super) const COMPONENT: &str = "vhost-limits";

fn parsed(request: &Request, field: &str) -> Result<Map<String, Value>, ApiError> {
    match serde_json::from_str(request.text(field)?) {
        Ok(Value::Object(limits)) => Ok(limits),
        Ok(_) => Err(ApiError::new(Kind::Invalid, "limits must be a JSON object")),
        // COMPAT: RabbitMQ tells no more about malformed JSON.
        Err(_) => Err(ApiError::new(Kind::Invalid, "JSON decoding error. Reason: badarg")),
    }
}

fn number(name: &str, value: &Value) -> Result<Option<i64>, ApiError> {
    value.as_i64().map(Some).ok_or_else(|| {
        ApiError::new(Kind::Invalid, format!("{name} should be a number, actually was {value}"))
    })
}

/// COMPAT: the Erlang term.
fn unrecognised(name: &str, value: &Value) -> String {
    format!("Unrecognised terms [{{<<\"{name}\">>,{value}}}]")
}

/// The limits are the JSON in `field`.
pub(super) fn set_vhost(
    state: &State,
    request: &Request,
    field: &str,
) -> Result<Command, ApiError> {
    let vhost = request.vhost()?;
    if state.vhost(&vhost).is_none() {
        return Err(MetaError::VhostNotFound(vhost).into());
    }
    let mut limits = VhostLimits::default();
    for (name, value) in &parsed(request, field)? {
        match name.as_str() {
            "max-connections" => limits.max_connections = number(name, value)?,
            "max-queues" => limits.max_queues = number(name, value)?,
            _ => return Err(not_valid(&format!("{} in limits", unrecognised(name, value)))),
        }
    }
    Ok(Command::SetVhostLimits { vhost, limits })
}

pub(super) fn clear_vhost(state: &State, request: &Request) -> Result<Command, ApiError> {
    let vhost = request.vhost()?;
    let found = state.vhost(&vhost).map(meta::Vhost::limits);
    if found.unwrap_or_default() == VhostLimits::default() {
        return Err(ApiError::new(Kind::ParameterNotFound, "no limits are set"));
    }
    Ok(Command::SetVhostLimits { vhost, limits: VhostLimits::default() })
}

/// COMPAT: limits that are not named stay as they are.
pub(super) fn set_user(state: &State, request: &Request) -> Result<Command, ApiError> {
    let user = request.user()?;
    let mut limits = present(state, request)?;
    for (name, value) in &parsed(request, "definition")? {
        match name.as_str() {
            "max-connections" => limits.max_connections = number(name, value)?,
            "max-channels" => limits.max_channels = number(name, value)?,
            _ => {
                let text = format!("{} in user-limits", unrecognised(name, value));
                return Err(ApiError::new(Kind::Invalid, text));
            }
        }
    }
    Ok(Command::SetUserLimits { user, limits })
}

pub(super) fn clear_user(state: &State, request: &Request) -> Result<Command, ApiError> {
    let user = request.user()?;
    let mut limits = present(state, request)?;
    match request.text("limit")? {
        "all" => limits = UserLimits::default(),
        "max-connections" => limits.max_connections = None,
        "max-channels" => limits.max_channels = None,
        // COMPAT: an unknown limit is not set, and so is cleared.
        _ => {}
    }
    Ok(Command::SetUserLimits { user, limits })
}

fn present(state: &State, request: &Request) -> Result<UserLimits, ApiError> {
    let user = request.user()?;
    let found = state.user(&user).map(meta::User::limits);
    found.ok_or_else(|| MetaError::UserNotFound(user).into())
}
