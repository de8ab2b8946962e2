//! A quorum queue with one member: everybody says what they want under its lock, and its machine decides.
//!
//! Lock order: a queue's lock, then the log's append lock, a `ConfirmQueue`'s or an outbox's. Never two
//! queues at a time, nothing awaited under the lock, wakers are called after it is given back.

use crate::command_log::LogEntries;
use crate::settings::{confirm_on, machine_settings};
use state::QueueState;
use turn::Turn;
mod confirms;
mod consumer;

mod hand_over;
mod letters;
mod members;
mod modify;
mod notes;
mod paging;
mod publish;
mod recovery;
mod release;
mod ruled;
mod state;
mod turn;
mod undelivered;
mod work;

pub use confirms::WaitingPublishers;
pub use consumer::Consumer;
pub use recovery::{LoggedMachine, QuorumRecovery};
pub use release::Release;

use confirm::DurabilityToken;
use content::{PagedQueue, QueueContext, Services, StopNote};
use delivery::{QueueCounters, dead_letter_to};
use log::SegmentId;
use meta::{QueueDef, QueueSettings, QueueVersion};
use queue::AckMode;
use queue::machine::{Command, Promise};
use queue_type::{
    AckTimeout, Attach, AttachRefused, ConsumerView, DeleteConditions, Owner, Publishes,
    QueueRefused, QueueStat, RefusedItem, RuledQueue, Wakes, wake_all,
};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use store::backlog::Lookup;

/// A quorum queue.
#[derive(Debug)]
pub struct QuorumQueue {
    pub(crate) me: Weak<Self>,
    pub(crate) context: QueueContext,
    pub(crate) state: Mutex<QueueState>,
    pub(crate) counters: QueueCounters,
    pub(crate) entries: Box<LogEntries>,
}

/// Applies a command that takes messages out; returns how many.
pub(crate) fn n_taken_out(turn: &mut Turn<'_>, command: &Command<'_>) -> u64 {
    turn.apply(command);
    let n_messages = turn.promises().find_map(|promise| {
        let Promise::Purged { n_messages, .. } = promise else { return None };
        Some(*n_messages)
    });
    n_messages.unwrap_or_default()
}

