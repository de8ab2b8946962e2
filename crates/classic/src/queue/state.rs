//! The state that a queue's lock guards: core, content and consumers, and the order things happen in.

use super::Queue;
use super::confirm_on::{Confirms, keep_only_large};
use super::confirm_timeout::GivenUp;
use super::consumer_timeout::UnackedAges;
use super::consumers::Consumers;
use super::deliveries::{Deliveries, Get, Giving};
use super::hand_over::HandOver;
use super::loading::Loading;
use super::membership::Membership;
use super::paging::PagingTurn;
use super::policy::{Arrivals, Leaving, Policy};
use super::recover_pages::Restoring;
use confirm::DurabilityToken;
use content::{Content, Durability, Paging};
use message::Refusal;
use meta::QueueSettings;
use queue::{ConsumerKey, CreditMode, Fifo, Gone, Return};
use queue_type::{
    AfterDetach, Attach, AttachRefused, Count, DeleteConditions, Got, Incoming, Owner, Publishes,
    QueueRefused, RefusedItem, Settled, Wakes,
};
use session::{Outcome, Settle};
use std::collections::HashSet;
use stdx::{MonotonicMs, TimeScale, UnixMs};

/// `counts_agree` counts a queue's messages page by page; queues of more pages are not counted.
const COUNTED_PAGES_MAX: usize = 64;

/// The state under a queue's lock.
pub(crate) struct QueueState {
    pub(super) fifo: Fifo,
    pub(super) content: Content,
    pub(super) loading: Loading,
    pub(super) paging: Paging,
    pub(super) policy: Policy,
    pub(super) confirms: Confirms,
    pub(super) consumers: Consumers,
    pub(super) hand_over: HandOver,
    pub(super) deleted: bool,
    pub(super) ages: UnackedAges,
}

stdx::debug_of!(|it: QueueState| fifo = it.fifo);

impl QueueState {
    pub(super) fn new(
        durability: Durability,
        is_loading: bool,
        settings: QueueSettings,
        now_ms: MonotonicMs,
    ) -> Self {
        let (mut fifo, mut confirms) = (Fifo::new(), Confirms::default());
        confirms.set(&mut fifo, settings.confirm);
        let policy = Policy::new(settings, now_ms, &mut fifo);
        Self {
            fifo,
            content: Content::new(durability),
            loading: Loading::new(is_loading),
            paging: Paging::default(),
            policy,
            confirms,
            consumers: Consumers::default(),
            hand_over: HandOver::default(),
            deleted: false,
            ages: UnackedAges::default(),
        }
    }

    /// Whether every message that is stored is ready, held, waits to be tried again or departs. The core may
    /// know more: those that were lost. Deep queues are taken at their word, for pages are counted.
    pub(super) fn counts_agree(&self) -> bool {
        let pages = self.content.backlog.pages();
        if self.loading.is_loading() || pages.n_pages() > COUNTED_PAGES_MAX {
            return true;
        }
        let messages = self.fifo.messages();
        let n_delayed = messages.policy().map_or(0, |policy| policy.delayed().len());
        let n_known = messages.n_ready() + self.fifo.consumers().n_held() + n_delayed;
        pages.n_messages() <= n_known + self.policy.n_departing()
    }

