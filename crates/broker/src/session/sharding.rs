//! Sharded exchanges as clients use them: under the exchange's name stand its shards, whether or not a queue
//! has that name too. As the interceptor of RabbitMQ's plugin does it, before permissions are asked for, so
//! that a client needs those for the shard.

use super::client::Client;
use exchanges::ShardPlace;
use meta::{Name, Permission, Sharding, Vhost, shard_name, shards};
use queues::QueueRef;
use routing::erlang;
use session::{ChannelId, Error, ErrorKind, ShortString};

impl Client {
    /// The queue that a client consumes from: of a sharded exchange the shard with the fewest consumers.
    pub(super) fn queue_to_consume(
        &self,
        channel: ChannelId,
        name: &ShortString,
    ) -> Result<Name, Error> {
        let name = self.queue_name(channel, name)?;
        Ok(self.least_used_shard(&name)?.map_or(name, |(shard, _)| shard))
    }

    /// The queue to attach a consumer to, and the consumer's place there if the queue is a shard.
    pub(super) async fn queue_to_attach(
        &self,
        channel: ChannelId,
        name: &ShortString,
    ) -> Result<(QueueRef, Option<ShardPlace<'_>>), Error> {
        let name = self.queue_name(channel, name)?;
        let (queue, place) = self.least_used_shard(&name)?.unzip();
        let queue = queue.unwrap_or(name);
        self.access.require_on_queue(Permission::Read, &queue)?;
        Ok((self.access.find_loaded_queue(&queue).await?, place))
    }

    /// The shard with the fewest consumers, and a place there, if `name` is that of a sharded exchange.
    fn least_used_shard(&self, name: &Name) -> Result<Option<(Name, ShardPlace<'_>)>, Error> {
        let Some((vhost, sharding)) = self.sharding_of(name) else { return Ok(None) };
        // COMPAT: those left from when there were to be more are passed over.
        let wanted = shards(vhost, name).filter(|(index, _)| *index < sharding.n_shards);
        let queues = wanted.filter_map(|(_, def)| self.access.view.queue_by_id(def.id));
        let used = queues.map(|queue| (queue.id(), queue.local_stat().n_consumers));
        let place = self.access.broker.exchanges.keep_place(used);
        let found = place.and_then(|place| {
            let queue = self.access.view.queue_by_id(place.shard)?;
            Some((queue.def().name.clone(), place))
        });
        found.map(Some).ok_or_else(|| refused("Error finding sharded queue for", name))
    }

    /// The queue that is declared by a name: of a sharded exchange its first shard.
    pub(super) fn queue_to_declare(&self, name: Name) -> Name {
        let Some((vhost, _)) = self.sharding_of(&name) else { return name };
        let first = shards(vhost, &name).find(|(index, _)| *index == 0);
        let none = || shard_name(&name, &self.access.broker.limits().node, 0);
        first.map_or_else(none, |(_, shard)| shard.name.clone())
    }

    /// The queue of a name for what cannot be done with several: `what` says so of a sharded exchange.
    pub(super) fn unsharded_queue(
        &self,
        channel: ChannelId,
        name: &ShortString,
        what: &str,
    ) -> Result<Name, Error> {
        let name = self.queue_name(channel, name)?;
        if self.sharding_of(&name).is_some() {
            return Err(refused(&format!("Can't {what} sharded queue"), &name));
        }
        Ok(name)
    }

    /// How the exchange of a name is sharded, and the definitions of its virtual host.
    fn sharding_of(&self, name: &Name) -> Option<(&Vhost, &Sharding)> {
        let vhost = self.access.own_vhost()?;
        Some((vhost, vhost.policies.sharded().get(name)?))
    }
}

/// COMPAT: the plugin's texts, with the name as Erlang prints it.
fn refused(what: &str, name: &Name) -> Error {
    let text = format!("{what}: {}", erlang::binary(name.as_bytes()));
    Error::new(ErrorKind::PreconditionFailed, text)
}
