//! Changes of definitions, as commands to the state machine. Pure: a request and the present state in,
//! commands out.

mod limits;

pub(crate) use limits::{
    clear_vhost_limits, delete_user_limit, delete_vhost_limit, put_user_limit, put_vhost_limit,
    set_user_limits, set_vhost_limits,
};

use crate::request::Request;
use api::ErrorCode;
use meta::{
    ApplyTo, Command, HashAlgorithm, Json, MetaError, Name, PasswordHash, PolicyScope, PolicySpec,
    QueueKind, Salt, State, Vhost, VhostMetadata,
};
use mgmt::{ApiError, Management, PasswordRule, salt};
use serde_json::{Value, json};

/// The present, which a change is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present<'s> {
    /// The definitions.
    pub(crate) state: &'s State,
    /// The hash of new passwords.
    pub(crate) hashing: HashAlgorithm,
    /// The salt of the hash of a new password.
    pub(crate) salt: Salt,
    /// The rule that new passwords must meet.
    pub(crate) rule: &'s PasswordRule,
}

/// A change.
pub(crate) type Define = fn(&Present<'_>, &Request) -> Commands;
/// The commands of a change.
pub(crate) type Commands = Result<Vec<Command>, ApiError>;

/// Creates a user.
///
/// # Errors
/// The request lacks something, or is refused; so with all changes.
pub(crate) fn add_user(now: &Present<'_>, request: &Request) -> Commands {
    let (user, password) = (request.user()?, now.password(request)?);
    Ok(vec![Command::CreateUser { user, password, tags: Vec::new() }])
}

/// Gives a user another password.
pub(crate) fn change_password(now: &Present<'_>, request: &Request) -> Commands {
    Ok(vec![Command::SetPassword { user: request.user()?, password: now.password(request)? }])
}

/// Takes a user's password away.
pub(crate) fn clear_password(_: &Present<'_>, request: &Request) -> Commands {
    Ok(vec![Command::SetPassword { user: request.user()?, password: PasswordHash::default() }])
}

/// Deletes a user.
pub(crate) fn delete_user(_: &Present<'_>, request: &Request) -> Commands {
    Ok(vec![Command::DeleteUser { user: request.user()? }])
}

/// Deletes users. COMPAT: a user that does not exist is no error.
pub(crate) fn delete_users(now: &Present<'_>, request: &Request) -> Commands {
    request.require("users")?;
    if !request.value("users").is_some_and(Value::is_array) {
        return Err(ApiError::new(ErrorCode::BadRequest, "users must be a list"));
    }
    let known = request.names("users").into_iter().filter(|user| now.state.user(user).is_some());
    Ok(known.map(|user| Command::DeleteUser { user }).collect())
}

/// Replaces a user's tags.
pub(crate) fn set_user_tags(_: &Present<'_>, request: &Request) -> Commands {
    Ok(vec![Command::SetUserTags { user: request.user()?, tags: request.tags()? }])
}

/// Makes or changes a user. COMPAT: an empty hash takes the password away, and so does none of a new user.
pub(crate) fn put_user(now: &Present<'_>, request: &Request) -> Commands {
    let (user, is_new) = (request.user()?, now.state.user(request.text("user")?).is_none());
    request.value("tags").ok_or_else(|| invalid_request("tags_not_present"))?;
    let given = |field| request.optional_text(field);
    let password = match (given("password")?, given("password_hash")?) {
        (Some(_), Some(_)) => {
            return Err(invalid_request("both_password_and_password_hash_are_provided"));
        }
        (Some(_), None) => Some(now.password(request)?),
        (None, Some("")) => Some(PasswordHash::default()),
        (None, Some(hash)) => Some(now.hashed(request, hash)?),
        (None, None) => is_new.then(PasswordHash::default),
    };
    let tags = request.tags()?;
    let tagged = Command::SetUserTags { user: user.clone(), tags };
    let named = password.map(|password| match is_new {
        true => Command::CreateUser { user, password, tags: Vec::new() },
        false => Command::SetPassword { user, password },
    });
    Ok(named.into_iter().chain([tagged]).collect())
}

impl Present<'_> {
    /// The hash of a request's password, or the hash that the request gives, unchecked by the rule.
    fn password(&self, request: &Request) -> Result<PasswordHash, ApiError> {
        let password = request.text("password")?;
        if request.flag("pre_hashed_password") {
            return self.hashed(request, password);
        }
        self.rule.check(password)?;
        Ok(PasswordHash::by(self.hashing, self.salt, password))
    }

    fn hashed(&self, request: &Request, hash: &str) -> Result<PasswordHash, ApiError> {
        let named = request.optional("hashing_algorithm").and_then(HashAlgorithm::of_name);
        PasswordHash::from_base64(named.unwrap_or(self.hashing), hash)
            .map_err(|_| ApiError::invalid("Could not Base64 decode provided password hash value"))
    }

    fn vhost(&self, request: &Request) -> Result<&Vhost, ApiError> {
        let name = request.vhost()?;
        self.state.vhost(&name).ok_or_else(|| MetaError::VhostNotFound(name).into())
    }
}

