//! Deliveries that are settled with changes: annotations are merged into those that consumers added before.

use super::turn::Turn;
use conversion::merge_annotations;
use queue::machine::{Command, Items, MessageNotes, Modify, NOTE_BYTES_MAX, NumberRange, Outcome};
use session::{MessageChanges, Settle};

/// A consumer settles deliveries, in this order, with changes to their messages.
pub(crate) fn modify(
    turn: &mut Turn<'_>,
    consumer: u64,
    outcome: Outcome,
    settles: &[Settle],
    changes: &MessageChanges,
) {
    let MessageChanges { annotations, until_ms } = changes;
    let is_too_long = annotations.len() > NOTE_BYTES_MAX;
    if is_too_long {
        turn.work.effects.n_unnoted += settles.len() as u64;
    }
    let added = if is_too_long { &[] } else { &annotations[..] };
    let first_notes = merge_annotations(&[], added);
    let (notes, numbers) = (&[][..], Items::Slice(&[][..]));
    let modify = Modify { consumer, outcome, until_ms: *until_ms, notes, numbers };
    // Deliveries of messages without earlier notes, which all get the same.
    let mut run = Vec::new();
    for Settle { position, .. } in settles {
        let delivery = NumberRange::one(position.0);
        let kept = MessageNotes::of(turn.state.machine.facts());
        let kept = (!kept.is_empty() && !first_notes.is_empty())
            .then(|| kept.held(consumer, position.0))
            .flatten();
        let Some(kept) = kept else {
            run.push(delivery);
            continue;
        };
        let mut notes = merge_annotations(kept, added);
        if notes.len() > NOTE_BYTES_MAX {
            turn.work.effects.n_unnoted += 1;
            notes.clear();
        }
        apply_to_each(turn, &modify, &first_notes, &run);
        run.clear();
        apply_to_each(turn, &modify, &notes, &[delivery]);
    }
    apply_to_each(turn, &modify, &first_notes, &run);
}

fn apply_to_each(
    turn: &mut Turn<'_>,
    modify: &Modify<'_>,
    notes: &[u8],
    deliveries: &[NumberRange],
) {
    if !deliveries.is_empty() {
        let numbers = Items::Slice(deliveries);
        turn.apply(&Command::Modify(Modify { notes, numbers, ..*modify }));
    }
}
