//! Dead letters: messages that the machine says depart, copied for their sender, and told to the machine as
//! departed once they are elsewhere; those sent at least once, when all their queues have them.

use super::undelivered::{AWAITED_MAX, Undelivered};
use message::MessageRef;
use queue::Reason;
use queue::machine::{DeadLetters, Facts, NumberRange};
use queue_type::{DeadLetter, DeadLetterTo, LetterBatch, LostAt, TriedLetter};
use std::sync::Arc;
use store::backlog::{Backlog, Lookup};

/// A queue's dead letters, and the state of sending them by the thread of rules.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    pub(crate) to: Option<Arc<DeadLetterTo>>,
    pub(crate) sending: Sending,
    /// Number after the last letter that is being sent.
    pub(crate) sent_end: u64,
    undelivered: Option<Box<Undelivered>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sending {
    /// The thread was not asked to send.
    #[default]
    Idle,
    /// The thread is to be asked: the first letter is wanted in memory.
    Asked,
    /// The thread was asked: the first letter is to stay in memory until the thread comes.
    Called,
    /// The thread has copies of the first letters, or goes on when the disk has space.
    UnderWay,
}

impl Letters {
    /// Whether the first letter is wanted in memory.
    pub(crate) fn are_wanted(&self) -> bool {
        matches!(self.sending, Sending::Asked | Sending::Called)
    }

    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// Sets the target of dead letters; letters that wait are tried again.
    pub(crate) fn set_to(&mut self, to: Option<DeadLetterTo>, facts: Facts<'_>) {
        self.to = to.map(Arc::new);
        if let Some(undelivered) = &mut self.undelivered {
            undelivered.tell_anew();
            self.retry(facts);
        }
    }

    /// Time when letters are tried again.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.undelivered.as_ref()?.retry_at_ms()
    }

    /// Has letters that wait tried again.
    pub(crate) fn retry(&mut self, facts: Facts<'_>) {
        let departing = facts.departing();
        let departing = departing.map(|it| it.first_number..it.first_number + it.positions.len());
        let departing: Vec<_> = departing.collect();
        if let Some(undelivered) = &mut self.undelivered {
            undelivered.retry(|number| departing.iter().any(|range| range.contains(&number)));
        }
    }

    /// The dead letters that may be sent now, in order: number, position, reason.
    fn sendable<'s>(&'s self, facts: Facts<'s>) -> impl Iterator<Item = (u64, u64, Reason)> + 's {
        let undelivered = self.undelivered.as_deref().filter(|_| are_awaited(facts));
        let n_waiting = undelivered.map_or(0, Undelivered::n_waiting);
        let n_max =
            if are_awaited(facts) { AWAITED_MAX.saturating_sub(n_waiting) } else { usize::MAX };
        let departing = facts.departing().flat_map(|it| {
            let numbered = (it.first_number..).zip(it.positions.start..it.positions.end);
            numbered.map(move |(number, at)| (number, at, it.reason))
        });
        let may_be_sent = move |number| undelivered.is_none_or(|it| it.may_be_sent(number));
        departing.filter(move |(number, ..)| may_be_sent(*number)).take(n_max)
    }

    /// The position of the first dead letter that may be sent.
    pub(crate) fn first(&self, facts: Facts<'_>) -> Option<u64> {
        self.sendable(facts).next().map(|(_, at, _)| at)
    }

    /// Whether the thread of rules is to be asked to send, which is once, when the first dead letter is in
    /// memory.
    pub(crate) fn is_sending_wanted(&mut self, facts: Facts<'_>, backlog: &Backlog) -> bool {
        let is_asked = matches!(self.sending, Sending::Called | Sending::UnderWay);
        if is_asked || facts.n_departing() == 0 {
            return false;
        }
        let Some(first) = self.first(facts) else { return false };
        let is_cold = matches!(backlog.get(first), Lookup::Cold);
        self.sending = if is_cold { Sending::Asked } else { Sending::Called };
        !is_cold
    }

    /// Notes where letters that were tried have arrived. Returns the numbers of those that arrived
    /// everywhere, and why others go nowhere, if that is news.
    pub(crate) fn note_tried(
        &mut self,
        tried: Vec<TriedLetter>,
        now_ms: u64,
    ) -> (Vec<NumberRange>, Option<LostAt>) {
        self.sending = Sending::Idle;
        let undelivered = self.undelivered.get_or_insert_default();
        let noted = undelivered.note(tried, now_ms);
        if undelivered.is_empty() {
            self.undelivered = None;
        }
        noted
    }

    /// Copies of the first dead letters, up to `n_max` and about `bytes_max`, as far as they are in memory,
    /// and the numbers of awaited ones that are damaged.
    pub(crate) fn copy(
        &mut self,
        to: Arc<DeadLetterTo>,
        (facts, backlog): (Facts<'_>, &Backlog),
        n_max: usize,
        bytes_max: usize,
    ) -> (LetterBatch, Vec<NumberRange>) {
        let mut batch = LetterBatch { to, letters: Vec::new(), n_positions: 0, awaited: None };
        let (mut bytes, mut sent_end, mut numbers, mut lost) = (0, 0, Vec::new(), Vec::new());
        for (number, at, reason) in self.sendable(facts) {
            match backlog.get(at) {
                Lookup::Here(message) => {
                    // The queue keeps transient ones too.
                    let message = MessageRef { persistent: false, ..message };
                    let mut letter = DeadLetter::of(&message, reason);
                    (letter.position, letter.n_before) = (number, batch.n_positions);
                    bytes += letter.bytes();
                    numbers.push(number);
                    batch.letters.push(letter);
                }
                Lookup::Cold => break,
                Lookup::Gone => lost.push(NumberRange::one(number)),
            }
            batch.n_positions += 1;
            sent_end = number + 1;
            if batch.letters.len() >= n_max || bytes >= bytes_max {
                break;
            }
        }
        self.sent_end = sent_end;
        if are_awaited(facts) {
            let undelivered = self.undelivered.get_or_insert_default();
            batch.awaited = Some(undelivered.awaited(&numbers));
        } else {
            lost.clear();
        }
        (batch, lost)
    }
}

/// Whether letters stay until all their targets have them.
fn are_awaited(facts: Facts<'_>) -> bool {
    facts.settings().dead_letters == DeadLetters::AtLeastOnce
}
