//! Annotations that consumers have added to messages, which are notes to the machine: put among a message's
//! own when it is given out again or dead-lettered.

use conversion::annotate;
use message::MessageRef;
use queue::DeliveryCounts;
use queue::machine::{Assigned, Facts, MessageNotes};
use queue_type::DeadLetter;

/// The message with what consumers have added to it, which is written to `out`.
#[inline]
pub(super) fn with_notes<'a>(
    facts: Facts<'_>,
    assigned: &Assigned,
    message: MessageRef<'a>,
    out: &'a mut Vec<u8>,
) -> MessageRef<'a> {
    // Messages with notes have come back.
    if assigned.counts == DeliveryCounts::default() {
        return message;
    }
    match MessageNotes::of(facts).at(assigned.position) {
        Some(notes) => annotate(&message, notes, out),
        None => message,
    }
}

/// The letter with what consumers have added to its message.
pub(super) fn letter_with_notes(letter: &DeadLetter, notes: &[u8]) -> DeadLetter {
    let mut out = Vec::new();
    let mut noted = DeadLetter::of(&annotate(&letter.message(), notes, &mut out), letter.reason);
    (noted.position, noted.n_before) = (letter.position, letter.n_before);
    noted
}
