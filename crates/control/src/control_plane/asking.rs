//! Changes that this node asks the leader of the definitions for.

use super::effects::Effects;
use super::replication::Asking;
use super::{Changed, Made, PlanError, Planned, sharding};
use crate::slices::SLICE;
use definitions::{AskError, Decision, Refusal};
use log::Lsn;
use meta::{Command, Done, MetaError, Outcome, Resharding, State};
use std::borrow::Cow;

impl Asking<'_> {
    /// Makes a change, as [`ControlPlane::submit`](super::ControlPlane::submit).
    ///
    /// # Errors
    /// The definitions refuse it, or nobody could decide in time.
    pub async fn submit<'c>(self, command: &'c Command) -> Result<Changed<'c>, MetaError> {
        let view = self.0.plane.view();
        let completed = self.complete(&view.meta, command)?;
        if let Some(done) = self.unchanged(&view.meta, &completed) {
            let made = vec![(Cow::Borrowed(command), outcome_of(done))];
            let (gone, effects, upto) =
                (Vec::new(), Effects::default(), self.0.plane.logged_upto());
            return Ok(Changed { made, gone, effects, upto });
        }
        let sharded = sharding::sharded(&view.meta, command);
        let mut changed = self.ask(vec![completed], None).await.map_err(refused)?;
        changed.effects.leader.to_reshard =
            sharding::resharded(&self.0.plane.view().meta, command, &sharded);
        let Changed { made, gone, effects, upto } = changed;
        let made = made.into_iter().map(|(_, outcome)| (Cow::Borrowed(command), outcome));
        Ok(Changed { made: made.collect(), gone, effects, upto })
    }

    /// Makes changes as one, as
    /// [`ControlPlane::submit_together`](super::ControlPlane::submit_together).
    ///
    /// # Errors
    /// The definitions have changed since, or refuse one of the changes, or nobody could decide in time.
    pub async fn submit_together(
        self,
        basis: Option<u64>,
        planned: &Planned<'_>,
    ) -> Result<Changed<'static>, PlanError> {
        self.submit_all(basis, &planned.commands).await
    }

    /// Makes changes as one.
    ///
    /// # Errors
    /// As of [`Asking::submit_together`].
    pub async fn submit_all(
        self,
        basis: Option<u64>,
        commands: &[Command],
    ) -> Result<Changed<'static>, PlanError> {
        let view = self.0.plane.view();
        let asked = commands.iter().map(|command| self.complete(&view.meta, command));
        let asked: Result<Vec<_>, _> = asked.collect();
        self.ask(asked.map_err(PlanError::Refused)?, basis).await
    }

    /// Makes the first definitions, as [`ControlPlane::submit_first`](super::ControlPlane::submit_first).
    ///
    /// # Errors
    /// As of [`Asking::submit`].
    pub async fn submit_first(self, commands: &[Command]) -> Result<Effects, MetaError> {
        self.submit_all(None, commands).await.map(|changed| changed.effects).map_err(refused)
    }

    /// Gives the last of these exchanges their shards, a slice of work, as
    /// [`ControlPlane::reshard`](super::ControlPlane::reshard).
    pub async fn reshard(self, mut left: Vec<Resharding>) -> Changed<'static> {
        let (view, mut commands) = (self.0.plane.view(), Vec::new());
        while commands.len() < SLICE
            && let Some(change) = left.pop()
        {
            commands.extend(view.meta.reshard(&change, &self.0.plane.parts.node));
        }
        let upto = self.0.plane.logged_upto();
        let nothing =
            Changed { made: Made::new(), gone: Vec::new(), effects: Effects::default(), upto };
        let mut changed = if commands.is_empty() {
            nothing
        } else {
            self.submit_all(None, &commands).await.unwrap_or_else(|error| {
                tracing::warn!("sharded exchanges lack shards or bindings: {error:?}");
                nothing
            })
        };
        changed.made.retain(|(_, outcome)| outcome.done != Done::Nothing);
        changed.effects.leader.to_reshard = left;
        changed
    }

    /// Checks what the node that asks for a change knows best, its types, limits and space, and makes it the
    /// home of a new queue.
    fn complete(self, meta: &State, command: &Command) -> Result<Command, MetaError> {
        let mut command = self.0.plane.parts.limits.types.complete(meta, command).into_owned();
        if let Command::DeclareQueue(declare) = &mut command {
            declare.home = self.0.home_of(meta, declare);
        }
        meta.check_room(&self.0.plane.parts.limits, &command)?;
        self.0.plane.check_space(meta, &command)?;
        Ok(command)
    }

    /// The outcome of declaring again what there is: the definitions here suffice to tell.
    fn unchanged(self, meta: &State, command: &Command) -> Option<Done> {
        if !matches!(command, Command::DeclareQueue(_) | Command::DeclareExchange(_)) {
            return None;
        }
        let now = self.0.plane.storage().time.ticked();
        let outcome = meta.clone().apply(now, command).ok()?;
        outcome.facts.is_empty().then_some(outcome.done)
    }

    async fn ask(
        self,
        commands: Vec<Command>,
        epoch: Option<u64>,
    ) -> Result<Changed<'static>, PlanError> {
        let late = |_: AskError| {
            let first = commands.first();
            PlanError::Refused(MetaError::TimedOut(
                first.map_or_else(String::new, |it| timed_out(it, &self.0.plane.parts.node)),
            ))
        };
        let receiver = self.0.begin_ask(commands.clone(), epoch).map_err(late)?;
        let Ok(mut answered) = receiver.await else { return Err(late(AskError::TimedOut)) };
        let done = match answered.decision {
            Ok(Decision::Done(done)) => done,
            Ok(Decision::WasDone) => {
                let meta = &self.0.plane.view().meta;
                commands.iter().map(|command| done_before(meta, command)).collect()
            }
            Ok(Decision::Refused(Refusal::Moved)) => return Err(PlanError::Moved),
            Ok(Decision::Refused(Refusal::Command(error))) => {
                return Err(PlanError::Refused(error));
            }
            Ok(Decision::Refused(Refusal::TooLarge)) => {
                let error = Refusal::TooLarge.to_string();
                return Err(PlanError::Refused(MetaError::Invalid(error)));
            }
            Err(error) => return Err(late(error)),
        };
        let outcomes = done.into_iter().map(outcome_of);
        let mut made: Made<'static> = commands.into_iter().map(Cow::Owned).zip(outcomes).collect();
        let (mut gone, mut effects, mut upto) = (Vec::new(), Effects::default(), Lsn(0));
        if let Some(own) = &mut answered.change {
            if let Some((_, first)) = made.first_mut() {
                first.facts = std::mem::take(&mut own.facts);
                first.removed = std::mem::take(&mut own.removed);
            }
            (gone, effects) = (std::mem::take(&mut own.gone), std::mem::take(&mut own.effects));
            upto = own.upto;
        }
        Ok(Changed { made, gone, effects, upto })
    }
}

