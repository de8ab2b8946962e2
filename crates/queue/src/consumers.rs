use crate::active::SingleActive;
use crate::key::ConsumerKey;
use crate::turns::Turns;
use crate::unacked::Unacked;

/// Who settles what a consumer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckMode {
    /// The consumer does; until then the queue holds the message for it.
    Manual,
    /// Being delivered settles it; there is no limit on deliveries.
    Auto,
}

/// What a queue keeps of the messages that its consumers were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnackedTracking {
    /// Those that consumers settle are held, and each is recorded.
    #[default]
    Settled,
    /// All are held and recorded: the host settles for consumers that do not.
    All,
    /// As `All`, but of those that consumers settle only the number is kept: the host knows which
    /// they are, and [tells](crate::Fifo::record) before they are to be given back.
    Unrecorded,
}

/// How a consumer wants its messages.
#[derive(Clone, Copy, Debug)]
pub struct Checkout {
    /// Who settles.
    pub settling: AckMode,
    /// Unsettled deliveries allowed at a time; `None` for no limit. Ignored when being delivered
    /// settles a message.
    pub prefetch: Option<u32>,
    /// Higher ones are served first, as long as they have credit.
    pub priority: i64,
}

/// What a consumer does at its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Gets deliveries.
    Active,
    /// Waits until it is the single active consumer.
    Standby,
    /// Gets nothing by itself any more, or never did (`basic.get`), but may hold messages.
    Passive,
}

/// Whether a message is held by being given to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    No,
    Recorded,
    Counted,
}

impl Held {
    const fn by(settling: AckMode, holding: UnackedTracking) -> Self {
        match (settling, holding) {
            (AckMode::Auto, UnackedTracking::Settled) => Self::No,
            (AckMode::Manual, UnackedTracking::Unrecorded) => Self::Counted,
            (_, _) => Self::Recorded,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    pub(crate) checkout: Checkout,
    pub(crate) unacked: Unacked,
    /// What becomes of messages it is given.
    held: Held,
    /// What it holds besides, without a record of which they are.
    pub(crate) n_unrecorded: usize,
    /// Wants no more for the moment: its connection cannot take them.
    paused: bool,
    part: Part,
    /// Whether it stands in line for its turn.
    queued: bool,
}

impl Consumer {
    fn wants_more(&self) -> bool {
        if self.part != Part::Active || self.paused {
            return false;
        }
        match (self.checkout.settling, self.checkout.prefetch) {
            (AckMode::Auto, _) | (AckMode::Manual, None) => true,
            (AckMode::Manual, Some(limit)) => self.n_held() < limit as usize,
        }
    }

    pub(crate) const fn n_held(&self) -> usize {
        self.unacked.len() + self.n_unrecorded
    }
}

/// The consumers of one queue and whose turn it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consumers {
    slots: Vec<Option<Consumer>>,
    free: Vec<u32>,
    turns: Turns,
    /// Nobody has a turn while this is not 0: messages are coming back.
    n_returns: usize,
    n_active: usize,
    /// Active consumers that settle what they get.
    n_settling: usize,
    holding: UnackedTracking,
    /// Where only one at a time gets deliveries.
    single: Option<Box<SingleActive>>,
}

impl Consumers {
    /// Adds a consumer; a passive one only takes what it asks for.
    pub(crate) fn add(&mut self, checkout: Checkout, passive: bool) -> ConsumerKey {
        let consumer = Consumer {
            checkout,
            unacked: Unacked::default(),
            held: Held::by(checkout.settling, self.holding),
            n_unrecorded: 0,
            paused: false,
            part: if passive { Part::Passive } else { Part::Active },
            queued: false,
        };
        let key = if let Some(free) = self.free.pop() {
            ConsumerKey(free)
        } else {
            let next = u32::try_from(self.slots.len()).expect("fewer than 2^32 consumers");
            self.slots.push(None);
            ConsumerKey(next)
        };
        if let Some(slot) = self.slots.get_mut(key.0 as usize) {
            *slot = Some(consumer);
        }
        if !passive {
            self.n_active += 1;
            self.n_settling += usize::from(checkout.settling == AckMode::Manual);
            let is_next = self.single.as_mut().is_none_or(|it| it.add(key, checkout.priority));
            if is_next {
                self.line_up(key);
            } else {
                self.set_part(key, Part::Standby);
            }
        }
        key
    }

    /// From now on only one consumer at a time gets deliveries. There is none yet.
    pub(crate) fn make_single_active(&mut self) {
        self.single = Some(Box::default());
    }

    pub(crate) fn single(&self) -> Option<&SingleActive> {
        self.single.as_deref()
    }

    pub(crate) fn single_mut(&mut self) -> Option<&mut SingleActive> {
        self.single.as_deref_mut()
    }

    fn set_part(&mut self, key: ConsumerKey, part: Part) {
        if let Some(consumer) = self.get_mut(key) {
            consumer.part = part;
            self.line_up(key);
        }
    }

    pub(crate) const fn n_active(&self) -> usize {
        self.n_active
    }

