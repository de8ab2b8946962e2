//! Errors as records, for the node that has asked for what was refused. A tag keeps its meaning forever.

use routing::BindingError;
use stdx::record::{Reader, RecordError, put_str};

use super::MetaError;
use crate::field::{Field, Read, enums, structs, values};
use crate::resource::{Permission, Resource, ResourceKind};

enums! {
    MetaError {
        0 VhostNotFound { 0: it };
        1 VhostExists { 0: it };
        2 VhostProtected { 0: it };
        3 UserNotFound { 0: it };
        4 UserExists { 0: it };
        5 NotFound { 0: it };
        6 QueueIdNotFound { 0: it };
        7 ItemNotFound { 0: it };
        8 Inequivalent { key: key, resource: resource, received: received, current: current };
        9 ReservedName { kind: kind, name: name };
        10 DefaultExchange {};
        11 SystemExchange { 0: it };
        12 Refused { permission: permission, resource: resource, user: user };
        13 TopicRefused { permission: permission, key: key, exchange: exchange, user: user };
        14 Locked { 0: it };
        15 InUse { 0: it };
        16 UnknownExchangeType { 0: it };
        17 InvalidArgument { key: key, resource: resource, reason: reason };
        18 InvalidArgumentType { key: key, found: found, resource: resource };
        19 ExchangeArguments { 0: it };
        20 UnsupportedArgument { key: key, resource: resource, module: module };
        21 InvalidProperty { property: property, resource: resource };
        22 BeyondBounds { 0: it };
        23 ServerNamed { 0: it };
        24 QueueTypeDisabled { resource: resource, kind: kind };
        25 LocalRandomDisabled {};
        26 QueueLimit { name: name, vhost: vhost, limit: limit };
        27 ClusterQueueLimit { name: name, limit: limit };
        28 ExchangeLimit { exchange: exchange, limit: limit };
        29 VhostLimit { vhost: vhost, limit: limit };
        30 NodeNotFound { 0: it };
        31 NodeExists { 0: it };
        32 NodeRestarted { no: no, boot: boot };
        33 LastNode { 0: it };
        34 Deprecated { 0: it };
        35 Binding { 0: it };
        36 InvalidName { what: what, max: max };
        37 InvalidPattern { pattern: pattern, reason: reason };
        38 NoSpace {};
        39 NoFiles { object: object, reason: reason };
        40 Invalid { 0: it };
        41 TimedOut { 0: it };
    }
    BindingError {
        0 TooManyHashes { key: key, hashes: hashes };
        1 TooManyWords { words: words };
        2 MatchValue { 0: it };
        3 MatchType { kind: kind, value: value };
        4 WeightNoInteger { 0: it };
        5 WeightNotPositive {};
        6 WeightTooLarge {};
        7 KeyNotEmpty { 0: it };
        8 Selector { 0: text, 1: reason };
        9 NotToExchanges {};
    }
}

values! {
    ResourceKind: put_str(|it| it.as_str()), str(|text| Self::of_name(text).ok_or(RecordError::Invalid));
    Permission: put_str(|it| it.as_str()), str(|text| Self::of_name(text).ok_or(RecordError::Invalid));
}

structs! {
    Resource { kind, name, vhost }
}

impl MetaError {
    /// Appends the error as a record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads the next error.
    ///
    /// # Errors
    /// A record that is cut, of a later version, or damaged.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, RecordError> {
        Field::read(r)
    }
}
