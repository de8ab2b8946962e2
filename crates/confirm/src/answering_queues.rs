//! Queues that answer a message themselves: how many of a message's queues do, and how many of those did not
//! take it. For publishes and dead letters alike, for each message of a batch.

use super::{Confirmation, Publisher};
use session::RefusedBy;

/// The queues of one message, counted if any queue of its batch answers itself; otherwise all counts are 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnsweringQueues {
    n_queues: u32,
    /// Queues that answer the message themselves.
    n_answering: u32,
    /// Answering queues that did not take the message.
    n_refused: u32,
}

impl AnsweringQueues {
    /// Counts the queues of the messages in `table`: each queue comes with whether it answers itself, and
    /// with the indexes of its messages.
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

    /// Notes messages that a queue which answers itself has not taken, by their indexes.
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

    /// Whether any answering queue has not taken the message.
    pub const fn any_refused(self) -> bool {
        self.n_refused > 0
    }

    /// Number of queues that answer themselves.
    pub const fn n(self) -> u32 {
        self.n_answering
    }

    /// Whether there is only one queue, and it answers itself.
    pub const fn answer_alone(self) -> bool {
        self.n_answering == 1 && self.n_queues == 1
    }

    /// Answers for the queues that did not take the message, one of which is told.
    pub fn answer_refused(self, publisher: &Publisher, sequence: u64, by: RefusedBy<'_>) {
        if self.any_refused() {
            publisher.answer_parts(sequence, self.n_refused, Confirmation::Refused(by));
        }
    }
}
