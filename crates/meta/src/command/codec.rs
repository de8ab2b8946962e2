//! Commands as records.
//!
//! ```text
//! command = version:u8 tag:u8 fields        name, text = len:u32 bytes      list = n:u32 item*
//! option  = 0 | 1 value                     table = len:u32 entries as in AMQP 0-9-1
//! ```
//! A tag keeps its meaning forever. A changed set of fields is a new tag or a new version.

use amqp091::{Table, TableRef};
use routing::{ExchangeKind, Name, QueueId, RoutingKey};
use stdx::record::{
    Reader, RecordError, put_bool, put_bytes, put_i64, put_str, put_u8, put_u32, put_u64,
};

use super::{BindingSpec, Command, DestinationName, ExchangeDeclare, NamedBy, QueueDeclare};
use crate::parameter::Json;
use crate::password::{HashAlgorithm, PasswordHash};
use crate::policy::{ApplyTo, PolicyScope, PolicySpec};
use crate::queue_type::ConnectionId;
use crate::user::UserLimits;
use crate::vhost_metadata::{VhostLimits, VhostMetadata};

/// The version written in front of every command.
const VERSION: u8 = 1;

impl Command {
    /// Appends the command as a record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u8(out, VERSION);
        put_u8(out, self.tag());
        match self {
            Self::CreateVhost { vhost, metadata } | Self::UpdateVhost { vhost, metadata } => {
                put_metadata(out, vhost, metadata);
            }
            Self::DeleteVhost { vhost: name }
            | Self::DeleteUser { user: name }
            | Self::ClearGlobalParameter { name } => put_str(out, name),
            Self::SetVhostLimits { vhost, limits } => {
                put_limits(out, vhost, [limits.max_connections, limits.max_queues]);
            }
            Self::SetPolicy { scope, vhost, policy } => put_policy(out, *scope, vhost, policy),
            Self::ClearPolicy { scope, vhost, name } => {
                put_scope(out, *scope);
                put_strings(out, &[vhost, name]);
            }
            Self::SetParameter { vhost, component, name, value } => {
                put_strings(out, &[vhost, component, name, value.as_str()]);
            }
            Self::ClearParameter { vhost, component, name } => {
                put_strings(out, &[vhost, component, name]);
            }
            Self::SetGlobalParameter { name, value } => put_strings(out, &[name, value.as_str()]),
            Self::CreateUser { user, password, tags } => {
                put_password(out, user, password);
                put_names(out, tags);
            }
            Self::SetPassword { user, password } => put_password(out, user, password),
            Self::SetUserTags { user, tags } => put_tags(out, user, tags),
            Self::SetUserLimits { user, limits } => {
                put_limits(out, user, [limits.max_connections, limits.max_channels]);
            }
            Self::SetPermissions { user, vhost, configure, write, read } => {
                put_strings(out, &[user, vhost, configure, write, read]);
            }
            Self::ClearPermissions { user, vhost } => put_strings(out, &[user, vhost]),
            Self::SetTopicPermissions { user, vhost, exchange, write, read } => {
                put_strings(out, &[user, vhost, exchange, write, read]);
            }
            Self::ClearTopicPermissions { user, vhost, exchange } => {
                put_strings(out, &[user, vhost]);
                put_option(out, exchange.as_ref(), |out, exchange| put_str(out, exchange));
            }
            Self::DeclareExchange(declare) => put_exchange(out, declare),
            Self::DeleteExchange { vhost, name, if_unused } => {
                put_strings(out, &[vhost, name]);
                put_bool(out, *if_unused);
            }
            Self::DeclareQueue(declare) => put_queue(out, declare),
            Self::DeleteQueue { vhost, name, by } => {
                put_strings(out, &[vhost, name]);
                put_connection(out, *by);
            }
            Self::DeleteQueueById { id: QueueId(id) }
            | Self::DeleteExclusiveQueues { owner: ConnectionId(id) } => put_u64(out, *id),
            Self::Bind(spec) | Self::Unbind(spec) => put_binding(out, spec),
        }
    }

    const fn tag(&self) -> u8 {
        match self {
            Self::CreateVhost { .. } => 1,
            Self::UpdateVhost { .. } => 2,
            Self::DeleteVhost { .. } => 3,
            Self::SetVhostLimits { .. } => 4,
            Self::CreateUser { .. } => 5,
            Self::SetPassword { .. } => 6,
            Self::SetUserTags { .. } => 7,
            Self::SetUserLimits { .. } => 8,
            Self::DeleteUser { .. } => 9,
            Self::SetPermissions { .. } => 10,
            Self::ClearPermissions { .. } => 11,
            Self::SetTopicPermissions { .. } => 12,
            Self::ClearTopicPermissions { .. } => 13,
            Self::SetPolicy { .. } => 14,
            Self::ClearPolicy { .. } => 15,
            Self::SetParameter { .. } => 16,
            Self::ClearParameter { .. } => 17,
            Self::SetGlobalParameter { .. } => 18,
            Self::ClearGlobalParameter { .. } => 19,
            Self::DeclareExchange(_) => 20,
            Self::DeleteExchange { .. } => 21,
            Self::DeclareQueue(_) => 22,
            Self::DeleteQueue { .. } => 23,
            Self::DeleteQueueById { .. } => 24,
            Self::DeleteExclusiveQueues { .. } => 25,
            Self::Bind(_) => 26,
            Self::Unbind(_) => 27,
        }
    }

    /// Reads a record that holds exactly one command.
    ///
    /// # Errors
    /// A record that is cut, of a later version, or damaged.
    pub fn decode(record: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(record);
        if reader.u8()? != VERSION {
            return Err(RecordError::Invalid);
        }
        let tag = reader.u8()?;
        let r = &mut reader;
        let command = match tag {
            1..=4 | 14..=19 => settings(tag, r)?,
            5..=13 => access(tag, r)?,
            20..=27 => resources(tag, r)?,
            0 | 28..=u8::MAX => return Err(RecordError::Invalid),
        };
        if reader.is_empty() { Ok(command) } else { Err(RecordError::Invalid) }
    }
}