fn invalid_request(text: &str) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, text)
}

fn permissions(request: &Request, vhost: Name) -> Result<Command, ApiError> {
    let text = |field| request.text(field).map(str::to_owned);
    let (configure, write, read) = (text("configure")?, text("write")?, text("read")?);
    Ok(Command::SetPermissions { user: request.user()?, vhost, configure, write, read })
}

/// Says what a user may do in a virtual host.
pub(crate) fn set_permissions(_: &Present<'_>, request: &Request) -> Commands {
    request.require_all(&["configure", "write", "read"])?;
    Ok(vec![permissions(request, request.vhost()?)?])
}

/// Says what a user may do in every virtual host that exists.
pub(crate) fn set_permissions_globally(now: &Present<'_>, request: &Request) -> Commands {
    let user = request.user()?;
    if now.state.user(&user).is_none() {
        return Err(MetaError::UserNotFound(user).into());
    }
    now.state.vhosts().map(|vhost| permissions(request, vhost.name.clone())).collect()
}

/// Bars a user from a virtual host.
pub(crate) fn clear_permissions(_: &Present<'_>, request: &Request) -> Commands {
    Ok(vec![Command::ClearPermissions { user: request.user()?, vhost: request.vhost()? }])
}

/// Says which routing keys of an exchange that is there a user may write and read.
pub(crate) fn set_topic_permissions(now: &Present<'_>, request: &Request) -> Commands {
    request.require_all(&["exchange", "write", "read"])?;
    let text = |field| request.text(field).map(str::to_owned);
    let (user, vhost, exchange) = (request.user()?, request.vhost()?, request.name("exchange")?);
    let lacks = now.state.vhost(&vhost).is_some_and(|it| it.exchange(&exchange).is_none());
    if lacks && now.state.user(&user).is_some() {
        let text = format!("Exchange {exchange} does not exist");
        return Err(ApiError::invalid(text));
    }
    Ok(vec![Command::SetTopicPermissions {
        exchange,
        user,
        vhost,
        write: text("write")?,
        read: text("read")?,
    }])
}

/// Removes a user's topic permissions for an exchange, or for all exchanges.
pub(crate) fn clear_topic_permissions(_: &Present<'_>, request: &Request) -> Commands {
    let exchange = request.optional("exchange").map(Name::from);
    let (user, vhost) = (request.user()?, request.vhost()?);
    Ok(vec![Command::ClearTopicPermissions { user, vhost, exchange }])
}

/// Creates a virtual host. COMPAT: one that exists is left as it is, without complaint.
pub(crate) fn add_vhost(now: &Present<'_>, request: &Request) -> Commands {
    let vhost = request.vhost()?;
    if now.state.vhost(&vhost).is_some() {
        return Ok(Vec::new());
    }
    let metadata = amended(VhostMetadata::default(), request)?;
    Ok(vec![Command::CreateVhost { vhost, metadata }])
}

