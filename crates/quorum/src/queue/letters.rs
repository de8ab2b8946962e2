//! Dead letters: messages that the machine says depart, copied for their sender, and told to the machine as
//! departed once they are elsewhere; those sent at least once, when all their queues have them.

use super::QuorumQueue;
use super::state::QueueState;
use super::turn::Turn;
use super::undelivered::{AWAITED_MAX, Undelivered};
use classic::{LetterBatch, RuledQueue};
use confirm::DurabilityToken;
use message::MessageRef;
use meta::QueueDef;
use queue::Reason;
use queue::machine::{Command, DeadLetters, Items, NumberRange, Promise};
use queue_type::{AfterDetach, Confirm, DeadLetter, DeadLetterTo, LostAt, TriedLetter};
use std::sync::Arc;
use stdx::TimeScale;
use store::backlog::Lookup;

/// A queue's dead letters, and the state of sending them by the thread of rules.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    to: Option<Arc<DeadLetterTo>>,
    sending: Sending,
    /// Number after the last letter that is being sent.
    sent_end: u64,
    undelivered: Option<Box<Undelivered>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sending {
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
}

impl QueueState {
    /// Sets the target of dead letters; letters that wait are tried again.
    pub(crate) fn set_dead_letter_to(&mut self, to: Option<DeadLetterTo>) {
        self.letters.to = to.map(Arc::new);
        if let Some(undelivered) = &mut self.letters.undelivered {
            undelivered.tell_anew();
            self.retry_letters();
        }
    }

    fn is_at_least_once(&self) -> bool {
        self.terms.settings.dead_letters == DeadLetters::AtLeastOnce
    }

    /// Time when letters are tried again.
    pub(crate) fn letters_due_ms(&self) -> Option<u64> {
        self.letters.undelivered.as_ref()?.retry_at_ms()
    }

    pub(crate) fn retry_letters(&mut self) {
        let departing = self.machine.facts().departing();
        let departing = departing.map(|it| it.first_number..it.first_number + it.positions.len());
        let departing: Vec<_> = departing.collect();
        if let Some(undelivered) = &mut self.letters.undelivered {
            undelivered.retry(|number| departing.iter().any(|range| range.contains(&number)));
        }
    }

    /// The dead letters that may be sent now, in order: number, position, reason.
    fn sendable(&self) -> impl Iterator<Item = (u64, u64, Reason)> + '_ {
        let undelivered = self.letters.undelivered.as_deref().filter(|_| self.is_at_least_once());
        let n_waiting = undelivered.map_or(0, Undelivered::n_waiting);
        let n_max = if self.is_at_least_once() {
            AWAITED_MAX.saturating_sub(n_waiting)
        } else {
            usize::MAX
        };
        let departing = self.machine.facts().departing().flat_map(|it| {
            let numbered = (it.first_number..).zip(it.positions.start..it.positions.end);
            numbered.map(move |(number, at)| (number, at, it.reason))
        });
        let may_be_sent = move |number| undelivered.is_none_or(|it| it.may_be_sent(number));
        departing.filter(move |(number, ..)| may_be_sent(*number)).take(n_max)
    }

    /// The position of the first dead letter that may be sent.
    pub(crate) fn first_letter(&self) -> Option<u64> {
        self.sendable().next().map(|(_, at, _)| at)
    }

    /// Whether the thread of rules is to be asked to send, which is once, when the first dead letter is in
    /// memory.
    pub(crate) fn is_sending_wanted(&mut self) -> bool {
        let is_asked = matches!(self.letters.sending, Sending::Called | Sending::UnderWay);
        if is_asked || self.machine.facts().n_departing() == 0 {
            return false;
        }
        let Some(first) = self.first_letter() else { return false };
        let is_cold = matches!(self.content.backlog.get(first), Lookup::Cold);
        self.letters.sending = if is_cold { Sending::Asked } else { Sending::Called };
        !is_cold
    }
}

impl RuledQueue for QuorumQueue {
    fn def(&self) -> &Arc<QueueDef> {
        self.context.def()
    }

    fn has_journal(&self) -> bool {
        false
    }

    fn on_time(&self, scale: TimeScale) -> AfterDetach {
        self.with(|turn| {
            turn.state.alarms.note_come(scale);
            if turn.state.is_deleted {
                return AfterDetach::Stays;
            }
            turn.apply(&Command::Tick);
            if turn.promises().any(|promise| matches!(promise, Promise::Unused)) {
                turn.state.is_deleted = true;
                return AfterDetach::DeleteQueue;
            }
            AfterDetach::Stays
        })
    }

    fn first_letters(&self, n_max: usize, bytes_max: usize) -> Option<LetterBatch> {
        self.with(|turn| {
            turn.state.letters.sending = Sending::Idle;
            let Some(to) = turn.state.letters.to.clone() else {
                turn.letters_departed(&[NumberRange { start: 0, end: u64::MAX }]);
                return None;
            };
            let (mut batch, lost) = turn.state.copy_letters(to, n_max, bytes_max);
            turn.letters_departed(&lost);
            if batch.n_positions == 0 {
                return None;
            }
            turn.state.letters.sending = Sending::UnderWay;
            // Letters sent once take their confirms along; awaited letters are answered by this queue.
            let confirms = turn.state.publishing.confirms.as_mut();
            if let Some(confirms) = confirms.filter(|_| batch.awaited.is_none()) {
                confirms.go_with(&mut batch.letters);
            }
            Some(batch)
        })
    }

