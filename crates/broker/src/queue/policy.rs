//! The queue's side of its rules: what it is asked to be, what leaves it by itself, and when to look
//! again. The order things happen in is `queue::rules`'.

use super::alarms::QueueAlarms;
use super::delivery_counts::DeliveryCountLog;
use super::last_use::LastUse;
use super::state::{Incoming, Publishes, QueueState};
use super::waiting_letters::Keeper;
use super::{AfterDetach, Queue, Wakes};
use crate::clock::TimeScale;
use crate::confirm::DurabilityToken;
use crate::exchanges::delay;
use crate::headers;
use crate::rules::{DeadLetter, DeadLetterTo, RejectedDeadLetters};
use amqp091::{PropertiesRef, ShortString, Value};
use message::MessageRef;
use meta::{Overflow, QueueSettings, RetryType};
use queue::{Gone, Limits, MessageAttrs, PositionRange, QueuePolicy, Reason, Retry, RetryOn};
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::backlog::Lookup;

/// Messages that expire in one go, more or less.
const EXPIRE_AT_A_TIME: u64 = 4_096;
/// Dead letters of a queue that goes which are sent ...
const LAST_LETTERS_MAX: usize = 64 * 1024;
/// ... and their bytes; any more go with it.
const LAST_LETTER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Ranges of more messages are forgotten together.
const ONE_BY_ONE_MAX: u64 = 64;

/// What a queue does besides giving out messages in order.
#[derive(Debug, Default)]
pub(super) struct PolicyState {
    pub(super) settings: QueueSettings,
    pub(super) noted_returns: DeliveryCountLog,
    /// Of the definitions `settings` are from.
    epoch: u64,
    dead_letter_to: Option<Arc<DeadLetterTo>>,
    /// Messages that are gone and whose content is still needed: to be dead-lettered, or to know
    /// their sizes.
    departing: VecDeque<Departing>,
    n_departing: u64,
    n_unsized: u64,
    /// Of the first of them the keeper has copies, and is sending them.
    n_sending: u64,
    pub(super) keeper: Keeper,
    /// When the keeper comes anyway.
    alarms: QueueAlarms,
    pub(super) last_use: LastUse,
}

/// Messages that are gone and whose content is still needed.
#[derive(Clone, Copy, Debug)]
struct Departing {
    gone: Gone,
    /// Their sizes no longer count as ready.
    is_sized: bool,
}

/// A message that a full queue did not take.
#[derive(Clone, Debug)]
pub(crate) struct RefusedItem {
    pub(crate) item: u32,
    /// It is to be dead-lettered.
    pub(crate) dead_letter_to: Option<Arc<DeadLetterTo>>,
}

/// Dead letters to be sent.
pub(crate) struct LetterBatch {
    pub(crate) to: Arc<DeadLetterTo>,
    pub(crate) letters: Vec<DeadLetter>,
    /// How many messages they are, with those that were lost meanwhile.
    pub(crate) n_positions: u64,
}

impl PolicyState {
    fn new(settings: QueueSettings, last_use: LastUse) -> Self {
        let dead_letter_to = settings.dead_letter_exchange.clone().map(|exchange| {
            Arc::new(DeadLetterTo {
                exchange,
                routing_key: settings.dead_letter_routing_key.clone(),
            })
        });
        Self { settings, dead_letter_to, last_use, ..Self::default() }
    }

    fn rules(&self) -> QueuePolicy {
        let settings = &self.settings;
        let is_limited = settings.max_length.is_some() || settings.max_length_bytes.is_some();
        let overflow = match settings.overflow {
            Overflow::RejectPublish if is_limited => queue::Overflow::RejectPublish,
            Overflow::RejectPublishDeadLetter if is_limited => queue::Overflow::RejectPublishDlx,
            Overflow::DropHead | Overflow::RejectPublish | Overflow::RejectPublishDeadLetter => {
                queue::Overflow::DropHead
            }
        };
        QueuePolicy {
            priority_max: settings.max_priority,
            limits: Limits {
                messages_max: settings.max_length,
                bytes_max: settings.max_length_bytes,
                overflow,
            },
            delivery_limit: settings.delivery_limit,
            counts_returns: false,
            notes_returns: settings.delivery_limit.is_some(),
            retry: settings.delayed_retry.map(|retry| Retry {
                on: match retry.on {
                    RetryType::All => RetryOn::All,
                    RetryType::Failed => RetryOn::Failed,
                    RetryType::Returned => RetryOn::Released,
                },
                min_ms: retry.min_ms,
                max_ms: retry.max_ms,
            }),
        }
    }

