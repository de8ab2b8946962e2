//! Limits of a node's definitions. They are the node's own configuration: definitions that another node
//! has accepted, or this one before, stay.

use crate::command::Command;
use crate::error::MetaError;
use crate::limit::limit_reached;
use crate::queue_name::is_internal_name;
use crate::resource::Resource;
use crate::state::State;
use crate::vhost::Vhost;

/// The limits; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLimits {
    /// `vhost_max`.
    pub vhosts: Option<u64>,
    /// `cluster_queue_limit`, of all virtual hosts together.
    pub queues: Option<u64>,
    /// `cluster_exchange_limit`, of all virtual hosts together, predeclared ones included.
    pub exchanges: Option<u64>,
    /// Whether queues that are neither durable nor exclusive are refused
    /// (`deprecated_features.permit.transient_nonexcl_queues = false`).
    pub no_transient_queues: bool,
}

impl State {
    /// Refuses a command that would make one thing too many. What exists may be declared again.
    ///
    /// # Errors
    /// RabbitMQ's texts, with the limit.
    pub fn check_room(&self, limits: &NodeLimits, command: &Command) -> Result<(), MetaError> {
        if let Command::CreateVhost { vhost, .. } = command
            && let Some(limit) = limit_reached(limits.vhosts, || self.vhosts().count())
            && self.vhost(vhost).is_none()
        {
            return Err(MetaError::VhostLimit { vhost: vhost.clone(), limit });
        }
        if matches!(command, Command::DeclareQueue(declare) if is_internal_name(&declare.name)) {
            return Ok(());
        }
        if let Command::DeclareQueue(declare) = command
            && let Some(limit) = limit_reached(limits.queues, || self.queues().len())
            && self.queue(&declare.vhost, &declare.name).is_none()
        {
            return Err(MetaError::ClusterQueueLimit { name: declare.name.clone(), limit });
        }
        if let Command::DeclareQueue(declare) = command
            && limits.no_transient_queues
            && !declare.durable
            && declare.exclusive_owner.is_none()
            && self.queue(&declare.vhost, &declare.name).is_none()
        {
            return Err(MetaError::Deprecated("transient_nonexcl_queues"));
        }
        let in_vhost = |vhost: &Vhost| vhost.exchanges().len();
        if let Command::DeclareExchange(declare) = command
            && let Some(limit) =
                limit_reached(limits.exchanges, || self.vhosts().map(in_vhost).sum())
            && self.exchange(&declare.vhost, &declare.name).is_none()
        {
            let exchange = Resource::exchange(&declare.vhost, &declare.name);
            return Err(MetaError::ExchangeLimit { exchange, limit });
        }
        Ok(())
    }
}
