//! The queue's side of its rules: what it is asked to be, what leaves it by itself, and when to look
//! again. The order things happen in is told in crate `queue`, `queue_policy.rs`.

mod arrivals;
mod delivery_counts;
mod last_use;
mod leaving;
mod waiting_letters;

pub(super) use arrivals::Arrivals;
use arrivals::arrival;
use delivery_counts::DeliveryCountLog;
pub use delivery_counts::RecoveredDeliveryCounts;
use last_use::LastUse;
pub(super) use leaving::Leaving;

use super::Queue;
use delivery::{AlarmOwner, QueueAlarms, Sending, add_counts, dead_letter_to, limits, retry};
use message::MessageRef;
use meta::{Overflow, QueueSettings};
use queue::{Fifo, Gone, MessageAttrs, PositionRange, QueuePolicy};
use queue_type::DeadLetterTo;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stdx::{MonotonicMs, TimeScale, UnixMs};
use store::backlog::Lookup;

/// The rules of a queue besides giving out messages in order.
#[derive(Debug, Default)]
struct PolicyState {
    settings: QueueSettings,
    noted_returns: DeliveryCountLog,
    /// Epoch of the definitions that `settings` are from.
    epoch: u64,
    dead_letter_to: Option<Arc<DeadLetterTo>>,
    /// Messages that are gone and whose content is still needed, to be dead-lettered or for their sizes.
    departing: VecDeque<Departing>,
    n_departing: u64,
    n_unsized: u64,
    /// Departing messages, from the first on, that the thread of rules has copied and is sending.
    n_sending: u64,
    sending: Sending,
    /// Times at which the thread of rules calls the queue.
    alarms: QueueAlarms,
    last_use: LastUse,
}

/// Messages that are gone and whose content is still needed.
#[derive(Clone, Copy, Debug)]
struct Departing {
    gone: Gone,
    /// Whether the sizes of the messages no longer count as ready.
    is_sized: bool,
}

impl PolicyState {
    fn new(settings: QueueSettings, last_use: LastUse) -> Self {
        let dead_letter_to = dead_letter_to(&settings).map(Arc::new);
        Self { settings, dead_letter_to, last_use, ..Self::default() }
    }

    fn rules(&self) -> QueuePolicy {
        let settings = &self.settings;
        QueuePolicy {
            priority_max: settings.max_priority,
            limits: limits(settings, settings.length.overflow != Overflow::DropHead),
            delivery_limit: settings.delivery_limit,
            counts_returns: false,
            notes_returns: settings.delivery_limit.is_some(),
            retry: retry(settings),
        }
    }

    const fn counts_bytes(&self) -> bool {
        self.settings.length.bytes_max.is_some()
    }

    const fn counts_returns(&self) -> bool {
        self.settings.delivery_limit.is_some() || self.settings.delayed_retry.is_some()
    }

    fn may_note_returns(&self) -> bool {
        self.settings.delivery_limit.is_some() || self.noted_returns.any()
    }

    /// Whether messages that come must be looked at.
    fn looks_at_arrivals(&self) -> bool {
        self.settings.message_ttl_ms.is_some()
            || self.settings.holds_back
            || self.settings.max_priority > 0
            || self.settings.length.any()
    }

    const fn refuses(&self) -> bool {
        let length = &self.settings.length;
        length.any() && !matches!(length.overflow, Overflow::DropHead)
    }

    fn depart(&mut self, departing: Departing) {
        let Departing { gone, is_sized } = departing;
        self.n_departing += gone.positions.len();
        self.n_unsized += if is_sized { 0 } else { gone.positions.len() };
        if let Some(last) = self.departing.back_mut()
            && last.gone.reason == gone.reason
            && last.is_sized == is_sized
            && last.gone.positions.end == gone.positions.start
        {
            last.gone.positions.end = gone.positions.end;
            return;
        }
        self.departing.push_back(departing);
    }

    /// Takes all that depart.
    fn take_departing(&mut self) -> Vec<PositionRange> {
        (self.n_departing, self.n_unsized) = (0, 0);
        self.departing.drain(..).map(|departing| departing.gone.positions).collect()
    }

    /// Takes the first of those that depart.
    fn take_departed(&mut self) -> Option<u64> {
        let first = self.departing.front_mut()?;
        let positions = &mut first.gone.positions;
        let at = positions.start;
        positions.start += 1;
        self.n_departing -= 1;
        self.n_unsized -= u64::from(!first.is_sized);
        if positions.is_empty() {
            self.departing.pop_front();
        }
        Some(at)
    }
}

/// A queue's policy; none for a plain queue.
#[derive(Debug, Default)]
pub(super) struct Policy {
    state: Option<Box<PolicyState>>,
    /// The core is to be told the sizes of messages that are given out.
    pub(super) notes_sizes: bool,
}

