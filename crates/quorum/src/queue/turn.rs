//! A turn under a queue's lock: commands are applied to the machine, recorded together, and their effects
//! carried out.

use super::QuorumQueue;
use super::state::QueueState;
use super::work::Work;
use crate::lazy_machine::LazyMachine;
use delivery::{AlarmOwner, QueueFigures};
use log::Lsn;
use queue::machine::{Answer, Command, Promise, Stored};
use queue::{PositionRange, Reason};
use queue_type::{Incoming, Wakes};
use std::sync::atomic::Ordering;
use stdx::UnixMs;

/// The duties left once the lock is released.
pub(crate) struct FollowUp {
    pub(crate) is_sending_wanted: bool,
    pub(crate) is_pager_wanted: bool,
}

/// A turn under a queue's lock.
pub(crate) struct Turn<'t> {
    pub(crate) queue: &'t QuorumQueue,
    pub(crate) state: &'t mut QueueState,
    pub(crate) work: Box<Work>,
    pub(crate) wakes: &'t mut Wakes,
    pub(crate) now_ms: UnixMs,
}

impl<'t> Turn<'t> {
    pub(crate) fn begin(
        queue: &'t QuorumQueue,
        state: &'t mut QueueState,
        wakes: &'t mut Wakes,
    ) -> Self {
        let work = state.work.take().unwrap_or_default();
        let now_ms = queue.context.time().unix_ms();
        Self { queue, state, work, wakes, now_ms }
    }

    /// Applies a command to the machine. The command is recorded by [`Turn::record`], at the end of the turn
    /// at the latest.
    pub(crate) fn apply(&mut self, command: &Command<'_>) {
        let Work { commands, effects, .. } = &mut *self.work;
        let QueueState { machine, log, terms, .. } = &mut *self.state;
        let machine = machine.make(&terms.settings);
        if log.is_empty() {
            log.write_form(&self.queue.context, machine, &self.queue.entries);
        }
        command.write(self.now_ms, commands);
        machine.apply(self.now_ms, command, effects);
    }

    /// The promises of the commands of this turn.
    pub(crate) fn promises(&self) -> impl Iterator<Item = &Promise> {
        self.work.effects.promises.iter()
    }