type Read<T> = Result<T, RecordError>;

fn settings(tag: u8, r: &mut Reader<'_>) -> Read<Command> {
    Ok(match tag {
        1 => Command::CreateVhost { vhost: name(r)?, metadata: metadata(r)? },
        2 => Command::UpdateVhost { vhost: name(r)?, metadata: metadata(r)? },
        3 => Command::DeleteVhost { vhost: name(r)? },
        4 => {
            let vhost = name(r)?;
            let [max_connections, max_queues] = limits(r)?;
            Command::SetVhostLimits { vhost, limits: VhostLimits { max_connections, max_queues } }
        }
        14 => Command::SetPolicy { scope: scope(r)?, vhost: name(r)?, policy: policy(r)? },
        15 => Command::ClearPolicy { scope: scope(r)?, vhost: name(r)?, name: name(r)? },
        16 => Command::SetParameter {
            vhost: name(r)?,
            component: name(r)?,
            name: name(r)?,
            value: json(r)?,
        },
        17 => Command::ClearParameter { vhost: name(r)?, component: name(r)?, name: name(r)? },
        18 => Command::SetGlobalParameter { name: name(r)?, value: json(r)? },
        19 => Command::ClearGlobalParameter { name: name(r)? },
        _ => return Err(RecordError::Invalid),
    })
}

fn access(tag: u8, r: &mut Reader<'_>) -> Read<Command> {
    Ok(match tag {
        5 => Command::CreateUser { user: name(r)?, password: password(r)?, tags: names(r)? },
        6 => Command::SetPassword { user: name(r)?, password: password(r)? },
        7 => Command::SetUserTags { user: name(r)?, tags: names(r)? },
        8 => {
            let user = name(r)?;
            let [max_connections, max_channels] = limits(r)?;
            Command::SetUserLimits { user, limits: UserLimits { max_connections, max_channels } }
        }
        9 => Command::DeleteUser { user: name(r)? },
        10 => Command::SetPermissions {
            user: name(r)?,
            vhost: name(r)?,
            configure: text(r)?,
            write: text(r)?,
            read: text(r)?,
        },
        11 => Command::ClearPermissions { user: name(r)?, vhost: name(r)? },
        12 => Command::SetTopicPermissions {
            user: name(r)?,
            vhost: name(r)?,
            exchange: name(r)?,
            write: text(r)?,
            read: text(r)?,
        },
        13 => Command::ClearTopicPermissions {
            user: name(r)?,
            vhost: name(r)?,
            exchange: option(r, name)?,
        },
        _ => return Err(RecordError::Invalid),
    })
}

