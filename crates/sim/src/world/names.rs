//! Publishers that name themselves and number their messages: which message is next under each name, and
//! which are to be published again first.

use super::ledger::Sent;
use std::collections::{BTreeMap, VecDeque};
use testing::Random;

const PUBLISHERS: &[&str] = &["hare", "tortoise"];

#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    /// Messages of lives before that were not confirmed.
    again: VecDeque<u64>,
}

/// By queue and name.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<(&'static str, &'static str), Numbers>);

/// A publish under a name.
pub(super) enum Publishing {
    /// With this number.
    New(&'static str, u64),
    Again(u64),
}

impl Names {
    /// The next publish to a queue under some name; sometimes one that was published before.
    pub(super) fn publish(
        &mut self,
        random: &mut Random,
        queue: &'static str,
        sent: &BTreeMap<u64, Sent>,
    ) -> Publishing {
        let name = random.pick(PUBLISHERS);
        let numbers = self.0.entry((queue, name)).or_default();
        if let Some(id) = numbers.again.pop_front() {
            return Publishing::Again(id);
        }
        let is_of = |sent: &Sent| sent.named.is_some_and(|(of, _)| of == name) && sent.is_of(queue);
        let before = sent.iter().filter(|(_, sent)| is_of(sent)).map(|(id, _)| *id);
        if let Some(id) = random.perhaps(30, &before.collect::<Vec<u64>>()) {
            return Publishing::Again(id);
        }
        numbers.next += 1 + random.below(3) as u64;
        Publishing::New(name, numbers.next)
    }

    /// The node has started again: what was not confirmed is published again before anything else.
    pub(super) fn restart(&mut self, sent: &BTreeMap<u64, Sent>) {
        self.0.values_mut().for_each(|numbers| numbers.again.clear());
        for (id, sent) in sent.iter().filter(|(_, sent)| sent.answer != Some(true)) {
            let Some((name, _)) = sent.named else { continue };
            for queue in sent.to.keys().filter(|queue| sent.is_of(queue)) {
                self.0.entry((queue, name)).or_default().again.push_back(*id);
            }
        }
    }

    /// A queue is gone, and with it what it knew, or perhaps: numbers go on.
    pub(super) fn forget(&mut self, queue: &str) {
        let of_queue = self.0.iter_mut().filter(|((of, _), _)| *of == queue);
        of_queue.for_each(|(_, numbers)| numbers.again.clear());
    }
}
