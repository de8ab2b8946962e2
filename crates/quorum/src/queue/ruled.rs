//! The queue as the thread of rules knows it: alarms, and dead letters that are sent.

use super::QuorumQueue;
use super::state::QueueState;
use super::turn::Turn;
use confirm::DurabilityToken;
use delivery::Sending;
use message::Refusal;
use meta::QueueDef;
use queue::machine::{Command, Items, NumberRange, Promise};
use queue_type::{
    AfterDetach, Confirm, DeadLetter, DeadLetterTo, LetterBatch, LetterLimits, LostAt, RuledQueue,
    TriedLetter,
};
use std::sync::Arc;
use stdx::TimeScale;

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

    fn first_letters(&self, limits: LetterLimits) -> Option<LetterBatch> {
        self.with(|turn| {
            turn.state.letters.sending = Sending::Idle;
            let Some(to) = turn.state.letters.to.clone() else {
                turn.letters_departed(&[NumberRange { start: 0, end: u64::MAX }]);
                return None;
            };
            let QueueState { letters, machine, content, .. } = &mut *turn.state;
            let (mut batch, lost) = letters.copy(to, machine.facts(), &content.backlog, limits);
            turn.letters_departed(&lost);
            if batch.n_positions == 0 {
                return None;
            }
            turn.state.letters.sending = Sending::UnderWay;
            // Letters sent once take their confirms along; awaited letters are answered by this queue.
            let confirms = turn.state.publishing.confirms.as_mut();
            if let Some(confirms) = confirms.filter(|_| batch.awaited.is_none()) {
                for letter in &mut batch.letters {
                    letter.confirm = confirms.take_letter(letter.position);
                }
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
            let (arrived, lost_at) = turn.state.letters.note_tried(tried, turn.now_ms);
            let n_arrived = arrived.iter().map(|it| it.end - it.start).sum();
            turn.queue.context.storage().deaths.note_confirmed(n_arrived);
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
            numbers
                .iter()
                .for_each(|it| confirms.refuse_letters(it.start..it.end, Refusal::Unavailable));
        }
    }
}

/// Notes that letters are elsewhere; answers their publishers when that is durable, which it is before the
/// departure is.
fn letters_arrived(turn: &mut Turn<'_>, numbers: &[NumberRange]) {
    let mut waiting = Vec::new();
    if let Some(confirms) = &mut turn.state.publishing.confirms {
        let numbers = numbers.iter().flat_map(|it| it.start..it.end);
        waiting.extend(numbers.filter_map(|number| confirms.take_letter(number)));
    }
    turn.letters_departed(numbers);
    let upto = DurabilityToken::by_log(turn.record(0, &[]));
    for Confirm { publisher, sequence } in waiting {
        let wal = turn.queue.context.wal();
        publisher.answer_when_durable(wal, &upto, sequence);
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
