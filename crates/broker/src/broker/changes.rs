//! Changes of definitions: how they are applied, and what follows from them elsewhere.

use super::Broker;
use super::kept_messages::{declaration_of, give_history};
use super::submission::Submission;
use confirm::LogFailed;
use control::slices::Slices;
use control::{
    Changed, Effects, HeldDefinitions, NodeEffect, NodeWorkDue, PlanError, Planned, Unbinding,
};
use exchanges::NewlyDelaying;
use log::Lsn;
use meta::{Command, ConnectionId, Done, MetaError, QueueId, Resharding, State};
use queues::QueueRef;
use routing::Name;
use std::sync::Arc;

/// Why a change of definitions is not reported as done.
#[derive(Debug)]
pub(crate) enum ChangeError {
    /// The definitions refuse the change: nothing has changed.
    Refused(MetaError),
    /// The log has failed: the change will never be durable.
    LogFailed,
}

impl From<MetaError> for ChangeError {
    fn from(error: MetaError) -> Self {
        Self::Refused(error)
    }
}

impl From<LogFailed> for ChangeError {
    fn from(LogFailed: LogFailed) -> Self {
        Self::LogFailed
    }
}

/// The user that events name for changes that the broker makes unasked, as RabbitMQ has it.
const BY_ITSELF: &str = "rmq-internal";
/// The user that events name for changes by operators, as RabbitMQ has it for the command line.
pub(crate) const BY_OPERATOR: &str = "rmq-cli";
/// COMPAT: the user that events name for changes of shards.
const BY_SHARDING: &str = "rmq-sharding";

/// Queues that get the settings of changed policies before the change is answered; more get them in slices.
const RULES_AT_ONCE_MAX: usize = 256;

/// Plans that others may make void before the definitions are held for one.
const PLANS_MAX: usize = 8;

/// Queues without users that are deleted as one change: others wait for the definitions as long.
const DELETIONS_AT_ONCE: usize = 64;

/// A change that has taken effect.
struct Applied {
    done: Done,
    /// The change is durable when the log is so up to here.
    upto: Lsn,
    /// Exchanges whose shards are still to follow.
    left: Vec<Resharding>,
}

/// Changes of the broker's definitions.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'b>(pub(super) &'b Broker);

