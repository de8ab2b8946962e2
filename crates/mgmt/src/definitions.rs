//! Questions that change definitions, as commands to the state machine. Pure: a request and the
//! present state in, commands out.

mod limits;

use crate::api_error::{ApiError, Kind};
use crate::request::Request;
use meta::{
    ApplyTo, Command, HashAlgorithm, Json, MetaError, Name, PasswordHash, PolicyScope, PolicySpec,
    QueueKind, Salt, State, Vhost, VhostMetadata,
};
use serde_json::Value;

/// The commands that do what `endpoint` asks; `None` when it asks for something else. New passwords
/// are hashed by this algorithm; the salt is fresh.
pub(crate) fn commands(
    state: &State,
    endpoint: &str,
    request: &Request,
    hashing: (HashAlgorithm, Salt),
) -> Option<Result<Vec<Command>, ApiError>> {
    let command = match endpoint {
        "add_user" | "change_password" | "clear_password" | "delete_user" | "set_user_tags" => {
            user(endpoint, request, hashing)
        }
        "set_permissions_globally" => return Some(set_permissions_globally(state, request)),
        "set_permissions"
        | "clear_permissions"
        | "set_topic_permissions"
        | "clear_topic_permissions" => permission(endpoint, request),
        "add_vhost" => return Some(add_vhost(state, request)),
        "delete_vhost" => request.vhost().map(|vhost| Command::DeleteVhost { vhost }),
        "set_vhost_tags"
        | "update_vhost_metadata"
        | "enable_vhost_deletion_protection"
        | "disable_vhost_deletion_protection" => update_vhost(state, endpoint, request),
        "set_vhost_limits" => limits::set_vhost(state, request, "definition"),
        "clear_vhost_limits" => limits::clear_vhost(state, request),
        "set_user_limits" => limits::set_user(state, request),
        "clear_user_limits" => limits::clear_user(state, request),
        "set_policy" => set_policy(request, PolicyScope::User),
        "set_operator_policy" => set_policy(request, PolicyScope::Operator),
        "clear_policy" => clear_policy(request, PolicyScope::User),
        "clear_operator_policy" => clear_policy(request, PolicyScope::Operator),
        "set_parameter" => set_parameter(state, request),
        "clear_parameter" => clear_parameter(state, request),
        "set_global_parameter" | "clear_global_parameter" | "set_cluster_name" => {
            global_parameter(endpoint, request)
        }
        _ => return None,
    };
    Some(command.map(|command| vec![command]))
}

fn user(
    endpoint: &str,
    request: &Request,
    (algorithm, salt): (HashAlgorithm, Salt),
) -> Result<Command, ApiError> {
    let user = request.user()?;
    let password = || {
        let password = request.text("password")?;
        if !request.flag("pre_hashed_password") {
            return Ok(PasswordHash::by(algorithm, salt, password));
        }
        let named = request.optional("hashing_algorithm").and_then(HashAlgorithm::parse);
        hashed(named.unwrap_or(algorithm), password)
    };
    Ok(match endpoint {
        "add_user" => Command::CreateUser { user, password: password()?, tags: Vec::new() },
        "change_password" => Command::SetPassword { user, password: password()? },
        "clear_password" => Command::SetPassword { user, password: PasswordHash::default() },
        "delete_user" => Command::DeleteUser { user },
        _ => Command::SetUserTags { user, tags: request.names("tags") },
    })
}

fn hashed(algorithm: HashAlgorithm, text: &str) -> Result<PasswordHash, ApiError> {
    let hash = PasswordHash::from_base64(algorithm, text);
    hash.map_err(|_| {
        ApiError::new(Kind::Invalid, "Could not Base64 decode provided password hash value")
    })
}

fn permission(endpoint: &str, request: &Request) -> Result<Command, ApiError> {
    let (user, vhost) = (request.user()?, request.vhost()?);
    let text = |field| request.text(field).map(str::to_owned);
    Ok(match endpoint {
        "set_permissions" => Command::SetPermissions {
            user,
            vhost,
            configure: text("configure")?,
            write: text("write")?,
            read: text("read")?,
        },
        "clear_permissions" => Command::ClearPermissions { user, vhost },
        "set_topic_permissions" => Command::SetTopicPermissions {
            user,
            vhost,
            exchange: request.name("exchange")?,
            write: text("write")?,
            read: text("read")?,
        },
        _ => Command::ClearTopicPermissions {
            user,
            vhost,
            exchange: request.optional("exchange").map(Name::from),
        },
    })
}

fn set_permissions_globally(state: &State, request: &Request) -> Result<Vec<Command>, ApiError> {
    let user = request.user()?;
    if state.user(&user).is_none() {
        return Err(MetaError::UserNotFound(user).into());
    }
    let text = |field| request.text(field).map(str::to_owned);
    let in_vhost = |vhost: &Vhost| {
        Ok(Command::SetPermissions {
            user: user.clone(),
            vhost: vhost.name().clone(),
            configure: text("configure")?,
            write: text("write")?,
            read: text("read")?,
        })
    };
    state.vhosts().map(in_vhost).collect()
}

