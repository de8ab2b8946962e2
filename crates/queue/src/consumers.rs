//! The consumers of a queue: the messages each holds, and the turns among them.

mod consumer;
mod room_change;
mod table;

pub use consumer::Consumer;
pub use room_change::RoomChange;

use crate::active::SingleActive;
use crate::key::ConsumerKey;
use crate::room::CreditMode;
use crate::round::{MANY_CONSUMERS, Round};
use crate::turns::Turns;
use consumer::{Move, Role};
use table::Table;

/// The act that settles the messages a consumer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckMode {
    /// The consumer settles a message; until then the queue holds the message for it.
    Manual,
    /// The delivery settles a message; nothing limits the number of deliveries.
    Auto,
}

/// The record a queue keeps of the messages that its consumers were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnackedTracking {
    /// Messages that consumers settle are held, and each is recorded.
    #[default]
    Settled,
    /// All messages are held and recorded: the host settles for consumers that do not.
    All,
    /// All messages are held, but of those that consumers settle only the number is kept: the host knows
    /// their positions, and [tells](Consumers::record) them before the messages are to be given back.
    Unrecorded,
}

/// The terms on which a consumer wants its messages.
#[derive(Clone, Copy, Debug)]
pub struct Checkout {
    /// Settlement of the consumer's messages.
    pub settling: AckMode,
    /// Limit of deliveries.
    pub credit_mode: CreditMode,
    /// Consumers of a higher priority are served first, as long as they have credit.
    pub priority: i64,
}

impl Checkout {
    /// The limit of deliveries that is in place.
    pub const fn mode(&self) -> CreditMode {
        match (self.settling, self.credit_mode) {
            (AckMode::Auto, CreditMode::Prefetch(_)) => CreditMode::Unlimited,
            (_, mode) => mode,
        }
    }
}

/// The consumers of one queue and whose turn it is.
#[derive(Clone, Debug, Default)]
pub struct Consumers {
    table: Table,
    turns: Turns,
    /// Returns that have begun and not ended: nobody has a turn until all have.
    n_returns: usize,
    n_active: usize,
    /// Active consumers that settle what they get.
    n_settling: usize,
    tracking: UnackedTracking,
    /// Messages held by all consumers together.
    n_held: u64,
    /// Order of the consumers where only one at a time gets deliveries.
    single: Option<Box<SingleActive>>,
}

impl Consumers {
    /// Adds a consumer that is given messages as long as it has credit.
    pub fn attach(&mut self, checkout: Checkout) -> ConsumerKey {
        let key = self.table.insert(Consumer::new(checkout, Role::Standby, self.tracking));
        self.n_active += 1;
        self.n_settling += usize::from(checkout.settling == AckMode::Manual);
        let is_next = self.single.as_mut().is_none_or(|it| it.add(key, checkout.priority));
        if is_next {
            self.activate(key);
        }
        key
    }

    /// Adds a consumer that only gets the messages it [takes](crate::Fifo::take).
    pub fn attach_passive(&mut self) -> ConsumerKey {
        let credit_mode = CreditMode::Unlimited;
        let checkout = Checkout { settling: AckMode::Manual, credit_mode, priority: 0 };
        self.table.insert(Consumer::new(checkout, Role::Passive, self.tracking))
    }

    /// Lets only one consumer at a time get deliveries from now on. The queue has no consumer yet.
    pub fn make_single_active(&mut self) {
        debug_assert_eq!(self.n_active, 0, "consumers that came before are in no line");
        self.single = Some(Box::default());
    }

    /// The single active consumer and those in line, where only one at a time gets deliveries.
    pub fn single(&self) -> Option<&SingleActive> {
        self.single.as_deref()
    }

    fn activate(&mut self, key: ConsumerKey) {
        if let Some(consumer) = self.table.get_mut(key) {
            consumer.set_role(Role::Active);
            self.update_line(key);
        }
    }

    /// Consumers that get deliveries, also those without credit for the moment.
    pub const fn n_active(&self) -> usize {
        self.n_active
    }

    /// Messages held by all consumers together.
    pub const fn n_held(&self) -> u64 {
        self.n_held
    }

    /// A consumer that was added and not detached since.
    #[inline]
    pub fn get(&self, key: ConsumerKey) -> Option<&Consumer> {
        self.table.get(key)
    }

    /// Records positions of messages that a consumer holds without a record, at most as many as there are
    /// such messages. Positions that are on record are passed over.
    #[cold]
    pub fn record(&mut self, key: ConsumerKey, positions: impl IntoIterator<Item = u64>) {
        if let Some(consumer) = self.table.get_mut(key) {
            consumer.record(positions);
        }
    }

