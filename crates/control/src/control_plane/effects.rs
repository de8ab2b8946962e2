//! The effects of a change of definitions outside of them, as data, by who carries them out.

use super::Definitions;
use exchanges::NewlyDelaying;
use meta::{BindingSpec, Command, Done, Name, Outcome, Removed, Resharding, State};
use queues::QueueRef;

/// The effects of a change of definitions, each in the order in which they are carried out.
#[derive(Debug, Default)]
pub struct Effects {
    /// The effects that each node has on its own connections and queues.
    pub node: Vec<NodeEffect>,
    /// The further changes of definitions, which are made once.
    pub leader: LeaderEffects,
    /// New bindings that may have missed messages: the home of the exchange gives them those it remembers.
    pub home: Vec<BindingSpec>,
}

/// An effect on the connections and queues of a node.
#[derive(Debug)]
pub enum NodeEffect {
    /// Queues may have to be stored in another version.
    ReviewVersions,
    /// The settings of these queues may have changed.
    ReviewSettings(Vec<QueueRef>),
    /// Connections to a virtual host that is gone are closed.
    CloseConnectionsTo(Name),
    /// Connections of a user that is gone are closed.
    CloseConnectionsOf(Name),
    /// Connections of a user whose permissions changed may have more than the user is allowed.
    ReviewRightsOf(Name),
}

/// Changes of definitions that follow from one, made once however many nodes there are.
#[derive(Debug, Default)]
pub struct LeaderEffects {
    /// Exchanges that delay messages and may lack their queues.
    pub delaying: Vec<NewlyDelaying>,
    /// New virtual hosts, which get the defaults of new virtual hosts.
    pub new_vhosts: Vec<Name>,
    /// Exchanges whose shards are still to follow.
    pub to_reshard: Vec<Resharding>,
}

/// Adds the effects of a change of policies.
pub(super) fn of_policy(definitions: &Definitions, command: &Command, effects: &mut Effects) {
    let (Command::SetPolicy { vhost, .. } | Command::ClearPolicy { vhost, .. }) = command else {
        return;
    };
    let queues = definitions.meta.vhost(vhost).into_iter().flat_map(meta::Vhost::queues);
    let queues = queues.filter_map(|def| definitions.queues.get(&def.id).cloned());
    effects.node.push(NodeEffect::ReviewSettings(queues.collect()));
}

/// Adds the effects of any change.
pub(super) fn of_outcome(command: &Command, outcome: &Outcome, effects: &mut Effects) {
    let Effects { node, leader, home } = effects;
    for removed in &outcome.removed {
        match removed {
            Removed::Vhost(vhost) => node.push(NodeEffect::CloseConnectionsTo(vhost.clone())),
            Removed::User(user) => node.push(NodeEffect::CloseConnectionsOf(user.clone())),
            Removed::Binding { .. } | Removed::Queue(_) | Removed::Exchange { .. } => {}
        }
    }
    if let (Command::Bind(spec), Done::Changed) = (command, &outcome.done) {
        home.push(spec.clone());
    }
    if let Command::SetPermissions { user, .. } | Command::ClearPermissions { user, .. } = command {
        node.push(NodeEffect::ReviewRightsOf(user.clone()));
    }
    if let Command::CreateVhost { vhost, .. } = command {
        leader.new_vhosts.push(vhost.clone());
    }
}

/// Whether a command concerns the policies of a virtual host that say which version queues have.
pub(super) fn any_version_policy(meta: &State, command: &Command) -> bool {
    let (Command::SetPolicy { vhost, .. } | Command::ClearPolicy { vhost, .. }) = command else {
        return false;
    };
    meta.vhost(vhost).is_some_and(|vhost| vhost.policies.any_version_policy())
}
