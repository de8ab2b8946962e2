//! Sharding: a policy with `shards-per-node` gives an exchange queues of its own, the shards, which are bound
//! to it, and which consumers reach under the exchange's name. As RabbitMQ's plugin `rabbitmq_sharding` does
//! it.
//!
//! A shard is known by its name alone, whatever node is in it: definitions of another node, and a node whose
//! name has changed, keep theirs.

use imbl::OrdMap;
use routing::{Name, RoutingKey};
use serde_json::{Map, Value};

use crate::setting::{SHARDS_KEY, SHARDS_PER_NODE_MAX, SHARDS_ROUTING_KEY};

/// How an exchange is sharded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// The shards that are to exist, numbered from 0; without shards nobody can consume.
    pub n_shards: u32,
    /// The key that the shards are bound with.
    pub routing_key: RoutingKey,
}

/// The sharded exchanges of a virtual host.
pub type Sharded = OrdMap<Name, Sharding>;

impl Sharding {
    /// The sharding that the policies in force for an exchange ask for.
    pub(crate) fn of(policy: &Map<String, Value>) -> Option<Self> {
        let n_shards = policy.get(SHARDS_KEY)?.as_i64()?.clamp(0, SHARDS_PER_NODE_MAX);
        let routing_key = policy.get(SHARDS_ROUTING_KEY).and_then(Value::as_str);
        Some(Self {
            n_shards: u32::try_from(n_shards).unwrap_or_default(),
            routing_key: RoutingKey::from(routing_key.unwrap_or_default()),
        })
    }
}

/// The name of a shard that is made on `node`.
#[must_use]
pub fn shard_name(exchange: &str, node: &str, index: u32) -> Name {
    Name::from(format!("{}{node} - {index}", shard_prefix(exchange)))
}

/// The beginning of the names of an exchange's shards.
pub(crate) fn shard_prefix(exchange: &str) -> String {
    format!("sharding: {exchange} - ")
}

/// The number of the shard with that name behind its prefix, which has a node and the number.
pub(crate) fn shard_index(rest: &str) -> Option<u32> {
    let (node, number) = rest.rsplit_once(" - ")?;
    // Another exchange's name may begin with this one's; a node's has no spaces.
    let index = number.parse().ok().filter(|_| !node.contains(' '))?;
    (u32::to_string(&index) == number).then_some(index)
}
