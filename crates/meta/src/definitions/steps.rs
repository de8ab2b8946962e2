//! The changes that one object of a document asks for.

use amqp091::Table;
use routing::{Name, RoutingKey};
use serde_json::{Map, Value};
use std::cell::RefCell;

use super::error::ImportError;
use super::rules::ImportRules;
use super::{OPERATOR_POLICY, VHOST_LIMITS, is_internal, table};
use crate::checks::parse_exchange_kind;
use crate::command::{
    BindingSpec, Command, DestinationName, ExchangeDeclare, NamedBy, QueueDeclare,
};
use crate::error::MetaError;
use crate::exchange::{NODE_EXCHANGES, is_reserved, node_exchange};
use crate::parameter::Json;
use crate::password::{HashAlgorithm, PasswordHash, Salt};
use crate::policy::{ApplyTo, PolicyScope, PolicySpec};
use crate::queue_home::QueueHome;
use crate::queue_name::without_line_ends;
use crate::queue_type::QueueKind;
use crate::resource::Resource;
use crate::setting::QUEUE_TYPE_ARGUMENT;
use crate::state::State;
use crate::user::UserLimits;
use crate::vhost_metadata::{VhostLimits, VhostMetadata};

/// The circumstances that an object's changes depend on.
pub(super) struct Target<'i> {
    pub(super) rules: ImportRules<'i>,
    /// Whether hashes that name no algorithm are MD5.
    pub(super) hashes_are_old: bool,
    pub(super) salt: &'i mut dyn FnMut() -> Salt,
    /// The state as it is with the changes of all objects before.
    pub(super) then: State,
}

/// The changes that an object asks for.
#[derive(Default)]
pub(super) struct Wanted {
    /// The object, for people.
    pub(super) what: String,
    pub(super) commands: Vec<Command>,
    pub(super) warnings: Vec<String>,
    /// The reason why RabbitMQ refuses it; it is left out here, unless it is read strictly.
    pub(super) refused: Option<String>,
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

    /// An object that is not taken.
    fn refused(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), refused: Some(why.into()), ..Self::default() }
    }

    /// An object that cannot be here, and its bindings neither.
    fn left_out(resource: &Resource, why: &str) -> Self {
        let what = resource.to_string();
        let warnings = vec![format!("skipped: {why}")];
        Self { left_out: Some(what.clone()), what, warnings, ..Self::default() }
    }
}

/// The fields of an object. What is of another type than it should be, but can only mean one thing, is taken
/// for that and told.
pub(super) struct Fields<'o> {
    pub(super) object: &'o Map<String, Value>,
    /// Warnings of values that were taken for others.
    pub(super) coerced: &'o RefCell<Vec<String>>,
}

/// The reason why a field cannot be used.
type Reason = String;

