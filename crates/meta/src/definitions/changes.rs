//! The changes of an import object by object, each with what is there and what would be.

use serde_json::{Value, json};

use super::export::{self, topic_grant, user_permissions};
use super::import::Step;
use super::table::to_json;
use crate::command::{BindingSpec, Command};
use crate::permission::TopicGrant;
use crate::state::State;

/// An object that an import changes.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectChange<'s> {
    /// The object, for people.
    pub what: &'s str,
    /// The object as it is now, in the form of documents; none if it does not exist.
    pub before: Option<Value>,
    /// The object as it would be after the import.
    pub after: Option<Value>,
}

/// The objects that the steps change from one state to another, at most `max` of them, in the order of their
/// first changes; and how many there are.
#[must_use]
pub fn object_changes<'s>(
    now: &State,
    then: &State,
    steps: &'s [Step],
    max: usize,
) -> (usize, Vec<ObjectChange<'s>>) {
    let mut seen = std::collections::HashSet::new();
    let firsts: Vec<&Step> = steps.iter().filter(|step| seen.insert(step.what.as_str())).collect();
    let change = |step: &&'s Step| {
        let [before, after] = [now, then].map(|state| object(state, &step.command));
        let after = after.or_else(|| binding(&step.command));
        ObjectChange { what: &step.what, before, after }
    };
    (firsts.len(), firsts.iter().take(max).map(change).collect())
}

/// The object of a command, if it exists; that of a binding is known from the command alone.
fn object(state: &State, command: &Command) -> Option<Value> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "imports delete nothing")]
    Some(match command {
        Command::CreateUser { user, .. }
        | Command::SetPassword { user, .. }
        | Command::SetUserTags { user, .. }
        | Command::SetUserLimits { user, .. } => export::user(state.user(user)?),
        Command::CreateVhost { vhost, .. }
        | Command::UpdateVhost { vhost, .. }
        | Command::SetVhostLimits { vhost, .. } => export::vhost(state.vhost(vhost)?),
        Command::SetPermissions { user, vhost, .. } => {
            user_permissions(user, vhost, state.user(user)?.permissions_in(vhost)?)
        }
        Command::SetTopicPermissions { user, vhost, exchange, .. } => {
            let permissions = state.user(user)?.topic_permissions_at(vhost, exchange)?;
            topic_grant(TopicGrant { user, vhost, exchange, permissions })
        }
        Command::SetPolicy { scope, vhost, policy } => {
            let vhost = state.vhost(vhost)?;
            export::policy(vhost, vhost.policies.get(*scope, &policy.name)?)
        }
        Command::SetParameter { vhost, component, name, .. } => {
            json!({"value": state.vhost(vhost)?.parameters.get(component, name)?.value()})
        }
        Command::SetGlobalParameter { name, .. } => {
            json!({"value": state.global_parameters().get(name)?.value()})
        }
        Command::DeclareQueue(declare) => {
            export::queue(state.queue(&declare.vhost, &declare.name)?)
        }
        Command::DeclareExchange(declare) => {
            export::exchange(&declare.vhost, state.exchange(&declare.vhost, &declare.name)?)
        }
        _ => return None,
    })
}

/// A binding that is made; it did not exist before, or it would be no change.
fn binding(command: &Command) -> Option<Value> {
    let Command::Bind(BindingSpec { key, arguments, .. }) = command else { return None };
    Some(json!({"routing_key": key.to_text(), "arguments": to_json(arguments)}))
}
