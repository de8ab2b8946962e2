//! Publishers that wait for dead letters to be consumed: who answers them from now on.

use super::transfer::DeadLetter;
use crate::confirm::{AnsweringQueues, DurabilityToken};
use crate::queue::{Confirm, RefusedItem};
use log::Wal;
use session::Confirmation;

/// The confirms of letters that are about to be put into other queues. Where all of those confirm once
/// they have the message, so does the letter; others answer for themselves.
pub(super) struct LetterConfirms<'a> {
    /// By letter; none where nobody waits for any.
    letters: Vec<Shared<'a>>,
}

/// One letter somebody may wait for.
struct Shared<'a> {
    confirm: Option<&'a Confirm>,
    late: AnsweringQueues,
    /// A queue that does not answer itself did not take it.
    is_refused: bool,
}

impl<'a> LetterConfirms<'a> {
    /// Says, before any queue can answer, how many will: each comes with whether it answers itself,
    /// and the letters it is to have.
    pub(super) fn begin<'q>(
        letters: &'a [DeadLetter],
        queues: impl Iterator<Item = (bool, &'q [u32])>,
    ) -> Self {
        let shared = |letter: &'a DeadLetter| Shared {
            confirm: letter.confirm.as_ref(),
            late: AnsweringQueues::default(),
            is_refused: false,
        };
        let is_any = letters.iter().any(|letter| letter.confirm.is_some());
        let mut letters = if is_any { letters.iter().map(shared).collect() } else { Vec::new() };
        AnsweringQueues::count(&mut letters, |letter: &mut Shared<'_>| &mut letter.late, queues);
        for letter in letters.iter().filter(|it| it.late.any() && !it.late.answer_alone()) {
            if let Some(Confirm { publisher, sequence }) = letter.confirm {
                publisher.share_part(*sequence, letter.late.n());
            }
        }
        Self { letters }
    }

    /// A queue has not taken these.
    pub(super) fn note_refused(&mut self, refused: &[RefusedItem], is_late: bool) {
        if is_late {
            return AnsweringQueues::note_refused(
                &mut self.letters,
                |it| &mut it.late,
                refused.iter().map(|one| one.item),
            );
        }
        for RefusedItem { item, .. } in refused {
            if let Some(letter) = self.letters.get_mut(*item as usize) {
                letter.is_refused = true;
            }
        }
    }

    /// Answers for the queues that do not: now, or when what is awaited is durable.
    pub(super) fn end(self, wal: &Wal, awaited: &DurabilityToken) {
        for Shared { confirm, late, is_refused } in &self.letters {
            let Some(Confirm { publisher, sequence }) = confirm else { continue };
            late.answer_refused(publisher, *sequence);
            if late.answer_alone() {
                continue;
            }
            let is_lost = late.is_nowhere() || *is_refused;
            let waits = awaited.log.is_some() || !awaited.journals.is_empty();
            match () {
                () if is_lost => publisher.answer_parts(*sequence, 1, Confirmation::Nack),
                () if waits && late.any_other() => {
                    publisher.answer_when_durable(wal, awaited, *sequence);
                }
                () => publisher.answer_parts(*sequence, 1, Confirmation::Ack),
            }
        }
    }
}