impl<'o> Fields<'o> {
    fn get(&self, field: &str) -> Option<&'o Value> {
        self.object.get(field).filter(|value| !value.is_null())
    }

    /// The fields of an object in this one.
    const fn within(&self, object: &'o Map<String, Value>) -> Self {
        Self { object, coerced: self.coerced }
    }

    fn taken<T: std::fmt::Display>(&self, field: &str, given: &Value, value: T) -> T {
        self.coerced.borrow_mut().push(format!("`{field}` is {given}, read as {value}"));
        value
    }

    fn text(&self, field: &str) -> Result<&'o str, Reason> {
        self.optional(field)?.ok_or_else(|| format!("`{field}` is missing"))
    }

    fn optional(&self, field: &str) -> Result<Option<&'o str>, Reason> {
        self.get(field).map_or(Ok(None), |value| match value.as_str() {
            Some(text) => Ok(Some(text)),
            None => Err(format!("`{field}` must be a string, not {value}")),
        })
    }

    fn name(&self, field: &str) -> Result<Name, Reason> {
        self.text(field).map(Name::from)
    }

    /// The name of a queue or exchange.
    fn resource_name(&self, field: &str) -> Result<Name, Reason> {
        let name = without_line_ends(self.text(field)?.as_bytes());
        Ok(Name::from(String::from_utf8_lossy(&name).as_ref()))
    }

    fn flag(&self, field: &str, default: bool) -> Result<bool, Reason> {
        let Some(value) = self.get(field) else { return Ok(default) };
        match value.as_str() {
            Some("true") => Ok(self.taken(field, value, true)),
            Some("false") => Ok(self.taken(field, value, false)),
            _ => value
                .as_bool()
                .ok_or_else(|| format!("`{field}` must be true or false, not {value}")),
        }
    }

    fn number(&self, field: &str) -> Result<Option<i64>, Reason> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let whole = whole(value).or_else(|| value.as_str()?.trim().parse().ok());
        match (value.as_i64(), whole) {
            (Some(number), _) => Ok(Some(number)),
            (None, Some(number)) => Ok(Some(self.taken(field, value, number))),
            (None, None) => Err(format!("`{field}` must be a number, not {value}")),
        }
    }

    /// The arguments of a queue, exchange or binding.
    fn arguments(&self) -> Result<Table, Reason> {
        let mut arguments = self.get("arguments").cloned();
        // COMPAT: versions that know no default type write `undefined`, clients that choose none nothing.
        let kind = arguments.as_ref().and_then(|it| it.get(QUEUE_TYPE_ARGUMENT)).cloned();
        if let Some(kind) = kind.filter(|kind| {
            kind.is_null() || kind.as_str().is_some_and(|kind| matches!(kind, "" | "undefined"))
        }) {
            arguments
                .as_mut()
                .and_then(Value::as_object_mut)
                .map(|it| it.remove(QUEUE_TYPE_ARGUMENT));
            self.taken(QUEUE_TYPE_ARGUMENT, &kind, "the default type");
        }
        table::from_json(arguments.as_ref())
    }

    /// A list of names, or one text with commas as older versions wrote it.
    fn names(&self, field: &str) -> Result<Vec<Name>, Reason> {
        let wrong = |value: &Value| format!("`{field}` must be a list of names, not {value}");
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

    /// The named limits of a field, whole numbers all; `None` without any.
    fn limits<const N: usize>(
        &self,
        field: &str,
        names: [&str; N],
    ) -> Result<Option<[Option<i64>; N]>, Reason> {
        let limits = match self.get(field) {
            None => return Ok(None),
            Some(Value::Array(none)) if none.is_empty() => return Ok(None),
            Some(Value::Object(limits)) => limits,
            Some(other) => return Err(format!("limits must be an object, not {other}")),
        };
        if let Some(unknown) = limits.keys().find(|key| !names.contains(&key.as_str())) {
            return Err(format!("unknown limit `{unknown}`"));
        }
        let mut found = [None; N];
        for (slot, name) in found.iter_mut().zip(names) {
            *slot = self.within(limits).number(name)?;
        }
        Ok((!limits.is_empty()).then_some(found))
    }
}

/// A number without a fraction that is written as if it had one.
#[expect(clippy::cast_possible_truncation, reason = "what is cut off is compared")]
fn whole(value: &Value) -> Option<i64> {
    let number = value.as_f64().filter(|number| number.abs() < 9e15 && number.fract() == 0.0)?;
    Some(number as i64)
}

/// The changes that an object of this list asks for.
pub(super) fn wanted(
    target: &mut Target<'_>,
    list: &str,
    object: &Fields<'_>,
) -> Result<Wanted, ImportError> {
    let wanted = match list {
        "users" => user(target, object),
        "vhosts" => vhost(target, object),
        "permissions" => permissions(object),
        "topic_permissions" => topic_permissions(object),
        "parameters" => parameter(target, object),
        "global_parameters" => global_parameter(object),
        "policies" => policy(target, object),
        "queues" => queue(target, object),
        "exchanges" => exchange(target, object),
        _ => binding(target, object),
    };
    wanted.map_err(|reason| ImportError::new(described(target, list, object), reason))
}

