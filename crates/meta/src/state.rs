//! The whole state, its lookups, and the way in for commands.

mod membership;
mod resharding;
mod resources;
mod snapshot;
mod unbinding;

pub use resharding::{Resharding, shards};
pub use snapshot::{RestoreError, SnapshotOf};

use std::sync::Arc;

use routing::{Name, QueueId, Routes};
use stdx::Now;

use crate::binding_place::BindingPlace;
use crate::checks::check_name;
use crate::command::Command;
use crate::error::MetaError;
use crate::exchange::ExchangeDef;
use crate::nodes::ClusterNodes;
use crate::outcome::{Misfit, Outcome, Removed};
use crate::parameters::GlobalParameters;
use crate::pattern::Pattern;
use crate::permission::{Permissions, TopicPermissions};
use crate::policies::Policies;
use crate::policy::{Policy, PolicyScope, PolicySpec};
use crate::queue::QueueDef;
use crate::queue_settings::QueueSettings;
use crate::queue_type::QueueVersion;
use crate::queues::Queues;
use crate::stream_settings::StreamSettings;
use crate::user::User;
use crate::users::Users;
use crate::vhost::{BindingView, Vhost};
pub use membership::settle_homes;
use membership::{change_nodes, check_home};
use resources::Resources;

/// Everything that exists. A clone is O(1) and never changes; a command costs O(log n), plus the cost of
/// its removals.
#[derive(Clone, Debug, Default)]
pub struct State {
    resources: Resources,
    users: Users,
    global_parameters: GlobalParameters,
    nodes: ClusterNodes,
}

/// Whether a command is decided or was so before. A fact was checked when it was made, and each removal is a
/// fact of its own: durable objects may have been kept alive by transient ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Apply,
    Replay,
}

impl State {
    /// An empty state, without even a virtual host.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one command. The same commands give the same state on every node.
    ///
    /// # Errors
    /// The reason why it is refused; the state is unchanged then.
    pub fn apply(&mut self, _now: Now, command: &Command) -> Result<Outcome, MetaError> {
        check_new_name(command)?;
        self.change(command, Mode::Apply)
    }

    /// Applies the command of a [`Fact`](crate::Fact) or of a snapshot without deciding anything; returns
    /// what it has removed.
    ///
    /// # Errors
    /// The fact was made from another state than this one, or by a version that knows more; the state is
    /// unchanged then.
    pub fn replay(&mut self, command: &Command) -> Result<Vec<Removed>, Misfit> {
        let changed = self.change(command, Mode::Replay).map(|outcome| outcome.removed);
        changed.map_err(|reason| Misfit { fact: command.kind(), reason: Box::new(reason) })
    }

    fn change(&mut self, command: &Command, mode: Mode) -> Result<Outcome, MetaError> {
        // Settings and access are durable as they are.
        let logged = |done: Result<(), MetaError>| done.map(|()| Outcome::logged(command));
        let Self { resources, users, global_parameters, nodes } = self;
        match command {
            Command::CreateVhost { vhost, metadata } => {
                logged(resources.vhosts.create(vhost, metadata))
            }
            Command::DeleteVhost { vhost } => {
                let removed = resources.delete_vhost(vhost, mode)?;
                users.forget_vhost(vhost);
                Ok(Outcome { removed, ..Outcome::logged(command) })
            }
            Command::UpdateVhost { .. }
            | Command::SetVhostLimits { .. }
            | Command::SetPolicy { .. }
            | Command::ClearPolicy { .. }
            | Command::SetParameter { .. }
            | Command::ClearParameter { .. } => logged(set_vhost(resources, command, mode)),
            Command::SetGlobalParameter { name, value } => {
                global_parameters.set(name, value);
                Ok(Outcome::logged(command))
            }
            Command::ClearGlobalParameter { name } => logged(global_parameters.clear(name)),
            Command::DeleteUser { user } => {
                Ok(Outcome { removed: users.delete(user)?, ..Outcome::logged(command) })
            }
            Command::CreateUser { .. }
            | Command::SetPassword { .. }
            | Command::SetUserTags { .. }
            | Command::SetUserLimits { .. }
            | Command::SetPermissions { .. }
            | Command::ClearPermissions { .. }
            | Command::SetTopicPermissions { .. }
            | Command::ClearTopicPermissions { .. } => logged(set_user(users, resources, command)),
            Command::DeclareExchange(declare) => resources.declare_exchange(declare, mode),
            Command::DeleteExchange { vhost, name, if_unused } => {
                resources.delete_exchange(vhost, name, *if_unused, mode)
            }
            Command::DeclareQueue(declare) => {
                if mode == Mode::Apply {
                    check_home(nodes, declare)?;
                }
                resources.declare_queue(declare, mode)
            }
            Command::DeleteQueue { vhost, name, by } => {
                resources.delete_queue(vhost, name, *by, mode)
            }
            Command::DeleteQueueById { id } => resources.delete_queues(&[*id], mode),
            Command::DeleteExclusiveQueues { owner } => {
                resources.delete_queues(&resources.some_exclusive_queues(*owner), mode)
            }
            Command::Bind(spec) => resources.bind(spec),
            Command::Unbind(spec) => resources.unbind(spec, mode),
            Command::NodeJoined { .. }
            | Command::NodeBooted { .. }
            | Command::NodeForgotten { .. }
            | Command::NodeDrained { .. }
            | Command::Level { .. } => change_nodes(nodes, resources, command, mode),
        }
    }

