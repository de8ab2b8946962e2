//! The changes that one object of a document asks for.

use routing::{Name, RoutingKey};
use serde_json::{Map, Value};

use super::import::{ImportError, Importer};
use super::{OPERATOR_POLICY, VHOST_LIMITS, is_internal, table};
use crate::checks::parse_exchange_kind;
use crate::command::{
    BindingSpec, Command, DestinationName, ExchangeDeclare, NamedBy, QueueDeclare,
};
use crate::error::MetaError;
use crate::exchange::{NODE_EXCHANGES, is_reserved, node_exchange};
use crate::parameter::Json;
use crate::password::{HashAlgorithm, PasswordHash};
use crate::policy::{ApplyTo, PolicyScope, PolicySpec};
use crate::queue_type::QueueKind;
use crate::resource::Resource;
use crate::user::UserLimits;
use crate::vhost_metadata::{VhostLimits, VhostMetadata};

/// The changes that an object asks for.
#[derive(Default)]
pub(super) struct Wanted {
    /// The object, for people.
    pub(super) what: String,
    pub(super) commands: Vec<Command>,
    pub(super) warnings: Vec<String>,
    /// The exchange or queue that it would have been, but is left out.
    pub(super) left_out: Option<String>,
}

impl Wanted {
    fn new(what: impl Into<String>, commands: Vec<Command>) -> Self {
        Self { what: what.into(), commands, ..Self::default() }
    }

    fn nothing() -> Self {
        Self::default()
    }

    /// An object that cannot be here, and its bindings neither.
    fn left_out(resource: &Resource, why: &str) -> Self {
        let what = resource.to_string();
        let warnings = vec![format!("left out: {why}")];
        Self { left_out: Some(what.clone()), what, warnings, ..Self::default() }
    }
}

/// The fields of an object.
pub(super) struct Fields<'o>(pub(super) &'o Map<String, Value>);

/// The reason why a field cannot be used.
type Reason = String;

impl<'o> Fields<'o> {
    fn get(&self, field: &str) -> Option<&'o Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    fn text(&self, field: &str) -> Result<&'o str, Reason> {
        self.optional(field)?.ok_or_else(|| format!("`{field}` is missing"))
    }

    fn optional(&self, field: &str) -> Result<Option<&'o str>, Reason> {
        self.get(field).map_or(Ok(None), |value| match value.as_str() {
            Some(text) => Ok(Some(text)),
            None => Err(format!("`{field}` must be text, and is {value}")),
        })
    }

    fn name(&self, field: &str) -> Result<Name, Reason> {
        self.text(field).map(Name::from)
    }

    fn flag(&self, field: &str, default: bool) -> Result<bool, Reason> {
        self.get(field).map_or(Ok(default), |value| {
            value
                .as_bool()
                .ok_or_else(|| format!("`{field}` must be true or false, and is {value}"))
        })
    }

    /// A list of names, or one text with commas as older versions wrote it.
    fn names(&self, field: &str) -> Result<Vec<Name>, Reason> {
        let wrong = |value: &Value| format!("`{field}` must be a list of names, and is {value}");
        match self.get(field) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                Ok(names.map(Name::from).collect())
            }
            Some(Value::Array(items)) => {
                let name = |item: &Value| item.as_str().map(Name::from).ok_or_else(|| wrong(item));
                items.iter().map(name).collect()
            }
            Some(other) => Err(wrong(other)),
        }
    }

    fn limits(&self, field: &str) -> Result<Map<String, Value>, Reason> {
        match self.get(field) {
            None => Ok(Map::new()),
            Some(value) => limits(value),
        }
    }
}

fn limits(value: &Value) -> Result<Map<String, Value>, Reason> {
    match value {
        Value::Object(limits) => Ok(limits.clone()),
        Value::Array(none) if none.is_empty() => Ok(Map::new()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(format!("limits must be an object, and are {value}"))
        }
    }
}

/// Takes the named limits, whole numbers all.
fn numbers<const N: usize>(
    limits: &Map<String, Value>,
    names: [&str; N],
) -> Result<[Option<i64>; N], Reason> {
    if let Some(unknown) = limits.keys().find(|key| !names.contains(&key.as_str())) {
        return Err(format!("there is no limit `{unknown}`"));
    }
    let mut found = [None; N];
    for (slot, name) in found.iter_mut().zip(names) {
        *slot = match limits.get(name) {
            None | Some(Value::Null) => None,
            Some(value) => {
                Some(value.as_i64().ok_or_else(|| format!("`{name}` must be a number: {value}"))?)
            }
        };
    }
    Ok(found)
}

