//! Link credit of consumers: their clients' flows, and credit that is to be used up (`drain`).
//!
//! A drain gives the consumer what is there first, also what is still on disk, or waits for room in its
//! outbox. It ends when nothing is ready, or the credit is used up; what is left of the credit is taken then,
//! and the client is told. A consumer that gets nothing since another is the single active one is drained at
//! once.

use super::membership::Membership;
use queue::{ConsumerKey, LinkCredit};
use queue_type::Wakes;
use session::{ConsumerCredit, CreditRequest};

impl Membership<'_> {
    /// Takes a consumer's link credit as its client sees it. A consumer with a prefetch limit has none.
    pub(super) fn flow(&mut self, consumer: ConsumerKey, request: &CreditRequest) {
        let CreditRequest { delivery_count, credit, drain, .. } = *request;
        if self.consumers.get(consumer).is_some() {
            self.fifo.consumers_mut().change(consumer).flow(LinkCredit { delivery_count, credit });
            self.consumers.set_draining(consumer, drain);
        }
    }

    /// Tells a consumer's client its link credit.
    pub(super) fn tell_credit(&self, consumer: ConsumerKey, drain: bool, wakes: &mut Wakes) {
        let credit = self.fifo.consumers().get(consumer).and_then(queue::Consumer::link_credit);
        if let Some((host, link)) = self.consumers.get(consumer).zip(credit) {
            let LinkCredit { delivery_count, credit } = link;
            let available = u32::try_from(self.fifo.messages().n_ready()).unwrap_or(u32::MAX);
            host.tell_credit(ConsumerCredit { delivery_count, credit, available, drain }, wakes);
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