impl QuorumQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(def: Arc<QueueDef>, settings: &QueueSettings, services: Arc<Services>) -> Arc<Self> {
        let state = QueueState::new(settings, &services);
        let queue = Self::of(def, services, state);
        queue.counters.set_confirm_on(confirm_on(settings));
        if settings.expires_ms.is_some() {
            queue.touch();
        }
        queue
    }

    pub(crate) fn of(def: Arc<QueueDef>, services: Arc<Services>, state: QueueState) -> Arc<Self> {
        let context = QueueContext::new(def, services);
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            context,
            state: Mutex::new(state),
            counters: QueueCounters::default(),
            entries: Box::default(),
        })
    }

    /// Definition of the queue.
    pub const fn def(&self) -> &Arc<QueueDef> {
        self.context.def()
    }

    /// Runs `act` under the lock, records and carries out what follows, and wakes who was given something.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Turn<'_>) -> T) -> T {
        let mut wakes = Wakes::new();
        let result = self.with_wakes(&mut wakes, act);
        wake_all(&mut wakes);
        result
    }

    /// Acts under the lock as [`QuorumQueue::with`] does, and leaves the waking to the caller.
    pub(crate) fn with_wakes<T>(
        &self,
        wakes: &mut Wakes,
        act: impl FnOnce(&mut Turn<'_>) -> T,
    ) -> T {
        let (result, follow_up) = {
            let mut state = stdx::lock(&self.state);
            let mut turn = Turn::begin(self, &mut state, wakes);
            let result = act(&mut turn);
            (result, turn.end())
        };
        if follow_up.is_sending_wanted
            && let Some(me) = self.me.upgrade()
        {
            let me: Arc<dyn RuledQueue> = me;
            self.context.services.host.send_letters_of(me);
        }
        if follow_up.is_pager_wanted
            && let Some(me) = self.me.upgrade()
        {
            let me: Arc<dyn PagedQueue> = me;
            self.context.services.pager.ask(me);
        }
        result
    }

    /// Puts messages in, in order; all of them are kept. Returns what must be durable before they may be
    /// confirmed. A deleted queue takes them silently.
    pub fn publish(
        &self,
        publishes: Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        self.with_wakes(wakes, |turn| turn.publish(publishes, refused))
    }

    /// Attaches a consumer; the outbox is told before its first delivery.
    ///
    /// # Errors
    /// The queue is being deleted, or has as many consumers as it may; a limit that consumers share.
    pub fn attach(self: &Arc<Self>, attach: Attach<'_>) -> Result<Arc<Consumer>, AttachRefused> {
        // COMPAT: RabbitMQ's text.
        if attach.limit.as_ref().is_some_and(|limit| limit.is_set()) {
            let text = format!("{} does not support global qos", self.def().resource());
            return Err(AttachRefused::NotImplemented(text));
        }
        let (channel, is_no_ack) = (attach.channel, attach.checkout.settling == AckMode::Auto);
        let is_active = Arc::new(AtomicBool::new(true));
        let id = self.with(|turn| turn.attach(attach, &is_active))?;
        Ok(Arc::new(Consumer::new(Arc::clone(self), id, channel, is_no_ack, is_active)))
    }

    /// Attaches something that only takes what it asks for (`basic.get`).
    ///
    /// # Errors
    /// The queue is being deleted.
    pub fn attach_passive(
        self: &Arc<Self>,
        owner: Owner,
        settling: AckMode,
        node_timeout_ms: Option<u64>,
    ) -> Result<Arc<Consumer>, AttachRefused> {
        let id = {
            let mut state = stdx::lock(&self.state);
            if state.is_deleted {
                return Err(AttachRefused::Gone);
            }
            let timeout_ms = state.terms.consumer_timeout_ms.or(node_timeout_ms);
            state.members.add_passive(owner, timeout_ms.filter(|it| *it > 0))
        };
        let (_, channel) = owner;
        let is_no_ack = settling == AckMode::Auto;
        let is_active = Arc::new(AtomicBool::new(false));
        Ok(Arc::new(Consumer::new(Arc::clone(self), id, channel, is_no_ack, is_active)))
    }

    /// Notes that the queue was declared again, which counts as use (`x-expires`).
    pub fn touch(&self) {
        self.with(|turn| {
            if turn.state.terms.settings.expires_ms.is_some() {
                turn.apply(&Command::Declared);
            }
        });
    }

    /// Takes settings, unless it has those of a later epoch of the definitions.
    pub fn set_settings(&self, settings: &QueueSettings, epoch: u64) {
        self.with(|turn| {
            if turn.state.is_deleted || epoch < turn.state.terms.epoch {
                return;
            }
            turn.state.terms.epoch = epoch;
            self.counters.set_confirm_on(confirm_on(settings));
            let changed = machine_settings(settings);
            turn.state.terms.consumer_timeout_ms = settings.consumer_timeout_ms;
            if turn.state.terms.settings != changed {
                turn.state.terms.settings = changed;
                if turn.state.machine.is_made() || changed.expires_ms.is_some() {
                    turn.apply(&Command::Settings(changed));
                }
            }
            let QueueState { letters, machine, .. } = &mut *turn.state;
            letters.set_to(dead_letter_to(settings), machine.facts());
        });
    }

    /// Drops every message that no consumer holds; returns how many.
    pub fn purge(&self) -> u64 {
        self.with(|turn| n_taken_out(turn, &Command::Purge { request: 0 }))
    }

    /// Marks the queue as about to be deleted if the conditions hold: it takes nothing from now on. Returns
    /// the number of ready messages that will go with it.
    ///
    /// # Errors
    /// It is in use, or not empty.
    pub fn begin_delete(&self, conditions: DeleteConditions) -> Result<u64, QueueRefused> {
        let DeleteConditions { if_unused, if_empty } = conditions;
        self.with(|turn| {
            turn.apply(&Command::Close { if_unused, if_empty, request: 0 });
            let mut answer = Ok(0);
            for promise in turn.promises() {
                if let Promise::Closed { n_ready, .. } = promise {
                    answer = Ok(*n_ready);
                } else if let Promise::InUse { .. } = promise {
                    answer = Err(QueueRefused::InUse);
                } else if let Promise::NotEmpty { .. } = promise {
                    answer = Err(QueueRefused::NotEmpty);
                }
            }
            turn.state.is_deleted |= answer.is_ok();
            answer
        })
    }

    /// Drops everything and tells the consumers. The queue takes nothing from now on.
    pub fn delete(&self) {
        self.with(|turn| turn.delete());
    }

    /// Figures of the queue as of the last operation.
    #[must_use]
    pub fn stat(&self) -> QueueStat {
        self.counters.stat(QueueVersion::V2)
    }

    /// Whether a publisher should let the consumers have their turn.
    #[must_use]
    pub fn slows_down(&self) -> bool {
        self.counters.slows_down()
    }

    /// Whether it is deleted, or about to be.
    pub fn is_deleted(&self) -> bool {
        stdx::lock(&self.state).is_deleted
    }

    /// Consumers of the queue.
    #[must_use]
    pub fn consumers(&self) -> Vec<ConsumerView> {
        let state = stdx::lock(&self.state);
        let mut consumers = state.machine.facts().consumers();
        let active = consumers.find(|it| it.is_active).map(|it| it.terms.consumer);
        state.members.views(state.terms.settings.is_single_active, active)
    }

    /// Adds up how many messages each channel holds.
    pub fn count_held(&self, held: &mut BTreeMap<Owner, u64>) {
        if self.counters.stat(QueueVersion::V2).n_unacked > 0 {
            let state = stdx::lock(&self.state);
            for (id, owner) in state.members.owners() {
                match state.machine.facts().held(id).count() as u64 {
                    0 => {}
                    n => *held.entry(owner).or_default() += n,
                }
            }
        }
    }

    /// The property `timestamp` of the message that it gives out next; none while that is not in memory.
    #[must_use]
    pub fn head_timestamp(&self) -> Option<u64> {
        let state = stdx::lock(&self.state);
        match state.content.backlog.get(state.machine.facts().ready().next()?) {
            Lookup::Here(message) => message.index().timestamp(),
            Lookup::Cold | Lookup::Gone => None,
        }
    }

    /// The channels whose consumers have held a message for too long since this was asked last.
    #[must_use]
    pub fn overdue(&self) -> Vec<AckTimeout> {
        std::mem::take(&mut stdx::lock(&self.state).members.overdue)
    }

    /// Moves what lies in log segment `segment` to the log's end.
    pub fn relocate(&self, segment: SegmentId) {
        let mut state = stdx::lock(&self.state);
        let QueueState { content, log, machine, .. } = &mut *state;
        content.upkeep(&self.context).relocate(segment);
        if log.lies_in(segment) {
            log.write_form(&self.context, machine.get(), &self.entries);
        }
    }

    /// Asks the pager if there is something to do.
    pub fn look_at_pages(&self) {
        self.with(|_| ());
    }

    /// The note that a clean stop takes of it.
    #[must_use]
    pub fn stop_note(&self) -> StopNote {
        StopNote { first_undelivered: Some(stdx::lock(&self.state).seen_below), unused_ms: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With its counts it fits into what allocators give for 1,024 bytes.
    #[test]
    fn an_idle_queue_is_small() {
        let bytes = size_of::<QuorumQueue>() + 2 * size_of::<usize>();
        assert!(bytes <= 1_024, "{bytes}");
    }
}