/// The changes that an object of this list asks for.
pub(super) fn wanted(
    importer: &mut Importer<'_>,
    list: &str,
    object: &Fields<'_>,
) -> Result<Wanted, ImportError> {
    let wanted = match list {
        "users" => user(importer, object),
        "vhosts" => vhost(importer, object),
        "permissions" => permissions(object),
        "topic_permissions" => topic_permissions(object),
        "parameters" => parameter(importer, object),
        "global_parameters" => global_parameter(object),
        "policies" => policy(importer, object),
        "queues" => queue(importer, object),
        "exchanges" => exchange(importer, object),
        _ => binding(importer, object),
    };
    wanted.map_err(|reason| ImportError::new(described(importer, list, object), reason))
}

/// An object whose fields may be anything.
fn described(importer: &Importer<'_>, list: &str, object: &Fields<'_>) -> String {
    let text = |field| object.0.get(field).and_then(Value::as_str);
    let mut described = list.strip_suffix("ies").map_or_else(
        || list.strip_suffix('s').unwrap_or(list).to_owned(),
        |start| format!("{start}y"),
    );
    let described_by = ["name", "user", "source", "destination"];
    if let Some(name) = described_by.into_iter().find_map(text) {
        described.push_str(&format!(" '{name}'"));
    }
    if let Some(vhost) = importer.into.as_deref().or_else(|| text("vhost")) {
        described.push_str(&format!(" in vhost '{vhost}'"));
    }
    described
}

/// The virtual host an object is in.
fn vhost_of(importer: &Importer<'_>, object: &Fields<'_>) -> Result<Name, Reason> {
    if let Some(vhost) = &importer.into {
        return Ok(vhost.clone());
    }
    let name = object.optional("vhost")?.map(Name::from);
    let name = name.ok_or_else(|| {
        "it names no virtual host, as in a document about a single one: \
         say into which virtual host that is to be imported"
            .to_owned()
    })?;
    if importer.import.then.vhost(&name).is_none() {
        return Err(format!("there is no virtual host '{name}'"));
    }
    Ok(name)
}

fn user(importer: &mut Importer<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let name = object.name("name")?;
    let (password, tags) = (password(importer, &name, object)?, object.names("tags")?);
    let [max_connections, max_channels] =
        numbers(&object.limits("limits")?, ["max-connections", "max-channels"])?;
    let limits = UserLimits { max_connections, max_channels };
    let user = || name.clone();
    let mut commands = if importer.import.then.user(&name).is_some() {
        vec![
            Command::SetPassword { user: user(), password },
            Command::SetUserTags { user: user(), tags },
        ]
    } else {
        vec![Command::CreateUser { user: user(), password, tags }]
    };
    commands.push(Command::SetUserLimits { user: user(), limits });
    Ok(Wanted::new(format!("user '{name}'"), commands))
}

fn password(
    importer: &mut Importer<'_>,
    user: &Name,
    object: &Fields<'_>,
) -> Result<PasswordHash, Reason> {
    if let Some(password) = object.optional("password")? {
        let present = importer.import.then.user(user).map(|user| &user.password);
        // The same password with another salt would be no change.
        let is_so = |hash: &&PasswordHash| hash.verify(password.as_bytes());
        return Ok(match present.filter(is_so) {
            Some(hash) => hash.clone(),
            None => PasswordHash::by(importer.hashing, (importer.salt)(), password),
        });
    }
    let algorithm = match object.optional("hashing_algorithm")? {
        Some(name) => HashAlgorithm::of_name(name)
            .ok_or_else(|| format!("the hashing algorithm `{name}` is not known"))?,
        None if importer.hashes_are_old => HashAlgorithm::Md5,
        None => importer.hashing,
    };
    let hash = object.optional("password_hash")?.unwrap_or_default();
    PasswordHash::from_base64(algorithm, hash)
        .map_err(|_| "`password_hash` is not the base64 form of a salted hash".to_owned())
}

