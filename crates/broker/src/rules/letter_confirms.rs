//! Publishers that wait for dead letters to be consumed: who answers them from now on.

use super::transfer::Letter;
use crate::confirm::Awaited;
use crate::queue::{Confirm, Queue, RefusedItem};
use log::Wal;
use meta::QueueId;
use session::Confirmation;
use std::collections::BTreeSet;

/// The confirms of letters that are about to be put into other queues. Where all of those confirm once
/// they have the message, so does the letter; others answer for themselves.
pub(super) struct LetterConfirms<'a> {
    /// By letter.
    letters: Vec<Shared<'a>>,
    late_queues: BTreeSet<QueueId>,
}

/// One letter somebody may wait for.
struct Shared<'a> {
    confirm: Option<&'a Confirm>,
    /// Queues it goes to.
    n_queues: u32,
    /// Of those, such that wait for their consumers.
    n_late: u32,
    /// Of the late ones, such that did not take it.
    n_late_refused: u32,
    /// Another did not take it.
    is_refused: bool,
}

impl Shared<'_> {
    /// Whether nobody but one late queue has a part in it.
    const fn is_moved(&self) -> bool {
        self.n_queues == 1 && self.n_late == 1
    }
}

impl<'a> LetterConfirms<'a> {
    /// Says, before any queue can answer, how many will.
    pub(super) fn begin<'q>(
        letters: &'a [Letter],
        groups: impl Iterator<Item = (&'q Queue, &'q [u32])>,
    ) -> Self {
        let shared = |letter: &'a Letter| Shared {
            confirm: letter.confirm.as_ref(),
            n_queues: 0,
            n_late: 0,
            n_late_refused: 0,
            is_refused: false,
        };
        let is_any = letters.iter().any(|letter| letter.confirm.is_some());
        let letters = if is_any { letters.iter().map(shared).collect() } else { Vec::new() };
        let mut this = Self { letters, late_queues: BTreeSet::new() };
        for (queue, items) in groups {
            let is_late = queue.confirm_on().is_late();
            if is_late {
                this.late_queues.insert(queue.id());
            }
            for item in items {
                if let Some(letter) = this.letters.get_mut(*item as usize) {
                    letter.n_queues += 1;
                    letter.n_late += u32::from(is_late);
                }
            }
        }
        for letter in this.letters.iter().filter(|it| it.n_late > 0 && !it.is_moved()) {
            if let Some(Confirm { publisher, sequence }) = letter.confirm {
                publisher.share_part(*sequence, letter.n_late);
            }
        }
        this
    }

    pub(super) fn is_late(&self, queue: QueueId) -> bool {
        self.late_queues.contains(&queue)
    }

    pub(super) fn note_refused(&mut self, refused: &[RefusedItem], is_late: bool) {
        for RefusedItem { item, .. } in refused {
            if let Some(letter) = self.letters.get_mut(*item as usize) {
                letter.n_late_refused += u32::from(is_late);
                letter.is_refused |= !is_late;
            }
        }
    }

    /// Answers for the queues that do not: now, or when what is awaited is durable.
    pub(super) fn end(self, wal: &Wal, awaited: &Awaited) {
        for letter in &self.letters {
            let Some(Confirm { publisher, sequence }) = letter.confirm else { continue };
            let answer = |n, answer| {
                if n > 0 {
                    publisher.answer_parts(*sequence, n, answer);
                }
            };
            if letter.n_late_refused > 0 {
                answer(letter.n_late_refused, Confirmation::Nack);
            }
            if letter.is_moved() {
                continue;
            }
            let is_lost = letter.n_queues == 0 || letter.is_refused;
            let waits = awaited.log.is_some() || !awaited.journals.is_empty();
            match () {
                () if is_lost => answer(1, Confirmation::Nack),
                () if waits && letter.n_queues > letter.n_late => {
                    publisher.answer_when_durable(wal, awaited, *sequence);
                }
                () => answer(1, Confirmation::Ack),
            }
        }
    }
}