    /// A virtual host.
    pub fn vhost(&self, name: &str) -> Option<&Vhost> {
        self.resources.vhost(name)
    }

    /// All virtual hosts by name.
    pub fn vhosts(&self) -> impl Iterator<Item = &Vhost> {
        self.resources.vhosts.iter()
    }

    /// The queues of all virtual hosts by id.
    pub const fn queues(&self) -> &Queues {
        &self.resources.queues
    }

    /// The users and what they may do.
    pub const fn users(&self) -> &Users {
        &self.users
    }

    /// The nodes of the cluster.
    pub const fn nodes(&self) -> &ClusterNodes {
        &self.nodes
    }

    /// The parameters of the whole cluster.
    pub const fn global_parameters(&self) -> &GlobalParameters {
        &self.global_parameters
    }

    /// An exchange; the default exchange has the empty name.
    pub fn exchange(&self, vhost: &str, name: &str) -> Option<&Arc<ExchangeDef>> {
        self.vhost(vhost)?.exchange(name)
    }

    /// A queue by name.
    pub fn queue(&self, vhost: &str, name: &str) -> Option<&Arc<QueueDef>> {
        self.vhost(vhost)?.queue(name)
    }

    /// A queue by id.
    pub fn queue_by_id(&self, id: QueueId) -> Option<&Arc<QueueDef>> {
        self.queues().get(id)
    }

    /// A user.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// The routing table of a virtual host.
    pub fn routes(&self, vhost: &str) -> Option<&Routes> {
        self.vhost(vhost).map(|vhost| &vhost.routes)
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
        vhost.map_or_else(|| queue.settings(), |vhost| vhost.policies.queue_settings(queue))
    }

    /// The bindings of a virtual host, in the order of [`BindingPlace::all`].
    pub fn bindings<'s>(&'s self, vhost: &'s Vhost) -> impl Iterator<Item = BindingView> + 's {
        BindingPlace::all(vhost).filter_map(|place| place.view(self.queues()))
    }
}

/// An id that no other durable queue has or will have, for a queue whose files are made before it is
/// declared.
pub fn take_queue_id(state: &mut State) -> QueueId {
    state.resources.take_queue_id()
}

/// Passes over ids of durable queues up to this one: there are files of such queues.
pub fn pass_queue_ids(state: &mut State, upto: QueueId) {
    state.resources.queues.restore_ids(upto.0.saturating_add(1), 0);
}

/// Begins a term: transient queues get ids that those of earlier terms had not.
pub fn begin_term(state: &mut State, term: u32) {
    state.resources.queues.begin_term(term);
}

/// The settings of a stream: its arguments, and the policies in force.
#[must_use]
pub fn stream_settings(state: &State, stream: &QueueDef) -> StreamSettings {
    let vhost = state.vhost(&stream.vhost);
    vhost.map_or_else(StreamSettings::default, |vhost| vhost.policies.stream_settings(stream))
}