/// COMPAT: description and tags stand beside the metadata in documents of older versions.
fn vhost(importer: &Importer<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let name = object.name("name")?;
    let mut wanted = Wanted::new(format!("vhost '{name}'"), Vec::new());
    let empty = Map::new();
    let metadata = match object.get("metadata") {
        None => &empty,
        Some(Value::Object(metadata)) => metadata,
        Some(other) => return Err(format!("`metadata` must be an object, and is {other}")),
    };
    let inner = Fields(metadata);
    let either = |field: &str| {
        if object.get(field).is_some() { object } else { &inner }
    };
    let kind = inner.optional("default_queue_type")?.or(object.optional("default_queue_type")?);
    // COMPAT: versions that keep no default write `undefined`.
    let kind = kind.filter(|kind| !matches!(*kind, "undefined" | ""));
    if let Some(kind) = kind.filter(|kind| QueueKind::of_name(kind).is_none()) {
        wanted
            .warnings
            .push(format!("its default queue type `{kind}` is left out: there is no such type"));
    }
    let metadata = VhostMetadata {
        description: either("description").optional("description")?.unwrap_or_default().to_owned(),
        tags: either("tags").names("tags")?,
        default_queue_type: kind.and_then(QueueKind::of_name).map(|kind| Name::from(kind.as_str())),
        protected_from_deletion: inner.flag("protected_from_deletion", false)?,
    };
    let exists = importer.import.then.vhost(&name).is_some();
    wanted.commands.push(if exists {
        Command::UpdateVhost { vhost: name.clone(), metadata }
    } else {
        Command::CreateVhost { vhost: name.clone(), metadata }
    });
    let limits = object.limits("limits")?;
    if !limits.is_empty() {
        wanted.commands.push(vhost_limits(name, &limits)?);
    }
    Ok(wanted)
}

fn vhost_limits(vhost: Name, limits: &Map<String, Value>) -> Result<Command, Reason> {
    let [max_connections, max_queues] = numbers(limits, ["max-connections", "max-queues"])?;
    let limits = VhostLimits { max_connections, max_queues };
    Ok(Command::SetVhostLimits { vhost, limits })
}

fn permissions(object: &Fields<'_>) -> Result<Wanted, Reason> {
    let (user, vhost) = (object.name("user")?, object.name("vhost")?);
    let what = format!("permissions of user '{user}' in vhost '{vhost}'");
    let text = |field| object.text(field).map(str::to_owned);
    let (configure, write, read) = (text("configure")?, text("write")?, text("read")?);
    let command = Command::SetPermissions { user, vhost, configure, write, read };
    Ok(Wanted::new(what, vec![command]))
}

fn topic_permissions(object: &Fields<'_>) -> Result<Wanted, Reason> {
    let (user, vhost) = (object.name("user")?, object.name("vhost")?);
    let exchange = object.name("exchange")?;
    let what =
        format!("topic permissions of user '{user}' at exchange '{exchange}' in vhost '{vhost}'");
    let text = |field| object.text(field).map(str::to_owned);
    let (write, read) = (text("write")?, text("read")?);
    let command = Command::SetTopicPermissions { user, vhost, exchange, write, read };
    Ok(Wanted::new(what, vec![command]))
}

fn json(value: &Value) -> Result<Json, Reason> {
    Json::parse(&value.to_string()).map_err(|error| error.to_string())
}

/// COMPAT: limits and operator policies are parameters.
fn parameter(importer: &Importer<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let vhost = vhost_of(importer, object)?;
    let (component, name) = (object.name("component")?, object.name("name")?);
    let value = object.0.get("value").ok_or("`value` is missing")?;
    let what = format!("parameter '{name}' of '{component}' in vhost '{vhost}'");
    if (component.as_str(), name.as_str()) == VHOST_LIMITS {
        return Ok(Wanted::new(what, vec![vhost_limits(vhost, &limits(value)?)?]));
    }
    let scope = match component.as_str() {
        OPERATOR_POLICY => Some(PolicyScope::Operator),
        "policy" => Some(PolicyScope::User),
        _ => None,
    };
    if let Some(scope) = scope {
        let Value::Object(value) = value else {
            return Err("`value` must be an object".to_owned());
        };
        return policy_in((vhost, name), scope, &Fields(value));
    }
    // COMPAT: as in RabbitMQ without the plugin that the parameter is for.
    let warnings = vec![format!("left out: component {component} not found")];
    Ok(Wanted { what, warnings, ..Wanted::default() })
}

fn global_parameter(object: &Fields<'_>) -> Result<Wanted, Reason> {
    let name = object.name("name")?;
    if is_internal(&name) {
        return Ok(Wanted::nothing());
    }
    let what = format!("global parameter '{name}'");
    let value = json(object.0.get("value").ok_or("`value` is missing")?)?;
    Ok(Wanted::new(what, vec![Command::SetGlobalParameter { name, value }]))
}

fn policy(importer: &Importer<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let place = (vhost_of(importer, object)?, object.name("name")?);
    policy_in(place, PolicyScope::User, object)
}