/// An object whose fields may be anything.
fn described(target: &Target<'_>, list: &str, object: &Fields<'_>) -> String {
    let text = |field| object.object.get(field).and_then(Value::as_str);
    let mut described = list.strip_suffix("ies").map_or_else(
        || list.strip_suffix('s').unwrap_or(list).to_owned(),
        |start| format!("{start}y"),
    );
    let described_by = ["name", "user", "source", "destination"];
    if let Some(name) = described_by.into_iter().find_map(text) {
        described.push_str(&format!(" '{name}'"));
    }
    if let Some(vhost) = target.rules.into.map(Name::as_str).or_else(|| text("vhost")) {
        described.push_str(&format!(" in vhost '{vhost}'"));
    }
    described
}

/// The virtual host an object is in.
fn vhost_of(target: &Target<'_>, object: &Fields<'_>) -> Result<Name, Reason> {
    if let Some(vhost) = target.rules.into {
        return Ok(vhost.clone());
    }
    let name = object.optional("vhost")?.map(Name::from);
    let name = name.ok_or_else(|| {
        "no virtual host, as in the definitions of one virtual host: import the document into a virtual host"
            .to_owned()
    })?;
    if target.then.vhost(&name).is_none() {
        return Err(format!("virtual host '{name}' does not exist"));
    }
    Ok(name)
}