    /// The parts that have to do with who is given what.
    #[inline]
    pub(super) const fn deliveries(&mut self) -> Deliveries<'_> {
        Deliveries {
            fifo: &mut self.fifo,
            content: &mut self.content,
            consumers: &mut self.consumers,
            confirms: &mut self.confirms,
            hand_over: &mut self.hand_over,
            policy: &self.policy,
        }
    }

    /// The parts that have to do with who takes messages, and what each holds.
    pub(super) const fn membership(&mut self) -> Membership<'_> {
        Membership { fifo: &mut self.fifo, consumers: &mut self.consumers, ages: &mut self.ages }
    }

    /// The parts that take messages out other than by consumers: rules, purges, losses.
    pub(super) const fn leaving(&mut self) -> Leaving<'_> {
        Leaving {
            fifo: &mut self.fifo,
            content: &mut self.content,
            confirms: &mut self.confirms,
            policy: &mut self.policy,
        }
    }

    /// The parts that have to do with messages whose publishers were refused.
    pub(super) const fn given_up(&mut self) -> GivenUp<'_> {
        let Self { fifo, content, confirms, .. } = self;
        GivenUp { fifo, content, confirms }
    }

    /// The parts that have to do with what is wanted in memory.
    #[inline]
    pub(super) const fn paging_turn(&mut self) -> PagingTurn<'_> {
        PagingTurn {
            fifo: &self.fifo,
            content: &mut self.content,
            policy: &self.policy,
            paging: &mut self.paging,
        }
    }

    /// The parts that learn of messages of an earlier life.
    pub(super) const fn restoring(&mut self) -> Restoring<'_> {
        Restoring { fifo: &mut self.fifo, content: &mut self.content, policy: &mut self.policy }
    }

    pub(super) fn begin_delete(
        &mut self,
        conditions: DeleteConditions,
    ) -> Result<u64, QueueRefused> {
        if conditions.if_unused && self.fifo.consumers().n_active() > 0 {
            return Err(QueueRefused::InUse);
        }
        if conditions.if_empty && self.fifo.messages().n_ready() > 0 {
            return Err(QueueRefused::NotEmpty);
        }
        self.deleted = true;
        Ok(self.fifo.messages().n_ready())
    }

    /// Puts messages in; those it does not take are `refused`.
    pub(super) fn publish(
        &mut self,
        queue: &Queue,
        publishes: Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        let is_loading = self.loading.is_loading();
        assert!(!is_loading, "publishers wait for a queue that is being read");
        match (publishes.on_consume, self.deleted) {
            (false, false) => self.put_in(queue, publishes, refused, wakes),
            (false, true) => DurabilityToken::default(),
            (true, false) => {
                self.publish_confirm_on(queue, publishes, refused, wakes);
                DurabilityToken::default()
            }
            (true, true) => {
                refused.extend(RefusedItem::awaited_by_deleted(publishes.messages));
                DurabilityToken::default()
            }
        }
    }

    /// Publishes messages that are confirmed once they are consumed: small messages are not kept for a
    /// restart, and those that may not wait are refused. Messages that are kept all the same need not be
    /// durable.
    #[inline(never)]
    fn publish_confirm_on(
        &mut self,
        queue: &Queue,
        mut publishes: Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) {
        self.confirms.begin(&mut self.fifo);
        let bytes = keep_only_large(&mut publishes, &queue.storage().bodies);
        let Publishes { ref messages, any, on_consume } = publishes;
        let has_consumers = self.fifo.consumers().n_active() > 0;
        let Some(places) = self.confirms.with_room(has_consumers, messages, bytes, refused) else {
            let DurabilityToken { .. } = self.put_in(queue, publishes, refused, wakes);
            return;
        };
        let admitted = places.iter().filter_map(|place| messages.get(*place as usize).copied());
        let mut admitted: Vec<Incoming<'_>> = admitted.collect();
        let n_refused = refused.len();
        let admitted = Publishes { messages: &mut admitted, any, on_consume };
        let DurabilityToken { .. } = self.put_in(queue, admitted, refused, wakes);
        for refused in refused.iter_mut().skip(n_refused) {
            let place = places.get(refused.item as usize);
            refused.item = *place.expect("`admitted` has as many places");
        }
    }

    /// Puts messages in, whatever their confirms wait for.
    #[inline]
    fn put_in(
        &mut self,
        queue: &Queue,
        publishes: Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        match self.policy.arrivals(queue, publishes.any) {
            None => self.deliveries().publish_together(queue, &publishes, None, wakes),
            Some(arrivals) => self.put_in_by_rules(queue, publishes, &arrivals, refused, wakes),
        }
    }

    /// Puts in what there is room for, and refuses the rest.
    #[inline(never)]
    fn put_in_by_rules(
        &mut self,
        queue: &Queue,
        Publishes { messages, any, on_consume }: Publishes<'_, '_>,
        arrivals: &Arrivals,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        arrivals.note_deadlines(messages);
        let (mut awaited, mut at) = (DurabilityToken::default(), 0);
        while let Some(rest) = messages.get_mut(at..).filter(|rest| !rest.is_empty()) {
            let n_admitted = self.policy.n_admitted(&self.fifo, rest);
            match rest.get_mut(..n_admitted).filter(|admitted| !admitted.is_empty()) {
                Some(messages) => {
                    let publishes = Publishes { messages, any, on_consume };
                    let put = self.deliveries().publish_together(
                        queue,
                        &publishes,
                        Some(arrivals),
                        wakes,
                    );
                    awaited.add(put);
                    at += n_admitted;
                }
                None => {
                    refused.push(self.policy.refuse(queue, at));
                    at += 1;
                }
            }
        }
        self.leaving().enforce(queue, arrivals.now_ms);
        awaited
    }

    pub(super) fn settle(
        &mut self,
        queue: &Queue,
        consumer: ConsumerKey,
        settles: &[Settle],
        wakes: &mut Wakes,
    ) -> Settled {
        let mut settled = Settled::All;
        let (mut gone, mut any_back, mut n_acked) = (Vec::new(), false, 0);
        for settle in settles {
            let at = settle.position.0;
            match settle.outcome {
                Outcome::Accepted => {
                    if self.fifo.settle(consumer, at).is_ok() {
                        n_acked += 1;
                        self.content.release(queue.pool(), at);
                        self.confirms.consumed(at);
                    }
                }
                _ if self.membership().record_if_unrecorded(consumer, at) => {
                    settled = Settled::NotByThisMode
                }
                _ if self.confirms.take_nothing_back() && is_link(&self.consumers, consumer) => {
                    settled = Settled::NotOnThisLink
                }
                Outcome::Modified | Outcome::Released
                    if self.given_up().drop_returned(queue, consumer, at) => {}
                Outcome::Rejected => {
                    if let Ok(rejected) = self.fifo.reject(consumer, at) {
                        gone.push(rejected);
                    }
                }
                // Unknown positions were taken from the consumer meanwhile: nothing to give back.
                Outcome::Modified | Outcome::Released => {
                    let now_ms = self.leaving().returned_ms(queue);
                    let how = match settle.outcome {
                        Outcome::Modified => Return::Failed,
                        Outcome::Accepted | Outcome::Rejected | Outcome::Released => {
                            Return::Released
                        }
                    };
                    let back = self.membership().give_back(consumer, at, how, now_ms, &mut gone);
                    any_back |= back.is_ok();
                }
            }
        }
        queue.counters.tally.add(Count::Acked, n_acked);
        if any_back || !gone.is_empty() {
            self.leaving().after_return(queue, &gone);
        }
        self.deliveries().dispatch(queue, wakes);
        settled
    }

    pub(super) fn attach(
        &mut self,
        queue: &Queue,
        attach: Attach<'_>,
        wakes: &mut Wakes,
    ) -> Result<ConsumerKey, AttachRefused> {
        if self.deleted {
            return Err(AttachRefused::Gone);
        }
        let is_single_active = self.policy.is_single_active();
        let key = self.membership().attach(attach, is_single_active, wakes)?;
        self.policy.touch(queue);
        self.leaving().look_at_time(queue);
        self.deliveries().dispatch(queue, wakes);
        Ok(key)
    }

    pub(super) fn attach_passive(&mut self, owner: Owner) -> Result<ConsumerKey, AttachRefused> {
        if self.deleted {
            return Err(AttachRefused::Gone);
        }
        Ok(self.membership().attach_passive(owner))
    }

    pub(super) fn get(
        &mut self,
        queue: &Queue,
        get: &Get<'_>,
        wakes: &mut Wakes,
    ) -> Result<Got, AttachRefused> {
        if self.deleted {
            return Err(AttachRefused::Gone);
        }
        self.policy.touch(queue);
        self.leaving().look_at_time(queue);
        Ok(self.deliveries().get(queue, get, wakes))
    }

    /// Gives out a portion of what was gathered. False once that was the last.
    pub(super) fn give_gathered(
        &mut self,
        queue: &Queue,
        giving: &mut Giving,
        wakes: &mut Wakes,
    ) -> bool {
        // Everybody else still gathers, and so gives nothing out, until this is over.
        let goes_on = std::mem::take(&mut self.consumers.is_gathering)
            && self.deliveries().give_some(giving, queue, wakes);
        self.consumers.is_gathering = goes_on;
        self.content.log_settled(queue);
        goes_on
    }

    /// Gives out what was gathered.
    pub(super) fn end_gathering(&mut self, queue: &Queue, wakes: &mut Wakes) {
        if std::mem::take(&mut self.consumers.is_gathering) {
            self.deliveries().dispatch(queue, wakes);
        }
    }

    pub(super) fn cancel(&mut self, queue: &Queue, consumer: ConsumerKey) -> AfterDetach {
        self.policy.touch(queue);
        self.membership().cancel(consumer);
        self.after_detach(queue)
    }

    /// Takes a consumer away and gives back what it holds. `record_held` comes before.
    pub(super) fn detach(&mut self, queue: &Queue, consumer: ConsumerKey) -> AfterDetach {
        self.given_up().drop_all_returned(queue, consumer, &HashSet::new());
        let now_ms = self.leaving().returned_ms(queue);
        let mut gone = Vec::new();
        let left = self.membership().detach(consumer, now_ms, &mut gone);
        if left.was_active {
            self.policy.touch(queue);
        }
        if left.n_requeued > 0 {
            self.leaving().after_return(queue, &gone);
        }
        if left.was_active { self.after_detach(queue) } else { AfterDetach::Stays }
    }

    fn after_detach(&mut self, queue: &Queue) -> AfterDetach {
        if self.deleted || !(queue.def.auto_delete && self.membership().are_all_gone()) {
            return AfterDetach::Stays;
        }
        self.deleted = true;
        AfterDetach::DeleteQueue
    }

    /// Messages that consumers hold come back, as `give_back` says.
    pub(super) fn give_back(
        &mut self,
        queue: &Queue,
        give_back: impl FnOnce(&mut Membership<'_>, UnixMs, &mut Vec<Gone>),
    ) {
        let now_ms = self.leaving().returned_ms(queue);
        let mut gone = Vec::new();
        give_back(&mut self.membership(), now_ms, &mut gone);
        self.leaving().after_return(queue, &gone);
    }

    /// An alarm that the queue had set has gone off.
    pub(super) fn on_time(
        &mut self,
        queue: &Queue,
        scale: TimeScale,
        wakes: &mut Wakes,
    ) -> AfterDetach {
        self.policy.note_alarm(scale);
        if self.deleted {
            return AfterDetach::Stays;
        }
        let now_ms = queue.time().unix_ms();
        self.given_up().wake(queue, now_ms);
        self.given_up().refuse_overdue(queue);
        self.leaving().enforce(queue, now_ms);
        self.deliveries().dispatch(queue, wakes);
        let has_consumers = self.fifo.consumers().n_active() > 0;
        let is_over = |at_ms| at_ms <= queue.time().monotonic_ms();
        if self.policy.expires_at_ms(has_consumers).is_some_and(is_over) {
            self.deleted = true;
            return AfterDetach::DeleteQueue;
        }
        AfterDetach::Stays
    }

    /// The definition's removal is in the log already (or is of no durable queue): only the places
    /// in the log are given back.
    pub(super) fn delete(&mut self, queue: &Queue, wakes: &mut Wakes) {
        self.deleted = true;
        for host in self.consumers.drain() {
            host.tell_cancelled(wakes);
        }
        self.confirms.refuse_all(Refusal::Deleted);
        let dropped = self.content.backlog.clear(queue.pool());
        self.content.free(queue, dropped);
        queue.files_version.forget(queue.wal());
        self.content.durability.drop_journal(queue);
        self.loading.end(queue, wakes);
        self.fifo = Fifo::new();
        self.policy.end_rules(queue);
    }
}

/// Whether a consumer is a link of AMQP 1.0.
fn is_link(consumers: &Consumers, consumer: ConsumerKey) -> bool {
    consumers.get(consumer).is_some_and(|it| it.checkout.credit_mode == CreditMode::Link)
}
