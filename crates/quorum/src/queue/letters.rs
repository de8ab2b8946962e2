//! Dead letters: messages that the machine says depart, copied for who sends them, and told to the machine as
//! departed once they are elsewhere.

use super::QuorumQueue;
use super::state::QueueState;
use classic::{LetterBatch, RuledQueue};
use message::MessageRef;
use meta::QueueDef;
use queue::machine::{Command, Items, NumberRange, Promise};
use queue_type::{AfterDetach, DeadLetter, DeadLetterTo};
use std::sync::Arc;
use stdx::TimeScale;
use store::backlog::Lookup;

/// A queue's dead letters, and how far the thread of rules is with sending them.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    pub(crate) to: Option<Arc<DeadLetterTo>>,
    sending: Sending,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sending {
    /// The thread was not asked for it.
    #[default]
    Idle,
    /// It was asked: the first of them is wanted in memory.
    Asked,
    /// It has copies of the first of them, or goes on when there is space.
    UnderWay,
}

impl Letters {
    pub(crate) fn is_asked(&self) -> bool {
        self.sending == Sending::Asked
    }

    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }
}

impl QueueState {
    /// The position of the first dead letter.
    pub(crate) fn first_letter(&self) -> Option<u64> {
        Some(self.machine.facts().departing().next()?.positions.start)
    }

    /// Whether the thread of rules is to be asked. It is, once, when the first dead letter is in memory.
    pub(crate) fn is_sending_wanted(&mut self) -> bool {
        if self.letters.sending == Sending::UnderWay || self.machine.facts().n_departing() == 0 {
            return false;
        }
        let Some(first) = self.first_letter() else { return false };
        let is_cold = matches!(self.content.backlog.get(first), Lookup::Cold);
        let was_asked = self.letters.is_asked();
        self.letters.sending = Sending::Asked;
        if is_cold {
            return false;
        }
        self.letters.sending = Sending::UnderWay;
        !was_asked || !is_cold
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
            let state = &mut *turn.state;
            let batch =
                state.letters.to.clone().and_then(|to| state.copy_letters(to, n_max, bytes_max));
            state.letters.sending = if batch.is_some() { Sending::UnderWay } else { Sending::Idle };
            batch
        })
    }

    fn letters_left(&self, n: u64) {
        self.with(|turn| {
            let (mut left, mut numbers) = (n, Vec::new());
            for departing in turn.state.machine.facts().departing() {
                let n = departing.positions.len().min(left);
                if n == 0 {
                    break;
                }
                let start = departing.first_number;
                numbers.push(NumberRange { start, end: start + n });
                left -= n;
            }
            turn.state.letters.sending = Sending::Idle;
            if !numbers.is_empty() {
                turn.apply(&Command::Departed { numbers: Items::Slice(&numbers) });
            }
        });
    }

    fn letters_wait_for_space(&self) {
        stdx::lock(&self.state).letters.sending = Sending::UnderWay;
    }

    fn keep_letters(&self, _unsent: &[DeadLetter], _n: u64) {
        stdx::lock(&self.state).letters.sending = Sending::UnderWay;
    }
}

impl QueueState {
    /// Copies of the first dead letters, up to `n_max` and about `bytes_max`; `None` if none is in memory.
    fn copy_letters(
        &self,
        to: Arc<DeadLetterTo>,
        n_max: usize,
        bytes_max: usize,
    ) -> Option<LetterBatch> {
        let mut batch = LetterBatch { to, letters: Vec::new(), n_positions: 0 };
        let mut bytes = 0;
        let departing = self.machine.facts().departing().flat_map(|departing| {
            let reason = departing.reason;
            (departing.positions.start..departing.positions.end).map(move |at| (at, reason))
        });
        for (at, reason) in departing {
            match self.content.backlog.get(at) {
                Lookup::Here(message) => {
                    // The queue keeps transient ones too.
                    let message = MessageRef { persistent: false, ..message };
                    let mut letter = DeadLetter::of(&message, reason);
                    (letter.position, letter.n_before) = (at, batch.n_positions);
                    bytes += letter.bytes();
                    batch.letters.push(letter);
                }
                Lookup::Cold => break,
                Lookup::Gone => {}
            }
            batch.n_positions += 1;
            if batch.letters.len() >= n_max || bytes >= bytes_max {
                break;
            }
        }
        (batch.n_positions > 0).then_some(batch)
    }
}