    const fn counts_bytes(&self) -> bool {
        self.settings.max_length_bytes.is_some()
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
            || self.settings.max_length.is_some()
            || self.counts_bytes()
    }

    const fn refuses(&self) -> bool {
        let is_limited = self.settings.max_length.is_some() || self.counts_bytes();
        is_limited && !matches!(self.settings.overflow, Overflow::DropHead)
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
    pub(super) fn take_departing(&mut self) -> Vec<PositionRange> {
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

/// What is to be known about messages that come in now.
struct Arrivals {
    now_ms: u64,
    ttl_ms: Option<u64>,
    has_priorities: bool,
    /// Each stays for as long as it says, and what it says of its expiration counts later.
    holds_back: bool,
}

impl Arrivals {
    /// When a message expires.
    fn deadline_ms(&self, message: &MessageRef<'_>) -> Option<NonZeroU64> {
        let properties = PropertiesRef::trusted(message.properties);
        if self.holds_back {
            let delay_ms = delay::of(properties.headers()).unwrap_or_default();
            return NonZeroU64::new(self.now_ms.saturating_add(delay_ms).max(1));
        }
        let expiration = properties.expiration();
        let own = expiration.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        let ttl_ms = match (self.ttl_ms, own) {
            (Some(of_queue), Some(own)) => of_queue.min(own),
            (one, other) => one.or(other)?,
        };
        NonZeroU64::new(self.now_ms.saturating_add(ttl_ms).max(1))
    }

    fn arrival(&self, message: &MessageRef<'_>) -> MessageAttrs {
        arrival(message, self.has_priorities, message.body.len() as u64)
    }
}

fn arrival(message: &MessageRef<'_>, has_priorities: bool, bytes: u64) -> MessageAttrs {
    let priority = || PropertiesRef::trusted(message.properties).priority().unwrap_or(0);
    MessageAttrs {
        priority: if has_priorities { priority() } else { 0 },
        deadline_ms: message.annotations.deadline_ms.map(NonZeroU64::get),
        bytes,
    }
}

/// How messages get their positions.
pub(super) struct PutIn<'a>(Option<&'a Arrivals>);

impl PutIn<'_> {
    /// One after the other: for a queue without rules.
    pub(super) const PLAINLY: Self = Self(None);
}

impl QueueState {
    /// Puts a message in its place.
    #[inline]
    pub(super) fn place(&mut self, how: &PutIn<'_>, message: &MessageRef<'_>) -> u64 {
        match how.0 {
            None => self.fifo.enqueue(1),
            Some(arrivals) => self.fifo.put(&arrivals.arrival(message), arrivals.now_ms),
        }
    }

    /// As [`QueueState::publish`], for a queue that has rules, or messages that expire.
    #[inline(never)]
    pub(super) fn publish_by_rules(
        &mut self,
        queue: &Queue,
        batch: &Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        let ruling = self.ruling.as_deref();
        if !batch.any_expiring && ruling.is_none_or(|ruling| !ruling.looks_at_arrivals()) {
            return self.publish_together(queue, batch, &PutIn::PLAINLY, wakes);
        }
        let arrivals = Arrivals {
            now_ms: queue.storage.time.unix_ms(),
            ttl_ms: ruling.and_then(|ruling| ruling.settings.message_ttl_ms),
            has_priorities: ruling.is_some_and(|ruling| ruling.settings.max_priority > 0),
            holds_back: ruling.is_some_and(|ruling| ruling.settings.holds_back),
        };
        let resolve = |item| {
            let mut incoming = (batch.resolve)(item);
            incoming.message.annotations.deadline_ms = arrivals.deadline_ms(&incoming.message);
            incoming
        };
        let batch = Publishes { resolve: &resolve, ..*batch };
        let put_in = PutIn(Some(&arrivals));
        let awaited = if ruling.is_some_and(PolicyState::refuses) {
            self.publish_admitted(queue, &batch, &put_in, refused, wakes)
        } else {
            self.publish_together(queue, &batch, &put_in, wakes)
        };
        self.enforce(queue, arrivals.now_ms);
        awaited
    }

