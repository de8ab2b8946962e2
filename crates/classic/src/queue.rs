//! A queue at run time: the pure core, the content, and the consumers' outboxes behind one lock.
//!
//! Lock order: a queue's lock, then the log's append lock, a `ConfirmQueue`'s or an outbox's. Never two
//! queues at a time, nothing awaited under the lock, wakers are called by the caller after it is given back.

mod confirm_on;
mod confirm_timeout;
mod consumer;
mod consumer_timeout;
mod consumers;
mod delay_header;
mod delayed;
mod deliveries;
mod files_version;
mod hand_over;
mod host;
mod inspection;
mod link_credit;
mod loading;
mod membership;
mod page_scan;
mod paging;
mod policy;
mod recover_pages;
mod recovery;
mod release;
mod state;
mod unfit;
mod upkeep;
mod version_change;

pub use consumer::Consumer;
pub use delay_header::{DELAY, delay_ms_of};
pub use delayed::{Delayed, DelayedMessage, HeldBack};
pub use files_version::FilesVersion;
pub use host::WorkerHost;
pub use inspection::Inspection;
pub(crate) use loading::V1Content;
pub use page_scan::PageScan;
pub use policy::RecoveredDeliveryCounts;
pub(crate) use recover_pages::{Filling, PageRead};
pub use recovery::QueueRecovery;
pub use release::{Release, Returning};
pub use upkeep::Upkeep;
pub(crate) use version_change::{CopyOutcome, LogPageOutcome, VersionChange};

use confirm::DurabilityToken;
use content::{Durability, QueueContext, Services};

use deliveries::Giving;
use delivery::{QueueCounters, QueueFigures};
use meta::{QueueDef, QueueSettings, QueueVersion};
use queue::AckMode;
use queue_type::{
    Attach, AttachRefused, DeleteConditions, Owner, PickedMessage, Publishes, QueueRefused,
    QueueStat, RefusedItem, Wakes, wake_all,
};
use session::Position;
use state::QueueState;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::task::Wake;

/// A queue.
#[derive(Debug)]
pub struct Queue {
    me: Weak<Self>,
    context: QueueContext,
    state: Mutex<QueueState>,
    is_loading: AtomicBool,
    /// The version its files have.
    pub files_version: FilesVersion,
    pub(crate) counters: QueueCounters,
}

