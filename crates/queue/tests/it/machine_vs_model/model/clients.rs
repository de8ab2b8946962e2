//! Commands about consumers and publishers.

use super::{Effect, Model, Place};
use queue::LinkCredit;
use queue::machine::{Modify, NumberRange, Outcome};
use stdx::UnixMs;

impl Model {
    pub(super) fn flow(&mut self, id: u64, seen: LinkCredit, drain: bool) {
        let Some(consumer) = self.consumer(id).filter(|it| it.terms.has_link_credit) else {
            return self.give_out_in_line();
        };
        let LinkCredit { delivery_count, credit } = &mut consumer.link;
        *credit = seen.credit.saturating_sub(delivery_count.saturating_sub(seen.delivery_count));
        self.give_out_in_line();
        let n_ready = self.ready().len() as u64;
        let Some(consumer) = self.consumer(id) else { return };
        if drain {
            consumer.link.delivery_count += std::mem::take(&mut consumer.link.credit);
        }
        let LinkCredit { delivery_count, credit } = consumer.link;
        self.effects.push(Effect::Flowed { consumer: id, delivery_count, credit, n_ready });
    }

    pub(super) fn give_out_in_line(&mut self) {
        self.update_line();
        self.give_out();
    }

    pub(super) fn publishers_gone(&mut self, gone: &[u64]) {
        self.publishers.retain(|(publisher, _)| !gone.contains(publisher));
        for message in &mut self.messages {
            if let Some((publisher, _)) = &mut message.waiter
                && publisher.is_some_and(|publisher| gone.contains(&publisher))
            {
                *publisher = None;
                message.waiter = message.waiter.filter(|_| message.named.is_some());
            }
        }
    }

    pub(super) fn settle_numbers(
        &mut self,
        consumer: u64,
        outcome: Outcome,
        numbers: &[NumberRange],
    ) {
        let settled = self.settled_by(consumer, numbers);
        self.settle(&settled, outcome);
    }

    /// Deliveries that a consumer holds and settles, in the order it names them.
    fn settled_by(&mut self, consumer: u64, numbers: &[NumberRange]) -> Vec<(u64, u64)> {
        let mut settled = Vec::new();
        for range in numbers {
            let is_named = |number: u64| (range.start..range.end).contains(&number);
            for it in self.held(consumer) {
                if is_named(it.0) && !settled.contains(&it) {
                    settled.push(it);
                }
            }
            if let Some(consumer) = self.consumer(consumer) {
                consumer.timed_out.retain(|number| !is_named(*number));
            }
        }
        settled
    }

    pub(super) fn modify(&mut self, modify: &Modify<'_>) {
        let numbers: Vec<NumberRange> = modify.numbers.iter().collect();
        let settled = self.settled_by(modify.consumer, &numbers);
        for (_, position) in settled.iter().filter(|_| !modify.notes.is_empty()) {
            self.message(*position).notes = Some(modify.notes.to_vec());
        }
        self.settle(&settled, modify.outcome);
        let Some(until_ms) = modify.until_ms.map(UnixMs::get).filter(|at| *at > self.clock_ms)
        else {
            return;
        };
        for message in
            self.messages.iter_mut().filter(|it| settled.iter().any(|(_, at)| *at == it.position))
        {
            if matches!(message.place, Place::Returned(_) | Place::Delayed(_)) {
                message.place = Place::Delayed(until_ms);
            }
        }
    }
}