impl Changes<'_> {
    /// As [`Broker::apply_definition`] for many changes in order, which become durable together.
    ///
    /// # Errors
    /// The index of the refused command, and the reason; the commands before it are in effect then.
    pub async fn apply_all<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
    ) -> Result<(), (usize, MetaError)> {
        let mut upto = None;
        let mut result = Ok(());
        let mut slices = Slices::default();
        for (at, command) in commands.enumerate() {
            slices.did(1).await;
            match self.apply(command).await {
                Ok((_, made_upto)) => upto = Some(made_upto),
                Err(error) => {
                    result = Err((at, error));
                    break;
                }
            }
        }
        if let Some(upto) = upto {
            self.durable(upto).await;
        }
        result
    }

    /// Makes the first definitions of a new data directory: all of them or, after a crash, none.
    ///
    /// # Errors
    /// A command is refused; the commands before it are in effect then.
    pub async fn apply_first(&self, commands: &[Command]) -> Result<(), MetaError> {
        let effects = Submission(&self.0.control_plane).submit_first(commands).await?;
        self.carry_out(effects).await;
        self.durable(self.0.control_plane.logged_upto()).await;
        Ok(())
    }

    /// Resolves when the log is durable up to `upto`; never when the log fails, since the node is going down
    /// then.
    pub(crate) async fn durable(&self, upto: Lsn) {
        if confirm::durable(&self.0.classic.storage().wal, upto).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// As [`Broker::apply_definition`], for callers that must go on when the log has failed; `by` is the user
    /// that events name.
    pub(crate) async fn apply_durably(
        &self,
        command: &Command,
        by: &str,
    ) -> Result<Done, ChangeError> {
        let (done, upto) = self.apply_in_slices(command, by, &mut Slices::default()).await?;
        confirm::durable(&self.0.classic.storage().wal, upto).await?;
        Ok(done)
    }

    /// Applies a command in slices; the change is durable when the log is so up to the returned place.
    pub(super) async fn apply_in_slices(
        &self,
        command: &Command,
        by: &str,
        slices: &mut Slices,
    ) -> Result<(Done, Lsn), MetaError> {
        stdx::walk::step("change");
        let unbinding = self.unbind_in_slices(command, by, slices).await;
        let changed = Submission(&self.0.control_plane).submit(command).await;
        drop(unbinding);
        let mut changed = changed?;
        for queue in std::mem::take(&mut changed.gone) {
            self.end(&queue, changed.upto);
            slices.did(1).await;
        }
        let Applied { done, mut upto, mut left } = self.after_change(changed, 1, by).await;
        while !left.is_empty() {
            slices.give_way().await;
            Applied { upto, left, .. } = self.reshard(left).await;
        }
        Ok((done, upto))
    }

    /// Makes the changes that `plan` names as one: all of them or, after a crash too, none. `by` is the user
    /// that events name.
    pub(crate) async fn apply_together<E: From<MetaError>>(
        &self,
        by: &str,
        plan: impl Fn(&State) -> Result<Vec<Command>, E>,
    ) -> Result<Result<(), E>, LogFailed> {
        let mut slices = Slices::default();
        let mut changed = match self.submit_planned(by, plan, &mut slices).await {
            Ok(changed) => changed,
            Err(error) => return Ok(Err(error)),
        };
        for queue in std::mem::take(&mut changed.gone) {
            self.end(&queue, changed.upto);
            slices.did(1).await;
        }
        let n_asked = changed.made.len();
        let Applied { upto, .. } = self.after_change(changed, n_asked, by).await;
        confirm::durable(&self.0.classic.storage().wal, upto).await.map(Ok)
    }

    /// Plans changes on a view and makes them; plans again when the definitions have changed meanwhile.
    async fn submit_planned<E: From<MetaError>>(
        &self,
        by: &str,
        plan: impl Fn(&State) -> Result<Vec<Command>, E>,
        slices: &mut Slices,
    ) -> Result<Changed<'static>, E> {
        let (plane, mut unbinding) = (&self.0.control_plane, Vec::new());
        let commands = plan(&self.0.view().meta)?;
        for command in &commands {
            unbinding.extend(self.unbind_in_slices(command, by, slices).await);
        }
        let mut planned = Planned::prepare(plane, commands, slices).await?;
        for _ in 0..PLANS_MAX {
            let view = self.0.view();
            // Another plan would not know of bindings that were removed in slices.
            let basis = unbinding.is_empty().then_some(view.epoch);
            if basis.is_some() {
                let commands = plan(&view.meta)?;
                if commands != planned.commands {
                    planned = Planned::prepare(plane, commands, slices).await?;
                    continue;
                }
            }
            match Submission(plane).submit_together(basis, &mut planned).await {
                Ok(changed) => return Ok(changed),
                Err(PlanError::Refused(error)) => return Err(error.into()),
                Err(PlanError::Moved) => {}
            }
        }
        if plane.replication().is_some() {
            // Nobody can keep other nodes from changing them.
            let error = "the definitions have changed too often meanwhile".to_owned();
            return Err(MetaError::TimedOut(error).into());
        }
        let held = HeldDefinitions::of(plane);
        planned.commands = plan(held.meta())?;
        Ok(held.submit_together(&mut planned)?)
    }

    /// Changes definitions and publishes the new view; the change is durable when the log is so up to the
    /// returned place.
    pub(crate) async fn apply(&self, command: &Command) -> Result<(Done, Lsn), MetaError> {
        let mut changed = Submission(&self.0.control_plane).submit(command).await?;
        for queue in std::mem::take(&mut changed.gone) {
            self.end(&queue, changed.upto);
        }
        let Applied { done, upto, left } = self.after_change(changed, 1, BY_ITSELF).await;
        Ok((done, self.reshard_all(left).await.unwrap_or(upto)))
    }

    /// Ends a queue whose deletion is logged up to `upto`.
    fn end(&self, queue: &QueueRef, upto: Lsn) {
        queue.delete();
        if let Some(stream) = queue.as_stream()
            && !self.0.undo.keeps_stream(stream.id().0)
        {
            stream::remove_files_after(Arc::clone(stream), &self.0.classic.storage().wal, upto);
        }
    }

    /// Sends the events of a change and carries out its effects; `by` is the user that events name for the
    /// first `n_asked` commands, those that were asked for. Also returns the exchanges whose shards are still
    /// to follow.
    async fn after_change(&self, changed: Changed<'_>, n_asked: usize, by: &str) -> Applied {
        stdx::walk::step("carry out");
        let Changed { made, mut effects, upto, .. } = changed;
        let left = std::mem::take(&mut effects.leader.to_reshard);
        for ((command, outcome), at) in made.iter().zip(0..) {
            let by = if at < n_asked { by } else { BY_SHARDING };
            self.0.events().definitions_changed(command, outcome, by);
        }
        let any_defaults = !effects.leader.new_vhosts.is_empty();
        self.carry_out(effects).await;
        let upto = if any_defaults { self.0.control_plane.logged_upto() } else { upto };
        let done = made.into_iter().next().map_or(Done::Nothing, |(_, outcome)| outcome.done);
        Applied { done, upto, left }
    }

    /// Gives some of these exchanges their shards. Also returns up to where the log must be durable for that,
    /// and the exchanges that are left.
    async fn reshard(&self, left: Vec<Resharding>) -> Applied {
        let mut changed = Submission(&self.0.control_plane).reshard(left).await;
        for queue in std::mem::take(&mut changed.gone) {
            self.end(&queue, changed.upto);
        }
        self.after_change(changed, 0, BY_SHARDING).await
    }

    /// Gives all of these exchanges their shards.
    async fn reshard_all(&self, mut left: Vec<Resharding>) -> Option<Lsn> {
        let mut last = None;
        while !left.is_empty() {
            let applied = self.reshard(left).await;
            (last, left) = (Some(applied.upto), applied.left);
        }
        last
    }

    /// Makes what follows from definitions that are there and a crash may have left out. For a node of a
    /// cluster: to be called once the definitions have a leader.
    pub async fn complete(&self) {
        self.keep_delayed_queues(&NewlyDelaying::Any).await;
        self.reshard_all(self.0.control_plane.all_sharded()).await;
    }

    async fn carry_out(&self, Effects { node, leader, home }: Effects) {
        node.into_iter().for_each(|effect| carry_out_here(self.0, effect));
        // The leader's effects are changes too, which have effects of their own.
        for of in &leader.delaying {
            Box::pin(self.keep_delayed_queues(of)).await;
        }
        for vhost in &leader.new_vhosts {
            Box::pin(self.apply_vhost_defaults(vhost)).await;
        }
        home.iter().for_each(|spec| give_history(&self.0.view(), &self.0.timers.tracing, spec));
    }

    /// Has queues take the settings of changed policies: at once, or in slices if the queues are many.
    fn review_settings(&self, queues: Vec<QueueRef>) {
        if queues.len() <= RULES_AT_ONCE_MAX {
            queues.iter().for_each(|queue| self.review_rules(queue));
        } else {
            self.0.timers.review(queues.into_iter());
        }
    }

    /// Has a queue take its present settings.
    pub(crate) fn review_rules(&self, queue: &QueueRef) {
        let view = self.0.view();
        queue.set_settings(&view.meta, view.epoch);
    }

    /// Applies the defaults of new virtual hosts to one that was just created.
    async fn apply_vhost_defaults(&self, vhost: &Name) {
        let commands = self.0.start.options.vhost_defaults.commands(&self.0.view().meta, vhost);
        for command in commands {
            if let Err(error) = self.apply(&command).await {
                tracing::warn!(
                    "cannot apply the defaults of new virtual hosts to '{vhost}': {error}"
                );
            }
        }
    }

    /// Declares the missing queues of delaying exchanges; such a queue goes with its exchange.
    pub(super) async fn keep_delayed_queues(&self, of: &NewlyDelaying) {
        match of {
            NewlyDelaying::One(vhost, name) => self.keep_delayed_queue(vhost, name).await,
            NewlyDelaying::Any => {
                for (vhost, name) in self.0.view().exchanges.delaying() {
                    self.keep_delayed_queue(vhost, name).await;
                }
            }
        }
    }

    async fn keep_delayed_queue(&self, vhost: &Name, name: &Name) {
        let view = self.0.view();
        let exchange = view.exchanges.get(vhost, name).zip(view.meta.exchange(vhost, name));
        let Some((exchange, def)) = exchange else { return };
        if view.meta.queue(vhost, &exchange.delayed_queue).is_none() {
            let queue = exchange.delayed_queue.clone();
            if let Err(error) = self.apply(&declaration_of(vhost, queue, def)).await {
                tracing::warn!("cannot declare the queue of a delayed exchange: {error}");
            }
        }
    }

    /// Deletes a queue, unless it is gone already.
    pub(crate) async fn drop_queue(&self, id: QueueId) {
        self.drop_queues(&[id]).await;
    }

    /// Deletes the queues that are not gone already, in slices.
    pub(crate) async fn drop_queues(&self, ids: &[QueueId]) {
        let mut slices = Slices::default();
        for ids in ids.chunks(DELETIONS_AT_ONCE) {
            let deletion = |id: &QueueId| Command::DeleteQueueById { id: *id };
            let plan = |_: &State| Ok::<_, MetaError>(ids.iter().map(deletion).collect());
            if let Err(error) = self.apply_together(BY_ITSELF, plan).await {
                tracing::debug!("cannot delete queues: {error:?}");
            }
            if ids.len() == DELETIONS_AT_ONCE {
                slices.give_way().await;
            }
        }
    }

    /// Deletes the exclusive queues of a connection, in slices.
    pub(crate) async fn drop_exclusive_queues(&self, owner: ConnectionId) {
        let deletion = Command::DeleteExclusiveQueues { owner };
        loop {
            match self.apply_durably(&deletion, BY_ITSELF).await {
                Ok(Done::Changed) => tokio::task::yield_now().await,
                Ok(_) => return,
                Err(error) => return tracing::debug!("cannot delete exclusive queues: {error:?}"),
            }
        }
    }

    /// Removes in slices the bindings of what a command is about to delete, until few are left. If there were
    /// many, the caller keeps the result until the command has been carried out. A node that ends before that
    /// finds all bindings in its log.
    async fn unbind_in_slices(
        &self,
        command: &Command,
        by: &str,
        slices: &mut Slices,
    ) -> Option<Unbinding<'_>> {
        let mut unbinding = None;
        loop {
            let removed =
                Submission(&self.0.control_plane).unbind_slice(command, &mut unbinding).await;
            if removed.is_empty() {
                return unbinding;
            }
            self.0.events().removed(&removed, by);
            slices.did(removed.len()).await;
        }
    }

    /// Declares one of [`meta::NODE_EXCHANGES`].
    pub(crate) async fn declare_own_exchange(
        &self,
        vhost: Name,
        name: &str,
    ) -> Result<(), MetaError> {
        let exchange = meta::node_exchange(vhost, name);
        self.0.apply_definition(Command::DeclareExchange(exchange)).await.map(|_| ())
    }
}

