//! The whole state, its lookups, and the way in for commands.

mod access;
mod resources;
mod settings;
mod snapshot;
mod unbinding;

pub use snapshot::{RestoreError, SnapshotOf};

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use routing::{Binding, Destination, Name, QueueId, Routes};
use stdx::Now;

use crate::command::{Command, DestinationName};
use crate::error::MetaError;
use crate::exchange::ExchangeDef;
use crate::outcome::Outcome;
use crate::parameter::Json;
use crate::permission::{Permissions, TopicPermissions};
use crate::queue::{QueueDef, QueueIds};
use crate::queue_settings::QueueSettings;
use crate::queue_type::{ConnectionId, QueueVersion};
use crate::resource::Permission;
use crate::resource::{Resource, ResourceKind};
use crate::user::User;
use crate::vhost::{BindingView, Vhost};

/// Everything that exists. A clone is O(1) and never changes; a command costs O(log n), plus what it
/// removes.
#[derive(Clone, Debug, Default)]
pub struct State {
    vhosts: OrdMap<Name, Arc<Vhost>>,
    queues: OrdMap<QueueId, Arc<QueueDef>>,
    exclusive: OrdSet<(ConnectionId, QueueId)>,
    /// Durable queues whose messages are in the older form.
    older: OrdSet<QueueId>,
    users: OrdMap<Name, Arc<User>>,
    global_parameters: OrdMap<Name, Json>,
    ids: QueueIds,
}

/// Whether what is auto-delete goes when nothing uses it any more. In a log every removal is written
/// down on its own, because what is durable may have been kept alive by what is not; and what was
/// accepted when it happened is accepted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AutoDelete {
    Follow,
    AsLogged,
}

impl State {
    /// A state with nothing in it, not even a virtual host.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one command. The same commands give the same state on every node.
    ///
    /// # Errors
    /// Why it is refused; the state is unchanged then.
    pub fn apply(&mut self, _now: Now, command: &Command) -> Result<Outcome, MetaError> {
        self.change(command, AutoDelete::Follow)
    }

    /// Applies a command of [`Outcome::log`] or of a snapshot.
    ///
    /// # Errors
    /// Only if the log does not belong to this state.
    pub fn replay(&mut self, command: &Command) -> Result<(), MetaError> {
        self.change(command, AutoDelete::AsLogged).map(|_| ())
    }

    fn change(&mut self, command: &Command, mode: AutoDelete) -> Result<Outcome, MetaError> {
        // Settings and access are durable as they are.
        let logged = |done: Result<(), MetaError>| done.map(|()| Outcome::logged(command));
        match command {
            Command::CreateVhost { vhost, metadata } => logged(self.create_vhost(vhost, metadata)),
            Command::UpdateVhost { vhost, metadata } => logged(self.update_vhost(vhost, metadata)),
            Command::DeleteVhost { vhost } => {
                Ok(Outcome { removed: self.delete_vhost(vhost)?, ..Outcome::logged(command) })
            }
            Command::SetVhostLimits { vhost, limits } => {
                logged(self.set_vhost_limits(vhost, *limits))
            }
            Command::SetPolicy { scope, vhost, policy } => {
                logged(self.set_policy(*scope, vhost, policy, mode))
            }
            Command::ClearPolicy { scope, vhost, name } => {
                logged(self.clear_policy(*scope, vhost, name))
            }
            Command::SetParameter { vhost, component, name, value } => {
                logged(self.set_parameter(vhost, component, name, value))
            }
            Command::ClearParameter { vhost, component, name } => {
                logged(self.clear_parameter(vhost, component, name))
            }
            Command::SetGlobalParameter { name, value } => {
                logged(self.set_global_parameter(name, value))
            }
            Command::ClearGlobalParameter { name } => logged(self.clear_global_parameter(name)),
            Command::CreateUser { user, password, tags } => {
                logged(self.create_user(user, password, tags))
            }
            Command::SetPassword { user, password } => logged(self.set_password(user, password)),
            Command::SetUserTags { user, tags } => logged(self.set_user_tags(user, tags)),
            Command::SetUserLimits { user, limits } => logged(self.set_user_limits(user, *limits)),
            Command::DeleteUser { user } => {
                Ok(Outcome { removed: self.delete_user(user)?, ..Outcome::logged(command) })
            }
            Command::SetPermissions { user, vhost, configure, write, read } => {
                logged(self.set_permissions(user, vhost, [configure, write, read]))
            }
            Command::ClearPermissions { user, vhost } => {
                logged(self.clear_permissions(user, vhost))
            }
            Command::SetTopicPermissions { user, vhost, exchange, write, read } => {
                logged(self.set_topic_permissions(user, vhost, exchange, [write, read]))
            }
            Command::ClearTopicPermissions { user, vhost, exchange } => {
                logged(self.clear_topic_permissions(user, vhost, exchange.as_ref()))
            }
            Command::DeclareExchange(declare) => self.declare_exchange(declare),
            Command::DeleteExchange { vhost, name, if_unused } => {
                self.delete_exchange(vhost, name, *if_unused, mode)
            }
            Command::DeclareQueue(declare) => self.declare_queue(declare),
            Command::DeleteQueue { vhost, name, by } => self.delete_queue(vhost, name, *by, mode),
            Command::DeleteQueueById { id } => self.delete_queues(&[*id], mode),
            Command::SetQueueVersion { id, version } => Ok(self.set_queue_version(*id, *version)),
            Command::DeleteExclusiveQueues { owner } => {
                self.delete_queues(&self.some_exclusive_queues(*owner), mode)
            }
            Command::Bind(spec) => self.bind(spec),
            Command::Unbind(spec) => self.unbind(spec, mode),
        }
    }