    /// Puts in what there is room for, and refuses the rest.
    fn publish_admitted(
        &mut self,
        queue: &Queue,
        batch: &Publishes<'_, '_>,
        put_in: &PutIn<'_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        let mut awaited = DurabilityToken::default();
        let mut rest = batch.items;
        while let Some((first, others)) = rest.split_first() {
            let (admitted, later) = rest.split_at(self.n_admitted(rest, batch.resolve));
            if admitted.is_empty() {
                let ruling = self.ruling.as_deref();
                let dead_letter_to = ruling
                    .filter(|ruling| ruling.settings.overflow == Overflow::RejectPublishDeadLetter);
                let dead_letter_to = dead_letter_to.and_then(|it| it.dead_letter_to.clone());
                refused.push(RefusedItem { item: *first, dead_letter_to });
                rest = others;
                continue;
            }
            let batch = Publishes { items: admitted, ..*batch };
            awaited.add(self.publish_together(queue, &batch, put_in, wakes));
            rest = later;
        }
        awaited
    }

    /// How many of the first `items` there is room for if nothing leaves.
    fn n_admitted<'a>(&self, items: &[u32], resolve: &dyn Fn(u32) -> Incoming<'a>) -> usize {
        let Some(ruling) = &self.ruling else { return items.len() };
        let QueueSettings { max_length, max_length_bytes, .. } = ruling.settings;
        let n_there = self.fifo.n_ready() + self.fifo.n_delayed();
        let mut bytes = self.fifo.ready_bytes();
        let fits = |(n, item): &(u64, &u32)| {
            if max_length.is_some_and(|max| n_there + n > max) {
                return false;
            }
            max_length_bytes.is_none_or(|max| {
                bytes = bytes.saturating_add(resolve(**item).message.body.len() as u64);
                bytes <= max
            })
        };
        (1..).zip(items).take_while(fits).count()
    }

    /// After messages came in or back: what is too much goes, and what is over.
    pub(super) fn enforce(&mut self, queue: &Queue, now_ms: u64) {
        if !self.fifo.is_ruled() {
            return;
        }
        while self.knows_its_bytes() {
            let Some(dropped) = self.fifo.drop_over_limit() else { break };
            self.leave(queue, &[dropped]);
        }
        self.expire(queue, now_ms);
        self.note_in_log(queue);
    }

    /// Whether nothing is gone whose size is not known yet, where sizes count.
    fn knows_its_bytes(&self) -> bool {
        self.ruling.as_deref().is_none_or(|ruling| ruling.n_unsized == 0)
    }

    /// Takes out what is over now, a limited number at a time.
    fn expire(&mut self, queue: &Queue, now_ms: u64) {
        if self.fifo.next_deadline().is_none_or(|deadline_ms| deadline_ms > now_ms) {
            return;
        }
        let mut gone = Vec::new();
        self.fifo.expire(now_ms, EXPIRE_AT_A_TIME, &mut gone);
        self.leave(queue, &gone);
    }

    /// Messages are gone by a rule: they are dead-lettered where that is wanted, or forgotten.
    pub(super) fn leave(&mut self, queue: &Queue, gone: &[Gone]) {
        for gone in gone {
            let was_ready = matches!(gone.reason, Reason::Expired | Reason::MaxLen);
            let counts_bytes = self.ruling.as_deref().is_some_and(PolicyState::counts_bytes);
            if !(was_ready && counts_bytes) {
                self.leave_sized(queue, Departing { gone: *gone, is_sized: true });
                continue;
            }
            for at in gone.positions.start..gone.positions.end {
                let is_sized = self.note_bytes_gone(at);
                let gone = Gone { positions: PositionRange::one(at), ..*gone };
                self.leave_sized(queue, Departing { gone, is_sized });
            }
        }
    }