    /// Every held position with its consumer, in no particular order of consumers. Messages without a record
    /// are left out.
    pub fn held(&self) -> impl Iterator<Item = (ConsumerKey, u64)> + '_ {
        self.table.iter().flat_map(|(key, consumer)| consumer.held().map(move |at| (key, at)))
    }

    /// Whether messages of any consumer are held when they are delivered.
    pub(crate) fn any_holds(&self) -> bool {
        self.n_settling > 0 || self.tracking != UnackedTracking::Settled
    }

    /// Whether many consumers get deliveries, some of them settle messages, and one waits for its turn.
    #[must_use]
    pub fn are_many_waiting(&self) -> bool {
        self.n_active >= MANY_CONSUMERS && self.any_holds() && self.next().is_some()
    }

    /// Changes the record kept of the messages that consumers are given from now on.
    pub fn set_tracking(&mut self, tracking: UnackedTracking) {
        if std::mem::replace(&mut self.tracking, tracking) != tracking {
            self.table.iter_mut().for_each(|consumer| consumer.set_tracking(tracking));
        }
    }

    /// Puts a consumer in line that wants more and is not there yet; takes out one that wants no more.
    #[inline]
    fn update_line(&mut self, key: ConsumerKey) {
        match self.table.get_mut(key).and_then(Consumer::update_line) {
            Some(Move::Enter(priority)) => self.turns.enter(key, priority),
            Some(Move::Leave(priority)) => self.turns.leave(key, priority),
            None => {}
        }
    }

    /// The consumer whose turn it is: the first in line of the highest priority in any line. The next
    /// delivery goes to that consumer if a message is ready.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Option<ConsumerKey> {
        if self.n_returns > 0 { None } else { self.turns.first() }
    }

    /// Begins a return of several messages, which are to be given out as if they had come back together:
    /// nobody gets a delivery until [`Consumers::end_return`] is called as often.
    pub const fn begin_return(&mut self) {
        self.n_returns += 1;
    }

    /// Ends a return, whose messages are back.
    pub const fn end_return(&mut self) {
        assert!(self.n_returns > 0, "a return that ends has begun");
        self.n_returns -= 1;
    }

    /// Notes that the consumer at the front of its line, `key`, was given `position`, and puts the consumer
    /// at the end of the line or out of it.
    #[inline(always)]
    pub(crate) fn served(&mut self, key: ConsumerKey, position: u64) -> AckMode {
        debug_assert_eq!(self.turns.first(), Some(key), "it is its turn");
        let Some(consumer) = self.table.get_mut(key) else { return AckMode::Auto };
        let settling = consumer.give(position);
        self.turns.served(consumer.is_unlimited() || consumer.stays_in_line());
        if settling == AckMode::Manual {
            self.n_held += 1;
        }
        settling
    }

    /// Notes a delivery as [`Consumers::served`] does, but keeps the consumer at the front of its line for
    /// its turn in a round, as long as it wants more.
    pub(crate) fn served_in_turn(
        &mut self,
        key: ConsumerKey,
        position: u64,
        round: &Round,
    ) -> AckMode {
        let Some(consumer) = self.table.get_mut(key) else { return AckMode::Auto };
        if !consumer.goes_on(round) {
            return self.served(key, position);
        }
        let (settling, is_unlimited) = (consumer.give(position), consumer.is_unlimited());
        if settling == AckMode::Manual {
            self.n_held += 1;
        }
        if !is_unlimited {
            self.update_line(key);
        }
        settling
    }

    /// The settlement of a message that a consumer takes by itself and wishes to be settled so.
    pub(crate) fn settling(&self, wished: AckMode) -> AckMode {
        if self.tracking == UnackedTracking::Settled { wished } else { AckMode::Manual }
    }

    /// Notes that a consumer has taken `position` by itself and holds it.
    pub(crate) fn hold(&mut self, key: ConsumerKey, position: u64) {
        if let Some(consumer) = self.table.get_mut(key) {
            consumer.hold(position);
            self.n_held += 1;
        }
    }

    /// Releases some of the messages that a consumer holds, as many as `release` says; the consumer may get
    /// as many more then. None if the consumer is gone, or holds none of them.
    #[inline(always)]
    pub(crate) fn release(
        &mut self,
        key: ConsumerKey,
        release: impl FnOnce(&mut Consumer) -> Option<u64>,
    ) -> Option<u64> {
        let consumer = self.table.get_mut(key)?;
        let n_released = release(consumer)?;
        consumer.room.note_settled(n_released);
        debug_assert!(self.n_held >= n_released, "all that is held is counted");
        self.n_held -= n_released;
        if !consumer.is_in_line() {
            self.update_line(key);
        }
        Some(n_released)
    }

    /// Changes a consumer's room for deliveries.
    pub const fn change(&mut self, key: ConsumerKey) -> RoomChange<'_> {
        RoomChange { consumers: self, key }
    }

    /// Ends the consumer's deliveries. Messages that the consumer holds stay held until they are settled or
    /// the consumer is [detached](crate::Fifo::detach).
    pub fn cancel(&mut self, key: ConsumerKey) {
        let Some(consumer) = self.table.get_mut(key) else { return };
        if consumer.role() == Role::Passive {
            return;
        }
        consumer.set_role(Role::Passive);
        assert!(self.n_active > 0, "one that is not passive is counted");
        self.n_active -= 1;
        let settles = consumer.wished() == AckMode::Manual;
        assert!(!settles || self.n_settling > 0, "a consumer that settles is counted");
        self.n_settling -= usize::from(settles);
        self.update_line(key);
        let next = self.single.as_mut().and_then(|single| single.remove(key));
        if let Some(next) = next {
            self.activate(next);
        }
    }

    /// Removes the consumer altogether. All messages that are on record as held were released before.
    pub(crate) fn remove(&mut self, key: ConsumerKey) {
        self.cancel(key);
        if let Some(gone) = self.table.remove(key) {
            assert!(gone.held().next().is_none(), "what was recorded went back");
            assert!(self.n_held >= gone.n_held() as u64, "all that is held is counted");
            self.n_held -= gone.n_held() as u64;
        }
    }
}
