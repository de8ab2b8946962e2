//! The effects of a change of definitions outside of them, as data: the broker carries them out.

use super::Definitions;
use exchanges::NewlyDelaying;
use meta::{BindingSpec, Command, Done, Name, Outcome, Removed, State};
use queues::QueueRef;

/// A task that follows from a change of definitions.
#[derive(Debug)]
pub enum Effect {
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
    /// Exchanges that delay messages may lack their queues.
    KeepDelayedQueues(NewlyDelaying),
    /// A new binding may have missed messages that its exchange remembers.
    GiveHistory(BindingSpec),
    /// A new virtual host gets the defaults of new virtual hosts.
    ApplyVhostDefaults(Name),
}

/// Adds the effects of a change of policies.
pub(super) fn of_policy(definitions: &Definitions, command: &Command, effects: &mut Vec<Effect>) {
    let (Command::SetPolicy { vhost, .. } | Command::ClearPolicy { vhost, .. }) = command else {
        return;
    };
    let queues = definitions.meta.vhost(vhost).into_iter().flat_map(meta::Vhost::queues);
    let queues = queues.filter_map(|def| definitions.queues.get(&def.id).cloned());
    effects.push(Effect::ReviewSettings(queues.collect()));
}

/// Adds the effects of any change.
pub(super) fn of_outcome(command: &Command, outcome: &Outcome, effects: &mut Vec<Effect>) {
    for removed in &outcome.removed {
        match removed {
            Removed::Vhost(vhost) => effects.push(Effect::CloseConnectionsTo(vhost.clone())),
            Removed::User(user) => effects.push(Effect::CloseConnectionsOf(user.clone())),
            Removed::Binding { .. } | Removed::Queue(_) | Removed::Exchange { .. } => {}
        }
    }
    if let (Command::Bind(spec), Done::Changed) = (command, &outcome.done) {
        effects.push(Effect::GiveHistory(spec.clone()));
    }
    if let Command::SetPermissions { user, .. } | Command::ClearPermissions { user, .. } = command {
        effects.push(Effect::ReviewRightsOf(user.clone()));
    }
    if let Command::CreateVhost { vhost, .. } = command {
        effects.push(Effect::ApplyVhostDefaults(vhost.clone()));
    }
}

/// Whether a command concerns the policies of a virtual host that say which version queues have.
pub(super) fn any_version_policy(meta: &State, command: &Command) -> bool {
    let (Command::SetPolicy { vhost, .. } | Command::ClearPolicy { vhost, .. }) = command else {
        return false;
    };
    meta.vhost(vhost).is_some_and(|vhost| vhost.policies.any_version_policy())
}