/// Changes settings of a virtual host.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others set nothing of a virtual host")]
fn set_vhost(resources: &mut Resources, command: &Command, mode: Mode) -> Result<(), MetaError> {
    match command {
        Command::UpdateVhost { vhost, metadata } => {
            resources.vhost_mut(vhost)?.metadata = metadata.clone();
        }
        Command::SetVhostLimits { vhost, limits } => resources.vhost_mut(vhost)?.limits = *limits,
        Command::SetPolicy { scope, vhost, policy } => {
            set_policy(resources, *scope, vhost, policy, mode)?;
        }
        Command::ClearPolicy { scope, vhost, name } => {
            let clear = |policies: &mut Policies| policies.clear(*scope, name);
            resources.vhost_mut(vhost)?.change_policies(*scope, name, clear)?;
        }
        Command::SetParameter { vhost, component, name, value } => {
            resources.vhost_mut(vhost)?.parameters.set(component, name, value);
        }
        Command::ClearParameter { vhost, component, name } => {
            resources.vhost_mut(vhost)?.parameters.clear(component, name)?;
        }
        _ => debug_assert!(false, "{command:?} sets nothing of a virtual host"),
    }
    Ok(())
}

/// Creates or changes a user. Permissions are those in a virtual host that exists.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others set nothing of a user")]
fn set_user(users: &mut Users, resources: &Resources, command: &Command) -> Result<(), MetaError> {
    match command {
        Command::CreateUser { user, password, tags } => users.create(user, password, tags)?,
        Command::SetPassword { user, password } => users.get_mut(user)?.password = password.clone(),
        Command::SetUserTags { user, tags } => users.get_mut(user)?.tags = tags.clone(),
        Command::SetUserLimits { user, limits } => users.get_mut(user)?.limits = *limits,
        Command::SetPermissions { user, vhost, configure, write, read } => {
            resources.require_vhost(vhost)?;
            let permissions = Permissions {
                configure: Pattern::for_permission(configure)?,
                write: Pattern::for_permission(write)?,
                read: Pattern::for_permission(read)?,
            };
            users.get_mut(user)?.set_permissions(vhost, permissions);
        }
        Command::ClearPermissions { user, vhost } => {
            resources.require_vhost(vhost)?;
            users.get_mut(user)?.clear_permissions(vhost);
        }
        Command::SetTopicPermissions { user, vhost, exchange, write, read } => {
            resources.require_vhost(vhost)?;
            let permissions = TopicPermissions::new(user, vhost, write, read)?;
            users.get_mut(user)?.set_topic_permissions(vhost, exchange, permissions);
        }
        Command::ClearTopicPermissions { user, vhost, exchange } => {
            resources.require_vhost(vhost)?;
            users.get_mut(user)?.clear_topic_permissions(vhost, exchange.as_ref());
        }
        _ => debug_assert!(false, "{command:?} sets nothing of a user"),
    }
    Ok(())
}

fn set_policy(
    resources: &mut Resources,
    scope: PolicyScope,
    vhost: &Name,
    spec: &PolicySpec,
    mode: Mode,
) -> Result<(), MetaError> {
    if mode == Mode::Apply {
        spec.check(scope)?;
    }
    let policy = Arc::new(Policy::new(spec)?);
    if mode == Mode::Apply {
        resources.require_vhost(vhost)?.policies.check_room(scope, &policy)?;
    }
    resources
        .vhost_mut(vhost)?
        .change_policies(scope, &spec.name, |it| it.set(scope, &spec.name, policy));
    Ok(())
}

/// Refuses names that are too long or empty, of objects whose other checks come after that.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the others name what is there, or check it later"
)]
fn check_new_name(command: &Command) -> Result<(), MetaError> {
    match command {
        Command::CreateVhost { vhost, .. } => check_name("vhost", vhost),
        Command::CreateUser { user, .. } => check_name("user", user),
        Command::SetPolicy { policy, .. } => check_name("policy", &policy.name),
        Command::SetParameter { component, name, .. } => {
            check_name("component", component)?;
            check_name("parameter", name)
        }
        Command::SetGlobalParameter { name, .. } => check_name("parameter", name),
        Command::NodeJoined { name, address, .. } => {
            check_name("node", name)?;
            check_name("host", &address.host)
        }
        _ => Ok(()),
    }
}