    /// Records the commands that were applied, with messages that they put in: of those of `messages`, the
    /// first of which had the number `first`. Returns when that is durable.
    pub(crate) fn record(&mut self, first: u64, messages: &[Incoming<'_>]) -> Option<Lsn> {
        let Work { commands, effects, .. } = &mut *self.work;
        if commands.is_empty() {
            return None;
        }
        let (context, content) = (&self.queue.context, &mut self.state.content);
        let placed = placed(&effects.stored, first, messages);
        let appended = content.keep_commands(context, placed.clone(), commands);
        self.state.log.note(context, &appended);
        let durable = context.wal().durable_upto();
        self.queue.entries.note(appended.upto, durable);
        for (at, incoming) in placed {
            content.store(context, at, Some(appended.at.segment), incoming);
        }
        commands.clear();
        effects.stored.clear();
        Some(appended.upto)
    }

    /// Ends the turn.
    pub(crate) fn end(mut self) -> FollowUp {
        loop {
            self.record(0, &[]);
            self.carry_out();
            if self.work.commands.is_empty() {
                break;
            }
        }
        let Self { queue, state, mut work, wakes, now_ms } = self;
        let (context, services) = (&queue.context, &queue.context.services);
        if let Some(confirms) = &mut state.publishing.confirms {
            confirms.tell(queue.def().name.as_str(), wakes);
            let n_overdue = work.effects.n_confirms_overdue;
            queue.counters.note_confirms(state.machine.facts().n_waiting(), n_overdue);
        }
        state.content.log_settled(context);
        state.content.backlog.trim(&services.storage.pool);
        if !state.is_deleted && state.log.is_form_due() {
            state.log.write_form(context, state.machine.get(), &queue.entries);
        }
        if state.letters.due_ms().is_some_and(|at_ms| at_ms <= now_ms) {
            state.letters.retry(state.machine.facts());
        }
        let deadline_ms = work.effects.deadline_ms.into_iter().chain(state.letters.due_ms()).min();
        if let Some(deadline_ms) = deadline_ms.filter(|_| !state.is_deleted) {
            let owner = AlarmOwner { me: &queue.me, context };
            state.alarms.set_unix(&owner, Some(deadline_ms));
        }
        let (deaths, to) =
            (&services.storage.deaths, state.machine.facts().settings().dead_letters);
        for (reason, n) in Reason::ALL.into_iter().zip(work.effects.n_died) {
            if n > 0 {
                deaths.note(context.def().kind, to, reason, n);
            }
        }
        if work.effects.n_unnoted > 0 {
            services.n_annotations_dropped.fetch_add(work.effects.n_unnoted, Ordering::Relaxed);
        }
        assert!(work.commands.is_empty(), "commands that were applied are recorded");
        work.effects.clear();
        if !state.is_idle() {
            state.work = Some(work);
        }
        debug_assert!(!state.log.is_empty() || !state.machine.is_made(), "a machine is in the log");
        let facts = state.machine.facts();
        let figures = QueueFigures {
            n_ready: facts.n_ready(),
            n_unacked: facts.n_held(),
            n_consumers: state.members.n_consumers,
        };
        queue.counters.note(figures, &state.content.backlog, &queue.context);
        queue.counters.note_departing(facts.n_departing());
        let is_sending_wanted = state.letters.is_sending_wanted(facts, &state.content.backlog);
        FollowUp { is_sending_wanted, is_pager_wanted: state.settle_paging(services, wakes) }
    }

    /// Carries out the effects of recorded commands. It may apply others, which are yet to be recorded.
    fn carry_out(&mut self) {
        self.hand_over();
        let timed_out = std::mem::take(&mut self.work.effects.timed_out);
        for run in timed_out.chunk_by(|a, b| a.consumer == b.consumer) {
            self.tell_overdue(run);
        }
        let active = std::mem::take(&mut self.work.effects.active);
        active.iter().for_each(|it| self.tell_active(it.consumer));
        let context = &self.queue.context;
        let Work { effects, .. } = &mut *self.work;
        if let Some(confirms) = &mut self.state.publishing.confirms {
            effects.promises.drain(..).for_each(|promise| confirms.note(promise));
        }
        effects.departing.clear();
        self.state.content.forget(context, effects.released.drain(..));
    }

    /// Drops everything and tells the consumers. The definition's removal is in the log already.
    pub(crate) fn delete(&mut self) {
        let (state, context) = (&mut *self.state, &self.queue.context);
        state.is_deleted = true;
        for feed in state.members.drain() {
            feed.channel.tell_cancelled(self.wakes);
        }
        let pool = context.pool();
        let dropped = state.content.backlog.clear(pool);
        state.content.free(context, dropped);
        state.log.release(context);
        state.machine = LazyMachine::unused(self.now_ms);
        if let Some(confirms) = &mut state.publishing.confirms {
            confirms.refuse_all();
        }
        state.letters.end();
        state.alarms.clear(&AlarmOwner { me: &self.queue.me, context });
    }

    /// The answer to the last command.
    pub(crate) fn take_answer(&mut self) -> Option<Answer> {
        self.work.effects.answers.pop()
    }
}

/// The messages that were stored, with their positions.
fn placed<'m, 'a>(
    stored: &'m [Stored],
    first: u64,
    messages: &'m [Incoming<'a>],
) -> impl Iterator<Item = (u64, &'m Incoming<'a>)> + Clone {
    stored.iter().flat_map(move |run| {
        let PositionRange { start, end } = run.positions;
        let skipped = usize::try_from(run.first.wrapping_sub(first)).unwrap_or(usize::MAX);
        (start..end).zip(messages.get(skipped..).unwrap_or_default())
    })
}
