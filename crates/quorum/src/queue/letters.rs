//! Dead letters: messages that the machine says depart, copied for their sender, and told to the machine as
//! departed once they are elsewhere; those sent at least once, when all their queues have them.

use super::notes::letter_with_notes;
use super::undelivered::{AWAITED_MAX, Undelivered};
use delivery::{CopiedLetters, DepartingMessage, Sending};
use queue::machine::{DeadLetters, Facts, MessageNotes, NumberRange};
use queue_type::{DeadLetterTo, LetterBatch, LetterLimits, LostAt, TriedLetter};
use std::sync::Arc;
use stdx::UnixMs;
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

impl Letters {
    /// Whether the first letter is wanted in memory.
    pub(crate) fn are_wanted(&self) -> bool {
        matches!(self.sending, Sending::Wanted | Sending::Asked)
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
    pub(crate) fn due_ms(&self) -> Option<UnixMs> {
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

    /// The dead letters that may be sent now, in order.
    fn sendable<'s>(&'s self, facts: Facts<'s>) -> impl Iterator<Item = DepartingMessage> + 's {
        let undelivered = self.undelivered.as_deref().filter(|_| are_awaited(facts));
        let n_waiting = undelivered.map_or(0, Undelivered::n_waiting);
        let n_max =
            if are_awaited(facts) { AWAITED_MAX.saturating_sub(n_waiting) } else { usize::MAX };
        let departing = facts.departing().flat_map(|it| {
            let numbered = (it.first_number..).zip(it.positions.start..it.positions.end);
            numbered.map(move |(number, at)| DepartingMessage { number, at, reason: it.reason })
        });
        let may_be_sent = move |number| undelivered.is_none_or(|it| it.may_be_sent(number));
        departing.filter(move |it| may_be_sent(it.number)).take(n_max)
    }

    /// The position of the first dead letter that may be sent.
    pub(crate) fn first(&self, facts: Facts<'_>) -> Option<u64> {
        self.sendable(facts).next().map(|it| it.at)
    }

    /// Whether the thread of rules is to be asked to send, which is once, when the first dead letter is in
    /// memory.
    pub(crate) fn is_sending_wanted(&mut self, facts: Facts<'_>, backlog: &Backlog) -> bool {
        let is_asked = matches!(self.sending, Sending::Asked | Sending::UnderWay);
        if is_asked || facts.n_departing() == 0 {
            return false;
        }
        let Some(first) = self.first(facts) else { return false };
        let is_cold = matches!(backlog.get(first), Lookup::Cold);
        self.sending = if is_cold { Sending::Wanted } else { Sending::Asked };
        !is_cold
    }

    /// Notes where letters that were tried have arrived. Returns the numbers of those that arrived
    /// everywhere, and why others go nowhere, if that is news.
    pub(crate) fn note_tried(
        &mut self,
        tried: Vec<TriedLetter>,
        now_ms: UnixMs,
    ) -> (Vec<NumberRange>, Option<LostAt>) {
        self.sending = Sending::Idle;
        let undelivered = self.undelivered.get_or_insert_default();
        let noted = undelivered.note(tried, now_ms);
        if undelivered.is_empty() {
            self.undelivered = None;
        }
        noted
    }

    /// Copies of the first dead letters within `limits`, as far as they are in memory, and the numbers of
    /// awaited ones that are damaged.
    pub(crate) fn copy(
        &mut self,
        to: Arc<DeadLetterTo>,
        facts: Facts<'_>,
        backlog: &Backlog,
        limits: LetterLimits,
    ) -> (LetterBatch, Vec<NumberRange>) {
        let copied = CopiedLetters::of(to, self.sendable(facts), backlog, true, limits);
        let CopiedLetters { mut batch, lost, end } = copied;
        let notes = MessageNotes::of(facts);
        if !notes.is_empty() {
            let mut sent = self.sendable(facts);
            for letter in &mut batch.letters {
                let departing = sent.find(|it| it.number == letter.position);
                if let Some(notes) = departing.and_then(|it| notes.at(it.at)) {
                    *letter = letter_with_notes(letter, notes);
                }
            }
        }
        self.sent_end = end;
        if !are_awaited(facts) {
            return (batch, Vec::new());
        }
        let numbers: Vec<u64> = batch.letters.iter().map(|letter| letter.position).collect();
        batch.awaited = Some(self.undelivered.get_or_insert_default().awaited(&numbers));
        (batch, lost.into_iter().map(NumberRange::one).collect())
    }
}

/// Whether letters stay until all their targets have them.
fn are_awaited(facts: Facts<'_>) -> bool {
    facts.settings().dead_letters == DeadLetters::AtLeastOnce
}