    /// Tells the core the size of a message that is ready no more; false if it is not at hand.
    fn note_bytes_gone(&mut self, at: u64) -> bool {
        match self.backlog.get(at) {
            Lookup::Here(message) => self.fifo.note_bytes_gone(message.body.len() as u64),
            Lookup::Cold => return false,
            Lookup::Gone => {}
        }
        true
    }

    fn leave_sized(&mut self, queue: &Queue, departing: Departing) {
        match &mut self.ruling {
            Some(ruling) if ruling.dead_letter_to.is_some() || !departing.is_sized => {
                ruling.depart(departing);
            }
            Some(_) | None => self.forget(queue, departing.gone.positions),
        }
    }

    /// Forgets messages that are gone.
    fn forget(&mut self, queue: &Queue, positions: PositionRange) {
        if positions.len() <= ONE_BY_ONE_MAX {
            self.not_consumed(positions);
            for at in positions.start..positions.end {
                self.release(&queue.storage.pool, at);
            }
        } else {
            self.drop_ranges(queue, &[positions]);
        }
    }

    /// Forgets what departs and is to be dead-lettered nowhere, as far as it is at hand.
    fn shed(&mut self, queue: &Queue) {
        while let Some(departing) = self.first_departing() {
            let at = departing.gone.positions.start;
            if !departing.is_sized && !self.note_bytes_gone(at) {
                return;
            }
            self.ruling.as_deref_mut().and_then(PolicyState::take_departed);
            self.not_consumed(PositionRange::one(at));
            self.release(&queue.storage.pool, at);
        }
    }

    fn first_departing(&self) -> Option<Departing> {
        self.ruling.as_deref()?.departing.front().copied()
    }

    /// The first message that departs.
    pub(super) fn departing(&self) -> Option<u64> {
        Some(self.first_departing()?.gone.positions.start)
    }

    /// Whether the keeper comes for the first message that departs, which is in memory for it.
    pub(super) fn awaits_keeper(&self) -> bool {
        self.keeper() == Keeper::DurabilityToken
    }

    /// Brings up to date what depends on rules, after every operation. True if the keeper is to be
    /// asked.
    #[inline]
    pub(super) fn settle_rules(&mut self, queue: &Queue) -> bool {
        if self.ruling.is_none() && !self.fifo.is_ruled() {
            return false;
        }
        self.settle_ruling(queue)
    }

    #[inline(never)]
    fn settle_ruling(&mut self, queue: &Queue) -> bool {
        if self.ruling.as_deref().is_some_and(PolicyState::may_note_returns) {
            self.note_returns(queue);
        }
        let dead_letters = self.ruling.as_deref().is_some_and(|it| it.dead_letter_to.is_some());
        let is_asked = matches!(self.keeper(), Keeper::DurabilityToken | Keeper::AtIt);
        if !dead_letters && !is_asked && self.departing().is_some() {
            self.shed(queue);
            self.note_in_log(queue);
        }
        self.set_alarms(queue);
        let departing = self.departing().filter(|_| !self.is_deleted());
        let is_at_hand = departing.is_some_and(|at| !matches!(self.backlog.get(at), Lookup::Cold));
        let ruling = self.ruling.get_or_insert_default();
        queue.counters.n_departing.store(ruling.n_departing, Ordering::Relaxed);
        let asks = is_at_hand && dead_letters && ruling.keeper == Keeper::Away;
        if asks {
            ruling.keeper = Keeper::DurabilityToken;
        }
        asks
    }

