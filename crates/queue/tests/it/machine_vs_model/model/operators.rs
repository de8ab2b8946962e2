//! Commands of operators about some messages.

use super::{Message, Model, Place};
use queue::machine::NumberRange;

impl Model {
    pub(super) fn remove(&mut self, request: u64, ranges: &[NumberRange]) {
        let is_in = |at: u64| ranges.iter().any(|range| (range.start..range.end).contains(&at));
        self.purge(request, |it| {
            matches!(it.place, Place::Fresh | Place::Returned(_)) && is_in(it.position)
        });
    }

    pub(super) fn reschedule(&mut self, until_ms: u64, ranges: &[NumberRange]) {
        for at in ranges.iter().flat_map(|range| range.start..range.end) {
            let of_it = self.messages.iter_mut().find(|it| it.position == at);
            let waits = |it: &&mut Message| matches!(it.place, Place::Delayed(_));
            let Some(it) = of_it.filter(waits) else { continue };
            if until_ms > self.clock_ms {
                it.place = Place::Delayed(until_ms);
            } else {
                self.n_returned += 1;
                it.place = Place::Returned(self.n_returned);
            }
        }
    }
}