fn user(target: &mut Target<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let name = object.name("name")?;
    let (password, tags) = (password(target, &name, object)?, object.names("tags")?);
    let limits = object.limits("limits", ["max-connections", "max-channels"])?;
    let [max_connections, max_channels] = limits.unwrap_or_default();
    let limits = UserLimits { max_connections, max_channels };
    let user = || name.clone();
    let mut commands = if target.then.user(&name).is_some() {
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
    target: &mut Target<'_>,
    user: &Name,
    object: &Fields<'_>,
) -> Result<PasswordHash, Reason> {
    if let Some(password) = object.optional("password")? {
        let present = target.then.user(user).map(|user| &user.password);
        // A password that the present hash verifies keeps that hash: another salt would be no change.
        let is_so = |hash: &&PasswordHash| hash.verify(password.as_bytes());
        return Ok(match present.filter(is_so) {
            Some(hash) => hash.clone(),
            None => PasswordHash::by(target.rules.hashing, (target.salt)(), password),
        });
    }
    let algorithm = match object.optional("hashing_algorithm")? {
        Some(name) => HashAlgorithm::of_name(name)
            .ok_or_else(|| format!("unknown hashing algorithm `{name}`"))?,
        None if target.hashes_are_old => HashAlgorithm::Md5,
        None => target.rules.hashing,
    };
    let hash = object.optional("password_hash")?.unwrap_or_default();
    PasswordHash::from_base64(algorithm, hash)
        .map_err(|_| "`password_hash` is not the base64 form of a salted hash".to_owned())
}

/// COMPAT: description and tags stand beside the metadata in documents of older versions.
fn vhost(target: &Target<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let name = object.name("name")?;
    let mut wanted = Wanted::new(format!("vhost '{name}'"), Vec::new());
    let empty = Map::new();
    let metadata = match object.get("metadata") {
        None => &empty,
        Some(Value::Object(metadata)) => metadata,
        Some(other) => return Err(format!("`metadata` must be an object, not {other}")),
    };
    let inner = object.within(metadata);
    let either = |field: &str| {
        if object.get(field).is_some() { object } else { &inner }
    };
    let kind = inner.optional("default_queue_type")?.or(object.optional("default_queue_type")?);
    // COMPAT: versions that keep no default write `undefined`.
    let kind = kind.filter(|kind| !matches!(*kind, "undefined" | ""));
    if let Some(kind) = kind.filter(|kind| QueueKind::of_name(kind).is_none()) {
        wanted.warnings.push(format!("skipped its default queue type `{kind}`: unknown type"));
    }
    let metadata = VhostMetadata {
        description: either("description").optional("description")?.unwrap_or_default().to_owned(),
        tags: either("tags").names("tags")?,
        default_queue_type: kind.and_then(QueueKind::of_name).map(|kind| Name::from(kind.as_str())),
        protected_from_deletion: inner.flag("protected_from_deletion", false)?,
    };
    let exists = target.then.vhost(&name).is_some();
    wanted.commands.push(if exists {
        Command::UpdateVhost { vhost: name.clone(), metadata }
    } else {
        Command::CreateVhost { vhost: name.clone(), metadata }
    });
    // COMPAT: who makes a virtual host may use it.
    let importer_there = target.rules.importer.filter(|it| target.then.user(it).is_some());
    if let Some(user) = importer_there.filter(|_| !exists) {
        let [configure, write, read] = [".*"; 3].map(str::to_owned);
        let (user, vhost) = (Name::from(user), name.clone());
        wanted.commands.push(Command::SetPermissions { user, vhost, configure, write, read });
    }
    wanted.commands.extend(vhost_limits(name, object, "limits")?);
    Ok(wanted)
}

fn vhost_limits(vhost: Name, object: &Fields<'_>, field: &str) -> Result<Option<Command>, Reason> {
    let limits = object.limits(field, ["max-connections", "max-queues"])?;
    Ok(limits.map(|[max_connections, max_queues]| {
        let limits = VhostLimits { max_connections, max_queues };
        Command::SetVhostLimits { vhost, limits }
    }))
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
    let exchange = object.resource_name("exchange")?;
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
fn parameter(target: &Target<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let vhost = vhost_of(target, object)?;
    let (component, name) = (object.name("component")?, object.name("name")?);
    let value = object.object.get("value").ok_or("`value` is missing")?;
    let what = format!("parameter '{name}' of '{component}' in vhost '{vhost}'");
    if (component.as_str(), name.as_str()) == VHOST_LIMITS {
        let none = VhostLimits::default();
        let command = vhost_limits(vhost.clone(), object, "value")?;
        let command = command.unwrap_or(Command::SetVhostLimits { vhost, limits: none });
        return Ok(Wanted::new(what, vec![command]));
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
        return policy_in(target, scope, vhost, name, &object.within(value));
    }
    // COMPAT: as in RabbitMQ without the plugin that the parameter is for.
    let why = format!("component {component} not found");
    if OF_PLUGINS.contains(&component.as_str()) {
        let warnings = vec![format!("skipped: {why}")];
        return Ok(Wanted { what, warnings, ..Wanted::default() });
    }
    Ok(Wanted::refused(what, why))
}

/// Components of plugins that RabbitMQ has, and settings in policies that are for them.
const OF_PLUGINS: [&str; 7] = [
    "shovel",
    "federation-upstream",
    "federation-upstream-set",
    "federation",
    "federation-upstream-pattern",
    "federation-max-hops",
    "exchange-delete-in-progress",
];

fn global_parameter(object: &Fields<'_>) -> Result<Wanted, Reason> {
    let name = object.name("name")?;
    if is_internal(&name) {
        return Ok(Wanted::nothing());
    }
    let what = format!("global parameter '{name}'");
    let value = json(object.object.get("value").ok_or("`value` is missing")?)?;
    Ok(Wanted::new(what, vec![Command::SetGlobalParameter { name, value }]))
}

fn policy(target: &Target<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let (vhost, name) = (vhost_of(target, object)?, object.name("name")?);
    policy_in(target, PolicyScope::User, vhost, name, object)
}

/// Settings that are not known any more, as those of mirrored queues, are left out: a policy must not
/// keep a document of an older version from being imported.
fn policy_in(
    target: &Target<'_>,
    scope: PolicyScope,
    vhost: Name,
    name: Name,
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
    let refused: Vec<&str> =
        unknown.keys().map(String::as_str).filter(|key| !OF_PLUGINS.contains(key)).collect();
    if target.rules.is_strict && !refused.is_empty() {
        let why = format!("{} are not recognised policy settings", refused.join(", "));
        return Ok(Wanted::refused(wanted.what, why));
    }
    for key in unknown.keys() {
        wanted.warnings.push(format!("skipped unknown setting `{key}`"));
    }
    if known.is_empty() {
        wanted.warnings.push("skipped: no setting remains".to_owned());
        return Ok(wanted);
    }
    let not_a_number = |_| {
        let given = object.get("priority").cloned().unwrap_or_default();
        format!("{given} priority must be a number")
    };
    let priority = object.number("priority").map_err(not_a_number)?.unwrap_or_default();
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

fn queue(target: &Target<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let (vhost, name) = (vhost_of(target, object)?, object.resource_name("name")?);
    let resource = Resource::queue(&vhost, &name);
    if is_reserved(&name) || object.flag("exclusive", false)? {
        return Ok(Wanted::left_out(&resource, "exclusive and amq.* queues are not imported"));
    }
    let arguments = object.arguments()?;
    let command = Command::DeclareQueue(QueueDeclare {
        vhost,
        name,
        named_by: NamedBy::Client,
        durable: object.flag("durable", true)?,
        auto_delete: object.flag("auto_delete", false)?,
        exclusive_owner: None,
        arguments,
        id: None,
        home: QueueHome::default(),
    });
    Ok(Wanted::new(resource.to_string(), vec![command]))
}

fn exchange(target: &Target<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let (vhost, name) = (vhost_of(target, object)?, object.resource_name("name")?);
    if name.is_empty() || is_reserved(&name) {
        // Predeclared exchanges exist from the start.
        return Ok(Wanted::nothing());
    }
    let resource = Resource::exchange(&vhost, &name);
    let kind = match parse_exchange_kind(object.text("type")?) {
        Ok(kind) => kind,
        Err(MetaError::UnknownExchangeType(kind)) => {
            let why = format!("exchange type `{kind}` is not supported");
            let left_out = Some(resource.to_string());
            return Ok(Wanted { left_out, ..Wanted::refused(resource.to_string(), why) });
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
        arguments: object.arguments()?,
    });
    Ok(Wanted::new(resource.to_string(), vec![command]))
}

fn binding(target: &Target<'_>, object: &Fields<'_>) -> Result<Wanted, Reason> {
    let (vhost, source) = (vhost_of(target, object)?, object.resource_name("source")?);
    if source.is_empty() {
        // Every queue has that binding.
        return Ok(Wanted::nothing());
    }
    let name = object.resource_name("destination")?;
    let kind = object.text("destination_type")?;
    let what = format!("binding from exchange '{source}' to {kind} '{name}' in vhost '{vhost}'");
    let destination = match kind {
        // COMPAT: such a queue is not imported, and one of that name is another client's.
        "queue" if is_reserved(&name) => {
            let warnings = vec!["skipped: the queue belongs to the broker".to_owned()];
            return Ok(Wanted { what, warnings, ..Wanted::default() });
        }
        "queue" => DestinationName::Queue(name),
        "exchange" => DestinationName::Exchange(name),
        other => return Err(format!("`destination_type` cannot be `{other}`")),
    };
    // Documents do not have these exchanges, and a node makes them only after it has imported.
    let is_there = target.then.exchange(&vhost, &source).is_some();
    let mut commands = Vec::new();
    if NODE_EXCHANGES.contains(&source.as_str()) && !is_there {
        commands.push(Command::DeclareExchange(node_exchange(vhost.clone(), &source)));
    }
    let command = Command::Bind(BindingSpec {
        vhost,
        source,
        destination,
        key: RoutingKey::from(object.optional("routing_key")?.unwrap_or_default()),
        arguments: object.arguments()?,
        by: None,
    });
    commands.push(command);
    Ok(Wanted::new(what, commands))
}