/// Carries out what the changes of other nodes leave to do for this one, as long as there is a broker. On a
/// lone node nothing is left.
pub async fn follow_definitions(broker: &Broker) {
    let Some(replication) = broker.control_plane.replication() else { return };
    let (work, mut slices) = (Arc::clone(replication.node_work()), Slices::default());
    loop {
        let NodeWorkDue { gone, upto, effects, unused } = work.next().await;
        effects.into_iter().for_each(|effect| carry_out_here(broker, effect));
        for queue in gone {
            broker.changes().end(&queue, upto);
            slices.did(1).await;
        }
        let unused: Vec<QueueId> = unused.into_iter().collect();
        broker.changes().drop_queues(&unused).await;
    }
}

/// Carries out an effect on this node's connections and queues.
fn carry_out_here(broker: &Broker, effect: NodeEffect) {
    match effect {
        NodeEffect::ReviewVersions => broker.classic.review_versions(),
        NodeEffect::ReviewSettings(queues) => broker.changes().review_settings(queues),
        NodeEffect::CloseConnectionsTo(vhost) => {
            broker.timers.tracing.stop(&vhost, None);
            let reason = format!("vhost '{vhost}' is deleted");
            broker.connections.kick_where(&reason, |one| one.vhost == *vhost);
        }
        NodeEffect::CloseConnectionsOf(user) => {
            let reason = format!("user '{user}' is deleted");
            broker.connections.kick_where(&reason, |one| one.user == *user);
        }
        NodeEffect::ReviewRightsOf(user) => broker.connections.review_rights(&user),
    }
}