/// Makes or changes a virtual host. COMPAT: the user who makes a virtual host gets all permissions in it.
pub(crate) fn put_vhost(now: &Present<'_>, request: &Request) -> Commands {
    let vhost = request.vhost()?;
    if now.state.vhost(&vhost).is_some() {
        return update_vhost(now, request);
    }
    let mut commands = add_vhost(now, request)?;
    if let Some(user) = request.optional("caller") {
        let [configure, write, read] = [".*"; 3].map(str::to_owned);
        let user = Name::from(user);
        commands.push(Command::SetPermissions { user, vhost, configure, write, read });
    }
    Ok(commands)
}

/// Deletes a virtual host.
pub(crate) fn delete_vhost(_: &Present<'_>, request: &Request) -> Commands {
    Ok(vec![Command::DeleteVhost { vhost: request.vhost()? }])
}

/// Changes what is noted about a virtual host.
pub(crate) fn update_vhost(now: &Present<'_>, request: &Request) -> Commands {
    let metadata = amended(now.vhost(request)?.metadata.clone(), request)?;
    Ok(vec![Command::UpdateVhost { vhost: request.vhost()?, metadata }])
}

/// Keeps a virtual host from being deleted.
pub(crate) fn protect_vhost(now: &Present<'_>, request: &Request) -> Commands {
    protection(now, request, true)
}

/// Lets a virtual host be deleted again.
pub(crate) fn unprotect_vhost(now: &Present<'_>, request: &Request) -> Commands {
    protection(now, request, false)
}

fn protection(now: &Present<'_>, request: &Request, protected_from_deletion: bool) -> Commands {
    let known = now.vhost(request)?.metadata.clone();
    let metadata = VhostMetadata { protected_from_deletion, ..known };
    Ok(vec![Command::UpdateVhost { vhost: request.vhost()?, metadata }])
}

/// The tool knows as many types of queue as the node.
const _: () = assert!(api::QUEUE_TYPES.len() == QueueKind::ALL.len());

fn amended(mut metadata: VhostMetadata, request: &Request) -> Result<VhostMetadata, ApiError> {
    if let Some(description) = request.optional("description") {
        description.clone_into(&mut metadata.description);
    }
    if request.value("tags").is_some() {
        metadata.tags = request.tags()?;
    }
    let kind = request.optional("default_queue_type");
    let kind = kind.or_else(|| request.optional("defaultqueuetype"));
    // COMPAT: a node without a default answers `undefined`, which scripts send back.
    if let Some(kind) = kind.filter(|kind| *kind != "undefined") {
        if QueueKind::of_name(kind).is_none() {
            let text = format!("Unsupported default queue type: {kind} is not a valid queue type");
            return Err(ApiError::new(ErrorCode::Unsupported, text));
        }
        metadata.default_queue_type = Some(Name::from(kind));
    }
    if let Some(protected) = request.optional_flag("protected_from_deletion") {
        metadata.protected_from_deletion = protected;
    }
    Ok(metadata)
}

/// Sets a policy.
pub(crate) fn set_policy(_: &Present<'_>, request: &Request) -> Commands {
    policy(request, PolicyScope::User)
}

/// Sets a policy that overrides others.
pub(crate) fn set_operator_policy(_: &Present<'_>, request: &Request) -> Commands {
    policy(request, PolicyScope::Operator)
}

fn policy(request: &Request, scope: PolicyScope) -> Commands {
    let definition = json(request, "definition")?;
    let apply_to = request.optional("apply-to").or_else(|| request.optional("apply_to"));
    let policy = PolicySpec {
        name: request.name("name")?,
        pattern: request.text("pattern")?.to_owned(),
        apply_to: ApplyTo::parse(apply_to.unwrap_or("all"))
            .map_err(|error| ApiError::not_valid(&error.to_string()))?,
        definition,
        priority: request.integer("priority")?.unwrap_or_default(),
    };
    Ok(vec![Command::SetPolicy { scope, vhost: request.vhost()?, policy }])
}

