//! A message that goes to several queues, some of which answer for themselves: how many, and how many of
//! those did not take it. Of publishes and dead letters alike, for each of a batch.

use super::{Confirmation, Publisher};

/// Who answers a message, if any of its queues does so itself; else nothing is known of publishes.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnsweringQueues {
    n_queues: u32,
    /// Of those, such that answer themselves.
    n_answering: u32,
    /// Of the latter, such that did not take it.
    n_refused: u32,
}

impl AnsweringQueues {
    /// Counts the queues of the messages in `table`: each comes with whether it answers itself and
    /// with the places of its messages.
    pub fn count<'g, T>(
        table: &mut [T],
        answering_of: impl Fn(&mut T) -> &mut Self,
        queues: impl Iterator<Item = (bool, &'g [u32])>,
    ) {
        for (answers, items) in queues {
            for item in items {
                if let Some(of_message) = table.get_mut(*item as usize).map(&answering_of) {
                    of_message.n_queues += 1;
                    of_message.n_answering += u32::from(answers);
                }
            }
        }
    }

    /// Of a queue that answers itself: it has not taken these.
    #[cold]
    pub fn note_refused<T>(
        table: &mut [T],
        answering_of: impl Fn(&mut T) -> &mut Self,
        refused: impl Iterator<Item = u32>,
    ) {
        for item in refused {
            if let Some(of_message) = table.get_mut(item as usize).map(&answering_of) {
                of_message.n_refused += 1;
            }
        }
    }

    /// Whether any queue answers itself.
    pub const fn any(self) -> bool {
        self.n_answering > 0
    }

    /// Whether one that does has not taken the message.
    pub const fn any_refused(self) -> bool {
        self.n_refused > 0
    }

    /// How many do.
    pub const fn n(self) -> u32 {
        self.n_answering
    }

    /// Whether there is only one queue, and it answers itself.
    pub const fn answer_alone(self) -> bool {
        self.n_answering == 1 && self.n_queues == 1
    }

    /// Answers for those that did not take the message.
    pub fn answer_refused(self, publisher: &Publisher, sequence: u64) {
        if self.any_refused() {
            publisher.answer_parts(sequence, self.n_refused, Confirmation::Nack);
        }
    }
}
