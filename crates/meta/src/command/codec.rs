//! Commands as records.
//!
//! ```text
//! command = version:u8 tag:u8 fields
//! ```
//! A tag keeps its meaning forever. A changed set of fields is a new tag or a new version. The declaration of
//! a queue has two tags: one is for queues with the home that a lone node gives, which is not written.

use routing::{Name, RoutingKey};
use stdx::record::{Reader, RecordError, put_bool, put_bytes, put_str, put_u8, put_u64};

use super::{BindingSpec, Command, DestinationName, ExchangeDeclare, NamedBy, QueueDeclare};
use crate::field::{Field, Read, structs, values};
use crate::nodes::ClusterAddress;
use crate::parameter::Json;
use crate::password::{HashAlgorithm, PasswordHash};
use crate::policy::{ApplyTo, PolicyScope, PolicySpec};
use crate::queue_home::QueueHome;
use crate::queue_type::ConnectionId;
use crate::user::UserLimits;
use crate::vhost_metadata::{VhostLimits, VhostMetadata};

/// The version written in front of every command.
const VERSION: u8 = 1;

/// The table of commands: tag, name and fields in the order in which they are written; then those that
/// are one struct; then the one that is a struct with a home, by its tags without and with that.
macro_rules! commands {
    (
        $($tag:literal $name:ident { $($field:ident),* };)*
        structs: $($struct_tag:literal $struct:ident;)*
        homed: $tag_without:literal $tag_with:literal $homed:ident($homed_struct:ident);
    ) => {
        impl Command {
            /// Appends the command as a record.
            pub fn encode(&self, out: &mut Vec<u8>) {
                put_u8(out, VERSION);
                match self {
                    $(Self::$name { $($field),* } => {
                        put_u8(out, $tag);
                        $($field.put(out);)*
                    })*
                    $(Self::$struct(fields) => {
                        put_u8(out, $struct_tag);
                        fields.put(out);
                    })*
                    Self::$homed(fields) => {
                        if fields.home == QueueHome::default() {
                            put_u8(out, $tag_without);
                        } else {
                            put_u8(out, $tag_with);
                            fields.home.put(out);
                        }
                        fields.put(out);
                    }
                }
            }

            /// The name of its kind.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)*
                    $(Self::$struct(_) => stringify!($struct),)*
                    Self::$homed(_) => stringify!($homed),
                }
            }

            fn read(r: &mut Reader<'_>) -> Read<Self> {
                Ok(match r.u8()? {
                    $($tag => Self::$name { $($field: Field::read(r)?),* },)*
                    $($struct_tag => Self::$struct(Field::read(r)?),)*
                    $tag_without => Self::$homed(Field::read(r)?),
                    $tag_with => {
                        let home = Field::read(r)?;
                        Self::$homed($homed_struct { home, ..Field::read(r)? })
                    }
                    _ => return Err(RecordError::Invalid),
                })
            }
        }
    };
}

commands! {
    1 CreateVhost { vhost, metadata };
    2 UpdateVhost { vhost, metadata };
    3 DeleteVhost { vhost };
    4 SetVhostLimits { vhost, limits };
    5 CreateUser { user, password, tags };
    6 SetPassword { user, password };
    7 SetUserTags { user, tags };
    8 SetUserLimits { user, limits };
    9 DeleteUser { user };
    10 SetPermissions { user, vhost, configure, write, read };
    11 ClearPermissions { user, vhost };
    12 SetTopicPermissions { user, vhost, exchange, write, read };
    13 ClearTopicPermissions { user, vhost, exchange };
    14 SetPolicy { scope, vhost, policy };
    15 ClearPolicy { scope, vhost, name };
    16 SetParameter { vhost, component, name, value };
    17 ClearParameter { vhost, component, name };
    18 SetGlobalParameter { name, value };
    19 ClearGlobalParameter { name };
    21 DeleteExchange { vhost, name, if_unused };
    23 DeleteQueue { vhost, name, by };
    24 DeleteQueueById { id };
    25 DeleteExclusiveQueues { owner };
    // 28 was in definitions up to format 5, see `legacy.rs`.
    30 NodeJoined { no, name, address, token };
    31 NodeBooted { no, boot };
    32 NodeForgotten { no };
    33 NodeDrained { no, on };
    34 Level { n };
    structs:
    20 DeclareExchange;
    26 Bind;
    27 Unbind;
    homed:
    22 29 DeclareQueue(QueueDeclare);
}

impl Command {
    /// Reads a record that holds exactly one command.
    ///
    /// # Errors
    /// A record that is cut, of a later version, or damaged.
    pub fn decode(record: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(record);
        if reader.u8()? != VERSION {
            return Err(RecordError::Invalid);
        }
        let command = Self::read(&mut reader)?;
        if reader.is_empty() { Ok(command) } else { Err(RecordError::Invalid) }
    }
}

structs! {
    VhostMetadata { description, tags, default_queue_type, protected_from_deletion }
    VhostLimits { max_connections, max_queues }
    UserLimits { max_connections, max_channels }
    PolicySpec { name, pattern, apply_to, definition, priority }
    ExchangeDeclare { vhost, name, kind, durable, auto_delete, internal, arguments }
    QueueDeclare { vhost, name, named_by, durable, auto_delete, exclusive_owner, arguments, id; home }
    QueueHome { node, boot }
    ClusterAddress { host, port }
    BindingSpec { vhost, source, destination, key, arguments, by }
}

values! {
    ConnectionId: put_u64(|it| it.0), u64(|id| Ok(Self(id)));
    RoutingKey: put_bytes(|it| it), bytes(|bytes| Ok(Self::from(bytes)));
    ApplyTo: put_str(|it| it.as_str()), str(|text| Self::parse(text).or(Err(RecordError::Invalid)));
    Json: put_str(|it| it.as_str()), str(|text| Self::parse(text).or(Err(RecordError::Invalid)));
    PolicyScope: put_bool(|it| *it == Self::Operator),
        bool(|is_operator| Ok(if is_operator { Self::Operator } else { Self::User }));
    NamedBy: put_bool(|it| *it == Self::Server),
        bool(|is_server| Ok(if is_server { Self::Server } else { Self::Client }));
}

impl Field for PasswordHash {
    fn put(&self, out: &mut Vec<u8>) {
        put_u8(
            out,
            match self.algorithm {
                HashAlgorithm::Sha256 => 0,
                HashAlgorithm::Sha512 => 1,
                HashAlgorithm::Md5 => 2,
            },
        );
        put_bytes(out, &self.salted);
    }

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        let algorithm = match r.u8()? {
            0 => HashAlgorithm::Sha256,
            1 => HashAlgorithm::Sha512,
            2 => HashAlgorithm::Md5,
            3..=u8::MAX => return Err(RecordError::Invalid),
        };
        r.bytes().map(|salted| Self::from_parts(algorithm, salted))
    }
}

impl Field for DestinationName {
    fn put(&self, out: &mut Vec<u8>) {
        let (Self::Queue(name) | Self::Exchange(name)) = self;
        put_bool(out, matches!(self, Self::Queue(_)));
        name.put(out);
    }

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        let is_queue = r.bool()?;
        Name::read(r).map(if is_queue { Self::Queue } else { Self::Exchange })
    }
}