fn resources(tag: u8, r: &mut Reader<'_>) -> Read<Command> {
    Ok(match tag {
        20 => Command::DeclareExchange(exchange(r)?),
        21 => Command::DeleteExchange { vhost: name(r)?, name: name(r)?, if_unused: r.bool()? },
        22 => Command::DeclareQueue(queue(r)?),
        23 => Command::DeleteQueue { vhost: name(r)?, name: name(r)?, by: connection(r)? },
        24 => Command::DeleteQueueById { id: QueueId(r.u64()?) },
        25 => Command::DeleteExclusiveQueues { owner: ConnectionId(r.u64()?) },
        26 => Command::Bind(binding(r)?),
        27 => Command::Unbind(binding(r)?),
        _ => return Err(RecordError::Invalid),
    })
}

fn put_strings(out: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        put_str(out, text);
    }
}

fn name(r: &mut Reader<'_>) -> Read<Name> {
    r.str().map(Name::from)
}

fn text(r: &mut Reader<'_>) -> Read<String> {
    r.str().map(str::to_owned)
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    put_bool(out, value.is_some());
    if let Some(value) = value {
        put(out, value);
    }
}

fn option<T>(r: &mut Reader<'_>, read: impl FnOnce(&mut Reader<'_>) -> Read<T>) -> Read<Option<T>> {
    if r.bool()? { read(r).map(Some) } else { Ok(None) }
}

fn put_connection(out: &mut Vec<u8>, connection: Option<ConnectionId>) {
    put_option(out, connection, |out, ConnectionId(id)| put_u64(out, id));
}

fn connection(r: &mut Reader<'_>) -> Read<Option<ConnectionId>> {
    option(r, |r| r.u64().map(ConnectionId))
}

fn put_names(out: &mut Vec<u8>, names: &[Name]) {
    put_u32(out, u32::try_from(names.len()).expect("tags are few"));
    for name in names {
        put_str(out, name);
    }
}

fn names(r: &mut Reader<'_>) -> Read<Vec<Name>> {
    let n = r.u32()?;
    (0..n).map(|_| name(r)).collect()
}

fn put_tags(out: &mut Vec<u8>, user: &str, tags: &[Name]) {
    put_str(out, user);
    put_names(out, tags);
}

fn put_limits(out: &mut Vec<u8>, of: &str, limits: [Option<i64>; 2]) {
    put_str(out, of);
    for limit in limits {
        put_option(out, limit, put_i64);
    }
}

fn limits(r: &mut Reader<'_>) -> Read<[Option<i64>; 2]> {
    Ok([option(r, |r| r.i64())?, option(r, |r| r.i64())?])
}

fn put_metadata(out: &mut Vec<u8>, vhost: &str, metadata: &VhostMetadata) {
    put_str(out, vhost);
    put_str(out, &metadata.description);
    put_names(out, &metadata.tags);
    put_option(out, metadata.default_queue_type.as_ref(), |out, kind| put_str(out, kind));
    put_bool(out, metadata.protected_from_deletion);
}

fn metadata(r: &mut Reader<'_>) -> Read<VhostMetadata> {
    Ok(VhostMetadata {
        description: text(r)?,
        tags: names(r)?,
        default_queue_type: option(r, name)?,
        protected_from_deletion: r.bool()?,
    })
}

fn put_password(out: &mut Vec<u8>, user: &str, password: &PasswordHash) {
    put_str(out, user);
    put_u8(
        out,
        match password.algorithm() {
            HashAlgorithm::Sha256 => 0,
            HashAlgorithm::Sha512 => 1,
            HashAlgorithm::Md5 => 2,
        },
    );
    put_bytes(out, password.salted());
}

fn password(r: &mut Reader<'_>) -> Read<PasswordHash> {
    let algorithm = match r.u8()? {
        0 => HashAlgorithm::Sha256,
        1 => HashAlgorithm::Sha512,
        2 => HashAlgorithm::Md5,
        3..=u8::MAX => return Err(RecordError::Invalid),
    };
    r.bytes().map(|salted| PasswordHash::from_parts(algorithm, salted))
}