    fn set_alarms(&mut self, queue: &Queue) {
        if self.is_deleted() {
            return;
        }
        let (deadline_ms, unused_ms) = (self.fifo.next_deadline(), self.unused_ms());
        let alarms = &mut self.ruling.get_or_insert_default().alarms;
        alarms.set(queue, TimeScale::Unix, deadline_ms);
        alarms.set(queue, TimeScale::Monotonic, unused_ms);
    }

    /// The queue's time has come.
    fn on_time(&mut self, queue: &Queue, scale: TimeScale, wakes: &mut Wakes) -> AfterDetach {
        if let Some(ruling) = &mut self.ruling {
            ruling.alarms.note_come(scale);
        }
        if self.is_deleted() {
            return AfterDetach::Stays;
        }
        let now_ms = queue.storage.time.unix_ms();
        self.fifo.wake(now_ms);
        self.enforce(queue, now_ms);
        self.dispatch(queue, wakes);
        let is_over = |unused_ms| unused_ms <= queue.storage.time.monotonic_ms();
        if self.unused_ms().is_some_and(is_over) {
            self.mark_deleted();
            return AfterDetach::DeleteQueue;
        }
        AfterDetach::Stays
    }

    /// Expires what is over, before somebody is given something.
    pub(super) fn look_at_time(&mut self, queue: &Queue) {
        if self.fifo.next_deadline().is_some() {
            let now_ms = queue.storage.time.unix_ms();
            self.enforce(queue, now_ms);
        }
    }

    /// Messages came back to the queue; some of them are gone.
    pub(super) fn after_return(&mut self, queue: &Queue, gone: &[Gone]) {
        self.leave(queue, gone);
        if self.fifo.is_ruled() {
            self.enforce(queue, queue.storage.time.unix_ms());
        }
    }

    /// The time messages come back at, where that matters.
    pub(super) fn returned_ms(&self, queue: &Queue) -> u64 {
        if self.fifo.is_ruled() { queue.storage.time.unix_ms() } else { 0 }
    }

    /// How long a message may wait for its acknowledgement, if the queue says so.
    pub(super) fn queue_consumer_timeout_ms(&self) -> Option<u64> {
        self.ruling.as_deref()?.settings.consumer_timeout_ms
    }

    /// Whether only one consumer at a time is given messages.
    pub(super) fn is_single_active(&self) -> bool {
        self.ruling.as_deref().is_some_and(|ruling| ruling.settings.single_active_consumer)
    }

    /// Tells the core the size of a message that was given out just now, where sizes count.
    pub(super) fn note_sent(&mut self, assigned: &queue::Assigned, bytes: Option<usize>) {
        let bytes = bytes.unwrap_or_else(|| match self.backlog.get(assigned.position) {
            Lookup::Here(message) => message.body.len(),
            Lookup::Cold | Lookup::Gone => 0,
        });
        self.fifo.note_sent(assigned, bytes as u64);
    }

    /// Takes what the queue is asked to be, as of definitions `epoch`.
    pub(super) fn set_settings(&mut self, queue: &Queue, settings: &QueueSettings, epoch: u64) {
        if self.is_deleted() {
            return;
        }
        let is_same = self.ruling.as_deref().map_or_else(
            || is_plain(settings),
            |ruling| ruling.epoch > epoch || ruling.settings == *settings,
        );
        if is_same {
            return;
        }
        let now_ms = queue.storage.time.unix_ms();
        let counted_bytes = self.ruling.as_deref().is_some_and(PolicyState::counts_bytes);
        let last_use = LastUse::now(queue.storage.time.monotonic_ms());
        let fresh = PolicyState { epoch, ..PolicyState::new(settings.clone(), last_use) };
        match &mut self.ruling {
            Some(ruling) => {
                if ruling.settings.expires_ms != fresh.settings.expires_ms {
                    ruling.last_use = last_use;
                }
                ruling.settings = fresh.settings;
                ruling.dead_letter_to = fresh.dead_letter_to;
                ruling.epoch = epoch;
            }
            None => self.ruling = Some(Box::new(fresh)),
        }
        let rules = self.ruling.as_deref().map(PolicyState::rules).unwrap_or_default();
        self.fifo.set_rules(rules);
        self.notes_sizes = rules.limits.bytes_max.is_some();
        if rules.limits.bytes_max.is_some() && !counted_bytes {
            self.count_bytes();
        }
        self.enforce(queue, now_ms);
    }

