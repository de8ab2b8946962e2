//! The shards of sharded exchanges follow the definitions: made and bound in one step with the change that
//! asks for them, as far as that is a slice of work, and the rest in slices after it. What a crash in between
//! has left out is made at the start.

use super::effects::Before;
use super::{Changed, ControlPlane, Definitions, LeaderEffects, Made};
use crate::slices::SLICE;
use meta::{Command, Done, Name, Resharding, Sharded, State, Vhost};
use std::borrow::Cow;

/// The sharded exchanges that a command may change, as of now.
pub(super) fn sharded(meta: &State, command: &Command) -> Sharded {
    let vhost = vhost_of(command).and_then(|vhost| meta.vhost(vhost));
    vhost.map(|vhost| vhost.policies.sharded().clone()).unwrap_or_default()
}

/// The exchanges that a command has given other shards.
pub(super) fn resharded(meta: &State, command: &Command, before: &Sharded) -> Vec<Resharding> {
    vhost_of(command).map(|vhost| meta.resharded(vhost, before)).unwrap_or_default()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others change nothing about shards")]
const fn vhost_of(command: &Command) -> Option<&Name> {
    match command {
        Command::SetPolicy { vhost, .. } | Command::ClearPolicy { vhost, .. } => Some(vhost),
        Command::DeclareExchange(declare) => Some(&declare.vhost),
        _ => None,
    }
}

impl ControlPlane {
    /// Every sharded exchange, as if none had its shards.
    pub fn all_sharded(&self) -> Vec<Resharding> {
        let view = self.view();
        let none = Sharded::new();
        let of_vhost = |vhost: &Vhost| view.meta.resharded(&vhost.name, &none);
        view.meta.vhosts().flat_map(of_vhost).collect()
    }

    /// Gives the last of these exchanges their shards, a slice of work.
    pub fn reshard(&self, mut left: Vec<Resharding>) -> Changed<'static> {
        let mut definitions = stdx::lock(&self.definitions);
        let mut made = Made::new();
        self.reshard_some(&mut definitions, &mut left, &mut made);
        let leader = LeaderEffects { to_reshard: left, ..LeaderEffects::default() };
        self.complete(&mut definitions, made, Before::default(), leader)
    }

    /// Applies what some exchanges need to the definitions.
    pub(super) fn reshard_some(
        &self,
        definitions: &mut Definitions,
        left: &mut Vec<Resharding>,
        made: &mut Made<'_>,
    ) {
        while made.len() < SLICE
            && let Some(change) = left.pop()
        {
            let mut refused = Vec::new();
            for command in definitions.meta.reshard(&change, &self.parts.node) {
                match self.apply(definitions, &command) {
                    Ok(outcome) if outcome.done == Done::Nothing => {}
                    Ok(outcome) => made.push((Cow::Owned(command), outcome)),
                    Err(error) => refused.push(error),
                }
            }
            if let [first, ..] = refused.as_slice() {
                let (Resharding { exchange, vhost, .. }, n) = (change, refused.len());
                tracing::warn!(
                    "exchange '{exchange}' in vhost '{vhost}' lacks shards or bindings: {n} declarations \
                     were refused, the first: {first}"
                );
            }
        }
    }
}