    /// A virtual host.
    #[must_use]
    pub fn vhost(&self, name: &str) -> Option<&Vhost> {
        self.vhosts.get(name).map(|vhost| &**vhost)
    }

    /// All virtual hosts by name.
    pub fn vhosts(&self) -> impl Iterator<Item = &Vhost> {
        self.vhosts.values().map(|vhost| &**vhost)
    }

    /// An exchange; the default exchange has the empty name.
    #[must_use]
    pub fn exchange(&self, vhost: &str, name: &str) -> Option<&Arc<ExchangeDef>> {
        self.vhost(vhost)?.exchange(name)
    }

    /// A queue by name.
    #[must_use]
    pub fn queue(&self, vhost: &str, name: &str) -> Option<&Arc<QueueDef>> {
        self.vhost(vhost)?.queue(name)
    }

    /// A queue by id.
    #[must_use]
    pub fn queue_by_id(&self, id: QueueId) -> Option<&Arc<QueueDef>> {
        self.queues.get(&id)
    }

    /// All queues of all virtual hosts by id.
    pub fn queues(&self) -> impl Iterator<Item = &Arc<QueueDef>> {
        self.queues.values()
    }

    /// The number of queues.
    #[must_use]
    pub fn n_queues(&self) -> usize {
        self.queues.len()
    }

    /// The exclusive queues of a connection by id.
    pub fn exclusive_queues(&self, owner: ConnectionId) -> impl Iterator<Item = &Arc<QueueDef>> {
        (self.exclusive.range((owner, QueueId(0))..=(owner, QueueId(u64::MAX))))
            .filter_map(|(_, id)| self.queues.get(id))
    }

    /// The form a queue's durable messages have.
    #[must_use]
    pub fn queue_version(&self, id: QueueId) -> QueueVersion {
        if self.older.contains(&id) { QueueVersion::V1 } else { QueueVersion::V2 }
    }

    /// The queues whose durable messages are in the older form, by id.
    pub fn older_queues(&self) -> impl Iterator<Item = &Arc<QueueDef>> {
        self.older.iter().filter_map(|id| self.queues.get(id))
    }

    /// The form a queue's durable messages should have: as its arguments say, else a policy, else
    /// `default`.
    #[must_use]
    pub fn wanted_version(&self, queue: &QueueDef, default: QueueVersion) -> QueueVersion {
        // COMPAT: an argument wins over policies, and one of an operator over one of a user.
        self.queue_settings(queue).version.unwrap_or(default)
    }

    /// The settings of a queue: its arguments, and the policies in force.
    #[must_use]
    pub fn queue_settings(&self, queue: &QueueDef) -> QueueSettings {
        let vhost = self.vhost(&queue.vhost);
        vhost.map_or_else(|| queue.settings(), |vhost| vhost.queue_settings(queue))
    }

    /// The routing table of a virtual host.
    #[must_use]
    pub fn routes(&self, vhost: &str) -> Option<&Routes> {
        self.vhost(vhost).map(Vhost::routes)
    }

    /// All bindings of a virtual host as they are listed: first those of the default exchange, which
    /// reaches every queue by its name, then the others ordered by destination.
    pub fn bindings<'s>(&'s self, vhost: &'s Vhost) -> impl Iterator<Item = BindingView> + 's {
        let made = vhost.routes.bindings().filter_map(|binding| self.view(binding));
        vhost.implied_bindings().chain(made)
    }

    /// A binding as it is listed; nothing if its queue is gone.
    #[must_use]
    pub fn view(&self, binding: &Binding) -> Option<BindingView> {
        let destination = match binding.destination() {
            Destination::Queue(id) => DestinationName::Queue(self.queue_by_id(*id)?.name.clone()),
            Destination::Exchange(name) => DestinationName::Exchange(name.clone()),
        };
        Some(BindingView {
            source: binding.source().clone(),
            destination,
            key: binding.key().clone(),
            arguments: binding.arguments().clone(),
        })
    }