    /// Counts the sizes of messages that are there already. Of those that are on disk only, an average
    /// is counted.
    fn count_bytes(&mut self) {
        let (mut n_here, mut bytes_here, mut n_cold) = (0_u64, 0_u64, 0_u64);
        for at in self.fifo.ready().flat_map(|range| range.start..range.end) {
            match self.backlog.get(at) {
                Lookup::Here(message) => {
                    n_here += 1;
                    bytes_here += message.body.len() as u64;
                }
                Lookup::Cold => n_cold += 1,
                Lookup::Gone => {}
            }
        }
        let of_cold = bytes_here.checked_div(n_here).unwrap_or(0).saturating_mul(n_cold);
        self.fifo.set_ready_bytes(bytes_here.saturating_add(of_cold));
        let held: Vec<u64> = self.fifo.held().map(|(_, at)| at).collect();
        for at in held {
            if let Lookup::Here(message) = self.backlog.get(at) {
                self.fifo.note_held(at, message.body.len() as u64);
            }
        }
    }

    /// Begins a queue that is asked to be so.
    pub(super) fn begin_rules(&mut self, settings: QueueSettings, now_ms: u64) {
        if is_plain(&settings) {
            return;
        }
        let ruling = PolicyState::new(settings, LastUse::now(now_ms));
        self.fifo.set_rules(ruling.rules());
        if ruling.settings.single_active_consumer {
            self.fifo.make_single_active();
        }
        self.notes_sizes = ruling.counts_bytes();
        self.ruling = Some(Box::new(ruling));
    }

    /// The message with the headers that say how often it came back, where that is counted.
    pub(super) fn counts_returns(&self) -> bool {
        self.ruling.as_deref().is_some_and(PolicyState::counts_returns)
    }

    /// What the core is to know about a message of an earlier life.
    pub(super) fn stored(
        &self,
        at: u64,
        message: &MessageRef<'_>,
        bytes: u64,
    ) -> queue::RecoveredMessages {
        let has_priorities =
            self.ruling.as_deref().is_some_and(|ruling| ruling.settings.max_priority > 0);
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

    /// Whether the core has to know something about each message.
    pub(super) fn needs_content(&self) -> bool {
        self.ruling
            .as_deref()
            .is_some_and(|ruling| ruling.settings.max_priority > 0 || ruling.counts_bytes())
    }

    /// Nothing is kept in mind of what went.
    pub(super) fn end_rules(&mut self, queue: &Queue) {
        let Some(mut ruling) = self.ruling.take() else { return };
        ruling.noted_returns.release(queue.wal());
        ruling.alarms.clear(queue);
    }
}

impl Queue {
    /// What is due by now happens. To be called when the alarm comes.
    pub(crate) fn on_time(&self, scale: TimeScale) -> AfterDetach {
        self.with(|local, wakes| local.on_time(self, scale, wakes))
    }

    /// Somebody declared it again.
    pub(crate) fn touch(&self) {
        self.with(|local, _| local.touch(self));
    }

    /// Takes what definitions of that epoch ask it to be.
    pub(crate) fn set_settings(&self, settings: &QueueSettings, epoch: u64) {
        self.with(|local, _| {
            if !local.is_deleted() {
                local.set_confirming(self, settings.confirm);
                local.set_settings(self, settings, epoch);
            }
        });
    }

    /// The first dead letters, about so many. They stay until [`Queue::letters_left`] says that they
    /// are elsewhere. None if there are none for now; then it asks again.
    pub(crate) fn letters(&self, n_max: usize, bytes_max: usize) -> Option<LetterBatch> {
        self.with(|local, _| {
            let batch = local.letters(n_max, bytes_max);
            if let Some(ruling) = &mut local.ruling {
                ruling.keeper = if batch.is_some() { Keeper::AtIt } else { Keeper::Away };
                ruling.n_sending = batch.as_ref().map_or(0, |batch| batch.n_positions);
            }
            batch
        })
    }