const fn outcome_of(done: Done) -> Outcome {
    Outcome { done, removed: Vec::new(), facts: Vec::new() }
}

fn refused(error: PlanError) -> MetaError {
    match error {
        PlanError::Refused(error) => error,
        PlanError::Moved => MetaError::Invalid(Refusal::Moved.to_string()),
    }
}

/// The effect of a command that was carried out at an earlier attempt.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others make nothing that has a name")]
fn done_before(meta: &State, command: &Command) -> Done {
    let made = match command {
        Command::DeclareQueue(it) => {
            meta.queue(&it.vhost, &it.name).cloned().map(Done::QueueCreated)
        }
        Command::DeclareExchange(it) => {
            meta.exchange(&it.vhost, &it.name).cloned().map(Done::ExchangeCreated)
        }
        _ => None,
    };
    made.unwrap_or(Done::Changed)
}

/// COMPAT: RabbitMQ's words for a change that its metadata store has not made in time.
#[expect(clippy::wildcard_enum_match_arm, reason = "RabbitMQ has no words for the others")]
fn timed_out(command: &Command, node: &str) -> String {
    match command {
        Command::DeclareExchange(it) => {
            let (name, vhost) = (&it.name, &it.vhost);
            format!(
                "failed to declare exchange '{name}' in vhost '{vhost}' because the operation timed out"
            )
        }
        Command::DeleteExchange { vhost, name, .. } => format!(
            "failed to delete exchange '{name}' in vhost '{vhost}' because the operation timed out"
        ),
        Command::DeclareQueue(it) => format!(
            "Could not declare queue '{}' in vhost '{}' on node '{node}' because the metadata store operation \
             timed out",
            it.name, it.vhost
        ),
        Command::Bind(_) => "Could not add binding due to timeout".to_owned(),
        Command::Unbind(_) => "Could not remove binding due to timeout".to_owned(),
        Command::DeleteQueue { .. }
        | Command::DeleteQueueById { .. }
        | Command::DeleteExclusiveQueues { .. } => {
            "The operation to delete the queue from the metadata store timed out".to_owned()
        }
        _ => "the metadata store operation timed out".to_owned(),
    }
}