impl Queue {
    /// An empty queue. The files of one of version 1 are yet to be read or made.
    pub fn new(
        def: Arc<QueueDef>,
        settings: QueueSettings,
        services: Arc<Services>,
        version: QueueVersion,
    ) -> Arc<Self> {
        let durability = match version {
            QueueVersion::V1 => Durability::unread_journal(),
            QueueVersion::V2 => Durability::new(def.durable),
        };
        let is_loading = version == QueueVersion::V1;
        let files_version = FilesVersion::new(def.id, version);
        let confirm_on = settings.confirm.on;
        let state =
            QueueState::new(durability, is_loading, settings, services.storage.time.monotonic_ms());
        let state = Mutex::new(state);
        let counters = QueueCounters::default();
        let context = QueueContext::new(def, services);
        let queue = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            context,
            state,
            is_loading: AtomicBool::new(is_loading),
            files_version,
            counters,
        });
        queue.counters.set_confirm_on(confirm_on);
        queue
    }

    /// Figures of the queue as of the last operation.
    #[must_use]
    pub fn stat(&self) -> QueueStat {
        self.counters.stat(self.files_version.get())
    }

    /// See [`QueueCounters::clear_used`].
    pub fn clear_used(&self) {
        self.counters.clear_used();
    }

    /// Runs `act` under the lock, brings the counters up to date, and wakes who was given something.
    fn with<T>(&self, act: impl FnOnce(&mut QueueState, &mut Wakes) -> T) -> T {
        let mut wakes = Wakes::new();
        let result = self.with_wakes(&mut wakes, act);
        wake_all(&mut wakes);
        result
    }

    /// Acts under the lock as [`Queue::with`] does, and leaves the waking to the caller.
    fn with_wakes<T>(
        &self,
        wakes: &mut Wakes,
        act: impl FnOnce(&mut QueueState, &mut Wakes) -> T,
    ) -> T {
        let (result, is_pager_wanted, is_sending_wanted) = {
            let mut state = stdx::lock(&self.state);
            let result = act(&mut state, wakes);
            debug_assert!(state.hand_over.is_empty(), "what is assigned is handed over");
            debug_assert!(state.counts_agree(), "what is stored has a place in the core");
            let is_deleted = state.deleted;
            let is_sending_wanted = state.leaving().settle(self, is_deleted);
            let QueueState { confirms, fifo, .. } = &mut *state;
            confirms.settle(self, fifo, wakes);
            if !state.consumers.draining().is_empty() {
                state.membership().end_drains(wakes);
            }
            if state.membership().has_other_active() {
                state.membership().tell_active(wakes);
            }
            state.content.backlog.trim(self.pool());
            state.content.settle_journal(self);
            self.count(&state);
            let is_pager_wanted = state.paging_turn().settle(&self.services, is_deleted, wakes);
            (result, is_pager_wanted, is_sending_wanted)
        };
        if is_sending_wanted && let Some(me) = self.me.upgrade() {
            self.services.host.send_letters_of(me);
        }
        if is_pager_wanted && let Some(me) = self.me.upgrade() {
            self.services.pager.ask(me);
        }
        result
    }

    /// Has the figures told as of an operation that ends.
    fn count(&self, state: &QueueState) {
        let figures = QueueFigures {
            n_ready: state.fifo.messages().n_ready(),
            n_unacked: state.fifo.consumers().n_held(),
            n_consumers: state.fifo.consumers().n_active() as u64,
        };
        self.counters.note(figures, &state.content.backlog, self);
    }

    /// Whether the publisher that asks should let the consumers have their turn: the backlog is deep,
    /// and they are taking from it.
    ///
    /// It is a matter of shares of the processor, not a limit. Consumers that are stuck, or slow by
    /// design, take little: a publisher is slowed down again only after they have taken a good part
    /// of what would make the backlog shallow.
    pub fn slows_down(&self) -> bool {
        self.counters.slows_down()
    }

    /// Somebody declared it again.
    pub fn touch(&self) {
        self.with(|state, _| state.policy.touch(self));
    }

    /// Takes what definitions of that epoch ask it to be.
    pub fn set_settings(&self, settings: &QueueSettings, epoch: u64) {
        self.with(|state, _| {
            if !state.deleted {
                let QueueState { confirms, fifo, .. } = state;
                confirms.set(fifo, settings.confirm);
                self.counters.set_confirm_on(settings.confirm.on);
                state.leaving().set_settings(self, settings, epoch);
            }
        });
    }

    /// Puts messages in, in order. Returns what must be durable before those of them that are
    /// persistent may be confirmed. A deleted queue takes them silently (RabbitMQ acks
    /// publishes to a queue that goes away).
    pub fn publish(
        &self,
        publishes: Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        self.with_wakes(wakes, |state, wakes| state.publish(self, publishes, refused, wakes))
    }

    /// Attaches a consumer; the outbox is told before its first delivery.
    pub fn attach(self: &Arc<Self>, attach: Attach<'_>) -> Result<Consumer, AttachRefused> {
        let (channel, settling) = (attach.channel, attach.checkout.settling);
        let key = self.with(|state, wakes| state.attach(self, attach, wakes))?;
        Ok(Consumer { queue: Arc::clone(self), key, channel, settling, is_active: true })
    }

    /// Attaches something that only takes what it asks for (`basic.get`).
    pub fn attach_passive(
        self: &Arc<Self>,
        owner: Owner,
        settling: AckMode,
    ) -> Result<Consumer, AttachRefused> {
        let key = self.with(|state, _| state.attach_passive(owner))?;
        let (_, channel) = owner;
        Ok(Consumer { queue: Arc::clone(self), key, channel, settling, is_active: false })
    }

    /// Drops every ready message; returns how many.
    pub fn purge(&self) -> u64 {
        self.with(|state, _| state.leaving().purge(self))
    }

    /// Drops the ready ones among messages; returns how many. The positions of the others are `stayed`.
    pub fn remove(&self, messages: &[PickedMessage], stayed: &mut Vec<u64>) -> u64 {
        self.with(|state, _| state.leaving().remove(self, messages, stayed))
    }

    /// Drops everything and tells the consumers. The queue takes nothing from now on.
    pub fn delete(&self) {
        let letters = self.with(|state, wakes| {
            let letters = state.leaving().last_letters(self);
            state.delete(self, wakes);
            letters
        });
        if let Some(letters) = letters {
            self.services.host.send_rejected(letters);
        }
    }

    /// Marks the queue as about to be deleted if the conditions hold: it takes nothing from now on.
    /// Returns the number of ready messages that will go with it.
    pub fn begin_delete(&self, conditions: DeleteConditions) -> Result<u64, QueueRefused> {
        stdx::lock(&self.state).begin_delete(conditions)
    }

    /// Whether it is deleted, or about to be.
    pub fn is_deleted(&self) -> bool {
        stdx::lock(&self.state).deleted
    }

    /// Whether a consumer would be given the next message at once.
    pub fn takes_at_once(&self) -> bool {
        self.with(|state, wakes| {
            state.end_gathering(self, wakes);
            state.fifo.takes_at_once()
        })
    }
}

/// Portions in which what was gathered is given out, so that it ends if more and more comes meanwhile.
const PORTIONS_MAX: usize = 256;

/// Woken by who published a flood of messages, once it has no more for now: what was gathered is given out,
/// in portions, and who was given one is woken before the next: it is written while it is in the processor's
/// caches, and nobody else waits long for the lock.
impl Wake for Queue {
    fn wake(self: Arc<Self>) {
        let mut giving = Giving::default();
        let mut give = |_| self.with(|state, wakes| state.give_gathered(&self, &mut giving, wakes));
        if (0..PORTIONS_MAX).all(&mut give) {
            self.with(|state, wakes| state.end_gathering(&self, wakes));
        }
    }
}

impl Deref for Queue {
    type Target = QueueContext;

    fn deref(&self) -> &QueueContext {
        &self.context
    }
}

/// A position as sessions name it.
const fn position(at: u64) -> Position {
    Position(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With its counts it fits into what allocators give for 1,024 bytes.
    #[test]
    fn an_idle_queue_is_small() {
        let bytes = size_of::<Queue>() + 2 * size_of::<usize>();
        assert!(bytes <= 1_024, "{bytes}");
    }
}