impl Policy {
    /// The policy of a queue that is asked to be so, which its core takes on.
    pub(super) fn new(settings: QueueSettings, now_ms: MonotonicMs, fifo: &mut Fifo) -> Self {
        if is_plain(&settings) {
            return Self::default();
        }
        let policy = PolicyState::new(settings, LastUse::now(now_ms));
        fifo.set_policy(policy.rules());
        if policy.settings.single_active_consumer {
            fifo.consumers_mut().make_single_active();
        }
        Self { notes_sizes: policy.counts_bytes(), state: Some(Box::new(policy)) }
    }

    /// The first position that no consumer was given.
    pub(super) fn first_undelivered(&self, fifo: &Fifo) -> u64 {
        match fifo.seen().last().filter(|_| self.needs_content()) {
            // With priorities messages were delivered above others that were not.
            Some(last) => last + 1,
            None => fifo.messages().first_undelivered(),
        }
    }

    /// Has the queue called when something will be due, which of confirms is at `overdue_ms`.
    fn set_alarms(&mut self, fifo: &Fifo, overdue_ms: Option<MonotonicMs>, queue: &Queue) {
        let expires_at_ms = self.expires_at_ms(fifo.consumers().n_active() > 0);
        let at_ms = expires_at_ms.into_iter().chain(overdue_ms).min();
        let alarms = &mut self.state.get_or_insert_default().alarms;
        let owner = AlarmOwner { me: &queue.me, context: queue };
        alarms.set_unix(&owner, next_deadline(fifo));
        alarms.set_monotonic(&owner, at_ms);
    }

    /// Has an alarm come as soon as the thread of rules works.
    pub(super) fn call_at_once(&mut self, queue: &Queue) {
        let owner = AlarmOwner { me: &queue.me, context: queue };
        let alarms = &mut self.state.get_or_insert_default().alarms;
        alarms.set_unix(&owner, Some(UnixMs::default()));
    }

    /// An alarm has come.
    pub(super) fn note_alarm(&mut self, scale: TimeScale) {
        if let Some(policy) = &mut self.state {
            policy.alarms.note_come(scale);
        }
    }

    /// The progress of sending dead letters.
    pub(super) fn sending(&self) -> Sending {
        self.state.as_deref().map(|policy| policy.sending).unwrap_or_default()
    }

    /// Messages that are gone and whose content is still needed.
    pub(super) fn n_departing(&self) -> u64 {
        self.state.as_deref().map_or(0, |policy| policy.n_departing)
    }

    fn first_departing(&self) -> Option<Departing> {
        self.state.as_deref()?.departing.front().copied()
    }

    /// The positions of all messages that depart.
    pub(super) fn all_departing(&self) -> impl Iterator<Item = PositionRange> + '_ {
        let departing = self.state.iter().flat_map(|policy| &policy.departing);
        departing.map(|departing| departing.gone.positions)
    }

    /// The first message that departs.
    pub(super) fn departing(&self) -> Option<u64> {
        Some(self.first_departing()?.gone.positions.start)
    }

    /// Time for which a message may wait for its acknowledgement, in milliseconds, if the queue sets one.
    pub(super) fn consumer_timeout_ms(&self) -> Option<u64> {
        self.state.as_deref()?.settings.consumer_timeout_ms
    }

    /// Whether only one consumer at a time is given messages.
    pub(super) fn is_single_active(&self) -> bool {
        self.state.as_deref().is_some_and(|policy| policy.settings.single_active_consumer)
    }

    /// Whether messages say how often they came back.
    pub(super) fn counts_returns(&self) -> bool {
        self.state.as_deref().is_some_and(PolicyState::counts_returns)
    }

    /// Whether the core has to know something about each message.
    pub(super) fn needs_content(&self) -> bool {
        self.state
            .as_deref()
            .is_some_and(|policy| policy.settings.max_priority > 0 || policy.counts_bytes())
    }

    /// A message of an earlier life, as the core is to know it.
    pub(super) fn recovered(
        &self,
        at: u64,
        message: &MessageRef<'_>,
        bytes: u64,
    ) -> queue::RecoveredMessages {
        let has_priorities =
            self.state.as_deref().is_some_and(|policy| policy.settings.max_priority > 0);
        let MessageAttrs { priority, deadline_ms, bytes } = arrival(message, has_priorities, bytes);
        let positions = PositionRange::one(at);
        queue::RecoveredMessages {
            positions,
            priority,
            deadline_ms,
            bytes,
            returns: Default::default(),
        }
    }

    /// No more than the first `n` are sent for now.
    fn set_sending(&mut self, n: u64) {
        if let Some(policy) = &mut self.state {
            policy.n_sending = n;
        }
    }

    /// Time when `x-expires` deletes the queue, by the monotonic clock; never while it has consumers.
    pub(super) fn expires_at_ms(&self, has_consumers: bool) -> Option<MonotonicMs> {
        let policy = self.state.as_deref()?;
        let expires_ms = policy.settings.expires_ms.filter(|_| !has_consumers)?;
        Some(policy.last_use.expires_at_ms(expires_ms))
    }

    /// Milliseconds for which nobody has used the queue, if it goes when that is too long.
    pub(super) fn unused_for_ms(&self, has_consumers: bool, now_ms: MonotonicMs) -> Option<u64> {
        self.expires_at_ms(has_consumers)?;
        Some(self.state.as_deref()?.last_use.unused_for_ms(now_ms))
    }

    /// Sets for how long nobody had used the queue when the node was stopped.
    pub(super) fn unused_before(&mut self, unused_before_ms: u64) {
        if let Some(policy) = &mut self.state {
            policy.last_use.unused_before_ms = unused_before_ms;
        }
    }

    /// Notes that the queue is used now, for `x-expires`.
    pub(super) fn touch(&mut self, queue: &Queue) {
        if let Some(policy) = &mut self.state
            && policy.settings.expires_ms.is_some()
        {
            policy.last_use = LastUse::now(queue.time().monotonic_ms());
        }
    }

    /// Ends the queue's rules: releases its notes in the log and clears its alarms.
    pub(super) fn end_rules(&mut self, queue: &Queue) {
        let Some(mut policy) = self.state.take() else { return };
        policy.noted_returns.release(queue.wal());
        policy.alarms.clear(&AlarmOwner { me: &queue.me, context: queue });
    }
}

