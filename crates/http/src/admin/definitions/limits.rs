//! Limits of virtual hosts and users.

use super::{Commands, Present};
use crate::request::Request;
use api::ErrorCode;
use meta::{Command, MetaError, UserLimits, VhostLimits};
use mgmt::ApiError;
use serde_json::Value;

/// The component of a virtual host's limits among parameters.
pub(super) const COMPONENT: &str = "vhost-limits";

/// The limits in a field of the request, one by one.
fn each(
    request: &Request,
    field: &str,
    mut set: impl FnMut(&str, &Value) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let limits = request.require(field)?.as_object();
    let mut limits =
        limits.ok_or_else(|| ApiError::invalid("limits must be a JSON object"))?.iter();
    limits.try_for_each(|(name, value)| set(name, value))
}

fn number(name: &str, value: &Value) -> Result<Option<i64>, ApiError> {
    let number = value.as_i64().map(Some);
    number.ok_or_else(|| {
        ApiError::invalid(format!("{name} should be a number, actually was {value}"))
    })
}

/// The error of an unknown limit. COMPAT: the limit is written as an Erlang term.
fn unrecognised(name: &str, value: &Value) -> String {
    format!("Unrecognised terms [{{<<\"{name}\">>,{value}}}]")
}

fn set_of_vhost(limits: &mut VhostLimits, name: &str, value: &Value) -> Result<(), ApiError> {
    match name {
        "max-connections" => limits.max_connections = number(name, value)?,
        "max-queues" => limits.max_queues = number(name, value)?,
        _ => return Err(ApiError::not_valid(&format!("{} in limits", unrecognised(name, value)))),
    }
    Ok(())
}

/// Sets the limits of a virtual host. COMPAT: limits that are not named are removed.
pub(super) fn set_vhost(now: &Present<'_>, request: &Request, field: &str) -> Commands {
    now.vhost(request)?;
    let (vhost, mut limits) = (request.vhost()?, VhostLimits::default());
    each(request, field, |name, value| set_of_vhost(&mut limits, name, value))?;
    Ok(vec![Command::SetVhostLimits { vhost, limits }])
}

/// Limits a virtual host.
pub(crate) fn set_vhost_limits(now: &Present<'_>, request: &Request) -> Commands {
    set_vhost(now, request, "definition")
}

/// Removes a virtual host's limits.
pub(crate) fn clear_vhost_limits(now: &Present<'_>, request: &Request) -> Commands {
    let vhost = request.vhost()?;
    let found = now.state.vhost(&vhost).map(|vhost| vhost.limits);
    if found.unwrap_or_default() == VhostLimits::default() {
        return Err(ApiError::new(ErrorCode::ParameterNotFound, "no limits are set"));
    }
    Ok(vec![Command::SetVhostLimits { vhost, limits: VhostLimits::default() }])
}

/// Sets one limit of a virtual host.
pub(crate) fn put_vhost_limit(now: &Present<'_>, request: &Request) -> Commands {
    let mut limits = now.vhost(request)?.limits;
    set_of_vhost(&mut limits, request.text("name")?, request.require("value")?)?;
    Ok(vec![Command::SetVhostLimits { vhost: request.vhost()?, limits }])
}

/// Removes one limit of a virtual host. COMPAT: one that is not set, or not known, is none; so with users.
pub(crate) fn delete_vhost_limit(now: &Present<'_>, request: &Request) -> Commands {
    let mut limits = now.vhost(request)?.limits;
    match request.text("name")? {
        "max-connections" => limits.max_connections = None,
        "max-queues" => limits.max_queues = None,
        _ => {}
    }
    Ok(vec![Command::SetVhostLimits { vhost: request.vhost()?, limits }])
}

fn set_of_user(limits: &mut UserLimits, name: &str, value: &Value) -> Result<(), ApiError> {
    match name {
        "max-connections" => limits.max_connections = number(name, value)?,
        "max-channels" => limits.max_channels = number(name, value)?,
        _ => {
            return Err(ApiError::invalid(format!("{} in user-limits", unrecognised(name, value))));
        }
    }
    Ok(())
}

fn of_user(now: &Present<'_>, request: &Request) -> Result<UserLimits, ApiError> {
    let user = request.user()?;
    let found = now.state.user(&user).map(|user| user.limits);
    found.ok_or_else(|| MetaError::UserNotFound(user).into())
}

/// Limits a user. COMPAT: limits that are not named stay as they are.
pub(crate) fn set_user_limits(now: &Present<'_>, request: &Request) -> Commands {
    let mut limits = of_user(now, request)?;
    each(request, "definition", |name, value| set_of_user(&mut limits, name, value))?;
    Ok(vec![Command::SetUserLimits { user: request.user()?, limits }])
}

/// Sets one limit of a user.
pub(crate) fn put_user_limit(now: &Present<'_>, request: &Request) -> Commands {
    let mut limits = of_user(now, request)?;
    set_of_user(&mut limits, request.text("name")?, request.require("value")?)?;
    Ok(vec![Command::SetUserLimits { user: request.user()?, limits }])
}

/// Removes a limit of a user, or all of them.
pub(crate) fn delete_user_limit(now: &Present<'_>, request: &Request) -> Commands {
    let mut limits = of_user(now, request)?;
    match request.text("name")? {
        "all" => limits = UserLimits::default(),
        "max-connections" => limits.max_connections = None,
        "max-channels" => limits.max_channels = None,
        _ => {}
    }
    Ok(vec![Command::SetUserLimits { user: request.user()?, limits }])
}