    fn letters_left(&self, n: u64) {
        self.with(|turn| {
            let (mut left, mut numbers) = (n, Vec::new());
            for departing in turn.state.machine.facts().departing() {
                let start = departing.first_number;
                // After a purge others depart.
                let n_sent = turn.state.letters.sent_end.saturating_sub(start);
                let n = departing.positions.len().min(left).min(n_sent);
                if n == 0 {
                    break;
                }
                numbers.push(NumberRange { start, end: start + n });
                left -= n;
            }
            turn.state.letters.sending = Sending::Idle;
            // The publisher of a message that was lost meanwhile is told by no letter.
            turn.letters_departed(&numbers);
        });
    }

    fn letters_tried(&self, tried: Vec<TriedLetter>) {
        self.with(|turn| {
            turn.state.letters.sending = Sending::Idle;
            let undelivered = turn.state.letters.undelivered.get_or_insert_default();
            let (arrived, lost_at) = undelivered.note(tried, turn.now_ms);
            if undelivered.is_empty() {
                turn.state.letters.undelivered = None;
            }
            let n_arrived = arrived.iter().map(|it| it.end - it.start).sum();
            turn.queue.context.services.storage.deaths.note_confirmed(n_arrived);
            letters_arrived(turn, &arrived);
            if let Some((lost_at, to)) = lost_at.zip(turn.state.letters.to.as_deref()) {
                tell_of_lost(turn.queue.def(), to, lost_at);
            }
        });
    }

    fn letters_wait_for_space(&self) {
        stdx::lock(&self.state).letters.sending = Sending::UnderWay;
    }

    fn keep_letters(&self, unsent: &[DeadLetter], _n: u64) {
        self.with(|turn| {
            turn.state.letters.sending = Sending::UnderWay;
            if let Some(confirms) = &mut turn.state.publishing.confirms {
                confirms.come_back(unsent);
                if turn.state.is_deleted {
                    confirms.refuse_all();
                }
            }
        });
    }
}

impl Turn<'_> {
    /// Notes that letters are gone; refuses the publishers that were told nothing.
    fn letters_departed(&mut self, numbers: &[NumberRange]) {
        if !numbers.is_empty() {
            self.apply(&Command::Departed { numbers: Items::Slice(numbers) });
        }
        if let Some(confirms) = &mut self.state.publishing.confirms {
            numbers.iter().for_each(|it| confirms.refuse_letters(it.start..it.end));
        }
    }
}

/// Notes that letters are elsewhere; answers their publishers when that is durable, which it is before the
/// departure is.
fn letters_arrived(turn: &mut Turn<'_>, numbers: &[NumberRange]) {
    let mut waiting = Vec::new();
    if let Some(confirms) = &mut turn.state.publishing.confirms {
        numbers.iter().for_each(|it| waiting.extend(confirms.take_letters(it.start..it.end)));
    }
    turn.letters_departed(numbers);
    let upto = DurabilityToken::by_log(turn.record(0, &[]));
    for Confirm { publisher, sequence } in waiting {
        let wal = &turn.queue.context.services.storage.wal;
        publisher.answer_when_durable(wal, &upto, sequence);
    }
}

impl QueueState {
    /// Copies of the first dead letters, up to `n_max` and about `bytes_max`, as far as they are in memory,
    /// and the numbers of awaited ones that are damaged.
    fn copy_letters(
        &mut self,
        to: Arc<DeadLetterTo>,
        n_max: usize,
        bytes_max: usize,
    ) -> (LetterBatch, Vec<NumberRange>) {
        let mut batch = LetterBatch { to, letters: Vec::new(), n_positions: 0, awaited: None };
        let (mut bytes, mut sent_end, mut numbers, mut lost) = (0, 0, Vec::new(), Vec::new());
        for (number, at, reason) in self.sendable() {
            match self.content.backlog.get(at) {
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
        self.letters.sent_end = sent_end;
        if self.is_at_least_once() {
            let undelivered = self.letters.undelivered.get_or_insert_default();
            batch.awaited = Some(undelivered.awaited(&numbers));
        } else {
            lost.clear();
        }
        (batch, lost)
    }
}

#[cold]
fn tell_of_lost(def: &QueueDef, to: &DeadLetterTo, lost_at: LostAt) {
    let why = match lost_at {
        LostAt::Exchange => "it does not exist",
        LostAt::Route => "it routes to no queue, or in a cycle",
    };
    tracing::warn!(
        queue = %def.name,
        vhost = %def.vhost,
        exchange = %to.exchange,
        "at-least-once dead letters wait in their queue for its dead letter exchange: \
         {why}"
    );
}
