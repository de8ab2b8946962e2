//! Holders of messages of a quorum queue: the messages each holds, the turns among them, and the deliveries
//! held for too long.

use super::bounds::{COUNTER_MAX, LINK_UNSETTLED_MAX, PREFETCH_UNLIMITED};
use super::command::Attach;
use super::effects::{Activity, Effects, TimedOut};
use super::held::Delivery;
use crate::unacked::Unacked;
use crate::{CreditMode, DeliveryRoom, LinkCredit};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use stdx::UnixMs;

/// Whether a consumer's node can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Up,
    /// The node cannot be reached since then; the consumer keeps the messages it holds.
    Lost(UnixMs),
    /// The node could not be reached for so long that the consumer's messages came back.
    GivenUp,
}

/// A consumer, or a holder of messages that gets no more.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) terms: Attach,
    /// Number of holders that came before this one.
    pub(super) came: u64,
    pub(super) is_cancelled: bool,
    pub(super) reach: Reach,
    pub(super) held: Unacked<Delivery>,
    /// Room of a consumer with link credit.
    pub(super) link: Option<DeliveryRoom>,
    /// Numbers of deliveries that timed out and that the holder has not settled since.
    pub(super) timed_out: BTreeSet<u64>,
    /// Place in line; none if the holder is in no line.
    pub(super) turn: Option<u64>,
    /// Time of the next check of this holder for time-outs.
    pub(super) alarm_ms: Option<UnixMs>,
}

impl Holder {
    fn is_up(&self) -> bool {
        !self.is_cancelled && self.reach == Reach::Up && self.timed_out.is_empty()
    }

    /// Whether the consumer may stay the single active one.
    fn may_stay_active(&self) -> bool {
        !self.is_cancelled && self.reach != Reach::GivenUp && self.timed_out.is_empty()
    }

    const fn credit(&self) -> u32 {
        match self.terms.prefetch {
            0 if self.link.is_some() => LINK_UNSETTLED_MAX,
            0 => PREFETCH_UNLIMITED,
            prefetch => prefetch,
        }
    }

    fn has_credit(&self) -> bool {
        let has_link_credit = self.link.as_ref().is_none_or(DeliveryRoom::any);
        has_link_credit && self.held.len() < self.credit() as usize
    }

    /// The link credit; none with a prefetch limit.
    pub(super) fn link_credit(&self) -> Option<LinkCredit> {
        self.link.as_ref().and_then(DeliveryRoom::link_credit)
    }

    /// Time when a time-out of this holder is due.
    fn due_ms(&self, disconnected_timeout_ms: u64) -> Option<UnixMs> {
        match self.reach {
            Reach::Lost(since_ms) => Some(since_ms.plus(disconnected_timeout_ms)),
            Reach::Up | Reach::GivenUp => {
                Some(self.held.first()?.at_ms.plus(self.terms.timeout_ms?))
            }
        }
    }
}

/// The room of a new consumer with these terms, if it has link credit.
fn link_of(terms: &Attach) -> Option<DeliveryRoom> {
    terms.has_link_credit.then(|| DeliveryRoom::new(CreditMode::Link))
}

/// The consumers of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders {
    pub(super) table: BTreeMap<u64, Holder>,
    /// Consumers that may be given a message now: by priority, then by turn.
    line: BTreeSet<(Reverse<i64>, u64, u64)>,
    pub(super) n_turns: u64,
    pub(super) n_came: u64,
    alarms: BTreeSet<(UnixMs, u64)>,
    /// The number that the next delivery gets.
    pub(super) next_number: u64,
    /// Number of consumers that are not cancelled.
    pub(super) n_attached: u64,
    /// Whether only one consumer at a time gets deliveries; all that are up are in `standby` then.
    pub(super) is_single: bool,
    pub(super) active: Option<u64>,
    standby: BTreeSet<(Reverse<i64>, u64, u64)>,
}

impl Holders {
    pub(super) fn new(is_single: bool) -> Self {
        Self { is_single, ..Self::default() }
    }