/// COMPAT: a virtual host that exists is left as it is, without complaint.
fn add_vhost(state: &State, request: &Request) -> Result<Vec<Command>, ApiError> {
    let vhost = request.vhost()?;
    if state.vhost(&vhost).is_some() {
        return Ok(Vec::new());
    }
    let mut metadata = VhostMetadata::default();
    amend(&mut metadata, request)?;
    Ok(vec![Command::CreateVhost { vhost, metadata }])
}

fn update_vhost(state: &State, endpoint: &str, request: &Request) -> Result<Command, ApiError> {
    let vhost = request.vhost()?;
    let found = state.vhost(&vhost).ok_or_else(|| MetaError::VhostNotFound(vhost.clone()))?;
    let mut metadata = found.metadata().clone();
    match endpoint {
        "set_vhost_tags" => metadata.tags = request.names("tags"),
        "enable_vhost_deletion_protection" => metadata.protected_from_deletion = true,
        "disable_vhost_deletion_protection" => metadata.protected_from_deletion = false,
        _ => amend(&mut metadata, request)?,
    }
    Ok(Command::UpdateVhost { vhost, metadata })
}

fn amend(metadata: &mut VhostMetadata, request: &Request) -> Result<(), ApiError> {
    if let Some(description) = request.optional("description") {
        description.clone_into(&mut metadata.description);
    }
    if let Some(tags) = request.comma_names("tags") {
        metadata.tags = tags;
    }
    if let Some(kind) = request.optional("default_queue_type") {
        if QueueKind::of_name(kind).is_none() {
            let text = format!("Unsupported default queue type: {kind} is not a valid queue type");
            return Err(ApiError::new(Kind::Unsupported, text));
        }
        metadata.default_queue_type = Some(Name::from(kind));
    }
    if let Some(protected) = request.optional_flag("protected_from_deletion") {
        metadata.protected_from_deletion = protected;
    }
    Ok(())
}

fn set_policy(request: &Request, scope: PolicyScope) -> Result<Command, ApiError> {
    let spec = || {
        Ok::<_, ApiError>(PolicySpec {
            name: request.name("name")?,
            pattern: request.text("pattern")?.to_owned(),
            apply_to: ApplyTo::parse(request.optional("apply_to").unwrap_or("all"))
                .map_err(|error| not_valid(&error.to_string()))?,
            definition: json_text(request.text("definition")?)?,
            priority: request.number("priority").unwrap_or_default(),
        })
    };
    Ok(Command::SetPolicy { scope, vhost: request.vhost()?, policy: spec()? })
}

fn clear_policy(request: &Request, scope: PolicyScope) -> Result<Command, ApiError> {
    Ok(Command::ClearPolicy { scope, vhost: request.vhost()?, name: request.name("name")? })
}

/// COMPAT: a component is there with the plugin that it belongs to, of which there is none; the limits of
/// a virtual host are a parameter of their own.
fn set_parameter(state: &State, request: &Request) -> Result<Command, ApiError> {
    match request.text("component")? {
        limits::COMPONENT => limits::set_vhost(state, request, "value"),
        "policy" | "operator_policy" => Err(not_valid("policies may not be set using this method")),
        unknown => Err(not_valid(&format!("component {unknown} not found"))),
    }
}

fn clear_parameter(state: &State, request: &Request) -> Result<Command, ApiError> {
    if request.text("component")? == limits::COMPONENT {
        return limits::clear_vhost(state, request);
    }
    Ok(Command::ClearParameter {
        vhost: request.vhost()?,
        component: request.name("component")?,
        name: request.name("name")?,
    })
}

fn global_parameter(endpoint: &str, request: &Request) -> Result<Command, ApiError> {
    let name = request.name("name")?;
    Ok(match endpoint {
        "set_global_parameter" => {
            Command::SetGlobalParameter { name, value: json_text(request.text("value")?)? }
        }
        "clear_global_parameter" => Command::ClearGlobalParameter { name },
        _ => Command::SetGlobalParameter {
            name: Name::from("cluster_name"),
            value: Json::parse(&Value::from(name.as_str()).to_string())?,
        },
    })
}

/// COMPAT: RabbitMQ keeps the value and writes it anew, names sorted; about malformed JSON it tells no
/// more than that.
fn json_text(text: &str) -> Result<Json, ApiError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|_| ApiError::new(Kind::Invalid, "JSON decoding error. Reason: badarg"))?;
    Ok(Json::parse(&value.to_string())?)
}

/// The error for an invalid policy or parameter.
pub(crate) fn not_valid(reason: &str) -> ApiError {
    ApiError::new(Kind::Invalid, format!("Validation failed\n\n{reason}\n"))
}

/// Words an error of the state machine as RabbitMQ does for this endpoint.
pub(crate) fn refused(endpoint: &str, error: MetaError) -> ApiError {
    let is_policy = matches!(endpoint, "set_policy" | "set_operator_policy");
    if let (MetaError::InvalidPattern { reason, .. }, true) = (&error, is_policy) {
        return not_valid(&format!(
            "pattern should be regular expression but is invalid: {{\"{reason}\",0}}"
        ));
    }
    if let (MetaError::Invalid(reason), true) = (&error, is_policy || endpoint == "set_parameter") {
        return not_valid(reason);
    }
    error.into()
}

#[cfg(test)]
mod tests;
