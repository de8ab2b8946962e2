//! Link credit of consumers: their clients' flows, and credit that is to be used up (`drain`).
//!
//! A drain gives the consumer what is there first, also what is still on disk, or waits for room in its
//! outbox. It ends when nothing is ready, or the credit is used up; what is left of the credit is taken then,
//! and the client is told. A consumer that gets nothing since another is the single active one is drained at
//! once.

use super::membership::Membership;
use queue::{ConsumerKey, LinkCredit, SingleActive};
use queue_type::Wakes;
use session::{ConsumerCredit, CreditRequest};

impl Membership<'_> {
    /// Takes a consumer's link credit as its client sees it. A consumer with a prefetch limit has none. True
    /// if the client is to be told whether the consumer is the single active one.
    pub(super) fn flow(&mut self, consumer: ConsumerKey, request: &CreditRequest) -> bool {
        let CreditRequest { delivery_count, credit, drain, .. } = *request;
        let Some(host) = self.consumers.get(consumer) else { return false };
        let is_first = host.told_active.is_none() && self.fifo.consumers().single().is_some();
        self.fifo.consumers_mut().change(consumer).flow(LinkCredit { delivery_count, credit });
        self.consumers.set_draining(consumer, drain);
        is_first
    }

    /// Tells a consumer's client its link credit, and whether it is the single active one if that is news.
    pub(super) fn tell_credit(&mut self, consumer: ConsumerKey, drain: bool, wakes: &mut Wakes) {
        let Self { fifo, consumers, .. } = self;
        let credit = fifo.consumers().get(consumer).and_then(queue::Consumer::link_credit);
        if let Some((host, link)) = consumers.get_mut(consumer).zip(credit) {
            let LinkCredit { delivery_count, credit } = link;
            let available = u32::try_from(fifo.messages().n_ready()).unwrap_or(u32::MAX);
            let is_active = fifo.consumers().single().map(|it| it.active() == Some(consumer));
            let is_active = is_active.and_then(|is_active| host.note_active(is_active));
            let credit = ConsumerCredit { delivery_count, credit, available, drain, is_active };
            host.tell_credit(credit, wakes);
        }
    }

    /// Whether another consumer is the single active one than the clients were told.
    #[inline]
    pub(super) fn has_other_active(&self) -> bool {
        let single = self.fifo.consumers().single();
        single.is_some_and(|single| single.active() != self.consumers.told_active())
    }

    /// Tells the clients which consumer is the single active one now, as far as they have given credit.
    #[cold]
    pub(super) fn tell_active(&mut self, wakes: &mut Wakes) {
        let active = self.fifo.consumers().single().and_then(SingleActive::active);
        let before = self.consumers.tell_active(active);
        for consumer in before.into_iter().chain(active) {
            if self.consumers.get(consumer).is_some_and(|host| host.told_active.is_some()) {
                self.tell_credit(consumer, false, wakes);
            }
        }
    }

    /// Ends the drains of consumers that are given no more of what is there.
    #[cold]
    pub(super) fn end_drains(&mut self, wakes: &mut Wakes) {
        let is_empty = self.fifo.messages().n_ready() == 0;
        for consumer in self.consumers.draining().to_vec() {
            let known = self.fifo.consumers().get(consumer);
            if is_empty || !known.is_some_and(queue::Consumer::has_room) {
                self.consumers.set_draining(consumer, false);
                self.fifo.consumers_mut().change(consumer).drain();
                self.tell_credit(consumer, true, wakes);
            }
        }
    }
}