impl Leaving<'_> {
    /// Updates the state that depends on rules, after every operation. True if dead letters are to be sent.
    #[inline]
    pub(super) fn settle(&mut self, queue: &Queue, is_deleted: bool) -> bool {
        let has_rules = self.policy.state.is_some() || self.fifo.messages().policy().is_some();
        if !has_rules && self.confirms.next_overdue_ms().is_none() {
            return false;
        }
        self.settle_policy(queue, is_deleted)
    }

    #[inline(never)]
    fn settle_policy(&mut self, queue: &Queue, is_deleted: bool) -> bool {
        if self.policy.state.as_deref().is_some_and(PolicyState::may_note_returns) {
            self.note_returns(queue);
        }
        let dead_letters =
            self.policy.state.as_deref().is_some_and(|it| it.dead_letter_to.is_some());
        let is_asked = matches!(self.policy.sending(), Sending::Asked | Sending::UnderWay);
        if !dead_letters && !is_asked && self.policy.departing().is_some() {
            self.shed(queue);
            self.content.log_settled(queue);
        }
        if !is_deleted {
            self.policy.set_alarms(self.fifo, self.confirms.next_overdue_ms(), queue);
        }
        let departing = self.policy.departing().filter(|_| !is_deleted);
        let is_at_hand =
            departing.is_some_and(|at| !matches!(self.content.backlog.get(at), Lookup::Cold));
        let policy = self.policy.state.get_or_insert_default();
        queue.counters.n_departing.store(policy.n_departing, Ordering::Relaxed);
        let asks = is_at_hand && dead_letters && policy.sending == Sending::Idle;
        if asks {
            policy.sending = Sending::Asked;
        }
        asks
    }

    /// Takes what the queue is asked to be, as of definitions `epoch`.
    pub(super) fn set_settings(&mut self, queue: &Queue, settings: &QueueSettings, epoch: u64) {
        let is_same = self.policy.state.as_deref().map_or_else(
            || is_plain(settings),
            |policy| policy.epoch > epoch || policy.settings == *settings,
        );
        if is_same {
            return;
        }
        let now_ms = queue.time().unix_ms();
        let counted_bytes = self.policy.state.as_deref().is_some_and(PolicyState::counts_bytes);
        let last_use = LastUse::now(queue.time().monotonic_ms());
        let fresh = PolicyState { epoch, ..PolicyState::new(settings.clone(), last_use) };
        match &mut self.policy.state {
            Some(policy) => {
                if policy.settings.expires_ms != fresh.settings.expires_ms {
                    policy.last_use = last_use;
                }
                policy.settings = fresh.settings;
                policy.dead_letter_to = fresh.dead_letter_to;
                policy.epoch = epoch;
            }
            None => self.policy.state = Some(Box::new(fresh)),
        }
        let rules = self.policy.state.as_deref().map(PolicyState::rules).unwrap_or_default();
        self.fifo.set_policy(rules);
        self.policy.notes_sizes = rules.limits.bytes_max.is_some();
        if rules.limits.bytes_max.is_some() && !counted_bytes {
            self.count_bytes();
        }
        self.enforce(queue, now_ms);
    }
}

/// Time when the first message expires or is to be given out again, in Unix milliseconds.
fn next_deadline(core: &Fifo) -> Option<UnixMs> {
    core.messages().policy().and_then(queue::PolicyState::next_deadline)
}

/// Whether a queue with these settings does nothing by rules.
fn is_plain(settings: &QueueSettings) -> bool {
    let QueueSettings { version, confirm, .. } = *settings;
    *settings == QueueSettings { version, confirm, ..QueueSettings::default() }
}

/// The properties of the message at `position` with how often it came back; none if it did not.
pub(super) fn with_counts(core: &Fifo, position: u64, message: &MessageRef<'_>) -> Option<Vec<u8>> {
    add_counts(core.messages().policy()?.returns().of(position), message)
}
