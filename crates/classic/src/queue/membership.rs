//! Consumers and `get`s of a queue, and the messages each holds, as they come and go.

use super::consumer_timeout::UnackedAges;
use super::consumers::Consumers;
use delivery::{ConsumerChannel, OutboxRoom};
use queue::{ConsumerKey, CreditMode, Detached, Fifo, Gone, NotHeld, Return};
use queue_type::{
    Activity, Attach, AttachRefused, ChannelLimit, ConsumerView, Holder, Owner, Wakes,
};
use session::LinkId;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use stdx::{MonotonicMs, UnixMs};

/// The parts of a queue that have to do with who takes messages from it, and what each holds.
pub(super) struct Membership<'s> {
    pub(super) fifo: &'s mut Fifo,
    pub(super) consumers: &'s mut Consumers,
    pub(super) ages: &'s mut UnackedAges,
}

impl Membership<'_> {
    /// Adds a consumer, and tells its outbox.
    pub(super) fn attach(
        &mut self,
        attach: Attach<'_>,
        is_single_active: bool,
        wakes: &mut Wakes,
    ) -> Result<ConsumerKey, AttachRefused> {
        let in_exclusive_use =
            self.consumers.is_exclusive() || (attach.asked.exclusive && is_single_active);
        if in_exclusive_use || (attach.asked.exclusive && self.fifo.consumers().n_active() > 0) {
            return Err(AttachRefused::ExclusiveUse);
        }
        let key = self.fifo.consumers_mut().attach(attach.checkout);
        self.consumers.add(key, ConsumerChannel::attach(attach, wakes));
        Ok(key)
    }

    /// Adds one that only takes what it asks for.
    pub(super) fn attach_passive(&mut self, owner: Owner) -> ConsumerKey {
        let key = self.fifo.consumers_mut().attach_passive();
        self.consumers.add_owner(key, owner);
        key
    }

    /// Ends a consumer's deliveries. Its outbox may still hold some; the core keeps what is unsettled.
    pub(super) fn cancel(&mut self, consumer: ConsumerKey) {
        self.record_held([consumer]);
        self.fifo.consumers_mut().cancel(consumer);
        self.consumers.remove(consumer);
    }

    /// Takes a consumer away and gives back what it holds, of which there is a record.
    pub(super) fn detach(
        &mut self,
        consumer: ConsumerKey,
        now_ms: UnixMs,
        gone: &mut Vec<Gone>,
    ) -> Detached {
        self.ages.forget_all(consumer);
        self.consumers.remove(consumer);
        self.consumers.forget_owner(consumer);
        self.fifo.detach(consumer, Return::Failed, now_ms, gone)
    }

    /// Takes a consumer away if it gets nothing any more and holds nothing.
    pub(super) fn detach_idle(&mut self, consumer: ConsumerKey) -> bool {
        let is_idle = self.n_held(consumer) == 0;
        if is_idle {
            self.fifo.detach(consumer, Return::Released, UnixMs::default(), &mut Vec::new());
            self.ages.forget_all(consumer);
            self.consumers.forget_owner(consumer);
        }
        is_idle
    }

    /// Whether there were consumers, and the last of them is gone.
    pub(super) fn are_all_gone(&self) -> bool {
        self.consumers.had_any() && self.fifo.consumers().n_active() == 0
    }

    /// Number of messages that a consumer holds.
    fn n_held(&self, consumer: ConsumerKey) -> usize {
        self.fifo.consumers().get(consumer).map_or(0, queue::Consumer::n_held)
    }

    /// Adds up how many messages each channel holds.
    pub(super) fn count_held(&self, held: &mut BTreeMap<Owner, u64>) {
        for (consumer, owner) in self.consumers.owners() {
            match self.n_held(consumer) as u64 {
                0 => {}
                n => *held.entry(owner).or_default() += n,
            }
        }
    }

    /// Consumers that hold the messages at these positions, as far as there is a record of it.
    pub(super) fn holders(&self, positions: &BTreeSet<u64>, now_ms: MonotonicMs) -> Vec<Holder> {
        let mut holders = Vec::new();
        for (key, owner) in self.consumers.owners() {
            let Some(consumer) = self.fifo.consumers().get(key) else { continue };
            let mut note = |position| {
                let consumer_tag = self.consumers.get(key).map(|host| host.consumer_tag.clone());
                let held_ms = now_ms.since(self.ages.seen_ms(key, position, now_ms));
                holders.push(Holder { position, owner, consumer_tag, held_ms });
            };
            if consumer.n_held() < positions.len() {
                consumer.held().filter(|at| positions.contains(at)).for_each(note);
            } else {
                positions.iter().copied().filter(|at| consumer.holds(*at)).for_each(&mut note);
            }
        }
        holders
    }

    /// Returns a message that a consumer holds to the queue.
    pub(super) fn give_back(
        &mut self,
        consumer: ConsumerKey,
        at: u64,
        how: Return,
        now_ms: UnixMs,
        gone: &mut Vec<Gone>,
    ) -> Result<(), NotHeld> {
        self.ages.forget(consumer, at);
        self.fifo.give_back(consumer, at, how, now_ms, gone)
    }

    /// Returns all messages that a consumer holds, but for `kept`; all are on record, and the consumer stays
    /// attached.
    pub(super) fn give_back_all(
        &mut self,
        consumer: ConsumerKey,
        kept: &HashSet<u64>,
        now_ms: UnixMs,
        gone: &mut Vec<Gone>,
    ) {
        self.ages.forget_all(consumer);
        self.fifo.give_back_all(consumer, kept, Return::Released, now_ms, gone);
    }

    /// Records a message that the consumer holds without a record; its client has settled the tag and will
    /// not name it again. False if the consumer has no unrecorded messages, or this one is on record.
    pub(super) fn record_if_unrecorded(&mut self, consumer: ConsumerKey, at: u64) -> bool {
        let holder = self.fifo.consumers().get(consumer);
        let is = holder.is_some_and(|it| it.holds_unrecorded() && !it.holds(at));
        if is {
            self.fifo.consumers_mut().record(consumer, [at]);
        }
        is
    }

    /// Messages that consumers of one connection hold without a record of which are recorded now:
    /// they are to be given back, or the outbox will not be at hand any more.
    pub(super) fn record_held(&mut self, consumers: impl IntoIterator<Item = ConsumerKey>) {
        let host = |consumer: ConsumerKey| self.consumers.get(consumer);
        let unrecorded = consumers.into_iter().filter(|one| {
            self.fifo.consumers().get(*one).is_some_and(queue::Consumer::holds_unrecorded)
        });
        let mut unrecorded: Vec<(LinkId, ConsumerKey)> =
            unrecorded.filter_map(|consumer| Some((host(consumer)?.link, consumer))).collect();
        let Some(first) = unrecorded.first().and_then(|(_, consumer)| host(*consumer)) else {
            return;
        };
        unrecorded.sort_unstable();
        let links: Vec<LinkId> = unrecorded.iter().map(|(link, _)| *link).collect();
        for (link, position) in first.outbox.unsettled(&links) {
            let known = unrecorded.binary_search_by_key(&link, |(link, _)| *link).ok();
            if let Some((_, consumer)) = known.and_then(|index| unrecorded.get(index)) {
                self.fifo.consumers_mut().record(*consumer, [position.0]);
            }
        }
    }

    /// From now on the consumer is one of those that share `limit`.
    pub(super) fn limit(&mut self, consumer: ConsumerKey, limit: &Arc<ChannelLimit>) {
        limit.count(self.n_held(consumer) as u64);
        self.consumers.limit(consumer, limit);
    }

    /// Changes a consumer's prefetch limit.
    pub(super) fn set_prefetch(&mut self, consumer: ConsumerKey, prefetch: Option<u32>) {
        let Some(host) = self.consumers.get_mut(consumer) else { return };
        if host.checkout.credit_mode != CreditMode::Link {
            host.checkout.credit_mode = CreditMode::of_prefetch(prefetch);
            self.fifo.consumers_mut().change(consumer).set_prefetch(prefetch);
        }
    }

    /// The limit that a consumer shares has room again.
    pub(super) fn resume_limited(&mut self, consumer: ConsumerKey) {
        self.consumers.change(self.fifo, consumer, |it| it.room.reopen());
    }

    /// A consumer's outbox has room again.
    pub(super) fn resume(&mut self, consumer: ConsumerKey, wakes: &mut Wakes) {
        let Some(host) = self.consumers.get(consumer) else { return };
        let mut room_bytes = 0;
        wakes.extend(host.outbox.batch(&mut |sink| room_bytes = sink.room_bytes()));
        self.consumers.change(self.fifo, consumer, |it| it.room = OutboxRoom::of(room_bytes));
    }

    /// The consumers, for listings.
    pub(super) fn views(&self) -> Vec<ConsumerView> {
        let single = self.fifo.consumers().single();
        let view = |(consumer, host): (ConsumerKey, &ConsumerChannel)| {
            host.view(Activity::of(single.map(|single| single.active() == Some(consumer))))
        };
        self.consumers.iter().map(view).collect()
    }
}
