//! Deliveries that are settled with changes to their messages, and the notes that stand beside messages.

use super::Machine;
use super::command::{Modify, NumberRange};
use super::effects::Effects;
use super::facts::Facts;
use crate::Retry;

/// Settles deliveries of a consumer, and changes their messages.
pub(super) fn modify(machine: &mut Machine, modify: &Modify<'_>, effects: &mut Effects) {
    let mut positions = std::mem::take(&mut machine.scratch);
    for NumberRange { start, end } in modify.numbers.iter() {
        let release = |position| positions.push(position);
        machine.consumers.release(modify.consumer, start, end, release);
    }
    for position in positions.iter().filter(|_| !modify.notes.is_empty()) {
        effects.n_unnoted += u64::from(!machine.backlog.notes.set(*position, modify.notes));
    }
    let until_ms = modify.until_ms.filter(|until_ms| *until_ms > machine.clock_ms);
    let of_command = until_ms.map(|until_ms| Retry::until(until_ms, machine.clock_ms));
    let of_queue = machine.settings.retry;
    machine.settings.retry = of_command.or(of_queue);
    machine.settle(&mut positions, modify.outcome, effects);
    machine.settings.retry = of_queue;
}

/// The notes beside the messages of a quorum queue, as of now.
#[derive(Clone, Copy, Debug)]
pub struct MessageNotes<'a>(&'a Machine);

impl<'a> MessageNotes<'a> {
    /// The notes of a queue.
    #[must_use]
    pub const fn of(facts: Facts<'a>) -> Self {
        Self(facts.0)
    }

    /// Whether no message has notes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.backlog.notes.is_empty()
    }

    /// The notes beside the message at a position.
    #[must_use]
    pub fn at(self, position: u64) -> Option<&'a [u8]> {
        self.0.backlog.notes.of(position)
    }

    /// The notes beside the message that a consumer holds as the delivery of that number.
    #[must_use]
    pub fn held(self, consumer: u64, number: u64) -> Option<&'a [u8]> {
        let held = &self.0.consumers.table.get(&consumer)?.held;
        self.at(held.get(number)?.position)
    }
}