/// Removes a policy.
pub(crate) fn clear_policy(_: &Present<'_>, request: &Request) -> Commands {
    let (scope, vhost, name) = (PolicyScope::User, request.vhost()?, request.name("name")?);
    Ok(vec![Command::ClearPolicy { scope, vhost, name }])
}

/// Removes an operator policy.
pub(crate) fn clear_operator_policy(_: &Present<'_>, request: &Request) -> Commands {
    let (scope, vhost, name) = (PolicyScope::Operator, request.vhost()?, request.name("name")?);
    Ok(vec![Command::ClearPolicy { scope, vhost, name }])
}

/// Sets a parameter. COMPAT: a component is there with the plugin that it belongs to, of which there is
/// none; the limits of a virtual host are a parameter of their own.
pub(crate) fn set_parameter(now: &Present<'_>, request: &Request) -> Commands {
    match request.text("component")? {
        limits::COMPONENT => limits::set_vhost(now, request, "value"),
        "policy" | "operator_policy" => {
            Err(ApiError::not_valid("policies may not be set using this method"))
        }
        unknown => Err(ApiError::not_valid(&format!("component {unknown} not found"))),
    }
}

/// Removes a parameter.
pub(crate) fn clear_parameter(now: &Present<'_>, request: &Request) -> Commands {
    if request.text("component")? == limits::COMPONENT {
        return clear_vhost_limits(now, request);
    }
    let (component, name) = (request.name("component")?, request.name("name")?);
    Ok(vec![Command::ClearParameter { vhost: request.vhost()?, component, name }])
}

/// Sets a global parameter.
pub(crate) fn set_global_parameter(_: &Present<'_>, request: &Request) -> Commands {
    let value = json(request, "value")?;
    Ok(vec![Command::SetGlobalParameter { name: request.name("name")?, value }])
}

/// Removes a global parameter.
pub(crate) fn clear_global_parameter(_: &Present<'_>, request: &Request) -> Commands {
    Ok(vec![Command::ClearGlobalParameter { name: request.name("name")? }])
}

/// Names the cluster.
pub(crate) fn set_cluster_name(_: &Present<'_>, request: &Request) -> Commands {
    let value = Json::parse(&json!(request.text("name")?).to_string())?;
    Ok(vec![Command::SetGlobalParameter { name: Name::from(meta::CLUSTER_NAME), value }])
}

/// The JSON of a field. COMPAT: RabbitMQ keeps the value and writes it anew, names sorted.
fn json(request: &Request, field: &str) -> Result<Json, ApiError> {
    Ok(Json::parse(&request.require(field)?.to_string())?)
}

/// Makes a change. The deletion of a virtual host goes in slices, and ends with the request's course.
///
/// # Errors
/// Why it is refused, or how far it came.
pub(crate) async fn define(
    management: &Management,
    change: Define,
    request: &Request,
) -> Result<(), ApiError> {
    let commands = commands(management, &management.broker.view().meta, change, request)?;
    management.apply(commands, &request.course).await
}

/// The definitions as they would be after a change.
///
/// # Errors
/// Why it would be refused.
pub(crate) fn foretell(
    management: &Management,
    now: &State,
    change: Define,
    request: &Request,
) -> Result<State, ApiError> {
    mgmt::foretell(now, &commands(management, now, change, request)?)
}

fn commands(management: &Management, state: &State, change: Define, request: &Request) -> Commands {
    let (hashing, rule, salt) = (management.hashing, &management.password_rule, salt()?);
    change(&Present { state, hashing, salt, rule }, request)
}

#[cfg(test)]
mod tests;
