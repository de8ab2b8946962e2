//! The shards that there are, and the commands by which they follow the policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use amqp091::Table;
use imbl::ordmap::DiffItem;
use routing::{Name, RoutingKey};

use super::State;
use crate::command::{BindingSpec, Command, DestinationName, NamedBy, QueueDeclare};
use crate::queue::QueueDef;
use crate::queue_home::QueueHome;
use crate::sharding::{Sharded, Sharding, shard_index, shard_name, shard_prefix};
use crate::vhost::Vhost;

/// An exchange that is sharded otherwise than before: its shards are still to be made, bound or unbound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resharding {
    /// Its virtual host.
    pub vhost: Name,
    /// The exchange.
    pub exchange: Name,
    /// How it was sharded.
    pub before: Option<Sharding>,
}

/// The queues that are shards of an exchange, with their numbers, by name. Those that one connection has for
/// itself are none.
pub fn shards<'v>(
    vhost: &'v Vhost,
    exchange: &str,
) -> impl Iterator<Item = (u32, &'v Arc<QueueDef>)> {
    let prefix = shard_prefix(exchange);
    let named = vhost.queues_from(Name::from(prefix.as_str())).map_while(move |queue| {
        let index = queue.name.strip_prefix(prefix.as_str()).map(shard_index)?;
        Some(index.filter(|_| queue.exclusive_owner.is_none()).map(|index| (index, queue)))
    });
    named.flatten()
}

impl State {
    /// The exchanges of a virtual host that are sharded otherwise than in `before`.
    #[must_use]
    pub fn resharded(&self, vhost: &Name, before: &Sharded) -> Vec<Resharding> {
        let Some(now) = self.vhost(vhost).map(|vhost| vhost.policies.sharded()) else {
            return Vec::new();
        };
        let changed = before.diff(now).map(|change| {
            let (exchange, before) = match change {
                DiffItem::Add(exchange, _) => (exchange, None),
                DiffItem::Update { old: (exchange, before), .. }
                | DiffItem::Remove(exchange, before) => (exchange, Some(before.clone())),
            };
            Resharding { vhost: vhost.clone(), exchange: exchange.clone(), before }
        });
        changed.collect()
    }

    /// The commands by which an exchange gets the shards and bindings that it should have now, and loses
    /// bindings that it had: what is missing is declared and bound, and then what is bound with another key
    /// than before is unbound, so that messages always find a shard. COMPAT: fewer shards delete and unbind
    /// nothing.
    #[must_use]
    pub fn reshard(&self, change: &Resharding, node: &str) -> Vec<Command> {
        let Some(vhost) = self.vhost(&change.vhost) else { return Vec::new() };
        let Some(exchange) = vhost.exchange(&change.exchange) else { return Vec::new() };
        let now = vhost.policies.sharded().get(&change.exchange);
        let mut names: BTreeMap<u32, Vec<Name>> = BTreeMap::new();
        for (index, queue) in shards(vhost, &change.exchange) {
            names.entry(index).or_default().push(queue.name.clone());
        }
        let mut commands = Vec::new();
        for index in 0..now.map_or(0, |now| now.n_shards) {
            names.entry(index).or_insert_with(|| {
                let name = shard_name(&change.exchange, node, index);
                commands.push(change.declare(name.clone(), exchange.durable));
                vec![name]
            });
        }
        let of = |sharding: &Sharding| names.range(..sharding.n_shards).flat_map(|(_, it)| it);
        if let Some(now) = now {
            let bind = |name| Command::Bind(change.binding(name, &now.routing_key));
            commands.extend(of(now).map(bind));
        }
        let had = change.before.as_ref();
        if let Some(had) = had.filter(|had| Some(&had.routing_key) != now.map(|it| &it.routing_key))
        {
            let unbind = |name| Command::Unbind(change.binding(name, &had.routing_key));
            commands.extend(of(had).map(unbind));
        }
        commands
    }
}

impl Resharding {
    fn declare(&self, name: Name, durable: bool) -> Command {
        Command::DeclareQueue(QueueDeclare {
            vhost: self.vhost.clone(),
            name,
            named_by: NamedBy::Server,
            durable,
            auto_delete: false,
            exclusive_owner: None,
            arguments: Table::new(),
            id: None,
            home: QueueHome::default(),
        })
    }

    fn binding(&self, queue: &Name, key: &RoutingKey) -> BindingSpec {
        BindingSpec {
            vhost: self.vhost.clone(),
            source: self.exchange.clone(),
            destination: DestinationName::Queue(queue.clone()),
            key: key.clone(),
            arguments: Table::new(),
            by: None,
        }
    }
}