    /// Adds a consumer, or gives a known one new terms.
    pub(super) fn attach(&mut self, terms: Attach) {
        let is_new = self.change(terms.consumer, |consumer| {
            if consumer.terms.has_link_credit != terms.has_link_credit {
                consumer.link = link_of(&terms);
            }
            consumer.terms = terms;
            consumer.is_cancelled = false;
            consumer.reach = Reach::Up;
        });
        if is_new.is_none() {
            self.insert(terms, false);
        }
        self.refresh(terms.consumer);
        self.set_alarm(terms.consumer, 0);
    }

    fn insert(&mut self, terms: Attach, is_cancelled: bool) {
        let consumer = Holder {
            terms,
            came: self.n_came,
            is_cancelled,
            reach: Reach::Up,
            held: Unacked::default(),
            link: link_of(&terms),
            timed_out: BTreeSet::new(),
            turn: None,
            alarm_ms: None,
        };
        self.n_came += 1;
        self.put_back(consumer);
    }

    /// Restores a consumer as it was.
    pub(super) fn put_back(&mut self, consumer: Holder) {
        let id = consumer.terms.consumer;
        self.n_attached += u64::from(!consumer.is_cancelled);
        let priority = Reverse(consumer.terms.priority);
        self.line.extend(consumer.turn.map(|turn| (priority, turn, id)));
        self.alarms.extend(consumer.alarm_ms.map(|at_ms| (at_ms, id)));
        if self.is_single && consumer.is_up() {
            self.standby.insert((priority, consumer.came, id));
        }
        self.table.insert(id, consumer);
    }

    /// Changes the part of a holder's state that decides whether it is served.
    pub(super) fn change<T>(
        &mut self,
        id: u64,
        change: impl FnOnce(&mut Holder) -> T,
    ) -> Option<T> {
        let consumer = self.table.get_mut(&id)?;
        let priority = Reverse(consumer.terms.priority);
        let turn = consumer.turn.take();
        if let Some(turn) = turn {
            self.line.remove(&(priority, turn, id));
        }
        self.standby.remove(&(priority, consumer.came, id));
        assert!(consumer.is_cancelled || self.n_attached > 0, "an attached consumer is counted");
        self.n_attached -= u64::from(!consumer.is_cancelled);
        let changed = change(consumer);
        self.n_attached += u64::from(!consumer.is_cancelled);
        if self.is_single && consumer.is_up() {
            self.standby.insert((Reverse(consumer.terms.priority), consumer.came, id));
        }
        if priority.0 == consumer.terms.priority {
            consumer.turn = turn;
            self.line.extend(turn.map(|turn| (priority, turn, id)));
        }
        Some(changed)
    }