    /// The first `n` dead letters are where they should be.
    pub(crate) fn letters_left(&self, n: u64) {
        self.with(|local, _| {
            for _ in 0..n {
                let first = local.first_departing();
                let Some(ruling) = &mut local.ruling else { break };
                let Some(at) = ruling.take_departed() else { break };
                if first.is_some_and(|first| !first.is_sized) {
                    local.note_bytes_gone(at);
                }
                // Of one that was lost meanwhile no letter told its publisher.
                local.not_consumed(PositionRange::one(at));
                local.release(&self.storage.pool, at);
            }
            if let Some(ruling) = &mut local.ruling {
                ruling.keeper = Keeper::Away;
                ruling.n_sending = 0;
            }
            local.note_in_log(self);
            local.enforce(self, self.storage.time.unix_ms());
        });
    }
}

impl QueueState {
    /// The keeper sends no more than the first `n` for now.
    pub(super) fn set_sending(&mut self, n: u64) {
        if let Some(ruling) = &mut self.ruling {
            ruling.n_sending = n;
        }
    }

    /// The queue goes: what was to be dead-lettered still is, as far as it is at hand, nobody is
    /// at it already, and there is space for it.
    pub(super) fn last_letters(&mut self, queue: &Queue) -> Option<RejectedDeadLetters> {
        if self.are_letters_waiting() {
            return None;
        }
        let ruling = self.ruling.as_deref_mut()?;
        for _ in 0..std::mem::take(&mut ruling.n_sending) {
            ruling.take_departed();
        }
        let batch = self.letters(LAST_LETTERS_MAX, LAST_LETTER_BYTES_MAX)?;
        let LetterBatch { to, letters, .. } = batch;
        Some(RejectedDeadLetters { from: Arc::clone(&queue.def), to, letters: letters.into() })
    }

    fn letters(&mut self, n_max: usize, bytes_max: usize) -> Option<LetterBatch> {
        let ruling = self.ruling.as_deref()?;
        let to = ruling.dead_letter_to.clone()?;
        let mut batch = LetterBatch { to, letters: Vec::new(), n_positions: 0 };
        let mut bytes = 0;
        let each = |departing: &Departing| {
            let Gone { positions, reason } = departing.gone;
            (positions.start..positions.end).map(move |at| (at, reason))
        };
        for (at, reason) in ruling.departing.iter().flat_map(each) {
            match self.backlog.get(at) {
                Lookup::Here(message) => {
                    let mut letter = DeadLetter::of(&message, reason);
                    (letter.position, letter.n_before) = (at, batch.n_positions);
                    bytes += letter.bytes();
                    batch.letters.push(letter);
                }
                Lookup::Cold => break,
                Lookup::Gone => {}
            }
            batch.n_positions += 1;
            if batch.letters.len() >= n_max || bytes >= bytes_max {
                break;
            }
        }
        for letter in &mut batch.letters {
            letter.confirm = self.take_confirm(letter.position);
        }
        (batch.n_positions > 0).then_some(batch)
    }
}

/// Whether a queue with these settings does nothing by rules.
fn is_plain(settings: &QueueSettings) -> bool {
    let QueueSettings { version, confirm, .. } = *settings;
    *settings == QueueSettings { version, confirm, ..QueueSettings::default() }
}

/// The properties with what the core knows about how often a message came back; none if it did not.
pub(super) fn with_counts(
    message: &MessageRef<'_>,
    counts: queue::DeliveryCounts,
) -> Option<Vec<u8>> {
    if counts == queue::DeliveryCounts::default() {
        return None;
    }
    Some(headers::with_changed(message.properties, |headers| {
        for (name, n) in
            [("x-delivery-count", counts.n_failed), ("x-acquired-count", counts.n_acquired)]
        {
            if n > 0 {
                headers.insert(ShortString::from_static(name), Value::I64(i64::from(n)));
            }
        }
    }))
}