    /// Whether any message is held by being given to a consumer.
    pub(crate) fn any_holds(&self) -> bool {
        self.n_settling > 0 || self.holding != UnackedTracking::Settled
    }

    pub(crate) fn set_holding(&mut self, holding: UnackedTracking) {
        if std::mem::replace(&mut self.holding, holding) != holding {
            for consumer in self.slots.iter_mut().flatten() {
                consumer.held = Held::by(consumer.checkout.settling, holding);
            }
        }
    }

    /// What a queue that holds messages makes of a consumer's wish.
    #[inline]
    pub(crate) fn settling(&self, wished: AckMode) -> AckMode {
        if self.holding == UnackedTracking::Settled { wished } else { AckMode::Manual }
    }

    #[inline]
    pub(crate) fn get(&self, key: ConsumerKey) -> Option<&Consumer> {
        self.slots.get(key.0 as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: ConsumerKey) -> Option<&mut Consumer> {
        self.slots.get_mut(key.0 as usize)?.as_mut()
    }

    /// Who settles what the consumer gets.
    pub(crate) fn settling_of(&self, key: ConsumerKey) -> AckMode {
        let wished = self.get(key).map_or(AckMode::Auto, |it| it.checkout.settling);
        self.settling(wished)
    }

    /// Puts the consumer in line when it wants more and is not there yet.
    #[inline]
    pub(crate) fn line_up(&mut self, key: ConsumerKey) {
        let Some(consumer) = self.get_mut(key) else { return };
        if consumer.queued || !consumer.wants_more() {
            return;
        }
        consumer.queued = true;
        let priority = consumer.checkout.priority;
        self.turns.enter(key, priority);
    }

    fn leave_line(&mut self, key: ConsumerKey) {
        let Some(consumer) = self.get_mut(key) else { return };
        if !consumer.queued {
            return;
        }
        consumer.queued = false;
        let priority = consumer.checkout.priority;
        self.turns.leave(key, priority);
    }

    /// Whose turn it is: the first in line of the highest priority that has anybody.
    #[inline]
    pub(crate) fn next(&self) -> Option<ConsumerKey> {
        if self.n_returns > 0 { None } else { self.turns.first() }
    }

    pub(crate) const fn begin_return(&mut self) {
        self.n_returns += 1;
    }

    pub(crate) const fn end_return(&mut self) {
        self.n_returns = self.n_returns.saturating_sub(1);
    }

    /// The consumer at the front of its line, `key`, was given `position`: remembers that, and puts
    /// it at the end of the line or out of it.
    #[inline]
    pub(crate) fn served(&mut self, key: ConsumerKey, position: u64) -> AckMode {
        let Some(consumer) = self.get_mut(key) else { return AckMode::Auto };
        let mut settling = AckMode::Manual;
        match consumer.held {
            Held::Recorded => consumer.unacked.hold(position),
            Held::No => settling = AckMode::Auto,
            Held::Counted => consumer.n_unrecorded += 1,
        }
        let stays = consumer.wants_more();
        consumer.queued = stays;
        self.turns.served(stays);
        settling
    }

    pub(crate) fn pause(&mut self, key: ConsumerKey) {
        if let Some(consumer) = self.get_mut(key) {
            consumer.paused = true;
            self.leave_line(key);
        }
    }

    pub(crate) fn resume(&mut self, key: ConsumerKey) {
        if let Some(consumer) = self.get_mut(key) {
            consumer.paused = false;
            self.line_up(key);
        }
    }

    pub(crate) fn set_prefetch(&mut self, key: ConsumerKey, prefetch: Option<u32>) {
        let Some(consumer) = self.get_mut(key) else { return };
        consumer.checkout.prefetch = prefetch;
        if consumer.wants_more() {
            self.line_up(key);
        } else {
            self.leave_line(key);
        }
    }

    /// Ends deliveries; what it holds stays held.
    pub(crate) fn make_passive(&mut self, key: ConsumerKey) {
        self.leave_line(key);
        let Some(consumer) = self.get_mut(key) else { return };
        if consumer.part != Part::Passive {
            consumer.part = Part::Passive;
            let settles = consumer.checkout.settling == AckMode::Manual;
            self.n_active -= 1;
            self.n_settling -= usize::from(settles);
            let next = self.single.as_mut().and_then(|single| single.remove(key));
            if let Some(next) = next {
                self.set_part(next, Part::Active);
            }
        }
    }

    /// Takes the consumer out altogether.
    pub(crate) fn remove(&mut self, key: ConsumerKey) -> Option<Consumer> {
        self.make_passive(key);
        let consumer = self.slots.get_mut(key.0 as usize)?.take()?;
        self.free.push(key.0);
        Some(consumer)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = (ConsumerKey, &Consumer)> {
        self.slots.iter().enumerate().filter_map(|(slot, consumer)| {
            let slot = u32::try_from(slot).ok()?;
            consumer.as_ref().map(|consumer| (ConsumerKey(slot), consumer))
        })
    }
}