    /// Puts a consumer in line that wants more and is not there, takes out one that wants none, and removes
    /// one that is cancelled and has nothing left to settle.
    fn refresh(&mut self, id: u64) {
        let overtaking = self.overtaking();
        let Some(consumer) = self.table.get_mut(&id) else { return };
        let is_served = !self.is_single || self.active == Some(id) && overtaking.is_none();
        let wants = is_served && consumer.is_up() && consumer.has_credit();
        let priority = Reverse(consumer.terms.priority);
        match consumer.turn {
            None if wants => {
                consumer.turn = Some(self.n_turns);
                self.line.insert((priority, self.n_turns, id));
                self.n_turns += 1;
            }
            Some(turn) if !wants => {
                consumer.turn = None;
                self.line.remove(&(priority, turn, id));
            }
            Some(_) | None => {}
        }
        if consumer.is_cancelled && consumer.held.len() == 0 && consumer.timed_out.is_empty() {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(alarm_ms) = self.table.remove(&id).and_then(|gone| gone.alarm_ms) {
            self.alarms.remove(&(alarm_ms, id));
        }
    }

    /// The consumer that is to take over from the single active one, as soon as the latter holds no messages.
    fn overtaking(&self) -> Option<u64> {
        let active = self.table.get(&self.active?)?;
        let (priority, _, id) = self.standby.first()?;
        (priority.0 > active.terms.priority).then_some(*id)
    }

    /// Chooses the single active consumer anew, if that is due.
    pub(super) fn choose_active(&mut self, effects: &mut Effects) {
        if !self.is_single {
            return;
        }
        let current = self.active.and_then(|id| self.table.get(&id));
        let next = match current.filter(|consumer| consumer.may_stay_active()) {
            None => self.standby.first().map(|it| it.2),
            Some(consumer) if consumer.held.len() == 0 => self.overtaking().or(self.active),
            Some(_) => self.active,
        };
        if next != self.active {
            let before = std::mem::replace(&mut self.active, next);
            for (id, is_active) in [(before, false), (next, true)] {
                let Some(id) = id else { continue };
                self.refresh(id);
                if self.table.get(&id).is_some_and(|consumer| !consumer.is_cancelled) {
                    effects.active.push(Activity { consumer: id, is_active });
                }
            }
        } else if let Some(id) = self.active {
            self.refresh(id);
        }
    }

    /// The consumer whose turn it is.
    #[inline]
    pub(super) fn first_in_line(&self) -> Option<u64> {
        self.line.first().map(|it| it.2)
    }

    /// Gives a message to the first in line; returns the delivery's number.
    #[inline]
    pub(super) fn give(&mut self, id: u64, position: u64, at_ms: UnixMs) -> u64 {
        self.hold(id, position, at_ms, true)
    }

    #[inline]
    fn hold(&mut self, id: u64, position: u64, at_ms: UnixMs, takes_credit: bool) -> u64 {
        let number = self.next_number;
        debug_assert!(number < COUNTER_MAX, "numbers are never used up");
        self.next_number += 1;
        let Some(consumer) = self.table.get_mut(&id) else { return number };
        consumer.held.hold(Delivery { number, position, at_ms });
        if let Some(link) = consumer.link.as_mut().filter(|_| takes_credit) {
            link.take(1);
        }
        let (has_credit, turn) = (consumer.has_credit(), consumer.turn);
        if consumer.alarm_ms.is_none() && consumer.terms.timeout_ms.is_some() {
            self.set_alarm(id, 0);
        }
        if let Some(turn) = turn
            && (!has_credit || self.line.len() > 1)
        {
            self.next_turn(id, turn, has_credit);
        }
        number
    }

    fn next_turn(&mut self, id: u64, turn: u64, stays: bool) {
        let Some(consumer) = self.table.get_mut(&id) else { return };
        let priority = Reverse(consumer.terms.priority);
        self.line.remove(&(priority, turn, id));
        consumer.turn = stays.then_some(self.n_turns);
        if stays {
            self.line.insert((priority, self.n_turns, id));
            self.n_turns += 1;
        }
    }

    /// Gives a message to a holder that need not be a consumer; returns the delivery's number.
    pub(super) fn take(&mut self, terms: Attach, position: u64, at_ms: UnixMs) -> u64 {
        if !self.table.contains_key(&terms.consumer) {
            self.insert(terms, true);
        }
        self.hold(terms.consumer, position, at_ms, false)
    }

    /// Releases the deliveries of a consumer with numbers in `start..end`, also those that timed out;
    /// `release` is told each position that was held.
    pub(super) fn release(&mut self, id: u64, start: u64, end: u64, mut release: impl FnMut(u64)) {
        let Some(consumer) = self.table.get_mut(&id) else { return };
        while let Some(delivery) = consumer.held.take_first(start, end) {
            release(delivery.position);
        }
        if consumer.timed_out.is_empty() {
            if consumer.turn.is_none() {
                self.refresh(id);
            }
            return;
        }
        self.change(id, |consumer| consumer.timed_out.retain(|at| !(start..end).contains(at)));
        self.refresh(id);
    }

    /// Cancels a consumer, which is gone if it holds no messages.
    pub(super) fn cancel(&mut self, id: u64) {
        self.change(id, |consumer| consumer.is_cancelled = true);
        self.refresh(id);
    }

    /// Detaches a consumer; `release` is told the positions that were held.
    pub(super) fn detach(&mut self, id: u64, release: impl FnMut(u64)) {
        self.change(id, |consumer| {
            consumer.is_cancelled = true;
            consumer.timed_out.clear();
        });
        self.release(id, 0, u64::MAX, release);
        self.refresh(id);
    }

    /// Sets the prefetch limit of a consumer that stays in its place.
    pub(super) fn set_prefetch(&mut self, id: u64, prefetch: u32) {
        if let Some(consumer) = self.table.get_mut(&id) {
            consumer.terms.prefetch = prefetch;
            self.refresh(id);
        }
    }

    /// Changes the room of a consumer that has link credit.
    pub(super) fn change_link(&mut self, id: u64, change: impl FnOnce(&mut DeliveryRoom)) {
        if let Some(link) = self.table.get_mut(&id).and_then(|consumer| consumer.link.as_mut()) {
            change(link);
            self.refresh(id);
        }
    }

    /// Notes that a node cannot be reached since `now_ms`, or can be again.
    pub(super) fn set_node(&mut self, node: u32, is_up: bool, now_ms: UnixMs, timeout_ms: u64) {
        let on_node = |consumer: &&Holder| consumer.terms.node == node;
        let ids: Vec<u64> =
            self.table.values().filter(on_node).map(|it| it.terms.consumer).collect();
        for id in ids {
            self.change(id, |consumer| match (is_up, consumer.reach) {
                (true, _) => consumer.reach = Reach::Up,
                (false, Reach::Up) => consumer.reach = Reach::Lost(now_ms),
                (false, Reach::Lost(_) | Reach::GivenUp) => {}
            });
            self.refresh(id);
            self.set_alarm(id, timeout_ms);
        }
    }

    /// Sets the alarm for a consumer's next time-out.
    fn set_alarm(&mut self, id: u64, disconnected_timeout_ms: u64) {
        let Some(consumer) = self.table.get_mut(&id) else { return };
        let due_ms = consumer.due_ms(disconnected_timeout_ms);
        if due_ms.is_none_or(|due_ms| consumer.alarm_ms.is_none_or(|alarm_ms| due_ms < alarm_ms)) {
            if let Some(before) = std::mem::replace(&mut consumer.alarm_ms, due_ms) {
                self.alarms.remove(&(before, id));
            }
            self.alarms.extend(due_ms.map(|due_ms| (due_ms, id)));
        }
    }

    /// Sets the alarms of consumers that cannot be reached, after the time-out has changed.
    pub(super) fn set_alarms(&mut self, disconnected_timeout_ms: u64) {
        let is_lost = |consumer: &&Holder| matches!(consumer.reach, Reach::Lost(_));
        let ids: Vec<u64> =
            self.table.values().filter(is_lost).map(|it| it.terms.consumer).collect();
        ids.into_iter().for_each(|id| self.set_alarm(id, disconnected_timeout_ms));
    }

    pub(super) fn next_alarm_ms(&self) -> Option<UnixMs> {
        self.alarms.first().map(|it| it.0)
    }

    /// Times out deliveries of the consumer whose alarm comes next; `release` is told the positions that it
    /// has held for too long. False if no alarm has come.
    pub(super) fn time_out(
        &mut self,
        now_ms: UnixMs,
        disconnected_timeout_ms: u64,
        effects: &mut Effects,
        mut release: impl FnMut(u64),
    ) -> bool {
        let Some((at_ms, id)) = self.alarms.first().copied().filter(|it| it.0 <= now_ms) else {
            return false;
        };
        self.alarms.remove(&(at_ms, id));
        self.change(id, |consumer| {
            consumer.alarm_ms = None;
            if consumer.due_ms(disconnected_timeout_ms).is_some_and(|due_ms| due_ms > at_ms) {
                return;
            }
            while consumer.due_ms(disconnected_timeout_ms).is_some_and(|due_ms| due_ms <= now_ms) {
                if matches!(consumer.reach, Reach::Lost(_)) {
                    consumer.reach = Reach::GivenUp;
                    while let Some(delivery) = consumer.held.take_first(0, u64::MAX) {
                        release(delivery.position);
                    }
                } else if let Some(delivery) = consumer.held.take_first(0, u64::MAX) {
                    release(delivery.position);
                    consumer.timed_out.insert(delivery.number);
                    effects.timed_out.push(TimedOut { consumer: id, number: delivery.number });
                }
            }
        });
        self.set_alarm(id, disconnected_timeout_ms);
        self.refresh(id);
        true
    }
}