    /// A user.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name).map(|user| &**user)
    }

    /// All users by name.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values().map(|user| &**user)
    }

    /// The permissions in a virtual host, by user.
    pub fn permissions_in<'s>(
        &'s self,
        vhost: &'s str,
    ) -> impl Iterator<Item = (&'s Name, &'s Permissions)> {
        self.users().filter_map(move |user| Some((user.name(), user.permissions_in(vhost)?)))
    }

    /// Topic permissions in a virtual host: user, exchange, permissions.
    pub fn topic_permissions_in<'s>(
        &'s self,
        vhost: &'s str,
    ) -> impl Iterator<Item = (&'s Name, &'s Name, &'s TopicPermissions)> {
        self.users().flat_map(move |user| {
            (user.topic_permissions())
                .filter(move |(found, ..)| found.as_str() == vhost)
                .map(move |(_, exchange, permissions)| (user.name(), exchange, permissions))
        })
    }

    /// Whether a user has access to a virtual host at all.
    #[must_use]
    pub fn may_enter(&self, user: &str, vhost: &str) -> bool {
        self.user(user).is_some_and(|user| user.permissions_in(vhost).is_some())
    }

    /// Whether a user may do this to the exchange or queue of that name.
    #[must_use]
    pub fn may(&self, user: &str, vhost: &str, permission: Permission, name: &str) -> bool {
        let permissions = self.user(user).and_then(|user| user.permissions_in(vhost));
        permissions.is_some_and(|permissions| permissions.allow(permission, name))
    }

    /// Whether a user may use this routing key at the exchange: yes, unless topic permissions are set
    /// for it. `variables` are those of the connection, for example `client_id`; the names of user
    /// and virtual host are known.
    #[must_use]
    pub fn may_topic(
        &self,
        who: (&str, &str),
        exchange: &str,
        permission: Permission,
        key: &[u8],
        variables: &[(&str, &str)],
    ) -> bool {
        let (user, vhost) = who;
        let permissions =
            self.user(user).and_then(|user| user.topic_permissions_at(vhost, exchange));
        permissions.is_none_or(|permissions| permissions.allow(permission, key, variables))
    }

    /// As [`may`](Self::may), with RabbitMQ's text for a refusal.
    /// COMPAT: permissions and texts call the default exchange `amq.default`.
    ///
    /// # Errors
    /// [`MetaError::Refused`].
    pub fn check_access(
        &self,
        user: &str,
        permission: Permission,
        resource: &Resource,
    ) -> Result<(), MetaError> {
        let is_default = resource.kind == ResourceKind::Exchange && resource.name.is_empty();
        let name = if is_default { Name::from("amq.default") } else { resource.name.clone() };
        if self.may(user, &resource.vhost, permission, &name) {
            return Ok(());
        }
        let resource = Resource { name, ..resource.clone() };
        Err(MetaError::Refused { permission, resource, user: Name::from(user) })
    }

    /// As [`may_topic`](Self::may_topic), with RabbitMQ's text for a refusal.
    ///
    /// # Errors
    /// [`MetaError::TopicRefused`].
    pub fn check_topic_access(
        &self,
        user: &str,
        permission: Permission,
        exchange: &Resource,
        key: &[u8],
        variables: &[(&str, &str)],
    ) -> Result<(), MetaError> {
        let who = (user, exchange.vhost.as_str());
        if self.may_topic(who, &exchange.name, permission, key, variables) {
            return Ok(());
        }
        let key = String::from_utf8_lossy(key).into_owned();
        let (user, exchange) = (Name::from(user), exchange.clone());
        Err(MetaError::TopicRefused { permission, key, exchange, user })
    }

    /// All parameters of the whole cluster by name.
    pub fn global_parameters(&self) -> impl Iterator<Item = (&Name, &Json)> {
        self.global_parameters.iter()
    }

    /// A parameter of the whole cluster.
    #[must_use]
    pub fn global_parameter(&self, name: &str) -> Option<&Json> {
        self.global_parameters.get(name)
    }

    fn vhost_or_error(&self, name: &Name) -> Result<&Vhost, MetaError> {
        self.vhost(name).ok_or_else(|| MetaError::VhostNotFound(name.clone()))
    }

    fn vhost_mut(&mut self, name: &Name) -> Result<&mut Vhost, MetaError> {
        let vhost = self.vhosts.get_mut(name);
        vhost.map(Arc::make_mut).ok_or_else(|| MetaError::VhostNotFound(name.clone()))
    }

    fn user_mut(&mut self, name: &Name) -> Result<&mut User, MetaError> {
        let user = self.users.get_mut(name);
        user.map(Arc::make_mut).ok_or_else(|| MetaError::UserNotFound(name.clone()))
    }
}

/// The longest name of anything, in bytes: what a short string of AMQP 0-9-1 holds.
const NAME_BYTES_MAX: usize = 255;

/// Refuses empty and overlong names.
fn check_name(what: &'static str, name: &Name) -> Result<(), MetaError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(MetaError::InvalidName { what, max: NAME_BYTES_MAX });
    }
    Ok(())
}
