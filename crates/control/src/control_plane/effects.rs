//! The effects of a change of definitions outside of them, as data, by who carries them out.

use super::Definitions;
use exchanges::NewlyDelaying;
use meta::{BindingSpec, ChangeFacts, Command, Name, Removed, Resharding, State};
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

/// The definitions before a change, as far as its effects depend on them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    any_version_policy: bool,
}

impl Before {
    /// Looks at the definitions that facts are about to change.
    pub(super) fn of<'c>(meta: &State, mut facts: impl Iterator<Item = &'c Command>) -> Self {
        Self { any_version_policy: facts.any(|fact| any_version_policy(meta, fact)) }
    }
}

/// Adds the effects of a change that led from definitions to the present ones.
pub(super) fn of_change(
    before: Before,
    definitions: &Definitions,
    change: ChangeFacts<'_>,
    effects: &mut Effects,
) {
    let Effects { node, leader, home } = effects;
    let has_version_policy = |fact| any_version_policy(&definitions.meta, fact);
    if before.any_version_policy || change.commands().any(has_version_policy) {
        node.push(NodeEffect::ReviewVersions);
    }
    for removed in change.removed {
        match removed {
            Removed::Vhost(vhost) => node.push(NodeEffect::CloseConnectionsTo(vhost.clone())),
            Removed::User(user) => node.push(NodeEffect::CloseConnectionsOf(user.clone())),
            Removed::Binding { .. } | Removed::Queue(_) | Removed::Exchange { .. } => {}
        }
    }
    for fact in change.commands() {
        if let Command::SetPolicy { vhost, .. } | Command::ClearPolicy { vhost, .. } = fact {
            let queues = definitions.meta.vhost(vhost).into_iter().flat_map(meta::Vhost::queues);
            let queues = queues.filter_map(|def| definitions.queues.get(&def.id).cloned());
            node.push(NodeEffect::ReviewSettings(queues.collect()));
        }
        if let Command::Bind(spec) = fact {
            home.push(spec.clone());
        }
        if let Command::SetPermissions { user, .. } | Command::ClearPermissions { user, .. } = fact
        {
            node.push(NodeEffect::ReviewRightsOf(user.clone()));
        }
        if let Command::CreateVhost { vhost, .. } = fact {
            leader.new_vhosts.push(vhost.clone());
        }
    }
}
/// Adds the effects of definitions that have replaced others as a whole.
pub(super) fn of_all(definitions: &Definitions, effects: &mut Effects) {
    let queues = definitions.queues.values().cloned().collect();
    effects.node.extend([NodeEffect::ReviewVersions, NodeEffect::ReviewSettings(queues)]);
    let users = definitions.meta.users().iter();
    effects.node.extend(users.map(|user| NodeEffect::ReviewRightsOf(user.name.clone())));
}

/// Whether a command concerns the policies of a virtual host that say which version queues have.
fn any_version_policy(meta: &State, command: &Command) -> bool {
    let (Command::SetPolicy { vhost, .. } | Command::ClearPolicy { vhost, .. }) = command else {
        return false;
    };
    meta.vhost(vhost).is_some_and(|vhost| vhost.policies.any_version_policy())
}