fn json(r: &mut Reader<'_>) -> Read<Json> {
    Json::parse(r.str()?).map_err(|_| RecordError::Invalid)
}

fn put_scope(out: &mut Vec<u8>, scope: PolicyScope) {
    put_bool(out, scope == PolicyScope::Operator);
}

fn scope(r: &mut Reader<'_>) -> Read<PolicyScope> {
    Ok(if r.bool()? { PolicyScope::Operator } else { PolicyScope::User })
}

fn put_policy(out: &mut Vec<u8>, scope: PolicyScope, vhost: &Name, policy: &PolicySpec) {
    put_scope(out, scope);
    put_strings(out, &[vhost, &policy.name, &policy.pattern, policy.apply_to.as_str()]);
    put_str(out, policy.definition.as_str());
    put_i64(out, policy.priority);
}

fn policy(r: &mut Reader<'_>) -> Read<PolicySpec> {
    Ok(PolicySpec {
        name: name(r)?,
        pattern: text(r)?,
        apply_to: ApplyTo::parse(r.str()?).map_err(|_| RecordError::Invalid)?,
        definition: json(r)?,
        priority: r.i64()?,
    })
}

fn put_table(out: &mut Vec<u8>, table: &Table) {
    put_bytes(out, &table.to_bytes());
}

fn table(r: &mut Reader<'_>) -> Read<Table> {
    let table = TableRef::parse(r.bytes()?).map_err(|_| RecordError::Invalid)?;
    table.to_owned().map_err(|_| RecordError::Invalid)
}

fn put_exchange(out: &mut Vec<u8>, declare: &ExchangeDeclare) {
    put_strings(out, &[&declare.vhost, &declare.name, declare.kind.as_str()]);
    for flag in [declare.durable, declare.auto_delete, declare.internal] {
        put_bool(out, flag);
    }
    put_table(out, &declare.arguments);
}

fn exchange(r: &mut Reader<'_>) -> Read<ExchangeDeclare> {
    Ok(ExchangeDeclare {
        vhost: name(r)?,
        name: name(r)?,
        kind: ExchangeKind::parse(r.str()?).ok_or(RecordError::Invalid)?,
        durable: r.bool()?,
        auto_delete: r.bool()?,
        internal: r.bool()?,
        arguments: table(r)?,
    })
}

fn put_queue(out: &mut Vec<u8>, declare: &QueueDeclare) {
    put_strings(out, &[&declare.vhost, &declare.name]);
    let by_server = declare.named_by == NamedBy::Server;
    for flag in [by_server, declare.durable, declare.auto_delete] {
        put_bool(out, flag);
    }
    put_connection(out, declare.exclusive_owner);
    put_table(out, &declare.arguments);
    put_option(out, declare.id, |out, QueueId(id)| put_u64(out, id));
}

fn queue(r: &mut Reader<'_>) -> Read<QueueDeclare> {
    Ok(QueueDeclare {
        vhost: name(r)?,
        name: name(r)?,
        named_by: if r.bool()? { NamedBy::Server } else { NamedBy::Client },
        durable: r.bool()?,
        auto_delete: r.bool()?,
        exclusive_owner: connection(r)?,
        arguments: table(r)?,
        id: option(r, |r| r.u64().map(QueueId))?,
    })
}

fn put_binding(out: &mut Vec<u8>, spec: &BindingSpec) {
    let (to_queue, destination) = match &spec.destination {
        DestinationName::Queue(name) => (true, name),
        DestinationName::Exchange(name) => (false, name),
    };
    put_strings(out, &[&spec.vhost, &spec.source]);
    put_bool(out, to_queue);
    put_str(out, destination);
    put_bytes(out, &spec.key);
    put_table(out, &spec.arguments);
    put_connection(out, spec.by);
}

fn binding(r: &mut Reader<'_>) -> Read<BindingSpec> {
    Ok(BindingSpec {
        vhost: name(r)?,
        source: name(r)?,
        destination: if r.bool()? {
            DestinationName::Queue(name(r)?)
        } else {
            DestinationName::Exchange(name(r)?)
        },
        key: RoutingKey::from(r.bytes()?),
        arguments: table(r)?,
        by: connection(r)?,
    })
}