/// Settings that are not known any more, as those of mirrored queues, are left out: a policy must not
/// keep a document of an older version from being imported.
fn policy_in(
    (vhost, name): (Name, Name),
    scope: PolicyScope,
    object: &Fields<'_>,
) -> Result<Wanted, Reason> {
    let kind = match scope {
        PolicyScope::User => "policy",
        PolicyScope::Operator => "operator policy",
    };
    let mut wanted = Wanted::new(format!("{kind} '{name}' in vhost '{vhost}'"), Vec::new());
    let Some(Value::Object(definition)) = object.get("definition") else {
        return Err("`definition` must be an object".to_owned());
    };
    let (known, unknown): (Map<_, _>, Map<_, _>) = (definition.clone().into_iter())
        .partition(|(key, _)| PolicySpec::is_known_setting(key, scope));
    for key in unknown.keys() {
        wanted.warnings.push(format!("the setting `{key}` is left out: it is not known"));
    }
    if known.is_empty() {
        wanted.warnings.push("left out: no setting remains".to_owned());
        return Ok(wanted);
    }
    let priority = match object.get("priority") {
        None => 0,
        Some(value) => {
            value.as_i64().ok_or_else(|| format!("{value} priority must be a number"))?
        }
    };
    let apply_to = object.optional("apply-to")?.unwrap_or("all");
    let policy = PolicySpec {
        name,
        pattern: object.text("pattern")?.to_owned(),
        apply_to: ApplyTo::parse(apply_to).map_err(|error| error.to_string())?,
        definition: json(&Value::Object(known))?,
        priority,
    };
    wanted.commands.push(Command::SetPolicy { scope, vhost, policy });
    Ok(wanted)
}

fn queue(importer: &Importer<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let (vhost, name) = (vhost_of(importer, object)?, object.name("name")?);
    let resource = Resource::queue(&vhost, &name);
    if is_reserved(&name) || object.flag("exclusive", false)? {
        return Ok(Wanted::left_out(&resource, "it belongs to a connection or to the broker"));
    }
    let arguments = table::from_json(object.get("arguments"))?;
    let command = Command::DeclareQueue(QueueDeclare {
        vhost,
        name,
        named_by: NamedBy::Client,
        durable: object.flag("durable", true)?,
        auto_delete: object.flag("auto_delete", false)?,
        exclusive_owner: None,
        arguments,
        id: None,
    });
    Ok(Wanted::new(resource.to_string(), vec![command]))
}

fn exchange(importer: &Importer<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let (vhost, name) = (vhost_of(importer, object)?, object.name("name")?);
    if name.is_empty() || is_reserved(&name) {
        // They are there from the start.
        return Ok(Wanted::nothing());
    }
    let resource = Resource::exchange(&vhost, &name);
    let kind = match parse_exchange_kind(object.text("type")?) {
        Ok(kind) => kind,
        Err(MetaError::UnknownExchangeType(kind)) => {
            let why = format!("exchanges of type `{kind}` are not offered");
            return Ok(Wanted::left_out(&resource, &why));
        }
        Err(error) => return Err(error.to_string()),
    };
    let command = Command::DeclareExchange(ExchangeDeclare {
        vhost,
        name,
        kind,
        durable: object.flag("durable", true)?,
        auto_delete: object.flag("auto_delete", false)?,
        internal: object.flag("internal", false)?,
        arguments: table::from_json(object.get("arguments"))?,
    });
    Ok(Wanted::new(resource.to_string(), vec![command]))
}

fn binding(importer: &Importer<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let (vhost, source) = (vhost_of(importer, object)?, object.name("source")?);
    if source.is_empty() {
        // Every queue has that binding.
        return Ok(Wanted::nothing());
    }
    let name = object.name("destination")?;
    let kind = object.text("destination_type")?;
    let what = format!("binding from exchange '{source}' to {kind} '{name}' in vhost '{vhost}'");
    let destination = match kind {
        "queue" => DestinationName::Queue(name),
        "exchange" => DestinationName::Exchange(name),
        other => return Err(format!("`destination_type` cannot be `{other}`")),
    };
    // Documents do not have these exchanges, and a node makes them only after it has imported.
    let is_there = importer.import.then.exchange(&vhost, &source).is_some();
    let mut commands = Vec::new();
    if NODE_EXCHANGES.contains(&source.as_str()) && !is_there {
        commands.push(Command::DeclareExchange(node_exchange(vhost.clone(), &source)));
    }
    let command = Command::Bind(BindingSpec {
        vhost,
        source,
        destination,
        key: RoutingKey::from(object.optional("routing_key")?.unwrap_or_default()),
        arguments: table::from_json(object.get("arguments"))?,
        by: None,
    });
    commands.push(command);
    Ok(Wanted::new(what, commands))
}
